import datetime
from decimal import Decimal

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.errors import Refused
from leasehold.storage.conformance import conform
from leasehold.storage.schema import arrow_schema, field_number

from .rows import VALUES, batch_of, field, same


def one_column(values: pa.Array, kind: str, *, nullable: bool = True) -> pa.Array:
    return conform(pa.RecordBatch.from_arrays([values], ["x"]), [field(1, "x", kind, nullable=nullable)]).column(0)


def test_every_type_has_its_arrow_type_field_id_and_nullability() -> None:
    kinds = ["BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(12,3)", "STRING", "BINARY"]
    fields = [field(n + 3, f"c{n}", kind, nullable=n % 2 == 0) for n, kind in enumerate([*kinds, "DATE", "TIMESTAMP"])]
    schema = arrow_schema(fields)
    assert schema.types == [
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.decimal128(12, 3),
        pa.string(),
        pa.binary(),
        pa.date32(),
        pa.timestamp("us", tz="UTC"),
    ]
    assert [one.nullable for one in schema] == [True, False] * 6
    assert [one.metadata for one in schema] == [{b"PARQUET:field_id": str(n + 3).encode()} for n in range(12)]


def test_a_batch_that_fits_is_returned_as_it_is() -> None:
    fields = [field(1, "a", "INT"), field(2, "b", "STRING", nullable=False)]
    batch = batch_of(fields, [[1, None], ["x", "y"]])
    assert conform(batch, fields) is batch


def test_columns_are_matched_by_name_and_missing_ones_are_null() -> None:
    fields = [field(4, "Tag", "STRING"), field(2, "n", "BIGINT"), field(9, "later", "DECIMAL(5,1)")]
    given_rows = pa.RecordBatch.from_pydict({"N": pa.array([7, None], pa.int8()), "TAG": ["a", "b"]})
    fitted = conform(given_rows.replace_schema_metadata({"pandas": "{}"}), fields)
    assert fitted.schema.equals(arrow_schema(fields), check_metadata=True)
    assert fitted.to_pylist() == [{"Tag": "a", "n": 7, "later": None}, {"Tag": "b", "n": None, "later": None}]


def test_what_a_writer_leaves_out_gets_its_default() -> None:
    fields = [
        field(1, "k", "INT"),
        msgspec.structs.replace(field(2, "n", "INT", nullable=False), initial="1", default="2"),
        msgspec.structs.replace(field(3, "day", "DATE"), default="20454"),
        msgspec.structs.replace(field(4, "first", "INT"), initial="1"),
    ]
    fitted = conform(pa.RecordBatch.from_pydict({"k": [7, 8]}), fields)
    assert fitted.schema.equals(arrow_schema(fields), check_metadata=True)
    assert fitted.to_pylist() == [{"k": k, "n": 2, "day": datetime.date(2026, 1, 1), "first": None} for k in (7, 8)]
    given_nulls = conform(pa.RecordBatch.from_pydict({"k": [7], "day": pa.nulls(1)}), fields)
    assert given_nulls["day"].to_pylist() == [None], "a null that is given is no column left out"


def test_a_column_of_the_right_type_is_not_copied() -> None:
    values = pa.array(range(1000))
    assert one_column(values, "BIGINT").buffers()[1].address == values.buffers()[1].address


INSTANT = datetime.datetime(2024, 2, 29, 12, 0, 0, 5, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pa.array([127, -128]), "TINYINT", [127, -128]),
        (pa.array([5], pa.uint64()), "INT", [5]),
        (pa.array([2.0, -3.0]), "INT", [2, -3]),
        (pa.array([2**53]), "DOUBLE", [float(2**53)]),
        (pa.array([1, None]), "DECIMAL(10,2)", [Decimal("1.00"), None]),
        (pa.array([0]), "DECIMAL(38,38)", [Decimal("0E-38")]),
        (pa.array([Decimal("1.50")]), "DECIMAL(4,1)", [Decimal("1.5")]),
        (pa.array([Decimal("9.000")]), "INT", [9]),
        (pa.array([1.1]), "FLOAT", [1.100000023841858]),
        (pa.array([float("inf")]), "FLOAT", [float("inf")]),
        (pa.array([None, None]), "DATE", [None, None]),
        (pa.array([INSTANT.replace(tzinfo=None)], pa.timestamp("ns")), "TIMESTAMP", [INSTANT]),
        (pa.array([INSTANT], pa.timestamp("ns", tz="Asia/Tokyo")), "TIMESTAMP", [INSTANT]),
        (pa.array([1], pa.timestamp("s")), "TIMESTAMP", [datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)]),
        (pa.array([1], pa.date32()), "TIMESTAMP", [datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC)]),
        (pa.array([86_400_000], pa.date64()), "DATE", [datetime.date(1970, 1, 2)]),
        (pa.array(["a", None, "a"]).dictionary_encode(), "STRING", ["a", None, "a"]),
        (pa.array(["a"], pa.large_string()), "STRING", ["a"]),
        (pa.array(["a"], pa.string_view()), "STRING", ["a"]),
        (pa.array([b"ab"], pa.binary(2)), "BINARY", [b"ab"]),
    ],
)
def test_values_that_fit_exactly_are_cast(values: pa.Array, kind: str, expected: list[object]) -> None:
    assert one_column(values, kind).to_pylist() == expected


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([128]), "TINYINT"),
        (pa.array([2**31]), "INT"),
        (pa.array([2**63], pa.uint64()), "BIGINT"),
        (pa.array([1.5]), "INT"),
        (pa.array([float("nan")]), "BIGINT"),
        (pa.array([2.0**63]), "BIGINT"),
        (pa.array([2**53 + 1]), "DOUBLE"),
        (pa.array([1e39]), "FLOAT"),
        (pa.array([10**8]), "DECIMAL(10,2)"),
        (pa.array([Decimal("1.55")]), "DECIMAL(10,1)"),
        (pa.array([Decimal("1.5")]), "INT"),
        (pa.array([1.5]), "DECIMAL(10,2)"),
        (pa.array([Decimal("1.5")]), "DOUBLE"),
        (pa.array(["5"]), "INT"),
        (pa.array([5]), "STRING"),
        (pa.array([5]), "TIMESTAMP"),
        (pa.array([5]), "BOOLEAN"),
        (pa.array([True]), "INT"),
        (pa.array([b"a"]), "STRING"),
        (pa.array(["a"]), "BINARY"),
        (pa.array([0], pa.timestamp("us")), "DATE"),
        (pa.array([1], pa.timestamp("ns")), "TIMESTAMP"),
        (pa.array([2**31 - 1], pa.date32()), "TIMESTAMP"),
        (pa.array([1], pa.time64("us")), "BIGINT"),
        (pa.array([[1]]), "INT"),
    ],
)
def test_values_that_would_change_are_refused(values: pa.Array, kind: str) -> None:
    with pytest.raises(Refused, match="'x'") as refused:
        one_column(values, kind)
    assert refused.value.code == "ROWS_DO_NOT_FIT"
    assert str(values.type) in refused.value.text
    assert refused.value.hint


