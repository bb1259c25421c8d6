"""Room in memory for scans: which of them read and send rows, which wait, which give way.

A scan holds the batch that it has decoded, and the message with its rows until the client takes it. So the scans inside
bound the memory that they take, even if nobody reads. Users take turns: room goes to the user with the fewest scans
inside.

| a scan | counts as | until | gives way |
| --- | --- | --- | --- |
| waits | nothing | there is room inside for its first batch | for a user with fewer scans, where `scans_max` wait or are inside |
| decodes its first batch | what that may take at most | it knows how much it holds | never |
| sends | what it holds | its end | while others wait, once its client takes nothing for `patience_ns`; or for `turn_ns`, if its user has several scans inside and another user waits that has none |

A scan may hold more than is left: the first one does not wait, and a batch may be larger than the one before. Somebody
has to `look` from time to time for scans that give way.
"""  # noqa: E501 a row of a table is one line

import threading
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from leasehold.wire.call_watch import WatchedCall


class _Waiting(NamedTuple):
    size: int
    turn: threading.Event


class _Inside(NamedTuple):
    user: str
    size: int
    is_ending: bool = False


class ScanRoom:
    """Any thread may use it."""

    def __init__(
        self, *, bytes_max: int, scans_max: int, patience_ns: int, turn_ns: int, now_ns: Callable[[], int]
    ) -> None:
        self._bytes_max = bytes_max
        self._scans_max = scans_max
        self._patience_ns = patience_ns
        self._turn_ns = min(turn_ns, patience_ns)
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._waiting: dict[str, dict[WatchedCall, _Waiting]] = {}
        """By their users, in order of arrival."""
        self._inside: dict[WatchedCall, _Inside] = {}

    def enter(self, call: WatchedCall, user: str, size: int) -> bool:
        """Waits for room of `size` bytes; False if the scan gave way or ended first. A scan that entered has to
        `leave`."""
        turn = threading.Event()
        with self._lock:
            self._waiting.setdefault(user, {})[call] = _Waiting(size, turn)
            self._let_in()
            if sum(map(len, self._waiting.values())) + len(self._inside) > self._scans_max:
                self._displace()
        call.at_end(turn.set)
        turn.wait()
        with self._lock:
            if call in self._waiting.get(user, ()):
                self._take(user, call)
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
            user = self._next()
            call, (size, _) = next(iter(self._waiting[user].items()))
            if self._inside and held + size > self._bytes_max:
                return
            self._inside[call] = _Inside(user, size)
            held += size
            self._take(user, call).turn.set()

    def _next(self) -> str:
        """The user whose oldest scan enters next."""
        return min(self._waiting, key=self._scans_of().__getitem__)

    def _scans_of(self) -> Counter[str]:
        """How many scans of each user are inside."""
        return Counter(one.user for one in self._inside.values())

    def _take(self, user: str, call: WatchedCall) -> _Waiting:
        taken = self._waiting[user].pop(call)
        if not self._waiting[user]:
            del self._waiting[user]
        return taken

    def _displace(self) -> None:
        """Ends the wait of the newest scan of the user with the most scans that wait."""
        if self._waiting:
            heaviest = max(self._waiting, key=lambda user: len(self._waiting[user]))
            self._take(heaviest, next(reversed(self._waiting[heaviest]))).turn.set()

    def look(self) -> None:
        """Ends scans that keep the next one waiting, those first whose clients have been silent for longest."""
        now_ns = self._now_ns()
        with self._lock:
            if not self._waiting:
                return
            user = self._next()
            _, first = next(iter(self._waiting[user].items()))
            lacking = first.size - self._bytes_max
            lacking += sum(one.size for one in self._inside.values() if not one.is_ending)
            scans = self._scans_of()
            has_none = not scans[user]
            slow = sorted(
                (since, number, silent)
                for number, (silent, one) in enumerate(self._inside.items())
                if not one.is_ending and (since := silent.idle_since_ns) is not None
            )
            ending: list[WatchedCall] = []
            for since, _, silent in slow:
                if lacking <= 0:
                    break
                found = self._inside[silent]
                is_one_of_several = has_none and scans[found.user] > 1
                if since > now_ns - (self._turn_ns if is_one_of_several else self._patience_ns):
                    continue
                self._inside[silent] = found._replace(is_ending=True)
                scans[found.user] -= 1
                lacking -= found.size
                ending.append(silent)
        for silent in ending:
            silent.cancel()
