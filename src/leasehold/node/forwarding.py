"""Forwarding: a segment's bytes to the other replicas of its bucket, while they are being encoded.

Each peer has a thread and a bounded queue of its own. A peer that refuses, fails, or is slow beyond a bound is left
out: it holds up the write for that bound once, and the write goes on without it. A peer counts as a holder only by its
own word that the same number of bytes with the same hash is synced on its disk.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import pyarrow as pa
from pyarrow import flight

from leasehold.core.codec import encode
from leasehold.core.messages import BytesEnd, ForwardTicket, Holder, SegmentStored
from leasehold.errors import LeaseholdError, Unreachable
from leasehold.ids import NodeId
from leasehold.limits import (
    FORWARD_CALL_NS,
    FORWARD_FINISH_NS,
    FORWARD_QUEUE_CHUNKS,
    FORWARD_REST_NS,
    FORWARD_STALL_NS,
    SECOND_NS,
)
from leasehold.wire.flight import BYTES_SCHEMA, bytes_batch, calling, descriptor, expect, within, writer_to

Peer = tuple[NodeId, str]
"""A node and the address where it serves Flight."""


class Resting:
    """Peers that stalled or were gone lately get nothing for FORWARD_REST_NS: not every write shall wait for them."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._until_ns: dict[NodeId, int] = {}

    def awake(self, peers: Sequence[Peer]) -> list[Peer]:
        """Those that are worth a try."""
        now_ns = self._now_ns()
        return [peer for peer in peers if self._until_ns.get(peer[0], now_ns) <= now_ns]

    def stalled(self, node: NodeId) -> None:
        """Leaves it alone for a while."""
        self._until_ns[node] = self._now_ns() + FORWARD_REST_NS


class _Forward:
    """One peer of one segment. `send`, `end` and `drop` belong to the writing thread, `_run` to its own."""

    def __init__(self, peer: Peer, ticket: ForwardTicket) -> None:
        self.node, self._address = peer
        self._ticket = ticket
        self._queue: queue.Queue[bytes | BytesEnd | None] = queue.Queue(FORWARD_QUEUE_CHUNKS)
        self._given_up = threading.Event()
        self._done = threading.Event()
        self.stored: SegmentStored | None = None
        self.stalled = False
        name = f"forward to node {self.node}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def send(self, piece: bytes | BytesEnd) -> None:
        """Queues a piece; gives the peer up if its queue stays full for FORWARD_STALL_NS."""
        if self._given_up.is_set():
            return
        try:
            self._queue.put(piece, timeout=FORWARD_STALL_NS / SECOND_NS)
        except queue.Full:
            self.stalled = True
            self.drop()

    def wait(self, timeout_ns: int) -> None:
        """Until the peer has answered or failed; gives it up after that."""
        # A thread given up may hang in a write until its connection is cut.
        if not self._given_up.is_set() and not self._done.wait(timeout_ns / SECOND_NS):
            self.stalled = True
        self.drop()

    def drop(self) -> None:
        """Ends the stream, without its last message unless that was sent: the peer throws away what it got."""
        self._given_up.set()
        while True:
            try:
                self._queue.put_nowait(None)
            except queue.Full:
                self._take_one()
            else:
                return

    def _take_one(self) -> None:
        try:
            self._queue.get_nowait()
        except queue.Empty:
            return

    def _run(self) -> None:
        try:
            with calling(self._address):
                self.stored = self._forward()
        except Unreachable:
            self.stalled = True
        except LeaseholdError:
            self.stored = None  # it declined, and the answer to the writer does not name it
        finally:
            self._given_up.set()
            self._done.set()
            self._drain()

    def _forward(self) -> SegmentStored | None:
        writer, answers = writer_to(self._address).do_put(
            descriptor(self._ticket), BYTES_SCHEMA, within(FORWARD_CALL_NS)
        )
        try:
            while (piece := self._queue.get()) is not None:
                if self._given_up.is_set():
                    return None
                if isinstance(piece, BytesEnd):
                    writer.write_metadata(encode(piece))
                    writer.done_writing()
                    return _answer(answers)
                writer.write_batch(bytes_batch(piece))
            return None
        finally:
            # Raises why the peer declined, if it did.
            writer.close()

    def _drain(self) -> None:
        """Lets a writer go on that waits for room in the queue."""
        while not self._queue.empty():
            self._take_one()


def _answer(answers: flight.FlightMetadataReader) -> SegmentStored | None:
    """None where the call failed: closing it then says why."""
    answer: pa.Buffer | None = answers.read()
    return None if answer is None else expect(SegmentStored, answer)


class Forwarding:
    """All peers of one segment. As a context manager it leaves no peer with an open stream."""

    def __init__(self, peers: Sequence[Peer], ticket: ForwardTicket, resting: Resting) -> None:
        self._resting = resting
        self._forwards = [_Forward(peer, ticket) for peer in resting.awake(peers)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for forward in self._forwards:
            forward.drop()
            if forward.stalled:
                self._resting.stalled(forward.node)

    def send(self, piece: bytes | BytesEnd) -> None:
        """Hands bytes, or at last what they must be together, to every peer that is still in."""
        for forward in self._forwards:
            forward.send(piece)

    def holders(self, end: BytesEnd, now_ns: Callable[[], int]) -> list[Holder]:
        """The peers that have stored just that; waits for them FORWARD_FINISH_NS altogether."""
        give_up_ns = now_ns() + FORWARD_FINISH_NS
        found: list[Holder] = []
        for forward in self._forwards:
            forward.wait(max(0, give_up_ns - now_ns()))
            stored = forward.stored
            same = stored is not None and (stored.size_bytes, stored.sha256) == (end.size_bytes, end.sha256)
            if stored is not None and same and stored.node == forward.node:
                found.append(Holder(node=stored.node, incarnation=stored.incarnation, seal=stored.seal))
        return found
