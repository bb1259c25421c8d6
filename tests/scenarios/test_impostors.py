"""A process without the cluster key listens where the coordinator did, and keeps what nodes send it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from leasehold.core.membership.proofs import coordinator_proof, derive_keys
from leasehold.core.words.messages import (
    Allocate,
    ChallengeCoordinator,
    ClusterFacts,
    CoordinatorProof,
    Join,
    Message,
    OpenSession,
    SessionOpened,
    WhoAreYou,
)
from leasehold.errors import Refused, Superseded
from leasehold.ids import Nonce, Revision, Term
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.swim import CLUSTER_KEY_BYTES
from leasehold.testing.cluster import ADDRESS, COORDINATOR, SimulatedCluster
from leasehold.testing.site import KEYS
from leasehold.wire.ports import Duplex
from tests.scenarios.identity_words import identity, serving, simulate

FOREIGN = derive_keys(b"f" * CLUSTER_KEY_BYTES)

Answer = Callable[[ChallengeCoordinator], Message]


class Impostor:
    """Says that it is the coordinator. It answers challenges with `answer`, and lets in whoever asks."""

    def __init__(self, facts: ClusterFacts, answer: Answer) -> None:
        self.heard: list[Message] = []
        self._facts = facts
        self._answer = answer

    async def call(self, request: Message) -> Message:
        return self._said(request)

    async def stream(self, request: Message) -> AsyncIterator[Message]:
        yield self._said(request)

    async def session(self, duplex: Duplex) -> None:
        while (message := await duplex.receive()) is not None:
            await duplex.send(self._said(message))

    def _said(self, message: Message) -> Message:
        self.heard.append(message)
        match message:
            case WhoAreYou():
                return self._facts
            case ChallengeCoordinator():
                return self._answer(message)
            case OpenSession():
                return SessionOpened(term=self._facts.term, renew_every_ns=1, latest=message.watch_from)
            case _:
                raise Superseded("a newer process has joined", hint="end")


async def ask(cluster: SimulatedCluster, request: Message) -> Message:
    connection = cluster.network.host("stranger").connect(ADDRESS)
    try:
        return await connection.call(request, timeout_ns=CALL_TIMEOUT_NS)
    finally:
        await connection.close()


def raising(error: Exception) -> Answer:
    def answer(_: ChallengeCoordinator) -> Message:
        raise error

    return answer


ANSWERS: dict[str, Answer] = {
    "another key": lambda challenge: CoordinatorProof(proof=coordinator_proof(challenge, FOREIGN)),
    "no proof": lambda _: CoordinatorProof(proof=b""),
    "another message": lambda _: SessionOpened(term=Term(1), renew_every_ns=1, latest=Revision(1)),
    "superseded": raising(Superseded("a newer process has joined", hint="end")),
    "removed": raising(Refused("the node was removed", code="REMOVED", hint="end")),
    "another cluster": raising(Refused("another cluster", code="OTHER_CLUSTER", hint="end")),
}


def with_impostor(answer: Answer | None, meanwhile: Callable[[Any, Any, Any, Impostor], Awaitable[None]]) -> None:
    """A node serves, the coordinator dies, an impostor takes its port; afterwards the coordinator is back."""

    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        node = cluster.nodes[0]
        node.start(group)
        await serving(cluster, node)
        facts = await ask(cluster, WhoAreYou())
        assert isinstance(facts, ClusterFacts)
        before = ChallengeCoordinator(cluster_id=facts.cluster_id, address=ADDRESS, nonce=Nonce("1" * 32))
        old = await ask(cluster, before)
        assert old == CoordinatorProof(proof=coordinator_proof(before, KEYS))
        await cluster.kill_coordinator()
        cluster.revive(COORDINATOR)
        impostor = Impostor(facts, answer or (lambda _: old))
        server = await cluster.network.host(COORDINATOR).serve(ADDRESS, impostor, on_fault=cluster.fault)
        await meanwhile(cluster, group, node, impostor)
        assert not [one for one in impostor.heard if isinstance(one, Allocate | Join | OpenSession)]
        await server.close()
        await cluster.start_coordinator(group)
        await serving(cluster, node)

    simulate(scenario)


@pytest.mark.parametrize("answer", [*ANSWERS.values(), None], ids=[*ANSWERS, "the proof of another challenge"])
def test_a_node_that_runs_sends_no_session_to_who_took_the_port(
    answer: Answer | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def meanwhile(cluster: SimulatedCluster, _: Any, node: Any, impostor: Impostor) -> None:
        incarnation = (await identity(node)).incarnation
        await cluster.wait_for(lambda: len(impostor.heard) > 3)
        assert all(isinstance(one, ChallengeCoordinator) for one in impostor.heard)
        assert len({one.nonce for one in impostor.heard}) == len(impostor.heard)  # type: ignore[attr-defined]
        told = [one.getMessage() for one in caplog.records if "ignoring the coordinator" in one.getMessage()]
        assert len(told) == 1, "once, and then now and then"
        assert f"the process at {ADDRESS} does not prove that it is the coordinator" in told[0]
        assert (await identity(node)).incarnation == incarnation

    with caplog.at_level(logging.WARNING, logger="leasehold.node.agent.coordinators"):
        with_impostor(answer, meanwhile)


@pytest.mark.parametrize("answer", [*ANSWERS.values(), None], ids=[*ANSWERS, "the proof of another challenge"])
def test_a_node_that_starts_sends_no_join_to_who_took_the_port(answer: Answer | None) -> None:
    async def meanwhile(cluster: SimulatedCluster, group: asyncio.TaskGroup, node: Any, impostor: Impostor) -> None:
        await node.kill()
        impostor.heard.clear()
        cluster.revive(node.name)
        node.start(group)
        await cluster.wait_for(lambda: len(impostor.heard) > 6)
        assert {type(one) for one in impostor.heard} == {WhoAreYou, ChallengeCoordinator}

    with_impostor(answer, meanwhile)


def test_a_proof_of_before_a_pause_counts_for_no_join() -> None:
    """The coordinator proves itself while the node is paused, dies, and another process takes its port."""

    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        node = cluster.nodes[0]
        node.start(group)
        await serving(cluster, node)
        await node.kill()
        held = cluster.network.hold(COORDINATOR, node.name, lambda one: isinstance(one, CoordinatorProof))
        asked = asyncio.Event()

        def notes(message: Message) -> bool:
            if isinstance(message, ChallengeCoordinator):
                asked.set()
            return False

        cluster.network.hold(node.name, COORDINATOR, notes)
        cluster.revive(node.name)
        node.start(group)
        await asked.wait()
        facts = await ask(cluster, WhoAreYou())
        assert isinstance(facts, ClusterFacts)
        await asyncio.sleep(2)
        await cluster.kill_coordinator()
        cluster.revive(COORDINATOR)
        impostor = Impostor(facts, ANSWERS["no proof"])
        server = await cluster.network.host(COORDINATOR).serve(ADDRESS, impostor, on_fault=cluster.fault)
        cluster.network.release(held)
        await cluster.wait_for(lambda: impostor.heard)
        assert not [one for one in impostor.heard if isinstance(one, Allocate | Join | OpenSession)]
        await server.close()
        await cluster.start_coordinator(group)
        await serving(cluster, node)

    simulate(scenario)
