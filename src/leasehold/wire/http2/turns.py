"""Whose bytes a server looks at next: peers share its time.

What a peer sends may cost its server much or little, and a stranger chooses what. So the time that each peer has really
taken is counted, and while bytes wait, those of the peer that has taken least are looked at next. A peer that has asked
for nothing of late has its turn at once, however many others flood the server. Of the time of a known peer
(`wire/known_peers.py`) one part in KNOWN_WEIGHT counts: so strangers leave it most.

A turn ends after TURN_NS, or with the piece that is looked at then. Then the loop does all else that is due. What
members say never waits here. A peer that has taken much more than its share owes DEBT_NS_MAX at most: it may have been
alone until then.
"""

import heapq
from collections import deque
from collections.abc import Container
from typing import Final, Generic, TypeVar

from leasehold.limits.http2 import DEBT_NS_MAX, KNOWN_WEIGHT, PEERS_REMEMBERED, TURN_NS

T = TypeVar("T")
_NOTHING: Final = 0


class FairTurns(Generic[T]):
    """Start-time fair queueing (Goyal, Vin and Cheng, 1996). It has no clock: it hears what has been spent."""

    def __init__(self, known: Container[str] = ()) -> None:
        self.left_ns = TURN_NS
        """Of this turn."""
        self._known = known
        self._spent_ns: dict[str, int] = {}
        """Up to where each peer has used its share; no entry if that is no more than `_now_ns`."""
        self._now_ns = 0
        """Up to where a peer has used its share whose turn it is."""
        self._waiting: dict[str, deque[T]] = {}
        self._order: list[tuple[int, int, str]] = []
        """A heap of the peers that wait, by what they had spent when they were put there."""
        self._numbered = 0

    def may_go(self) -> bool:
        """Whether bytes that have come now may be looked at now."""
        return self.left_ns > 0 and not self._waiting

    def wait(self, peer: str, one: T) -> None:
        """`one` is a connection of this peer, and waits for its turn."""
        if peer not in self._waiting:
            self._waiting[peer] = deque()
            self._put(peer)
        self._waiting[peer].append(one)

    def spend(self, peer: str, spent_ns: int, *, is_of_turn: bool = True) -> None:
        """Outside of a turn, other threads have worked."""
        if is_of_turn:
            self.left_ns -= spent_ns
        spent = max(self._spent_ns.get(peer, _NOTHING), self._now_ns) + self._counted_ns(peer, spent_ns)
        self._spent_ns[peer] = min(spent, self._now_ns + DEBT_NS_MAX)

    def give_back(self, peer: str, unused_ns: int) -> None:
        """So much of what the peer has spent was not used."""
        if peer in self._spent_ns:
            self._spent_ns[peer] -= self._counted_ns(peer, unused_ns)

    def _counted_ns(self, peer: str, spent_ns: int) -> int:
        return spent_ns // KNOWN_WEIGHT if peer in self._known else spent_ns

    def begin(self, passed_ns: int) -> None:
        """A turn begins, so long after the one before."""
        self.left_ns = TURN_NS
        if not self._waiting:
            self._now_ns += passed_ns
        if len(self._spent_ns) > PEERS_REMEMBERED:
            self._spent_ns = {peer: ns for peer, ns in self._spent_ns.items() if ns > self._now_ns}

    def next(self) -> T | None:
        """Whose turn it is; None if this turn is over, or nobody waits."""
        while self._order and self.left_ns > 0:
            put_ns, _, peer = heapq.heappop(self._order)
            spent_ns = self._spent_ns.get(peer, _NOTHING)
            if spent_ns > put_ns and spent_ns > self._now_ns:
                self._put(peer)  # it has spent more since
                continue
            self._now_ns = max(self._now_ns, spent_ns)
            theirs = self._waiting[peer]
            one = theirs.popleft()
            if theirs:
                self._put(peer)
            else:
                del self._waiting[peer]
            return one
        return None

    def _put(self, peer: str) -> None:
        self._numbered += 1
        heapq.heappush(self._order, (self._spent_ns.get(peer, _NOTHING), self._numbered, peer))
