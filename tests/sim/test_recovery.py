"""Recovery in whole clusters, with every invariant held: leaps against replays, leaders and nodes that go at each step
of a recovery, the order of restarts, gaps with and without data.
"""

import asyncio

import pytest

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words.messages import (
    Grant,
    JoinAnswer,
    RecoveryAccepted,
    RecoveryFinished,
    SessionOpened,
    SnapshotBegin,
    SnapshotEnd,
    SnapshotPage,
)
from leasehold.core.words.operations import Change
from leasehold.limits.units import SECOND_NS
from leasehold.testing.filled import filled
from leasehold.testing.writers import Habits, WriteFate
from tests.scenarios.crash_words import STALL_NS, stall
from tests.scenarios.removal_words import remove
from tests.sim.data_words import TABLE
from tests.sim.data_words import Ground as Tables
from tests.sim.recovery_words import (
    case_of,
    compact,
    history,
    leave_behind,
    reach,
    restart_leader,
    serving,
    settled,
    simulate,
    store_holds,
    topology,
)

STEPS = (
    JoinAnswer,
    SessionOpened,
    SnapshotBegin,
    SnapshotPage,
    SnapshotEnd,
    RecoveryFinished,
    RecoveryAccepted,
    Grant,
)
"""What is said on the way in of a node that has to leap, in this order."""


# ---------------------------------------------------------------- case c and replay


@pytest.mark.parametrize("seed", range(4))
def test_a_leap_ends_in_the_state_that_replay_gives(seed):
    """INV-REC-2. Two nodes lack the same history; what one replays is compacted before the other comes."""

    async def scenario(cluster, group):
        replays, leaps = cluster.nodes[1:]
        tables = Tables(cluster, group)
        await tables.create(replication=3, buckets=3)
        await cluster.sql("ALTER CLUSTER SET min_in_sync = 1")  # two of three nodes will be away
        await history(cluster, 30, of="early")  # many keys, so that a replay is shorter
        await tables.write(20)
        await settled(cluster)
        for node in (replays, leaps):
            await node.kill()
        await cluster.sql("ALTER TABLE d.t ADD COLUMN c INT")
        await tables.write(20)
        await cluster.sql("DROP DATABASE early0")
        await cluster.sql("ALTER TABLE d.t RENAME COLUMN b TO e")
        replays.start(group)
        await serving(cluster, replays)
        await compact(cluster)
        leaps.start(group)
        await serving(cluster, leaps)
        assert (await case_of(cluster, replays), await case_of(cluster, leaps)) == ("b", "c")
        await settled(cluster)
        assert leaps.disk.state.items == replays.disk.state.items == store_holds(cluster)
        assert leaps.disk.state.lineage == replays.disk.state.lineage
        items = [Change(key, value) for key, value in sorted(store_holds(cluster).items())]
        fold = Catalog.restored(leaps.published.view.revision, leaps.published.view.lineage, items)
        assert [filled(one.published.view, one.disk.state.items) for one in (leaps, replays)] == [fold, fold]
        await cluster.wait_for(lambda: all(tables.holds(leaps, one) for one in tables.manifest()))

    simulate(scenario, seed=seed)


@pytest.mark.parametrize("crash", [False, True], ids=["killed", "crashed"])
def test_a_node_that_has_leapt_restarts_from_its_vault_alone(crash):
    async def scenario(cluster, group):
        node = cluster.nodes[0]
        await leave_behind(cluster, node)
        node.start(group)
        await serving(cluster, node)
        assert await case_of(cluster, node) == "c"
        await settled(cluster)
        leapt = node.disk.state
        await node.kill()
        if crash:
            node.crash(cluster.random)
        node.start(group)
        await serving(cluster, node)
        # Its own join is a revision more; nothing else has to come.
        assert await case_of(cluster, node) in {"b", "c"} if crash else await case_of(cluster, node) == "b"
        assert node.agent.durable.revision >= leapt.applied

    simulate(scenario)


# ---------------------------------------------------------------- leaders and nodes that go in the middle


