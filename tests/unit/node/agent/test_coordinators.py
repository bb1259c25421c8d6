"""Which coordinators a node asks, in which order, and whose word ends it."""

import asyncio
import logging
from typing import NamedTuple

import msgspec
import pytest

from leasehold.core.words.messages import AskReceipts, ClusterFacts, WhoAreYou
from leasehold.errors import NotLeader, Refused, Unreachable
from leasehold.limits.clients import RETRY_PAUSE_NS
from leasehold.limits.membership import COORDINATORS_KNOWN_MAX, CUT_OFF_TOLD_NS
from leasehold.node.agent.coordinators import KnownCoordinators
from leasehold.testing.vault import VaultDisk
from leasehold.wire.entropy import SystemEntropy

FACTS = ClusterFacts(cluster_id="c" * 32, generation=1, term=1, leader=True)
FOREIGN = Refused("another one", code="OTHER_CLUSTER", hint="check the address")


class Later(NamedTuple):
    """What answers after so many calls."""

    calls: int
    answer: ClusterFacts


class Answering:
    """A transport: what answers at each address, an error or a message; nobody elsewhere."""

    checks_peers = False
    certificate_ends_s = None

    def __init__(self, **answers):
        self.answers = {f"{host}:1": answer for host, answer in answers.items()}
        self.asked = []

    def connect(self, address):
        self.asked.append(address)
        self._address = address
        return self

    async def call(self, _request, *, timeout_ns):
        assert timeout_ns > 0
        answer = self.answers.get(self._address, Unreachable("nobody is there", hint="ask another"))
        if isinstance(answer, Later):
            answer = answer.answer if len(self.asked) > answer.calls else Unreachable("nobody is there", hint="wait")
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self):
        pass


class NoWait:
    def __init__(self):
        self.at_ns = 0

    def now_ns(self):
        return self.at_ns

    async def sleep_until(self, deadline_ns):
        self.at_ns = deadline_ns
        await asyncio.sleep(0)


def known(*given, **answers):
    transport = Answering(**answers)
    return KnownCoordinators(tuple(f"{host}:1" for host in given), transport, NoWait(), SystemEntropy()), transport


def at(*hosts):
    return tuple(f"{host}:1" for host in hosts)


async def turned_to(coordinators, host):
    """It is the turn of this one."""
    while coordinators.present != f"{host}:1":
        await coordinators.next()


async def test_those_found_are_asked_after_those_given_and_before_those_remembered():
    coordinators, transport = known("a", d=FACTS)
    coordinators.remember(at("b", "d"))
    coordinators.found(at("c", "a"))
    assert coordinators.addresses == at("a", "c", "b", "d")
    assert await coordinators.ask(WhoAreYou(), ClusterFacts) == FACTS
    assert transport.asked == list(at("a", "c", "b", "d"))
    coordinators.found(at("e"))
    assert coordinators.addresses == at("a", "e", "b", "d")
    assert coordinators.present == "d:1", "who answers is asked on"


async def test_what_an_unproven_process_tells_keeps_no_other_coordinator_out():
    coordinators, transport = known(found=FACTS)
    coordinators.remember(at("remembered"))
    coordinators.told(at(*(f"bogus{number}" for number in range(COORDINATORS_KNOWN_MAX))))
    coordinators.found(at("found"))
    assert coordinators.addresses[:2] == at("found", "remembered")
    assert len(coordinators.addresses) == COORDINATORS_KNOWN_MAX
    assert await coordinators.ask(WhoAreYou(), ClusterFacts) == FACTS
    assert transport.asked[-1] == "found:1"


async def test_the_leader_that_a_coordinator_names_is_asked_next_if_it_is_known():
    coordinators, transport = known("a", "b", "c", a=NotLeader("it stands by", leader="c:1", term=2), c=FACTS)
    assert await coordinators.ask(WhoAreYou(), ClusterFacts) == FACTS
    assert transport.asked == list(at("a", "c"))
    coordinators, transport = known("a", "b", a=NotLeader("it stands by", leader="stranger:1", term=2), b=FACTS)
    assert await coordinators.ask(WhoAreYou(), ClusterFacts) == FACTS
    assert transport.asked == list(at("a", "a", "b")), "the stranger was not asked, but its friend who else there is"


async def test_who_is_seen_no_more_leaves_its_turn_to_another_one():
    coordinators, transport = known("a")
    coordinators.found(at("b", "c"))
    await coordinators.next()
    coordinators.connect()
    coordinators.found(at("c"))
    assert coordinators.present == "c:1"
    coordinators.found(())
    assert coordinators.addresses == at("a", "c"), "that nobody is seen does not show that nobody is there"
    assert transport.asked == ["b:1"]


async def test_their_number_is_bounded_and_news_has_room():
    coordinators, _ = known("a")
    many = tuple(f"h{number}:1" for number in range(COORDINATORS_KNOWN_MAX + 9))
    coordinators.remember(many)
    coordinators.found(at("b"))
    assert len(coordinators.addresses) == COORDINATORS_KNOWN_MAX
    assert coordinators.addresses[:3] == ("a:1", "b:1", "h0:1")
    coordinators.found(many)
    assert len(coordinators.addresses) == COORDINATORS_KNOWN_MAX


