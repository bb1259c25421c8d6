"""Peers of a write that are late with their word that they take the file: a probe tells whether they can."""

import pytest

from leasehold.core.data import forwarding
from leasehold.core.data.asking import Asking
from leasehold.core.words.messages import AskTable, ForwardAdmitted, Message, NodeStatus, StagedSegment, TableFacts
from leasehold.ids import NodeId
from leasehold.limits.segments import SCHEMA_WAIT_NS
from leasehold.testing.cluster import CLIENT, SimulatedNode
from leasehold.testing.writers import WriteFate, Written
from tests.sim.data_words import TABLE, Ground, simulate


class Late:
    """A table on two nodes. The second one answers no client, so that all rows go to the first one."""

    def __init__(self, ground: Ground, first: SimulatedNode, second: SimulatedNode) -> None:
        self.first, self.second = first, second
        self.network = ground.cluster.network
        self.network.partition(CLIENT, second.name)
        self.statuses: list[NodeStatus] = []
        """What the second node has answered to probes."""
        self.holders: list[list[NodeId]] = []
        """Of each segment that the first node has answered for."""
        self.network.hold(second.name, first.name, self._see)
        self.network.hold(first.name, CLIENT, self._see)

    def _see(self, message: Message) -> bool:
        match message:
            case NodeStatus():
                self.statuses.append(message)
            case StagedSegment():
                self.holders.append([one.node for one in message.holders])
            case _:
                pass
        return False


async def late(ground: Ground) -> Late:
    await ground.create()
    facts = await ground.reader.client.look_up(AskTable(cluster_id=None, name=TABLE), TableFacts, Asking())
    first, second = (ground.node(node) for node in facts.buckets[0].replicas)
    return Late(ground, first, second)


def test_a_peer_that_can_take_the_file_is_waited_for() -> None:
    async def scenario(ground: Ground) -> None:
        peers = await late(ground)
        held = peers.network.hold(
            peers.second.name, peers.first.name, lambda message: isinstance(message, ForwardAdmitted)
        )
        writing = ground.group.create_task(ground.write(8))
        await ground.wait_for(lambda: len(peers.statuses) == 3)
        peers.network.release(held)
        written: Written = await writing
        assert written.fate is WriteFate.COMMITTED
        assert peers.holders == [[peers.first.published.node, peers.second.published.node]]

    simulate(scenario)


def test_a_peer_that_is_behind_is_left_out_as_soon_as_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would refuse the file only once it has waited for the revision. Nobody's patience has to end before that."""
    monkeypatch.setattr(forwarding, "patience_ns", lambda _own_ns: 100 * SCHEMA_WAIT_NS)

    async def scenario(ground: Ground) -> None:
        peers = await late(ground)
        for address in ground.cluster.addresses:
            peers.network.partition(peers.second.name, address.partition(":")[0])
        began_ns = ground.clock.now_ns()
        await ground.write(8)
        assert ground.clock.now_ns() - began_ns < SCHEMA_WAIT_NS
        assert peers.holders == [[peers.first.published.node]]
        behind = peers.second.published.view.revision
        assert {(one.state, one.applied_revision) for one in peers.statuses} == {("ACTIVE", behind)}

    simulate(scenario)
