"""Appends whose first replica is silent for a while: another one writes the same rows under another name."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from leasehold.core.data.asking import Asking
from leasehold.core.replicas.reconcile import OnDisk
from leasehold.core.words.messages import AskTable, Message, StagedSegment, TableFacts
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.cluster import CLIENT, SimulatedCluster, SimulatedNode
from leasehold.testing.invariants import INVARIANTS
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.network import Link
from leasehold.testing.oracle import Oracle
from leasehold.testing.readers import CompleteScan, SimulatedReader
from leasehold.testing.writers import Habits, SimulatedWriter, WriteFate, Written
from tests.sim.data_words import TABLE, Ground, Over, on_disk, simulate


def copies(node: SimulatedNode) -> list[OnDisk]:
    """What it holds of the first bucket."""
    return [one for one in node.data.disk.listing() if one.bucket == 0]


def answer(bucket: int) -> Callable[[Message], bool]:
    return lambda message: isinstance(message, StagedSegment) and message.bucket == bucket


@pytest.mark.parametrize("goes_on", [True, False])
def test_of_a_hedged_append_one_answer_is_committed_and_the_other_copies_go(goes_on: bool) -> None:
    """The first replica of a bucket and its peer have written the rows when the second one is asked for them as well.
    The answer of the first comes after that of the second: while the write goes on with the other bucket, or later."""

    async def scenario(ground: Ground) -> None:
        await ground.create(buckets=2)
        network, nodes = ground.cluster.network, ground.cluster.nodes
        facts = await ground.reader.client.look_up(AskTable(cluster_id=None, name=TABLE), TableFacts, Asking())
        first, second = (ground.node(node) for node in facts.buckets[0].replicas)
        late = network.hold(first.name, CLIENT, answer(bucket=0))
        others = [network.hold(node.name, CLIENT, answer(bucket=1)) for node in nodes] if goes_on else []
        writing = ground.group.create_task(ground.writer().write(TABLE, 8))
        await ground.wait_for(lambda: all(len(copies(node)) == 2 for node in (first, second)))  # its own, and a copy
        await asyncio.sleep(1)
        assert writing.done() is not goes_on
        network.release(late)
        await asyncio.sleep(1)
        for one in others:
            network.release(one)
        written = await writing
        assert written.fate is WriteFate.COMMITTED
        assert sum(record.rows for record in ground.manifest()) == 8
        assert len(ground.manifest()) == 2
        assert await ground.read() == Counter(written.rows)
        named = {on_disk(record) for record in ground.manifest()}
        await ground.wait_for(lambda: all(one in named for node in nodes for one in node.data.disk.listing()))

    simulate(scenario)


SLOW = (Link(), Link(), Link(delay_max_ns=500 * MILLISECOND_NS), Link(delay_max_ns=2 * SECOND_NS))
"""How one way between a writer and a node may be."""
WRITES = 12


@pytest.mark.parametrize("seed", range(1, 5))
def test_every_invariant_holds_of_appends_that_are_hedged_again_and_again(seed: int) -> None:
    """A writer and a reader, whose ways to the nodes become slow and fast again. Nothing else is broken, so each write
    is committed, and the answers of replicas that were overtaken come late."""
    written: list[Written] = []
    scans: list[CompleteScan] = []

    async def main(random: Random) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        oracle = Oracle(INVARIANTS, now_ns=loop.now_ns, seed=seed, command=None)
        cluster = SimulatedCluster(random, nodes=3, oracle=oracle)

        def scanned(scan: CompleteScan) -> None:
            scans.append(scan)
            oracle.scanned(scan.table, scan.revision, Counter(map(str, scan.rows)), scan.cutoff)

        try:
            async with asyncio.TaskGroup() as group:
                await cluster.start(group)
                await cluster.sql("CREATE DATABASE d")
                await cluster.sql(f"CREATE TABLE {TABLE} (a INT, b INT) CLUSTERED BY (a) INTO 3 BUCKETS")
                writer = SimulatedWriter(
                    transport=cluster.network.host("writer"),
                    coordinators=cluster.addresses,
                    clock=SimulatedClock(loop),
                    entropy=cluster.entropy,
                    random=Random(random.getrandbits(64)),
                    rows=itertools.count(1),
                    group=group,
                    habits=Habits(dies=0, pause_max_ns=0),
                    on_commit=oracle.saw,
                    on_written=written.append,
                )
                reader = SimulatedReader(
                    transport=cluster.network.host(CLIENT),
                    coordinators=cluster.addresses,
                    clock=SimulatedClock(loop),
                    entropy=cluster.entropy,
                    random=Random(random.getrandbits(64)),
                    group=group,
                    on_scanned=scanned,
                )
                for _ in range(WRITES):
                    for node in cluster.nodes:
                        cluster.network.set_link("writer", node.name, random.choice(SLOW))
                        cluster.network.set_link(node.name, "writer", random.choice(SLOW))
                    await writer.write(TABLE, random.randint(1, 24))
                    await reader.scan(TABLE)
                raise Over
        except* Over:
            pass

    run_virtual(main, seed, shuffle=True)
    assert [one.fate for one in written] == [WriteFate.COMMITTED] * WRITES
    assert Counter(scans[-1].rows) == Counter(row for one in written for row in one.rows)
