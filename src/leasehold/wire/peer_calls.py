"""Calls of one peer to a server: at most CALLS_PER_PEER_MAX are under way, and a further one is answered BUSY.

A peer is an address, as in `wire.peer_connections`. Without TLS all peers are on this machine, and nothing is counted.
"""

import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from urllib.parse import unquote

from leasehold.limits.requests import CALLS_PER_PEER_MAX
from leasehold.wire.peer_connections import peer_of


class CallsPerPeer:
    """Any thread may use it."""

    def __init__(self, *, are_counted: bool, per_peer_max: int = CALLS_PER_PEER_MAX) -> None:
        self._are_counted = are_counted
        self._per_peer_max = per_peer_max
        self._lock = threading.Lock()
        self._calls: Counter[str] = Counter()

    @contextmanager
    def counted(self, peer: str) -> Generator[bool]:
        """Around a call of this peer; yields whether there is room for it."""
        if not self._are_counted:
            yield True
            return
        with self._lock:
            has_room = self._calls[peer] < self._per_peer_max
            self._calls[peer] += has_room
        try:
            yield has_room
        finally:
            with self._lock:
                self._calls[peer] -= has_room
                if not self._calls[peer]:
                    del self._calls[peer]


def calling_peer(said: str) -> str:
    """The peer of a call, from what gRPC says: `ipv4:192.0.2.1:50051` or `ipv6:%5B2001:db8::1%5D:50051`. Empty if gRPC
    does not know the address."""
    try:
        return peer_of(unquote(said).partition(":")[2].rpartition(":")[0].strip("[]"))
    except ValueError:
        return ""
