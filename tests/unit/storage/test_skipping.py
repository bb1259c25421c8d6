"""Conditions on rows: all rows that fulfil them are found, whatever is passed over by statistics."""

import math
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.data.filters import holds_only, may_hold
from leasehold.core.words.messages import FieldFilter
from leasehold.core.words.records import SegmentFormat, SegmentRecord
from leasehold.ids import BucketNumber, NodeId, ObjectId, SchemaVersion, SegmentId
from leasehold.storage.comparisons import matching
from leasehold.storage.segment import Most, read_rows
from tests.unit.storage.rows import VALUES, batch_of, batches, encode, field, plain

COMPARISONS = ("=", "<", "<=", ">", ">=")


def spelled(kind: str, value: object) -> str | None:
    """As `core.words.literals` spells it; None for what no literal can be."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value) if math.isfinite(value) else None
        case Decimal():
            return f"{value:f}"
        case bytes():
            return value.hex()
        case _:
            return str(value)


@st.composite
def conditions(draw: st.DrawFn, kind: str, known: list[object]) -> FieldFilter:
    """On the column of the rows; mostly with a value that is in them."""
    values = st.sampled_from(known) if known else st.nothing()
    values = (values | VALUES[kind]).filter(lambda one: spelled(kind, one) is not None)
    operators = ["IS NULL", "IS NOT NULL", "IN", *COMPARISONS, *(["STARTS WITH"] if kind == "STRING" else [])]
    operator = draw(st.sampled_from(operators))
    match operator:
        case "IS NULL" | "IS NOT NULL":
            found: list[object] = []
        case "IN":
            found = draw(st.lists(values, min_size=1, max_size=3))
        case "STARTS WITH":
            found = [draw(st.text(max_size=2) | values.map(lambda one: str(one)[:3]))]
        case _:
            found = [draw(values)]
    texts = tuple(str(spelled(kind, one)) for one in found)
    return FieldFilter(field=field(1, "x", kind), operator=operator, values=texts)


def fulfils(value: object, kind: str, one: FieldFilter) -> bool:
    """What a condition means, by Python's own comparisons."""
    if one.operator in {"IS NULL", "IS NOT NULL"}:
        return (value is None) == (one.operator == "IS NULL")
    if value is None:
        return False
    if one.operator == "STARTS WITH":
        return str(value).startswith(one.values[0])
    if one.operator == "IN":
        return any(fulfils(value, kind, FieldFilter(field=one.field, operator="=", values=(x,))) for x in one.values)
    if isinstance(value, float) and math.isnan(value):
        return one.operator in {">", ">="}
    other = {
        "BOOLEAN": lambda text: text == "true",
        "FLOAT": float,
        "DOUBLE": float,
        "DECIMAL(38,10)": Decimal,
        "DECIMAL(9,2)": Decimal,
        "STRING": str,
        "BINARY": bytes.fromhex,
    }.get(kind, int)(one.values[0])
    return {
        "=": value == other,
        "<": value < other,
        "<=": value <= other,
        ">": value > other,
        ">=": value >= other,
    }[one.operator]


