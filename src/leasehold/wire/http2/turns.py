"""Whose bytes a server looks at next: peers share its time.

What a peer sends may cost its server much or little, and a stranger chooses what. So the time is counted that each one
has really taken, and while bytes wait, those of the one that has taken least are looked at next. Whoever has asked for
nothing of late has a turn at once, however many others flood the server. All peers of a user share as one, and take
turns among themselves; so do all connections of another peer. Users and members (`wire/known_peers.py`) have a larger
share than strangers, and their turns come before those of strangers that come at the same time.

A stranger that was quiet is a newcomer: it has NEWCOMER_NS in hand, and goes before all others, so that its first
requests need not wait for those of a crowd that wants ever more, be they strangers or users. All newcomers together use
at most half of the time so.

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
        """Up to where each sharer has used its share; what it has not used for long is lost."""
        self._now_ns = 0
        """Up to where the one has used its share whose turn it is."""
        self._for_newcomers_ns = NEWCOMERS_NS
        """What newcomers may still use before others."""
        self._forgot_ns = -NEWCOMER_NS
        """Up to where those have used their shares that were forgotten last, at most."""
        self._waiting: dict[str, OrderedDict[str, dict[T, None]]] = {}
        """The connections that wait, by sharer and by peer."""
        self._waits_as: dict[T, str] = {}
        """The sharer of each of them, as it was when it began to wait."""
        self._order: list[tuple[bool, int, int, int, str]] = []
        """A heap of the sharers that wait: newcomers first, by what they had used when they were put there; others by
        when they were due, then by what they had used."""
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
        """Outside of a turn, other threads have worked."""
        if is_of_turn:
            self.left_ns -= spent_ns
        sharer = self._sharer(peer)
        weight, used_ns = self._weight(sharer), self._used_ns(sharer)
        spent = used_ns + spent_ns // weight
        self._spent_ns[sharer] = min(spent, self._now_ns + DEBT_NS_MAX // weight)
        if used_ns < self._now_ns:
            self._for_newcomers_ns -= spent_ns

    def give_back(self, peer: str, unused_ns: int) -> None:
        """So much of what the peer has spent was not used."""
        sharer = self._sharer(peer)
        if sharer in self._spent_ns:
            self._spent_ns[sharer] -= unused_ns // self._weight(sharer)

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
        while self._order and self.left_ns > 0:
            is_later, _, used_before_ns, _, sharer = heapq.heappop(self._order)
            theirs = self._waiting[sharer]
            if not theirs:
                del self._waiting[sharer]
                continue
            used_ns = self._used_ns(sharer)
            has_spent = used_ns > used_before_ns and used_ns == self._spent_ns.get(sharer)
            if has_spent or not (is_later or self._is_newcomer(sharer)):
                self._put(sharer)
                continue
            self._now_ns = max(self._now_ns, used_ns)
            peer, of_peer = next(iter(theirs.items()))
            one = next(iter(of_peer))
            theirs.move_to_end(peer)
            self._take(theirs, peer, one)
            del self._waits_as[one]
            if theirs:
                self._put(sharer)
            else:
                del self._waiting[sharer]
            return one
        return None

    @staticmethod
    def _take(theirs: OrderedDict[str, dict[T, None]], peer: str, one: T) -> None:
        del theirs[peer][one]
        if not theirs[peer]:
            del theirs[peer]

    def _put(self, sharer: str) -> None:
        self._numbered += 1
        used_ns, is_later = self._used_ns(sharer), not self._is_newcomer(sharer)
        due_ns = used_ns
        if is_later:
            due_ns = max(used_ns, self._now_ns) + (STRANGERS_LATER_NS if self._weight(sharer) == 1 else 0)
        heapq.heappush(self._order, (is_later, due_ns, used_ns, self._numbered, sharer))

    def _is_newcomer(self, sharer: str) -> bool:
        return self._used_ns(sharer) < self._now_ns

    def _used_ns(self, sharer: str) -> int:
        """Up to where it has used its share, or has lost it."""
        has_credit = self._for_newcomers_ns > 0 and self._weight(sharer) == 1
        lost_ns = self._now_ns - (NEWCOMER_NS if has_credit else 0)
        return max(self._spent_ns.get(sharer, self._forgot_ns), lost_ns)
