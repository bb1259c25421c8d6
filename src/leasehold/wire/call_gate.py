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
address, or a user who is known. A call that waits has no thread, and scans of users are decided on inside the gate too:
hundreds of threads at once would wait for each other's locks. Somebody has to `look` from time to time for calls that
give way.
"""  # noqa: E501 a row of a table is one line

import threading
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from leasehold.wire.call_watch import WatchedCall

CallTurn: TypeAlias = Callable[[bool], None]
_NOT_READ = 2**63
"""Stands in the place of the time since which a call is read, before and after that."""


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
        self._waiting: dict[str, dict[WatchedCall, CallTurn]] = {}
        """Of calls by their peers, both in order of arrival."""
        self._waits_as: dict[WatchedCall, str] = {}
        """The peer of each call that waits."""
        self._inside: dict[WatchedCall, _OpeningCall] = {}
        self._inside_of = Counter[str]()

    def enter(self, call: WatchedCall, peer: str, turn: CallTurn) -> None:
        """Calls `turn` once, on any thread: with True when it is the call's turn, or with False if it gives way. The
        call has to `leave` in any case; until then it waits or is inside."""
        with self._lock:
            self._waiting.setdefault(peer, {})[call] = turn
            self._waits_as[call] = peer
            self._let_in()
            if len(self._waits_as) > self._waiting_max:
                self._displace()

    def reads(self, call: WatchedCall) -> None:
        """From now on its first message is waited for."""
        with self._lock:
            self._is_read_since(call, self._now_ns())

    def has_read(self, call: WatchedCall) -> None:
        """The first message has come. The call stays inside until the server has decided on it."""
        with self._lock:
            self._is_read_since(call, _NOT_READ)

    def leave(self, call: WatchedCall) -> None:
        """Makes room, or ends its wait; no effect for a call that neither waits nor is inside."""
        with self._lock:
            if call in self._waits_as:
                self._take(call)
            self._goes_out(call)
            self._let_in()

    def look(self) -> None:
        """Ends calls that keep others waiting."""
        with self._lock:
            slow = self._slow(self._now_ns())
            for call in slow:
                self._goes_out(call)
            self._let_in()
        for call in slow:
            call.cancel()

    def _slow(self, now_ns: int) -> list[WatchedCall]:
        """Those that give way now."""
        late = [call for call in self._inside if self._is_read_for(call, self._patience_ns, now_ns)]
        if late:
            return late[: len(self._waits_as)]
        by_peer: dict[str, list[WatchedCall]] = {}
        for call in sorted(self._inside, key=lambda one: self._inside[one].since_ns):
            by_peer.setdefault(self._inside[call].peer, []).append(call)
        found: list[WatchedCall] = []
        for _ in range(sum(peer not in by_peer for peer in self._waiting)):
            due = [one for one in by_peer.values() if len(one) > 1 and self._is_read_for(one[0], self._turn_ns, now_ns)]
            if not due:
                break
            found.append(max(due, key=len).pop(0))
        return found

    def _is_read_for(self, call: WatchedCall, time_ns: int, now_ns: int) -> bool:
        """For so long, at least."""
        return self._inside[call].since_ns <= now_ns - time_ns

    def _is_read_since(self, call: WatchedCall, since_ns: int) -> None:
        if (found := self._inside.get(call)) is not None:
            self._inside[call] = found._replace(since_ns=since_ns)

    def _let_in(self) -> None:
        while self._waiting and len(self._inside) < self._opening_max:
            peer = min(self._waiting, key=self._inside_of.__getitem__)
            call = next(iter(self._waiting[peer]))
            turn = self._take(call)
            if peer in self._waiting:
                self._waiting[peer] = self._waiting.pop(peer)  # behind the other peers
            self._inside[call] = _OpeningCall(peer, _NOT_READ)
            self._inside_of[peer] += 1
            turn(True)

    def _goes_out(self, call: WatchedCall) -> None:
        found = self._inside.pop(call, None)
        if found is not None:
            self._inside_of[found.peer] -= 1
            if not self._inside_of[found.peer]:
                del self._inside_of[found.peer]

    def _displace(self) -> None:
        heaviest = max(self._waiting, key=lambda peer: len(self._waiting[peer]))
        self._take(next(iter(self._waiting[heaviest])))(False)

    def _take(self, call: WatchedCall) -> CallTurn:
        """It waits no more."""
        peer = self._waits_as.pop(call)
        theirs = self._waiting[peer]
        turn = theirs.pop(call)
        if not theirs:
            del self._waiting[peer]
        return turn
