"""What a leader puts in order behind all statements: when, in which slices, and what it looks through for that."""

import msgspec
import pytest

from leasehold.coordinator.upkeep import housekeeping
from leasehold.coordinator.upkeep.housekeeping import Housekeeping, HousekeepingLimits
from leasehold.core import ddl
from leasehold.core.catalog.plan import put
from leasehold.core.ddl import plans
from leasehold.core.words import keys
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import (
    Comparison,
    DeleteRecord,
    GrantRecord,
    HiddenPrincipal,
    PrincipalKind,
    PrincipalRecord,
    ReplacedRecord,
    Right,
    SegmentRecord,
    StreamRecord,
    UseState,
)
from leasehold.errors import Refused
from leasehold.limits.segments import STREAM_KEPT_NS, STREAMS_LOOK_NS
from leasehold.limits.upkeep import REPLACED_KEPT_NS
from leasehold.testing.threads import NoThreads
from tests.unit.core.catalog_words import Ground, create_database, create_table, drop_table
from tests.unit.core.ddl_words import run

TABLE = 2


class Clock:
    def __init__(self):
        self.instant_ns = 5_000_000_000

    def now_ns(self):
        return self.instant_ns

    def wall_us(self):
        return 10**15


class Writer:
    """What housekeeping needs of the writer: the catalog, that it changes, and who hears of it."""

    def __init__(self, catalog):
        self.catalog = catalog
        self.on_commit = []
        self.sizes = []
        self.declines = False

    async def submit(self, decide):
        changes = decide(self.catalog)
        if changes and self.declines:
            raise Refused("no room", code="DISK_FULL", hint="make some")
        self.sizes.append(len(changes))
        self.write(changes)

    def write(self, changes):
        self.catalog = msgspec.structs.replace(self.catalog.changed(changes), revision=self.catalog.revision + 1)
        for hear in self.on_commit:
            hear(RevisionChanges(self.catalog.revision, tuple(changes)))


class Threads(NoThreads):
    """Tells what was left to a thread."""

    def __init__(self):
        self.used = 0

    async def run(self, compute):
        self.used += 1
        return await super().run(compute)


class House:
    """A cluster with a table, and the housekeeping of its leader."""

    def __init__(self, *changes, **limits):
        base = Ground()
        run(base, create_database())
        run(base, create_table(buckets=2, replication=1))
        self.base = base
        self.limits = HousekeepingLimits(**limits)
        self.clock = Clock()
        self.threads = Threads()
        self.writer = Writer(base.catalog.changed(changes))
        self.new_leader()

    def new_leader(self):
        self.housekeeping = Housekeeping(self.writer, self.clock, self.threads, self.limits)
        self.writer.on_commit = [self.housekeeping.committed]

    @property
    def catalog(self):
        return self.writer.catalog

    async def keep(self):
        self.writer.sizes.clear()
        await self.housekeeping.keep()
        return self.writer.sizes

    def drop(self):
        """DROP TABLE, up to its point of no return."""
        begun = ddl.begin(self.base.request(drop_table()), self.catalog)
        self.writer.write(begun.changes)
        self.writer.write(ddl.finish(begun.procedure, self.catalog))


def segment(number):
    return SegmentRecord(
        id=f"{number:032x}-{number:032x}",
        table=TABLE,
        bucket=number % 2,
        schema_version=1,
        rows=1,
        size_bytes=1,
        sha256=b"h",
        statistics=(),
        holders=(1,),
    )


def visible(*numbers):
    return [put(keys.segment(TABLE, one.bucket, one.id), one) for one in map(segment, numbers)]


def replaced(*numbers):
    records = map(segment, numbers)
    return [put(keys.replaced(TABLE, one.bucket, one.id), ReplacedRecord(segment=one)) for one in records]


def delete(number=1, state=UseState.IN_USE):
    where = (Comparison(field=1, operator="=", value="5"),)
    return put(keys.delete(TABLE, number), DeleteRecord(table=TABLE, number=number, state=state, where=where))


def role(number):
    record = PrincipalRecord(
        id=number, name=f"r{number}", kind=PrincipalKind.ROLE, state=UseState.IN_USE, password_hash=None, roles=()
    )
    return put(keys.principal(number), record)


def kept(house):
    found = (house.catalog.replaced.get((TABLE, bucket), {}) for bucket in (0, 1))
    return sorted(int(name[:32], 16) for names in found for name in names)


# ---------------------------------------------------------------- what a rewrite replaced


async def test_what_was_replaced_is_kept_for_its_time_from_when_a_leader_first_saw_it():
    house = House(*replaced(1))
    await house.keep()
    house.clock.instant_ns += REPLACED_KEPT_NS - 1
    house.writer.write(replaced(2))
    await house.keep()
    assert kept(house) == [1, 2]
    house.clock.instant_ns += 1
    await house.keep()
    assert kept(house) == [2]
    house.new_leader()
    house.clock.instant_ns += REPLACED_KEPT_NS - 1
    await house.keep()
    assert kept(house) == [2], "another leader counts anew"
    house.clock.instant_ns += 1
    await house.keep()
    assert kept(house) == []


