"""Renewals to a leader of the past, and grants that answer nothing or come from it: nobody is granted anything."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from leasehold.coordinator.nodes.leases import Leasing
from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.lease.barrier import Proceed
from leasehold.core.lease.grantor import Grantor
from leasehold.core.lease.grants import Registered
from leasehold.core.membership.identity import hash_secret
from leasehold.core.words.lineage import GENESIS
from leasehold.core.words.messages import (
    Allocate,
    AllocateAnswer,
    ClusterFacts,
    Grant,
    Join,
    JoinAnswer,
    Message,
    RecoveryProgress,
    Renewal,
    RenewalRefused,
    SessionOpened,
    WhoAreYou,
)
from leasehold.ids import (
    Generation,
    Incarnation,
    LineageHash,
    NodeId,
    RequestNumber,
    Revision,
    Sequence,
    Term,
)
from leasehold.limits.lease import LEASE_DURATION_NS
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.agent import Agent
from leasehold.node.agent.published import Published
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.entropy import SeededEntropy
from leasehold.testing.loop import run_virtual
from leasehold.testing.network import Network
from leasehold.testing.threads import NoThreads
from leasehold.testing.vault import VaultDisk
from leasehold.wire.ports import Duplex
from tests.scenarios.bad_words import CLUSTER, OWN, renewal, until

OWNED = Registered(incarnation=Incarnation(2), session_hash=hash_secret(OWN), member=True)

# ---------------------------------------------------------------- terms


def test_a_renewal_to_a_deposed_leader_is_refused_and_notes_nothing() -> None:
    """Its leadership ended by its own clock a moment ago: it can't know whether another one leads."""

    async def main(random: object) -> None:
        loop = asyncio.get_running_loop()
        clock = SimulatedClock(loop)  # pyright: ignore[reportArgumentType]
        sent: list[Message] = []
        grantor = Grantor(
            term=Term(4),
            floor=Revision(1),
            settings=DEFAULT_SETTINGS,
            largest_outstanding_ns=LEASE_DURATION_NS,
            registered={NodeId(1): OWNED},
            hash_session=hash_secret,
            leads_until_ns=clock.now_ns() + SECOND_NS,
            now_ns=clock.now_ns(),
        )
        leasing = Leasing(grantor, clock)
        leasing.committed(Catalog(revision=Revision(1), lineage=GENESIS))
        leasing.renew(renewal(), sent.append)
        assert isinstance(sent.pop(), Grant)
        before = grantor.held(NodeId(1)), grantor.sequence
        await clock.sleep_until(clock.now_ns() + SECOND_NS)
        leasing.renew(renewal(request=RequestNumber(2), applied=Revision(5)), sent.append)
        (refused,) = sent
        assert isinstance(refused, RenewalRefused)
        assert refused.code == "NOT_LEADER"
        assert (grantor.held(NodeId(1)), grantor.sequence) == before
        leasing.stop()

    run_virtual(main, 1)


def test_a_revision_that_has_never_been_settles_nothing() -> None:
    """What a node claims to have applied counts up to what its leader knows, however it came to claim more."""

    async def main(random: object) -> None:
        clock = SimulatedClock(asyncio.get_running_loop())  # pyright: ignore[reportArgumentType]
        grantor = Grantor(
            term=Term(4),
            floor=Revision(1),
            settings=DEFAULT_SETTINGS,
            largest_outstanding_ns=LEASE_DURATION_NS,
            registered={NodeId(1): OWNED},
            hash_session=hash_secret,
            leads_until_ns=None,
            now_ns=clock.now_ns(),
        )
        leasing = Leasing(grantor, clock)
        leasing.committed(Catalog(revision=Revision(1), lineage=GENESIS))
        leasing.renew(renewal(applied=Revision(2**40)), lambda _: None)
        held = grantor.held(NodeId(1))
        assert held is not None
        assert held.applied == 1
        leasing.committed(Catalog(revision=Revision(2), lineage=GENESIS))
        waiting = leasing.ask(Revision(2)).verdict
        await asyncio.sleep(1)
        assert not waiting.done(), "it has not been heard of revision 2 since there is one"
        leasing.renew(renewal(request=RequestNumber(2), applied=Revision(2)), lambda _: None)
        assert isinstance(await waiting, Proceed)
        leasing.stop()

    run_virtual(main, 1)


