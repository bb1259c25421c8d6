"""One client, writers and Spark that meet fenced nodes, over real sockets: elsewhere at once, and every row once."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyarrow.flight import FlightClient

from leasehold.client import replicas
from leasehold.client.append import stage
from leasehold.client.table import Table
from leasehold.client.threads import of_process
from leasehold.core.data.reader import reading_order
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import StagedSegment, TableFacts
from leasehold.errors import Unreachable
from leasehold.ids import BucketNumber, ClusterId, NodeId
from leasehold.wire import flight
from leasehold.wire.flight import expect
from leasehold.wire.tls import Tls
from tests.unit.client.fenced_words import (
    SEGMENTS,
    append,
    filled_pair,
    first_of,
    leaping,
    never,
    numbers,
    places_in,
    read,
    read_one,
    stopped,
    unhurried,
    unhurried_process,
)
from tests.unit.client.pace import paced
from tests.unit.client.test_deadlines import Answering
from tests.unit.node.cluster import CLUSTER, Cluster, cluster, no_lease, rows


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    with filled_pair(tmp_path) as made:
        yield made


def test_all_fenced_is_told_in_the_end_with_each_name_since_when_and_what_to_type(pair: Cluster) -> None:
    pair.node(1).fence()
    no_lease(pair.node(2))
    now_ns, sleep = leaping()
    with pytest.raises(Unreachable) as caught:
        read(pair.plan(), runtime=paced(sleep, now_ns)).read_all()
    assert caught.value.code == "NO_REPLICA"
    text = caught.value.text
    assert "node 1 (n1) has been fenced for " in text
    assert " ms: it can't prove" in text
    assert "node 2 (n2) has surrendered its lease" in text
    assert "node 1: node 1" not in text
    assert "`leasehold status`" in caught.value.hint
    assert "coordinator" in caught.value.hint


def test_a_coordinator_that_could_not_be_asked_is_told_too(pair: Cluster) -> None:
    pair.node(1).fence()
    pair.stop(pair.node(2))
    now_ns, sleep = leaping()

    def refresh() -> TableFacts:
        raise Unreachable("127.0.0.1:7000: no answer within 2 s")

    with pytest.raises(Unreachable) as caught:
        read(pair.plan(), runtime=paced(sleep, now_ns), refresh=refresh).read_all()
    assert "node 1 (n1) has been fenced for " in caught.value.text
    assert "node 2 (n2): 127.0.0.1:" in caught.value.text
    assert caught.value.text.endswith("was asked for other replicas: 127.0.0.1:7000: no answer within 2 s")
    assert "start a node" in caught.value.hint


# ---------------------------------------------------------------- one client


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that clients read from and write to, each time that they do; nodes that forward don't count."""
    addresses: list[str] = []
    for name in ("reader_to", "writer_to"):
        connect = getattr(flight, name)
        monkeypatch.setattr(
            replicas,
            name,
            lambda address, tls, name, connect=connect: addresses.append(address) or connect(address, tls, name),
        )
    return addresses


def once(table: Table, use: str) -> None:
    """Reads the table, or appends to it."""
    if use == "scan":
        assert len(numbers(table.scan())) >= 2000 * SEGMENTS
    else:
        assert table.append(rows(90_000, 10)) == 10


@pytest.mark.parametrize("second", ["scan", "append"])
@pytest.mark.parametrize("first", ["scan", "append"])
def test_a_node_that_one_request_of_a_client_met_fenced_is_left_alone_by_the_next(
    pair: Cluster, asked: list[str], first: str, second: str
) -> None:
    writes_first, _ = pair.catalog.buckets[pair.table.id, BucketNumber(0)].replicas
    node = pair.node(writes_first if first == "append" else first_of(pair))
    address = pair.catalog.nodes[node.id].address
    node.fence()
    with Answering(pair) as client:
        client.known = unhurried()
        client.known.now_ns = stopped  # so no rest ends
        table = client.table("db.t")
        once(table, first)
        assert address in asked
        asked.clear()
        once(table, second)
        assert asked
        assert address not in asked


# ---------------------------------------------------------------- writers


