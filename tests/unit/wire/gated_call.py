"""A call as gates know it."""

import threading
from collections.abc import Callable


class GatedCall:
    """What gRPC knows of a call."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self.is_watched = threading.Event()
        """Set once the gate has taken the call in, or let it wait: it hears of its end from then on."""
        self._at_end: list[Callable[[], None]] | None = []

    def cancel(self) -> None:
        self.is_cancelled = True
        self.end()

    def add_callback(self, callback: Callable[[], None], /) -> bool:
        if self._at_end is None:
            return False
        self._at_end.append(callback)
        self.is_watched.set()
        return True

    def end(self) -> None:
        acts, self._at_end = self._at_end or [], None
        for act in acts:
            act()


def unforeseen(fault: BaseException) -> None:
    """For a watch of calls: nothing may go wrong in its looks."""
    raise fault
