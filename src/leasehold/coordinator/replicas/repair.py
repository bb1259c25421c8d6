"""Repair: buckets get the replicas that their tables want, as nodes come and go (decided in
`core/replicas/placement.py`), and what has too few copies is counted (`core/replicas/copies.py`).

What may have become due is told by the records of nodes alone. It is found on a thread and written in slices, behind
all statements, as the rest of housekeeping.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from leasehold.coordinator.writer import Writer
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.replicas.copies import Copies, tallied
from leasehold.core.replicas.placement import (
    SegmentKey,
    cleaned_by_removed,
    cleaning_by_removed,
    due_buckets,
    held_by_removed,
    placed,
    struck,
)
from leasehold.core.words import keys
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.errors import Definite
from leasehold.ids import NodeId
from leasehold.limits.membership import PLACED_AT_ONCE, STRUCK_AT_ONCE, STRUCK_BYTES_MAX
from leasehold.limits.upkeep import FOUND_INLINE_MAX
from leasehold.wire.ports import Threads

T = TypeVar("T")


class Repair:
    """Of one leader. It hears of each revision. `leaving` tells which nodes are about to be removed and get no more."""

    def __init__(self, writer: Writer, threads: Threads, leaving: Callable[[], frozenset[NodeId]] = frozenset) -> None:
        self._writer = writer
        self._threads = threads
        self._leaving = leaving
        self._due = True
        """A member has come, or a node was removed: buckets may want other replicas."""
        self._gone = any(node.removed and node.incarnation > 0 for node in writer.catalog.nodes.values())
        """A node was removed: it may be named as a holder still."""
        self.copies = Copies(writer.catalog)
        self._count_if_few(writer.catalog)

    def committed(self, batch: RevisionChanges, catalog: Catalog) -> None:
        """Hears of a revision."""
        was_due = self.copies.is_due
        self.copies.committed(batch.changes, catalog)
        if self.copies.is_due and not was_due:
            self._count_if_few(catalog)
        for change in batch.changes:
            if change.key.startswith(keys.NODES):
                node = catalog.nodes[NodeId(int(change.key.removeprefix(keys.NODES)))]
                is_gone = node.removed and node.incarnation > 0  # else nothing ever lay there
                self._gone = self._gone or is_gone
                self._due = self._due or is_gone or node.member

    async def keep(self) -> None:
        """Does all that is due. Raises `Definite` where the meta storage declines; the rest is due again then."""
        if self.copies.is_due:
            self.copies.counted(await self._threads.run(partial(tallied, self.copies.begin())))
        due, gone = self._due, self._gone
        self._due = self._gone = False  # before anything is awaited: what changes meanwhile makes it due again
        try:
            if due:
                await self._place()
            if gone:
                await self._forget_removed()
        except Definite:
            self._due, self._gone = self._due or due, self._gone or gone
            raise

    def _count_if_few(self, catalog: Catalog) -> None:
        """Counts at once what a larger cluster counts on a thread."""
        segments = catalog.segments
        if sum(map(segments.count, segments)) <= FOUND_INLINE_MAX:
            self.copies.counted(tallied(self.copies.begin()))

    async def _place(self) -> None:
        catalog, leaving = self._writer.catalog, self._leaving()
        self._due = self._due or bool(leaving)  # one may stay in the end, and take what nobody else could
        due = await self._found(partial(due_buckets, catalog, leaving=leaving), len(catalog.buckets))
        for start in range(0, len(due), PLACED_AT_ONCE):
            part = due[start : start + PLACED_AT_ONCE]
            await self._writer.submit(lambda catalog, part=part: placed(part, catalog, leaving=self._leaving()))

    async def _forget_removed(self) -> None:
        catalog = self._writer.catalog
        tables = await self._found(partial(cleaning_by_removed, catalog), len(catalog.dropped))
        for start in range(0, len(tables), STRUCK_AT_ONCE):
            part = tables[start : start + STRUCK_AT_ONCE]
            await self._writer.submit(partial(cleaned_by_removed, part))
        segments = await self._found(
            partial(held_by_removed, catalog), sum(map(catalog.segments.count, catalog.segments))
        )
        while segments:
            segments = segments[await self._strike(segments[:STRUCK_AT_ONCE]) :]

    async def _strike(self, part: list[SegmentKey]) -> int:
        """How many of them are done with."""
        taken = 0

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            nonlocal taken
            changes, taken = struck(part, catalog, STRUCK_BYTES_MAX)
            return changes

        await self._writer.submit(decide)
        return taken

    async def _found(self, find: Callable[[], T], size: int) -> T:
        """What `find` finds among so many records."""
        return find() if size <= FOUND_INLINE_MAX else await self._threads.run(find)
