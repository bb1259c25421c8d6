"""Whose bytes a server looks at next: peers share its time.

What a peer sends may cost its server much or little, and a stranger chooses what. So the server counts the time that it
has really worked for each sharer. While bytes wait, it looks next at those of the sharer that has taken least. One that
has asked for nothing of late has a turn at once, however many others flood the server. All peers of a user are one
sharer, and take turns among themselves; any other peer is one with all its connections. Users and members
(`wire/known_peers.py`) have a larger share than strangers, and their turns come before those of strangers that come at
the same time.

A stranger that has used less than strangers may is a newcomer: it has up to NEWCOMER_NS in hand, and goes before all
others, so that its first requests need not wait for those of a crowd that wants ever more, be they strangers or users.
All newcomers together use at most half of the time so; then they wait with the others.

A turn ends after TURN_NS, or with the piece that is looked at then. Then the loop does all else that is due. What
members say never waits here. Who has taken much more than a share owes DEBT_NS_MAX at most: nobody else may have wanted
it until then.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable
from operator import itemgetter
from typing import Generic, TypeVar

from leasehold.limits.http2 import (
    DEBT_NS_MAX,
    NEWCOMER_NS,
    NEWCOMERS_NS,
    SHARERS_REMEMBERED,
    STRANGERS_LATER_NS,
    TURN_NS,
)

T = TypeVar("T")


class FairTurns(Generic[T]):
    """Start-time fair queueing (Goyal, Vin and Cheng, 1996). It has no clock: it hears what has been spent.

    `sharer` tells as whom a peer shares, and `weight` how many times a stranger's share that one has."""

    def __init__(
        self, sharer: Callable[[str], str] = lambda peer: peer, weight: Callable[[str], int] = lambda _: 1
    ) -> None:
        self.left_ns = TURN_NS
        """Of this turn."""
        self._sharer = sharer
        self._weight = weight
        self._spent_ns: dict[str, int] = {}
        """Up to where each sharer has used its share."""
        self._now_ns = 0
        """Up to where that sharer had used its share that was looked at last."""
        self._for_newcomers_ns = NEWCOMERS_NS
        """What newcomers may still use before others."""
        self._forgot_ns = -NEWCOMER_NS
        """Up to where those have used their shares that were forgotten last, at most."""
        self._waiting: dict[str, OrderedDict[str, dict[T, None]]] = {}
        """The connections that wait, by sharer and by peer."""
        self._waits_as: dict[T, str] = {}
        """The sharer of each of them, as it was when it began to wait."""
        self._newcomers: list[tuple[int, int, str]] = []
        """A heap of the newcomers that wait, by what they had used when they were put there; with their numbers."""
        self._order: list[tuple[int, int, int, str]] = []
        """A heap of all that wait, newcomers too, by when they are due, then by what they had used."""
        self._number_of: dict[str, int] = {}
        """With which number each one that waits was put there last; others are void."""
        self._numbered = 0

    def __len__(self) -> int:
        """Of how many sharers it knows what they have used."""
        return len(self._spent_ns)

    def may_go(self) -> bool:
        """Whether bytes that have come now may be looked at now."""
        return self.left_ns > 0 and not self._waiting

    def wait(self, peer: str, one: T) -> None:
        """`one` is a connection of this peer, and waits for its turn."""
        sharer = self._waits_as[one] = self._sharer(peer)
        if sharer not in self._waiting:
            self._waiting[sharer] = OrderedDict()
            self._put(sharer)
        self._waiting[sharer].setdefault(peer, {})[one] = None

    def forget(self, peer: str, one: T) -> None:
        """`one` waits no more. No effect if it does not wait."""
        sharer = self._waits_as.pop(one, None)
        if sharer is not None:
            self._take(self._waiting[sharer], peer, one)

    def spend(self, peer: str, spent_ns: int, *, is_of_turn: bool = True) -> None:
        """The server has worked for so long for the peer: in this turn, or on other threads."""
        if is_of_turn:
            self.left_ns -= spent_ns
        sharer = self._sharer(peer)
        used_ns = self._used_ns(sharer)
        if self._for_newcomers_ns <= 0:
            used_ns = max(used_ns, self._now_ns)
        self._spent_ns[sharer] = used_ns + spent_ns // self._weight(sharer)
        in_hand_ns = max(0, self._now_ns - used_ns)
        self._for_newcomers_ns = max(-NEWCOMERS_NS, self._for_newcomers_ns - min(spent_ns, in_hand_ns))

    def give_back(self, peer: str, unused_ns: int) -> None:
        """So much of what the peer has spent was not used. It makes nobody a newcomer."""
        sharer = self._sharer(peer)
        if sharer in self._spent_ns:
            spent_ns = self._used_ns(sharer)
            less_ns = spent_ns - unused_ns // self._weight(sharer)
            self._spent_ns[sharer] = max(less_ns, min(spent_ns, self._now_ns))

    def begin(self, passed_ns: int) -> None:
        """A turn begins, so long after the one before."""
        self.left_ns = TURN_NS
        self._for_newcomers_ns = min(NEWCOMERS_NS, self._for_newcomers_ns + passed_ns // 2)
        if not self._waiting:
            self._now_ns += passed_ns
        if len(self._spent_ns) > 2 * SHARERS_REMEMBERED:
            used_most = heapq.nlargest(SHARERS_REMEMBERED, self._spent_ns.items(), key=itemgetter(1))
            self._spent_ns, self._forgot_ns = dict(used_most), used_most[-1][1]

    def next(self) -> T | None:
        """Whose turn it is; None if this turn is over, or nobody waits."""
        while self._waiting and self.left_ns > 0:
            sharer = self._next_newcomer() or self._next_in_order()
            if sharer is None:
                continue
            theirs = self._waiting[sharer]
            if not theirs:
                self._end_wait(sharer)
                continue
            self._now_ns = max(self._now_ns, self._used_ns(sharer))
            peer, of_peer = next(iter(theirs.items()))
            one = next(iter(of_peer))
            theirs.move_to_end(peer)
            self._take(theirs, peer, one)
            del self._waits_as[one]
            if theirs:
                self._put(sharer)
            else:
                self._end_wait(sharer)
            return one
        return None

    def _next_newcomer(self) -> str | None:
        """That which has used least, if newcomers may still go before others."""
        while self._newcomers and self._for_newcomers_ns > 0:
            used_before_ns, number, sharer = heapq.heappop(self._newcomers)
            if self._number_of.get(sharer) != number or self._used_ns(sharer) >= self._now_ns:
                continue  # it waits no more, or only in order
            if not self._has_spent(sharer, used_before_ns):
                return sharer
            self._put(sharer)
        return None

    def _next_in_order(self) -> str | None:
        """Who is due; None if somebody was looked at who waits no more, or has spent more since."""
        _, used_before_ns, number, sharer = heapq.heappop(self._order)
        if self._number_of.get(sharer) != number:
            return None
        if not self._has_spent(sharer, used_before_ns):
            return sharer
        self._put(sharer)
        return None

    def _has_spent(self, sharer: str, used_before_ns: int) -> bool:
        """Whether it has used more since then, and has not only lost what it had not used."""
        used_ns = self._used_ns(sharer)
        return used_ns > used_before_ns and used_ns == self._spent_ns.get(sharer)

    def _end_wait(self, sharer: str) -> None:
        del self._waiting[sharer], self._number_of[sharer]
        if not self._waiting:  # what is left is void
            self._order.clear()
            self._newcomers.clear()

    @staticmethod
    def _take(theirs: OrderedDict[str, dict[T, None]], peer: str, one: T) -> None:
        del theirs[peer][one]
        if not theirs[peer]:
            del theirs[peer]

    def _put(self, sharer: str) -> None:
        self._numbered += 1
        self._number_of[sharer] = self._numbered
        used_ns = self._used_ns(sharer)
        due_ns = max(used_ns, self._now_ns) + (STRANGERS_LATER_NS if self._weight(sharer) == 1 else 0)
        heapq.heappush(self._order, (due_ns, used_ns, self._numbered, sharer))
        if used_ns < self._now_ns:
            heapq.heappush(self._newcomers, (used_ns, self._numbered, sharer))

    def _used_ns(self, sharer: str) -> int:
        """Up to where it has used its share. What it has not used is lost, but for what a newcomer has in hand; and it
        owes no more than DEBT_NS_MAX."""
        weight = self._weight(sharer)
        in_hand_ns = NEWCOMER_NS if weight == 1 else 0
        used_ns = max(self._spent_ns.get(sharer, self._forgot_ns), self._now_ns - in_hand_ns)
        return min(used_ns, self._now_ns + DEBT_NS_MAX // weight)
