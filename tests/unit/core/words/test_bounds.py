"""The bounds that a commit takes from a client: only what can be true of a column's values."""

import math

import pytest

from leasehold.core.ddl import finish
from leasehold.core.replicas.rewrite import hiding
from leasehold.core.words import keys
from leasehold.core.words.bounds import soundness
from leasehold.core.words.codec import decode_message, encode
from leasehold.core.words.messages import CommitTransaction
from leasehold.core.words.records import ColumnStatistics, SegmentRecord
from leasehold.core.words.statements import Condition, DeleteRows, Literal, TableName
from leasehold.limits.segments import STATISTIC_CHARACTERS_MAX
from tests.unit.core.data.write_words import TABLE, W1, commit, ground, opened, refused, segment

ROWS = 10


def known(minimum, maximum, nulls=0):
    return ColumnStatistics(field=1, nulls=nulls, minimum=minimum, maximum=maximum)


@pytest.mark.parametrize(
    ("kind", "minimum", "maximum"),
    [
        ("BOOLEAN", False, True),
        ("TINYINT", -128, 127),
        ("INT", -(2**31), 2**31 - 1),
        ("BIGINT", -(2**63), 2**63 - 1),
        ("DATE", -(2**31), 2**31 - 1),
        ("TIMESTAMP", -(2**63), 2**63 - 1),
        ("FLOAT", -1.5, 0.0),
        ("DOUBLE", -1e308, None),
        ("DECIMAL(5,2)", "-999.99", "0.00"),
        ("DECIMAL(2,2)", "-0.99", "0.99"),
        ("DECIMAL(38,0)", "-" + "9" * 38, "9" * 38),
        ("STRING", "", "\U0010ffff" * STATISTIC_CHARACTERS_MAX),
        ("STRING", "b", "b"),
        ("BINARY", None, None),
        ("INT", None, 5),
    ],
)
def test_what_values_of_a_type_can_have_is_taken(kind, minimum, maximum):
    assert soundness(kind)(known(minimum, maximum), ROWS)


@pytest.mark.parametrize(
    ("kind", "minimum", "maximum"),
    [
        ("BOOLEAN", 0, 1),
        ("TINYINT", -129, 0),
        ("INT", "x", "x"),
        ("INT", 0, 2**31),
        ("INT", 1.0, 2.0),
        ("INT", False, True),
        ("INT", 2, 1),
        ("BIGINT", 0, 10**400),
        ("DATE", 0, 2**31),
        ("TIMESTAMP", 0, "9"),
        ("FLOAT", math.nan, math.nan),
        ("DOUBLE", 0.0, math.inf),
        ("DOUBLE", 0, 1),
        ("DOUBLE", 1.5, -1.5),
        ("DECIMAL(5,2)", "1000.00", None),
        ("DECIMAL(5,2)", "1", "2"),
        ("DECIMAL(5,2)", "2.00", "1.00"),
        ("DECIMAL(5,2)", "NaN", "Infinity"),
        ("DECIMAL(5,2)", 1.0, 2.0),
        ("DECIMAL(38,0)", "1e5", None),
        ("STRING", 1, 2),
        ("STRING", "b", "a"),
        ("STRING", "", "x" * (STATISTIC_CHARACTERS_MAX + 1)),
        ("BINARY", "", ""),
    ],
)
def test_what_they_can_not_have_is_not(kind, minimum, maximum):
    assert not soundness(kind)(known(minimum, maximum), ROWS)


@pytest.mark.parametrize(
    ("nulls", "minimum", "sound"),
    [(-1, 1, False), (0, 1, True), (9, 1, True), (10, 1, False), (10, None, True), (11, None, False)],
)
def test_nulls_are_some_of_the_rows_and_have_no_bounds(nulls, minimum, sound):
    assert soundness("INT")(known(minimum, minimum, nulls), ROWS) is sound


@pytest.mark.parametrize("bound", ["x", 1e400, True, 1.5, "1"])
def test_a_commit_whose_bounds_are_not_of_the_columns_type_is_refused(bound):
    base = opened(ground())
    forged = segment(1, statistics=(known(bound, bound),))
    request = CommitTransaction(cluster_id="c" * 32, transaction=W1, segments=(forged,))
    (travelled,) = decode_message(encode(request)).segments
    assert refused(commit, base, travelled) == "BAD_SEGMENT"


def test_a_commit_that_tells_of_a_column_twice_is_refused():
    base = opened(ground())
    assert refused(commit, base, segment(1, statistics=(known(1, 2), known(3, 4)))) == "BAD_SEGMENT"


@pytest.mark.parametrize("bound", ["x", 1e400, math.nan, "1" * 5000])
def test_a_bound_that_can_not_be_read_rules_nothing_out(bound):
    """However it got into the manifest: leader and nodes go on."""
    base = ground()
    staged = segment(1)
    record = SegmentRecord(
        id=staged.id,
        table=TABLE,
        bucket=0,
        schema_version=1,
        rows=ROWS,
        size_bytes=1,
        sha256=b"",
        statistics=(known(bound, bound),),
        holders=(1,),
    )
    base.put(keys.segment(TABLE, 0, record.id), record)
    where = (Condition(column="a", operator="=", value=Literal("number", "5")),)
    procedure = base.begin(DeleteRows(table=TableName("db", "t"), where=where))
    base.commit(finish(procedure, base.catalog))
    assert [one.number for one in hiding(TABLE, record, base.catalog)] == [1]
