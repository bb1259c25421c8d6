"""What goes with CASCADE is used by the statement as what it names; and what can't go on can be cancelled."""

import pytest

from leasehold.coordinator.statements import procedures
from leasehold.core.words.records import Outcome
from leasehold.core.words.statements import CreateTable, DropTable
from leasehold.errors import OutcomeUnknown, Refused
from leasehold.limits.units import SECOND_NS
from tests.unit.coordinator.office import asked, simulated, term
from tests.unit.coordinator.statement_cases import DATABASE, TABLE, VIEW, T, V, column
from tests.unit.coordinator.statements.procedure_words import begin, refusal, told

DROP = DropTable(table=T, cascade=True)
AGAIN = CreateTable(name=V, columns=(column("a"),))
"""A table under the name of the view that goes with T."""


async def opened(office):
    """The view is there and settled, and the node holds a lease."""
    await office.silent()
    for number, statement in enumerate((DATABASE, TABLE, VIEW)):
        await office.execute(asked(number, statement))
    await office.silent()
    office.renew()


def begun(office, number):
    return asked(number, AGAIN).id in office.catalog.statements


def test_a_name_is_given_again_once_no_node_may_know_it_as_what_went_with_cascade():
    async def work(office):
        await opened(office)
        dropping = begin(office, 5, DROP)
        await office.number(asked(5, DROP).id)
        early = begin(office, 6, AGAIN)
        hidden = office.catalog.revision
        office.renew(hidden)
        assert (await dropping).outcome is Outcome.COMMITTED
        late = begin(office, 7, AGAIN)
        await office.sleep(SECOND_NS // 10)
        assert office.catalog.find_view(V) is None
        assert not begun(office, 6), "the node may be at the revision that hides the view, and not at that without it"
        assert not begun(office, 7)
        office.renew()
        await office.number(asked(6, AGAIN).id)
        office.renew()
        assert (await early).outcome is Outcome.COMMITTED
        assert (await refusal(late)).code == "ALREADY_EXISTS"
        return True

    async def main(store, clock):
        assert await term(store, clock, work)

    simulated(main)


def test_what_goes_with_cascade_and_was_changed_a_moment_ago_is_settled_first():
    """Its change used the table together with others, so the table itself has nothing to wait for."""

    async def work(office):
        await office.silent()
        for number, statement in enumerate((DATABASE, TABLE)):
            await office.execute(asked(number, statement))
        await office.silent()
        office.renew()
        created = await office.execute(asked(2, VIEW, timeout_ns=SECOND_NS // 5))
        assert created.outcome is Outcome.COMMITTED_PENDING
        dropping = begin(office, 5, DROP)
        await office.sleep(SECOND_NS // 10)
        assert asked(5, DROP).id not in office.catalog.statements, "the node may be at the revision before the view"
        office.renew()
        await office.number(asked(5, DROP).id)
        office.renew()
        assert (await dropping).outcome is Outcome.COMMITTED
        assert office.catalog.find_view(V) is None
        return True

    async def main(store, clock):
        assert await term(store, clock, work)

    simulated(main)


def test_a_later_leader_holds_that_name_too():
    async def first(office):
        await opened(office)
        task = begin(office, 5, DROP)
        await office.number(asked(5, DROP).id)
        task.cancel()
        return True

    async def second(office):
        creating = begin(office, 6, AGAIN)
        await office.sleep(SECOND_NS // 10)
        assert not begun(office, 6)
        await office.silent()
        assert (await office.outcome(asked(5, DROP).id)).outcome is Outcome.COMMITTED
        assert (await creating).outcome is Outcome.COMMITTED
        return True

    async def main(store, clock):
        assert await term(store, clock, first)
        assert await term(store, clock, second)

    simulated(main)


def test_what_could_not_go_on_is_cancelled(monkeypatch):
    """Nobody runs it any more, and what it hid must not stay hidden."""

    def never(*_):
        raise Refused("too much at once", code="TOO_LARGE", hint="none")

    async def work(office):
        await opened(office)
        monkeypatch.setattr(procedures.ddl, "finish", never)
        with pytest.raises(OutcomeUnknown):
            await office.execute(asked(5, DROP))
        number = office.catalog.statements[asked(5, DROP).id].order
        office.renew()
        hidden = office.catalog.revision
        cancelling = office.group.create_task(told(office.cancel(number)))
        await office.sleep(SECOND_NS // 10)
        office.renew(hidden)
        assert office.catalog.find_table(T) is not None
        assert office.catalog.statements[asked(5, DROP).id].outcome is Outcome.ROLLED_BACK
        behind = begin(office, 6, AGAIN)
        await office.sleep(SECOND_NS // 10)
        assert not behind.done(), "nodes may hide the view still"
        assert not cancelling.done()
        office.renew()
        assert (await cancelling).rows[0][-1] == "ROLLED_BACK"
        assert (await refusal(behind)).code == "ALREADY_EXISTS"
        return True

    async def main(store, clock):
        assert await term(store, clock, work)

    simulated(main)
