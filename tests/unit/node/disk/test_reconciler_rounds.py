"""Rounds of comparing that are cut into steps: one catalog and one listing for all of them, what changes meanwhile is
seen by the next, and nothing is deleted by a plan that does not hold any more."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import pytest

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.recovery.events import (
    DiskComparison,
)
from leasehold.core.replicas import reconcile
from leasehold.core.replicas.reconcile import Emptied, Listing, OnDisk
from leasehold.core.words import keys
from leasehold.core.words.records import BucketRecord, SegmentRecord
from leasehold.ids import BucketNumber, NodeId, ObjectId, Revision, SegmentId
from leasehold.limits.replication import FETCH_ROUND_SEGMENTS_MAX, RECONCILE_INTERVAL_NS
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.published import Published
from leasehold.node.disk.reconciler import ReconcileLimits, Reconciler
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.filled import CatalogManifest
from leasehold.testing.loop import run_virtual
from leasehold.testing.on_disk import by_bucket
from leasehold.testing.threads import NoThreads
from leasehold.testing.vault import VaultDisk
from tests.unit.core.catalog_words import Ground as Words
from tests.unit.core.replicas.test_replication import segment as hashless_segment

T = TypeVar("T")
ME, OTHER, THIRD, TABLE = NodeId(1), NodeId(3), NodeId(4), ObjectId(2)
BUCKETS = 8
SMALL_STEPS = ReconcileLimits(slice_buckets=2)


def segment(number: int, *holders: NodeId, bucket: int = 0) -> SegmentRecord:
    return msgspec.structs.replace(hashless_segment(number, *holders, bucket=bucket), sha256=bytes(32))


class Steps(NoThreads):
    """Says how many steps there were, and calls `between` ahead of each."""

    def __init__(self) -> None:
        self.taken = 0
        self.between: Callable[[int], None] = lambda _step: None

    async def run(self, compute: Callable[[], T]) -> T:
        self.taken += 1
        self.between(self.taken)
        return await super().run(compute)


class Disk:
    """Its files are names."""

    def __init__(self, files: set[OnDisk]) -> None:
        self.files = files
        self.trashed: list[OnDisk] = []
        self.fetching: list[SegmentId] = []
        self.on_trash: Callable[[OnDisk], None] = lambda _one: None

    async def listing(self) -> Listing:
        return by_bucket(self.files)

    async def trash(self, one: OnDisk) -> bool:
        self.on_trash(one)
        self.trashed.append(one)
        self.files.discard(one)
        return True

    async def empty_trash(self, _files: int, _size_bytes: int) -> Emptied:
        return Emptied(files=0, size_bytes=0)

    async def check_sizes(self, _records: list[SegmentRecord]) -> tuple[SegmentRecord, ...]:
        return ()

    async def verify(self, _record: SegmentRecord) -> bool:
        return True

    async def fetch(self, record: SegmentRecord, *_rest: Any) -> bool:
        self.fetching.append(record.id)
        self.files.add(OnDisk(record.table, record.bucket, record.id))
        return True


class Agent:
    """Of a node whose recovery waits for a comparison."""

    caught_up = True
    must_verify = False
    recovered = True

    def __init__(self, durable: Catalog) -> None:
        self.durable = durable
        self.comparison_due: DiskComparison | None = DiskComparison(number=1, revision=Revision(0))
        self.told: list[SegmentId] = []
        self.compared: list[tuple[int, int]] = []

    async def report_held(self, *_segments: Any) -> None:
        pass

    async def report_missing(self, _table: int, _bucket: int, segments: tuple[SegmentId, ...]) -> None:
        self.told.extend(segments)

    async def comparable(self) -> None:
        pass

    def on_disk_compared(self, comparison: DiskComparison, *, kept: int, missing: int) -> None:
        assert comparison == self.comparison_due
        self.comparison_due = None
        self.compared.append((kept, missing))

    def counted(self, **_counts: int) -> None:
        pass


class Ground:
    """A node with a segment in each bucket."""

    def __init__(self) -> None:
        words = Words(nodes=(ME, OTHER, THIRD))
        for number in range(BUCKETS):
            replicas = (ME, OTHER)
            words.put(
                keys.bucket(TABLE, number),
                BucketRecord(table=TABLE, bucket=BucketNumber(number), replicas=replicas, in_sync=replicas),
            )
            words.put(keys.segment(TABLE, number, segment(number).id), segment(number, ME, OTHER, bucket=number))
        self.agent = Agent(words.catalog)
        self.stored: Catalog | None = None
        """What the vault holds, where that is not what is known to be durable."""
        self.disk = Disk({self.file(number) for number in range(BUCKETS)})
        self.steps = Steps()
        self.published = Published()
        self.published.node = ME

    def file(self, number: int) -> OnDisk:
        return OnDisk(TABLE, BucketNumber(number), segment(number).id)

    def change(self, *records: SegmentRecord | BucketRecord) -> None:
        """The durable catalog says something else from now on."""
        for one in records:
            if isinstance(one, SegmentRecord):
                change = put(keys.segment(one.table, one.bucket, one.id), one)
            else:
                change = put(keys.bucket(one.table, one.bucket), one)
            self.agent.durable = self.agent.durable.changed([change])

    def reconciler(self, **limits: int) -> Reconciler:
        vault: Any = VaultDisk().open()
        disk: Any = self.disk
        agent: Any = self.agent
        vault.manifest = CatalogManifest(lambda: self.stored or agent.durable)
        return Reconciler(
            agent=agent,
            published=self.published,
            disk=disk,
            since_start={},
            vault=vault,
            clock=SimulatedClock(asyncio.get_running_loop()),  # pyright: ignore[reportArgumentType]
            threads=self.steps,
            limits=SMALL_STEPS._replace(**limits),
        )


def simulated(scenario: Callable[[Ground], Any]) -> None:
    async def main(_random: Any) -> None:
        await scenario(Ground())

    run_virtual(main, 1)


async def rounds(ground: Ground, reconciler: Reconciler, count: int) -> None:
    """So many intervals of simulated time."""
    try:
        async with asyncio.timeout(count * RECONCILE_INTERVAL_NS / SECOND_NS):
            await reconciler.run()
    except TimeoutError:
        pass


def test_a_change_in_the_middle_of_a_round_is_seen_by_the_next_one() -> None:
    """All steps go by the catalog that the round began with, whatever bucket they have come to."""

    async def scenario(ground: Ground) -> None:
        first, last = segment(101, OTHER, bucket=0), segment(102, OTHER, bucket=BUCKETS - 1)
        counts: list[int] = []

        def between(step: int) -> None:
            if step == 3:
                ground.change(first, last)
                ground.disk.files.add(OnDisk(TABLE, last.bucket, last.id))
            if ground.agent.compared and not counts:
                counts.append(len(ground.disk.fetching))

        ground.steps.between = between
        await rounds(ground, ground.reconciler(), 4)
        assert ground.agent.compared == [(BUCKETS, 0)]
        assert counts == [0], "nothing of it in the first round"
        assert first.id in ground.disk.fetching
        assert last.id not in ground.disk.fetching, "its file came too"

    simulated(scenario)


def test_a_step_waits_until_it_is_known_what_the_vault_holds() -> None:
    """The vault commits on a thread of its own: a step may read it before the event loop has heard of that."""

    async def scenario(ground: Ground) -> None:
        late = segment(101, OTHER, bucket=BUCKETS - 1)
        change = put(keys.segment(TABLE, late.bucket, late.id), late)
        newer = msgspec.structs.replace(ground.agent.durable.changed([change]), revision=Revision(9))
        ahead: list[int] = []

        def between(step: int) -> None:
            if step == 3:
                ground.stored = newer
            if step > 3 and ground.stored is not None:
                ahead.append(step)
                if len(ahead) == 5:
                    ground.agent.durable, ground.stored = newer, None

        ground.steps.between = between
        await rounds(ground, ground.reconciler(), 2)
        assert len(ahead) == 5
        assert ground.agent.compared == [(BUCKETS, 0)]
        assert ground.disk.fetching == [late.id]

    simulated(scenario)


def test_the_leader_hears_of_all_that_is_missing_before_the_comparison_counts_however_many_steps_it_has() -> None:
    async def scenario(ground: Ground) -> None:
        gone = {ground.file(number) for number in (0, 3, 7)}
        ground.disk.files -= gone
        told: list[set[SegmentId]] = []
        answer = ground.agent.on_disk_compared

        def compared(comparison: DiskComparison, *, kept: int, missing: int) -> None:
            told.append(set(ground.agent.told))
            answer(comparison, kept=kept, missing=missing)

        ground.agent.on_disk_compared = compared
        await rounds(ground, ground.reconciler(), 1)
        assert told == [{one.segment for one in gone}]
        assert ground.agent.compared == [(BUCKETS - 3, 3)]

    simulated(scenario)


def test_a_file_stays_if_its_bucket_has_changed_since_the_plan_was_made() -> None:
    """It was another node's when the round began, and is this node's again before its turn to go has come."""

    async def scenario(ground: Ground) -> None:
        moved = BucketRecord(table=TABLE, bucket=BucketNumber(1), replicas=(OTHER, NodeId(7)), in_sync=(OTHER,))
        back = msgspec.structs.replace(moved, replicas=(ME, OTHER))
        for number in (1, 5):
            ground.change(
                msgspec.structs.replace(moved, bucket=BucketNumber(number)), segment(number, OTHER, bucket=number)
            )
        ground.agent.recovered = False
        reconciler = ground.reconciler()
        await rounds(ground, reconciler, 2)
        assert ground.disk.trashed == []
        ground.agent.recovered = True
        # The first that goes is that of bucket 1: then the other comes back.
        ground.disk.on_trash = lambda _one: ground.change(msgspec.structs.replace(back, bucket=BucketNumber(5)))
        await rounds(ground, reconciler, 2)
        assert ground.disk.trashed == [ground.file(1)]
        assert ground.file(5) in ground.disk.files

    simulated(scenario)


def test_a_round_in_which_nothing_has_changed_takes_two_steps() -> None:
    async def scenario(ground: Ground) -> None:
        reconciler = ground.reconciler()
        await rounds(ground, reconciler, 1)
        assert ground.steps.taken >= 1 + BUCKETS // 2
        before = ground.steps.taken
        await rounds(ground, reconciler, 20)
        assert ground.steps.taken - before <= 2 * 20

    simulated(scenario)


def test_while_nothing_changes_no_bucket_is_looked_at_but_a_few_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node at rest costs nothing, however many tables there are; it still notices what changes."""
    looks: list[int] = []
    outdated = reconcile.outdated

    def counted(*arguments: Any, **rest: Any) -> list[Any]:
        looks.append(1)
        return outdated(*arguments, **rest)

    monkeypatch.setattr(reconcile, "outdated", counted)

    async def scenario(ground: Ground) -> None:
        reconciler = ground.reconciler()
        await rounds(ground, reconciler, 3)
        looks.clear()
        await rounds(ground, reconciler, 20)
        assert looks == []
        ground.disk.files.discard(ground.file(3))
        await rounds(ground, reconciler, 3)
        assert segment(3).id in ground.disk.fetching, "by its folder"
        late = segment(101, OTHER, bucket=5)
        ground.change(late)
        await rounds(ground, reconciler, 3)
        assert late.id in ground.disk.fetching, "by the catalog"

    simulated(scenario)


