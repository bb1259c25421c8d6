"""Calls of one peer to a node: at most CALLS_PER_PEER_MAX are under way.

A peer is an address, as in `wire.peers`. Without TLS all peers are on this machine, and nothing is counted.
"""

import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from leasehold.limits.requests import CALLS_PER_PEER_MAX


class CallsPerPeer:
    """Any thread may use it."""

    def __init__(
        self,
        *,
        are_counted: bool,
        per_peer_max: int = CALLS_PER_PEER_MAX,
    ) -> None:
        self._are_counted = are_counted
        self._per_peer_max = per_peer_max
        self._lock = threading.Lock()
        self._calls: Counter[str] = Counter()

    def alike(self, per_peer_max: int | None = None) -> "CallsPerPeer":
        """Counts where this one counts, by itself; a peer is what its callers take for one."""
        return CallsPerPeer(are_counted=self._are_counted, per_peer_max=per_peer_max or self._per_peer_max)

    @contextmanager
    def counted(self, peer: str) -> Generator[bool]:
        """Around a call of this peer; yields whether there is room for it."""
        has_room = self._begin(peer)
        try:
            yield has_room
        finally:
            if has_room:
                self._end(peer)

    def _begin(self, peer: str) -> bool:
        with self._lock:
            has_room = not self._are_counted or self._calls[peer] < self._per_peer_max
            if has_room and self._are_counted:
                self._calls[peer] += 1
            return has_room

    def _end(self, peer: str) -> None:
        with self._lock:
            self._calls[peer] -= 1  # below zero if nothing is counted
            if self._calls[peer] <= 0:
                del self._calls[peer]
