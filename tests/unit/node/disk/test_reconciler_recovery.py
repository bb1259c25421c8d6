"""The reconciler in a node's recovery: what the manifest counts on and the disk lacks, torn files, files in doubt."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from leasehold.client.append import stage
from leasehold.core.catalog.plan import put
from leasehold.core.recovery.events import (
    DiskComparison,
)
from leasehold.core.words import keys
from leasehold.core.words.records import SegmentRecord
from leasehold.ids import BucketNumber, NodeId, ObjectId, SegmentId
from leasehold.limits.units import MILLISECOND_NS
from leasehold.node.disk.reconciler import ReconcileLimits
from leasehold.wire.clock import BoottimeClock
from tests.unit.node.cluster import Cluster, cluster, rows
from tests.unit.node.disk.test_reconciler import WITHIN_S, Agent, change_record, listed, reconciling


class Following(Agent):
    """Keeps in which order it was told what."""

    def __init__(self, made: Cluster) -> None:
        super().__init__(made)
        self.told: list[str] = []
        self.recovered = False

    async def report_missing(self, table: ObjectId, bucket: BucketNumber, segments: tuple[SegmentId, ...]) -> None:
        self.told.extend(f"missing {one}" for one in segments)
        await super().report_missing(table, bucket, segments)

    def on_disk_compared(self, comparison: DiskComparison, *, kept: int, missing: int) -> None:
        self.told.append(f"compared {kept} {missing}")
        super().on_disk_compared(comparison, kept=kept, missing=missing)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Cluster]:
    """Four segments on two nodes, whole on both."""
    with cluster(tmp_path, nodes=2) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        for number in range(4):
            whole = False
            while not whole:  # a busy machine may hold the second node for so long that a write goes on without it
                transaction = made.open()
                staged = stage(made.facts(), transaction, [rows(100 * number, 100)], made.catalog.revision)
                whole = all(len(one.holders) == 2 for one in staged)
            made.commit(transaction, staged)
        yield made


def path_of(made: Cluster, record: SegmentRecord) -> Path:
    return made.node(2).files.path(record.table, record.bucket, record.id)


def strike(made: Cluster, record: SegmentRecord) -> None:
    """As the leader does once it has heard."""
    change_record(made, msgspec.structs.replace(record, holders=(NodeId(1),)))


async def compared(agent: Agent) -> tuple[int, int]:
    async with asyncio.timeout(WITHIN_S):
        return await agent.compared.get()


async def test_I7_what_the_disk_lacks_is_told_before_the_comparison_is_over_then_fetched(made: Cluster) -> None:
    first, second, third, whole = made.plan().segments
    for record in (first, second, third):
        path_of(made, record).unlink()
    limits = ReconcileLimits(report_segments_max=2)
    async with reconciling(made, agent=Following(made), limits=limits) as agent:
        assert await compared(agent) == (1, 3)
        assert agent.told[:4] == [*(f"missing {one.id}" for one in (first, second, third)), "compared 1 3"]
        assert agent.missing.qsize() == 2, "cut to the limit"
        await agent.held_segments(3)
    assert listed(made.node(2)) == {first.id, second.id, third.id, whole.id}
    assert agent.fetched == 3


async def test_I7_what_was_told_is_told_again_if_it_was_lost_with_its_session(
    made: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next stream asks for another comparison; the leader counts on a file that is not here until it has heard."""
    first, *_ = made.plan().segments
    path_of(made, first).unlink()
    change_record(made, msgspec.structs.replace(first, holders=(NodeId(2),)))
    async with reconciling(made, agent=Following(made)) as agent:
        due = agent.comparison_due
        assert due is not None
        assert await compared(agent) == (3, 1)
        agent.comparison_due = msgspec.structs.replace(due, number=2)
        assert await compared(agent) == (3, 1)
        assert agent.told == [f"missing {first.id}", "compared 3 1"] * 2


async def test_I5_a_torn_file_counts_as_missing_and_is_fetched_anew(made: Cluster) -> None:
    torn, *_ = made.plan().segments
    path = path_of(made, torn)
    sound = path.read_bytes()
    path.write_bytes(sound[:-1])
    async with reconciling(made, agent=Following(made)) as agent:
        assert await compared(agent) == (3, 1)
        assert agent.told[0] == f"missing {torn.id}"
        assert await agent.held_segments(1) == [(torn.id,)]
    assert path.read_bytes() == sound
    assert agent.fetched == 1


async def test_I5_a_torn_file_that_nobody_else_holds_is_left_to_those_who_can_mend_it(made: Cluster) -> None:
    torn, *_ = made.plan().segments
    path_of(made, torn).write_bytes(b"torn")
    change_record(made, msgspec.structs.replace(torn, holders=(NodeId(2),)))
    async with reconciling(made, agent=Following(made)) as agent:
        assert await compared(agent) == (4, 0)
    assert path_of(made, torn).read_bytes() == b"torn"


async def test_where_nothing_is_believed_every_file_is_read_before_it_counts(
    made: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="leasehold.node.disk.reconciler")
    garbled, *others = made.plan().segments
    path = path_of(made, garbled)
    sound = path.read_bytes()
    path.write_bytes(b"X" + sound[1:])
    agent = Following(made)
    agent.must_verify = True
    async with reconciling(made, agent=agent), asyncio.timeout(WITHIN_S):
        assert await compared(agent) == (4, 0), "they are here, whatever is in them"
        for record in (garbled, *others):
            assert f"missing {record.id}" in agent.told
            strike(made, record)
        await agent.held_segments(4)
        assert path.read_bytes() == sound, "a copy took its place"
        assert agent.fetched == 1, "and no other was needed"
        assert agent.must_verify, "the leader has not heard yet"
        agent.recovered = True
        for record in (garbled, *others):
            made.change([put(keys.segment(record.table, record.bucket, record.id), record)])
        while agent.must_verify:
            await BoottimeClock().sleep_until(BoottimeClock().now_ns() + MILLISECOND_NS)
    told = [one for one in caplog.messages if one.startswith("segments: ")]
    assert told == [
        "segments: reading 4 of the kept segments completely before they count",
        "segments: all were read completely and count now",
    ]
