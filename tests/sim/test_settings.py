"""ALTER CLUSTER SET while the cluster works: no lease that is not counted (L10), no bound that is not kept."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.messages import AskOutcome, Receipt, Rows
from leasehold.core.words.records import LargestLeaseRecord, Outcome, SettingsRecord
from leasehold.errors import Refused
from leasehold.ids import StatementId
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.limits.upkeep import HOUSEKEEPING_INTERVAL_NS
from leasehold.testing.clients import ask
from leasehold.testing.cluster import SimulatedCluster, SimulatedNode
from leasehold.testing.loop import run_virtual
from leasehold.testing.requests import RequestFate
from tests.few import few
from tests.sim.test_cluster_faults import Over

Scenario = Callable[[SimulatedCluster, asyncio.TaskGroup], Awaitable[None]]


def simulate(scenario: Scenario, *, seed: int = 1, coordinators: int = 1) -> None:
    async def main(random: Random) -> None:
        cluster = SimulatedCluster(random, nodes=3, coordinators=coordinators)
        try:
            async with asyncio.TaskGroup() as group:
                await cluster.start(group)
                await scenario(cluster, group)
                raise Over
        except* Over:
            pass

    run_virtual(main, seed)


async def run(cluster: SimulatedCluster, text: str, statement: StatementId | None = None) -> Receipt:
    """Runs a statement and holds it to what every statement promises."""
    receipt = await cluster.sql(text, statement)
    assert isinstance(receipt, Receipt)
    assert receipt.revision is not None
    assert receipt.elapsed_ns <= receipt.bound_ns, f"INV-DDL-1: {text}"
    for node in cluster.nodes:
        passed = node.guard()
        assert passed is None or passed.view.revision >= receipt.revision, f"INV-SERVE-1: {node.name} after {text}"
    return receipt


async def lease(cluster: SimulatedCluster, duration: str) -> Receipt:
    return await run(cluster, f"ALTER CLUSTER SET lease_duration = '{duration}'")


def stored(cluster: SimulatedCluster) -> SettingsRecord:
    found = cluster.store.get(keys.SETTINGS, None)
    assert found is not None
    return decode_record(SettingsRecord, found.value)


def largest_ns(cluster: SimulatedCluster) -> int:
    found = cluster.store.get(keys.LARGEST_LEASE, None)
    assert found is not None
    return decode_record(LargestLeaseRecord, found.value).duration_ns


def left_ns(node: SimulatedNode) -> int:
    """How long a node may still serve, on its own clock."""
    return node.published.lease.deadline_ns - node.clock.now_ns()


def cut_off(cluster: SimulatedCluster, node: SimulatedNode) -> None:
    for coordinator in cluster.coordinators:
        cluster.network.partition(coordinator.name, node.name)


# ---------------------------------------------------------------- what nodes are granted, what is promised


def test_nodes_get_leases_of_the_new_length() -> None:
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        assert all(left_ns(node) <= 3 * SECOND_NS for node in cluster.nodes)
        await lease(cluster, "20s")
        await cluster.wait_for(lambda: all(left_ns(node) > 19 * SECOND_NS for node in cluster.nodes))
        await lease(cluster, "2s")
        assert all(left_ns(node) > 18 * SECOND_NS for node in cluster.nodes), "a lease once given is not taken back"
        await cluster.wait_for(lambda: all(0 < left_ns(node) <= 2 * SECOND_NS for node in cluster.nodes))
        await asyncio.sleep(5)
        assert all(0 < left_ns(node) <= 2 * SECOND_NS for node in cluster.nodes)

    simulate(scenario)


@pytest.mark.parametrize("to", ["the same leader", "the next one"])
def test_a_node_that_was_away_while_settings_changed_comes_back_under_the_new_ones(to: str) -> None:
    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        node = cluster.nodes[0]
        await node.kill()
        await run(cluster, "ALTER CLUSTER SET lease_duration = '20s', catch_up_difference = 7")
        if to == "the next one":
            await cluster.kill_coordinator()
            await cluster.start_coordinator(group)
        node.start(group)
        await cluster.wait_for(node.guard)
        assert left_ns(node) > 19 * SECOND_NS, "its very first lease is of the new length"
        passed = node.guard()
        assert passed is not None
        assert passed.view.settings == stored(cluster)
        assert stored(cluster).catch_up_difference == 7

    simulate(scenario)


def test_the_published_bound_follows_the_leases_that_are_out() -> None:
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        assert (await cluster.status()).bound_ns == 4 * SECOND_NS
        await lease(cluster, "20s")
        assert (await cluster.status()).bound_ns == 21_600 * MILLISECOND_NS
        await run(cluster, "ALTER CLUSTER SET lease_duration = '2s', lease_margin = '300ms'")
        assert (await cluster.status()).bound_ns > 20 * SECOND_NS, "leases of 20 s are out"
        await asyncio.sleep(10)
        assert 10 * SECOND_NS < (await cluster.status()).bound_ns < 12 * SECOND_NS
        await asyncio.sleep(11)
        assert (await cluster.status()).bound_ns == 2_800 * MILLISECOND_NS
        cut_off(cluster, cluster.nodes[0])
        receipt = await run(cluster, "CREATE DATABASE d")
        assert SECOND_NS < receipt.elapsed_ns <= receipt.bound_ns == 2_800 * MILLISECOND_NS

    simulate(scenario)


def test_the_status_tells_what_is_left_of_each_lease_right_after_a_change() -> None:
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        for duration in ("20s", "2s", "3s"):
            await lease(cluster, duration)
            for _ in range(3):
                for status, node in zip((await cluster.status()).nodes, cluster.nodes, strict=True):
                    assert status.state == "ACTIVE"
                    drifted_ns = left_ns(node) // 40
                    assert abs(status.lease_remaining_ns - left_ns(node)) <= drifted_ns + 50 * MILLISECOND_NS
                await asyncio.sleep(0.3)

    simulate(scenario)


def test_show_cluster() -> None:
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "ALTER CLUSTER SET lease_duration = '2s', min_in_sync = 2")
        rows = await cluster.sql("SHOW CLUSTER")
        assert isinstance(rows, Rows)
        assert rows.columns == ("setting", "value", "range", "meaning")
        assert [row[:2] for row in rows.rows] == [
            ("lease_duration", "2s"),
            ("lease_margin", "500ms"),
            ("leadership_duration", "3s"),
            ("min_in_sync", "2"),
            ("replace_after", "15m"),
            ("repair_rate", "67108864"),
            ("rebalance", "manual"),
            ("local_reads", "on"),
            ("catch_up_difference", "100"),
            ("retention", "1h"),
            ("retention_revisions", "200000"),
            ("retention_bytes", "268435456"),
            ("clock_step", "10m"),
            ("scrub_every", "7d"),
            ("largest_lease", "3s"),
            ("generation", "1"),
            ("rebalancing", "no"),
            ("clock_drift", "1%"),
        ]

    simulate(scenario)


# ---------------------------------------------------------------- L10


@pytest.mark.parametrize("coordinators", [1, 2])
def test_l10_a_leader_that_never_heard_of_a_longer_lease_waits_it_out(coordinators: int) -> None:
    """The node holds 20 s, the leader that comes grants 2 s."""

    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        holder = cluster.nodes[2]
        await lease(cluster, "20s")
        await cluster.wait_for(lambda: left_ns(holder) > 19 * SECOND_NS)
        await lease(cluster, "2s")
        cut_off(cluster, holder)
        leader = cluster.leading
        assert leader is not None
        await leader.kill()
        assert largest_ns(cluster) == 20 * SECOND_NS
        if coordinators == 1:
            await leader.start(group)
        began_ns = cluster.loop.now_ns()
        await run(cluster, "CREATE DATABASE d")
        assert cluster.loop.now_ns() - began_ns > 18 * SECOND_NS
        await cluster.wait_for(lambda: largest_ns(cluster) == 2 * SECOND_NS)

    simulate(scenario, coordinators=coordinators)


def test_the_largest_lease_is_lowered_only_after_the_last_longer_lease_has_ended() -> None:
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        holder = cluster.nodes[1]
        await lease(cluster, "20s")
        assert largest_ns(cluster) == 20 * SECOND_NS
        await cluster.wait_for(lambda: left_ns(holder) > 19 * SECOND_NS)
        await lease(cluster, "2s")
        cut_off(cluster, holder)
        longest_ns = 20 * SECOND_NS
        while largest_ns(cluster) == 20 * SECOND_NS:
            longest_ns = max(left_ns(node) for node in cluster.nodes)
            await asyncio.sleep(0.05)
        assert largest_ns(cluster) == 2 * SECOND_NS
        assert longest_ns <= 2 * SECOND_NS, "the moment before"
        assert holder.guard() is None
        before = cluster.store.status().latest
        await asyncio.sleep(3 * HOUSEKEEPING_INTERVAL_NS / SECOND_NS)
        assert cluster.store.status().latest == before, "it is lowered once"

    simulate(scenario)


@pytest.mark.parametrize("seed", few(1, range(10)))
@pytest.mark.parametrize(("coordinators", "killed"), [(1, 0.0), (1, 0.7), (2, 0.7)])
def test_statements_keep_their_bounds_while_the_duration_goes_up_and_down(
    seed: int, coordinators: int, killed: float
) -> None:
    """A node is cut off at each change, and the leader killed after some of them."""

    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        random = cluster.random
        await run(cluster, "CREATE DATABASE d")

        async def client(number: int) -> None:
            for turn in range(6):
                name = f"d.t{number}x{turn}"
                await run(cluster, f"CREATE TABLE {name} (a INT)")
                await run(cluster, f"ALTER TABLE {name} ADD COLUMN b INT")
                await run(cluster, f"DROP TABLE {name}")
                await asyncio.sleep(random.uniform(0, 2))

        clients = [group.create_task(client(number)) for number in range(3)]
        for duration in ("9s", "2s", "5s", "3s", "6s", "1s600ms"):
            node = random.choice(cluster.nodes)
            cut_off(cluster, node)
            await asyncio.sleep(random.uniform(0, 0.4))
            alters = group.create_task(lease(cluster, duration))
            await asyncio.sleep(random.uniform(0, 1))
            leader = cluster.leading
            if leader is not None and random.random() < killed:
                await leader.kill()
                await asyncio.sleep(random.uniform(0, 3))
                await leader.start(group)
            await alters
            await asyncio.sleep(random.uniform(0, 4))
            cluster.network.heal_all()
        await asyncio.wait(clients)
        assert all(one.exception() is None for one in clients)
        await cluster.wait_for(lambda: largest_ns(cluster) == 1_600 * MILLISECOND_NS)
        await cluster.wait_for(lambda: all(node.guard() for node in cluster.nodes))

    simulate(scenario, seed=seed, coordinators=coordinators)


# ---------------------------------------------------------------- one statement among others


def test_a_change_of_settings_does_not_wait_for_statements_nor_they_for_it() -> None:
    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        await lease(cluster, "20s")
        await cluster.wait_for(lambda: left_ns(cluster.nodes[0]) > 19 * SECOND_NS)
        await cluster.nodes[0].kill()
        waits = group.create_task(run(cluster, "CREATE DATABASE a"))
        await asyncio.sleep(1)
        alters = group.create_task(lease(cluster, "2s"))
        await asyncio.sleep(1)
        assert stored(cluster).lease_duration_ns == 2 * SECOND_NS
        last = group.create_task(run(cluster, "CREATE DATABASE b"))
        await asyncio.wait([waits, alters, last])
        ended = [one.result().elapsed_ns for one in (waits, alters, last)]
        assert ended[0] - ended[1] > SECOND_NS / 2, "all three ended as the killed node's lease did"
        assert ended[1] - ended[2] > SECOND_NS / 2

    simulate(scenario)


def test_a_statement_that_is_decided_after_a_longer_duration_was_set_counts_on_it() -> None:
    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        await asyncio.sleep(1)
        go_on = asyncio.Event()

        async def before(request: str) -> RequestFate:
            if request == "txn":
                await go_on.wait()
            return RequestFate.ANSWERED

        cluster.coordinators[0].before = before
        alters = group.create_task(lease(cluster, "20s"))
        await asyncio.sleep(0.05)
        behind = group.create_task(run(cluster, "CREATE DATABASE d"))
        await asyncio.sleep(0.05)
        go_on.set()
        assert (await alters).bound_ns == 4 * SECOND_NS, "nobody who holds a longer one can hold it up"
        assert (await behind).bound_ns == 21_600 * MILLISECOND_NS

    simulate(scenario)


def test_two_clients_change_settings_at_once() -> None:
    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        texts = ("lease_duration = '20s'", "lease_margin = '300ms'", "lease_duration = '2s'", "lease_duration = '2s'")
        tasks = [group.create_task(run(cluster, f"ALTER CLUSTER SET {text}")) for text in texts]
        await asyncio.wait(tasks)
        receipts = sorted((one.result() for one in tasks), key=lambda one: one.revision or 0)
        assert {one.outcome for one in receipts} == {Outcome.COMMITTED}
        duration = [one.text for one in receipts if "duration" in one.text and one.settled][-1]
        assert stored(cluster).lease_margin_ns == 300 * MILLISECOND_NS
        assert stored(cluster).lease_duration_ns == (20 if "20s" in duration else 2) * SECOND_NS

    simulate(scenario)


def test_asked_again_it_tells_the_same_and_does_not_run_twice() -> None:
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        first, second = StatementId(cluster.entropy.hex_128()), StatementId(cluster.entropy.hex_128())
        text = "ALTER CLUSTER SET lease_duration = '2s'"
        receipt = await run(cluster, text, first)
        await run(cluster, "ALTER CLUSTER SET lease_duration = '5s'", second)
        assert await run(cluster, text, first) == receipt
        assert stored(cluster).lease_duration_ns == 5 * SECOND_NS

    simulate(scenario)


def test_a_later_leader_ends_what_an_earlier_one_began() -> None:
    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        cut_off(cluster, cluster.nodes[2])
        statement = StatementId(cluster.entropy.hex_128())
        asked = group.create_task(run(cluster, "ALTER CLUSTER SET lease_duration = '8s'", statement))
        await cluster.wait_for(lambda: stored(cluster).lease_duration_ns == 8 * SECOND_NS)
        assert largest_ns(cluster) == 8 * SECOND_NS, "no later than the setting"
        await cluster.kill_coordinator()
        await cluster.start_coordinator(group)
        receipt = await asked
        assert receipt.outcome is Outcome.COMMITTED
        assert 8 * SECOND_NS < receipt.elapsed_ns <= receipt.bound_ns < 10 * SECOND_NS
        again = await ask(cluster, AskOutcome(cluster_id=None, statement=statement), patience_s=30)
        assert again == receipt

    simulate(scenario)


def test_the_present_values_and_refused_ones_change_nothing() -> None:
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        await asyncio.sleep(1)
        before, settings = cluster.store.status().latest, stored(cluster)
        receipt = await run(cluster, "ALTER CLUSTER SET lease_duration = '3s', lease_margin = '500ms'")
        assert (receipt.outcome, receipt.settled) == (Outcome.COMMITTED, ())
        for text in ("lease_duration = '1s'", "lease_duration = '2s', lease_margin = '1h'", "none = 1"):
            with pytest.raises(Refused):
                await cluster.sql(f"ALTER CLUSTER SET {text}")
        await asyncio.sleep(1)
        assert (cluster.store.status().latest, stored(cluster)) == (before, settings)

    simulate(scenario)
