"""Forwarding over the simulated network: `node/forwarding.py` with a task in place of each peer's thread.

Like there, a peer that refuses, fails or hangs is left out by the rules of `core/forwarding.py`, and counts as a holder
only by its own word that exactly these bytes are synced.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Final, Self

from leasehold.core.data.write_access import Peer
from leasehold.core.forwarding import Judgement, Probed, Silent, judge, judge_probed, patience_ns, probe_delay_ns
from leasehold.core.messages import (
    BytesEnd,
    ForwardAdmitted,
    ForwardTicket,
    Holder,
    Message,
    NodeStatus,
    Rows,
    SegmentStored,
    WhoAreYou,
)
from leasehold.errors import LeaseholdError, Unreachable
from leasehold.ids import NodeId
from leasehold.limits.replication import (
    FORWARD_FINISH_NS,
    FORWARD_PATIENCE_MIN_NS,
    FORWARD_PROBES,
    FORWARD_QUEUE_CHUNKS,
    FORWARD_STALL_NS,
)
from leasehold.limits.units import MILLISECOND_NS
from leasehold.wire.ports import Clock, Duplex, Transport

FULL_POLL_NS: Final = 10 * MILLISECOND_NS


class Peers:
    """As `node.forwarding.Peers`; `group` is of the process, and its tasks probe."""

    def __init__(self, transport: Transport, clock: Clock, group: asyncio.TaskGroup) -> None:
        self._transport = transport
        self._clock = clock
        self._group = group
        self._silent = Silent()
        self._probed: set[NodeId] = set()

    async def worth_a_try(self, peers: Sequence[Peer], min_in_sync: int) -> list[Peer]:
        """Those that answer; all of them where `min_in_sync` needs others as well."""
        for peer in peers:
            if peer[0] in self._silent and peer[0] not in self._probed:
                if (await self.probe(peer, FORWARD_PATIENCE_MIN_NS)).is_answering:
                    self._silent.answered(peer[0])
                else:
                    self.left_out(peer)
        found = [peer for peer in peers if peer[0] not in self._silent]
        return found if 1 + len(found) >= min_in_sync else list(peers)

    def left_out(self, peer: Peer) -> None:
        """It was silent. It is probed from now on, and gets rows again as soon as it answers."""
        self._silent.left_out(peer[0])
        if peer[0] not in self._probed:
            self._probed.add(peer[0])
            watching = self._watch(peer)
            try:
                self._group.create_task(watching)
            except RuntimeError:  # the process ends, and nobody asks any more
                watching.close()

    async def probe(self, peer: Peer, timeout_ns: int) -> Probed:
        """Whether its process answers in time, and how it says that it stands."""
        connection = self._transport.connect(peer[1])
        try:
            answer = await connection.call(WhoAreYou(), timeout_ns=timeout_ns)
        except Unreachable:
            return Probed(is_answering=False)
        except LeaseholdError:
            return Probed(is_answering=True)
        finally:
            await connection.close()
        return Probed(is_answering=True, status=answer if isinstance(answer, NodeStatus) else None)

    async def _watch(self, peer: Peer) -> None:
        for _ in range(FORWARD_PROBES):
            if (await self.probe(peer, FORWARD_PATIENCE_MIN_NS)).is_answering:
                self._silent.answered(peer[0])
                break
            await self._clock.sleep_until(self._clock.now_ns() + FORWARD_PATIENCE_MIN_NS)
        self._probed.discard(peer[0])


class _Forward:
    """One peer of one segment."""

    def __init__(self, peer: Peer, ticket: ForwardTicket, transport: Transport, clock: Clock) -> None:
        self.peer = peer
        self.node, self._address = peer
        self._ticket = ticket
        self._transport = transport
        self._clock = clock
        self._queue: asyncio.Queue[Rows | BytesEnd] = asyncio.Queue(FORWARD_QUEUE_CHUNKS)
        self._bell = asyncio.Event()
        self._given_up = False
        self.is_admitted = False
        self.stored: SegmentStored | None = None
        self.is_silent = False

    @property
    def may_hold(self) -> bool:
        """Whether it holds the segment, or may yet."""
        return self.stored is not None or not self._given_up

    async def offer(self, piece: Rows | BytesEnd, timeout_ns: int) -> bool:
        """Queues a piece; False if there is no room by then. A peer that was given up takes all."""
        until_ns = self._clock.now_ns() + timeout_ns
        while self._queue.full() and not self._given_up:
            if self._clock.now_ns() >= until_ns:
                return False
            await self._clock.sleep_until(self._clock.now_ns() + FULL_POLL_NS)
        if not self._given_up:
            self._queue.put_nowait(piece)
        return True

    async def is_done(self, timeout_ns: int) -> bool:
        """Whether it has answered or failed by then."""
        if not self._given_up:
            self._bell.clear()
            timer = self._clock.call_at(self._clock.now_ns() + timeout_ns, self._bell.set)
            try:
                await self._bell.wait()
            finally:
                timer.cancel()
        return self._given_up

    def leave_out(self) -> None:
        """The write goes on without it, for it is silent."""
        self.is_silent = self._given_up = True

    def declines(self) -> None:
        """By its own word it can't take the file: nobody waits for it any more."""
        self._given_up = True
        self._bell.set()

    async def run(self) -> None:
        """Sends what is queued and takes the answer; ends with an empty queue or with the peer."""
        connection = self._transport.connect(self._address)
        try:
            stored = await self._converse(await connection.session())
            if not self._given_up:
                self.stored = stored
        except Unreachable:
            self.is_silent = True
        except LeaseholdError:
            self.stored = None  # it declined, and the answer to the writer does not name it
        finally:
            self._given_up = True
            self._bell.set()
            await connection.close()

    async def _converse(self, duplex: Duplex) -> SegmentStored | None:
        try:
            await duplex.send(self._ticket)
            if not isinstance(await duplex.receive(), ForwardAdmitted):
                return None
            self.is_admitted = True
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
        self,
        known: Sequence[Peer],
        ticket: ForwardTicket,
        peers: Peers,
        transport: Transport,
        clock: Clock,
        *,
        min_in_sync: int,
    ) -> None:
        self._known = known
        self._ticket = ticket
        self._peers = peers
        self._transport = transport
        self._clock = clock
        self._min_in_sync = min_in_sync
        self._ended_ns = 0
        self._forwards: list[_Forward] = []
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        chosen = await self._peers.worth_a_try(self._known, self._min_in_sync)
        self._forwards = [_Forward(peer, self._ticket, self._transport, self._clock) for peer in chosen]
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
            if forward.is_silent:
                self._peers.left_out(forward.peer)

    async def send(self, piece: Rows | BytesEnd) -> None:
        """Hands rows, or at last what they must be together, to every peer that is still in."""
        for forward in self._forwards:
            until_ns = self._clock.now_ns() + FORWARD_STALL_NS
            await self._insist(forward, partial(forward.offer, piece), until_ns, patience_ns(0))
        self._ended_ns = self._clock.now_ns()

    async def holders(self, end: BytesEnd) -> list[Holder]:
        """The peers that have stored just that; called once this node has synced, after `end` was sent."""
        synced_ns = self._clock.now_ns()
        patient_ns = patience_ns(synced_ns - self._ended_ns)
        found: list[Holder] = []
        for forward in self._forwards:
            await self._insist(forward, forward.is_done, synced_ns + FORWARD_FINISH_NS, patient_ns)
            stored = forward.stored
            same = stored is not None and (stored.size_bytes, stored.sha256) == (end.size_bytes, end.sha256)
            if stored is not None and same and stored.node == forward.node:
                found.append(Holder(node=stored.node, incarnation=stored.incarnation, seal=stored.seal))
        return found

    async def _insist(
        self, forward: _Forward, is_done: Callable[[int], Awaitable[bool]], until_ns: int, patient_ns: int
    ) -> None:
        """Waits until the peer has done it, or leaves it out."""
        while not await is_done(probe_delay_ns(patient_ns, admitted=forward.is_admitted)):
            others = 1 + sum(1 for one in self._forwards if one is not forward and one.may_hold)
            judgement = judge(others=others, min_in_sync=self._min_in_sync, expired=self._clock.now_ns() >= until_ns)
            if judgement is Judgement.PROBE:
                judged = partial(self._judge_probed, forward, admitted_before=forward.is_admitted)
                probing = self._group.create_task(self._probe(forward, patient_ns, judged))
                if await is_done(patient_ns):
                    return
                judgement = judged(probing.result() if probing.done() else Probed(is_answering=False))
            if judgement is Judgement.LEAVE_OUT:
                forward.leave_out()

    async def _probe(self, forward: _Forward, timeout_ns: int, judged: Callable[[Probed], Judgement]) -> Probed:
        probed = await self._peers.probe(forward.peer, timeout_ns)
        if probed.is_answering and judged(probed) is Judgement.LEAVE_OUT:
            forward.declines()
        return probed

    def _judge_probed(self, forward: _Forward, probed: Probed, *, admitted_before: bool) -> Judgement:
        return judge_probed(
            probed, admitted_before=admitted_before, admitted=forward.is_admitted, revision=self._ticket.revision
        )
