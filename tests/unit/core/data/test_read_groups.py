"""What has to be done to the rows of each segment, and which segments are alike."""

import msgspec
import pytest

from leasehold.core.data.read_groups import expiry_day, members
from leasehold.core.data.scan_plan import PlanLimits, plan_scan
from leasehold.core.questions.long_lookups import takes_long
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.literals import days_from_civil
from leasehold.core.words.messages import FileColumn, PlanScan
from leasehold.core.words.records import ColumnStatistics, HorizonRecord, SegmentFormat, SegmentRecord
from leasehold.errors import Refused
from leasehold.limits.queries import READ_GROUPS_MAX
from leasehold.sql.parse import parse
from leasehold.sql.where import read_where
from tests.unit.core.ddl_words import T, ground, run

PLAN = PlanScan(cluster_id=None, name="db.t", columns=None, grouped=True)
HOUR_US = 3_600_000_000


class Grown:
    """A table `db.t`, to which statements and segments come in turn."""

    def __init__(self, columns, more=""):
        self.base = ground(*map(parse, ("CREATE DATABASE db", f"CREATE TABLE db.t ({columns}) {more}")))
        self._count = 0

    @property
    def table(self):
        return self.base.catalog.table(T)

    def sql(self, *texts):
        for text in texts:
            run(self.base, parse(text.replace(" t ", " db.t ", 1)))

    def segment(self, *bounds, nulls=0, size_bytes=1, **more):
        """A segment of ten rows: the bounds of its columns from the first on; the rest of the columns it lacks."""
        number = self._count
        self._count += 1
        statistics = tuple(
            ColumnStatistics(field=field.id, nulls=nulls, minimum=low, maximum=high)
            for field, (low, high) in zip(self.table.fields, bounds, strict=False)
        )
        record = SegmentRecord(
            id=f"{number:032x}-{number:032x}",
            table=self.table.id,
            bucket=0,
            rows=10,
            size_bytes=size_bytes,
            sha256=b"h" * 32,
            holders=(1,),
            **{
                "schema_version": self.table.schema_version,
                "statistics": statistics,
                "deletes": self.table.deletes,
                "format": SegmentFormat.FIELD_IDS,
                **more,
            },
        )
        self.base.put(keys.segment(self.table.id, 0, record.id), record)

    def plan(self, columns=None, where="", **limits):
        request = msgspec.structs.replace(PLAN, columns=columns, where=read_where(where) if where else ())
        return plan_scan(request, self.base.catalog, **limits)

    def groups(self, columns=None, where=""):
        """Each group with the numbers of its segments, by these; and the segments without one."""
        plan = self.plan(columns, where)
        found = [[int(one.id[:32], 16) for one in each] for each in members(plan)]
        rest = [int(one.id[:32], 16) for one in plan.segments[sum(map(len, found)) :]]
        return sorted(zip(plan.grouped.groups, found, strict=True), key=lambda one: one[1]), rest


def kept(number, kind, **how):
    return FileColumn(field=number, type=kind, **how)


def test_a_table_that_nothing_was_done_to_is_one_group():
    grown = Grown("k BIGINT, v STRING")
    for number in range(3):
        grown.segment((number, number), ("a", "b"))
    [(group, segments)], rest = grown.groups()
    assert (segments, rest, group.segments) == ([0, 1, 2], [], 3)
    assert group.columns == (kept(1, "BIGINT"), kept(2, "STRING"))
    assert (group.deletes, group.may_expire) == ((), False)
    plan = grown.plan()
    assert (plan.grouped.deletes, plan.grouped.fields, plan.grouped.clock) == ((), (), None)
    assert all(one.statistics == () for one in plan.segments)


def test_segments_that_lack_a_column_with_a_first_value_are_apart():
    grown = Grown("k BIGINT")
    grown.segment((1, 2))
    grown.sql("ALTER TABLE t ADD COLUMN d INT DEFAULT 7", "ALTER TABLE t ADD COLUMN e INT")
    grown.segment((1, 2))  # of a writer that did not know the column
    grown.segment((1, 2), (7, 8), (9, 9))
    grown.segment((1, 2), (7, 8))
    groups, rest = grown.groups()
    assert rest == []
    assert [(group.columns, segments) for group, segments in groups] == [
        ((kept(1, "BIGINT"), kept(2, None), kept(3, "INT")), [0, 1]),
        ((kept(1, "BIGINT"), kept(2, "INT"), kept(3, "INT")), [2, 3]),
    ]
    assert [segments for _, segments in grown.groups(("k",))[0]] == [[0, 1, 2, 3]], "d is not read"
    assert len(grown.groups(("k",), "d IS NOT NULL")[0]) == 2, "d is read for the condition"


def test_a_group_has_one_set_of_stored_types():
    grown = Grown("k TINYINT, p DECIMAL(4,2)")
    grown.segment((1, 2), ("1.00", "2.00"))
    grown.sql("ALTER TABLE t ALTER COLUMN k TYPE SMALLINT")
    grown.segment((1, 2), ("1.00", "2.00"))
    grown.sql("ALTER TABLE t ALTER COLUMN k TYPE BIGINT", "ALTER TABLE t RENAME COLUMN p TO q")
    grown.sql("ALTER TABLE t ALTER COLUMN q TYPE DECIMAL(38,2)")
    grown.segment((1, 2), ("1.00", "2.00"))
    groups, _ = grown.groups()
    stored = [(tuple(one.type for one in group.columns), segments) for group, segments in groups]
    assert stored == [
        (("TINYINT", "DECIMAL(4,2)"), [0]),
        (("SMALLINT", "DECIMAL(4,2)"), [1]),
        (("BIGINT", "DECIMAL(38,2)"), [2]),
    ]
    assert [segments for _, segments in grown.groups(("q",))[0]] == [[0, 1], [2]]