def refusal(batch: pa.RecordBatch, *fields: object) -> Refused:
    with pytest.raises(Refused) as refused:
        conform(batch, fields)  # type: ignore[arg-type]
    assert refused.value.code == "ROWS_DO_NOT_FIT"
    return refused.value


def test_columns_that_are_unknown_doubled_or_missing_are_refused() -> None:
    a, b = field(1, "a", "BIGINT"), field(2, "b", "BIGINT", nullable=False)
    refusal(pa.RecordBatch.from_pydict({"#1": [1], "b": [1]}), a, b)
    unknown = refusal(pa.RecordBatch.from_pydict({"a": [1], "b": [1], "c": [1]}), a, b)
    assert "'c'" in unknown.text
    assert "a, b" in unknown.hint
    assert "'A'" in refusal(pa.RecordBatch.from_pydict({"a": [1], "A": [1]}), a).text
    assert "'b' is NOT NULL and missing" in refusal(pa.RecordBatch.from_pydict({"a": [1]}), a, b).text


def test_a_null_where_none_may_be_is_refused_in_any_shape() -> None:
    fields = [field(1, "a", "INT", nullable=False)]
    hidden = pa.RecordBatch.from_arrays([pa.array([1, None], pa.int32())], schema=arrow_schema(fields))
    assert "1 of 2 rows" in refusal(hidden, *fields).text
    in_dictionary = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", None]))
    text = field(1, "a", "STRING", nullable=False)
    assert "1 of 2 rows" in refusal(pa.RecordBatch.from_arrays([in_dictionary], ["a"]), text).text


def test_damaged_buffers_are_refused() -> None:
    offsets = pa.py_buffer(b"\x00\x00\x00\x00\xff\x00\x00\x00\x02\x00\x00\x00")
    beyond = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(b"ab"))
    assert "not valid" in refusal(pa.RecordBatch.from_arrays([beyond], ["x"]), field(1, "x", "STRING")).text
    no_text = pa.StringArray.from_buffers(
        1, pa.py_buffer(b"\x00\x00\x00\x00\x02\x00\x00\x00"), pa.py_buffer(b"\xff\xfe")
    )
    assert "not valid" in refusal(pa.RecordBatch.from_arrays([no_text], ["x"]), field(1, "x", "STRING")).text


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200), max_size=6), st.sampled_from([8, 16, 32]))
def test_integers_narrow_exactly_when_all_fit(values: list[int], bits: int) -> None:
    kind = {8: "TINYINT", 16: "SMALLINT", 32: "INT"}[bits]
    if all(-(2 ** (bits - 1)) <= one < 2 ** (bits - 1) for one in values):
        assert one_column(pa.array(values, pa.int64()), kind).to_pylist() == values
    else:
        with pytest.raises(Refused):
            one_column(pa.array(values, pa.int64()), kind)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(sorted(VALUES)))
def test_a_slice_conforms_to_the_same_slice(data: st.DataObject, kind: str) -> None:
    values = data.draw(st.lists(VALUES[kind] | st.none(), min_size=3, max_size=12))
    whole = batch_of([field(1, "x", kind)], [values])
    named = pa.RecordBatch.from_arrays(whole.columns, ["X"]).slice(1, len(values) - 2)
    assert same(conform(named, [field(1, "x", kind)]), whole.slice(1, len(values) - 2))


@pytest.mark.parametrize(
    ("written", "read"), [(b"7", 7), (b"", None), (b"-1", None), (b"x", None), (b"1" * 5_000, None)]
)
def test_a_field_id_that_is_none_is_no_field_id(written: bytes, read: int | None) -> None:
    assert field_number(pa.field("x", pa.int64(), metadata={b"PARQUET:field_id": written})) == read


@pytest.mark.parametrize("kind", ["BIGINT", "DECIMAL(38,0)", "DECIMAL(10,2)"])
@pytest.mark.parametrize("scale", [-1, -40, -1_000, -25_165_822, 39, 10**9])
def test_decimals_of_scales_out_of_range_are_not_cast(kind: str, scale: int) -> None:
    """Arrow 25 takes their power of ten from memory beyond its table, or dies."""
    odd = pa.decimal128(38, scale)
    values = pa.Array.from_buffers(odd, 1, [None, pa.py_buffer((1).to_bytes(16, "little"))])
    with pytest.raises(Refused) as caught:
        one_column(values, kind)
    assert caught.value.code == "ROWS_DO_NOT_FIT"
