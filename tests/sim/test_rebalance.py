"""Buckets move to nodes that hold less, while rows are read and written; what comes in between costs no row."""

from collections import Counter

import pytest

from leasehold.core.data.node_removal import remove_node
from leasehold.core.words.messages import Rows
from leasehold.limits.membership import UNEVEN_LOOK_NS
from leasehold.limits.units import SECOND_NS
from leasehold.testing.cluster import AT_LENGTH
from tests.few import few
from tests.sim.data_words import Ground, simulate
from tests.sim.test_copies import buckets
from tests.sim.test_drain import Load, alter, names_in_manifest

BUCKETS = 6
NEW = 4


async def with_an_empty_node(ground: Ground, *, rows: int = 60) -> None:
    await alter(ground, NEW, "DRAIN")
    await ground.create(replication=2, buckets=BUCKETS)
    await ground.write(rows)
    assert names_in_manifest(ground) == {1, 2, 3}
    await alter(ground, NEW, "UNDRAIN")


async def rebalance(ground: Ground, what: str = "REBALANCE") -> None:
    await ground.cluster.sql(f"ALTER CLUSTER {what}")


async def shown(ground: Ground, question: str) -> list[dict[str, object]]:
    answer = await ground.cluster.sql(question)
    assert isinstance(answer, Rows)
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


async def is_under_way(ground: Ground) -> bool:
    rows = await shown(ground, "SHOW CLUSTER")
    return {row["setting"]: row["value"] for row in rows}["rebalancing"] == "yes"


def counts(ground: Ground) -> Counter[int]:
    return Counter(node for one in buckets(ground) for node in one.replicas)


def is_whole(ground: Ground) -> bool:
    """Every bucket has its two replicas, nobody else is named, nothing moves."""
    whole = all(
        (len(one.replicas), set(one.in_sync), one.retired, one.moving) == (2, set(one.replicas), (), None)
        for one in buckets(ground)
    )
    named = {(one.bucket, node) for one in ground.manifest() for node in one.holders}
    return whole and named <= {(one.bucket, node) for one in buckets(ground) for node in one.replicas}


def cut_off_from_nodes(ground: Ground, number: int) -> None:
    """It copies nothing."""
    for other in {1, 2, 3, 4}.difference({number}):
        ground.cluster.network.partition(ground.node(number).name, ground.node(other).name)


def test_a_new_node_gets_its_share_under_load():
    async def scenario(ground: Ground) -> None:
        await with_an_empty_node(ground)
        plan = await shown(ground, "SHOW REBALANCE")
        assert [(row["to"], row["state"]) for row in plan] == [(ground.node(NEW).name, "PLANNED")] * 3
        load = Load(ground)
        await rebalance(ground)
        await ground.wait_for(lambda: counts(ground) == {1: 3, 2: 3, 3: 3, 4: 3})
        await load.end()
        await ground.wait_for(lambda: is_whole(ground))
        assert await shown(ground, "SHOW REBALANCE") == []
        assert not await is_under_way(ground)
        held = {(one.bucket, one.id) for one in ground.manifest() if NEW in one.holders}
        disk = ground.node(NEW).data.disk
        await ground.wait_for(lambda: {(one.bucket, one.segment) for one in disk.listing()} >= held)

    simulate(scenario, nodes=4)


def test_one_that_is_automatic_begins_within_minutes_and_does_not_swing():
    async def scenario(ground: Ground) -> None:
        await with_an_empty_node(ground)
        before = ground.clock.now_ns()
        await ground.cluster.sql("ALTER CLUSTER SET rebalance = 'auto'")
        await ground.wait_for(lambda: counts(ground) == {1: 3, 2: 3, 3: 3, 4: 3})
        assert ground.clock.now_ns() - before < 2 * UNEVEN_LOOK_NS
        await ground.wait_for(lambda: is_whole(ground))
        placed = [one.replicas for one in buckets(ground)]
        await ground.write(30)
        await ground.clock.sleep_until(ground.clock.now_ns() + 3 * UNEVEN_LOOK_NS)
        assert [one.replicas for one in buckets(ground)] == placed

    simulate(scenario, nodes=4)


