"""Repair: assigns replicas to buckets and takes them away (decided in `core/replicas/placement.py`), moves them
(`coordinator/replicas/rebalance.py`), strikes off nodes that are no replicas any more (`core/replicas/retired.py`), and
counts segments with too few copies (`core/replicas/copies.py`).

All buckets are looked at after changes of node records and of the replication of a table, once a node has been away for
too long (`core/replicas/absence.py`), and once it is back, as for a node whose disk fails; those that have too many
replicas after each change of theirs. As in all housekeeping, what is due is found on a thread and written in slices.
What a person waits for is `wanted` soon: a drain, another replication, a rebalance, a disk that fails, and a replica
that can go since others are in sync.

A disk fails from what its node says until a new process of that node says that it works. Until then the node keeps only
what no other node can take: its replicas go as others are in sync. A new leader hears it again from the process; where
that has ended, the node is replaced as one that is away.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from leasehold.coordinator.replicas.rebalance import Rebalancing
from leasehold.coordinator.upkeep.housekeeping import found, slices
from leasehold.coordinator.writer import Writer, changed_nodes
from leasehold.core.catalog.catalog import BucketKey, Catalog
from leasehold.core.replicas import placement, retired
from leasehold.core.replicas.absence import Absences
from leasehold.core.replicas.copied import CopiedBytes
from leasehold.core.replicas.copies import Copies, tallied
from leasehold.core.replicas.placement import Fleet
from leasehold.core.replicas.retired import SegmentKey
from leasehold.core.words import keys
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.errors import Definite
from leasehold.ids import NodeId
from leasehold.limits.membership import PLACED_AT_ONCE, STRUCK_AT_ONCE, STRUCK_BYTES_MAX
from leasehold.limits.upkeep import FOUND_INLINE_MAX
from leasehold.wire.ports import Threads

log = logging.getLogger(__name__)


class Repair:
    """The repair of one leader. Nodes that are `leaving` get no more buckets; those that hold a lease are `leased`; the
    disks of those that are `failing` do."""

    def __init__(
        self,
        writer: Writer,
        threads: Threads,
        now_ns: Callable[[], int],
        *,
        leaving: Callable[[], frozenset[NodeId]],
        leased: Callable[[], frozenset[NodeId]],
        failing: Callable[[], frozenset[NodeId]],
    ) -> None:
        self._writer = writer
        self._threads = threads
        self._leaving = leaving
        self._leased = leased
        self._failing = failing
        self._now_ns = now_ns
        self.wanted = asyncio.Event()
        """Whether `keep` should not wait for its turn."""
        self._absences = Absences()
        self._bad: frozenset[NodeId] = frozenset()
        """The nodes whose buckets get other replicas, as of the last look: those that are away or whose disk fails."""
        self._due = True
        """A member has come, or a node was removed: buckets may need other replicas."""
        self._surplus: set[BucketKey] = set()
        """Buckets that have changed and have more replicas than their tables want."""
        self._gone = any(node.removed and node.incarnation > 0 for node in writer.catalog.nodes.values())
        """A node was removed: records may still name it as a holder."""
        self._rebalancing = Rebalancing(writer, threads, self._fleet, now_ns)
        self.copies = Copies(writer.catalog)
        self.copied = CopiedBytes()
        self._count_if_few(writer.catalog)

    def replaced_in_ns(self, node: NodeId) -> int | None:
        """In which time the buckets of a node get other replicas if it holds no lease until then; None for never, or
        while no other node could have them."""
        catalog, now_ns = self._writer.catalog, self._now_ns()
        assert catalog.settings is not None
        others = self._fleet(catalog).able & self._leased() - {node}
        if not others or not catalog.settings.replace_after_ns:
            return None
        return max(0, self._absences.counts_from_ns(node, now_ns) + catalog.settings.replace_after_ns - now_ns)

    def committed(self, batch: RevisionChanges, catalog: Catalog) -> None:
        """Notes what a revision makes due."""
        was_due = self.copies.is_due
        if placement.wants_other_replicas(batch.changes, self.copies.catalog, catalog):
            self._due = True
            self.wanted.set()
            self.copies.count_anew()
        self.copied.committed(batch.changes, self.copies.catalog, catalog, self._now_ns())
        self.copies.committed(batch.changes, catalog)
        if self.copies.is_due and not was_due:
            self._count_if_few(catalog)
        self._surplus.update(
            key
            for key in (keys.bucket_of(one.key) for one in batch.changes if one.key.startswith(keys.BUCKETS))
            if placement.has_surplus(key, catalog)
        )
        if self._surplus or any(one.key == keys.CLUSTER for one in batch.changes):  # a rebalance may begin
            self.wanted.set()
        for node in changed_nodes(batch, catalog):
            is_gone = node.removed and node.incarnation > 0  # otherwise it has never held anything
            self._gone = self._gone or is_gone
            self._due = self._due or is_gone or node.member or node.draining or bool(len(catalog.moving))
            if node.draining:
                self.wanted.set()

    async def keep(self) -> None:
        """Does all that is due. Raises `Definite` if the meta storage declines; then it is due again."""
        self.wanted.clear()
        self._look()
        if self.copies.is_due:
            self.copies.counted(await self._threads.run(partial(tallied, self.copies.begin())))
        due, gone = self._due, self._gone
        self._due = self._gone = False  # before any await: changes meanwhile make it due again
        try:
            if due or self._surplus:
                await self._place(all_of_them=due)
            if gone:
                await self._forget_removed()
            await self._rebalancing.keep(anew=due)
            if self._writer.catalog.retired:
                await self._forget_retired()
        except Definite:
            self._due, self._gone = True, self._gone or gone
            raise

    def _count_if_few(self, catalog: Catalog) -> None:
        """Counts the copies of a small cluster at once; `keep` counts those of a larger one on a thread."""
        segments = catalog.segments
        if sum(map(segments.count, segments)) <= FOUND_INLINE_MAX:
            self.copies.counted(tallied(self.copies.begin()))

    def _look(self) -> None:
        """Looks which nodes have been away for too long, and whose disks fail."""
        catalog, now_ns = self._writer.catalog, self._now_ns()
        joined = (one.id for one in catalog.nodes.values() if not one.removed and one.incarnation > 0)
        self._absences.look(joined, self._leased(), now_ns)
        assert catalog.settings is not None
        away = self._absences.away(catalog.settings.replace_after_ns, now_ns)
        for node in sorted(away - self._bad):
            log.warning("node %d has been away for too long: its buckets get other replicas", node)
        bad = away | self._failing()
        for node in sorted(bad - self._bad - away):
            log.warning("the disk of node %d fails: its buckets get other replicas", node)
        self._due = self._due or bad != self._bad
        self._bad = bad

    async def _place(self, *, all_of_them: bool) -> None:
        """Brings the replicas of buckets closer to what they should be: of all, or of those that have too many."""
        catalog, nodes = self._writer.catalog, self._fleet(self._writer.catalog)
        self._due = self._due or bool(self._leaving())  # the removal of one may be refused
        due, self._surplus = sorted(self._surplus), set()
        if all_of_them:
            due = await found(partial(placement.due_buckets, catalog, nodes), len(catalog.buckets), self._threads)
        for part in slices(due, PLACED_AT_ONCE):
            await self._writer.submit(lambda catalog, part=part: placement.placed(part, catalog, self._fleet(catalog)))

    def _fleet(self, catalog: Catalog) -> Fleet:
        return placement.fleet(catalog, leaving=self._leaving(), away=self._bad)

    async def _forget_removed(self) -> None:
        catalog = self._writer.catalog
        find_tables = partial(retired.cleaning_by_removed, catalog)
        for part in slices(await found(find_tables, len(catalog.dropped), self._threads), STRUCK_AT_ONCE):
            await self._writer.submit(partial(retired.cleaned_by_removed, part))
        held = sum(map(catalog.segments.count, catalog.segments))
        await self._strike(await found(partial(retired.held_by_removed, catalog), held, self._threads))

    async def _forget_retired(self) -> None:
        for _ in range(2):  # what is struck in the first pass is forgotten in the second
            catalog = self._writer.catalog
            held = len(catalog.transactions) + sum(map(catalog.segments.count, catalog.retired))
            entries, done = await found(partial(retired.held_by_retired, catalog), held, self._threads)
            for part in slices(done, PLACED_AT_ONCE):
                await self._writer.submit(partial(retired.forgotten, part, catalog))
            if not entries:
                return
            await self._strike(entries)

    async def _strike(self, entries: list[SegmentKey]) -> None:
        while entries:
            entries = entries[await self._strike_some(entries[:STRUCK_AT_ONCE]) :]

    async def _strike_some(self, part: list[SegmentKey]) -> int:
        """Removes holders from the first segments of `part`; returns of how many."""
        taken = 0

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            nonlocal taken
            changes, taken = retired.struck(part, catalog, STRUCK_BYTES_MAX)
            return changes

        await self._writer.submit(decide)
        return taken
