"""Answers of a coordinator that its clients have not taken, bounded for each peer and for all peers together.

| a further answer | what happens |
| --- | --- |
| its peer would have more than ANSWERS_BYTES_PER_PEER_MAX | it is refused, unless it is the only one of its peer |
| all peers would have more than ANSWERS_BYTES_MAX, and its peer has most | it is refused |
| the same, and another peer has most | the connections of that peer that hold answers are ended |

Only the end of its connection, or of its call, frees an answer that was queued. A peer that holds nothing is never
refused, so an honest peer does not wait for others that take nothing. Without TLS all peers are on this machine, and
nothing is counted.
"""

from collections.abc import Callable, Collection

from leasehold.limits.requests import ANSWER_CALL_BYTES, ANSWERS_BYTES_MAX, ANSWERS_BYTES_PER_PEER_MAX


class UntakenAnswers:
    """For one event loop. A connection is named as `IncomingCall.peer` names it; `end` ends connections soon."""

    def __init__(
        self,
        *,
        are_counted: bool,
        end: Callable[[Collection[str]], None],
        per_peer_max: int = ANSWERS_BYTES_PER_PEER_MAX,
        bytes_max: int = ANSWERS_BYTES_MAX,
        call_bytes: int = ANSWER_CALL_BYTES,
    ) -> None:
        self._are_counted = are_counted
        self._end = end
        self._per_peer_max = per_peer_max
        self._bytes_max = bytes_max
        self._call_bytes = call_bytes
        self._held: dict[str, dict[str, int]] = {}
        """Bytes by peer and connection."""
        self._held_by: dict[str, int] = {}
        """Bytes by peer."""
        self._ending: dict[str, int] = {}
        """Bytes of the connections that end: soon they hold nothing."""

    def hold(self, peer: str, connection: str, size_bytes: int) -> bool:
        """Whether there is room for an answer; if so, it has to be dropped."""
        if not self._are_counted:
            return True
        size = size_bytes + self._call_bytes
        mine = self._held_by.get(peer, 0)
        if connection in self._ending or (mine and mine + size > self._per_peer_max):
            return False
        while self._held and sum(self._held_by.values()) + size > self._bytes_max:
            most = max(self._held_by, key=self._held_by.__getitem__)
            if self._held_by[most] <= mine:
                return False
            del self._held_by[most]
            ended = self._held.pop(most)
            self._ending.update(ended)
            self._end(ended.keys())
        held = self._held.setdefault(peer, {})
        held[connection] = held.get(connection, 0) + size
        self._held_by[peer] = mine + size
        return True

    def drop(self, peer: str, connection: str, size_bytes: int) -> None:
        """An answer that was held has gone, or its connection has."""
        if not self._are_counted:
            return
        size = size_bytes + self._call_bytes
        if connection in self._ending:
            _take(self._ending, connection, size)
            return
        _take(self._held[peer], connection, size)
        if not self._held[peer]:
            del self._held[peer]
        _take(self._held_by, peer, size)


def _take(held: dict[str, int], key: str, size: int) -> None:
    held[key] -= size
    assert held[key] >= 0, "each answer is dropped once"
    if not held[key]:
        del held[key]
