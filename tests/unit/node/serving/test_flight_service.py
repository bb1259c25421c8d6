"""A node's server at its border: what it refuses, what it tells, and what it never tells."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put as put_record
from leasehold.core.data.requests import fenced
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import ForwardTicket, Message, PlanScan, ReadTicket
from leasehold.errors import BadSettings, Fenced, Indefinite, LeaseholdError, Refused
from leasehold.ids import (
    BucketNumber,
    ClusterId,
    Incarnation,
    NodeId,
    ObjectId,
    SegmentId,
    TransactionId,
)
from leasehold.limits.flight import FLIGHT_FAILURE_BYTES_MAX, TICKET_BYTES_MAX
from leasehold.limits.statements import REPLICATION_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.published import Published
from leasehold.node.serving.flight_service import NodeFlight
from leasehold.storage.files import SegmentFiles
from leasehold.storage.servelog import ServeLog
from leasehold.testing.filled import CatalogManifest
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.flight import BYTES_SCHEMA, HEALTH, LOCAL, descriptor, from_flight, ticket
from tests.unit.client.flight_errors import as_flight
from tests.unit.node.cluster import CLUSTER, Cluster, cluster, no_lease
from tests.unit.node.serving.ticket_words import SEGMENT, read, write


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path, nodes=1) as made:
        made.create(("k", "BIGINT"), replication=1)
        yield made


def client(made: Cluster) -> flight.FlightClient:
    server = made.node(1).flight
    assert server is not None
    return flight.FlightClient(f"grpc://{server.address}")


def refusal(call: Callable[[], object]) -> LeaseholdError:
    """What a call ends with; no word of a traceback may be in any part of it."""
    with pytest.raises((flight.FlightError, pa.ArrowException, OSError)) as caught:
        call()
    told = str(caught.value) + str(getattr(caught.value, "extra_info", b""))
    assert "Traceback" not in told
    assert ".py" not in told
    return from_flight(caught.value, "there")


def get(made: Cluster, ticket: flight.Ticket) -> LeaseholdError:
    return refusal(lambda: client(made).do_get(ticket).read_all())


def put(made: Cluster, command: flight.FlightDescriptor) -> LeaseholdError:
    def call() -> None:
        writer, answers = client(made).do_put(command, pa.schema([("k", pa.int64())]))
        writer.done_writing()
        answers.read()
        writer.close()

    return refusal(call)


@pytest.mark.parametrize(
    "blob", [b"", b"\xff\x00garbage", encode(PlanScan(cluster_id=None, name="db.t", columns=None))]
)
def test_what_is_no_ticket_is_refused(one: Cluster, blob: bytes) -> None:
    assert get(one, flight.Ticket(blob)).code in {"BAD_MESSAGE", "BAD_TICKET"}
    assert put(one, flight.FlightDescriptor.for_command(blob)).code in {"BAD_MESSAGE", "BAD_TICKET"}


def test_a_path_is_no_ticket(one: Cluster) -> None:
    assert put(one, flight.FlightDescriptor.for_path("db", "t")).code == "BAD_MESSAGE"


def test_an_oversized_ticket_is_refused_on_both_sides(one: Cluster) -> None:
    blob = b"\x00" * (TICKET_BYTES_MAX + 1)
    assert get(one, flight.Ticket(blob)).code == "BAD_TICKET"
    assert put(one, flight.FlightDescriptor.for_command(blob)).code == "BAD_TICKET"
    with pytest.raises(Refused, match="over"):
        ticket(read(one, request="r" * TICKET_BYTES_MAX))


@pytest.mark.parametrize("make", [read, write])
def test_a_ticket_of_another_cluster_is_refused(one: Cluster, make: Callable[..., Message]) -> None:
    message = make(one, cluster_id=ClusterId("d" * 32))
    refused = get(one, ticket(message)) if make is read else put(one, descriptor(message))
    assert refused.code == "OTHER_CLUSTER"
    assert CLUSTER in refused.text


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"row_offset": -1}, "BAD_TICKET"),
        ({"segment": "../../etc/passwd"}, "SEGMENT_UNKNOWN"),
        ({"bucket": -1}, "SEGMENT_UNKNOWN"),
        ({}, "SEGMENT_UNKNOWN"),
        ({"table": ObjectId(99)}, "TABLE_DROPPED"),
    ],
)
def test_a_read_ticket_that_can_not_be_served_says_why(one: Cluster, other: dict[str, object], code: str) -> None:
    assert get(one, ticket(read(one, **other))).code == code


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({}, "TRANSACTION_UNKNOWN"),
        ({"segment": "../../etc/passwd"}, "BAD_SEGMENT"),
        ({"transaction": "c" * 32}, "BAD_SEGMENT"),
        ({"schema_version": 2}, "SCHEMA_CHANGED"),
        ({"schema_version": 0}, "SCHEMA_CHANGED"),
        ({"table": ObjectId(99)}, "TABLE_DROPPED"),
    ],
)
def test_a_write_ticket_that_can_not_be_served_says_why(one: Cluster, other: dict[str, object], code: str) -> None:
    assert put(one, descriptor(write(one, **other))).code == code


def test_a_bucket_of_other_nodes_is_refused(tmp_path: Path) -> None:
    with cluster(tmp_path, nodes=2) as made:
        made.create(("k", "BIGINT"), buckets=2, replication=1)
        transaction = made.open()
        foreign = next(one for one in (0, 1) if made.catalog.buckets[made.table.id, BucketNumber(one)].replicas != (1,))
        segment = SegmentId(f"{transaction}-{'0' * 32}")
        request = write(made, transaction=transaction, segment=segment, bucket=BucketNumber(foreign))
        assert put(made, descriptor(request)).code == "NOT_ASSIGNED"


def test_a_node_behind_waits_and_then_says_so(one: Cluster) -> None:
    one.limit(schema_wait_ns=50_000_000)
    request = read(one, revision=one.catalog.revision + 1)
    assert get(one, ticket(request)).code == "BEHIND"


def test_a_node_that_has_joined_nothing_serves_nobody(tmp_path: Path) -> None:
    published, files = Published(), SegmentFiles(tmp_path)
    files.open()
    server = NodeFlight(
        published=published,
        files=files,
        manifest=CatalogManifest(Catalog),
        serve_log=ServeLog(tmp_path / "log"),
        now_ns=BoottimeClock().now_ns,
    )
    try:
        reader = flight.FlightClient(f"grpc://{server.address}")
        request = ReadTicket(
            cluster_id=CLUSTER,
            request="r",
            table=ObjectId(1),
            bucket=BucketNumber(0),
            segment=SEGMENT,
            sha256=b"",
            row_offset=0,
            fields=(),
            revision=0,
        )
        assert refusal(lambda: reader.do_get(ticket(request)).read_all()).code == "NOT_JOINED"
    finally:
        server.shutdown()


# ---------------------------------------------------------------- fences


def test_a_fenced_node_says_who_it_is_and_since_when(one: Cluster) -> None:
    one.node(1).fence()
    for refused in (get(one, ticket(read(one))), put(one, descriptor(write(one)))):
        assert isinstance(refused, Fenced)
        told = re.match(r"node 1 \(n1\) has been fenced for (\d+) ms: ", refused.text)
        assert told is not None, refused.text
        assert 1_234 <= int(told[1]) < 30_000, "for so long before the request, and while a slow machine answers it"
        assert "SHOW NODES" in refused.hint
        assert "As last known" not in refused.hint


def test_a_node_without_a_lease_says_whether_it_ever_had_one(one: Cluster) -> None:
    no_lease(one.node(1))
    assert get(one, ticket(read(one))).text == "node 1 (n1) has surrendered its lease: it stops"
    one.node(1).published.had_lease = False
    for refused in (get(one, ticket(read(one))), put(one, descriptor(write(one)))):
        assert refused.text.startswith("node 1 (n1) has had no lease since it started")


def test_a_fenced_node_says_where_to_go_instead(tmp_path: Path) -> None:
    with cluster(tmp_path, nodes=4) as made:
        made.create(("k", "BIGINT"), replication=3)
        replicas = made.catalog.buckets[made.table.id, BucketNumber(0)].replicas
        asked, *others = replicas
        made.node(asked).fence()
        server = made.node(asked).flight
        assert server is not None
        there = flight.FlightClient(f"grpc://{server.address}")
        refused = refusal(lambda: there.do_get(ticket(read(made))).read_all())
        assert refused.code == "FENCED"
        for node in others:
            record = made.catalog.nodes[NodeId(node)]
            assert f"node {node} ({record.name}) at {record.address}" in refused.hint
        assert refused.hint.count(" at 127") == 2, "nobody else"
        forward = ForwardTicket(
            cluster_id=CLUSTER,
            segment=SEGMENT,
            table=made.table.id,
            bucket=BucketNumber(0),
            revision=made.catalog.revision,
            sender=NodeId(others[0]),
            sender_incarnation=Incarnation(1),
        )

        def store() -> None:
            writer, answers = there.do_put(descriptor(forward), BYTES_SCHEMA)
            writer.done_writing()
            answers.read()
            writer.close()

        assert refusal(store).hint == refused.hint


def test_what_a_fenced_node_says_is_bounded(tmp_path: Path) -> None:
    """As many replicas as a bucket can have, with the longest names and addresses of any length: nothing is cut off."""
    with cluster(tmp_path, nodes=REPLICATION_MAX) as made:
        made.create(("k", "BIGINT"), replication=REPLICATION_MAX)
        for node in made.nodes:
            record = made.catalog.nodes[node.id]
            long = msgspec.structs.replace(record, name=f"n{node.id}" + "x" * 61, address="h" * 500 + ":1")
            made.change([put_record(keys.node(record.id), long)])
        published = made.node(1).published
        error = fenced(published, 2**63, (made.table.id, BucketNumber(0)))
        assert max(len(error.text.encode()), len(error.hint.encode())) < FLIGHT_FAILURE_BYTES_MAX
        assert all(f"node {node} (n{node}x" in error.hint for node in range(2, REPLICATION_MAX + 1))


def test_a_fenced_node_lets_nobody_wait_for_a_revision(one: Cluster) -> None:
    one.limit(schema_wait_ns=600 * SECOND_NS)  # nobody who waits for it sees the end of this
    request = ticket(read(one, revision=one.catalog.revision + 1))
    one.node(1).fence()
    assert get(one, request).code == "FENCED"
    published = one.node(1).published
    published.lease = msgspec.structs.replace(published.lease, deadline_ns=BoottimeClock().now_ns() + 100_000_000)
    assert get(one, request).code == "FENCED"


def test_a_revision_that_comes_is_waited_for_across_renewals(one: Cluster) -> None:
    one.limit(schema_wait_ns=20 * SECOND_NS)
    node = one.node(1)
    ends_ns = node.stands_ns = BoottimeClock().now_ns()
    node.published.lease = msgspec.structs.replace(node.published.lease, deadline_ns=ends_ns + 1)

    def renew() -> None:
        node.grant()
        node.stands_ns = None

    waits = threading.Event()
    node.at_reading(2, renew)  # of the guard that passes with the lease that ends
    node.at_reading(3, waits.set)  # that lease has ended meanwhile
    one.change([], shown=False)
    comes = threading.Thread(target=lambda: (waits.wait(), one.show()), daemon=True)
    comes.start()
    assert get(one, ticket(read(one))).code == "SEGMENT_UNKNOWN"
    assert waits.is_set(), "the view came too early for this test"
    comes.join()


def test_health_answers_fenced_or_not(one: Cluster) -> None:
    def health() -> dict[str, object]:
        (answer,) = client(one).do_action(flight.Action(HEALTH, b""))
        return json.loads(answer.body.to_pybytes())

    active = health()
    assert (active["id"], active["name"], active["state"]) == (1, "n1", "ACTIVE")
    assert active["applied_revision"] == one.catalog.revision
    one.node(1).fence()
    assert (health()["state"], health()["lease_remaining_ns"]) == ("FENCED", 0)
    no_lease(one.node(1))
    assert health()["state"] == "RECOVERING"


# ---------------------------------------------------------------- what never gets out


def test_a_fault_of_our_own_reaches_on_fault_and_not_the_peer(one: Cluster) -> None:
    def fail() -> None:
        raise RuntimeError("a secret of the node")

    for attempt in (lambda: get(one, ticket(read(one))), lambda: put(one, descriptor(write(one)))):
        one.node(1).at_reading(1, fail)
        told = attempt()
        assert isinstance(told, Indefinite)
        assert told.code == "INTERNAL"
        assert "secret" not in told.text + told.hint
        (fault,) = one.faults
        assert isinstance(fault, RuntimeError)
        one.faults.clear()


def test_calls_that_are_not_served_say_so(one: Cluster) -> None:
    there, nothing = client(one), flight.FlightDescriptor.for_command(b"x")
    schema = pa.schema([("k", pa.int64())])

    def exchange() -> None:
        writer, reader = there.do_exchange(nothing)
        with writer:
            writer.begin(schema)
            writer.done_writing()
            reader.read_all()

    for call in (
        lambda: list(there.list_flights()),
        lambda: there.get_flight_info(nothing),
        lambda: there.get_schema(nothing),
        exchange,
    ):
        refused = refusal(call)
        # Flight's client shows the refusal of get_schema as a bare OSError.
        assert "BAD_CALL" in {refused.code, refused.text.split()[1].rstrip(".")}
    assert refusal(lambda: list(there.do_action(flight.Action("drop", b"")))).code == "BAD_ACTION"
    assert [action.type for action in there.list_actions()] == [HEALTH, LOCAL]


def test_a_long_error_is_cut_and_arrives(one: Cluster) -> None:
    long = "\N{SNOWMAN}" * 10_000
    error = from_flight(as_flight(Refused(long, code="X", hint=long)), "there")
    assert error.code == "X"
    assert 0 < len(error.text.encode()) <= FLIGHT_FAILURE_BYTES_MAX
    refused = put(one, descriptor(write(one, segment=SegmentId("x" * 100_000), transaction=TransactionId("y" * 9_999))))
    assert refused.code == "BAD_MESSAGE"


def test_a_text_of_many_lines_and_any_characters_arrives(one: Cluster) -> None:
    refused = put(one, descriptor(write(one, transaction=TransactionId("\N{SNOWMAN}\n\r\x00"))))
    assert refused.code == "BAD_SEGMENT"


# ---------------------------------------------------------------- listening


def test_a_port_in_use_is_named(one: Cluster, tmp_path: Path) -> None:
    server = one.node(1).flight
    assert server is not None
    files = SegmentFiles(tmp_path / "other")
    files.open()
    with pytest.raises(BadSettings) as caught:
        NodeFlight(
            published=Published(),
            files=files,
            manifest=CatalogManifest(Catalog),
            serve_log=ServeLog(tmp_path / "log"),
            now_ns=BoottimeClock().now_ns,
            listen=server.address,
        )
    assert caught.value.code == "PORT_IN_USE"
    assert server.address in caught.value.text


def test_only_this_machine_may_connect(tmp_path: Path) -> None:
    files = SegmentFiles(tmp_path)
    files.open()
    with pytest.raises(BadSettings):
        NodeFlight(
            published=Published(),
            files=files,
            manifest=CatalogManifest(Catalog),
            serve_log=ServeLog(tmp_path / "log"),
            now_ns=BoottimeClock().now_ns,
            listen="0.0.0.0:0",
        )