@pytest.mark.parametrize("number", [1, 2])
def test_an_append_leaves_a_fenced_replica_at_once_and_does_not_ask_it_for_every_segment(
    pair: Cluster, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    asked: list[str] = []

    def writer_to(address: str, tls: Tls | None, name: str) -> FlightClient:
        asked.append(address)
        return flight.writer_to(address, tls, name)

    monkeypatch.setattr(replicas, "writer_to", writer_to)
    pair.node(number).fence()
    batches = [rows(100_000 + start, 100) for start in range(0, 2000, 100)]
    staged = append(pair, *batches, buffer_bytes=3_000, runtime=paced(never, stopped))  # so it rests all the while
    assert len(staged) > 5
    assert {holder.node for one in staged for holder in one.holders} == {3 - number}
    assert asked.count(pair.catalog.nodes[NodeId(number)].address) <= 1
    found = [value for value in numbers(read(pair.plan(), runtime=paced(never))) if value >= 100_000]
    assert found == list(range(100_000, 102_000))


def test_an_append_whose_replica_is_fenced_in_the_middle_goes_to_the_other(pair: Cluster) -> None:
    """The first rows are there already, the lease ends before the segment is finished."""
    first, _ = pair.catalog.buckets[pair.table.id, BucketNumber(0)].replicas
    pair.node(first).fence_at_reading(2)
    (staged,) = append(pair, rows(50_000, 3000), runtime=paced(never))
    assert [holder.node for holder in staged.holders] == [3 - first]
    pair.node(first).fence_after = None
    assert [value for value in numbers(read(pair.plan())) if value >= 50_000] == list(range(50_000, 53_000))


def test_a_writer_finds_the_replica_that_it_did_not_know(tmp_path: Path) -> None:
    with cluster(tmp_path, nodes=3) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"), replication=3)
        facts = made.facts()
        known = msgspec.structs.replace(
            facts, places=tuple(one for one in facts.places if one.node != facts.buckets[0].replicas[2])
        )
        for node in facts.buckets[0].replicas[:2]:
            made.node(node).fence()
        pauses: list[int] = []
        transaction, runtime = made.open(), paced(pauses.append)
        (staged,) = stage(
            known,
            transaction,
            [rows(0, 10)],
            made.catalog.revision,
            runtime=runtime,
            refresh=made.facts,
            known=unhurried(runtime),
        )
        assert [one.node for one in staged.holders] == [facts.buckets[0].replicas[2]]
        assert len(pauses) == 1


def test_a_writer_tells_in_the_end_each_name_since_when_and_what_to_type(pair: Cluster) -> None:
    pair.node(1).fence()
    pair.node(2).fence()
    now_ns, sleep = leaping()
    with pytest.raises(Unreachable) as caught:
        append(pair, rows(0, 10), runtime=paced(sleep, now_ns))
    assert caught.value.code == "NO_REPLICA"
    for node in ("node 1 (n1)", "node 2 (n2)"):
        assert f"{node} has been fenced for " in caught.value.text
    assert "`leasehold status`" in caught.value.hint


def test_a_reader_that_has_heard_of_a_newer_revision_takes_nothing_older(pair: Cluster) -> None:
    """It looked again and saw revision R; a replica still behind R waits for it, and in the end says so."""
    plan, (first, _) = pair.plan(), reading_order(pair.plan().segments[0])
    for node in pair.nodes:
        node.fence()
    pair.change([], shown=False)
    turns: list[int] = []

    def sleep(_duration_ns: int) -> None:
        turns.append(1)
        for node in pair.nodes:
            node.grant()
        pair.node(3 - first).published.publish(pair.catalog)
        # The other one is behind: it is fenced while it is waited for.
        behind = pair.node(first).published
        behind.lease = msgspec.structs.replace(behind.lease, deadline_ns=0)

    places = places_in(plan.facts, pair.facts)
    assert len(numbers(read_one(plan, plan.segments[0], places=places, runtime=paced(sleep)))) == 2000
    assert places.revision == pair.catalog.revision
    assert len(turns) == 1


# ---------------------------------------------------------------- Spark's side


def test_the_tasks_of_one_process_of_spark_share_what_they_know_of_a_cluster(pair: Cluster, asked: list[str]) -> None:
    from leasehold.spark.entry import ClusterEntry
    from leasehold.spark.reader import Asked, InputPartition, LeaseholdReader
    from leasehold.spark.sink import LeaseholdSink
    from leasehold.spark.types import spark_schema

    plan = pair.plan()
    node = pair.node(reading_order(plan.segments[0])[0])
    unhurried_process().now_ns = stopped  # so no rest ends
    node.fence()
    reader = LeaseholdReader(
        entry=ClusterEntry(address="127.0.0.1:1", tls="", token=None),
        asked=Asked(table="db.t"),
        schema=spark_schema(plan.facts.fields),
    )
    assert len(numbers(reader.read(InputPartition(encode(plan))))) == 2000 * SEGMENTS
    address = pair.catalog.nodes[node.id].address
    assert address in asked
    asked.clear()
    assert len(numbers(reader.read(InputPartition(encode(plan))))) == 2000 * SEGMENTS
    sink = LeaseholdSink(
        entry=ClusterEntry(address="127.0.0.1:1", tls="", token=None),
        facts=encode(pair.facts()),
        transaction=pair.open(),
        revision=pair.catalog.revision,
    )
    assert len(sink.write(iter([rows(70_000, 500)])).segments) == 1
    assert asked
    assert address not in asked
    assert of_process(CLUSTER) is not of_process(ClusterId("d" * 32))


def test_the_source_and_the_sink_of_spark_go_on_elsewhere_too(pair: Cluster) -> None:
    """As Spark's workers call them, each in a process that may not even reach the coordinator."""
    from leasehold.spark.entry import ClusterEntry
    from leasehold.spark.reader import Asked, InputPartition, LeaseholdReader
    from leasehold.spark.sink import LeaseholdSink
    from leasehold.spark.types import spark_schema

    node = pair.node(1)
    transaction = pair.open()
    sink = LeaseholdSink(
        entry=ClusterEntry(address="127.0.0.1:1", tls="", token=None),
        facts=encode(pair.facts()),
        transaction=transaction,
        revision=pair.catalog.revision,
    )
    unhurried_process()
    node.fence_at_reading(2)
    staged = sink.write(iter([rows(70_000, 500)]))
    node.fence_after = None
    (segment,) = [expect(StagedSegment, one) for one in staged.segments]
    assert [one.node for one in segment.holders] == [2]
    pair.commit(transaction, (segment,))
    of_process.cache_clear()  # another process reads: the node does not rest there
    unhurried_process()
    plan = pair.plan()
    reader = LeaseholdReader(
        entry=ClusterEntry(address="127.0.0.1:1", tls="", token=None),
        asked=Asked(table="db.t"),
        schema=spark_schema(plan.facts.fields),
    )
    node.fence_at_reading(3)
    before = node.readings
    found = numbers(reader.read(InputPartition(encode(plan))))
    assert found == [*range(2000 * SEGMENTS), *range(70_000, 70_500)]
    assert node.readings - before <= 4, "fenced at its second batch, it is asked by no other segment"
