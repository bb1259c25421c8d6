"""The weak points of a lease, continued: what a fence must not break (L12), what it missed (L14), uncertainty (L15)."""

import asyncio

import pytest

from leasehold.client.cluster import Cluster
from leasehold.client.scan import read_plan
from leasehold.client.table import Table
from leasehold.core.data.reader import reading_order
from leasehold.core.lease.holder import Holder
from leasehold.core.words import keys
from leasehold.core.words.messages import Grant, Renewal, RenewalRefused, Surrender, Watched
from leasehold.errors import LeaseholdError
from leasehold.limits.lease import RENEWAL_INTERVAL_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.node.agent import agent as agent_module
from leasehold.testing.cluster import COORDINATOR
from leasehold.testing.requests import RequestFate
from tests.scenarios.fence_words import Doors, Heard, facts, opened, renewals_of, replica, simulate
from tests.unit.client.pace import paced
from tests.unit.node import cluster as data_nodes

# ---------------------------------------------------------------- L12


def renewals_held(tmp_path):
    """Nothing of a node reaches the leader, so it is fenced, while the watch goes on; then all that waited arrives."""

    async def scenario(cluster, group):
        table = await facts(cluster)
        node, _ = replica(cluster, table)
        doors = Doors(node, tmp_path)
        transaction = await opened(cluster, table)
        serving = doors.codes(table, transaction)
        assert serving["read"].code == "SEGMENT_UNKNOWN"
        assert serving["write"].code == "BROKEN_STREAM", "admitted, but no rows come"
        assert serving["forward"].code == "SUPERSEDED", "the last of its checks"
        held = cluster.network.hold(node.name, COORDINATOR)
        await cluster.wait_for(lambda: not node.guard())
        fenced_ns = cluster.loop.now_ns()

        # Fenced: whatever is decided from the catalog is refused ..
        refused = doors.codes(table, transaction)
        assert {door: error.code for door, error in refused.items()} == dict.fromkeys(refused, "FENCED")
        assert all(error.text.startswith(f"{doors.who} has been fenced for ") for error in refused.values())
        # .. and what cures it, and what people look at, goes on.
        receipt = await cluster.sql("ALTER TABLE d.t ADD COLUMN c INT")
        await asyncio.sleep(3)
        assert not node.guard()
        assert node.published.view.revision >= receipt.revision, "it follows the watch"
        assert node.agent.durable.revision >= receipt.revision, "into its vault too"
        health = doors.health()
        assert (health.state, health.lease_remaining_ns) == ("FENCED", 0)
        assert health.applied_revision >= receipt.revision
        assert doors.fetch(table).code == "SEGMENT_MISSING", "a copy of immutable bytes needs no lease"

        arriving = renewals_of(cluster, node)
        released_ns = cluster.loop.now_ns()
        cluster.network.release(held)
        await cluster.wait_for(node.guard, at_most_ns=10 * SECOND_NS)
        assert len(arriving.messages) >= (released_ns - fenced_ns) // RENEWAL_INTERVAL_NS, "it asked all the time"
        assert cluster.loop.now_ns() - released_ns <= RENEWAL_INTERVAL_NS + 50 * MILLISECOND_NS
        assert doors.health().state == "ACTIVE"
        again = doors.codes(await facts(cluster), transaction)
        assert {door: error.code for door, error in again.items()} == {
            door: error.code for door, error in serving.items()
        }
        doors.close()

    simulate(scenario)


def test_L12_the_fence_breaks_its_own_cure(tmp_path):
    renewals_held(tmp_path)


