"""Registration over a meta storage that declines: nothing is known of the node, which asks again."""

import asyncio

from leasehold.core.words.messages import AllocateAnswer
from leasehold.errors import Definite, Indefinite, Refused
from leasehold.testing.requests import RequestFate
from tests.scenarios.identity_words import allocate, in_an_office


async def full(request):
    await asyncio.sleep(0)
    if request == "txn":
        raise Refused("no space", code="DISK_FULL", hint="make room")
    return RequestFate.ANSWERED


def test_a_store_that_declines_leaves_a_node_in_doubt_and_it_gets_its_id_later():
    async def scenario(office):
        undisturbed, office.storage.before = office.storage.before, full
        (error,) = await office.ask(allocate(1))
        assert isinstance(error, Indefinite)
        assert "no space" in error.text
        office.storage.before = undisturbed
        assert await office.ask(allocate(1)) == [AllocateAnswer(node=1)]

    in_an_office(scenario)


def test_a_refusal_for_a_name_that_was_not_given_after_all_is_none():
    async def scenario(office):
        undisturbed, office.storage.before = office.storage.before, full
        answers = await office.ask(allocate(1, name="same"), allocate(2, name="same"))
        assert [isinstance(one, Indefinite) for one in answers] == [True, True]
        office.storage.before = undisturbed
        assert await office.ask(allocate(2, name="same")) == [AllocateAnswer(node=1)]

    in_an_office(scenario)


def test_a_refusal_stays_one_where_the_store_is_not_even_asked():
    async def scenario(office):
        await office.ask(allocate(1, name="same"))
        office.storage.before = full
        (error,) = await office.ask(allocate(2, name="same"))
        assert isinstance(error, Definite)
        assert error.code == "NAME_TAKEN"

    in_an_office(scenario)
