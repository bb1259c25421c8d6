"""Calls that a server has accepted and no handler has begun: they wait, or they are gone.

Calls are gone that the server refused since it held too many, that were taken back, or whose peer is banned. Nobody
says how many these are. So if more than BACKLOG_CALLS_MAX may wait, each connection is asked how many of its calls are
open: those that no handler has begun wait. All others are gone.

One burst of honest clients is begun within half a second. So it takes two asks in a row until too many wait.
"""

import threading
from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple, Protocol

from leasehold.limits.bans import BACKLOG_ASK_EACH_NS, BACKLOG_ASKED_NS, BACKLOG_CALLS_MAX, BACKLOG_RECENT_NS
from leasehold.wire.own_sockets import FarEnd


class CallsOfConnection(NamedTuple):
    """Those that a server has accepted."""

    in_all: int
    open: int
    """They have not ended."""


def calls_of_far_ends(found: Iterable[tuple[FarEnd, CallsOfConnection]]) -> dict[FarEnd, CallsOfConnection]:
    """By the other end; a peer may have connections to both doors from one port."""
    counted: dict[FarEnd, CallsOfConnection] = {}
    for far, calls in found:
        known = counted.get(far, CallsOfConnection(0, 0))
        counted[far] = CallsOfConnection(known.in_all + calls.in_all, known.open + calls.open)
    return counted


class CountsCalls(Protocol):
    """As `DoorServer`."""

    def of_all(self) -> int: ...

    def of_connections(self) -> dict[FarEnd, CallsOfConnection]: ...


class Unbegun(NamedTuple):
    """Calls of each connection that is open."""

    waiting: dict[FarEnd, int]
    """Empty if they are not too many, or were not when it was asked before."""
    newly_gone: dict[FarEnd, int]
    """Since it was asked before; empty if that was long ago."""


class Backlog:
    """Of one server."""

    def __init__(self, accepted: CountsCalls) -> None:
        self._accepted = accepted
        self._lock = threading.Lock()
        self._begun = Counter[FarEnd]()
        self._under_way = Counter[FarEnd]()
        """Those that have begun and not ended."""
        self._begun_in_all = 0
        self._known_gone = 0
        self._gone_of: dict[FarEnd, int] = {}
        self._were_too_many = False
        self._asked_ns: int | None = None
        self._ask_ns = 0
        self._closed: frozenset[FarEnd] = frozenset()

    def begin(self, connection: FarEnd) -> None:
        """A call has begun there; it is to `end`. Any thread may say so."""
        with self._lock:
            self._begun_in_all += 1
            self._begun[connection] += 1
            self._under_way[connection] += 1

    def end(self, connection: FarEnd) -> None:
        with self._lock:
            self._under_way[connection] -= 1
            if self._under_way[connection] <= 0:
                del self._under_way[connection]

    def forget(self, open_now: Collection[FarEnd]) -> None:
        """At each look: others are closed, if they were not open at the look before either."""
        with self._lock:
            closed = frozenset(self._begun.keys() - open_now - self._under_way.keys())
            for one in closed & self._closed:
                del self._begun[one]
        self._closed = closed

    def look(self, now_ns: int) -> Unbegun | None:
        """None if so few may wait that nobody is asked."""
        if now_ns < self._ask_ns:
            return None
        unbegun = self._accepted.of_all() - self._begun_in_all
        if unbegun - self._known_gone <= BACKLOG_CALLS_MAX:
            self._were_too_many = False
            return None
        with self._lock:
            begun, before = self._begun.copy(), self._under_way.copy()
        accepted = self._accepted.of_connections()
        with self._lock:
            after = self._under_way.copy()
        self._ask_ns = now_ns + max(BACKLOG_ASKED_NS, len(accepted) * BACKLOG_ASK_EACH_NS)
        is_recent = self._asked_ns is not None and now_ns <= self._asked_ns + BACKLOG_RECENT_NS
        self._asked_ns = now_ns
        # Calls end while the connections are asked: neither as waiting nor as gone may too many be counted.
        waiting = {far: _waiting(calls, begun[far], before[far]) for far, calls in accepted.items()}
        at_most = {far: _waiting(calls, begun[far], min(before[far], after[far])) for far, calls in accepted.items()}
        gone_before = self._gone_of
        self._gone_of = {far: calls.in_all - begun[far] - at_most[far] for far, calls in accepted.items()}
        self._known_gone = max(0, unbegun - sum(at_most.values()))
        were_too_many, self._were_too_many = self._were_too_many, sum(waiting.values()) > BACKLOG_CALLS_MAX
        return Unbegun(
            waiting if were_too_many and self._were_too_many else {},
            {far: max(0, gone - gone_before.get(far, 0)) for far, gone in self._gone_of.items()} if is_recent else {},
        )

    def give_way(self, calls: int) -> None:
        """So many of those that wait are of peers that are banned now."""
        self._known_gone += calls


def _waiting(calls: CallsOfConnection, begun: int, under_way: int) -> int:
    """A call that its client has cancelled is open until its handler ends."""
    return max(0, min(calls.open - under_way, calls.in_all - begun))