def test_L12_the_scenario_notices_a_node_that_stops_to_ask_once_it_is_fenced(tmp_path, monkeypatch):
    class Gives_up(Holder):  # noqa: N801
        def _renew(self, now_ns):
            effects = super()._renew(now_ns)
            return () if 0 <= self.lease.deadline_ns <= now_ns else effects

    monkeypatch.setattr(agent_module, "Holder", Gives_up)
    with pytest.raises(BaseExceptionGroup) as caught:
        renewals_held(tmp_path)
    assert caught.group_contains(AssertionError, match="did not come")


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize("from_the_node", [True, False])
def test_L12_a_node_that_was_cut_off_serves_again_with_nobody_s_help(tmp_path, both_ways, from_the_node):
    async def scenario(cluster, group):
        node = cluster.nodes[0]
        ends = (node.name, COORDINATOR) if from_the_node else (COORDINATOR, node.name)
        cluster.network.partition(*ends, both_ways=both_ways)
        receipt = await cluster.sql("ALTER TABLE d.t DROP COLUMN b")
        assert receipt.elapsed_ns <= receipt.bound_ns
        await asyncio.sleep(10)
        assert not node.guard()
        doors = Doors(node, tmp_path)
        assert doors.health().state == "FENCED"
        cluster.network.heal_all()
        await cluster.wait_for(node.guard, at_most_ns=10 * SECOND_NS)
        assert node.guard().view.revision >= receipt.revision
        doors.close()

    simulate(scenario)


def test_L12_a_fenced_node_gives_its_lease_back_like_any_other(tmp_path):
    """It stops in order: what it says last is heard, and its next process need not wait."""

    async def scenario(cluster, group):
        node = cluster.nodes[0]
        held = cluster.network.hold(node.name, COORDINATOR, lambda message: isinstance(message, Renewal))
        await cluster.wait_for(lambda: not node.guard())
        cluster.network.release(held)
        said = Heard(cluster, node.name, COORDINATOR, Surrender, lambda message: message.node)
        await node.agent.surrender()
        assert said.messages
        doors = Doors(node, tmp_path)
        assert doors.read(await facts(cluster)).text == f"{doors.who} has surrendered its lease: it stops"
        doors.close()

    simulate(scenario)


# ---------------------------------------------------------------- L14


def changed_table(message):
    """Whether a revision changes the table: the pre-state of a DROP COLUMN does, and so does its release."""
    return isinstance(message, Watched) and any(one.key.startswith(keys.TABLES) for one in message.batch.changes)


class Release:
    """Holds back, from one node, the second change of the table from now on: the release of a statement."""

    def __init__(self):
        self.first = None

    def __call__(self, message):
        if not changed_table(message):
            return False
        self.first = self.first or message.batch.revision
        return message.batch.revision > self.first


@pytest.mark.parametrize("restart", [False, True])
def test_L14_the_undelivered_release(tmp_path, restart):
    """The last revision of a statement does not reach one node. Neither the statement nor the others wait for it; the
    node serves nothing of before meanwhile, and gets no lease until it shows it, also from a leader that never saw the
    statement run. What it missed comes by the watch, in order, each revision once."""

    async def scenario(cluster, group):
        table = await facts(cluster)
        node, others = replica(cluster, table)
        doors = Doors(node, tmp_path)
        transaction = await opened(cluster, table)
        before = node.published.view.revision
        held = cluster.network.hold(COORDINATOR, node.name, Release())
        receipt = await cluster.sql("ALTER TABLE d.t DROP COLUMN b")
        assert {one.how for one in receipt.settled} == {"applied"}, "the pre-state reached everybody"
        await asyncio.sleep(0.5)
        assert before < node.published.view.revision < others[0].published.view.revision
        # It holds a lease still, on the pre-state: the column is hidden there already.
        assert node.guard()
        assert doors.read(table).code == "COLUMN_DROPPED"
        await cluster.wait_for(lambda: not node.guard(), at_most_ns=4 * SECOND_NS)
        assert {error.code for error in doors.codes(table, transaction).values()} == {"FENCED"}

        shown = others[0].published.view.revision
        if restart:
            # Cut off until its stream has broken, or what the old leader had sent would still arrive.
            cluster.network.partition(node.name, COORDINATOR)
            cluster.network.release(held)
            await cluster.kill_coordinator()
            go_on = await slow_watch(cluster, group)
            await asyncio.sleep(5)
            refused = Heard(cluster, COORDINATOR, node.name, RenewalRefused, lambda message: message.request)
            await cluster.wait_for(lambda: all(one.guard() for one in others))
            cluster.network.heal_all()
            await asyncio.sleep(10)
            assert not node.guard(), "grants could reach it, the revision did not"
            assert {one.code for one in refused.messages.values()} == {"BEHIND"}
            assert len(refused.messages) > 5
            delivered = Heard(cluster, COORDINATOR, node.name, Watched, lambda message: message.batch.revision)
            go_on.set()
        else:
            await cluster.sql("CREATE DATABASE e")  # its barrier raises the floor over the release
            delivered = Heard(cluster, COORDINATOR, node.name, Watched, lambda message: message.batch.revision)
            cluster.network.release(held)
        await cluster.wait_for(node.guard, at_most_ns=10 * SECOND_NS)
        assert node.guard().view.revision >= shown
        assert doors.read(await facts(cluster)).code == "SEGMENT_UNKNOWN"
        assert list(delivered.messages) == sorted(delivered.messages), "in order"
        assert node.published.view.lineage == lineage_at(cluster, node.published.view.revision)
        doors.close()

    simulate(scenario)


