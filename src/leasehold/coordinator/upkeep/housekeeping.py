"""Housekeeping of a leader: it must not delay the leases that the leader grants.

It writes in slices, a transaction each. A long search runs on a thread, on a catalog that may be out of date when the
result is used. So it looks only for facts that stay true.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final, NamedTuple, TypeVar

from leasehold.coordinator.upkeep.wallclock import BelievedClock
from leasehold.coordinator.writer import Writer
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import segment_of
from leasehold.core.data.changes import released
from leasehold.core.data.horizons import horizons
from leasehold.core.data.streams import forgotten
from leasehold.core.replicas.leftovers import count, leftovers
from leasehold.core.replicas.rewrite import checks, spent
from leasehold.core.words import keys
from leasehold.core.words.change_retention import retention_ns
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import ReplacedRecord, TableRecord
from leasehold.errors import Definite
from leasehold.ids import ObjectId
from leasehold.limits.segments import STREAMS_LOOK_NS
from leasehold.limits.upkeep import FOUND_INLINE_MAX, HORIZONS_AT_ONCE, LEFTOVERS_AT_ONCE
from leasehold.wire.ports import Threads

T = TypeVar("T")


class HousekeepingLimits(NamedTuple):
    """Limits of one transaction, and of a search on the loop that grants leases."""

    leftovers_at_once: int = LEFTOVERS_AT_ONCE
    horizons_at_once: int = HORIZONS_AT_ONCE
    found_inline_max: int = FOUND_INLINE_MAX


HOUSEKEEPING_LIMITS: Final = HousekeepingLimits()


class Housekeeping:
    """The housekeeping of one leader. It hears of each revision, so that it looks only at what has changed."""

    def __init__(
        self, writer: Writer, clock: BelievedClock, threads: Threads, limits: HousekeepingLimits = HOUSEKEEPING_LIMITS
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._threads = threads
        self._limits = limits
        catalog, now_ns = writer.catalog, clock.now_ns()
        self._replaced: defaultdict[ObjectId, dict[bytes, int]] = defaultdict(dict)
        """The segments of each table that were replaced, and when this leader first saw that, the oldest first."""
        for table, bucket in sorted(catalog.replaced):
            names = sorted(catalog.replaced.names((table, bucket)))
            self._replaced[table].update((keys.replaced(table, bucket, name), now_ns) for name in names)
        self._deleted: dict[ObjectId, None] = dict.fromkeys(sorted(catalog.deletes))
        """The tables with a DELETE that may concern no segment any more."""
        self._expiring = Catalog().expiring
        self._expiring_tables: list[ObjectId] = []
        self._streams_due_ns = 0
        """When to look for streaming queries to forget."""

    def committed(self, batch: RevisionChanges) -> None:
        """Notes what a revision makes due."""
        for change in batch.changes:
            if change.key.startswith(keys.REPLACED):
                of_table = self._replaced[keys.table_of(change.key)]
                if change.value is not None:
                    of_table.setdefault(change.key, self._clock.now_ns())
                else:
                    of_table.pop(change.key, None)
                    self._deleted[keys.table_of(change.key)] = None
            elif change.key.startswith(keys.DELETES) and change.value is not None:
                self._deleted[keys.table_of(change.key)] = None

    async def keep(self) -> None:
        """Does all that is due. Raises `Definite` if the meta storage declines; then it is due again."""
        await self._advance_horizons()
        await self._remove_leftovers()
        await self._release()
        await self._forget_deletes()
        await self._forget_streams()

    async def _advance_horizons(self) -> None:
        """Advances each table's expiry horizon with the wall clock. A clock that was set back moves none."""
        wall_us, expiring = self._clock.wall_us(), self._writer.catalog.expiring
        if expiring is not self._expiring:
            self._expiring_tables = await self._found(lambda: sorted(expiring), len(expiring))
            self._expiring = expiring
        for part in slices(self._expiring_tables, self._limits.horizons_at_once):
            await self._writer.submit(lambda catalog, part=part: horizons(part, catalog, wall_us))

    async def _remove_leftovers(self) -> None:
        catalog = self._writer.catalog
        await self._remove(await self._found(lambda: leftovers(catalog), count(catalog)))

    async def _release(self) -> None:
        """Forgets segments that were replaced as long ago as `retention_ns` says. A new leader counts anew."""
        now_ns, catalog = self._clock.now_ns(), self._writer.catalog
        due: list[bytes] = []
        for number, replaced in list(self._replaced.items()):
            table = catalog.tables.get(number)
            until_ns = now_ns - retention_ns({} if table is None else table.properties)
            due.extend(takewhile(lambda key, known=replaced, until=until_ns: known[key] <= until, replaced))
            if not replaced:
                del self._replaced[number]
        for part in slices(due, self._limits.leftovers_at_once):
            await self._writer.submit(lambda catalog, part=part: released(_entries(part, catalog), catalog))

    async def _remove(self, gone: Sequence[bytes]) -> None:
        """Removes records that nothing else removes, so they are still there."""
        for part in slices(gone, self._limits.leftovers_at_once):
            await self._writer.submit(lambda _, part=part: tuple(Change(key, None) for key in part))

    async def _forget_deletes(self) -> None:
        """Forgets DELETEs that concern no segment any more: they never will again."""
        for table in list(self._deleted):
            del self._deleted[table]  # before any await: changes meanwhile make it due again
            record = self._writer.catalog.tables.get(table)
            if record is not None:
                try:
                    await self._forget_deletes_of(record)
                except Definite:
                    self._deleted[table] = None
                    raise

    async def _forget_deletes_of(self, table: TableRecord) -> None:
        catalog = self._writer.catalog
        gone = await self._found(lambda: spent(table, catalog), checks(table, catalog))

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            standing = catalog.deletes.get(table.id, {})
            return tuple(Change(keys.delete(table.id, one), None) for one in gone if one in standing)

        if gone:
            await self._writer.submit(decide)

    async def _forget_streams(self) -> None:
        """Forgets streaming queries that have ended long ago."""
        now_ns, wall_us = self._clock.now_ns(), self._clock.wall_us()
        if now_ns < self._streams_due_ns:
            return
        if forgotten(self._writer.catalog, wall_us):
            await self._writer.submit(lambda catalog: forgotten(catalog, wall_us))
        self._streams_due_ns = now_ns + STREAMS_LOOK_NS

    async def _found(self, find: Callable[[], T], size: int) -> T:
        return await found(find, size, self._threads, inline_max=self._limits.found_inline_max)


async def found(find: Callable[[], T], size: int, threads: Threads, *, inline_max: int = FOUND_INLINE_MAX) -> T:
    """Runs `find` over `size` records, on a thread if they are more than `inline_max`."""
    return find() if size <= inline_max else await threads.run(find)


def _entries(names: Iterable[bytes], catalog: Catalog) -> Iterator[ReplacedRecord]:
    """The segments with these keys that are still there."""
    found = (catalog.replaced.one(keys.bucket_of(key), segment_of(key)) for key in names)
    return (one for one in found if one is not None)


def slices(whole: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The parts of `whole` that one transaction each takes."""
    return (whole[start : start + size] for start in range(0, len(whole), size))
