"""A node comes back while a statement waits for it."""

import pytest

from tests.netns.checks import check_bound, check_nothing_stale, check_settled
from tests.netns.cluster import COORDINATOR, NetworkCluster, now_ns

pytestmark = pytest.mark.processes


def test_L9_a_cut_heals_while_a_statement_waits(cluster: NetworkCluster, table: str) -> None:
    """The node comes back between the pre-state and the point of no return, which waits for another node: it shows
    the pre-state from its first grant on."""
    with cluster.scanning("node-1", table) as scanner:
        cluster.hosts.cut_both_ways(COORDINATOR, "node-1")
        cluster.pause("node-2")
        statement = cluster.begin(f"ALTER TABLE {table} DROP COLUMN b")
        statement.wait_until_it_waits_for("node-1", "node-2")
        cluster.hosts.heal()
        statement.wait_until_it_waits_for("node-2")
        back_ns = now_ns()
        scanner.wait_until("COLUMN_DROPPED", since_ns=back_ns)
        cluster.resume("node-2")
        ended = statement.ended()
        check_bound(ended)
        check_settled(ended)
        assert not [look for look in scanner.looks() if look.asked_ns >= back_ns and look.outcome == "SERVED"]
        check_nothing_stale(cluster, ended)
        assert cluster.rows(table) == {"a": list(range(100))}


def test_a_node_killed_and_started_while_a_statement_waits(cluster: NetworkCluster, table: str) -> None:
    """Its new process is let in when the lease of the old one has ended, and not on what it remembers."""
    with cluster.scanning("node-1", table) as scanner:
        before = cluster.health("node-1")
        cluster.kill("node-1")
        killed_ns = now_ns()
        statement = cluster.begin(f"ALTER TABLE {table} DROP COLUMN b")
        statement.wait_until_it_waits_for("node-1")
        cluster.start("node-1")
        ended = statement.ended()
        check_bound(ended)
        check_settled(ended, node_1="fenced")
        scanner.wait_until("COLUMN_DROPPED", since_ns=killed_ns)
        after = cluster.wait_until_active()["node-1"]
        assert (after.id, after.incarnation) == (before.id, before.incarnation + 1)
        assert not [look for look in scanner.looks() if look.asked_ns >= killed_ns and look.outcome == "SERVED"]
        check_nothing_stale(cluster, ended)
        assert cluster.rows(table) == {"a": list(range(100))}
