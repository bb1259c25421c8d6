"""A gate for calls that begin: the first messages of only a few calls at a time are read.

gRPC receives a whole message before it hands any part of it to the server. It buffers only little of a call whose
messages nobody reads. So the number of calls inside the gate bounds the memory that first messages take, whoever sends
them.

| a call | until | gives way |
| --- | --- | --- |
| waits | there is room inside, in order of arrival | the oldest, where more than `waiting_max` wait |
| is read | its first message has come | while others wait, once it has been read for `patience_ns` |
| is decided on | the server has taken or refused it | never |
"""

import threading
from collections.abc import Callable

from leasehold.limits.units import SECOND_NS
from leasehold.wire.call_watch import WatchedCall

_DECIDED_ON = 2**63
"""Stands in the place of the time since which a call is read."""


class CallGate:
    """Any thread may use it."""

    def __init__(self, *, opening_max: int, waiting_max: int, patience_ns: int, now_ns: Callable[[], int]) -> None:
        self._opening_max = opening_max
        self._waiting_max = waiting_max
        self._patience_ns = patience_ns
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._waiting: dict[WatchedCall, threading.Event] = {}
        self._inside: dict[WatchedCall, int] = {}
        """Each with the time since which it is read."""

    def enter(self, call: WatchedCall) -> bool:
        """Waits for the call's turn; False if it gave way or ended first. A call that entered has to `leave`."""
        turn = threading.Event()
        with self._lock:
            self._waiting[call] = turn
            self._let_in()
            if len(self._waiting) > self._waiting_max:
                self._waiting.pop(next(iter(self._waiting))).set()
        call.at_end(turn.set)
        while not turn.wait(self._patience_ns / SECOND_NS):
            self._hurry()
        with self._lock:
            self._waiting.pop(call, None)
            return call in self._inside

    def has_read(self, call: WatchedCall) -> None:
        """The first message has come. The call stays inside until the server has decided on it."""
        with self._lock:
            if call in self._inside:
                self._inside[call] = _DECIDED_ON

    def leave(self, call: WatchedCall) -> None:
        """Makes room; no effect for a call that is not inside."""
        with self._lock:
            self._inside.pop(call, None)
            self._let_in()

    def _let_in(self) -> None:
        while self._waiting and len(self._inside) < self._opening_max:
            call = next(iter(self._waiting))
            self._inside[call] = self._now_ns()
            self._waiting.pop(call).set()

    def _hurry(self) -> None:
        """Ends calls that keep others waiting."""
        late_ns = self._now_ns() - self._patience_ns
        with self._lock:
            slow = [call for call, since_ns in self._inside.items() if since_ns <= late_ns][: len(self._waiting)]
            for call in slow:
                del self._inside[call]
            self._let_in()
        for call in slow:
            call.cancel()
