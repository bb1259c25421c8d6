"""What a leader puts in order now and then, behind all statements: none of it may hold up the leases that it grants.

It goes in slices, a transaction each. What takes long to find is found on a thread, on a catalog that may be older by
the time it is used: so only what stays true is looked for there.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from leasehold.coordinator.writer import Writer
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.data.horizons import horizons
from leasehold.core.replicas.leftovers import count, leftovers
from leasehold.core.replicas.rewrite import checks, spent
from leasehold.core.words import keys
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import TableRecord
from leasehold.errors import Definite
from leasehold.ids import ObjectId
from leasehold.limits.upkeep import FOUND_INLINE_MAX, HORIZONS_AT_ONCE, LEFTOVERS_AT_ONCE, REPLACED_KEPT_NS
from leasehold.wire.ports import Clock, Threads

T = TypeVar("T")


class HousekeepingLimits(NamedTuple):
    """Bounds of one transaction, and of what is looked for on the loop that grants leases."""

    leftovers_at_once: int = LEFTOVERS_AT_ONCE
    horizons_at_once: int = HORIZONS_AT_ONCE
    found_inline_max: int = FOUND_INLINE_MAX


HOUSEKEEPING_LIMITS: Final = HousekeepingLimits()


class Housekeeping:
    """Of one leader. It hears of each revision, so that it need not look through what has not changed."""

    def __init__(
        self, writer: Writer, clock: Clock, threads: Threads, limits: HousekeepingLimits = HOUSEKEEPING_LIMITS
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._threads = threads
        self._limits = limits
        catalog, now_ns = writer.catalog, clock.now_ns()
        self._replaced: dict[bytes, int] = {
            keys.replaced(table, bucket, name): now_ns
            for table, bucket in sorted(catalog.replaced)
            for name in sorted(catalog.replaced.names((table, bucket)))
        }
        """The segments that are replaced, and since when this leader has known that, in the order of that."""
        self._deleted: dict[ObjectId, None] = dict.fromkeys(sorted(catalog.deletes))
        """The tables of which a DELETE may concern no segment any more."""
        self._expiring = Catalog().expiring
        self._expiring_tables: list[ObjectId] = []

    def committed(self, batch: RevisionChanges) -> None:
        """Hears of a revision."""
        for change in batch.changes:
            if change.key.startswith(keys.REPLACED):
                if change.value is not None:
                    self._replaced.setdefault(change.key, self._clock.now_ns())
                else:
                    self._replaced.pop(change.key, None)
                    self._deleted[keys.table_of(change.key)] = None
            elif change.key.startswith(keys.DELETES) and change.value is not None:
                self._deleted[keys.table_of(change.key)] = None

    async def keep(self) -> None:
        """Does all that is due. Raises `Definite` where the meta storage declines; the rest is due again then."""
        await self._advance_horizons()
        await self._remove_leftovers()
        await self._release()
        await self._forget_deletes()

    async def _advance_horizons(self) -> None:
        """Moves each table's expiry horizon on with the wall clock. A clock set back moves none."""
        wall_us, expiring = self._clock.wall_us(), self._writer.catalog.expiring
        if expiring is not self._expiring:
            self._expiring_tables = await self._found(lambda: sorted(expiring), len(expiring))
            self._expiring = expiring
        for part in _slices(self._expiring_tables, self._limits.horizons_at_once):
            await self._writer.submit(lambda catalog, part=part: horizons(part, catalog, wall_us))

    async def _remove_leftovers(self) -> None:
        catalog = self._writer.catalog
        await self._remove(await self._found(lambda: leftovers(catalog), count(catalog)))

    async def _release(self) -> None:
        """Forgets what was replaced REPLACED_KEPT_NS ago; nodes delete the files then.

        A new leader restarts the count of what it finds: scans read it for longer.
        """
        until_ns = self._clock.now_ns() - REPLACED_KEPT_NS
        due: list[bytes] = []
        for key, since_ns in self._replaced.items():
            if since_ns > until_ns:
                break
            due.append(key)
        await self._remove(due)

    async def _remove(self, gone: Sequence[bytes]) -> None:
        """Nobody else removes these: what was there when they were found is there still."""
        for part in _slices(gone, self._limits.leftovers_at_once):
            await self._writer.submit(lambda _, part=part: tuple(Change(key, None) for key in part))

    async def _forget_deletes(self) -> None:
        """Forgets the DELETEs that concern no segment any more: whether one does never turns back."""
        for table in list(self._deleted):
            del self._deleted[table]  # before anything is awaited: what changes meanwhile makes it due again
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

    async def _found(self, find: Callable[[], T], size: int) -> T:
        """What `find` finds among so many records."""
        return find() if size <= self._limits.found_inline_max else await self._threads.run(find)


def _slices(whole: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (whole[start : start + size] for start in range(0, len(whole), size))
