"""Readers and writers that meet fenced nodes, over real sockets: elsewhere at once, and every row once."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow.flight import FlightClient

from leasehold.client import replicas
from leasehold.client.append import stage
from leasehold.client.cluster import Table
from leasehold.client.known import of_process
from leasehold.client.scan import read_plan, read_segment
from leasehold.client.threads import THREADS, Refresh, places_of
from leasehold.core.data.hedging import HedgeLimits
from leasehold.core.data.known import Known
from leasehold.core.data.places import Places
from leasehold.core.data.reader import reading_order
from leasehold.core.data.runtime import Runtime
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import ScanPlan, StagedSegment, TableFacts
from leasehold.core.words.records import SegmentRecord
from leasehold.errors import Fenced, Unreachable
from leasehold.ids import BucketNumber, ClusterId, NodeId
from leasehold.limits.clients import PLACE_REST_MIN_NS
from leasehold.wire import flight
from leasehold.wire.flight import expect
from tests.unit.client.pace import paced
from tests.unit.client.test_deadlines import Answering
from tests.unit.node.cluster import CLUSTER, Cluster, cluster, no_lease, rows

SEGMENTS = 6


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    """Rows 0 to 11,999 in six segments, each on both nodes, served in batches of 1,000."""
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        for number in range(SEGMENTS):
            append(made, rows(2000 * number, 2000))
        for node in made.nodes:
            node.readings = 0
        yield made


def append(made: Cluster, *batches: pa.RecordBatch, **how: Any) -> tuple[StagedSegment, ...]:
    transaction = made.open()
    known = unhurried(how.get("runtime", THREADS))
    staged = stage(made.facts(), transaction, batches, made.catalog.revision, known=known, **how)
    made.commit(transaction, staged)
    return staged


def unhurried(runtime: Runtime = THREADS) -> Known:
    """What a client knows that never hedges: fences alone decide whom it asks, however slow this machine is."""
    return Known(runtime, HedgeLimits(burst=0))


def unhurried_process() -> Known:
    """What the tasks of this process share, for tasks that never hedge."""
    known, other = of_process(CLUSTER), unhurried()
    known.reads, known.writes = other.reads, other.writes
    return known


def places_in(facts: TableFacts, refresh: Refresh | None = None, *, runtime: Runtime = THREADS) -> Places:
    return places_of(facts, refresh, known=unhurried(runtime), runtime=runtime)


def read(plan: ScanPlan, *, runtime: Runtime = THREADS, **how: Any) -> pa.RecordBatchReader:
    return read_plan(plan, runtime=runtime, known=unhurried(runtime), **how)


def read_one(
    plan: ScanPlan, segment: SegmentRecord, *, runtime: Runtime = THREADS, places: Places | None = None, **how: Any
) -> Iterator[pa.RecordBatch]:
    places = places or places_in(plan.facts, runtime=runtime)
    return read_segment(plan, segment, runtime=runtime, places=places, **how)


def never(_duration_ns: int) -> None:
    raise AssertionError("nobody needs to wait")


def stopped() -> int:
    """A clock that stands still."""
    return 0


def leaping() -> tuple[Callable[[], int], Callable[[int], None]]:
    """A clock that leaps at every pause, so that giving up takes no time."""
    clock = [0]

    def sleep(duration_ns: int) -> None:
        clock[0] += duration_ns * 100

    return lambda: clock[0], sleep


def numbers(batches: Iterator[pa.RecordBatch] | pa.RecordBatchReader) -> list[int]:
    return sorted(value for batch in batches for value in batch["k"].to_pylist())


def first_of(made: Cluster) -> int:
    """The node that a reader of the first segment asks first."""
    return reading_order(made.plan().segments[0])[0]


# ---------------------------------------------------------------- readers


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("streams", [1, 4])
def test_a_fenced_replica_is_left_at_once_and_asked_by_no_other_segment(
    pair: Cluster, number: int, streams: int
) -> None:
    node = pair.node(number)
    node.fence()
    assert numbers(read(pair.plan(), streams=streams, runtime=paced(never))) == list(range(2000 * SEGMENTS))
    # Each refusal looks twice at the clock: once for the guard, once to say since when.
    assert node.readings <= 2 * streams, "every stream may meet it once, before the first one's news"


@pytest.mark.parametrize("how", ["expired", "surrendered"])
def test_a_scan_whose_node_is_fenced_in_the_middle_goes_on_elsewhere(pair: Cluster, how: str) -> None:
    node, plan = pair.node(first_of(pair)), pair.plan()
    segment = plan.segments[0]
    whole = [value for batch in read_one(plan, segment, runtime=paced(never)) for value in batch["k"].to_pylist()]
    # One look at the clock admits the scan, then one for each batch: the second batch meets the fence.
    if how == "surrendered":
        node.at_reading(3, lambda: no_lease(node))
    else:
        node.fence_at_reading(3)
    other = pair.node(3 - node.id)
    before = other.readings
    found = [batch["k"].to_pylist() for batch in read_one(plan, segment, runtime=paced(never))]
    assert [value for one in found for value in one] == whole
    assert [len(one) for one in found] == [1000, 1000]
    assert other.readings == before + 2, "it admitted the rest of the scan, and released one batch"


def test_a_node_that_serves_again_is_asked_again(pair: Cluster) -> None:
    now = [0]
    places = places_in(pair.facts(), runtime=paced(never, lambda: now[0]))
    node, plan = pair.node(first_of(pair)), pair.plan()
    node.fence()
    list(read_one(plan, plan.segments[0], places=places, runtime=paced(never)))
    node.grant()
    met = node.readings
    list(read_one(plan, plan.segments[0], places=places, runtime=paced(never)))
    assert node.readings == met, "it rests"
    now[0] += PLACE_REST_MIN_NS
    list(read_one(plan, plan.segments[0], places=places, runtime=paced(never)))
    assert node.readings > met


def test_when_all_rest_they_are_asked_all_the_same(pair: Cluster) -> None:
    """A rest only says who comes last: a fence that has just ended costs nobody a second."""
    places = places_in(pair.facts())
    for node in pair.nodes:
        places.failed(node.id, Fenced("fenced"))
    plan = pair.plan()
    assert numbers(read_one(plan, plan.segments[0], places=places, runtime=paced(never)))


def test_where_all_are_fenced_a_reader_asks_where_else(tmp_path: Path) -> None:
    """The replica that the plan did not know yet: the coordinator names it, and it serves."""
    with cluster(tmp_path, nodes=3) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"), replication=3)
        append(made, rows(0, 2500))
        plan = made.plan()
        known = plan.facts.places[:2]
        holders = plan.segments[0].holders[:2]
        old = msgspec.structs.replace(
            plan,
            facts=msgspec.structs.replace(plan.facts, places=known),
            segments=(msgspec.structs.replace(plan.segments[0], holders=holders),),
        )
        for node in (1, 2):
            made.node(node).fence()
        pauses: list[int] = []
        found = read(old, runtime=paced(pauses.append), refresh=made.facts)
        assert numbers(found) == list(range(2500))
        assert len(pauses) == 1


def test_rounds_over_fenced_replicas_do_not_lengthen_the_timeout_of_a_silent_one(
    pair: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many rounds end with FENCED; then one replica hangs: it costs one short timeout, not the longest one."""
    timeouts: list[int] = []
    monkeypatch.setattr(
        replicas, "within", lambda duration_ns, _: timeouts.append(duration_ns) or flight.within(duration_ns)
    )
    released = threading.Event()
    first, other = pair.node(first_of(pair)), pair.node(3 - first_of(pair))
    for node in (first, other):
        node.fence()
    rounds: list[int] = []

    def sleep(_duration_ns: int) -> None:
        rounds.append(1)
        if len(rounds) == 20:
            for node in (first, other):
                node.grant()
            first.at_reading(1, lambda: released.wait(20))

    plan = pair.plan()
    try:
        found = read_one(plan, plan.segments[0], runtime=paced(sleep), batch_timeout_ns=300_000_000)
        assert len(numbers(found)) == 2000
    finally:
        released.set()
    assert len(rounds) == 20
    assert len(timeouts) > 40
    assert set(timeouts) == {300_000_000}


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
    assert "node 2 (n2) has given its lease back" in text
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
    assert caught.value.text.endswith("asked for other places: 127.0.0.1:7000: no answer within 2 s")
    assert "start one" in caught.value.hint


