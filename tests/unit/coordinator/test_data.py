"""Plans of tables with many segments."""

import asyncio

import msgspec
import pytest

from leasehold.coordinator.data import Data
from leasehold.core.catalog import Catalog
from leasehold.core.codec import encode
from leasehold.core.messages import PlanScan, SegmentsHeld
from leasehold.core.records import ColumnStatistics, SegmentRecord
from leasehold.core.shelf import SEGMENTS, Shelf
from leasehold.errors import Refused
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.replication import REPORTED_SEGMENTS_AT_ONCE_MAX
from leasehold.limits.segments import PLANNED_SEGMENT_BYTES_MIN
from leasehold.wire.clock import BoottimeClock
from tests.unit.node.cluster import Cluster

PLAN = PlanScan(cluster_id=None, name="db.t", columns=None)
FIT = 60_000
UNFIT = 86_000
TOO_MANY = 100_000

assert UNFIT * PLANNED_SEGMENT_BYTES_MIN < MESSAGE_BYTES_MAX < TOO_MANY * PLANNED_SEGMENT_BYTES_MIN


class Writer:
    """What `Data` needs of the writer here."""

    def __init__(self, catalog):
        self.catalog = catalog


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A table's catalog and so many of its segments, with statistics."""
    made = Cluster(tmp_path_factory.mktemp("nodes"), nodes=3)
    for node in made.nodes:
        made.stop(node)
    made.create(("k", "BIGINT"), ("v", "STRING"), replication=3)
    statistics = tuple(
        ColumnStatistics(field=number, nulls=0, minimum="a" * 32, maximum="z" * 32) for number in range(1, 11)
    )
    segments = {}
    for number in range(TOO_MANY):
        name = f"{number:032x}-{number:032x}"
        segments[name] = SegmentRecord(
            id=name,
            table=made.table.id,
            bucket=0,
            schema_version=1,
            rows=2**20,
            size_bytes=2**31,
            sha256=b"h" * 32,
            statistics=statistics,
            holders=(1, 2, 3),
        )
    return made.catalog, (made.table.id, 0), segments


def plan(many, count):
    catalog, bucket, segments = many
    some = {name: segments[name] for name in list(segments)[:count]}
    catalog = msgspec.structs.replace(catalog, segments=catalog.segments.insert(bucket, some))
    return Data(Writer(catalog), None, BoottimeClock()).plan(PLAN)


def test_a_plan_leaves_the_statistics_out_and_names_many_segments(many):
    made = plan(many, FIT)
    assert len(made.segments) == FIT
    assert all(one.statistics == () for one in made.segments)
    assert len(encode(made)) <= MESSAGE_BYTES_MAX


def unread(many):
    """A table of so many segments that none can be planned; a look at one would raise `Corrupt`."""
    catalog, bucket, segments = many
    shelf = Shelf.held(SEGMENTS, {bucket: dict.fromkeys(segments, b"")})
    Data(Writer(msgspec.structs.replace(catalog, segments=shelf)), None, BoottimeClock()).plan(PLAN)


@pytest.mark.parametrize("planned", [lambda many: plan(many, UNFIT), unread], ids=["looked at", "counted"])
def test_a_plan_of_too_many_segments_is_refused_with_advice(many, planned):
    with pytest.raises(Refused) as caught:
        planned(many)
    assert caught.value.code == "TOO_MANY_SEGMENTS"
    assert "db.t" in caught.value.text
    assert "larger appends" in caught.value.hint


def test_R6_a_leader_tells_of_which_generation_its_facts_are(many):
    catalog, _, _ = many
    catalog = msgspec.structs.replace(catalog, cluster=msgspec.structs.replace(catalog.cluster, generation=7))
    data = Data(Writer(catalog), None, BoottimeClock())
    assert data.table("db.t").generation == 7
    assert data.plan(PLAN).facts.generation == 7


async def test_only_so_many_reported_segments_can_meet_in_one_transaction():
    class Slow:
        def __init__(self):
            self.catalog = Catalog()
            self.waiting = []

        async def submit(self, _decide):
            answer = asyncio.get_running_loop().create_future()
            self.waiting.append(answer)
            await answer

    writer = Slow()
    data = Data(writer, None, BoottimeClock())
    per = REPORTED_SEGMENTS_AT_ONCE_MAX // 4
    report = SegmentsHeld(node=1, incarnation=1, session="5" * 32, table=2, bucket=0, segments=("s",) * per)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        reports = [group.create_task(data.acknowledge(report)) for _ in range(11)]
        met = []
        while not all(one.done() for one in reports):
            for _ in range(20):
                await asyncio.sleep(0)
            met.append(len(writer.waiting))
            while writer.waiting:
                writer.waiting.pop().set_result(None)
            for _ in range(5):
                await asyncio.sleep(0)
    assert [one for one in met if one] == [4, 4, 3]
