"""The leader of several coordinators can't reach the store, or nobody reaches the leader: another one leads, statements
end with one outcome, and no node serves what was there before them.

All of it with etcd; with ZooKeeper the same in `make soak`.
"""

from collections.abc import Iterator

import pytest

from tests.few import few
from tests.netns.checks import LEADER_CHANGE_NS, check_bound, check_nothing_stale
from tests.netns.cluster import CLIENT, now_ns
from tests.netns.conftest import make_table
from tests.netns.coordinators import ENGINES, STORES, CoordinatorsNetwork
from tests.netns.remote import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

WAYS = ("both ways", "to the store", "from the store")


@pytest.fixture(scope="module", params=["etcd", pytest.param("zookeeper", marks=pytest.mark.long)])
def shared(
    namespaces_available: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CoordinatorsNetwork]:
    with CoordinatorsNetwork(tmp_path_factory.mktemp("leaders") / "cluster", request.param) as cluster:
        cluster.run("CREATE DATABASE d")
        make_table(cluster, "d.first")
        yield cluster


@pytest.mark.parametrize(
    ("shared", "way"),
    [
        *(("etcd", way) for way in WAYS),
        *(pytest.param("zookeeper", way, marks=pytest.mark.long) for way in WAYS),
    ],
    indirect=["shared"],
    scope="module",
)
def test_L4_a_leader_that_is_cut_off_from_the_store(cluster: CoordinatorsNetwork, table: str, way: str) -> None:
    """Nodes and clients still reach it."""
    old = cluster.leader()
    with cluster.scanning("node-1", table) as scanner:
        cluster.cut_store_off(old, to=way != "from the store", back=way != "to the store")
        ended = cluster.run(f"ALTER TABLE {table} DROP COLUMN b")
        check_bound(ended, leader_changes=1)
        assert cluster.leader() != old
        scanner.wait_until("COLUMN_DROPPED", since_ns=ended.answered_ns)
        check_nothing_stale(cluster, ended)
        assert cluster.rows(table) == {"a": list(range(100))}
        cluster.heal()
        cluster.wait_until_whole()
        assert cluster.leader() != old, "it comes back by itself, and follows"


def test_a_leader_that_is_cut_off_from_the_member_that_it_asks(cluster: CoordinatorsNetwork, table: str) -> None:
    """Nothing but a retry is felt."""
    leader = cluster.leader()
    term = cluster.shown()[leader]["term"]
    member = wait_until(lambda: cluster.member_of(leader))
    cluster.hosts.cut_both_ways(leader, member)
    check_bound(cluster.run(f"ALTER TABLE {table} DROP COLUMN b"))
    wait_until(lambda: cluster.member_of(leader) not in {None, member}, said=cluster.shown)
    assert cluster.leader() == leader
    assert cluster.shown()[leader]["term"] == term


@pytest.mark.parametrize("shared", few(1, ENGINES), indirect=True)
def test_the_member_that_leads_the_store_is_cut_off_from_the_others(cluster: CoordinatorsNetwork, table: str) -> None:
    """Coordinators still reach it: what it knows gets old."""
    member = wait_until(cluster.leading_member)
    for other in STORES:
        if other != member:
            cluster.hosts.cut_both_ways(member, other)
    with cluster.scanning("node-1", table) as scanner:
        ended = cluster.run(f"ALTER TABLE {table} DROP COLUMN b")
        check_bound(ended, leader_changes=1)
        for name in cluster.coordinators:
            assert [row[0] for row in cluster.query(f"DESCRIBE TABLE {table}", name)] == ["a"]
        scanner.wait_until("COLUMN_DROPPED", since_ns=ended.answered_ns)
        check_nothing_stale(cluster, ended)


def test_a_leader_that_neither_nodes_nor_clients_reach(cluster: CoordinatorsNetwork, table: str) -> None:
    """It reaches the store and the other coordinators, so nothing but itself ends its leadership."""
    old = cluster.leader()
    for other in (*cluster.nodes, CLIENT):
        cluster.hosts.cut_both_ways(other, old)
    cut_ns = now_ns()
    ended = cluster.run(f"ALTER TABLE {table} ADD COLUMN c BIGINT")
    assert ended.answered_ns - cut_ns < 10_000_000_000 + LEADER_CHANGE_NS
    assert cluster.leader() != old
    check_nothing_stale(cluster, ended)
    cluster.wait_until_active()
    assert cluster.rows(table)["c"] == [None] * 100


def test_a_node_that_comes_back_at_another_address_during_a_failover(cluster: CoordinatorsNetwork, table: str) -> None:
    """It has the same id, and no statement passes it by."""
    node, old = "node-2", cluster.leader()
    before = cluster.node(node)
    cluster.kill(node)
    cluster.kill(old)
    cluster.move(node)
    cluster.start(node)
    ended = cluster.run(f"ALTER TABLE {table} DROP COLUMN b")
    check_nothing_stale(cluster, ended)
    cluster.wait_until_active()
    after = cluster.node(node)
    assert (after.id, after.name) == (before.id, before.name)
    assert after.incarnation == before.incarnation + 1
    assert after.address == cluster.address(node) != before.address
    assert cluster.rows(table) == {"a": list(range(100))}


def test_an_old_leader_that_goes_on_after_a_pause_changes_nothing(cluster: CoordinatorsNetwork, table: str) -> None:
    old = cluster.leader()
    with cluster.scanning("node-1", table) as scanner:
        statement = cluster.begin(f"ALTER TABLE {table} DROP COLUMN b")
        statement.wait_until_sent()
        cluster.pause(old)
        ended = statement.ended()
        assert ended.receipt.outcome == "COMMITTED"
        cluster.run(f"ALTER TABLE {table} ADD COLUMN c BIGINT")
        cluster.resume(old)
        cluster.wait_until_whole()
        assert cluster.leader() != old or ended.receipt.elapsed_ns < LEADER_CHANGE_NS
        scanner.wait_until("COLUMN_DROPPED", since_ns=ended.answered_ns)
        check_nothing_stale(cluster, ended)
        assert cluster.rows(table) == {"a": list(range(100)), "c": [None] * 100}