def segment_with(statistics: tuple, rows: int) -> SegmentRecord:
    return SegmentRecord(
        id=SegmentId("0" * 32),
        table=ObjectId(1),
        bucket=BucketNumber(0),
        schema_version=SchemaVersion(1),
        rows=rows,
        size_bytes=1,
        sha256=b"h" * 32,
        statistics=statistics,
        holders=(NodeId(1),),
    )


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(sorted(VALUES)))
def test_no_row_that_fulfils_the_conditions_is_passed_over(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, kind: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "skipping"
    fields = (field(1, "x", kind),)
    rows = data.draw(batches(kind))
    in_format = data.draw(st.sampled_from(SegmentFormat))
    encoded = encode(path, list(fields), rows, in_format=in_format, row_group_rows=data.draw(st.integers(1, 9)))
    values = [value for one in rows for value in plain(one.column(0)).to_pylist()]
    known = [one for one in values if one is not None]
    where = tuple(data.draw(st.lists(conditions(kind, known), min_size=1, max_size=3)))
    offset = data.draw(st.integers(0, len(values)))
    wanted = [one for one in values if all(fulfils(one, kind, test) for test in where)]
    if wanted:
        assert may_hold(where, [segment_with(encoded.statistics, encoded.rows)])
    if holds_only(where)(segment_with(encoded.statistics, encoded.rows)):
        assert len(wanted) == len(values)
    found, at = [], offset
    for read in read_rows(path, fields, where, row_offset=offset, most=Most(data.draw(st.integers(1, 9)))):
        at += read.rows
        found += plain(matching(read.batch, fields, where).column(0)).to_pylist()
    assert at == len(values), "each row of the file is counted"
    assert repr(found) == repr([one for one in values[offset:] if all(fulfils(one, kind, test) for test in where)])


@pytest.mark.parametrize(("initial", "operator", "values", "there"), [
    ("7", "=", ("7",), True),
    ("7", "=", ("8",), False),
    ("7", "IN", ("8", "7"), True),
    ("7", "IS NULL", (), False),
    ("7", "IS NOT NULL", (), True),
    (None, "=", ("7",), False),
    (None, "IS NULL", (), True),
    (None, "IS NOT NULL", (), False),
])  # fmt: skip
def test_a_file_from_before_a_column_was_there_has_its_first_value(
    tmp_path: Path, initial: str | None, operator: str, values: tuple[str, ...], there: bool
) -> None:
    later = msgspec.structs.replace(field(2, "y", "INT"), initial=initial)
    encoded = encode(tmp_path / "s", [field(1, "x", "INT")], [batch_of([field(1, "x", "INT")], [[1, 2]])])
    where = (FieldFilter(field=later, operator=operator, values=values),)
    fields = (field(1, "x", "INT"), later)
    assert bool(may_hold(where, [segment_with(encoded.statistics, 2)])) == there
    found = [matching(one.batch, fields, where).num_rows for one in read_rows(tmp_path / "s", fields, where)]
    assert found == [2 if there else 0]


def test_row_groups_without_such_rows_are_not_decoded(tmp_path: Path) -> None:
    fields = (field(1, "x", "INT"),)
    encode(tmp_path / "s", list(fields), [batch_of(list(fields), [list(range(1_000))])], row_group_rows=100)
    where = (FieldFilter(field=fields[0], operator="=", values=("555",)),)
    found = list(read_rows(tmp_path / "s", fields, where))
    assert [(one.batch.num_rows, one.rows) for one in found] == [(100, 600), (0, 400)]
    assert [one.rows for one in read_rows(tmp_path / "s", fields, where, row_offset=610)] == [390]


@given(st.data(), st.sampled_from(SegmentFormat), st.permutations(range(4)))
@settings(max_examples=60, deadline=None)
def test_conditions_follow_columns_whose_names_went_to_others(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, in_format: SegmentFormat, order: list[int]
) -> None:
    """Columns renamed to the old names of others, or dropped and added again: no row group is judged by a stranger."""
    path = tmp_path_factory.getbasetemp() / "swapped"
    before = [field(number, name, "INT") for number, name in enumerate("abc", 1)]
    rows = [[100 * place + number for number in range(12)] for place in range(3)]
    encode(path, before, [batch_of(before, rows)], in_format=in_format, row_group_rows=4)
    # Number 4 is not in the file, and takes the name of a column that is.
    now = tuple(field(1 + number, name, "INT") for number, name in zip(order, "abcd", strict=True))
    one = data.draw(st.sampled_from(now))
    held = [*rows, [None] * 12][one.id - 1]
    operator = data.draw(st.sampled_from(["=", "<", ">=", "IS NULL"]))
    values = () if operator == "IS NULL" else (str(data.draw(st.integers(-1, 312))),)
    where = (FieldFilter(field=one, operator=operator, values=values),)
    found = [row for read in read_rows(path, now, where) for row in matching(read.batch, now, where).to_pylist()]
    columns = {each.name: [*rows, [None] * 12][each.id - 1] for each in now}
    wanted = [place for place, value in enumerate(held) if fulfils(value, "INT", where[0])]
    assert found == [{name: values[place] for name, values in columns.items()} for place in wanted]


def test_nan_is_greater_than_the_bounds_in_a_file(tmp_path: Path) -> None:
    fields = (field(1, "x", "DOUBLE"),)
    encode(tmp_path / "s", list(fields), [batch_of(list(fields), [[1.0, math.nan]])])
    for operator, rows in ((">", 1), (">=", 1), ("=", 0), ("<", 1)):
        where = (FieldFilter(field=fields[0], operator=operator, values=("2.0",)),)
        read = [matching(one.batch, fields, where).num_rows for one in read_rows(tmp_path / "s", fields, where)]
        assert sum(read) == rows, operator