async def slow_watch(cluster, group):
    """A new leader whose reading of past revisions waits for the event it answers."""
    go_on = asyncio.Event()

    async def before(request):
        if request == "history":
            await go_on.wait()
        return RequestFate.ANSWERED

    await cluster.start_coordinator(group)
    cluster.coordinators[0].before = before
    return go_on


def lineage_at(cluster, revision):
    return cluster.store.get(keys.LINEAGE, revision).value


def test_L14_a_node_cut_off_over_the_end_of_a_statement_and_a_leader_gets_all_of_it(tmp_path):
    async def scenario(cluster, group):
        node = cluster.nodes[0]
        cluster.network.partition(node.name, COORDINATOR)
        before = node.published.view.revision
        running = group.create_task(cluster.sql("DROP TABLE d.t"))
        await asyncio.sleep(1)
        await cluster.kill_coordinator()
        await cluster.start_coordinator(group)
        receipt = await running
        await cluster.sql("CREATE TABLE d.t (z STRING)")
        assert not node.guard()
        delivered = Heard(cluster, COORDINATOR, node.name, Watched, lambda message: message.batch.revision)
        cluster.network.heal_all()
        await cluster.wait_for(node.guard, at_most_ns=20 * SECOND_NS)
        view = node.guard().view
        assert view.revision >= receipt.revision
        (named,) = (
            view.tables.values() if len(view.tables) == 1 else [max(view.tables.values(), key=lambda one: one.id)]
        )
        assert [field.name for field in named.fields] == ["z"]
        missed = [revision for revision in delivered.messages if revision <= view.revision]
        assert missed == watched_after(cluster, before, view.revision), "the whole history, nothing twice"

    simulate(scenario)


def watched_after(cluster, after, until):
    replay = cluster.store.history(keys.WATCH_START, keys.WATCH_END, after + 1)
    return [batch.revision for batch in replay.batches if batch.revision <= until]


# ---------------------------------------------------------------- L15


def test_L15_uncertain_means_old_a_node_that_starts_with_an_old_view(tmp_path):
    """What its vault holds may be the past: before its first grant it says so, whatever it is asked."""

    async def scenario(cluster, group):
        table = await facts(cluster)
        node, _ = replica(cluster, table)
        transaction = await opened(cluster, table)
        await node.kill()
        await cluster.sql("DROP TABLE d.t")
        held = cluster.network.hold(COORDINATOR, node.name, lambda message: isinstance(message, Grant | Watched))
        node.start(group)
        await cluster.wait_for(lambda: node.published.incarnation == 2)
        await asyncio.sleep(5)
        doors = Doors(node, tmp_path)
        assert table.table in node.published.view.tables, "it still believes in the table"
        for error in doors.codes(table, transaction).values():
            assert error.code == "FENCED"
            assert error.text.startswith(f"{doors.who} has had no lease since it started")
        assert doors.health().state == "RECOVERING"
        cluster.network.release(held)
        await cluster.wait_for(node.guard, at_most_ns=10 * SECOND_NS)
        assert {error.code for error in doors.codes(table, transaction).values()} == {"TABLE_DROPPED"}
        doors.close()

    simulate(scenario)


