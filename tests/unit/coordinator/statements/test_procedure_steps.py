"""Every kind of statement, at each transaction of it: the store fails before it, its answer is lost, it is declined,
another leader takes over, the request comes again. It has one outcome, which is told again by whoever leads."""

import asyncio
import contextlib

import msgspec
import pytest

from leasehold.coordinator.stored_catalog import read_catalog
from leasehold.core.words.records import Outcome
from leasehold.errors import Indefinite, NotFound, Refused
from leasehold.limits.units import SECOND_NS
from leasehold.testing.metastorage import MemoryMetaStorage
from leasehold.testing.requests import RequestFate
from tests.unit.coordinator.office import LONG_NS, asked, simulated, term
from tests.unit.coordinator.statement_cases import CASES

FAULTS = ("fails before", "answer lost", "declined", "another leads", "asked again")
FIRST, SECOND, LAST = 1, 2, 3
STATEMENT = 999


class Fault:
    """What happens at the n-th transaction of a leader, counted from when it was armed; once."""

    def __init__(self, kind, number, request):
        self.kind, self.number, self.request = kind, number, request
        self.count = 0
        self.happened = False
        self.told = []

    def __call__(self, office):
        async def before(request):
            await asyncio.sleep(0)
            if request == "txn" and not self.happened:
                self.count += 1
                if self.count == self.number:
                    self.happened = True
                    return await self.happen(office)
            return RequestFate.ANSWERED

        return before

    async def happen(self, office):
        match self.kind:
            case "fails before":
                return RequestFate.LOST_BEFORE
            case "answer lost":
                return RequestFate.LOST_AFTER
            case "declined":
                raise Refused("no room", code="DISK_FULL", hint="make room")
            case "another leads":
                office.storage.store.depose()
                other = MemoryMetaStorage(office.storage.store)
                await other.campaign("c2")
                other.sever()
            case "asked again":
                self.told.append(office.group.create_task(office.execute(self.request)))
        return RequestFate.ANSWERED


def ways(case):
    """What can end it, and how many transactions that takes."""
    if case.destructive:
        return {"goes through": LAST, "times out": SECOND, "is cancelled": SECOND}
    return {"goes through": SECOND, "times out": SECOND}


STEPS = [
    pytest.param(name, way, number, fault, id=f"{name}, {way}, transaction {number}: {fault}")
    for name, case in CASES.items()
    for way, numbers in ways(case).items()
    for number in range(1, numbers + 1)
    for fault in FAULTS
]


def seen(catalog):
    """What nodes and people see of a catalog: all but what statements leave behind, and instants."""
    kept = {
        name: getattr(catalog, name)
        for name in catalog.__struct_fields__
        if name not in {"revision", "lineage", "counters", "procedures", "statements", "horizons"}
    }
    kept["horizons"] = {table: one.hidden_us is None for table, one in catalog.horizons.items()}
    kept["tokens"] = {key: msgspec.structs.replace(one, made_us=0, expires_us=0) for key, one in catalog.tokens.items()}
    kept["tables"] = {
        key: msgspec.structs.replace(one, deletes=0, deleted=0, schema_version=0) for key, one in catalog.tables.items()
    }
    return kept


def counted(catalog):
    """What only grows, whatever becomes of a statement."""
    return {table.id: (table.deletes, table.schema_version) for table in catalog.tables.values()}


async def prepared(store, clock, case):
    """What must be there is there, and settled."""

    async def work(office):
        await office.silent()
        for number, statement in enumerate(case.before):
            receipt = await office.execute(asked(number, statement))
            assert receipt.outcome is Outcome.COMMITTED
        await office.sleep(LONG_NS)
        return office.catalog

    return await term(store, clock, work)


async def ended(store, clock, way, fault):
    """Asks until it is told definitely, under one leader after another."""
    answers = []

    async def work(office):
        if way != "goes through" and not fault.happened:
            office.renew()  # a lease, so that its barrier has somebody to wait for
        else:
            await office.silent()
        cancels = office.group.create_task(cancel(office, fault.request.id)) if way == "is cancelled" else None
        try:
            told = await office.execute(fault.request)
        except Refused as error:
            told = error
        if cancels is not None:
            cancels.cancel()
        answers.append(told)
        await office.sleep(LONG_NS)
        for again in fault.told:
            assert (await again) == told

    await term(store, clock, work, before=fault)
    while not answers:
        await term(store, clock, work)
    return answers[0]


async def cancel(office, statement):
    with contextlib.suppress(Refused, Indefinite):  # it has ended otherwise, or this leader has
        await office.cancel(await office.number(statement))


async def told_again(store, clock, request, answer):
    """Under a new leader, and by a copy of the request."""

    async def work(office):
        if isinstance(answer, Refused):
            with pytest.raises(NotFound):
                await office.outcome(request.id)
            return True
        for told in (await office.outcome(request.id), await office.execute(request)):
            assert (told.outcome, told.revision, told.pending) == (answer.outcome, answer.revision, answer.pending)
        await office.sleep(LONG_NS)
        return True

    assert await term(store, clock, work)


@pytest.mark.parametrize(("name", "way", "number", "fault"), STEPS)
def test_every_transaction_of_every_statement(name, way, number, fault):
    case = CASES[name]
    timeout_ns = SECOND_NS if way == "times out" else None
    request = asked(STATEMENT, case.statement, timeout_ns=timeout_ns)

    async def main(store, clock):
        before = await prepared(store, clock, case)
        injected = Fault(fault, number, request)
        answer = await ended(store, clock, way, injected)
        assert injected.happened
        await told_again(store, clock, request, answer)
        after = await read_catalog(MemoryMetaStorage(store))
        assert not after.procedures
        check_end(case, way, number, fault, answer)
        changed = not isinstance(answer, Refused) and answer.outcome is not Outcome.ROLLED_BACK
        if changed:
            assert (seen(after), counted(after)) != (seen(before), counted(before))
        else:
            assert seen(after) == seen(before)
        return seen(after) if changed else None

    after = simulated(main)
    if after is not None:
        assert after == undisturbed(name)


def check_end(case, way, number, fault, answer):
    """What it may come to."""
    if number == FIRST and fault == "declined":
        assert isinstance(answer, Refused)
        assert answer.code == "DISK_FULL"
        return
    takes_over = fault in {"fails before", "answer lost", "another leads"}
    if way == "goes through":
        assert answer.outcome is Outcome.COMMITTED
    elif takes_over:
        # The next leader goes all the way, unless the end had been written already.
        written = Outcome.ROLLED_BACK if case.destructive else Outcome.COMMITTED_PENDING
        may = {Outcome.COMMITTED, written} if way == "is cancelled" or number == FIRST else None
        expected = may or {written if fault == "answer lost" else Outcome.COMMITTED}
        assert answer.outcome in expected
    elif way == "is cancelled" and fault == "declined":
        assert answer.outcome is Outcome.COMMITTED, "it was CANCEL that was declined"
    else:
        assert answer.outcome is (Outcome.ROLLED_BACK if case.destructive else Outcome.COMMITTED_PENDING)
        assert answer.pending == (1,)


def undisturbed(name, cache={}):  # noqa: B006 it is meant to be kept
    """What the catalog looks like after the statement if nothing happens."""
    if name not in cache:

        async def main(store, clock):
            await prepared(store, clock, CASES[name])

            async def work(office):
                await office.silent()
                await office.execute(asked(STATEMENT, CASES[name].statement))
                await office.sleep(LONG_NS)
                return seen(office.catalog)

            return await term(store, clock, work)

        cache[name] = simulated(main)
    return cache[name]
