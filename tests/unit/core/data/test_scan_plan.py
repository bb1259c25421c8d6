"""Plans of tables with many segments."""

import msgspec
import pytest
from rpds import HashTrieMap

from leasehold.core.catalog.shelf import SEGMENTS, Shelf
from leasehold.core.data.scan_plan import plan_scan
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import PlanScan
from leasehold.core.words.records import ColumnStatistics, SegmentRecord
from leasehold.core.words.statements import TableName
from leasehold.errors import Refused
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.segments import PLANNED_SEGMENT_BYTES_MIN
from leasehold.sql.parse import parse
from tests.unit.core.ddl_words import ground

PLAN = PlanScan(cluster_id=None, name="db.t", columns=None)
FIT = 60_000
UNFIT = 86_000
TOO_MANY = 100_000

assert UNFIT * PLANNED_SEGMENT_BYTES_MIN < MESSAGE_BYTES_MAX < TOO_MANY * PLANNED_SEGMENT_BYTES_MIN


@pytest.fixture(scope="module")
def many():
    """A table's catalog and so many of its segments, with statistics."""
    catalog = ground(*map(parse, ("CREATE DATABASE db", "CREATE TABLE db.t (k BIGINT, v STRING)"))).catalog
    table = catalog.table(TableName("db", "t")).id
    statistics = tuple(
        ColumnStatistics(field=number, nulls=0, minimum="a" * 32, maximum="z" * 32) for number in range(1, 11)
    )
    segments = {}
    for number in range(TOO_MANY):
        name = f"{number:032x}-{number:032x}"
        segments[name] = SegmentRecord(
            id=name,
            table=table,
            bucket=0,
            schema_version=1,
            rows=2**20,
            size_bytes=2**31,
            sha256=b"h" * 32,
            statistics=statistics,
            holders=(1, 2, 3),
        )
    return catalog, (table, 0), segments


def plan(many, count):
    catalog, bucket, segments = many
    some = {name: segments[name] for name in list(segments)[:count]}
    catalog = msgspec.structs.replace(catalog, segments=Shelf(HashTrieMap({bucket: some})))
    return plan_scan(PLAN, catalog)


def test_a_plan_leaves_the_statistics_out_and_names_many_segments(many):
    made = plan(many, FIT)
    assert len(made.segments) == FIT
    assert all(one.statistics == () for one in made.segments)
    assert len(encode(made)) <= MESSAGE_BYTES_MAX


def unread(many):
    """A table of so many segments that none can be planned; a look at one would raise `Corrupt`."""
    catalog, bucket, segments = many
    shelf = Shelf.held(SEGMENTS, {bucket: dict.fromkeys(segments, b"")})
    plan_scan(PLAN, msgspec.structs.replace(catalog, segments=shelf))


@pytest.mark.parametrize("planned", [lambda many: plan(many, UNFIT), unread], ids=["looked at", "counted"])
def test_a_plan_of_too_many_segments_is_refused_with_advice(many, planned):
    with pytest.raises(Refused) as caught:
        planned(many)
    assert caught.value.code == "TOO_MANY_SEGMENTS"
    assert "db.t" in caught.value.text
    assert "larger appends" in caught.value.hint


def test_R6_a_plan_says_of_which_generation_its_facts_are(many):
    catalog, _, _ = many
    catalog = msgspec.structs.replace(catalog, cluster=msgspec.structs.replace(catalog.cluster, generation=7))
    assert plan_scan(PLAN, catalog).facts.generation == 7
