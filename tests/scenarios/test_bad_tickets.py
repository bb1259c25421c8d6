"""Tickets that nobody of ours presents to a node: refused with a definite error, and no view, lease or file changed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import (
    BaseMessage,
    FetchTicket,
    ForwardTicket,
    Message,
    Ticket,
)
from leasehold.errors import Definite, LeaseholdError
from leasehold.ids import (
    BucketNumber,
    Incarnation,
    NodeId,
    ObjectId,
    SegmentId,
)
from leasehold.limits.flight import TICKET_BYTES_MAX
from leasehold.wire.flight import BYTES_SCHEMA, from_flight
from tests.golden.examples import example
from tests.scenarios.bad_words import GARBLED, OTHER
from tests.unit.node import cluster as data_nodes

# ---------------------------------------------------------------- Flight


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[data_nodes.Cluster]:
    with data_nodes.cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        yield made


def refusal_of(made: data_nodes.Cluster, way: str, blob: bytes) -> LeaseholdError:
    server = made.node(1).flight
    assert server is not None
    client = flight.FlightClient(f"grpc://{server.address}")
    with pytest.raises((flight.FlightError, pa.ArrowException, OSError)) as caught:
        if way == "get":
            client.do_get(flight.Ticket(blob)).read_all()
        else:
            writer, answers = client.do_put(flight.FlightDescriptor.for_command(blob), BYTES_SCHEMA)
            writer.done_writing()
            answers.read()
            writer.close()
    return from_flight(caught.value, "node")


def forward(made: data_nodes.Cluster, **other: Any) -> ForwardTicket:
    ticket = ForwardTicket(
        cluster_id=data_nodes.CLUSTER,
        segment=SegmentId(f"{made.open()}-{'b' * 32}"),
        table=made.table.id,
        bucket=BucketNumber(0),
        revision=made.catalog.revision,
        sender=NodeId(2),
        sender_incarnation=Incarnation(1),
        session=made.node(2).published.session,
    )
    return msgspec.structs.replace(ticket, **other)


def fetch(made: data_nodes.Cluster, **other: Any) -> FetchTicket:
    ticket = FetchTicket(
        cluster_id=data_nodes.CLUSTER,
        table=made.table.id,
        bucket=BucketNumber(0),
        segment=SegmentId("a" * 32 + "-" + "b" * 32),
        node=NodeId(2),
        session=made.node(2).published.session,
    )
    return msgspec.structs.replace(ticket, **other)


@pytest.mark.parametrize("way", ["get", "put"])
def test_garbled_tickets_are_refused_and_change_nothing(pair: data_nodes.Cluster, way: str) -> None:
    node = pair.node(1)
    whole = encode(fetch(pair) if way == "get" else forward(pair))
    view, lease = node.published.view, node.published.lease
    for what, blob in GARBLED.items():
        refused = refusal_of(pair, way, blob)
        assert isinstance(refused, Definite), what
        assert refused.code == "BAD_MESSAGE", what
    for length in range(0, len(whole), 3):
        assert refusal_of(pair, way, whole[:length]).code == "BAD_MESSAGE"
    assert refusal_of(pair, way, b"\x00" * (TICKET_BYTES_MAX + 1)).code == "BAD_TICKET"
    assert node.published.view is view
    assert node.published.lease is lease
    assert node.readings == 0, "none of it came as far as the guard"
    assert list(node.files.listing()) == []
    assert refusal_of(pair, "get", encode(fetch(pair))).code == "SEGMENT_MISSING", "others are answered as ever"


@pytest.mark.parametrize("kind", get_args(Message), ids=lambda kind: kind.__name__)
def test_I11_a_ticket_of_another_cluster_and_every_message_that_is_no_ticket_is_refused(
    pair: data_nodes.Cluster, kind: type[BaseMessage]
) -> None:
    message = example(kind, full=False)
    for way in ("get", "put"):
        refused = refusal_of(pair, way, encode(message))
        assert isinstance(refused, Definite)
        is_ticket = kind in get_args(Ticket)
        assert refused.code in ({"BAD_TICKET", "OTHER_CLUSTER"} if is_ticket else {"BAD_MESSAGE"})
        of_its_way = (
            kind.__name__
            in {
                "get": ("ReadTicket", "ReadTogether", "FetchTicket", "CompactTicket", "ScrubTicket"),
                "put": ("WriteTicket", "ForwardTicket"),
            }[way]
        )
        assert (refused.code == "OTHER_CLUSTER") == of_its_way
    assert pair.node(1).readings == 0


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"cluster_id": OTHER}, "OTHER_CLUSTER"),
        ({"sender_incarnation": Incarnation(0)}, "SUPERSEDED"),
        ({"sender_incarnation": Incarnation(2)}, "SUPERSEDED"),
        ({"sender": NodeId(9)}, "SUPERSEDED"),
        ({"table": ObjectId(-1)}, "TABLE_DROPPED"),
        ({"bucket": BucketNumber(2**40)}, "NOT_ASSIGNED"),
        ({"segment": SegmentId("\x00/../..")}, "BAD_SEGMENT"),
    ],
)
def test_a_forward_of_another_cluster_incarnation_or_place_stores_nothing(
    pair: data_nodes.Cluster, other: dict[str, Any], code: str
) -> None:
    ticket = forward(pair)
    before = pair.node(1).published.view
    refused = refusal_of(pair, "put", encode(msgspec.structs.replace(ticket, **other)))
    assert isinstance(refused, Definite)
    assert refused.code == code
    assert pair.node(1).published.view is before
    assert list(pair.node(1).files.listing()) == []
    assert [path for path in (pair.node(1).root / "staging").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("other", "code"),
    [({"cluster_id": OTHER}, "OTHER_CLUSTER"), ({"segment": SegmentId("../x")}, "BAD_SEGMENT_NAME")],
)
def test_a_fetch_of_another_cluster_or_of_no_segment_gives_nothing(
    pair: data_nodes.Cluster, other: dict[str, Any], code: str
) -> None:
    refused = refusal_of(pair, "get", encode(fetch(pair, **other)))
    assert isinstance(refused, Definite)
    assert refused.code == code
