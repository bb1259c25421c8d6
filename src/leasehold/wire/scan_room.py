"""Room in memory for scans: which of them read and send rows, which wait, which give way.

A scan holds the batch that it has decoded, and the message with its rows until the client takes it. So the scans inside
bound the memory that they take, even if nobody reads. Users take turns: room goes to the user with the fewest scans
inside.

| a scan | counts as | until | gives way |
| --- | --- | --- | --- |
| waits | nothing | there is room inside for its first batch | for a user with fewer scans, where `scans_max` wait or are inside |
| decodes its first batch | what that may take at most | it knows how much it holds | never |
| sends | what it holds | its end | while others wait, once its client takes nothing for `patience_ns` |

A scan may hold more than is left: the first one does not wait, and a batch may be larger than the one before.
"""  # noqa: E501 a row of a table is one line

import threading
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from leasehold.limits.units import SECOND_NS
from leasehold.wire.call_watch import WatchedCall

_LOOKS_PER_PATIENCE: Final = 4


class _Waiting(NamedTuple):
    user: str
    size: int
    turn: threading.Event


class _Inside(NamedTuple):
    user: str
    size: int
    is_ending: bool = False


class ScanRoom:
    """Any thread may use it."""

    def __init__(self, *, bytes_max: int, scans_max: int, patience_ns: int, now_ns: Callable[[], int]) -> None:
        self._bytes_max = bytes_max
        self._scans_max = scans_max
        self._patience_ns = patience_ns
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._waiting: dict[WatchedCall, _Waiting] = {}
        self._inside: dict[WatchedCall, _Inside] = {}

    def enter(self, call: WatchedCall, user: str, size: int) -> bool:
        """Waits for room of `size` bytes; False if the scan gave way or ended first. A scan that entered has to
        `leave`."""
        turn = threading.Event()
        with self._lock:
            self._waiting[call] = _Waiting(user, size, turn)
            self._let_in()
            if len(self._waiting) + len(self._inside) > self._scans_max:
                self._displace()
        call.at_end(turn.set)
        while not turn.wait(self._patience_ns / _LOOKS_PER_PATIENCE / SECOND_NS):
            self._hurry()
        with self._lock:
            self._waiting.pop(call, None)
            return call in self._inside

    def hold(self, call: WatchedCall, size: int) -> None:
        """Says how much a scan inside holds from now on."""
        with self._lock:
            if (found := self._inside.get(call)) is not None:
                self._inside[call] = found._replace(size=size)
                self._let_in()

    def leave(self, call: WatchedCall) -> bool:
        """Makes room; no effect for a scan that is not inside. Answers whether it has given way to others."""
        with self._lock:
            found = self._inside.pop(call, None)
            self._let_in()
        return found is not None and found.is_ending

    def _let_in(self) -> None:
        held = sum(one.size for one in self._inside.values())
        while self._waiting:
            call = self._next()
            user, size, turn = self._waiting[call]
            if self._inside and held + size > self._bytes_max:
                return
            del self._waiting[call]
            self._inside[call] = _Inside(user, size)
            held += size
            turn.set()

    def _next(self) -> WatchedCall:
        scans = Counter(one.user for one in self._inside.values())
        return min(self._waiting, key=lambda one: scans[self._waiting[one].user])

    def _displace(self) -> None:
        """Ends the wait of the newest scan of the user with the most scans that wait."""
        waiting = Counter(one.user for one in self._waiting.values())
        heaviest = max(waiting.values(), default=0)
        for call in reversed(self._waiting):
            if waiting[self._waiting[call].user] == heaviest:
                self._waiting.pop(call).turn.set()
                return

    def _hurry(self) -> None:
        """Ends scans that keep the next one waiting, those first whose clients have been silent for longest."""
        late_ns = self._now_ns() - self._patience_ns
        with self._lock:
            if not self._waiting:
                return
            lacking = self._waiting[self._next()].size - self._bytes_max
            lacking += sum(one.size for one in self._inside.values() if not one.is_ending)
            slow = sorted(
                (since, number, call)
                for number, (call, one) in enumerate(self._inside.items())
                if not one.is_ending and (since := call.idle_since_ns) is not None and since <= late_ns
            )
            ending: list[WatchedCall] = []
            for _, _, call in slow:
                if lacking <= 0:
                    break
                self._inside[call] = found = self._inside[call]._replace(is_ending=True)
                lacking -= found.size
                ending.append(call)
        for call in ending:
            call.cancel()