def test_files_go_some_in_a_round_and_all_in_the_end() -> None:
    async def scenario(ground: Ground) -> None:
        for number in range(BUCKETS):
            moved = BucketRecord(
                table=TABLE, bucket=BucketNumber(number), replicas=(OTHER, NodeId(7)), in_sync=(OTHER,)
            )
            ground.change(moved, segment(number, OTHER, bucket=number))
        reconciler = ground.reconciler(trash_max=3)
        await rounds(ground, reconciler, 1)
        assert 3 <= len(ground.disk.trashed) <= 6
        await rounds(ground, reconciler, 5)
        assert len(ground.disk.trashed) == len(set(ground.disk.trashed)) == BUCKETS
        assert ground.disk.files == set()

    simulated(scenario)


def test_each_round_tells_of_others_where_more_is_missing_than_it_tells() -> None:
    """The leader leaves this node the only holder of them, so they stay missing."""

    async def scenario(ground: Ground) -> None:
        ground.disk.files.clear()
        ground.change(*(segment(number, ME, bucket=number) for number in range(BUCKETS)))
        reconciler = ground.reconciler(missing_max=2, report_repeat_ns=RECONCILE_INTERVAL_NS)
        await rounds(ground, reconciler, 1)
        assert len(ground.agent.told) >= BUCKETS, "the first comparison tells all"
        ground.agent.told.clear()
        await rounds(ground, reconciler, BUCKETS)
        assert set(ground.agent.told) == {segment(number).id for number in range(BUCKETS)}

    simulated(scenario)


def test_more_missing_segments_than_a_round_fetches_are_asked_for_in_the_next_ones() -> None:
    async def scenario(ground: Ground) -> None:
        many = [segment(1_000 + number, OTHER, bucket=2) for number in range(FETCH_ROUND_SEGMENTS_MAX + 10)]
        ground.change(*many)
        await rounds(ground, ground.reconciler(), 5)
        assert {one.id for one in many} <= set(ground.disk.fetching)

    simulated(scenario)