NAN = (None, None)
DAY, DAY_US = days_from_civil(1901, 1, 1), days_from_civil(1901, 1, 1) * 24 * HOUR_US


@pytest.mark.parametrize(
    ("kind", "plain", "lost"),
    [
        ("DOUBLE", (1.0, 2.0), NAN),
        ("FLOAT", (1.0, 2.0), NAN),
        ("DATE", (DAY, DAY + 1), (DAY - 1, DAY + 1)),
        ("TIMESTAMP", (DAY_US, DAY_US + 1), (DAY_US - 1, DAY_US)),
        ("TIMESTAMP", (DAY_US, DAY_US + 1), (None, None)),
    ],
)
def test_columns_with_values_that_spark_loses_are_opaque(kind, plain, lost):
    grown = Grown(f"k {kind}, s BINARY, b BIGINT")
    grown.segment(plain, NAN, (-(2**63), 0))
    grown.segment(lost, NAN, (-(2**63), 0))
    grown.segment(NAN, NAN, NAN, nulls=10)
    groups, _ = grown.groups()
    assert [(group.columns[0].is_opaque, segments) for group, segments in groups] == [(False, [0, 2]), (True, [1])]
    assert not any(one.is_opaque for group, _ in groups for one in group.columns[1:])


def test_a_delete_is_of_the_segments_that_it_may_concern():
    grown = Grown("k BIGINT, v STRING")
    grown.segment((0, 9), ("a", "b"))
    grown.segment((100, 109), ("a", "b"))
    grown.sql("DELETE FROM t WHERE k < 5", "DELETE FROM t WHERE v = 'a' AND k >= 0")
    grown.segment((0, 9), ("a", "b"))
    groups, _ = grown.groups(("v",))
    assert [(group.deletes, segments) for group, segments in groups] == [((1, 2), [0]), ((2,), [1]), ((), [2])]
    assert groups[1][0].columns == (kept(2, "STRING"), kept(1, "BIGINT")), "what tells is read too"
    assert groups[2][0].columns == (kept(2, "STRING"),)
    told = grown.plan(("v",)).grouped
    assert [one.number for one in told.deletes] == [1, 2]
    assert [one.name for one in told.fields] == ["k", "v"]


@pytest.mark.parametrize(
    ("kind", "unit"), [pytest.param("TIMESTAMP", 1, id="times"), pytest.param("DATE", 24 * HOUR_US, id="days")]
)
def test_rows_expire_in_segments_that_begin_before_the_horizon(kind, unit):
    grown = Grown(f"k BIGINT, at {kind}", "TBLPROPERTIES ('ttl' = '1d', 'time_column' = 'at')")
    table = grown.table.id
    horizon_us = 10 * unit
    grown.base.put(keys.horizon(table), HorizonRecord(table=table, horizon_us=horizon_us))
    for low in (9, 10, 11):
        grown.segment((1, 2), (low, 99))
    grown.segment((1, 2), (None, None), nulls=10)
    groups, _ = grown.groups(("k",))
    assert [(group.may_expire, segments) for group, segments in groups] == [(True, [0]), (False, [1, 2, 3])]
    assert groups[0][0].columns == (kept(1, "BIGINT"), kept(2, kind))
    plan = grown.plan(("k",))
    assert plan.cutoff.earliest_us == horizon_us
    assert (plan.grouped.clock, [one.name for one in plan.grouped.fields]) == (2, ["at"])
    plan = grown.plan(("k",), f"k = 2 AND at >= {kind} '2000-01-01'")
    assert (plan.segments, plan.grouped.clock, plan.grouped.fields) == ((), None, ())


def test_the_first_day_that_has_not_expired():
    day_us = 24 * HOUR_US
    assert [expiry_day(one) for one in (-1, 0, 1, day_us, day_us + 1)] == [0, 0, 1, 1, 2]


def test_segments_that_the_manifest_knows_too_little_of_are_in_no_group():
    grown = Grown("k BIGINT")
    grown.segment((1, 2), format=SegmentFormat.COLUMN_NAMES)
    grown.segment((1, 2))
    grown.segment()
    groups, rest = grown.groups()
    assert ([segments for _, segments in groups], rest) == ([[1]], [0, 2])


def test_the_largest_groups_stay_where_there_are_too_many():
    grown = Grown("k BIGINT")
    total = READ_GROUPS_MAX + 2
    for number in range(total):
        bounds = [(0, 0)] * (number + 1)
        grown.segment(*bounds, size_bytes=100 if number % 2 else 1)
        grown.segment(*bounds)
        grown.sql(f"ALTER TABLE t ADD COLUMN c{number} INT DEFAULT {number}")
    groups, rest = grown.groups()
    assert len(groups) == READ_GROUPS_MAX
    assert all(group.segments == 2 for group, _ in groups)
    assert len(rest) == 2 * 2
    assert all(one // 2 % 2 == 0 for one in rest), "the smaller ones go"
    assert sorted([*rest, *(one for _, each in groups for one in each)]) == list(range(2 * total))


def test_a_plan_leaves_the_groups_out_where_one_message_can_not_hold_them():
    grown = Grown("k BIGINT")
    grown.segment((1, 2))
    whole = grown.plan()
    lean = msgspec.structs.replace(whole, grouped=None)
    size_bytes = len(encode(lean))
    assert grown.plan(limits=PlanLimits(bytes_max=size_bytes)) == lean
    with pytest.raises(Refused):
        grown.plan(limits=PlanLimits(bytes_max=size_bytes - 1))
    assert takes_long(PLAN, grown.base.catalog)
    assert plan_scan(msgspec.structs.replace(PLAN, grouped=False), grown.base.catalog) == lean