@pytest.mark.parametrize("kind", STEPS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("rounds", [1, 3])
def test_a_leader_that_goes_in_the_middle_of_a_recovery_is_followed_by_the_next(kind, rounds):
    async def scenario(cluster, group):
        node = cluster.nodes[0]
        await leave_behind(cluster, node)
        hold = await reach(cluster, group, node, kind)
        for number in range(rounds):
            await restart_leader(cluster, group)
            await history(cluster, 2, of=f"round{number}")
            await compact(cluster)
        cluster.network.release(hold)
        await serving(cluster, *cluster.nodes)
        await settled(cluster)
        assert node.disk.state.items == store_holds(cluster)
        assert topology(cluster)[1] == ["n1", "n2", "n3"]

    simulate(scenario)


@pytest.mark.parametrize("kind", STEPS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("crash", [False, True], ids=["killed", "crashed"])
def test_a_node_that_goes_in_the_middle_of_its_recovery_recovers_again(kind, crash):
    async def scenario(cluster, group):
        node = cluster.nodes[0]
        await leave_behind(cluster, node)
        hold = await reach(cluster, group, node, kind)
        await node.kill(silent=crash)
        if crash:
            node.crash(cluster.random)
        cluster.network.release(hold)
        await history(cluster, 2, of="later")
        await compact(cluster)
        node.start(group)
        await serving(cluster, *cluster.nodes)
        await settled(cluster)
        assert node.disk.state.items == store_holds(cluster)

    simulate(scenario)


@pytest.mark.parametrize("number", range(1, 9))
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("crash", [False, True], ids=["killed", "crashed"])
def test_a_recovery_that_is_cut_at_any_write_of_the_vault_ends_well(number, done, crash):
    """INV-REC-1, after each crash: staged pages, the leap itself, revisions after it, syncs."""

    async def scenario(cluster, group):
        node = cluster.nodes[0]
        await leave_behind(cluster, node)
        begun = stall(node.disk, number)
        node.start(group)
        async with asyncio.timeout(120):
            await begun.wait()
        await asyncio.sleep((3 if done else 1) * STALL_NS / 4 / SECOND_NS)
        await node.kill()
        node.disk.latency_ns = lambda: 0
        if crash:
            node.crash(cluster.random)
        node.start(group)
        await serving(cluster, *cluster.nodes)
        await settled(cluster)
        assert node.disk.state.items == store_holds(cluster)

    simulate(scenario)


# ---------------------------------------------------------------- who comes back first


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["direct", "reverse"])
@pytest.mark.parametrize("apart_s", [0, 0.2, 30])
@pytest.mark.parametrize("how", ["stopped", "killed", "killed with the leader"])
def test_R13_two_nodes_come_back_in_either_order(order, apart_s, how):
    """Neither calls the other, or itself, stale: the leader decides alone, by incarnations."""

    async def scenario(cluster, group):
        await history(cluster, 2)
        for node in cluster.nodes:
            await (node.stop() if how == "stopped" else node.kill())
        if how == "killed with the leader":
            await restart_leader(cluster, group)
        for place in order:
            cluster.nodes[place].start(group)
            await asyncio.sleep(apart_s)
        await serving(cluster, *cluster.nodes)
        status = await cluster.status()
        assert {one.name: (one.incarnation, one.state, one.stage) for one in status.nodes} == dict.fromkeys(
            ("n1", "n2"), (2, "ACTIVE", "MEMBER")
        )

    simulate(scenario, nodes=2)


# ---------------------------------------------------------------- gaps


@pytest.mark.parametrize("compacted", [False, True], ids=["replayed", "leapt"])
@pytest.mark.parametrize(
    "what", ["nothing", "statements", "rows", "a write given up", "a table dropped", "a table made again"]
)
def test_a_node_comes_back_over_a_gap(compacted, what):
    async def scenario(cluster, group):
        tables = Tables(cluster, group)
        await tables.create(replication=3, buckets=2)
        await tables.write(20)
        node = cluster.nodes[0]
        await cluster.wait_for(lambda: all(tables.holds(node, one) for one in tables.manifest()))
        staged = await tables.writer(Habits(dies=1)).write(TABLE, 10) if what == "a write given up" else None
        await settled(cluster)
        await node.kill()
        match what:
            case "statements":
                await history(cluster, 5)
            case "rows":
                await tables.write(20)
            case "a write given up":
                assert len(node.data.disk.listing()) > len(tables.manifest())
                assert (await tables.writer().resolve(staged)).fate is WriteFate.ABORTED
            case "a table dropped" | "a table made again":
                await cluster.sql("DROP TABLE d.t")
            case _:
                pass
        if what == "a table made again":
            await cluster.sql("CREATE TABLE d.t (a INT, b STRING) TBLPROPERTIES ('replication' = '3')")
            await tables.write(10)
        if compacted:
            await compact(cluster)
        node.start(group)
        await serving(cluster, *cluster.nodes)
        await settled(cluster)
        await cluster.wait_for(lambda: all(tables.holds(node, one) for one in tables.manifest()))
        # What it holds and the manifest does not name is on its way out.
        await cluster.wait_for(lambda: len(node.data.disk.listing()) == len(tables.manifest()))
        rows = {"nothing": 20, "statements": 20, "a write given up": 20, "rows": 40, "a table made again": 10}
        if what in rows:
            for other in cluster.nodes[1:]:
                await other.kill()
            assert sum((await tables.read()).values()) == rows[what], "all of it from this node"

    simulate(scenario)


@pytest.mark.parametrize("compacted", [False, True], ids=["replayed", "leapt"])
def test_an_empty_node_enters_a_cluster_that_has_a_past_and_takes_over_rows(compacted):
    async def scenario(cluster, group):
        gone, old, new = cluster.nodes
        tables = Tables(cluster, group)
        await tables.create(buckets=20)  # many keys, so that a replay is shorter
        await tables.write(60)
        if compacted:
            await compact(cluster)
        new.start(group)
        await serving(cluster, new)
        assert await case_of(cluster, new) == ("c" if compacted else "b")
        await settled(cluster)
        shown = filled(old.published.view, old.disk.state.items)
        assert (filled(new.published.view, new.disk.state.items), new.disk.state.items) == (shown, store_holds(cluster))
        await gone.stop()
        await remove(cluster, gone.name)
        await cluster.wait_for(lambda: all(tables.holds(new, one) for one in tables.manifest()))

    simulate(scenario, late=1)
