"""Calls to peers over Flight, for the steps of forwarding (`core/data/forwarding.py`), on threads."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec
import pyarrow as pa
from pyarrow import flight

from leasehold.core.data.peers import Chunk, Probed
from leasehold.core.data.write_access import Peer
from leasehold.core.words.codec import UNREADABLE, encode
from leasehold.core.words.messages import BytesEnd, ForwardAdmitted, ForwardTicket, Message, NodeStatus, SegmentStored
from leasehold.limits.replication import FORWARD_CALL_NS
from leasehold.wire.flight import (
    BYTES_SCHEMA,
    ask_health,
    bytes_batch,
    calling,
    descriptor,
    expect,
    is_answering,
    within,
    writer_to,
)
from leasehold.wire.tls import TlsSource

M = TypeVar("M", bound=Message)


class FlightPeers:
    """Implements `core.data.peers.PeerCalls`."""

    def __init__(self, tls: TlsSource | None) -> None:
        self._tls = tls

    @asynccontextmanager
    async def open(self, peer: Peer, ticket: ForwardTicket) -> AsyncGenerator["_Stream"]:
        """Begins to forward a segment. The end raises the peer's reason, if it declined."""
        with calling(peer.address):
            writer, answers = writer_to(peer.address, self._tls, peer.name).do_put(
                descriptor(ticket), BYTES_SCHEMA, within(FORWARD_CALL_NS, ticket)
            )
            try:
                yield _Stream(writer, answers)
            finally:
                writer.close()

    async def is_answering(self, peer: Peer, timeout_ns: int) -> bool:
        """Whether its process answers at all in time."""
        return is_answering(peer.address, timeout_ns, self._tls, peer.name)

    async def probe(self, peer: Peer, timeout_ns: int, ticket: ForwardTicket) -> Probed:
        """What its process says of its own state, asked by the sender of `ticket`."""
        said = ask_health(peer.address, timeout_ns, ticket, self._tls, peer.name)
        if said is None:
            return Probed(is_answering=False)
        try:
            return Probed(is_answering=True, status=msgspec.json.decode(said, type=NodeStatus))
        except UNREADABLE:
            return Probed(is_answering=True)  # a refusal, or another version


class _Stream:
    """Implements `core.data.peers.PeerStream`."""

    def __init__(self, writer: flight.FlightStreamWriter, answers: flight.FlightMetadataReader) -> None:
        self._writer = writer
        self._answers = answers

    async def is_admitted(self) -> bool:
        return self._answer(ForwardAdmitted) is not None

    async def send(self, chunk: Chunk) -> None:
        self._writer.write_batch(bytes_batch(chunk))

    async def finish(self, end: BytesEnd) -> SegmentStored | None:
        self._writer.write_metadata(encode(end))
        self._writer.done_writing()
        return self._answer(SegmentStored)

    def _answer(self, kind: type[M]) -> M | None:
        """The peer's next answer; None if the call failed: closing it raises why."""
        answer: pa.Buffer | None = self._answers.read()
        return None if answer is None else expect(kind, answer)
