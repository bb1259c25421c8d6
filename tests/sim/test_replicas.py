"""Replicas on simulated disks: one that missed a write, one that is damaged, one whose disk is full."""

from collections import Counter

from leasehold.limits.scrub import SCRUB_EVERY_MIN_NS
from leasehold.limits.units import SECOND_NS
from leasehold.testing.cluster import CLIENT
from tests.sim.data_words import Ground, on_disk, simulate

PASSES_NS = 2 * SCRUB_EVERY_MIN_NS + 10 * SECOND_NS
"""Two passes of the scrub."""


def test_a_replica_that_missed_a_write_fetches_it_and_then_serves() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=3)
        absent = ground.cluster.nodes[2]
        await absent.kill()
        written = await ground.write(40)
        (in_sync,) = ground.in_sync()
        assert len(in_sync) == 2
        assert absent.published.node not in in_sync, "the commit has gone by it"
        absent.start(ground.group)
        await ground.wait_for(lambda: all(len(one.holders) == 3 for one in ground.manifest()))
        await ground.wait_for(lambda: [len(one) for one in ground.in_sync()] == [3])
        for node in ground.cluster.nodes[:2]:
            await node.kill()
        assert await ground.read() == Counter(written.rows)

    simulate(scenario)


def test_a_damaged_replica_serves_nothing_of_it_and_is_replaced() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create()
        written = await ground.write(10)
        (record,) = ground.manifest()
        for number in record.holders:
            ground.node(number).data.disk.damage(on_disk(record))
            for other in ground.cluster.nodes:
                if other.published.node != number:
                    ground.cluster.network.partition(CLIENT, other.name)
            reading = ground.group.create_task(ground.read())
            await ground.wait_for(lambda one=number: ground.holds(ground.node(one), record))
            ground.cluster.network.heal_all()
            assert await reading == Counter(written.rows)
        assert ground.removed == Counter(), "what was damaged is no loss"

    simulate(scenario)


def test_damage_is_found_and_healed_though_nobody_reads() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create()
        await ground.cluster.sql("ALTER CLUSTER SET scrub_every = '1m'")
        written = await ground.write(10)
        (record,) = ground.manifest()
        ground.node(record.holders[0]).data.disk.damage(on_disk(record))
        await ground.cluster.wait_for(
            lambda: ground.holds(ground.node(record.holders[0]), record), at_most_ns=PASSES_NS
        )
        await ground.wait_for(lambda: [set(one.holders) for one in ground.manifest()] == [set(record.holders)])
        assert await ground.read() == Counter(written.rows)

    simulate(scenario)


def test_the_last_copy_stays_however_damaged() -> None:
    """Both copies are damaged: one goes, since the other one counts until it is read. That one stays for ever."""

    async def scenario(ground: Ground) -> None:
        await ground.create()
        await ground.cluster.sql("ALTER CLUSTER SET scrub_every = '1m'")
        await ground.write(10)
        (record,) = ground.manifest()
        for number in record.holders:
            ground.node(number).data.disk.damage(on_disk(record))
        await ground.cluster.wait_for(lambda: len(ground.manifest()[0].holders) == 1, at_most_ns=PASSES_NS)
        left = ground.node(ground.manifest()[0].holders[0])
        await ground.cluster.wait_for(lambda: left.published.suspects.is_damaged(on_disk(record)), at_most_ns=PASSES_NS)
        await ground.clock.sleep_until(ground.clock.now_ns() + PASSES_NS)
        assert on_disk(record) in left.data.disk.listing()
        assert ground.manifest()[0].holders == (left.published.node,)

    simulate(scenario)


def test_a_disk_that_fails_holds_nothing_and_takes_nothing_until_it_works_again() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create()
        await ground.cluster.sql("ALTER CLUSTER SET scrub_every = '1m'")
        before = await ground.write(10)
        (record,) = ground.manifest()
        failing = ground.node(record.holders[0])
        other = record.holders[1]
        failing.data.disk.failing = True
        after = await ground.write(10)
        assert await ground.read() == Counter(before.rows) + Counter(after.rows), "readers turn to the other replica"
        await ground.cluster.wait_for(
            lambda: [one.holders for one in ground.manifest()] == [(other,), (other,)], at_most_ns=PASSES_NS
        )
        assert ground.in_sync() == [(other,)]
        failing.data.disk.failing = False
        await ground.wait_for(lambda: [len(one.holders) for one in ground.manifest()] == [2, 2])
        await ground.wait_for(lambda: [len(one) for one in ground.in_sync()] == [2])

    simulate(scenario)


def test_a_full_disk_takes_no_writes_and_goes_on_serving() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=3)
        before = await ground.write(10)
        full = ground.cluster.nodes[0]
        full.data.disk.full = True
        after = await ground.write(10)
        new = [one for one in ground.manifest() if full.published.node not in one.holders]
        assert len(new) == 1
        assert full.data.disk.half_written() == frozenset()
        assert await ground.read() == Counter(before.rows) + Counter(after.rows)
        full.data.disk.full = False
        await ground.wait_for(lambda: ground.holds(full, new[0]))

    simulate(scenario)
