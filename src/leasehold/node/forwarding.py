"""Forwarding: a segment's bytes to the other replicas of its bucket, while they are being encoded.

Each peer has a thread and a bounded queue of its own. A peer that refuses, fails or hangs is left out
(`core/forwarding.py`), and the write goes on without it. A peer counts as a holder only by its own word that the same
number of bytes with the same hash is synced on its disk.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar

import msgspec
import pyarrow as pa
from pyarrow import flight

from leasehold.core.codec import UNREADABLE, encode
from leasehold.core.data.write_access import Peer
from leasehold.core.forwarding import Judgement, Probed, Silent, judge, judge_probed, patience_ns, probe_delay_ns
from leasehold.core.messages import BytesEnd, ForwardAdmitted, ForwardTicket, Holder, Message, NodeStatus, SegmentStored
from leasehold.errors import LeaseholdError, Unreachable
from leasehold.ids import NodeId
from leasehold.limits.replication import (
    FORWARD_CALL_NS,
    FORWARD_FINISH_NS,
    FORWARD_PATIENCE_MIN_NS,
    FORWARD_PROBES,
    FORWARD_QUEUE_CHUNKS,
    FORWARD_STALL_NS,
)
from leasehold.limits.units import SECOND_NS
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

M = TypeVar("M", bound=Message)


class ForwardLimits(NamedTuple):
    """Bounds of what a write waits for and holds for each peer."""

    queue_chunks: int = FORWARD_QUEUE_CHUNKS
    stall_ns: int = FORWARD_STALL_NS
    finish_ns: int = FORWARD_FINISH_NS


FORWARD_LIMITS: Final = ForwardLimits()


class Peers:
    """Which peers are silent: they get nothing until their process answers a probe. Any thread may use it."""

    def __init__(self, probe: Callable[[str, int], bool] = is_answering, *, probes_max: int = FORWARD_PROBES) -> None:
        self._probe = probe
        self._probes_max = probes_max
        self._lock = threading.Lock()
        self._silent = Silent()
        self._probed: set[NodeId] = set()
        """Those that a thread probes."""

    def worth_a_try(self, peers: Sequence[Peer], min_in_sync: int) -> list[Peer]:
        """Those that answer; all of them where `min_in_sync` needs others as well."""
        for peer in peers:
            with self._lock:
                is_news = peer[0] in self._silent and peer[0] not in self._probed
            if is_news:  # nobody has looked at it for a while
                self._look_at(peer)
        with self._lock:
            found = [peer for peer in peers if peer[0] not in self._silent]
        return found if 1 + len(found) >= min_in_sync else list(peers)

    def left_out(self, peer: Peer) -> None:
        """It was silent. It is probed from now on, and gets bytes again as soon as it answers."""
        with self._lock:
            self._silent.left_out(peer[0])
            if peer[0] in self._probed:
                return
            self._probed.add(peer[0])
        threading.Thread(target=self._watch, args=(peer,), name=f"probe of node {peer[0]}", daemon=False).start()

    def _look_at(self, peer: Peer) -> None:
        if self._probe(peer[1], FORWARD_PATIENCE_MIN_NS):
            with self._lock:
                self._silent.answered(peer[0])
        else:
            self.left_out(peer)

    def _watch(self, peer: Peer) -> None:
        pause = threading.Event()
        for _ in range(self._probes_max):
            if not threading.main_thread().is_alive():
                break  # the process ends, and waits for this thread
            if self._probe(peer[1], FORWARD_PATIENCE_MIN_NS):
                with self._lock:
                    self._silent.answered(peer[0])
                break
            pause.wait(FORWARD_PATIENCE_MIN_NS / SECOND_NS)
        with self._lock:
            self._probed.discard(peer[0])


class _Forward:
    """One peer of one segment. `send`, `end` and `drop` belong to the writing thread, `_run` to its own."""

    def __init__(self, peer: Peer, ticket: ForwardTicket, queue_chunks: int) -> None:
        self.peer = peer
        self.node, self._address = peer
        self._ticket = ticket
        self._queue: queue.Queue[bytes | BytesEnd | None] = queue.Queue(queue_chunks)
        self._given_up = threading.Event()
        self._done = threading.Event()
        self.is_admitted = False
        """Whether the peer has said that it takes the file."""
        self.stored: SegmentStored | None = None
        self.is_silent = False
        name = f"forward to node {self.node}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def may_hold(self) -> bool:
        """Whether it holds the segment, or may yet."""
        return self.stored is not None or not self._given_up.is_set()

    def offer(self, piece: bytes | BytesEnd, timeout_ns: int) -> bool:
        """Queues a piece; False if there is no room by then. A peer that was given up takes all."""
        if self._given_up.is_set():
            return True
        try:
            self._queue.put(piece, timeout=timeout_ns / SECOND_NS)
        except queue.Full:
            return False
        return True

    def is_done(self, timeout_ns: int) -> bool:
        """Whether it has answered or failed by then."""
        return self._given_up.is_set() or self._done.wait(timeout_ns / SECOND_NS)

    def leave_out(self) -> None:
        """The write goes on without it, for it is silent."""
        # Its thread may hang in a write until its connection is cut.
        self.is_silent = True
        self.drop()

    def declines(self) -> None:
        """By its own word it can't take the file: nobody waits for it any more."""
        self._given_up.set()
        self._done.set()

    def probe(self, timeout_ns: int) -> Callable[[], Judgement]:
        """Asks its process how it stands. Returns at once; the judgement is by the answer that has come until then. An
        answer that it can't take the file counts at once."""
        answers: list[Probed] = []
        admitted_before = self.is_admitted

        def ask() -> None:
            answers.append(probe(self._address, timeout_ns, self._ticket))
            if answers[0].is_answering and judged() is Judgement.LEAVE_OUT:
                self.declines()

        def judged() -> Judgement:
            probed = answers[0] if answers else Probed(is_answering=False)
            return judge_probed(
                probed,
                admitted_before=admitted_before,
                admitted=self.is_admitted,
                revision=self._ticket.revision,
            )

        threading.Thread(target=ask, name=f"probe of node {self.node}", daemon=False).start()
        return judged

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
            self.is_silent = True
        except LeaseholdError:
            self.stored = None  # it declined, and the answer to the writer does not name it
        finally:
            self._given_up.set()
            self._done.set()
            self._drain()

    def _forward(self) -> SegmentStored | None:
        writer, answers = writer_to(self._address).do_put(
            descriptor(self._ticket), BYTES_SCHEMA, within(FORWARD_CALL_NS, self._ticket)
        )
        try:
            if _answer(answers, ForwardAdmitted) is None:
                return None
            self.is_admitted = True
            while (piece := self._queue.get()) is not None:
                if self._given_up.is_set():
                    return None
                if isinstance(piece, BytesEnd):
                    writer.write_metadata(encode(piece))
                    writer.done_writing()
                    return _answer(answers, SegmentStored)
                writer.write_batch(bytes_batch(piece))
            return None
        finally:
            # Raises why the peer declined, if it did.
            writer.close()

    def _drain(self) -> None:
        """Lets a writer go on that waits for room in the queue."""
        while not self._queue.empty():
            self._take_one()


