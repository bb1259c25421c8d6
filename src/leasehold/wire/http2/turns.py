"""Whose bytes a server looks at next: peers share its time.

What a peer sends may cost its server much or little, and a stranger chooses what. So the time that each peer has really
taken is counted, and while bytes wait, those of the peer that has taken least are looked at next. A peer that has asked
for nothing of late has its turn at once, however many others flood the server. A known peer
(`wire/known_peers.py`) has a larger share, and its turn comes before those of strangers that come at the same time. A
stranger has NEWCOMER_NS of its share in hand, so that its first requests need not wait for those of a crowd that wants
ever more; all newcomers together use at most half of the time so.

A turn ends after TURN_NS, or with the piece that is looked at then. Then the loop does all else that is due. What
members say never waits here. A peer that has taken much more than its share owes DEBT_NS_MAX at most: it may have been
alone until then.
"""

import heapq
from collections.abc import Callable
from operator import itemgetter
from typing import Generic, TypeVar

from leasehold.limits.http2 import DEBT_NS_MAX, NEWCOMER_NS, NEWCOMERS_NS, PEERS_REMEMBERED, STRANGERS_LATER_NS, TURN_NS

T = TypeVar("T")


class FairTurns(Generic[T]):
    """Start-time fair queueing (Goyal, Vin and Cheng, 1996). It has no clock: it hears what has been spent. `weight`
    tells how many times a stranger's share a peer has."""

    def __init__(self, weight: Callable[[str], int] = lambda _: 1) -> None:
        self.left_ns = TURN_NS
        """Of this turn."""
        self._weight = weight
        self._spent_ns: dict[str, int] = {}
        """Up to where each peer has used its share; what it has not used for long is lost."""
        self._now_ns = 0
        """Up to where a peer has used its share whose turn it is."""
        self._for_newcomers_ns = NEWCOMERS_NS
        """What newcomers may still use before others."""
        self._forgot_ns = -NEWCOMER_NS
        """Up to where those have used their shares that were forgotten last, at most."""
        self._waiting: dict[str, dict[T, None]] = {}
        self._order: list[tuple[int, int, int, str]] = []
        """A heap of the peers that wait, by when they were due when they were put there; then by what they had used."""
        self._numbered = 0

    def __len__(self) -> int:
        """Of how many peers it knows what they have used."""
        return len(self._spent_ns)

    def may_go(self) -> bool:
        """Whether bytes that have come now may be looked at now."""
        return self.left_ns > 0 and not self._waiting

    def wait(self, peer: str, one: T) -> None:
        """`one` is a connection of this peer, and waits for its turn."""
        if peer not in self._waiting:
            self._waiting[peer] = {}
            self._put(peer)
        self._waiting[peer][one] = None

    def forget(self, peer: str, one: T) -> None:
        """`one` waits no more. No effect if it does not wait."""
        self._waiting.get(peer, {}).pop(one, None)

    def spend(self, peer: str, spent_ns: int, *, is_of_turn: bool = True) -> None:
        """Outside of a turn, other threads have worked."""
        if is_of_turn:
            self.left_ns -= spent_ns
        weight, used_ns = self._weight(peer), self._used_ns(peer)
        spent = used_ns + spent_ns // weight
        self._spent_ns[peer] = min(spent, self._now_ns + DEBT_NS_MAX // weight)
        if used_ns < self._now_ns:
            self._for_newcomers_ns -= spent_ns

    def give_back(self, peer: str, unused_ns: int) -> None:
        """So much of what the peer has spent was not used."""
        if peer in self._spent_ns:
            self._spent_ns[peer] -= unused_ns // self._weight(peer)

    def begin(self, passed_ns: int) -> None:
        """A turn begins, so long after the one before."""
        self.left_ns = TURN_NS
        self._for_newcomers_ns = min(NEWCOMERS_NS, self._for_newcomers_ns + passed_ns // 2)
        if not self._waiting:
            self._now_ns += passed_ns
        if len(self._spent_ns) > 2 * PEERS_REMEMBERED:
            used_most = heapq.nlargest(PEERS_REMEMBERED, self._spent_ns.items(), key=itemgetter(1))
            self._spent_ns, self._forgot_ns = dict(used_most), used_most[-1][1]

    def next(self) -> T | None:
        """Whose turn it is; None if this turn is over, or nobody waits."""
        while self._order and self.left_ns > 0:
            _, used_before_ns, _, peer = heapq.heappop(self._order)
            theirs = self._waiting[peer]
            if not theirs:
                del self._waiting[peer]
                continue
            used_ns = self._used_ns(peer)
            if used_ns > used_before_ns and used_ns == self._spent_ns.get(peer):
                self._put(peer)  # it has spent more since
                continue
            self._now_ns = max(self._now_ns, used_ns)
            one = next(iter(theirs))
            del theirs[one]
            if theirs:
                self._put(peer)
            else:
                del self._waiting[peer]
            return one
        return None

    def _put(self, peer: str) -> None:
        self._numbered += 1
        used_ns = self._used_ns(peer)
        due_ns = max(used_ns, self._now_ns) + (STRANGERS_LATER_NS if self._weight(peer) == 1 else 0)
        heapq.heappush(self._order, (due_ns, used_ns, self._numbered, peer))

    def _used_ns(self, peer: str) -> int:
        """Up to where the peer has used its share, or has lost it."""
        has_credit = self._for_newcomers_ns > 0 and self._weight(peer) == 1
        lost_ns = self._now_ns - (NEWCOMER_NS if has_credit else 0)
        return max(self._spent_ns.get(peer, self._forgot_ns), lost_ns)
