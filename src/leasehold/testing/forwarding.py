"""Forwarding over the simulated network: `node/forwarding.py` with a task in place of each peer's thread.

Like there, a peer that refuses, fails or is slow beyond a bound is left out, and counts as a holder only by its own
word that exactly these bytes are synced.
"""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from leasehold.core.messages import BytesEnd, ForwardTicket, Holder, Message, Rows, SegmentStored
from leasehold.errors import LeaseholdError, Unreachable
from leasehold.limits import FORWARD_FINISH_NS, FORWARD_QUEUE_CHUNKS, FORWARD_STALL_NS, MILLISECOND_NS
from leasehold.node.forwarding import Peer, Resting
from leasehold.wire.ports import Clock, Duplex, Transport

FULL_POLL_NS: Final = 10 * MILLISECOND_NS


class _Forward:
    """One peer of one segment."""

    def __init__(self, peer: Peer, ticket: ForwardTicket, transport: Transport, clock: Clock) -> None:
        self.node, self._address = peer
        self._ticket = ticket
        self._transport = transport
        self._clock = clock
        self._queue: asyncio.Queue[Rows | BytesEnd] = asyncio.Queue(FORWARD_QUEUE_CHUNKS)
        self._over = asyncio.Event()
        self._given_up = False
        self.stored: SegmentStored | None = None
        self.stalled = False

    async def send(self, piece: Rows | BytesEnd) -> None:
        """Queues a piece; gives the peer up if its queue stays full for FORWARD_STALL_NS."""
        give_up_ns = self._clock.now_ns() + FORWARD_STALL_NS
        while self._queue.full() and not self._given_up:
            if self._clock.now_ns() >= give_up_ns:
                self.stalled = self._given_up = True
            await self._clock.sleep_until(self._clock.now_ns() + FULL_POLL_NS)
        if not self._given_up:
            self._queue.put_nowait(piece)

    async def wait(self, until_ns: int) -> None:
        """Until the peer has answered or failed; gives it up after that."""
        if self._given_up:
            return
        timer = self._clock.call_at(until_ns, self._over.set)
        try:
            await self._over.wait()
        finally:
            timer.cancel()
        if not self._given_up:
            self.stalled = self._given_up = True

    async def run(self) -> None:
        """Sends what is queued and takes the answer; ends with an empty queue or with the peer."""
        connection = self._transport.connect(self._address)
        try:
            stored = await self._converse(await connection.session())
            if not self._given_up:
                self.stored = stored
        except Unreachable:
            self.stalled = True
        except LeaseholdError:
            self.stored = None  # it declined, and the answer to the writer does not name it
        finally:
            self._given_up = True
            self._over.set()
            await connection.close()

    async def _converse(self, duplex: Duplex) -> SegmentStored | None:
        try:
            await duplex.send(self._ticket)
            while True:
                piece = await self._queue.get()
                await duplex.send(piece)
                if isinstance(piece, BytesEnd):
                    break
        except Unreachable:
            pass  # the peer may have said why before it ended the stream
        answer: Message | None = await duplex.receive()
        return answer if isinstance(answer, SegmentStored) else None


class Forwarding:
    """All peers of one segment. As a context manager it leaves no peer with an open stream."""

    def __init__(
        self, peers: Sequence[Peer], ticket: ForwardTicket, resting: Resting, transport: Transport, clock: Clock
    ) -> None:
        self._resting = resting
        self._clock = clock
        self._forwards = [_Forward(peer, ticket, transport, clock) for peer in resting.awake(peers)]
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._tasks = [self._group.create_task(forward.run()) for forward in self._forwards]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        # The group would turn an error of the write into a group of it.
        await self._group.__aexit__(None, None, None)
        for forward in self._forwards:
            if forward.stalled:
                self._resting.stalled(forward.node)

    async def send(self, piece: Rows | BytesEnd) -> None:
        """Hands rows, or at last what they must be together, to every peer that is still in."""
        for forward in self._forwards:
            await forward.send(piece)

    async def holders(self, end: BytesEnd) -> list[Holder]:
        """The peers that have stored just that; waits for them FORWARD_FINISH_NS altogether."""
        give_up_ns = self._clock.now_ns() + FORWARD_FINISH_NS
        found: list[Holder] = []
        for forward in self._forwards:
            await forward.wait(give_up_ns)
            stored = forward.stored
            same = stored is not None and (stored.size_bytes, stored.sha256) == (end.size_bytes, end.sha256)
            if stored is not None and same and stored.node == forward.node:
                found.append(Holder(node=stored.node, incarnation=stored.incarnation, seal=stored.seal))
        return found
