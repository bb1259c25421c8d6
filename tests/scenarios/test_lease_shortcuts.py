"""Shortcuts that a leader must not take: what looks like a proof and is none, each with its interleaving."""

import asyncio
from typing import Any

import pytest

from leasehold.coordinator.replicas.reports import NodeReports
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import AskStatus, TableCleaned
from leasehold.core.words.operations import Change
from leasehold.core.words.records import DroppedRecord, Outcome, SettledHow
from leasehold.ids import Incarnation, NodeId, ObjectId, Session, StatementId
from leasehold.limits.units import SECOND_NS
from leasehold.testing.cluster import SimulatedCluster
from leasehold.testing.invariants import INVARIANTS
from leasehold.testing.loop import run_virtual
from leasehold.testing.oracle import Oracle
from tests.sim.coordinator_words import all_serve_under, run, term_of, the_leader


class Over(Exception):
    pass


def simulate(scenario, *, coordinators: int = 1, seed: int = 1):
    """Three nodes that serve, one table, and an oracle that holds every invariant."""

    async def main(random: Any) -> None:
        oracle = Oracle(INVARIANTS, now_ns=asyncio.get_running_loop().now_ns)
        cluster = SimulatedCluster(random, nodes=3, coordinators=coordinators, oracle=oracle)
        try:
            async with asyncio.TaskGroup() as group:
                await cluster.start(group)
                await run(cluster, "CREATE DATABASE d")
                await run(cluster, "CREATE TABLE d.t (a INT, b INT)")
                await scenario(cluster, group)
                raise Over
        except* Over:
            pass

    run_virtual(main, seed)


def how_settled(receipt, node):
    return next(one.how for one in receipt.settled if one.node == node)


async def nodes_without_a_session(leading):
    """As its status tells; no virtual time passes."""
    return [one.node for one in (await leading.process.call(AskStatus())).session_ends]


def test_a_connection_that_closes_is_no_proof_of_death():
    async def scenario(cluster, _group):
        node = cluster.nodes[0]
        leading, number = the_leader(cluster), node.published.node
        cluster.network.partition(node.name, leading.name)
        for stream in cluster.network.streams:
            ends = {end.host.name: end for end in stream.ends()}
            if ends.keys() == {leading.name, node.name}:
                ends[leading.name].cut("the leader's end of the connection")
        while number not in await nodes_without_a_session(leading):  # noqa: ASYNC110 nobody has an event to set
            await asyncio.sleep(0)
        assert node.guard(), "its connection is gone, its lease is not"
        receipt = await run(cluster, "DROP TABLE d.t")
        assert node.guard() is None
        assert how_settled(receipt, number) is SettledHow.FENCED
        assert receipt.elapsed_ns <= receipt.bound_ns

    simulate(scenario)


@pytest.mark.parametrize("statement", ["DROP TABLE d.t", "ALTER TABLE d.t DROP COLUMN b"], ids=["table", "column"])
def test_that_an_earlier_leader_may_have_proceeded_is_no_reason_to_go_on(statement):
    """It was killed while it waited; the next one takes the statement up, and can't know how far that had come."""

    async def scenario(cluster, group):
        node = cluster.nodes[2]
        cluster.network.partition(node.name, cluster.coordinators[0].name)
        chosen = StatementId(cluster.entropy.hex_128())
        dropping = group.create_task(cluster.sql(statement, chosen))
        await asyncio.sleep(0.3)
        await cluster.kill_coordinator()
        await cluster.start_coordinator(group)
        await cluster.wait_for(lambda: cluster.coordinators[0].leader)
        assert node.guard(), "it still serves what is to go"
        receipt = await dropping
        assert node.guard() is None
        assert receipt.outcome is Outcome.COMMITTED

    simulate(scenario)


def test_a_stream_to_a_leader_that_is_over_is_left():
    """The node hears of a newer term, loses its way to it, and must not stay with the older leader."""

    async def scenario(cluster, _group):
        old, before = the_leader(cluster), term_of(cluster)
        old.cut_off_store()
        await cluster.wait_for(lambda: term_of(cluster) > before and all_serve_under(cluster, term_of(cluster)))
        old.heal_store()
        await cluster.wait_for(lambda: all_serve_under(cluster, term_of(cluster)), at_most_ns=10 * SECOND_NS)

    simulate(scenario, coordinators=2)


def test_a_leader_that_has_handed_over_grants_nothing_while_its_process_lives_on():
    async def scenario(cluster, _group):
        old, before = the_leader(cluster), term_of(cluster)
        assert old.process is not None
        old.process.hand_over()
        await asyncio.wait([old.task])
        # Its process is still there, and so are the connections to it.
        await cluster.wait_for(lambda: term_of(cluster) > before)
        await cluster.wait_for(lambda: all_serve_under(cluster, term_of(cluster)), at_most_ns=10 * SECOND_NS)

    simulate(scenario, coordinators=2)


def hold_back_until_it_has_won(follower):
    """The catalog of a follower stays as it is until its coordinator asks for the one to start from."""
    move, reached = follower._move, follower.reached
    missed = []

    async def reached_once_it_has_won(revision):
        follower._move = move
        for catalog in missed:
            asyncio.get_running_loop().call_soon(move, catalog)
        return await reached(revision)

    follower._move, follower.reached = missed.append, reached_once_it_has_won


def test_what_a_new_leader_starts_from_is_read_after_it_has_won():
    """One that follows is behind when it wins; all that was written meanwhile is below its floor once it leads."""

    async def scenario(cluster, _group):
        old, before = the_leader(cluster), term_of(cluster)
        other = next(one for one in cluster.coordinators if one is not old)
        hold_back_until_it_has_won(other.process._follower)
        for name in "cdefg":
            await run(cluster, f"ALTER TABLE d.t ADD COLUMN {name} INT")
        await old.stop()
        await cluster.wait_for(lambda: term_of(cluster) > before)
        floor = the_leader(cluster).leader.grantor.floor
        assert floor >= max(node.published.view.revision for node in cluster.nodes)

    simulate(scenario, coordinators=2)


# ---------------------------------------------------------------- what waits in a queue


class OneAtATime:
    """A writer whose next turn comes after everything else has happened."""

    def __init__(self, catalog):
        self.catalog = catalog
        self.changes = None

    async def submit(self, decide):
        self.changes = decide(self.catalog)


class LiveIs:
    """What the leader counts as alive by then."""

    def __init__(self, **incarnations):
        self._live = incarnations

    def live_incarnations(self, nodes):
        return {node: self._live[f"n{node}"] for node in nodes if f"n{node}" in self._live}


def dropped_with_node_1_pending() -> Catalog:
    record = DroppedRecord(table=ObjectId(7), name="d.t", pending=(NodeId(1), NodeId(2)))
    return Catalog().changed((Change(keys.dropped(ObjectId(7)), encode(record)),))


CLEANED = TableCleaned(node=NodeId(1), incarnation=Incarnation(1), session=Session("a" * 32), table=ObjectId(7))


@pytest.mark.parametrize(
    ("live", "changes"),
    [(LiveIs(n1=1), 1), (LiveIs(n1=2), 0), (LiveIs(), 0)],
    ids=["it lives", "a newer one has joined", "it was closed"],
)
async def test_a_report_whose_sender_was_superseded_while_it_waited_changes_nothing(live, changes):
    writer = OneAtATime(dropped_with_node_1_pending())
    await NodeReports(writer, live).acknowledge(CLEANED)
    assert len(writer.changes) == changes