async def test_who_knows_none_waits_until_one_is_found(caplog):
    coordinators, transport = known(b=FACTS)
    with caplog.at_level(logging.INFO):
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            asking = group.create_task(coordinators.ask(WhoAreYou(), ClusterFacts))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not asking.done()
            assert transport.asked == []
            coordinators.found(at("a", "b"))
    assert asking.result() == FACTS
    first = caplog.records[0].getMessage()
    assert first == "no coordinator is known: waiting until the physical topology shows one"


async def test_who_is_answered_by_the_second_one_has_nothing_to_say(caplog):
    coordinators, _ = known("a", "b", b=FACTS)
    with caplog.at_level(logging.INFO):
        await coordinators.ask(WhoAreYou(), ClusterFacts)
    assert not caplog.records


async def test_I11_only_who_was_given_may_end_a_node_as_of_another_cluster(caplog):
    coordinators, _ = known("a")
    coordinators.found(at("b"))
    coordinators.remember(at("c"))
    coordinators.connect()
    assert not await coordinators.passes_over(FOREIGN)
    for host in ("b", "c"):
        await turned_to(coordinators, host)
        coordinators.connect()
        assert not await coordinators.passes_over(NotLeader("it stands by", hint="ask another")), "only for this reason"
        for _ in range(2):
            await turned_to(coordinators, host)
            coordinators.connect()
            assert await coordinators.passes_over(FOREIGN)
    told = [one.getMessage() for one in caplog.records]
    assert [text.partition(": ")[0] for text in told] == [
        "ignoring the coordinator at b:1",
        "ignoring the coordinator at c:1",
    ], "each once"


async def test_who_was_asked_counts_and_not_whose_turn_it_is_when_the_answer_comes():
    coordinators, _ = known("a")
    coordinators.found(at("b"))
    await coordinators.next()
    coordinators.connect()
    coordinators.found(at("c"))
    await turned_to(coordinators, "a")
    assert await coordinators.passes_over(FOREIGN), "b was asked, which nobody gave"


async def test_the_vault_holds_those_given_and_of_those_found_only_who_answered():
    vault = VaultDisk().open()
    coordinators, _ = known("a", c=FACTS)
    coordinators.remember(at("r"))
    coordinators.found(at("b", "c"))
    await coordinators.ask(WhoAreYou(), ClusterFacts)
    await coordinators.keep(vault)
    assert await vault.coordinators() == at("a", "c", "r")
    coordinators.found(at("d"))
    await coordinators.keep(vault)
    assert await vault.coordinators() == at("a", "c", "r")


@pytest.mark.parametrize("given", [(), ("a",)])
async def test_what_is_found_again_after_it_was_kept_is_one(given):
    vault = VaultDisk().open()
    coordinators, _ = known(*given, b=FACTS)
    coordinators.found(at("b"))
    await coordinators.ask(WhoAreYou(), ClusterFacts)
    await coordinators.keep(vault)
    coordinators.found(at("b"))
    assert coordinators.addresses == (*at(*given), "b:1")


async def test_the_log_says_what_keeps_a_node_from_its_cluster_at_first_and_then_once_in_a_while(caplog):
    """On a terminal a node that starts would say nothing at all, and one that runs on would fill its disk with it."""
    coordinators, transport = known("a")
    rounds = 3 * CUT_OFF_TOLD_NS // RETRY_PAUSE_NS
    with caplog.at_level(logging.INFO, logger="leasehold.node"):
        transport.answers = {"a:1": Later(rounds, FACTS)}
        assert await coordinators.ask(WhoAreYou(), ClusterFacts) == FACTS
        said = [one.getMessage() for one in caplog.records]
        assert len(said) == 3
        assert all("nobody is there" in one for one in said)
        await coordinators.keep(VaultDisk().open())
        coordinators.say_cut_off(Unreachable("gone again", hint="ask another"))
        assert "gone again" in caplog.records[-1].getMessage(), "what is new is told at once"


@pytest.mark.parametrize("cluster_id", [FACTS.cluster_id, "d" * 32])
async def test_a_leader_that_is_not_known_is_learned_of_from_who_names_it(cluster_id):
    """The catalog of a coordinator may show the leader only after a node has asked who the others are."""
    coordinators, transport = known("a", b=FACTS)
    coordinators.cluster_id = cluster_id
    knows = msgspec.structs.replace(FACTS, leader=False, coordinators=at("a", "b"))

    class Follows(Exception):
        pass

    async def call(request, *, timeout_ns):
        assert timeout_ns > 0
        if transport._address == "b:1":
            return FACTS
        if isinstance(request, WhoAreYou):
            return knows
        if transport.asked.count("a:1") > 6:
            raise Follows
        raise NotLeader("a follows", leader="b:1", term=2)

    transport.call = call
    if cluster_id == FACTS.cluster_id:
        assert await coordinators.ask(AskReceipts(after=0, limit=1), ClusterFacts) == FACTS
        assert transport.asked == list(at("a", "a", "b"))
    else:
        with pytest.raises(Follows):
            await coordinators.ask(AskReceipts(after=0, limit=1), ClusterFacts)
        assert "b:1" not in transport.asked, "it is of another cluster"
