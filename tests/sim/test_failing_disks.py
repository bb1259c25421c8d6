"""Disks that fail: other nodes take over the buckets at once, and nothing is given up that nobody else holds."""

import asyncio

import msgspec

from leasehold.limits.units import SECOND_NS
from leasehold.limits.upkeep import HOUSEKEEPING_INTERVAL_NS
from leasehold.testing.cluster import SimulatedNode
from leasehold.testing.end_reports import EndReports
from tests.sim.data_words import Ground, on_disk, simulate
from tests.sim.test_copies import buckets
from tests.sim.test_replaced import at_rest, holders, numbers, placed, table_on_two


def fail_to_read(ground: Ground, node: SimulatedNode) -> None:
    """A reader of one of its files has met an error of the disk."""
    node.data.disk.failing = True
    held = next(one for one in ground.manifest() if node.published.node in one.holders)
    node.published.suspects.suspect(on_disk(held))


def test_the_buckets_of_a_node_whose_disk_fails_are_whole_elsewhere_before_it_could_count_as_away() -> None:
    async def scenario(ground: Ground) -> None:
        stays, failing, other = await table_on_two(ground)
        await ground.cluster.sql("ALTER CLUSTER SET replace_after = 'never'")
        now_s = asyncio.get_running_loop().time
        began_s = now_s()
        fail_to_read(ground, failing)
        await ground.wait_for(lambda: placed(ground) == [(numbers(stays, other), ())])
        assert now_s() - began_s < HOUSEKEEPING_INTERVAL_NS / SECOND_NS, "at once"
        assert holders(ground) == numbers(stays, other)
        assert (await ground.read()).total() == 30
        assert failing.guard() is not None, "it goes on"

    simulate(scenario)


def test_a_disk_that_works_again_is_believed_once_a_new_process_says_so() -> None:
    async def scenario(ground: Ground) -> None:
        stays, failing, other = await table_on_two(ground)
        for node in (stays, failing):
            ground.cluster.network.partition(other.name, node.name)
        fail_to_read(ground, failing)
        await ground.wait_for(lambda: [len(one.replicas) for one in buckets(ground)] == [3])
        failing.data.disk.failing = False
        await ground.write(30)
        await at_rest(ground)
        assert [len(one.replicas) for one in buckets(ground)] == [3], "of a write that succeeds nothing follows"
        await ground.cluster.kill_coordinator()
        await ground.cluster.start_coordinator(ground.group)
        await at_rest(ground)
        assert [len(one.replicas) for one in buckets(ground)] == [3], "a new leader hears it again"
        await failing.kill()
        await at_rest(ground)
        failing.start(ground.group)
        await ground.wait_for(lambda: placed(ground) == [(numbers(stays, failing), ())])
        ground.cluster.network.heal_all()
        assert (await ground.read()).total() == 60

    simulate(scenario)


def test_a_process_that_ends_as_its_vault_meets_an_error_of_the_disk_is_not_waited_for() -> None:
    async def scenario(ground: Ground) -> None:
        stays, failing, other = await table_on_two(ground)
        await ground.cluster.sql("ALTER CLUSTER SET replace_after = 'never'")
        assert failing.end_report is not None
        coordinators, report = failing.end_report
        await failing.kill()
        failing.end_report = coordinators, msgspec.structs.replace(report, disk_failing=True)
        EndReports(ground.cluster, ground.group).send(failing)
        await ground.wait_for(lambda: placed(ground) == [(numbers(stays, other), ())])
        assert (await ground.read()).total() == 30

    simulate(scenario)


def test_where_no_other_node_is_left_a_failing_disk_gives_nothing_up() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=3)
        await ground.write(30)
        fail_to_read(ground, ground.node(1))
        await at_rest(ground)
        assert placed(ground) == [({1, 2, 3}, ())]
        assert (await ground.read()).total() == 30

    simulate(scenario)


def test_a_new_table_is_placed_on_disks_that_work() -> None:
    async def scenario(ground: Ground) -> None:
        ground.node(1).published.disk_failing = True
        await ground.cluster.sql("CREATE DATABASE d")
        await at_rest(ground)
        assert (await ground.cluster.status()).disks_failing == (1,)
        await ground.cluster.sql(
            "CREATE TABLE d.t (a INT) CLUSTERED BY (a) INTO 4 BUCKETS TBLPROPERTIES ('replication' = '2')"
        )
        assert [set(one.replicas) for one in buckets(ground)] == [{2, 3}] * 4

    simulate(scenario)


def test_a_full_disk_gives_up_no_bucket() -> None:
    async def scenario(ground: Ground) -> None:
        stays, full, _ = await table_on_two(ground)
        full.data.disk.full = full.published.disk_full = True
        await ground.write(30)
        await at_rest(ground)
        assert [set(one.replicas) for one in buckets(ground)] == [numbers(stays, full)]

    simulate(scenario)
