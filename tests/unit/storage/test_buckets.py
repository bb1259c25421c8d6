import hashlib
import math
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.errors import Refused
from leasehold.limits.statements import BUCKETS_MAX
from leasehold.storage.buckets import bucket_numbers, split
from tests.few import examples

from .rows import VALUES, batch_of, column, field, same

MASK = 2**64 - 1


def mix(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def chain(value: bytes) -> int:
    if len(value) > 256:
        return int.from_bytes(hashlib.blake2b(value, digest_size=8).digest(), "little")
    hashed = mix(len(value))
    for start in range(0, len(value), 8):
        hashed = mix(hashed ^ int.from_bytes(value[start : start + 8], "little"))
    return hashed


def by_hand(kind: str, value: object, buckets: int) -> int:
    """The module's text, one value at a time."""
    match value:
        case None:
            return 0
        case float():
            bits = 0x7FF8000000000000 if math.isnan(value) else struct.unpack("<Q", struct.pack("<d", value + 0.0))[0]
            return mix(bits) % buckets
        case str():
            return chain(value.encode()) % buckets
        case bytes():
            return chain(value) % buckets
        case Decimal():
            sign, digits, power = value.as_tuple()
            number = int("".join(map(str, digits))) * (-1 if sign else 1)
            while number and number % 10 == 0:
                number, power = number // 10, power + 1  # type: ignore[operator]
            return chain(f"{number}e{power if number else 0}".encode()) % buckets
        case int():
            return mix(value & MASK) % buckets
        case _:
            raise AssertionError(kind)


GOLDEN: list[tuple[str, list[object], list[int]]] = [
    ("BOOLEAN", [False, True, None], [535, 465, 0]),
    ("TINYINT", [-128, 0, 5], [697, 535, 618]),
    ("INT", [5, -1], [618, 936]),
    ("BIGINT", [5, 9223372036854775807, -9223372036854775808], [618, 39, 915]),
    ("FLOAT", [1.5, 0.25], [770, 764]),
    ("DOUBLE", [1.5, 0.1, -0.0, math.nan, math.inf], [770, 69, 535, 918, 785]),
    ("DECIMAL(9,2)", [Decimal("1.50"), Decimal("-100.00"), Decimal(0)], [610, 627, 151]),
    ("STRING", ["", "a", "sensor-0001", "smørrebrød", "x" * 256, "x" * 257], [535, 102, 553, 819, 584, 636]),
    ("BINARY", [b"", b"\x00", b"\x00\x00", bytes(range(64))], [535, 158, 636, 629]),
    ("DATE", [0, 19782], [535, 229]),
    ("TIMESTAMP", [0, 1709208000000005], [535, 852]),
]


@pytest.mark.parametrize(("kind", "values", "expected"), GOLDEN)
def test_golden_buckets(kind: str, values: list[object], expected: list[int]) -> None:
    """Stored data depends on these numbers: they are never edited."""
    assert bucket_numbers(column(kind, values), 1_000).tolist() == expected


@settings(max_examples=examples(120), deadline=None)
@given(st.data(), st.sampled_from(sorted(VALUES)), st.integers(1, BUCKETS_MAX))
def test_the_fast_way_is_the_written_rule(data: st.DataObject, kind: str, buckets: int) -> None:
    long = {"STRING": st.text(max_size=400), "BINARY": st.binary(max_size=400)}.get(kind, VALUES[kind])
    values = data.draw(st.lists(VALUES[kind] | long | st.none(), max_size=12))
    found = bucket_numbers(column(kind, values), buckets)
    assert found.dtype == np.int32
    assert found.tolist() == [by_hand(kind, one, buckets) for one in values]
    assert bucket_numbers(column(kind, values).slice(3), buckets).tolist() == found.tolist()[3:]


@pytest.mark.parametrize(
    ("narrow", "wide", "values"),
    [
        ("TINYINT", "BIGINT", [-128, -1, 0, 5, 127, None]),
        ("SMALLINT", "INT", [-(2**15), 300, None]),
        ("INT", "BIGINT", [-(2**31), 2**31 - 1, 5]),
        ("FLOAT", "DOUBLE", [1.5, -0.0, math.nan, math.inf, 0.1, None]),
        ("DECIMAL(9,2)", "DECIMAL(38,10)", [Decimal("1.50"), Decimal("-100.00"), Decimal(0), None]),
    ],
)
def test_widening_moves_no_row(narrow: str, wide: str, values: list[object]) -> None:
    narrowed = column(narrow, values)
    assert bucket_numbers(narrowed, 997).tolist() == bucket_numbers(narrowed.cast(column(wide, []).type), 997).tolist()


def test_equal_floats_share_a_bucket_whatever_their_bits() -> None:
    nans = struct.pack("<4d", math.nan, -math.nan, 0.0, -0.0)
    signalling = struct.pack("<Q", 0x7FF0000000000001)
    values = pa.Array.from_buffers(pa.float64(), 5, [None, pa.py_buffer(nans + signalling)])
    a, b, zero, minus_zero, c = bucket_numbers(values, BUCKETS_MAX).tolist()
    assert a == b == c
    assert zero == minus_zero


def test_keys_spread_evenly() -> None:
    for keys in (pa.array(range(32_000)), pa.array([f"sensor-{n:05d}" for n in range(32_000)])):
        counts = np.bincount(bucket_numbers(keys, 32))
        assert counts.min() > 850
        assert counts.max() < 1_150


def test_types_that_no_table_has_are_refused() -> None:
    with pytest.raises(Refused, match="list") as refused:
        bucket_numbers(pa.array([[1]]), 4)
    assert refused.value.code == "BAD_TYPE"


FIELDS = [field(1, "n", "BIGINT"), field(2, "key", "STRING")]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c", "d", None]), max_size=30), st.integers(1, 8))
def test_split_keeps_every_row_and_its_order(keys: list[str | None], buckets: int) -> None:
    batch = batch_of(FIELDS, [list(range(len(keys))), list(keys)])
    parts = split(batch, 1, buckets)
    numbers = bucket_numbers(batch.column(1), buckets).tolist()
    assert sorted(parts) == sorted(set(numbers))
    for number, part in parts.items():
        rows = [n for n, one in enumerate(numbers) if one == number]
        assert same(part, batch.take(pa.array(rows)))
        assert part.schema.equals(batch.schema, check_metadata=True)


def test_split_copies_nothing_when_all_rows_stay_together() -> None:
    batch = batch_of(FIELDS, [[1, 2], ["a", "a"]])
    assert list(split(batch, 1, 16).values()) == [batch]
    assert next(iter(split(batch, 1, 16).values())) is batch
    assert split(batch, 1, 1)[0] is batch  # type: ignore[index]
    assert split(batch.slice(0, 0), 1, 16) == {}
