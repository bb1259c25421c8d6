"""The other replicas of a bucket, as a node that takes a client's rows reaches them.

`PeerCalls` is the port: over Flight in production, over the simulated network in the simulator. A peer that was silent
gets nothing, so that no write waits for it, until its process answers a probe, or it is at another address.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from leasehold.core.data.runtime import Runtime
from leasehold.core.data.write_access import Peer
from leasehold.core.words.messages import BytesEnd, ForwardTicket, NodeStatus, SegmentStored
from leasehold.ids import NodeId
from leasehold.limits.replication import FORWARD_PATIENCE_MIN_NS, FORWARD_PROBES

Chunk = bytes | memoryview
"""Bytes of a segment's file, in their order."""


class Probed(NamedTuple):
    """The result of a probe: whether the process answers, and its status."""

    is_answering: bool
    status: NodeStatus | None = None


class PeerStream(Protocol):
    """One segment on its way to a peer. Raises `Unreachable` if the peer is silent, or what it answers with."""

    async def is_admitted(self) -> bool:
        """Waits for the peer's word that it takes the file; False where the end of the stream says why not."""
        ...

    async def send(self, chunk: Chunk) -> None: ...

    async def finish(self, end: BytesEnd) -> SegmentStored | None:
        """Says what the whole file must be, and waits for the answer; None where the end of the stream says why not."""
        ...


class PeerCalls(Protocol):
    """How peers are reached. Where another process than the peer has its address, nobody answers."""

    def open(self, peer: Peer, ticket: ForwardTicket) -> AbstractAsyncContextManager[PeerStream]:
        """Begins to pass a segment on. Its end raises why the peer declined, if it did."""
        ...

    async def is_answering(self, peer: Peer, timeout_ns: int) -> bool:
        """Whether its process answers anything at all in time."""
        ...

    async def probe(self, peer: Peer, timeout_ns: int, ticket: ForwardTicket) -> Probed:
        """How its process stands by its own word, asked by the sender of `ticket`."""
        ...


class Peers:
    """Which peers are silent: they get nothing until they answer a probe. All writes of a process share it."""

    def __init__(self, runtime: Runtime, calls: PeerCalls, *, probes_max: int = FORWARD_PROBES) -> None:
        self.runtime = runtime
        self.calls = calls
        self._probes_max = probes_max
        self._lock = runtime.condition()
        self._silent: dict[NodeId, Peer] = {}
        """Each as it was when it was silent."""
        self._probed: set[Peer] = set()
        """Those that are being probed."""

    async def worth_a_try(self, peers: Sequence[Peer], min_in_sync: int) -> list[Peer]:
        """Those that answer; all of them where `min_in_sync` needs others as well."""
        for peer in peers:
            with self._lock:
                is_news = self._is_silent(peer) and peer not in self._probed
            if is_news:  # nobody has looked at it for a while
                await self._look_at(peer)
        with self._lock:
            found = [peer for peer in peers if not self._is_silent(peer)]
        return found if 1 + len(found) >= min_in_sync else list(peers)

    def left_out(self, peer: Peer) -> None:
        """It was silent: it gets no bytes until it answers a probe."""
        with self._lock:
            self._silent[peer.node] = peer
            if peer in self._probed:
                return
            self._probed.add(peer)
        self.runtime.start(self._watch(peer), name=f"probe of node {peer.node}")

    async def _look_at(self, peer: Peer) -> None:
        if await self.calls.is_answering(peer, FORWARD_PATIENCE_MIN_NS):
            self._answered(peer)
        else:
            self.left_out(peer)

    async def _watch(self, peer: Peer) -> None:
        for _ in range(self._probes_max):
            if self.runtime.is_ending():
                break
            if await self.calls.is_answering(peer, FORWARD_PATIENCE_MIN_NS):
                self._answered(peer)
                break
            await self.runtime.sleep_until(self.runtime.now_ns() + FORWARD_PATIENCE_MIN_NS)
        with self._lock:
            self._probed.discard(peer)

    def _is_silent(self, peer: Peer) -> bool:
        return self._silent.get(peer.node) == peer

    def _answered(self, peer: Peer) -> None:
        with self._lock:
            if self._is_silent(peer):
                del self._silent[peer.node]
