"""A timer that follows the next deadline of a machine."""

from collections.abc import Callable

from leasehold.wire.ports import Clock, Timer


class DeadlineTimer:
    """Calls `on_time` once the newest deadline has come. Used on one event loop."""

    def __init__(self, clock: Clock, on_time: Callable[[], None]) -> None:
        self._clock = clock
        self._on_time = on_time
        self._timer: Timer | None = None
        self._deadline_ns = 0

    def set(self, deadline_ns: int | None) -> None:
        """Replaces the deadline; None for no deadline."""
        if self._timer is not None and deadline_ns == self._deadline_ns:
            return
        self.cancel()
        if deadline_ns is not None:
            self._timer, self._deadline_ns = self._clock.call_at(deadline_ns, self._fire), deadline_ns

    def cancel(self) -> None:
        """As `set(None)`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._on_time()
