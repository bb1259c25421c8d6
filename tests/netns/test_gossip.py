"""Gossip between machines: nodes that know one seed alone find the coordinator, and a dead machine is noticed."""

import sys
from collections.abc import Iterator

import pytest

from tests.netns.cluster import CLIENT, COORDINATOR
from tests.netns.gossiping import GossipingCluster
from tests.netns.hosts import IPV4, IPV6, has_ipv6
from tests.netns.remote import wait_until
from tests.netns.run import run

pytestmark = pytest.mark.processes

LOST = "node-3"


@pytest.fixture(scope="module", params=[IPV4, IPV6], ids=["IPv4", "IPv6"])
def gossiping(
    namespaces_available: None, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[GossipingCluster]:
    if request.param is IPV6 and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    with GossipingCluster(tmp_path_factory.mktemp("gossiping") / "cluster", request.param) as cluster:
        yield cluster


def test_a_client_on_another_machine_works(gossiping: GossipingCluster) -> None:
    run(gossiping.trusting(CLIENT), sys.executable, "-m", "tests.netns.workload", gossiping.address(COORDINATOR))


def test_nodes_find_each_other_and_notice_a_machine_that_is_cut_off(gossiping: GossipingCluster) -> None:
    gossiping.wait_until_seen()
    others = [name for name in (COORDINATOR, *gossiping.nodes, CLIENT) if name != LOST]
    for name in others:
        gossiping.hosts.cut_both_ways(LOST, name)
    gossiping.wait_until_seen(node_3="DEAD")
    gossiping.hosts.heal()
    gossiping.wait_until_seen()


def test_a_node_that_the_coordinator_alone_does_not_reach_stays_alive(gossiping: GossipingCluster) -> None:
    """The others reach it, and ping it for the coordinator."""
    gossiping.wait_until_seen()
    gossiping.hosts.cut_both_ways(COORDINATOR, LOST)
    wait_until(lambda: gossiping.node(LOST).state != "ACTIVE", seconds=60)  # its lease has ended: a while has passed
    assert gossiping.seen()[LOST] in {"ALIVE", "SUSPECT"}
    gossiping.hosts.heal()


def test_the_doctor_tells_which_machine_is_not_reached(gossiping: GossipingCluster) -> None:
    gossiping.wait_until_seen()
    assert gossiping.doctor(LOST) == []
    gossiping.hosts.cut("node-1", LOST)
    wrong = gossiping.doctor(LOST)
    gossiping.hosts.heal()
    assert [line.partition(";")[0] for line in wrong] == [
        f"wrong  gossip with node-1 at {gossiping.address('node-1')}: no answer",
        f"wrong  node node-1 at {gossiping.address('node-1')}: no answer in time",
    ]
