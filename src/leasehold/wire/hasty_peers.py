"""Peers that connect again and again for nothing: they end their connections before TLS is done.

Each of these counts, and rest makes the count smaller. From HASTY_CONNECTIONS on a peer is hasty, until its count is 0.
"""

from leasehold.limits.http2 import HASTY_CONNECTIONS, HASTY_CONNECTIONS_MAX


class HastyPeers:
    """The caller bounds how many peers there are."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._hasty: set[str] = set()

    def __contains__(self, peer: str) -> bool:
        return peer in self._hasty

    def came_to_nothing(self, peer: str) -> bool:
        """Whether the peer is hasty from now on."""
        count = min(HASTY_CONNECTIONS_MAX, self._counts.get(peer, 0) + 1)
        self._counts[peer] = count
        is_new = count >= HASTY_CONNECTIONS and peer not in self._hasty
        if is_new:
            self._hasty.add(peer)
        return is_new

    def forget(self, peer: str) -> None:
        self._counts.pop(peer, None)
        self._hasty.discard(peer)

    def rested(self, connections: int) -> bool:
        """Each peer is forgiven so many. Answers whether one is hasty no more."""
        before = len(self._hasty)
        self._counts = {peer: count - connections for peer, count in self._counts.items() if count > connections}
        self._hasty &= self._counts.keys()
        return len(self._hasty) < before
