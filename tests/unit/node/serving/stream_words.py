"""Streams of rows to a node, one step at a time: what tests of writes open and send, and the files that come of it."""

import msgspec
import pyarrow as pa
from pyarrow import flight

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import BytesEnd, ForwardAdmitted, ForwardTicket, RowsEnd, WriteTicket
from leasehold.ids import BucketNumber, Incarnation, NodeId, SegmentId
from leasehold.wire.clock import sleep_ns
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.flight import calling, descriptor, send
from tests.unit.node.cluster import CLUSTER, Cluster, rows

ROWS_SCHEMA = rows(0, 1).schema


def write_ticket(made: Cluster) -> WriteTicket:
    transaction = made.open()
    return WriteTicket(
        cluster_id=CLUSTER,
        transaction=transaction,
        segment=SegmentId(f"{transaction}-{SystemEntropy().hex_128()}"),
        table=made.table.id,
        bucket=BucketNumber(0),
        schema_version=made.table.schema_version,
        revision=made.catalog.revision,
    )


def forward_ticket(made: Cluster, **other: object) -> ForwardTicket:
    ticket = ForwardTicket(
        cluster_id=CLUSTER,
        segment=SegmentId(f"{made.open()}-{SystemEntropy().hex_128()}"),
        table=made.table.id,
        bucket=BucketNumber(0),
        revision=made.catalog.revision,
        sender=NodeId(1),
        sender_incarnation=Incarnation(1),
        session=made.node(1).published.session,
    )
    return msgspec.structs.replace(ticket, **other)


class Stream:
    """A DoPut to a node, one step at a time."""

    def __init__(self, made: Cluster, node: int, ticket: WriteTicket | ForwardTicket, schema: pa.Schema) -> None:
        server = made.node(node).flight
        assert server is not None
        self._client = flight.FlightClient(f"grpc://{server.address}")
        self._writer, self._answers = self._client.do_put(descriptor(ticket), schema)

    def send(self, *batches: pa.RecordBatch) -> "Stream":
        """A node that has declined may say so here already."""
        with calling("node"):
            for batch in batches:
                send(self._writer, batch)
        return self

    def end(self, mark: RowsEnd | BytesEnd | bytes | None) -> bytes | None:
        """The answer; raises the node's error."""
        with calling("node"):
            try:
                if mark is not None:
                    self._writer.write_metadata(mark if isinstance(mark, bytes) else encode(mark))
                self._writer.done_writing()
                answer = self._answers.read()
                if answer is not None and answer.to_pybytes() == encode(ForwardAdmitted()):
                    answer = self._answers.read()
                return None if answer is None else answer.to_pybytes()
            finally:
                self._writer.close()

    def vanish(self) -> None:
        """As when the process dies."""
        del self._writer, self._answers, self._client


def files_of(made: Cluster, node: int) -> list[str]:
    """Every file of a node's disk that is or will be a segment."""
    root = made.node(node).root
    return [path.name for folder in ("segments", "staging") for path in (root / folder).rglob("*") if path.is_file()]


def until_staged(made: Cluster) -> None:
    """Waits until no file is on its way to a disk: a write leaves a replica out that is slow, and it goes on."""
    while any(list((node.root / "staging").rglob("*.parquet")) for node in made.nodes):
        sleep_ns(1_000_000)


def until_gone(made: Cluster) -> None:
    """Waits for the handlers that are under way to end, which `stop` does."""
    for node in made.nodes:
        made.stop(node)
