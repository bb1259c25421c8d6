"""Repair: assigns replicas to buckets as nodes come and go (decided in `core/replicas/placement.py`), and counts
segments with too few copies (`core/replicas/copies.py`).

Only changes of node records, and of the replication of a table, make it due. As in all housekeeping, it is found on a
thread and written in slices.
"""

from collections.abc import Callable
from functools import partial

from leasehold.coordinator.upkeep.housekeeping import found, slices
from leasehold.coordinator.writer import Writer, changed_nodes
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.replicas import placement
from leasehold.core.replicas.copies import Copies, tallied
from leasehold.core.replicas.placement import SegmentKey
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.errors import Definite
from leasehold.ids import NodeId
from leasehold.limits.membership import PLACED_AT_ONCE, STRUCK_AT_ONCE, STRUCK_BYTES_MAX
from leasehold.limits.upkeep import FOUND_INLINE_MAX
from leasehold.wire.ports import Threads


class Repair:
    """The repair of one leader. Nodes that are `leaving` get no more buckets."""

    def __init__(self, writer: Writer, threads: Threads, leaving: Callable[[], frozenset[NodeId]]) -> None:
        self._writer = writer
        self._threads = threads
        self._leaving = leaving
        self._due = True
        """A member has come, or a node was removed: buckets may need other replicas."""
        self._gone = any(node.removed and node.incarnation > 0 for node in writer.catalog.nodes.values())
        """A node was removed: records may still name it as a holder."""
        self.copies = Copies(writer.catalog)
        self._count_if_few(writer.catalog)

    def committed(self, batch: RevisionChanges, catalog: Catalog) -> None:
        """Notes what a revision makes due."""
        was_due = self.copies.is_due
        if placement.wants_other_replicas(batch.changes, self.copies.catalog, catalog):
            self._due = True
            self.copies.count_anew()
        self.copies.committed(batch.changes, catalog)
        if self.copies.is_due and not was_due:
            self._count_if_few(catalog)
        for node in changed_nodes(batch, catalog):
            is_gone = node.removed and node.incarnation > 0  # otherwise it has never held anything
            self._gone = self._gone or is_gone
            self._due = self._due or is_gone or node.member

    async def keep(self) -> None:
        """Does all that is due. Raises `Definite` if the meta storage declines; then it is due again."""
        if self.copies.is_due:
            self.copies.counted(await self._threads.run(partial(tallied, self.copies.begin())))
        due, gone = self._due, self._gone
        self._due = self._gone = False  # before any await: changes meanwhile make it due again
        try:
            if due:
                await self._place()
            if gone:
                await self._forget_removed()
        except Definite:
            self._due, self._gone = self._due or due, self._gone or gone
            raise

    def _count_if_few(self, catalog: Catalog) -> None:
        """Counts the copies of a small cluster at once; `keep` counts those of a larger one on a thread."""
        segments = catalog.segments
        if sum(map(segments.count, segments)) <= FOUND_INLINE_MAX:
            self.copies.counted(tallied(self.copies.begin()))

    async def _place(self) -> None:
        catalog, leaving = self._writer.catalog, self._leaving()
        self._due = self._due or bool(leaving)  # the removal of one may be refused
        find_due = partial(placement.due_buckets, catalog, leaving=leaving)
        for part in slices(await found(find_due, len(catalog.buckets), self._threads), PLACED_AT_ONCE):
            await self._writer.submit(
                lambda catalog, part=part: placement.placed(part, catalog, leaving=self._leaving())
            )

    async def _forget_removed(self) -> None:
        catalog = self._writer.catalog
        find_tables = partial(placement.cleaning_by_removed, catalog)
        for part in slices(await found(find_tables, len(catalog.dropped), self._threads), STRUCK_AT_ONCE):
            await self._writer.submit(partial(placement.cleaned_by_removed, part))
        held = sum(map(catalog.segments.count, catalog.segments))
        segments = await found(partial(placement.held_by_removed, catalog), held, self._threads)
        while segments:
            segments = segments[await self._strike(segments[:STRUCK_AT_ONCE]) :]

    async def _strike(self, part: list[SegmentKey]) -> int:
        """Removes holders from the first segments of `part`; returns of how many."""
        taken = 0

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            nonlocal taken
            changes, taken = placement.struck(part, catalog, STRUCK_BYTES_MAX)
            return changes

        await self._writer.submit(decide)
        return taken