async def test_what_goes_goes_in_slices():
    house = House(*replaced(*range(8)), leftovers_at_once=3)
    house.clock.instant_ns += REPLACED_KEPT_NS
    assert [size for size in await house.keep() if size] == [3, 3, 2]
    assert kept(house) == []


async def test_what_the_store_declines_is_due_again():
    house = House(*replaced(1), delete())
    house.clock.instant_ns += REPLACED_KEPT_NS
    house.writer.declines = True
    with pytest.raises(Refused):
        await house.keep()
    assert kept(house) == [1]
    house.writer.write([Change(keys.replaced(TABLE, 1, segment(1).id), None)])
    with pytest.raises(Refused):
        await house.keep()
    house.writer.declines = False
    await house.keep()
    assert TABLE not in house.catalog.deletes


# ---------------------------------------------------------------- what is left of what is gone


async def test_what_is_left_of_a_dropped_table_goes():
    house = House(*visible(*range(5)), *replaced(7, 8), leftovers_at_once=3)
    house.drop()
    assert len(house.catalog.segments) == 2
    assert await house.keep() == [3, 3, 1]
    assert (len(house.catalog.segments), len(house.catalog.replaced)) == (0, 0)
    assert await house.keep() == []


async def test_the_rights_of_a_dropped_role_go():
    rights = [
        put(keys.grant(one, who), GrantRecord(object=one, principal=who, rights=(Right.DROP,)))
        for who in (8, 9)
        for one in (1, 2, 3, 4)
    ]
    house = House(*rights, role(8), role(9), leftovers_at_once=3)
    house.writer.write(plans.removed((HiddenPrincipal(principal=8),), house.catalog))
    assert await house.keep() == [3, 1]
    assert {who for granted in house.catalog.grants.values() for who in granted} == {9}


# ---------------------------------------------------------------- DELETEs that concern nothing any more


@pytest.mark.parametrize("inline", [4, 0])
async def test_a_delete_goes_once_it_concerns_no_segment_whoever_looks(inline):
    house = House(*visible(1), found_inline_max=inline)
    house.writer.write([delete()])
    await house.keep()
    assert TABLE in house.catalog.deletes
    house.writer.write([Change(keys.segment(TABLE, 1, segment(1).id), None), *replaced(1)])
    await house.keep()
    assert TABLE in house.catalog.deletes, "scans may read what was replaced"
    house.clock.instant_ns += REPLACED_KEPT_NS
    await house.keep()
    assert TABLE not in house.catalog.deletes
    assert bool(house.threads.used) == (inline == 0)


async def test_a_new_leader_looks_at_all_tables_with_deletes():
    house = House(delete(), delete(2, UseState.PRE_DELETE))
    await house.keep()
    assert list(house.catalog.deletes[TABLE]) == [2], "the other one may be rolled back"
    house.writer.write([delete(2)])
    await house.keep()
    assert TABLE not in house.catalog.deletes


async def test_a_table_is_looked_at_only_when_something_of_it_has_changed(monkeypatch):
    looked = []
    monkeypatch.setattr(housekeeping, "spent", lambda table, _catalog: looked.append(table.id) or ())
    house = House(delete(), *visible(1))
    await house.keep()
    await house.keep()
    assert looked == [TABLE]
    house.writer.write([delete(2)])
    await house.keep()
    assert looked == [TABLE, TABLE]


async def test_deletes_of_a_table_that_is_dropped_meanwhile_are_let_be():
    house = House(delete())
    house.drop()
    assert await house.keep() == []


# ---------------------------------------------------------------- horizons


async def test_horizons_move_in_slices_and_tables_are_sorted_only_when_they_change():
    house = House(horizons_at_once=3, found_inline_max=0)
    table = house.catalog.tables[TABLE]
    expiring = [msgspec.structs.replace(table, id=number, name=f"t{number}", ttl_ns=10**9) for number in range(50, 57)]
    house.writer.write([put(keys.table(one.id), one) for one in expiring])
    assert await house.keep() == [3, 3, 1]
    assert set(house.catalog.horizons) == {one.id for one in expiring}
    assert await house.keep() == [0, 0, 0]
    assert house.threads.used == 1


async def test_streaming_queries_go_long_after_their_last_batch_and_are_looked_for_now_and_then():
    house = House()
    old, new = "a" * 36, "b" * 36
    at_us = house.clock.wall_us() - STREAM_KEPT_NS // 1_000

    def write(query, committed_us):
        record = StreamRecord(query=query, table=TABLE, batch=1, committed_us=committed_us)
        house.writer.write([put(keys.stream(query), record)])

    write(old, at_us)
    write(new, at_us + 1)
    assert await house.keep() == [1]
    assert set(house.catalog.streams) == {new}
    write(old, at_us)
    assert await house.keep() == []
    house.clock.instant_ns += STREAMS_LOOK_NS
    assert await house.keep() == [1]
