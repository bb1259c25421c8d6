"""The coordinator is killed at every step of a statement and started again: whatever the client had heard by then, the
statement happens once, it is the same outcome each time it is asked for, and what comes next works."""

from collections.abc import Callable, Iterator

import pytest

from leasehold.limits.units import MILLISECOND_NS
from leasehold.wire.clock import sleep_ns
from tests.netns.checks import check_bound, check_nothing_stale, check_served_until_its_lease_ended, check_settled, log
from tests.netns.cluster import CLIENT, COORDINATOR, Ended, NetworkCluster, Statement, now_ns
from tests.netns.remote import wait_until

pytestmark = pytest.mark.processes

REQUEST_BYTES = 100
"""A request is longer; what keeps an idle connection alive is shorter."""
ROUNDS = 5
BEFORE = {"NOTHING", "PRE_STATE"}
"""Where a statement stands before its point of no return."""
AFTER = {"FINISHED", "COMMITTED"}


def test_killed_before_it_has_read_the_request(cluster: NetworkCluster, table: str) -> None:
    cluster.pause(COORDINATOR)
    before = cluster.waits_to_be_read(COORDINATOR, CLIENT)
    statement = cluster.begin(f"DROP TABLE {table}")
    wait_until(lambda: cluster.waits_to_be_read(COORDINATOR, CLIENT) - before > REQUEST_BYTES)
    assert kill_and_start(cluster, statement) == "NOTHING"
    check_happened_once(cluster, table, statement)


def test_L8_killed_while_the_barrier_waits(cluster: NetworkCluster, table: str) -> None:
    """The next leader knows nothing of the node that is cut off, but that its predecessor may have granted it a lease:
    the node serves the table all the while, and the statement waits until it can't any more."""
    with cluster.scanning("node-1", table) as scanner:
        cluster.hosts.cut_both_ways(COORDINATOR, "node-1")
        cut_ns = now_ns()
        statement = cluster.begin(f"DROP TABLE {table}")
        statement.wait_until_it_waits_for("node-1")
        assert kill_and_start(cluster, statement) == "PRE_STATE"
        ended = check_happened_once(cluster, table, statement)
        check_settled(ended, node_1="fenced")
        check_served_until_its_lease_ended(scanner, ended, since_ns=cut_ns)
        cluster.heal()
        scanner.wait_until("TABLE_DROPPED", since_ns=ended.answered_ns)


def test_killed_around_the_point_of_no_return(cluster: NetworkCluster) -> None:
    """Closer and closer to it, from both sides: after each kill the meta storage says on which one it was."""
    before_ns, after_ns = 0, 32 * MILLISECOND_NS
    stood: list[str] = []
    for instant_ns in nearer(lambda: stood[-1] in BEFORE, before_ns, after_ns):
        table = f"d.dropped_{len(stood)}"
        cluster.wait_until_active()
        cluster.run(create(table))
        if not instant_ns:
            cluster.pause(COORDINATOR)  # a machine under load may not kill it in time
        statement = cluster.begin(f"DROP TABLE {table}")
        statement.wait_until_sent()
        sleep_ns(instant_ns)
        stood.append(kill_and_start(cluster, statement))
        log.info("killed %d us after it was sent: %s", instant_ns // 1000, stood[-1])
        check_happened_once(cluster, table, statement)
    assert set(stood) & BEFORE, stood
    assert set(stood) & AFTER, stood


def nearer(was_before: Callable[[], bool], before_ns: int, after_ns: int) -> Iterator[int]:
    """Instants around one that is looked for: both ends, then half-way between the nearest two, again and again.
    `was_before` says on which side of it the last one was."""
    yield before_ns
    yield after_ns
    if was_before():  # a machine under load
        before_ns, after_ns = after_ns, 8 * after_ns
        yield after_ns
    for _ in range(ROUNDS):
        middle_ns = (before_ns + after_ns) // 2
        yield middle_ns
        if was_before():
            before_ns = middle_ns
        else:
            after_ns = middle_ns


@pytest.mark.parametrize("text", ["DROP TABLE {}", "ALTER TABLE {} ADD COLUMN c BIGINT"], ids=["drop", "add"])
def test_killed_just_after_the_answer(cluster: NetworkCluster, table: str, text: str) -> None:
    """Its receipt may not be durable yet; its change is, and it is told of as the same."""
    statement = cluster.begin(text.format(table))
    ended = statement.ended()
    log.info(
        "killed %d us after the answer: %s", (now_ns() - ended.answered_ns) // 1000, kill_and_start(cluster, statement)
    )
    check_bound(ended)
    assert same(cluster.run(text.format(table), statement.id), ended)
    check_nothing_stale(cluster, ended)
    if text.startswith("DROP"):
        check_happened_once(cluster, table, statement)
    else:
        assert cluster.rows(table)["c"] == [None] * 100
        again = cluster.run(text.replace(" c ", " d ").format(table))
        check_bound(again)
        assert sorted(cluster.rows(table)) == ["a", "b", "c", "d"]


def create(table: str) -> str:
    return f"CREATE TABLE {table} (a BIGINT) CLUSTERED BY (a) INTO 1 BUCKETS TBLPROPERTIES ('replication' = '3')"


def tables(cluster: NetworkCluster) -> set[str]:
    return {f"{row[0]}.{row[1]}" for row in cluster.query("SHOW TABLES IN d")}


def kill_and_start(cluster: NetworkCluster, statement: Statement) -> str:
    """Answers where the statement stood in between."""
    cluster.kill(COORDINATOR)
    standing = cluster.standing(statement.id)
    cluster.start(COORDINATOR)
    return standing


def same(one: Ended, other: Ended) -> bool:
    return (one.receipt.revision, one.receipt.outcome) == (other.receipt.revision, other.receipt.outcome)


def check_happened_once(cluster: NetworkCluster, table: str, dropping: Statement) -> Ended:
    """It was answered after all, the catalog agrees, and it drops no table that is made under the name afterwards."""
    ended = dropping.ended()
    check_bound(ended, leader_changes=1)
    assert table not in tables(cluster)
    check_nothing_stale(cluster, ended)
    assert same(cluster.run(f"DROP TABLE {table}", dropping.id), ended)
    check_bound(cluster.run(create(table)))
    assert same(cluster.run(f"DROP TABLE {table}", dropping.id), ended)
    assert table in tables(cluster)
    return ended
