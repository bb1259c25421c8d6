"""The reconciler: makes a node's disk hold what the durable catalog says it should (plans in `core/reconcile.py`).

Three tasks, so that none waits behind another's disk or network: one plans and deletes, one verifies and fetches, one
tells the leader. What goes wrong with one table or segment is logged and left alone for a while, twice as long after
each further failure, and the rest goes on: a node whose disk is full still serves, and still deletes.

| what fails                                          | what rests                                               |
| deleting, verifying                                 | that table or segment                                    |
| every place that was asked                          | that segment                                             |
| a place that is silent, slow, busy or just starting | that place, for all segments                             |
| a copy, for want of space                           | fetching as a whole: the next segment would fail as well |
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable
from itertools import islice
from typing import Final, Protocol

from leasehold.core.catalog import Catalog
from leasehold.core.reconcile import OnDisk, Plan, is_known, plan
from leasehold.core.records import SegmentRecord
from leasehold.errors import LeaseholdError, Refused, Unreachable
from leasehold.ids import BucketNumber, NodeId, ObjectId, SegmentId
from leasehold.limits import (
    FETCH_REST_MIN_NS,
    FETCH_ROUND_SEGMENTS_MAX,
    RECONCILE_INTERVAL_NS,
    RECONCILE_REST_MAX_NS,
    RECONCILE_REST_MIN_NS,
    RECONCILE_RESTS_KEPT,
    REPORT_GATHER_NS,
    REPORT_REPEAT_NS,
    SECOND_NS,
    SEGMENTS_PER_REPORT_MAX,
    TRASH_ROUND_FILES_MAX,
)
from leasehold.node.published import Published
from leasehold.wire.ports import Clock, Disk, Vault

log = logging.getLogger(__name__)

FETCHING: Final = "fetching"
PLANNING: Final = "comparing this disk with the catalog"
EMPTYING: Final = "emptying the trash"
AWAY: Final = frozenset({"BUSY", "NOT_JOINED"})
"""What a place says that will be the same for the next segment."""


class Following(Protocol):
    """What the reconciler needs of the agent."""

    @property
    def durable(self) -> Catalog:
        """The newest catalog that the vault holds."""
        ...

    @property
    def caught_up(self) -> bool:
        """Whether the vault holds what the cluster had when this process first connected."""
        ...

    async def report_held(self, table: ObjectId, bucket: BucketNumber, segments: tuple[SegmentId, ...]) -> None:
        """Tells the leader of segments that lie on this disk, verified; may be lost."""
        ...

    async def report_cleaned(self, table: ObjectId) -> None:
        """Tells the leader that nothing of a dropped table is left here; may be lost."""
        ...


class Rests:
    """What is left alone until when; the newest RECONCILE_RESTS_KEPT are remembered."""

    def __init__(self, now_ns: Callable[[], int], *, min_ns: int, max_ns: int) -> None:
        assert 0 < min_ns <= max_ns
        self._now_ns = now_ns
        self._min_ns = min_ns
        self._max_ns = max_ns
        self._until_ns: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        """Whether it rests now."""
        return key in self._until_ns and self._now_ns() < self._until_ns[key][0]

    def begin(self, key: Hashable) -> int:
        """Lets it rest, twice as long as the last time; how long, in nanoseconds."""
        _, last_ns = self._until_ns.pop(key, (0, 0))
        pause_ns = min(max(self._min_ns, 2 * last_ns), self._max_ns)
        self._until_ns[key] = (self._now_ns() + pause_ns, pause_ns)
        if len(self._until_ns) > RECONCILE_RESTS_KEPT:
            self._until_ns.popitem(last=False)
        return pause_ns

    def forget(self, key: Hashable) -> None:
        """It went well: the next rest is a short one again."""
        self._until_ns.pop(key, None)


class Reconciler:
    """Runs beside the agent for the life of a process.

    `since_start` is the disk's listing from before this process could take any write: what is on it and unknown to
    the catalog ended long ago.
    """

    def __init__(
        self,
        *,
        agent: Following,
        published: Published,
        disk: Disk,
        since_start: Collection[OnDisk],
        vault: Vault,
        clock: Clock,
    ) -> None:
        self._agent = agent
        self._published = published
        self._disk = disk
        self._vault = vault
        self._clock = clock
        self._since_start = frozenset(since_start)
        self._known: set[OnDisk] = set()
        """The files here that the catalog has known of."""
        self._failed = Rests(clock.now_ns, min_ns=RECONCILE_REST_MIN_NS, max_ns=RECONCILE_REST_MAX_NS)
        self._peers = Rests(clock.now_ns, min_ns=FETCH_REST_MIN_NS, max_ns=RECONCILE_REST_MAX_NS)
        self._told = Rests(clock.now_ns, min_ns=REPORT_REPEAT_NS, max_ns=REPORT_REPEAT_NS)
        self._newest: Plan | None = None
        self._planned = asyncio.Event()
        self._held: dict[tuple[ObjectId, BucketNumber], dict[SegmentId, None]] = {}
        self._found = asyncio.Event()

    async def run(self) -> None:
        """Reconciles again and again: a report that was lost is made again. Ends by what is not a `LeaseholdError`."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tidy_again_and_again())
            group.create_task(self._replicate_as_planned())
            group.create_task(self._report_as_found())

    # ------------------------------------------------------------ planning and deleting

    async def _tidy_again_and_again(self) -> None:
        while True:
            if self._published.node:
                await self._unless_resting(PLANNING, self._tidy)
                await self._unless_resting(EMPTYING, self._empty_trash)
            await self._clock.sleep_until(self._clock.now_ns() + RECONCILE_INTERVAL_NS)

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
        """One comparison; deletes what has to go and hands on what has to come."""
        on_disk = await self._disk.listing()
        durable = self._agent.durable
        self._remember(on_disk, durable)
        planned = plan(durable, self._published.node, on_disk, self._known)
        if planned.report or planned.fetch:
            self._newest = planned
            self._planned.set()
        if planned.clean or planned.trash:
            # What is deleted must stay decided: the revision that says so survives the machine first (R9).
            await self._vault.sync()
        for table in planned.clean:
            await self._clean(table)
        for one in planned.trash:
            await self._trash(one)

    def _remember(self, on_disk: Collection[OnDisk], durable: Catalog) -> None:
        """A write is forgotten long before what it wrote is released: that there was one is kept here."""
        self._known.intersection_update(on_disk)
        self._known.update([one for one in on_disk if one not in self._known and is_known(durable, one)])
        if self._agent.caught_up:
            self._known.update(self._since_start)
            self._since_start = frozenset()

    async def _empty_trash(self) -> None:
        await self._disk.empty_trash(TRASH_ROUND_FILES_MAX)

    async def _clean(self, table: ObjectId) -> None:
        if table in self._failed:
            return
        try:
            await self._disk.trash_table(table)
        except LeaseholdError as error:
            self._leave(table, f"cleaning table {table}", error)
            return
        self._failed.forget(table)
        if table not in self._told:
            self._told.begin(table)
            await self._agent.report_cleaned(table)

    async def _trash(self, one: OnDisk) -> None:
        if one in self._failed:
            return
        try:
            await self._disk.trash(one)
        except LeaseholdError as error:
            self._leave(one, f"deleting segment {one.segment} of table {one.table}", error)
        else:
            self._failed.forget(one)

    # ------------------------------------------------------------ verifying and fetching

    async def _replicate_as_planned(self) -> None:
        while True:
            await self._planned.wait()
            self._planned.clear()
            planned, self._newest = self._newest, None
            if planned is not None:
                for record in self._wanted(planned.report):
                    await self._attempt(record, self._disk.verify)
                for record in self._wanted(one for one in planned.fetch if self._places(one)):
                    if FETCHING not in self._failed:
                        await self._attempt(record, self._fetch)

    def _wanted(self, records: Iterable[SegmentRecord]) -> list[SegmentRecord]:
        """As many as one round takes, so that the next one starts from a new plan; what rests does not use it up."""
        ready = (one for one in records if one.id not in self._failed and one.id not in self._told)
        return list(islice(ready, FETCH_ROUND_SEGMENTS_MAX))

    async def _attempt(self, record: SegmentRecord, step: Callable[[SegmentRecord], Awaitable[bool]]) -> None:
        """One step for one segment, as the catalog has it by now; what it found to be here is told soon."""
        entry = self._entry(record)
        if entry is None:
            return
        try:
            here = await step(entry)
            if here and self._entry(entry) is None:
                await self._came_too_late(entry)
                return
        except LeaseholdError as error:
            self._leave(entry.id, f"segment {entry.id} of table {entry.table}", error)
            if error.code == "DISK_FULL":
                self._failed.begin(FETCHING)
            return
        if here:
            self._failed.forget(entry.id)
            self._failed.forget(FETCHING)
            self._told.begin(entry.id)
            self._held.setdefault((entry.table, entry.bucket), {})[entry.id] = None
            self._found.set()

    async def _came_too_late(self, record: SegmentRecord) -> None:
        """Its table may have gone while it came: who cleaned up was here before it, and does not come again."""
        durable = self._agent.durable
        if record.table not in durable.tables or record.table in durable.dropped:
            await self._vault.sync()
            await self._disk.trash(OnDisk(record.table, record.bucket, record.id))

    def _entry(self, record: SegmentRecord) -> SegmentRecord | None:
        """The manifest entry, if this node should hold the segment."""
        durable = self._agent.durable
        bucket = durable.buckets.get((record.table, record.bucket))
        if bucket is None or self._published.node not in bucket.replicas or record.table in durable.dropped:
            return None
        return durable.segments.get((record.table, record.bucket), {}).get(record.id)

    def _places(self, record: SegmentRecord) -> list[tuple[NodeId, str]]:
        """The other holders that do not rest."""
        nodes = self._agent.durable.nodes
        return [
            (node, nodes[node].address)
            for node in record.holders
            if node != self._published.node and node in nodes and node not in self._peers
        ]

    async def _fetch(self, record: SegmentRecord) -> bool:
        """Raises `Refused` with code NOT_FETCHED where every place that was asked failed; False if none was asked."""
        errors: dict[NodeId, LeaseholdError] = {}

        def on_asked(node: NodeId, error: LeaseholdError | None) -> None:
            if error is None:
                self._peers.forget(node)
            else:
                errors[node] = error
                if isinstance(error, Unreachable) or error.code in AWAY:
                    self._peers.begin(node)

        here = await self._disk.fetch(record, self._places(record), self._published.cluster_id, on_asked)
        if errors and not here:
            said = "; ".join(f"node {node}: {error.text}" for node, error in errors.items())
            raise Refused(f"no replica gave it: {said}", code="NOT_FETCHED", hint="SHOW NODES tells which nodes are up")
        return here

    # ------------------------------------------------------------ telling

    async def _report_as_found(self) -> None:
        while True:
            await self._found.wait()
            await self._clock.sleep_until(self._clock.now_ns() + REPORT_GATHER_NS)
            self._found.clear()
            held, self._held = self._held, {}
            for (table, bucket), found in sorted(held.items()):
                segments = tuple(found)
                for start in range(0, len(segments), SEGMENTS_PER_REPORT_MAX):
                    part = segments[start : start + SEGMENTS_PER_REPORT_MAX]
                    await self._agent.report_held(table, bucket, part)

    def _leave(self, key: Hashable, what: str, error: LeaseholdError) -> None:
        pause_ns = self._failed.begin(key)
        log.warning("%s: %s (%s); again in %g s", what, error.text, error.code, pause_ns / SECOND_NS)
