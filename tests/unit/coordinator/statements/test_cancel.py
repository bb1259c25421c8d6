"""CANCEL PROCEDURE under one leader: what is rolled back, who hears of it, and what can't be cancelled."""

import asyncio

import pytest

from leasehold.core.words.records import Outcome
from leasehold.errors import NotFound
from leasehold.limits.units import SECOND_NS
from tests.unit.coordinator.office import asked, simulated, term
from tests.unit.coordinator.statement_cases import T
from tests.unit.coordinator.statements.procedure_words import ADD, DROP, begin, office_test, opened, refusal, told


def test_cancel_rolls_a_statement_back_and_both_hear_of_it():
    async def work(office):
        dropping = begin(office, 5, DROP)
        number = await office.number(asked(5, DROP).id)
        rows = await office.cancel(number)
        assert rows.rows == ((number, asked(5, DROP).id, "DropTable", "ROLLED_BACK"),)
        receipt = await dropping
        assert (receipt.outcome, receipt.pending) == (Outcome.ROLLED_BACK, (1,))
        assert office.catalog.find_table(T) is not None
        assert (await office.cancel(number)).rows == rows.rows, "asked again, it says the same"

    office_test(work)


def test_a_rollback_of_an_older_leader_is_told_once_no_node_hides_its_object():
    async def first(office):
        await opened(office)
        begin(office, 5, DROP, timeout_ns=SECOND_NS // 2)
        await office.sleep(SECOND_NS)
        return True

    async def second(office):
        telling = office.group.create_task(office.outcome(asked(5, DROP).id))
        await office.sleep(SECOND_NS // 10)
        assert not telling.done()
        office.renew()
        assert (await telling).outcome is Outcome.ROLLED_BACK
        return True

    async def main(store, clock):
        assert await term(store, clock, first)
        assert await term(store, clock, second)

    simulated(main)


def test_what_is_committed_can_not_be_cancelled():
    async def work(office):
        adding = begin(office, 5, ADD)
        number = await office.number(asked(5, ADD).id)
        error = await refusal(office.cancel(number))
        assert error.code == "PAST_RETURN"
        office.renew()
        assert (await adding).outcome is Outcome.COMMITTED
        assert (await refusal(office.cancel(number))).code == "PAST_RETURN"

    office_test(work)


def test_a_number_that_no_procedure_has_can_not_be_cancelled():
    async def work(office):
        error = await refusal(office.cancel(99))
        assert isinstance(error, NotFound)
        assert error.code == "NO_PROCEDURE"

    office_test(work)


@pytest.mark.parametrize("first", ["cancel", "barrier"])
def test_cancel_and_the_point_of_no_return_are_decided_one_after_the_other(first):
    async def work(office):
        dropping = begin(office, 5, DROP)
        number = await office.number(asked(5, DROP).id)
        if first == "barrier":
            office.renew()
            await asyncio.sleep(0)
        cancelling = office.group.create_task(told(office.cancel(number)))
        await asyncio.sleep(0)
        office.renew()
        receipt, answer = await dropping, await cancelling
        if first == "barrier":
            assert receipt.outcome is Outcome.COMMITTED
            assert answer.code == "PAST_RETURN"
            assert office.catalog.find_table(T) is None
        else:
            assert receipt.outcome is Outcome.ROLLED_BACK
            assert answer.rows[0][-1] == "ROLLED_BACK"
            assert office.catalog.find_table(T) is not None

    office_test(work)
