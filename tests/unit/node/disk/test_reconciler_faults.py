"""The reconciler over real files and sockets: full disks, records that can't be, and segments that go meanwhile."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from leasehold.client.append import stage
from leasehold.core.catalog.plan import put
from leasehold.core.catalog.shelf import BucketKey
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import ReplacedRecord, SegmentRecord
from leasehold.core.words.statements import DropTable
from leasehold.errors import Refused
from leasehold.ids import BucketNumber, NodeId, ObjectId, SegmentId
from leasehold.limits.replication import FETCHES_AT_ONCE
from leasehold.limits.units import MILLISECOND_NS
from leasehold.node.disk import reconciler
from leasehold.storage.files import SegmentFile, SegmentFiles
from leasehold.wire.clock import BoottimeClock
from tests.unit.node.cluster import DROP_TABLE, Cluster, cluster, rows
from tests.unit.node.disk.test_reconciler import (
    OTHER,
    WITHIN_S,
    change_record,
    create_other,
    intercept,
    listed,
    reconciling,
)


class SmallDisk(SegmentFiles):
    """Has no room for a segment until it is made larger."""

    full = True
    refused = 0

    def create(self, table: ObjectId, bucket: BucketNumber, segment: SegmentId) -> SegmentFile:
        if self.full:
            self.refused += 1
            raise Refused("no space is left", code="DISK_FULL", hint="free space")
        return super().create(table, bucket, segment)


class Watched(SegmentFiles):
    """Says when it has moved a segment to the trash."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.trashed = threading.Event()
        self.listings = threading.Semaphore(0)

    def folders(self) -> Iterator[tuple[BucketKey, tuple[int, int]]]:
        self.listings.release()
        return super().folders()

    def looked_over(self) -> bool:
        """Waits until the reconciler has compared all that lies here now with the catalog."""
        while self.listings.acquire(blocking=False):
            """Those that may have begun before."""
        return all(self.listings.acquire(timeout=WITHIN_S) for _ in range(2))

    def trash(self, table: ObjectId, bucket: BucketNumber, segment: SegmentId) -> bool:
        found = super().trash(table, bucket, segment)
        self.trashed.set()
        return found


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Cluster]:
    """Three segments on two nodes; the second node has lost their files."""
    with cluster(tmp_path, nodes=2) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        for number in range(3):
            transaction = made.open()
            batch = rows(100 * number, 100)
            made.commit(transaction, stage(made.facts(), transaction, [batch], made.catalog.revision))
        for record in made.plan().segments:
            assert record.holders == (1, 2)
            made.node(2).files.trash(record.table, record.bucket, record.id)
        yield made


async def test_a_full_disk_ends_nothing_is_not_hammered_and_lets_deleting_go_on(made: Cluster) -> None:
    files = SmallDisk(made.node(2).root)
    table = create_other(made)
    async with reconciling(made, files=files) as agent, asyncio.timeout(WITHIN_S):
        while not files.refused:
            await BoottimeClock().sleep_until(BoottimeClock().now_ns() + MILLISECOND_NS)
        made.run(DropTable(table=OTHER))
        assert await agent.cleaned.get() == table
        assert files.refused <= 2 * FETCHES_AT_ONCE, "those at the same time, and at most once more a second later"
        files.full = False
        await agent.held_segments(3)


@pytest.mark.parametrize("wrong", [{"size_bytes": -1}, {"size_bytes": 2**62}, {"rows": -1}, {"sha256": b""}])
async def test_a_record_that_no_segment_can_have_is_left_alone(made: Cluster, wrong: dict[str, object]) -> None:
    first, second, third = made.plan().segments
    change_record(made, msgspec.structs.replace(first, **wrong))
    async with reconciling(made) as agent:
        reports = await agent.held_segments(2)
    assert {segment for one in reports for segment in one} == {second.id, third.id}
    assert listed(made.node(2)) == {second.id, third.id}


async def test_a_record_out_of_range_does_not_cost_the_file_that_is_here(made: Cluster) -> None:
    first, *_ = made.plan().segments
    async with reconciling(made) as agent:
        await agent.held_segments(3)
    change_record(made, msgspec.structs.replace(first, size_bytes=-1, holders=(NodeId(1),)))
    for record in made.plan().segments[1:]:
        change_record(made, msgspec.structs.replace(record, holders=(NodeId(1),)))
    async with reconciling(made) as agent:
        await agent.held_segments(2)
    assert first.id in listed(made.node(2))


async def test_a_table_that_went_while_its_segment_came_leaves_no_file(
    made: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go_on = threading.Event(), threading.Event()

    def hold(_record: SegmentRecord, _nodes: list[NodeId]) -> None:
        started.set()
        go_on.wait(WITHIN_S)

    intercept(monkeypatch, hold)
    monkeypatch.setattr(reconciler, "FETCHES_AT_ONCE", 1)
    table = made.table.id
    files = Watched(made.node(2).root)
    try:
        async with reconciling(made, files=files) as agent, asyncio.timeout(WITHIN_S):
            await asyncio.to_thread(started.wait, WITHIN_S)
            made.run(DROP_TABLE)
            assert await agent.cleaned.get() == table
            # Every node has reported, and the write transactions are forgotten.
            forgotten = [keys.transaction(one) for one in made.catalog.transactions]
            made.change([Change(key, None) for key in (keys.dropped(table), *forgotten)])
            go_on.set()
            assert await asyncio.to_thread(files.trashed.wait, WITHIN_S)
            assert agent.held.empty()
            assert listed(made.node(2)) == set()
    finally:
        go_on.set()


async def test_a_file_goes_once_it_is_released_though_its_write_is_long_forgotten(made: Cluster) -> None:
    """A node that runs on: what came after it started is in no listing of that time."""
    first, *_ = made.plan().segments
    files = Watched(made.node(2).root)
    async with reconciling(made, files=files) as agent, asyncio.timeout(WITHIN_S):
        await agent.held_segments(3)
        made.change([Change(keys.transaction(one), None) for one in made.catalog.transactions])
        assert await asyncio.to_thread(files.looked_over)
        replaced = keys.replaced(first.table, first.bucket, first.id)
        gone = Change(keys.segment(first.table, first.bucket, first.id), None)
        made.change([gone, put(replaced, ReplacedRecord(segment=first))])
        assert await asyncio.to_thread(files.looked_over)
        assert len(listed(made.node(2))) == 3
        made.change([Change(replaced, None)])
        assert await asyncio.to_thread(files.trashed.wait, WITHIN_S)
    assert listed(made.node(2)) == {one.id for one in made.plan().segments}