def test_one_that_is_stopped_leaves_no_copy_too_much():
    async def scenario(ground: Ground) -> None:
        await with_an_empty_node(ground)
        before = [(one.replicas, one.in_sync) for one in buckets(ground)]
        cut_off_from_nodes(ground, NEW)
        await rebalance(ground)
        await ground.wait_for(lambda: sum(one.moving is not None for one in buckets(ground)) == 3)
        assert {row["state"] for row in await shown(ground, "SHOW REBALANCE")} == {"MOVING"}
        await rebalance(ground, "STOP REBALANCE")
        await ground.wait_for(lambda: is_whole(ground))
        assert [(one.replicas, one.in_sync) for one in buckets(ground)] == before
        ground.cluster.network.heal_all()
        await ground.clock.sleep_until(ground.clock.now_ns() + 60 * SECOND_NS)
        assert (counts(ground)[NEW], await is_under_way(ground)) == (0, False)
        assert (await ground.read()).total() == 60

    simulate(scenario, nodes=4)


def test_one_goes_on_with_the_next_leader_and_with_the_next_process_of_its_target():
    async def scenario(ground: Ground) -> None:
        await with_an_empty_node(ground)
        cut_off_from_nodes(ground, NEW)
        await rebalance(ground)
        await ground.wait_for(lambda: any(one.moving is not None for one in buckets(ground)))
        await ground.node(NEW).kill()
        await ground.cluster.kill_coordinator()
        await ground.cluster.start_coordinator(ground.group)
        ground.cluster.network.heal_all()
        ground.node(NEW).start(ground.group)
        await ground.wait_for(lambda: counts(ground) == {1: 3, 2: 3, 3: 3, 4: 3})
        await ground.wait_for(lambda: is_whole(ground))
        assert (await ground.read()).total() == 60

    simulate(scenario, nodes=4)


@pytest.mark.parametrize("lost", [NEW, 1])
def test_a_node_that_is_lost_in_the_middle_ends_its_moves(lost: int):
    async def scenario(ground: Ground) -> None:
        await with_an_empty_node(ground)
        cut_off_from_nodes(ground, NEW)
        await rebalance(ground)
        await ground.wait_for(lambda: any(one.moving is not None for one in buckets(ground)))
        await ground.node(lost).kill()
        await remove_node(ground.cluster.client(), str(lost), AT_LENGTH)
        ground.cluster.network.heal_all()
        await ground.wait_for(lambda: is_whole(ground) and lost not in counts(ground))
        assert (await ground.read()).total() == 60
        await ground.wait_for(lambda: max(counts(ground).values()) == 4)

    simulate(scenario, nodes=4)


def test_a_source_that_drains_in_the_middle_is_emptied():
    async def scenario(ground: Ground) -> None:
        await with_an_empty_node(ground)
        cut_off_from_nodes(ground, NEW)
        await rebalance(ground)
        await ground.wait_for(lambda: any(one.moving is not None for one in buckets(ground)))
        await alter(ground, 1, "DRAIN")
        ground.cluster.network.heal_all()
        await ground.wait_for(lambda: is_whole(ground) and 1 not in counts(ground))
        assert sorted(counts(ground).values()) == [4, 4, 4]
        assert (await ground.read()).total() == 60

    simulate(scenario, nodes=4)


@pytest.mark.parametrize("seeds", few(1, [range(1, 3), range(3, 41)]), ids=str)
def test_whatever_happens_in_the_middle_every_bucket_is_whole_in_the_end(seeds: range):
    async def scenario(ground: Ground) -> None:
        await with_an_empty_node(ground)
        rows, drained = 60, set[int]()
        for _ in range(25):
            number = ground.random.randrange(1, NEW + 1)
            match ground.random.choice(("begin", "begin", "stop", "drain", "undrain", "kill", "lead", "write", "wait")):
                case "begin":
                    await rebalance(ground)
                case "stop":
                    await rebalance(ground, "STOP REBALANCE")
                case "drain" if not drained:
                    await alter(ground, number, "DRAIN")
                    drained.add(number)
                case "undrain" if drained:
                    await alter(ground, drained.pop(), "UNDRAIN")
                case "kill":
                    node = ground.node(number)
                    await node.kill()
                    node.start(ground.group)
                    await ground.wait_for(lambda node=node: node.guard() is not None)
                case "lead":
                    await ground.cluster.kill_coordinator()
                    await ground.cluster.start_coordinator(ground.group)
                case "write":
                    await ground.write(10)
                    rows += 10
                case _:
                    await ground.clock.sleep_until(ground.clock.now_ns() + ground.random.randrange(3 * SECOND_NS))
        await ground.wait_for(lambda: is_whole(ground) and drained.isdisjoint(counts(ground)))
        assert (await ground.read()).total() == rows

    for seed in seeds:
        simulate(scenario, seed=seed, nodes=4)
