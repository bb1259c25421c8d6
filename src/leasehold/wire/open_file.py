"""The file that a scan has open: what its footer takes in memory, which its room has to count."""

from collections.abc import Callable

from leasehold.limits.flight import FLIGHT_FOOTER_SMALL_BYTES


class OpenFile:
    """Of one scan, on one thread. `make_room` is called before a file is opened that takes much, with what it takes."""

    def __init__(self) -> None:
        self.bytes = 0
        """What the file takes that is open, or is opened next."""
        self.make_room: Callable[[int], None] = _nothing

    def opening(self, size: int) -> None:
        """Implements `core.data.segment_files.Opening`. Raises what `make_room` does."""
        self.bytes = size
        if size > FLIGHT_FOOTER_SMALL_BYTES:
            self.make_room(size)


def _nothing(size: int) -> None:
    """Nobody counts."""
    del size
