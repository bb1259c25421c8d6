"""Calls of a server whose peer is silent: each has a deadline, and one thread cancels the calls that pass theirs. It
also looks for those that keep others waiting.

The deadlines of gRPC come from the client, so a client that wants to hold a call sets none.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from typing import Final, Protocol

from leasehold.limits.flight import (
    FLIGHT_CALLS_CROWDED,
    FLIGHT_IDLE_NS,
    FLIGHT_OPENING_NS,
    FLIGHT_SCANS_PATIENCE_NS,
    FLIGHT_SHUTDOWN_NS,
    FLIGHT_STRANGERS_CROWDED,
    FLIGHT_WATCH_NS,
)
from leasehold.wire.clock import BoottimeClock, sleep_ns

_WAITS_FOR_US: Final = 2**63


class _Cancellable(Protocol):
    def cancel(self) -> object: ...

    def add_callback(self, callback: Callable[[], None], /) -> bool: ...


class WatchedCall:
    """A call, as long as its handler runs."""

    def __init__(self, call: _Cancellable, watch: "CallWatch") -> None:
        self._call = call
        self._watch = watch
        self.deadline_ns = _WAITS_FOR_US
        self.idle_since_ns: int | None = None
        """Since when the peer has to send or to take a message."""
        self.is_opening = False
        self.caller = ""
        """Whose call it is."""
        self.is_stranger = False

    @contextmanager
    def idle(self) -> Generator[None]:
        """Inside, the peer has to send or to take a message within the watch's `idle_ns`."""
        self.idle_since_ns = self._watch.now_ns()
        self.deadline_ns = self.idle_since_ns + self._watch.idle_ns
        try:
            yield
        finally:
            self.idle_since_ns = None
            self.deadline_ns = _WAITS_FOR_US

    @contextmanager
    def opening(self) -> Generator[None]:
        """Inside, the peer has to send its first message within the watch's `opening_ns`; its `close` cancels the
        call."""
        self.deadline_ns = self._watch.now_ns() + self._watch.opening_ns
        self.is_opening = True
        if self._watch.closed.is_set():
            self._call.cancel()
        try:
            yield
        finally:
            self.is_opening = False
            self.deadline_ns = _WAITS_FOR_US

    def at_end(self, act: Callable[[], None]) -> None:
        """Calls `act` once the call has ended, at once if it has."""
        if not self._call.add_callback(act):
            act()

    def cancel(self) -> None:
        """Ends the call for both sides."""
        self._call.cancel()


class CallWatch:
    """All calls of a server. `on_fault` gets what goes wrong in a look; the next one comes all the same."""

    def __init__(
        self,
        on_fault: Callable[[BaseException], None],
        *,
        opening_ns: int = FLIGHT_OPENING_NS,
        idle_ns: int = FLIGHT_IDLE_NS,
        crowded: int = FLIGHT_CALLS_CROWDED,
    ) -> None:
        self._on_fault = on_fault
        self._crowded = crowded
        self.now_ns = BoottimeClock().now_ns
        self.opening_ns = opening_ns
        self.idle_ns = idle_ns
        self._lock = threading.Lock()
        self._calls: set[WatchedCall] = set()
        self.closed = threading.Event()
        self._until_ns = 2**63
        self._looks: list[Callable[[], None]] = []
        threading.Thread(target=self._run, name="flight watch", daemon=True).start()

    def also(self, look: Callable[[], None]) -> None:
        """From now on does this too, each time that it looks."""
        self._looks.append(look)

    def close(self) -> None:
        """Cancels the calls that have sent nothing. It looks on while others may end by themselves."""
        self._until_ns = self.now_ns() + FLIGHT_SHUTDOWN_NS
        self.closed.set()
        with self._lock:
            opening = [call for call in self._calls if call.is_opening]
        for call in opening:
            call.cancel()

    @contextmanager
    def watching(self, call: _Cancellable) -> Generator[WatchedCall]:
        watched = WatchedCall(call, self)
        with self._lock:
            self._calls.add(watched)
        try:
            yield watched
        finally:
            with self._lock:
                self._calls.discard(watched)

    def _run(self) -> None:
        while self.now_ns() < self._until_ns:
            sleep_ns(FLIGHT_WATCH_NS)
            with self._lock:
                calls = tuple(self._calls)
            now_ns = self.now_ns()
            late = [call for call in calls if call.deadline_ns < now_ns]
            late += displaced(calls, self._crowded, now_ns - FLIGHT_SCANS_PATIENCE_NS)
            strangers = [call for call in calls if call.is_stranger]
            late += displaced(strangers, FLIGHT_STRANGERS_CROWDED, now_ns - FLIGHT_SCANS_PATIENCE_NS)
            for look in (*(call.cancel for call in late), *self._looks):
                try:
                    look()
                except Exception as fault:  # noqa: BLE001 who waits for the other looks must not wait for ever
                    self._on_fault(fault)


def displaced(calls: Collection[WatchedCall], crowded: int, since_ns: int) -> list[WatchedCall]:
    """Calls that give way to others while there are so many, of those whose peers have been silent since then: first
    those of the caller with the most calls."""
    too_many = len(calls) - crowded
    if too_many <= 0:
        return []
    counts = Counter(call.caller for call in calls)
    silent = [(call, since) for call in calls if (since := call.idle_since_ns) is not None and since <= since_ns]
    silent.sort(key=lambda one: (-counts[one[0].caller], one[1]))
    return [call for call, _ in silent[:too_many]]
