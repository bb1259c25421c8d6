"""Calls of one peer to a server: at most CALLS_PER_PEER_MAX are under way. Answers that one peer has not taken: at most
ANSWERS_BYTES_PER_PEER_MAX.

A peer is an address, as in `wire.peer_connections`. Without TLS all peers are on this machine, and nothing is counted.
"""

import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from urllib.parse import unquote

from leasehold.limits.requests import ANSWERS_BYTES_PER_PEER_MAX, CALLS_PER_PEER_MAX
from leasehold.wire.peer_connections import peer_of


class CallsPerPeer:
    """Any thread may use it."""

    def __init__(
        self,
        *,
        are_counted: bool,
        per_peer_max: int = CALLS_PER_PEER_MAX,
        answers_bytes_max: int = ANSWERS_BYTES_PER_PEER_MAX,
    ) -> None:
        self._are_counted = are_counted
        self._per_peer_max = per_peer_max
        self._answers_bytes_max = answers_bytes_max
        self._lock = threading.Lock()
        self._calls: Counter[str] = Counter()
        self._answer_bytes: Counter[str] = Counter()

    @contextmanager
    def counted(self, peer: str) -> Generator[bool]:
        """Around a call of this peer; yields whether there is room for it."""
        has_room = self.begin(peer)
        try:
            yield has_room
        finally:
            if has_room:
                self.end(peer)

    def begin(self, peer: str) -> bool:
        """Whether there is room for a call of this peer; if so, it has to `end`."""
        with self._lock:
            return _add(self._calls, peer, 1, self._per_peer_max) if self._are_counted else True

    def end(self, peer: str) -> None:
        with self._lock:
            _take(self._calls, peer, 1)

    def hold_answer(self, peer: str, size_bytes: int) -> bool:
        """Whether there is room for an answer to this peer; if so, it has to be dropped. A single one always has."""
        with self._lock:
            most = max(self._answers_bytes_max, size_bytes)
            return _add(self._answer_bytes, peer, size_bytes, most) if self._are_counted else True

    def drop_answer(self, peer: str, size_bytes: int) -> None:
        with self._lock:
            _take(self._answer_bytes, peer, size_bytes)


def _add(counter: Counter[str], peer: str, more: int, most: int) -> bool:
    has_room = counter[peer] + more <= most
    if has_room:
        counter[peer] += more
    elif not counter[peer]:
        del counter[peer]
    return has_room


def _take(counter: Counter[str], peer: str, less: int) -> None:
    if peer in counter:  # else nothing is counted
        counter[peer] -= less
        if not counter[peer]:
            del counter[peer]


def calling_peer(said: str) -> str:
    """The peer of a call, from what gRPC says: `ipv4:192.0.2.1:50051` or `ipv6:%5B2001:db8::1%5D:50051`. Empty if gRPC
    does not know the address."""
    try:
        return peer_of(unquote(said).partition(":")[2].rpartition(":")[0].strip("[]"))
    except ValueError:
        return ""