# ---------------------------------------------------------------- one client


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that clients read from and write to, each time that they do; nodes that forward don't count."""
    addresses: list[str] = []
    for name in ("reader_to", "writer_to"):
        connect = getattr(flight, name)
        monkeypatch.setattr(
            replicas, name, lambda address, connect=connect: addresses.append(address) or connect(address)
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

    def writer_to(address: str) -> FlightClient:
        asked.append(address)
        return flight.writer_to(address)

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
    from leasehold.spark.sink import LeaseholdSink
    from leasehold.spark.source import InputPartition, LeaseholdReader, spark_schema

    node, plan = pair.node(1), pair.plan()
    unhurried_process().now_ns = stopped  # so no rest ends
    node.fence()
    reader = LeaseholdReader(
        address="127.0.0.1:1", token=None, table="db.t", through=(), schema=spark_schema(plan.facts.fields)
    )
    assert len(numbers(reader.read(InputPartition(encode(plan))))) == 2000 * SEGMENTS
    address = pair.catalog.nodes[node.id].address
    assert address in asked
    asked.clear()
    assert len(numbers(reader.read(InputPartition(encode(plan))))) == 2000 * SEGMENTS
    sink = LeaseholdSink(
        address="127.0.0.1:1",
        token=None,
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
    from leasehold.spark.sink import LeaseholdSink
    from leasehold.spark.source import InputPartition, LeaseholdReader, spark_schema

    node = pair.node(1)
    transaction = pair.open()
    sink = LeaseholdSink(
        address="127.0.0.1:1",
        token=None,
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
        address="127.0.0.1:1", token=None, table="db.t", through=(), schema=spark_schema(plan.facts.fields)
    )
    node.fence_at_reading(3)
    before = node.readings
    found = numbers(reader.read(InputPartition(encode(plan))))
    assert found == [*range(2000 * SEGMENTS), *range(70_000, 70_500)]
    assert node.readings - before <= 4, "fenced at its second batch, it is asked by no other segment"
