"""One node can't be reached, does not run or does not get on: in every case a statement ends within its bound, and
from then on that node serves nothing of what was there before it."""

from collections.abc import Callable

import pytest

from tests.netns.checks import (
    check_bound,
    check_nothing_stale,
    check_served_until_its_lease_ended,
    check_settled,
)
from tests.netns.cluster import BEHIND_PROXY, COORDINATOR, NetworkCluster, now_ns

pytestmark = pytest.mark.processes

NODE = "node-1"


def cut_both_ways(cluster: NetworkCluster) -> None:
    cluster.hosts.cut_both_ways(COORDINATOR, NODE)


def cut_to_the_node(cluster: NetworkCluster) -> None:
    """Its renewals arrive and are granted, and it learns neither of the grants nor of the change."""
    cluster.hosts.cut(COORDINATOR, NODE)
    assert cluster.hosts.reachable(NODE, COORDINATOR)


@pytest.mark.parametrize("cut", [cut_both_ways, cut_to_the_node])
def test_a_node_that_does_not_hear_the_coordinator(
    cluster: NetworkCluster, table: str, cut: Callable[[NetworkCluster], None]
) -> None:
    with cluster.scanning(NODE, table) as scanner:
        cut(cluster)
        cut_ns = now_ns()
        ended = cluster.run(f"ALTER TABLE {table} DROP COLUMN b")
        check_bound(ended)
        check_settled(ended, node_1="fenced")
        scanner.wait_until("FENCED", since_ns=ended.answered_ns)
        # The client reaches the node too: if it asks there first, it is told FENCED, and goes to another one.
        assert cluster.rows(table) == {"a": list(range(100))}
        check_served_until_its_lease_ended(scanner, ended, since_ns=cut_ns)
        # Its lease has ended, so there is nothing left to wait for.
        following = cluster.run(f"ALTER TABLE {table} ADD COLUMN c BIGINT")
        check_settled(following, node_1="fenced")
        assert following.receipt.elapsed_ns < ended.receipt.elapsed_ns / 2
        cluster.heal()
        scanner.wait_until("COLUMN_DROPPED", since_ns=ended.answered_ns)
        check_nothing_stale(cluster, ended)
        check_nothing_stale(cluster, following)
        check_all_serve(cluster, table)


def test_a_node_that_the_coordinator_does_not_hear(cluster: NetworkCluster, table: str) -> None:
    """It learns of the change and shows it, but nobody hears that: all the same it stops when its lease ends."""
    with cluster.scanning(NODE, table) as scanner:
        cluster.hosts.cut(NODE, COORDINATOR)
        assert cluster.hosts.reachable(COORDINATOR, NODE)
        cut_ns = now_ns()
        ended = cluster.run(f"ALTER TABLE {table} ADD COLUMN c BIGINT")
        check_bound(ended)
        check_settled(ended, node_1="fenced")
        assert ended.receipt.revision is not None
        scanner.wait_until("SERVED", since_ns=cut_ns, view=ended.receipt.revision)
        fenced = scanner.wait_until("FENCED", since_ns=ended.answered_ns)
        cluster.heal()
        scanner.wait_until("SERVED", since_ns=fenced.asked_ns, view=ended.receipt.revision)
        check_nothing_stale(cluster, ended)
        check_all_serve(cluster, table)


def test_L6_L13_a_paused_node(cluster: NetworkCluster, table: str) -> None:
    """When it goes on, its lease has ended by the clock, whatever its timers had in mind."""
    with cluster.scanning(NODE, table) as scanner:
        cluster.pause(NODE)
        paused_ns = now_ns()
        ended = cluster.run(f"ALTER TABLE {table} DROP COLUMN b")
        check_bound(ended)
        check_settled(ended, node_1="fenced")
        cluster.resume(NODE)
        scanner.wait_until("COLUMN_DROPPED", since_ns=ended.answered_ns)
        assert not [look for look in scanner.looks() if look.asked_ns >= paused_ns and look.outcome == "SERVED"]
        check_nothing_stale(cluster, ended)
        check_all_serve(cluster, table)


def test_a_killed_node_whose_supervisor_reaches_nobody(cluster: NetworkCluster, table: str) -> None:
    """The report of its end is lost with all else, so the leader waits for the lease."""
    cluster.hosts.cut_both_ways(COORDINATOR, NODE)
    cluster.kill_below_supervisor(NODE)
    ended = cluster.run(f"ALTER TABLE {table} DROP COLUMN b")
    check_bound(ended)
    check_settled(ended, node_1="fenced")
    cluster.heal()
    check_nothing_stale(cluster, ended)
    check_all_serve(cluster, table)


def test_L5_a_stuck_node(cluster: NetworkCluster, table: str) -> None:
    """It lives and what it sends arrives, but what is sent to it trickles: it can't learn of the change."""
    with cluster.scanning(BEHIND_PROXY, table) as scanner:
        passed = cluster.pace("down", bytes_per_second=40)
        stuck_ns = now_ns()
        ended = cluster.run(f"ALTER TABLE {table} DROP COLUMN b")
        passing = cluster.pace("down", bytes_per_second=40)
        check_bound(ended)
        check_settled(ended, node_3="fenced")
        assert passing["up"] > passed["up"], "its renewals went through"
        assert passing["down"] > passed["down"], "something trickled down to it"
        scanner.wait_until("FENCED", since_ns=ended.answered_ns)
        check_served_until_its_lease_ended(scanner, ended, since_ns=stuck_ns)
        cluster.heal()
        scanner.wait_until("COLUMN_DROPPED", since_ns=ended.answered_ns)
        check_nothing_stale(cluster, ended)
        check_all_serve(cluster, table)


def test_a_slow_node_is_waited_for_until_it_reports(cluster: NetworkCluster, table: str) -> None:
    """All that is sent to it comes late, but it comes: it is no reason to fence it."""
    delay_seconds = 0.7
    with cluster.scanning(BEHIND_PROXY, table) as scanner:
        cluster.pace("down", delay_seconds=delay_seconds)
        slow_ns = now_ns()
        ended = cluster.run(f"ALTER TABLE {table} ADD COLUMN c BIGINT")
        check_bound(ended)
        check_settled(ended)
        assert ended.receipt.elapsed_ns >= delay_seconds * 1e9
        assert ended.receipt.revision is not None
        scanner.wait_until("SERVED", since_ns=slow_ns, view=ended.receipt.revision)
        assert {look.outcome for look in scanner.looks()} == {"SERVED"}
        check_nothing_stale(cluster, ended)


def check_all_serve(cluster: NetworkCluster, table: str) -> None:
    """Whole again: the next statement is answered as soon as every node has reported, and the rows are right."""
    cluster.wait_until_active()
    ended = cluster.run(f"ALTER TABLE {table} ADD COLUMN z BIGINT")
    check_bound(ended)
    check_settled(ended)
    assert cluster.rows(table)["z"] == [None] * 100
