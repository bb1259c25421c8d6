"""Forwarding: a segment's bytes to the other replicas of its bucket, while they are being encoded.

Each peer has steps and a bounded queue of its own. A peer counts as a holder once it answers that the same number of
bytes with the same hash is synced on its disk. A peer that refuses, fails or hangs is left out, and the write goes on.

A peer that is left out fetches the segment later, and until then that copy protects nothing. So a peer that is only
slow should be waited for, while one that hangs need not be. A probe tells the two apart. A peer that has not yet said
that it takes the file can take it only with a lease and at the revision of the ticket.

| the peer                                            | after the probe | at the last |
| is needed for `min_in_sync`                         | waited for      | left out    |
| does not answer                                     | left out        | left out    |
| answers, has said that it takes the file            | waited for      | left out    |
| answers, has not: holds a lease, shows the revision | waited for      | left out    |
| answers, has not: is fenced or behind               | left out        | left out    |

A peer that was left out as silent gets bytes again as soon as its process answers a probe (`core/data/peers.py`).
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from functools import partial
from types import TracebackType
from typing import Final, NamedTuple, Self

from leasehold.core.data.peers import Chunk, PeerCalls, Peers, PeerStream, Probed
from leasehold.core.data.runtime import Runtime
from leasehold.core.data.write_access import Peer
from leasehold.core.words.messages import BytesEnd, ForwardTicket, NodeStatus, SegmentHolder, SegmentStored
from leasehold.errors import LeaseholdError, Unreachable
from leasehold.ids import Revision
from leasehold.limits.replication import (
    FORWARD_FINISH_NS,
    FORWARD_PATIENCE_MAX_NS,
    FORWARD_PATIENCE_MIN_NS,
    FORWARD_PROBE_DELAY_NS,
    FORWARD_QUEUE_CHUNKS,
    FORWARD_SLOWER,
    FORWARD_STALL_NS,
)


class ForwardLimits(NamedTuple):
    """Bounds of what a write waits for and holds for each peer."""

    queue_chunks: int = FORWARD_QUEUE_CHUNKS
    stall_ns: int = FORWARD_STALL_NS
    finish_ns: int = FORWARD_FINISH_NS


FORWARD_LIMITS: Final = ForwardLimits()


class Judgement(Enum):
    """What to do about a peer that is late."""

    WAIT = "wait"
    PROBE = "probe"
    """Ask its process how it stands, then `judge_probed`."""
    LEAVE_OUT = "leave out"


def patience_ns(own_ns: int) -> int:
    """How long a peer may be later than this node, whose own sync took `own_ns`."""
    return min(max(FORWARD_PATIENCE_MIN_NS, FORWARD_SLOWER * own_ns), FORWARD_PATIENCE_MAX_NS)


def probe_delay_ns(patient_ns: int, *, admitted: bool) -> int:
    """How late a peer may be until it is probed. One that hangs has mostly not said that it takes the file."""
    return patient_ns if admitted else FORWARD_PROBE_DELAY_NS


def judge(*, others: int, min_in_sync: int, expired: bool) -> Judgement:
    """About a late peer. `others` hold the segment without it or may yet, this node among them; `expired` after the
    longest time that any peer is waited for."""
    if expired:
        return Judgement.LEAVE_OUT
    if others < min_in_sync:
        return Judgement.WAIT
    return Judgement.PROBE


def judge_probed(probed: Probed, *, admitted_before: bool, admitted: bool, revision: Revision) -> Judgement:
    """About a late peer that was probed. `admitted` if it takes the file, `admitted_before` if it did when the probe
    began; `revision` is the ticket's."""
    if admitted and not admitted_before:
        return Judgement.WAIT  # an answer as well
    can_take = admitted or (probed.status is not None and _can_take(probed.status, revision))
    return Judgement.WAIT if probed.is_answering and can_take else Judgement.LEAVE_OUT


def _can_take(status: NodeStatus, revision: Revision) -> bool:
    # A fenced node refuses, and one that is behind waits for what it may never hear of.
    return status.lease_remaining_ns > 0 and status.applied_revision is not None and status.applied_revision >= revision


