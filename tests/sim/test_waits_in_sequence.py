"""Statements on few names while machines are killed, removed and come back as other nodes: how long they take in all.

The bound of a statement counts once it is first on its objects and all before it is settled (INV-DDL-1). What it waits
for before that adds up: a node may die while a barrier waits for another one. So each receipt tells it.
"""

import asyncio
from collections.abc import Sequence
from random import Random

import msgspec
import pytest

from leasehold.core.words.messages import Execute, Receipt
from leasehold.core.words.records import Waited
from leasehold.errors import Definite
from leasehold.ids import StatementId
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.clients import ask
from leasehold.testing.cluster import SimulatedCluster, SimulatedNode
from leasehold.testing.invariants import INVARIANTS
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.oracle import Oracle
from leasehold.testing.replacement import Replacing
from tests.few import few

CLIENTS = 4
EXCHANGES = 8
SEEDS = few(1, range(1, 10))
BOUND_NS = 4 * SECOND_NS
TRIPS_NS = 250 * MILLISECOND_NS
"""Questions, answers, and looking again."""
TEXTS = tuple(
    text
    for name in ("d.a", "d.b")
    for text in (
        f"CREATE TABLE IF NOT EXISTS {name} (a INT)",
        f"ALTER TABLE {name} ADD COLUMN IF NOT EXISTS b INT",
        f"ALTER TABLE {name} DROP COLUMN IF EXISTS b",
        f"DROP TABLE IF EXISTS {name}",
        f"DROP TABLE IF EXISTS {name}",
    )
)


class Over(Exception):
    """The run has ended: what still runs is cancelled."""


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """One statement as its client saw it."""

    took_ns: int
    receipt: Receipt

    @property
    def waited(self) -> Waited:
        return self.receipt.waited or Waited()

    @property
    def told_ns(self) -> int:
        return self.waited.queued_ns + self.waited.settling_ns + self.receipt.elapsed_ns


def run(seed: int, machines: int) -> list[Heard]:
    """What clients heard while so many of four machines are exchanged, each by itself. Holds all invariants."""
    heard: list[Heard] = []

    async def main(random: Random) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        oracle = Oracle(INVARIANTS, now_ns=loop.now_ns, seed=seed, command=None)
        cluster = SimulatedCluster(random, nodes=4, oracle=oracle, supervised=True)
        try:
            async with asyncio.TaskGroup() as group:
                await cluster.start(group)
                await cluster.sql("CREATE DATABASE d")
                for _ in range(CLIENTS):
                    group.create_task(change(cluster, oracle, Random(random.getrandbits(64)), heard))
                exchanged = cluster.nodes[:machines]
                await asyncio.gather(
                    *(exchange(cluster, oracle, one, Random(random.getrandbits(64)), group) for one in exchanged)
                )
                raise Over
        except* Over:
            pass

    run_virtual(main, seed, shuffle=True)
    return heard


async def change(cluster: SimulatedCluster, oracle: Oracle, random: Random, heard: list[Heard]) -> None:
    while True:
        request = Execute(cluster_id=None, statement=StatementId(cluster.entropy.hex_128()), text=random.choice(TEXTS))
        began_ns = cluster.loop.now_ns()
        try:
            answer = await ask(cluster, request, patience_s=60)
        except Definite as error:
            oracle.answered(request.statement, error)
        else:
            assert isinstance(answer, Receipt)
            oracle.answered(request.statement, answer)
            heard.append(Heard(took_ns=cluster.loop.now_ns() - began_ns, receipt=answer))
        await asyncio.sleep(random.random() / 2)


async def exchange(
    cluster: SimulatedCluster, oracle: Oracle, node: SimulatedNode, random: Random, group: asyncio.TaskGroup
) -> None:
    """Kills it, and mostly removes it and starts an empty one under its name; one in two is killed again at once."""
    replacing = Replacing(cluster, oracle)
    for _ in range(EXCHANGES):
        await asyncio.sleep(2 * random.random())
        await node.kill(silent=random.random() < 0.3)
        if random.random() < 0.7:
            assert "empty machine" in await replacing.remove(node)
        node.start(group)
        await cluster.wait_for(node.guard)
        if random.random() < 0.5:
            await node.kill(silent=random.random() < 0.3)
            await asyncio.sleep(random.random())
            node.start(group)
            await cluster.wait_for(node.guard)


def check_told(heard: Sequence[Heard]) -> None:
    assert heard
    for one in heard:
        assert one.receipt.elapsed_ns <= one.receipt.bound_ns == BOUND_NS, one
        assert one.waited.settling_ns <= BOUND_NS, one
        assert bool(one.waited.settling_ns) == bool(one.waited.nodes), one
        assert one.took_ns <= one.told_ns + TRIPS_NS, f"it waited for something that it does not tell: {one}"


@pytest.mark.parametrize("seed", SEEDS)
def test_waits_for_one_machine_that_is_exchanged_again_and_again_do_not_add_up(seed: int) -> None:
    """It comes back after its lease: a statement that waited for that one does not wait for its successor."""
    heard = run(seed, 1)
    check_told(heard)
    assert 3 * SECOND_NS < max(one.took_ns for one in heard) <= BOUND_NS + TRIPS_NS


@pytest.mark.parametrize("seed", SEEDS)
def test_what_adds_up_where_machines_die_one_after_the_other_is_told_in_the_receipt(seed: int) -> None:
    heard = run(seed, 2)
    check_told(heard)
    worst = max(heard, key=lambda one: one.took_ns)
    assert worst.took_ns > BOUND_NS + SECOND_NS, "else nothing was tested"
    assert worst.waited.queued_ns > 0
    assert any(one.waited.nodes for one in heard)