def _answer(answers: flight.FlightMetadataReader, kind: type[M]) -> M | None:
    """None where the call failed: closing it then says why."""
    answer: pa.Buffer | None = answers.read()
    return None if answer is None else expect(kind, answer)


def probe(address: str, timeout_ns: int, ticket: ForwardTicket) -> Probed:
    """How the process at `host:port` stands by its own word, asked by the sender of `ticket`."""
    said = ask_health(address, timeout_ns, ticket)
    if said is None:
        return Probed(is_answering=False)
    try:
        return Probed(is_answering=True, status=msgspec.json.decode(said, type=NodeStatus))
    except UNREADABLE:
        return Probed(is_answering=True)  # a refusal, or another version


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
        now_ns: Callable[[], int],
        limits: ForwardLimits = FORWARD_LIMITS,
    ) -> None:
        self._peers = peers
        self._min_in_sync = min_in_sync
        self._now_ns = now_ns
        self._limits = limits
        self._ended_ns = 0
        worth_a_try = peers.worth_a_try(known, min_in_sync)
        self._forwards = [_Forward(peer, ticket, limits.queue_chunks) for peer in worth_a_try]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for forward in self._forwards:
            forward.drop()
            if forward.is_silent:
                self._peers.left_out(forward.peer)

    def send(self, piece: bytes | BytesEnd) -> None:
        """Hands bytes, or at last what they must be together, to every peer that is still in."""
        for forward in self._forwards:
            until_ns = self._now_ns() + self._limits.stall_ns
            self._insist(forward, partial(forward.offer, piece), until_ns, patience_ns(0))
        self._ended_ns = self._now_ns()

    def holders(self, end: BytesEnd) -> list[Holder]:
        """The peers that have stored just that; called once this node has synced, after `end` was sent."""
        synced_ns = self._now_ns()
        patient_ns = patience_ns(synced_ns - self._ended_ns)
        found: list[Holder] = []
        for forward in self._forwards:
            self._insist(forward, forward.is_done, synced_ns + self._limits.finish_ns, patient_ns)
            stored = forward.stored
            same = stored is not None and (stored.size_bytes, stored.sha256) == (end.size_bytes, end.sha256)
            if stored is not None and same and stored.node == forward.node:
                found.append(Holder(node=stored.node, incarnation=stored.incarnation, seal=stored.seal))
        return found

    def _insist(self, forward: _Forward, is_done: Callable[[int], bool], until_ns: int, patient_ns: int) -> None:
        """Waits until the peer has done it, or leaves it out."""
        while not is_done(probe_delay_ns(patient_ns, admitted=forward.is_admitted)):
            others = 1 + sum(1 for one in self._forwards if one is not forward and one.may_hold)
            judgement = judge(others=others, min_in_sync=self._min_in_sync, expired=self._now_ns() >= until_ns)
            if judgement is Judgement.PROBE:
                judged = forward.probe(patient_ns)
                if is_done(patient_ns):
                    return
                judgement = judged()
            if judgement is Judgement.LEAVE_OUT:
                forward.leave_out()
