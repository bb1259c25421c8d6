"""Which segments a DELETE concerns, as far as their statistics tell."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.replicas.rewrite import concern
from leasehold.core.words.records import ColumnStatistics, Comparison, DeleteRecord, Field, SegmentRecord, UseState
from tests.unit.core.data.write_words import TABLE

FIELDS = {
    1: Field(id=1, name="a", type="INT", nullable=True, state=UseState.IN_USE),
    2: Field(id=2, name="b", type="INT", nullable=False, state=UseState.IN_USE, initial="7"),
    3: Field(id=3, name="c", type="STRING", nullable=True, state=UseState.IN_USE),
    4: Field(id=4, name="d", type="DECIMAL(9,2)", nullable=True, state=UseState.IN_USE),
    5: Field(id=5, name="e", type="BINARY", nullable=True, state=UseState.IN_USE),
    6: Field(id=6, name="f", type="BOOLEAN", nullable=True, state=UseState.IN_USE),
    7: Field(id=7, name="g", type="DOUBLE", nullable=True, state=UseState.IN_USE),
}


def known(field, low, high, nulls=0):
    statistics = (ColumnStatistics(field=field, nulls=nulls, minimum=low, maximum=high),)
    return SegmentRecord(
        id="s",
        table=TABLE,
        bucket=0,
        schema_version=1,
        rows=10,
        size_bytes=1,
        sha256=b"",
        statistics=statistics,
        holders=(),
    )


def concerned(segment, *where, number=1):
    comparisons = tuple(Comparison(field=field, operator=sign, value=value) for field, sign, value in where)
    delete = DeleteRecord(table=TABLE, number=number, state=UseState.IN_USE, where=comparisons)
    return concern(delete, FIELDS)(segment)


@given(st.integers(-5, 5), st.integers(-5, 5), st.integers(-6, 6), st.sampled_from(["=", "<", "<=", ">", ">="]))
def test_a_segment_with_a_row_that_goes_is_concerned(low, high, value, sign):
    """Between the bounds every value may be there."""
    low, high = sorted((low, high))
    holds = {"=": int.__eq__, "<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__}[sign]
    wanted = any(holds(one, value) for one in range(low, high + 1))
    assert concerned(known(1, low, high), (1, sign, str(value))) is wanted


@pytest.mark.parametrize(
    ("segment", "where", "wanted"),
    [
        (known(3, "a", "c"), (3, "=", "b"), True),
        (known(3, "a", "c"), (3, "=", "ca"), False),
        (known(4, "-1.50", "10.00"), (4, "=", "9.00"), True),
        (known(4, "-1.50", "10.00"), (4, ">", "10.00"), False),
        (known(4, "-1.50", "10.00"), (4, "<", "-1.49"), True),
        (known(6, False, False), (6, "=", "true"), False),
        (known(6, False, True), (6, "=", "true"), True),
        (known(7, 0, 1.5), (7, ">=", "1.5"), True),
        (known(7, None, None), (7, ">=", "1e300"), True),
        (known(5, None, None), (5, "=", "00"), True),
        (known(1, None, None, nulls=10), (1, "=", "1"), False),
        (known(1, 1, 1, nulls=9), (1, "=", "1"), True),
        (known(1, 1, 1), (2, "=", "7"), True),
        (known(1, 1, 1), (2, "=", "8"), False),
        (known(1, 1, 1), (3, "=", ""), False),
        (known(1, 1, 1), (99, "=", "1"), False),
    ],
)
def test_statistics_rule_out_what_they_can(segment, where, wanted):
    """A column that is not in the file has its first value in each row, and NULL fulfils nothing."""
    assert concerned(segment, where) is wanted


def test_all_comparisons_must_be_possible_and_the_segment_older():
    one = known(1, 1, 5)
    assert concerned(one, (1, "=", "3"), (2, "=", "7"))
    assert not concerned(one, (1, "=", "3"), (2, "=", "8"))
    assert not concerned(msgspec.structs.replace(one, deletes=4), (1, "=", "3"), number=4)
    assert concerned(msgspec.structs.replace(one, deletes=3), (1, "=", "3"), number=4)
    assert concerned(msgspec.structs.replace(one, statistics=()), (1, "=", "99")), "nothing is known"
