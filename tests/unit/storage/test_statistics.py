import math
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.words.bounds import soundness
from leasehold.core.words.records import ColumnStatistics
from leasehold.limits.segments import STATISTIC_CHARACTERS_MAX
from leasehold.storage.statistics import cut_bound

from .rows import VALUES, batch_of, encode, field

NAN, INFINITY = math.nan, math.inf


def statistics(path: Path, kind: str, values: list[object], row_group_rows: int = 2) -> ColumnStatistics:
    fields = [field(7, "x", kind)]
    return encode(path, fields, [batch_of(fields, [values])], row_group_rows=row_group_rows).statistics[0]


@pytest.mark.parametrize(
    ("kind", "values", "nulls", "minimum", "maximum"),
    [
        ("BOOLEAN", [True, None, False], 1, False, True),
        ("TINYINT", [-128, 127], 0, -128, 127),
        ("BIGINT", [5, None, None, None, -(2**63), 2**63 - 1], 3, -(2**63), 2**63 - 1),
        ("DOUBLE", [1.5, -2.5, None], 1, -2.5, 1.5),
        ("DOUBLE", [1.0, 2.0, 3.0, NAN], 0, None, None),
        ("FLOAT", [NAN], 0, None, None),
        ("DOUBLE", [1.0, INFINITY], 0, 1.0, None),
        ("DOUBLE", [-INFINITY, 1.0], 0, None, 1.0),
        ("DECIMAL(9,2)", [Decimal("-1.50"), Decimal("100.00"), Decimal("20.00")], 0, "-1.50", "100.00"),
        ("DECIMAL(38,38)", [Decimal("1E-38")], 0, "0." + "0" * 37 + "1", "0." + "0" * 37 + "1"),
        ("STRING", ["b", "a", None, "é"], 1, "a", "é"),
        ("STRING", ["", "\uffff", "\U0001f600"], 0, "", "\U0001f600"),
        ("STRING", ["x" * 100], 0, "x" * STATISTIC_CHARACTERS_MAX, "x" * (STATISTIC_CHARACTERS_MAX - 1) + "y"),
        ("STRING", ["x" * 100_000], 0, None, None),
        ("BINARY", [b"a", None], 1, None, None),
        ("DATE", [-5, 3], 0, -5, 3),
        ("TIMESTAMP", [-(2**63) + 1, 2**63 - 1, None], 1, -(2**63) + 1, 2**63 - 1),
        ("INT", [None, None, None], 3, None, None),
        ("INT", [], 0, None, None),
    ],
)
def test_bounds(tmp_path: Path, kind: str, values: list[object], nulls: int, minimum: object, maximum: object) -> None:
    found = statistics(tmp_path / "s", kind, values)
    assert found == ColumnStatistics(field=found.field, nulls=nulls, minimum=minimum, maximum=maximum)  # type: ignore[arg-type]
    assert found.field == 7
    assert type(found.minimum) is type(minimum)
    assert soundness(kind)(found, len(values))
    assert msgspec.json.decode(msgspec.json.encode(found), type=ColumnStatistics) == found


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(["TINYINT", "BIGINT", "DOUBLE", "DECIMAL(9,2)", "STRING", "DATE", "TIMESTAMP"]))
def test_no_value_lies_outside_its_bounds(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, kind: str
) -> None:
    values = data.draw(st.lists(VALUES[kind] | st.none(), max_size=12))
    found = statistics(tmp_path_factory.mktemp("bounds") / "s", kind, values, data.draw(st.integers(1, 12)))
    assert soundness(kind)(found, len(values))
    present = [one for one in values if one is not None]
    assert found.nulls == len(values) - len(present)
    as_value = Decimal if kind.startswith("DECIMAL") else (lambda bound: bound)
    if found.minimum is not None:
        assert all(as_value(found.minimum) <= one for one in present)  # type: ignore[arg-type, operator]
    if found.maximum is not None:
        assert all(as_value(found.maximum) >= one for one in present)  # type: ignore[arg-type, operator]
    if present and kind not in {"DOUBLE", "STRING"}:
        assert None not in {found.minimum, found.maximum}


AWKWARD = st.sampled_from(["\U0010ffff", "\ud7ff", "\ue000", "\uffff", "a"])


@given(st.text(AWKWARD, min_size=STATISTIC_CHARACTERS_MAX - 2, max_size=STATISTIC_CHARACTERS_MAX + 3))
def test_a_cut_bound_still_holds_in_the_order_of_bytes(text: str) -> None:
    low, high = cut_bound(text, lower=True), cut_bound(text, lower=False)
    assert low is not None
    assert low.encode() <= text.encode()
    assert len(low) <= STATISTIC_CHARACTERS_MAX
    if high is None:
        assert text.startswith("\U0010ffff" * STATISTIC_CHARACTERS_MAX)
    else:
        assert high.encode() >= text.encode()
        assert len(high) <= STATISTIC_CHARACTERS_MAX
