"""Copies of segments from other nodes over Flight, as the steps of a fetch get them (`core/data/fetches.py`)."""

from collections.abc import AsyncGenerator, Sequence
from typing import Final

import pyarrow as pa

from leasehold.core.data import fetches
from leasehold.core.data.fetches import OnAsked
from leasehold.core.data.write_access import Peer
from leasehold.core.words.messages import FetchTicket
from leasehold.core.words.records import SegmentRecord
from leasehold.errors import LeaseholdError
from leasehold.ids import ClusterId, NodeId
from leasehold.node.agent.published import Published
from leasehold.node.disk.segment_files import LocalFiles
from leasehold.storage.files import SegmentFiles
from leasehold.wire.flight import BYTES_SCHEMA, calling, copier_to, ticket, within
from leasehold.wire.steps import run


def _unheard(node: NodeId, error: LeaseholdError | None) -> None:
    """Nobody asked how the places did."""


def fetch_segment(
    files: SegmentFiles,
    record: SegmentRecord,
    places: Sequence[Peer],
    cluster_id: ClusterId,
    asking: Published,
    on_asked: OnAsked = _unheard,
) -> bool:
    """As `core.data.fetches.fetch_segment`, on this thread."""
    copying = fetches.fetch_segment(
        LocalFiles(files), _COPIES, record, places, cluster_id=cluster_id, asking=asking, on_asked=on_asked
    )
    return run(copying)


class FlightCopies:
    """Implements `core.data.fetches.GetsCopies`."""

    async def chunks(self, address: str, request: FetchTicket, timeout_ns: int) -> AsyncGenerator[memoryview]:
        """The bytes that the node there gives."""
        with calling(address):
            reader = copier_to(address).do_get(ticket(request), within(timeout_ns, request))
            try:
                if not reader.schema.equals(BYTES_SCHEMA):
                    raise pa.ArrowInvalid("not a segment's bytes")
                for chunk in reader:
                    batch: pa.RecordBatch | None = chunk.data
                    if batch is None or batch.column(0).null_count:
                        raise pa.ArrowInvalid("a chunk without bytes")
                    for value in batch.column(0):
                        yield memoryview(value.as_buffer())
            finally:
                reader.cancel()


_COPIES: Final = FlightCopies()