def test_L15_what_the_view_does_not_know_is_refused_and_never_taken_for_empty(tmp_path):
    async def scenario(cluster, group):
        table = await facts(cluster)
        node, _ = replica(cluster, table)
        doors = Doors(node, tmp_path)
        transaction = await opened(cluster, table)
        for other, codes in (
            ({"number": 99}, ["TABLE_DROPPED", "TABLE_DROPPED", "TABLE_DROPPED"]),
            ({"bucket": 7}, ["SEGMENT_UNKNOWN", "NOT_ASSIGNED", "NOT_ASSIGNED"]),
            ({}, ["SEGMENT_UNKNOWN", "BROKEN_STREAM", "SUPERSEDED"]),
        ):
            answers = doors.codes(table, transaction, **other)
            assert [answers[door].code for door in ("read", "write", "forward")] == codes
        unknown = doors.codes(table, "f" * 32)
        assert {unknown["write"].code, unknown["forward"].code} == {"TRANSACTION_UNKNOWN"}
        doors.close()

    simulate(scenario)


def test_L15_a_revision_that_does_not_come_in_time_is_asked_for_elsewhere(tmp_path):
    """The replica that holds a lease and is behind what the client has seen waits, and then says so; real sockets."""
    with data_nodes.cluster(tmp_path, schema_wait_ns=100 * MILLISECOND_NS) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        append(made, data_nodes.rows(0, 10))
        first = reading_order(made.plan().segments[0])[0]
        made.change([], shown=False)
        for node in made.nodes:
            if node.id != first:
                node.published.publish(made.catalog)
        met = made.node(first).readings
        assert read_plan(made.plan(), runtime=paced(nobody_waits)).read_all().num_rows == 10
        assert made.node(first).readings > met


def append(made, batch):
    from leasehold.client.append import stage

    transaction = made.open()
    made.commit(transaction, stage(made.facts(), transaction, [batch], made.catalog.revision))


def nobody_waits(_duration_ns):
    raise AssertionError("the other replica shows it")


def test_L15_a_client_that_can_not_ask_refuses_though_it_knows_what_it_was_told_before(tmp_path):
    """Every node serves, the table was looked up a moment ago: without the coordinator there is no new scan of it."""
    with data_nodes.cluster(tmp_path) as made, Cluster("127.0.0.1:1", timeout=1) as cluster:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        append(made, data_nodes.rows(0, 10))
        made.limit()  # a node that is restarted has nothing left to do for the append
        table = Table(cluster, made.facts())
        asked = [node.readings for node in made.nodes]
        for use in (
            table.scan,
            lambda: table.append(data_nodes.rows(10, 1)),
            lambda: cluster.table("db.t"),
            lambda: cluster.facts("db.t"),
            lambda: cluster.plan("db.t"),
        ):
            with pytest.raises(LeaseholdError) as raised:
                use()
            assert raised.value.code == "UNREACHABLE"
        assert [node.readings for node in made.nodes] == asked, "no node was asked for anything"


def test_L15_nor_does_spark_plan_from_what_it_knew(tmp_path, monkeypatch):
    from leasehold.spark.entry import ClusterEntry
    from leasehold.spark.reader import Asked, LeaseholdReader
    from leasehold.spark.source import LeaseholdSource
    from leasehold.spark.types import spark_schema

    with data_nodes.cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        schema = spark_schema(made.facts().fields)
        monkeypatch.setattr("leasehold.core.data.asking.CLIENT_PATIENCE_NS", SECOND_NS)
        source = LeaseholdSource({"table": "db.t", "cluster": "127.0.0.1:1"})
        reader = LeaseholdReader(
            entry=ClusterEntry(address="127.0.0.1:1", tls="", token=None), asked=Asked(table="db.t"), schema=schema
        )
        for use in (
            reader.partitions,
            source.schema,
            lambda: source.reader(schema),
            lambda: source.writer(schema, False),
        ):
            with pytest.raises(Exception, match="UNREACHABLE"):
                use()