def test_R9_a_node_that_has_another_history_is_told_so_gets_no_lease_and_settles_nothing() -> None:
    """Whatever of it is durable where: each renewal carries the hash of what the node shows."""

    async def main(random: object) -> None:
        clock = SimulatedClock(asyncio.get_running_loop())  # pyright: ignore[reportArgumentType]
        sent: list[Message] = []
        grantor = Grantor(
            term=Term(4),
            floor=Revision(1),
            settings=DEFAULT_SETTINGS,
            largest_outstanding_ns=LEASE_DURATION_NS,
            registered={NodeId(1): OWNED},
            hash_session=hash_secret,
            leads_until_ns=None,
            now_ns=clock.now_ns(),
        )
        leasing = Leasing(grantor, clock)
        leasing.committed(Catalog(revision=Revision(1), lineage=GENESIS))
        leasing.committed(Catalog(revision=Revision(2), lineage=LineageHash(b"h" * 32)))
        before = grantor.held(NodeId(1))
        waiting = leasing.ask(Revision(2)).verdict
        other = renewal(applied=Revision(2), lineage=LineageHash(b"x" * 32))
        leasing.renew(other, sent.append)
        (refused,) = sent
        assert isinstance(refused, RenewalRefused)
        assert (refused.request, refused.code) == (other.request, "DIVERGED")
        assert grantor.held(NodeId(1)) == before
        await asyncio.sleep(1)
        assert not waiting.done()
        leasing.renew(renewal(applied=Revision(2), lineage=LineageHash(b"h" * 32)), sent.append)
        assert isinstance(sent[1], Grant)
        assert isinstance(await waiting, Proceed)
        leasing.stop()

    run_virtual(main, 1)


class Impostor:
    """A coordinator that answers as one would, and on a session says what its script makes of each renewal."""

    def __init__(self, script: list[Any]) -> None:
        self._script = script
        self.renewals: list[Renewal] = []
        self.said = 0

    async def call(self, request: Message) -> Message:
        match request:
            case WhoAreYou():
                return ClusterFacts(cluster_id=CLUSTER, generation=Generation(1), term=Term(5), leader=True)
            case Allocate():
                return AllocateAnswer(node=NodeId(1))
            case Join():
                return JoinAnswer(incarnation=Incarnation(1))
            case _:
                raise AssertionError(request)

    def stream(self, request: Message) -> AsyncIterator[Message]:
        raise AssertionError(request)

    async def session(self, duplex: Duplex) -> None:
        await duplex.receive()
        await duplex.send(SessionOpened(term=Term(5), renew_every_ns=SECOND_NS, latest=Revision(0), member=True))
        while True:
            message = await duplex.receive()
            if message is None:
                return
            if isinstance(message, RecoveryProgress):
                continue
            assert isinstance(message, Renewal)
            self.renewals.append(message)
            if self.said < len(self._script):
                answer = self._script[self.said](message)
                self.said += 1
                await duplex.send(answer)


def granting(term: int, sequence: int, *, floor: int = 0, behind: int = 0) -> Any:
    def answer(asked: Renewal) -> Message:
        return Grant(
            request=RequestNumber(asked.request - behind),
            term=Term(term),
            sequence=Sequence(sequence),
            duration_ns=60 * SECOND_NS,
            floor=Revision(floor),
        )

    return answer


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([granting(4, 9)], id="an older term"),
        pytest.param([granting(5, 3)], id="an older grant of this term"),
        pytest.param([granting(5, 9, behind=-7)], id="a renewal never sent"),
        pytest.param([granting(5, 9, behind=1)], id="a renewal answered before"),
        pytest.param([granting(5, 9, floor=7)], id="a floor above what it shows"),
        pytest.param([granting(6, 9, floor=7)], id="a newer term, a floor above what it shows"),
        pytest.param([granting(6, 9, behind=-7)], id="a newer term, a renewal never sent"),
    ],
)
def test_a_grant_that_answers_nothing_or_is_of_an_older_term_moves_no_deadline(script: list[Any]) -> None:
    async def main(random: Any) -> None:
        loop: Any = asyncio.get_running_loop()
        network = Network(loop, random)
        impostor = Impostor([granting(5, 3), *script])
        faults: list[BaseException] = []
        await network.host("c1").serve("c1:7000", impostor, on_fault=faults.append)
        published = Published()
        agent = Agent(
            name="n1",
            address="n1:1",
            coordinators=("c1:7000",),
            vault=VaultDisk().open(),
            transport=network.host("n1"),
            clock=SimulatedClock(loop),
            entropy=SeededEntropy(random),
            threads=NoThreads(),
            published=published,
            compares_disk=False,
        )
        async with asyncio.TaskGroup() as group:
            life = group.create_task(agent.run())
            await until(lambda: published.had_lease)
            first, view = published.lease, published.view
            await until(lambda: len(impostor.renewals) >= len(script) + 4)
            assert impostor.said == len(script) + 1
            assert published.lease is first
            assert published.view is view
            assert not life.done(), "it goes on, and asks as ever"
            life.cancel()
        assert faults == []

    run_virtual(main, 1)
