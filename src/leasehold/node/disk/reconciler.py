"""The reconciler: makes a node's disk hold what the durable catalog says (plans in `core/replicas/reconcile.py`).

Four tasks, so that none waits for another's disk or network: one plans and deletes, one verifies and fetches, one
reports to the leader, one reads files again (`node/disk/scrub.py`). After a failure the table or segment rests, twice
as long after each further failure, while all else goes on: a node whose disk is full still serves and deletes.

| what fails                                          | what rests                                               |
| deleting, verifying                                 | that table or segment                                    |
| every place that was asked                          | that segment                                             |
| a place that is silent, slow, busy or just starting | that place, for all segments                             |
| a copy, for want of space or by an error of the disk | fetching as a whole: the next segment would fail as well |

The disk is compared on a thread (`node/disk/comparison.py`). The first round of a recovery looks at every bucket, a
later one at those that have changed. Before a file is deleted, its bucket is checked once more: if it has changed since
the plan, it is left to the next round.

Nothing is compared before the durable catalog has the revision at which this recovery's case was settled, and nothing
is deleted before the leader has accepted that the recovery is finished. Segments that the manifest counts on here and
that are missing are reported before that (I7), so the first comparison waits for nothing but the disk.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from leasehold.core.catalog.shelf import BucketKey
from leasehold.core.data.fetches import check_record
from leasehold.core.data.write_access import Peer
from leasehold.core.recovery.events import DiskComparison
from leasehold.core.replicas.reconcile import Listing, OnDisk, Verified, to_clean
from leasehold.core.replicas.replication import is_present
from leasehold.core.words.records import SegmentRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, Refused, Unreachable
from leasehold.ids import NodeId, ObjectId, SegmentId
from leasehold.limits.recovery import COMPARISON_POLL_NS
from leasehold.limits.replication import (
    FETCH_REST_MIN_NS,
    FETCH_ROUND_SEGMENTS_MAX,
    FETCHES_AT_ONCE,
    MISSING_ROUND_SEGMENTS_MAX,
    RECONCILE_INTERVAL_NS,
    RECONCILE_REST_MAX_NS,
    RECONCILE_REST_MIN_NS,
    RECONCILE_SLICE_BUCKETS,
    RECONCILE_TRASH_MAX,
    REPAIR_RATE,
    REPORT_REPEAT_NS,
    SEGMENTS_PER_REPORT_MAX,
)
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.agent import Agent
from leasehold.node.agent.published import Published
from leasehold.node.agent.turns import Slices
from leasehold.node.disk.comparison import Comparing
from leasehold.node.disk.findings import Findings
from leasehold.node.disk.pace import CopyPace, Pace
from leasehold.node.disk.rests import Rests
from leasehold.node.disk.scrub import SegmentScrub
from leasehold.node.disk.space import note
from leasehold.wire.ports import Clock, Disk, Threads, Vault

log = logging.getLogger(__name__)

FETCHING: Final = "fetching"
PLANNING: Final = "comparing this disk with the catalog"
EMPTYING: Final = "emptying the trash"
AWAY: Final = frozenset({ErrorCode.BUSY, ErrorCode.NOT_JOINED})
"""Answers of a place that will be the same for the next segment."""


class ReconcileLimits(NamedTuple):
    """Limits of a round and of its reports."""

    slice_buckets: int = RECONCILE_SLICE_BUCKETS
    trash_max: int = RECONCILE_TRASH_MAX
    missing_max: int = MISSING_ROUND_SEGMENTS_MAX
    report_segments_max: int = SEGMENTS_PER_REPORT_MAX
    report_repeat_ns: int = REPORT_REPEAT_NS


RECONCILE_LIMITS: Final = ReconcileLimits()


class Reconciler:
    """Runs beside the agent as long as the process. `since_start` is the disk's listing from before this process could
    take any write: a file in it that the catalog does not know belongs to a write that ended long ago."""

    def __init__(
        self,
        *,
        agent: Agent,
        published: Published,
        disk: Disk,
        since_start: Listing,
        vault: Vault,
        clock: Clock,
        threads: Threads,
        limits: ReconcileLimits = RECONCILE_LIMITS,
    ) -> None:
        self._agent = agent
        self._published = published
        self._disk = disk
        self._vault = vault
        self._clock = clock
        self._threads = threads
        self._since_start = since_start
        self._limits = limits
        self._comparing = Comparing(
            durable=lambda: agent.durable,
            published=published,
            disk=disk,
            manifest=vault.manifest,
            clock=clock,
            threads=threads,
            slice_buckets=limits.slice_buckets,
        )
        self._failed = Rests(clock.now_ns, min_ns=RECONCILE_REST_MIN_NS, max_ns=RECONCILE_REST_MAX_NS)
        self._peers = Rests(clock.now_ns, min_ns=FETCH_REST_MIN_NS, max_ns=RECONCILE_REST_MAX_NS)
        self._findings = Findings(
            agent, clock, report_segments_max=limits.report_segments_max, repeat_ns=limits.report_repeat_ns
        )
        self._scrub = SegmentScrub(
            agent=agent,
            published=published,
            disk=disk,
            manifest=vault.manifest,
            clock=clock,
            threads=threads,
            kept=lambda: self._comparing.kept,
            on_whole=self._findings.held,
        )
        self._turns = Slices()
        self._pace = Pace(clock.now_ns())
        self._copy_pace = CopyPace(clock.now_ns())
        self._giving = Counter[NodeId | None]()
        """How many segments are being fetched from each node."""
        self._compared = False
        """Whether this process has compared the disk for a recovery: before that, the catalog may be too old."""
        self._verified: dict[BucketKey, set[SegmentId]] = {}
        """The segments whose bytes were read, if no file is trusted before that."""
        self._planned = asyncio.Event()

    async def run(self) -> None:
        """Reconciles until cancelled. Raises only what is no `LeaseholdError`."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tidy_again_and_again())
            group.create_task(self._replicate_as_planned())
            group.create_task(self._findings.run())
            group.create_task(self._scrub.run())

    async def _tidy_again_and_again(self) -> None:
        await self._agent.comparable()
        while True:
            await self._unless_resting(PLANNING, self._tidy)
            await self._unless_resting(EMPTYING, self._empty_trash)
            # The first comparison is urgent: a node that starts gets no lease before it.
            pause_ns = RECONCILE_INTERVAL_NS if self._compared else COMPARISON_POLL_NS
            await self._clock.sleep_until(self._clock.now_ns() + pause_ns)

    async def _unless_resting(self, what: str, step: Callable[[], Awaitable[None]]) -> None:
        if what in self._failed:
            return
        try:
            await step()
        except LeaseholdError as error:
            self._leave(what, what, error)
        else:
            self._failed.forget(what)

    async def _tidy(self) -> None:
        """One round: compares, reports missing segments, wakes the fetching task, and deletes."""
        due = self._agent.comparison_due
        if not self._compared and (due is None or self._agent.durable.revision < due.revision):
            return
        on_disk = await self._disk.listing()
        self._published.suspects.forget_gone(on_disk)
        if self._agent.caught_up:
            self._comparing.since_start = self._since_start
        durable = self._agent.durable
        due = due if due is None or due.revision <= durable.revision else None
        torn = await self._comparing.round(on_disk, verified=self._believed, whole=due is not None)
        await self._tell_missing(torn, due)
        if self._comparing.open:
            self._planned.set()
        if self._agent.recovered:
            await self._delete(to_clean(durable, self._published.node), on_disk)

    async def _tell_missing(self, torn: Sequence[SegmentRecord], due: DiskComparison | None) -> None:
        """Reports segments that the manifest counts on here and that are missing: all of them if a recovery waits."""
        most = None if due is not None else self._limits.missing_max
        for key, plan in list(self._comparing.open.items()):
            told = await self._findings.missing((*plan.lost, *plan.damaged, *plan.doubted), most)
            if most is not None and told:
                most -= told
                self._comparing.put_last(key)
        await self._findings.missing(torn, None)
        self._agent.counted(missing=self._comparing.to_fetch + len(torn))
        if due is not None:
            self._compared = True
            kept, lost = self._comparing.kept - len(torn), self._comparing.lost + len(torn)
            self._agent.on_disk_compared(due, kept=kept, missing=lost)
            if self._agent.must_verify:
                log.info(
                    "segments: reading %d of the kept segments completely before they count", self._comparing.doubted
                )
        elif self._agent.must_verify and self._agent.recovered and not self._comparing.in_doubt:
            await self._agent.verified()
            self._verified.clear()
            log.info("segments: all were read completely and count now")

    @property
    def _believed(self) -> Verified:
        return self._verified if self._agent.must_verify else None

    async def _delete(self, clean: Sequence[ObjectId], on_disk: Listing) -> None:
        trash = (one for plan in self._comparing.open.values() for one in plan.trash if one not in self._failed)
        going = list(islice(trash, self._limits.trash_max))
        if clean or going:
            # First the revision that says so has to survive a crash of the machine (R9).
            await self._vault.sync()
            for table in clean:
                await self._clean(table, sum(len(files) for key, files in on_disk.items() if key[0] == table))
            for one in going:
                await self._trash(one)

    async def _empty_trash(self) -> None:
        files, size_bytes = self._pace.allows(self._clock.now_ns())
        if files and self._agent.recovered:
            self._pace.spend(await self._disk.empty_trash(files, size_bytes))

    async def _clean(self, table: ObjectId, files: int) -> None:
        if table in self._failed:
            return
        try:
            if await self._disk.trash_table(table):
                self._agent.counted(evicted=files)
        except LeaseholdError as error:
            self._leave(table, f"cleaning table {table}", error)
            return
        self._failed.forget(table)
        if table not in self._findings.told:
            self._findings.told.begin(table)
            await self._agent.report_cleaned(table)

    async def _trash(self, one: OnDisk) -> None:
        if not self._comparing.is_current((one.table, one.bucket), verified=self._believed):
            return  # left to the next round
        try:
            if await self._disk.trash(one):
                self._agent.counted(evicted=1)
        except LeaseholdError as error:
            self._leave(one, f"deleting segment {one.segment} of table {one.table}", error)
        else:
            self._failed.forget(one)

    async def _replicate_as_planned(self) -> None:
        while True:
            await self._planned.wait()
            self._planned.clear()
            plans = list(self._comparing.open.values())
            to_read = await self._wanted(one for plan in plans for one in (*plan.report, *plan.doubted))
            read = [await self._attempt(one, self._disk.verify) for one in to_read]
            to_copy = await self._wanted(one for plan in plans for one in plan.fetch if self._places(one.holders))
            copied = await self._copy(to_copy)
            may_be_more = FETCH_ROUND_SEGMENTS_MAX in {len(to_read), len(to_copy)}
            if may_be_more and (any(read) or copied):
                self._planned.set()
            else:
                self._findings.hasten()

    async def _copy(self, records: Sequence[SegmentRecord]) -> int:
        """Fetches FETCHES_AT_ONCE segments at the same time; returns how many are here then."""
        waiting, copied = iter(records), 0

        async def take_turns() -> None:
            nonlocal copied
            for record in waiting:
                if FETCHING not in self._failed and await self._attempt(record, self._fetch):
                    copied += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(min(FETCHES_AT_ONCE, len(records))):
                group.create_task(take_turns())
        return copied

    async def _in_pace(self, size_bytes: int) -> None:
        """Waits until a copy of this size may begin; looks again at the rate now and then."""
        while True:
            settings, now_ns = self._agent.durable.settings, self._clock.now_ns()
            wait_ns = self._copy_pace.wait_ns(now_ns, REPAIR_RATE if settings is None else settings.repair_rate)
            if not wait_ns:
                self._copy_pace.spend(size_bytes)
                return
            await self._clock.sleep_until(now_ns + min(wait_ns, RECONCILE_INTERVAL_NS))

    async def _wanted(self, records: Iterable[SegmentRecord]) -> list[SegmentRecord]:
        """The first FETCH_ROUND_SEGMENTS_MAX that do not rest, so that the next round starts from a new plan."""
        wanted: list[SegmentRecord] = []
        for one in records:
            await self._turns.looked_at(1)
            if one.id not in self._failed and one.id not in self._findings.told:
                wanted.append(one)
                if len(wanted) == FETCH_ROUND_SEGMENTS_MAX:
                    break
        return wanted

    async def _attempt(self, record: SegmentRecord, step: Callable[[SegmentRecord], Awaitable[bool]]) -> bool:
        """One step for one segment, as the catalog has it by now; a segment that is here then is reported. Whether it
        is."""
        entry = await self._entry(record)
        if entry is None:
            return False
        try:
            here = await step(entry)
            if here and await self._entry(entry) is None:
                await self._came_too_late(entry)
                return False
        except LeaseholdError as error:
            self._leave(entry.id, f"segment {entry.id} of table {entry.table}", error)
            note(error, self._published)
            if error.code in {ErrorCode.DISK_FULL, ErrorCode.DISK_ERROR} and FETCHING not in self._failed:
                self._failed.begin(FETCHING)
            return False
        if here:
            self._failed.forget(entry.id)
            self._failed.forget(FETCHING)
            if self._agent.must_verify:
                self._verified.setdefault((entry.table, entry.bucket), set()).add(entry.id)
            self._findings.held(entry)
        return here

    async def _came_too_late(self, record: SegmentRecord) -> None:
        """Deletes a segment whose table was dropped while it was fetched: that table is not cleaned a second time."""
        durable = self._agent.durable
        if record.table not in durable.tables or record.table in durable.dropped:
            await self._vault.sync()
            await self._disk.trash(OnDisk(record.table, record.bucket, record.id))

    async def _entry(self, record: SegmentRecord) -> SegmentRecord | None:
        """The present manifest entry, if this node should hold the segment."""
        key = (record.table, record.bucket)
        stored = await self._threads.run(lambda: self._vault.manifest.segment(key, record.id))
        durable = self._agent.durable
        bucket = durable.buckets.get(key)
        if bucket is None or self._published.node not in bucket.replicas or record.table in durable.dropped:
            return None
        return stored.segment

    def _places(self, holders: Iterable[NodeId]) -> list[Peer]:
        """Where a segment can be fetched: first the node that gives the fewest to this one now."""
        nodes = self._agent.durable.nodes
        return [
            Peer(node, nodes[node].address, nodes[node].name)
            for node in sorted(holders, key=lambda one: self._giving[one])
            if node != self._published.node and is_present(node, self._agent.durable) and node not in self._peers
        ]

    async def _fetch(self, record: SegmentRecord) -> bool:
        """False if no place was asked. Raises `Refused` with code NOT_FETCHED if every place that was asked failed."""
        errors: dict[NodeId, LeaseholdError] = {}
        came: list[int] = []  # bytes of each copy

        def on_asked(node: NodeId, error: LeaseholdError | None, came_bytes: int) -> None:
            came.append(came_bytes)
            if error is None:
                self._peers.forget(node)
            else:
                errors[node] = error
                if (isinstance(error, Unreachable) or error.code in AWAY) and node not in self._peers:
                    self._peers.begin(node)

        if not self._places(record.holders):
            return False
        check_record(record)  # a size that none can have would hold up the others
        await self._in_pace(record.size_bytes)
        places = self._places(record.holders)
        first = places[0].node if places else None
        self._giving[first] += 1
        try:
            here = await self._disk.fetch(record, places, self._published.cluster_id, on_asked)
        finally:
            self._giving[first] -= 1
            # The size is what another node claims: a copy that fails at once must not hold up the others.
            self._copy_pace.correct(record.size_bytes, sum(came))
        if errors and not here:
            said = "; ".join(f"node {node}: {error.text}" for node, error in errors.items())
            raise Refused(
                f"no replica sent it: {said}", code=ErrorCode.NOT_FETCHED, hint="SHOW NODES shows which nodes are up"
            )
        if here and came:
            self._agent.counted(fetched=1)
        return here

    def _leave(self, key: Hashable, what: str, error: LeaseholdError) -> None:
        pause_ns = self._failed.begin(key)
        log.warning("%s: %s (%s); again in %g s", what, error.text, error.code, pause_ns / SECOND_NS)
