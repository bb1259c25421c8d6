"""Copies of segments between nodes: right or not at all."""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from leasehold.client.append import stage
from leasehold.core.data.write_access import Peer
from leasehold.core.words.messages import FetchTicket
from leasehold.core.words.records import SegmentRecord
from leasehold.errors import LeaseholdError, Refused
from leasehold.ids import ClusterId, NodeId
from leasehold.limits.segments import SEGMENT_BYTES_MAX
from leasehold.node.disk.disk_port import fetch_segment
from leasehold.wire.flight import BYTES_SCHEMA, calling, ticket
from tests.unit.node.cluster import CLUSTER, Cluster, Node, cluster, rows


@pytest.fixture
def three(tmp_path: Path) -> Iterator[tuple[Cluster, SegmentRecord, Node]]:
    """A segment on two nodes, and the third, which lacks it."""
    with cluster(tmp_path, nodes=3) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        transaction = made.open()
        noise = pa.array([os.urandom(16).hex() for _ in range(100_000)])
        batch = rows(0, 100_000).set_column(1, "v", noise)
        made.commit(transaction, stage(made.facts(), transaction, [batch], made.catalog.revision))
        (record,) = made.plan().segments
        lacks = next(node for node in made.nodes if node.id not in record.holders)
        yield made, record, lacks


def places(made: Cluster, record: SegmentRecord) -> list[Peer]:
    return [Peer(node, made.catalog.nodes[node].address, "") for node in record.holders]


def path_on(node: Node, record: SegmentRecord) -> Path:
    return node.files.path(record.table, record.bucket, record.id)


def staged_on(node: Node) -> list[Path]:
    return list((node.root / "staging").iterdir())


def test_a_copy_is_the_same_file(three: tuple[Cluster, SegmentRecord, Node]) -> None:
    made, record, lacks = three
    assert record.size_bytes > 1024 * 1024, "more than one chunk"
    assert fetch_segment(lacks.files, record, places(made, record), CLUSTER, lacks.published)
    assert path_on(lacks, record).read_bytes() == path_on(made.node(record.holders[0]), record).read_bytes()
    assert fetch_segment(lacks.files, record, [], CLUSTER, lacks.published), "it is there already"


def test_a_fenced_node_gives_copies(three: tuple[Cluster, SegmentRecord, Node]) -> None:
    made, record, lacks = three
    for node in made.nodes:
        node.fence()
    assert fetch_segment(lacks.files, record, places(made, record), CLUSTER, lacks.published)


def test_a_wrong_copy_is_thrown_away_and_the_next_place_asked(three: tuple[Cluster, SegmentRecord, Node]) -> None:
    made, record, lacks = three
    path = path_on(made.node(record.holders[0]), record)
    sound = path.read_bytes()
    for wrong in (sound[:-1] + b"X", sound[:-1], sound + b"X", b""):
        path.write_bytes(wrong)
        assert not fetch_segment(lacks.files, record, places(made, record)[:1], CLUSTER, lacks.published)
        assert not path_on(lacks, record).exists()
        assert staged_on(lacks) == []
    assert fetch_segment(lacks.files, record, places(made, record), CLUSTER, lacks.published)
    assert path_on(lacks, record).read_bytes() == sound


def test_places_that_are_gone_or_lack_it_are_passed_over(three: tuple[Cluster, SegmentRecord, Node]) -> None:
    made, record, lacks = three
    made.node(record.holders[0]).files.trash(record.table, record.bucket, record.id)
    gone = Peer(NodeId(9), "127.0.0.1:1", "")
    assert not fetch_segment(lacks.files, record, [gone, *places(made, record)[:1]], CLUSTER, lacks.published)
    assert fetch_segment(lacks.files, record, [gone, *places(made, record)], CLUSTER, lacks.published)


def test_another_cluster_gives_nothing(three: tuple[Cluster, SegmentRecord, Node]) -> None:
    made, record, lacks = three
    assert not fetch_segment(lacks.files, record, places(made, record), ClusterId("d" * 32), lacks.published)


def test_a_file_that_is_there_is_never_replaced(three: tuple[Cluster, SegmentRecord, Node]) -> None:
    made, record, lacks = three
    holder = made.node(record.holders[0])
    path_on(holder, record).write_bytes(b"damaged")
    assert not fetch_segment(holder.files, record, places(made, record)[1:], CLUSTER, holder.published)
    assert path_on(holder, record).read_bytes() == b"damaged"
    with lacks.files.create(record.table, record.bucket, record.id):
        assert not fetch_segment(lacks.files, record, places(made, record), CLUSTER, lacks.published), (
            "it is being written"
        )


def test_a_segment_that_is_not_there_is_refused(three: tuple[Cluster, SegmentRecord, Node]) -> None:
    _, record, lacks = three
    request = FetchTicket(
        cluster_id=CLUSTER,
        table=record.table,
        bucket=record.bucket,
        segment=record.id,
        node=lacks.id,
        session=lacks.published.session,
    )
    assert lacks.flight is not None
    reader = flight.FlightClient(f"grpc://{lacks.flight.address}")
    for asked, code in (
        (request, "SEGMENT_MISSING"),
        (msgspec.structs.replace(request, segment="x"), "BAD_SEGMENT_NAME"),
    ):
        with pytest.raises(LeaseholdError) as caught, calling("node"):
            reader.do_get(ticket(asked)).read_all()
        assert caught.value.code == code


@pytest.mark.parametrize(
    "wrong",
    [
        {"size_bytes": 0},
        {"size_bytes": -(2**40)},
        {"size_bytes": SEGMENT_BYTES_MAX + 1},
        {"rows": -1},
        {"rows": 2**63},
        {"sha256": b"short"},
    ],
)
def test_a_record_out_of_range_is_refused(
    three: tuple[Cluster, SegmentRecord, Node], wrong: dict[str, int | bytes]
) -> None:
    made, record, lacks = three
    with pytest.raises(Refused) as caught:
        fetch_segment(
            lacks.files, msgspec.structs.replace(record, **wrong), places(made, record), CLUSTER, lacks.published
        )
    assert caught.value.code == "BAD_SEGMENT_RECORD"
    assert staged_on(lacks) == []


def test_each_place_that_was_asked_is_told_of(three: tuple[Cluster, SegmentRecord, Node]) -> None:
    made, record, lacks = three
    first, second = record.holders
    path_on(made.node(first), record).write_bytes(b"damaged")
    asked: list[tuple[NodeId, str | None]] = []
    assert fetch_segment(
        lacks.files,
        record,
        [Peer(NodeId(9), "127.0.0.1:1", ""), *places(made, record)],
        CLUSTER,
        lacks.published,
        lambda node, error, _came: asked.append((node, error and error.code)),
    )
    assert asked == [(9, "UNREACHABLE"), (first, "CORRUPT"), (second, None)]


class Nothing(flight.FlightServerBase):
    """A peer that sends a chunk without bytes."""

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        return flight.GeneratorStream(BYTES_SCHEMA, [pa.record_batch([pa.array([None], pa.binary())], BYTES_SCHEMA)])


def test_a_peer_that_sends_nonsense_is_passed_over(three: tuple[Cluster, SegmentRecord, Node]) -> None:
    made, record, lacks = three
    with Nothing("grpc://127.0.0.1:0") as peer:
        nonsense = Peer(NodeId(9), f"127.0.0.1:{peer.port}", "")
        assert fetch_segment(lacks.files, record, [nonsense, *places(made, record)], CLUSTER, lacks.published)