class _Forward:
    """One peer of one segment. The writer's steps and those that `start` begins share it."""

    def __init__(
        self, peer: Peer, ticket: ForwardTicket, calls: PeerCalls, runtime: Runtime, limits: ForwardLimits
    ) -> None:
        self.peer = peer
        self.node = peer.node
        self._ticket = ticket
        self._calls = calls
        self._runtime = runtime
        self._queue_chunks = limits.queue_chunks
        self._queue: deque[Chunk | BytesEnd] = deque()
        self._changed = runtime.condition()
        self._is_given_up = False
        """It has answered, has failed, or was left out."""
        self.is_admitted = False
        """Whether the peer has said that it takes the file."""
        self.stored: SegmentStored | None = None
        self.is_silent = False

    def start(self) -> None:
        """Begins to send what is offered. It may hang in a call until its connection is cut."""
        self._runtime.start(self._run(), name=f"forward to node {self.node}", daemon=True)

    @property
    def may_hold(self) -> bool:
        """Whether it holds the segment, or may yet."""
        return self.stored is not None or not self._is_given_up

    async def offer(self, piece: Chunk | BytesEnd, timeout_ns: int) -> bool:
        """Queues a piece; False if there is no room by then. A peer that was given up takes all."""
        until_ns = self._runtime.now_ns() + timeout_ns
        with self._changed:
            while not self._is_given_up and len(self._queue) >= self._queue_chunks:
                if self._runtime.now_ns() >= until_ns:
                    return False
                await self._changed.wait(until_ns)
            if not self._is_given_up:
                self._queue.append(piece)
                self._changed.notify_all()
        return True

    async def is_done(self, timeout_ns: int) -> bool:
        until_ns = self._runtime.now_ns() + timeout_ns
        with self._changed:
            while not self._is_given_up and self._runtime.now_ns() < until_ns:
                await self._changed.wait(until_ns)
            return self._is_given_up

    def leave_out(self) -> None:
        self.is_silent = True
        self.give_up()

    def give_up(self) -> None:
        """Ends the stream, without its last message unless that was sent: the peer throws away what it got."""
        with self._changed:
            self._is_given_up = True
            self._queue.clear()
            self._changed.notify_all()

    def probe(self, timeout_ns: int) -> Callable[[], Judgement]:
        """Asks its process how it stands. Returns at once; the judgement goes by the answer that has come by then."""
        answers: list[Probed] = []
        admitted_before = self.is_admitted

        async def ask() -> None:
            answers.append(await self._calls.probe(self.peer, timeout_ns, self._ticket))
            if answers[0].is_answering and judged() is Judgement.LEAVE_OUT:
                self.give_up()  # nobody waits for it any more

        def judged() -> Judgement:
            return judge_probed(
                answers[0] if answers else Probed(is_answering=False),
                admitted_before=admitted_before,
                admitted=self.is_admitted,
                revision=self._ticket.revision,
            )

        self._runtime.start(ask(), name=f"probe of node {self.node}")
        return judged

    async def _run(self) -> None:
        try:
            async with self._calls.open(self.peer, self._ticket) as stream:
                stored = await self._send(stream)
            self.stored = stored
        except Unreachable:
            self.is_silent = True
        except LeaseholdError:
            pass  # it declined, and the answer to the writer does not name it
        finally:
            self.give_up()

    async def _send(self, stream: PeerStream) -> SegmentStored | None:
        if not await stream.is_admitted():
            return None
        self.is_admitted = True
        while (piece := await self._next()) is not None:
            if isinstance(piece, BytesEnd):
                return await stream.finish(piece)
            await stream.send(piece)
        return None

    async def _next(self) -> Chunk | BytesEnd | None:
        """None once the peer was given up."""
        with self._changed:
            while not self._queue and not self._is_given_up:
                await self._changed.wait(None)
            if self._is_given_up:
                return None
            self._changed.notify_all()
            return self._queue.popleft()


class Forwarding:
    """All peers of one segment; `min_in_sync` holders are needed, this node among them. As a context manager it leaves
    no peer with an open stream."""

    def __init__(
        self,
        known: Sequence[Peer],
        ticket: ForwardTicket,
        peers: Peers,
        *,
        min_in_sync: int,
        limits: ForwardLimits = FORWARD_LIMITS,
    ) -> None:
        self._known = known
        self._ticket = ticket
        self._peers = peers
        self._min_in_sync = min_in_sync
        self._limits = limits
        self._now_ns = peers.runtime.now_ns
        self._ended_ns = 0
        self._forwards: list[_Forward] = []

    async def __aenter__(self) -> Self:
        peers = self._peers
        for peer in await peers.worth_a_try(self._known, self._min_in_sync):
            forward = _Forward(peer, self._ticket, peers.calls, peers.runtime, self._limits)
            self._forwards.append(forward)
            forward.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for forward in self._forwards:
            forward.give_up()
            if forward.is_silent:
                self._peers.left_out(forward.peer)

    async def send(self, piece: Chunk | BytesEnd) -> None:
        """Hands bytes, or at last what they must be together, to every peer that is still in."""
        for forward in self._forwards:
            until_ns = self._now_ns() + self._limits.stall_ns
            await self._insist(forward, partial(forward.offer, piece), until_ns, patience_ns(0))
        self._ended_ns = self._now_ns()

    async def holders(self, end: BytesEnd) -> list[SegmentHolder]:
        """The peers that have stored just that; called once this node has synced, after `end` was sent."""
        synced_ns = self._now_ns()
        patient_ns = patience_ns(synced_ns - self._ended_ns)
        found: list[SegmentHolder] = []
        for forward in self._forwards:
            await self._insist(forward, forward.is_done, synced_ns + self._limits.finish_ns, patient_ns)
            stored = forward.stored
            same = stored is not None and (stored.size_bytes, stored.sha256) == (end.size_bytes, end.sha256)
            if stored is not None and same and stored.node == forward.node:
                found.append(SegmentHolder(node=stored.node, incarnation=stored.incarnation, seal=stored.seal))
        return found

    async def _insist(
        self, forward: _Forward, is_done: Callable[[int], Awaitable[bool]], until_ns: int, patient_ns: int
    ) -> None:
        """Waits until the peer has done it, or leaves it out."""
        while not await is_done(probe_delay_ns(patient_ns, admitted=forward.is_admitted)):
            others = 1 + sum(1 for one in self._forwards if one is not forward and one.may_hold)
            judgement = judge(others=others, min_in_sync=self._min_in_sync, expired=self._now_ns() >= until_ns)
            if judgement is Judgement.PROBE:
                judged = forward.probe(patient_ns)
                if await is_done(patient_ns):
                    return
                judgement = judged()
            if judgement is Judgement.LEAVE_OUT:
                forward.leave_out()
