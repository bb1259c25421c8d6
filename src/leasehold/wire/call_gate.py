"""A gate for calls that begin: the first messages of only a few calls at a time are read.

A whole message comes before a handler has any part of it. Only little is taken in of a call whose messages nobody
reads. So the number of calls inside the gate bounds the memory that first messages take, whoever sends
them.

| a call | until | gives way |
| --- | --- | --- |
| waits | there is room inside, and it is the turn of its peer | the oldest of the peer with the most waiting calls, where more than `waiting_max` wait |
| is read | its first message has come | while others wait, once it has been read for `patience_ns`; or for `turn_ns`, if its peer has several calls inside and another peer waits that has none |
| is decided on | the server has taken or refused it | never |

Peers take turns: room goes to the peer with the fewest calls inside, and to its calls in order of arrival. A peer is an
address, or a user who is known. Scans of users are decided on inside the gate too: hundreds of threads that read the
vault at once would wait for each other.
"""  # noqa: E501 a row of a table is one line

import threading
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from leasehold.limits.units import SECOND_NS
from leasehold.wire.call_watch import WatchedCall

_DECIDED_ON = 2**63
"""Stands in the place of the time since which a call is read."""


class _WaitingCall(NamedTuple):
    peer: str
    turn: threading.Event


class _OpeningCall(NamedTuple):
    peer: str
    since_ns: int
    """Since when it is read."""


class CallGate:
    """Any thread may use it."""

    def __init__(
        self, *, opening_max: int, waiting_max: int, patience_ns: int, turn_ns: int, now_ns: Callable[[], int]
    ) -> None:
        self._opening_max = opening_max
        self._waiting_max = waiting_max
        self._patience_ns = patience_ns
        self._turn_ns = min(turn_ns, patience_ns)
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._waiting: dict[WatchedCall, _WaitingCall] = {}
        self._inside: dict[WatchedCall, _OpeningCall] = {}

    def enter(self, call: WatchedCall, peer: str) -> bool:
        """Waits for the call's turn; False if it gave way or ended first. A call that entered has to `leave`."""
        turn = threading.Event()
        with self._lock:
            self._waiting[call] = _WaitingCall(peer, turn)
            self._let_in()
            if len(self._waiting) > self._waiting_max:
                self._displace()
        call.at_end(turn.set)
        while not turn.wait(self._look_ns(peer) / SECOND_NS):
            self._hurry(peer)
        with self._lock:
            self._waiting.pop(call, None)
            return call in self._inside

    def has_read(self, call: WatchedCall) -> None:
        """The first message has come. The call stays inside until the server has decided on it."""
        with self._lock:
            if (found := self._inside.get(call)) is not None:
                self._inside[call] = found._replace(since_ns=_DECIDED_ON)

    def leave(self, call: WatchedCall) -> None:
        """Makes room; no effect for a call that is not inside."""
        with self._lock:
            self._inside.pop(call, None)
            self._let_in()

    def _let_in(self) -> None:
        while self._waiting and len(self._inside) < self._opening_max:
            inside = Counter(one.peer for one in self._inside.values())
            call = min(self._waiting, key=lambda one: inside[self._waiting[one].peer])
            peer, turn = self._waiting.pop(call)
            self._inside[call] = _OpeningCall(peer, self._now_ns())
            turn.set()

    def _displace(self) -> None:
        waiting = Counter(one.peer for one in self._waiting.values())
        oldest = max(self._waiting, key=lambda one: waiting[self._waiting[one].peer])
        self._waiting.pop(oldest).turn.set()

    def _look_ns(self, peer: str) -> int:
        """How long a call that waits leaves the others alone. Only the first calls of a peer look often: a flood is of
        many calls."""
        with self._lock:
            return self._patience_ns if any(one.peer == peer for one in self._inside.values()) else self._turn_ns

    def _hurry(self, peer: str) -> None:
        """Ends calls that keep others waiting, and one that keeps this peer from its first turn."""
        now_ns = self._now_ns()
        with self._lock:
            late = [call for call, one in self._inside.items() if one.since_ns <= now_ns - self._patience_ns]
            slow = late[: len(self._waiting)] or self._in_turn_of(peer, now_ns)
            for call in slow:
                del self._inside[call]
            self._let_in()
        for call in slow:
            call.cancel()

    def _in_turn_of(self, peer: str, now_ns: int) -> list[WatchedCall]:
        """The call that has been read for longest of the peer with the most of them, if this one has none inside."""
        inside = Counter(one.peer for one in self._inside.values())
        heaviest, count = inside.most_common(1)[0] if inside else (peer, 0)
        if inside[peer] or count < 2 or all(one.peer != peer for one in self._waiting.values()):
            return []
        of_it = [(one.since_ns, call) for call, one in self._inside.items() if one.peer == heaviest]
        since_ns, call = min(of_it, key=lambda one: one[0])
        return [call] if since_ns <= now_ns - self._turn_ns else []
