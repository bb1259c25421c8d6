"""How this process gives freed memory back to the system, and how much it may take.

By default the allocators keep much of it: Arrow's for each thread, and glibc's above the largest block that was ever
freed. A flood of calls leaves freed blocks everywhere in the heap: then a process keeps what it needed for the flood.
"""

import contextlib
import ctypes
import mmap
import resource
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from leasehold.limits.processes import (
    MALLOC_ARENAS_MAX,
    MALLOC_MMAP_BYTES,
    MALLOC_TOP_BYTES,
    MEMORY_GROWN_BYTES,
    MEMORY_LOOK_NS,
    MEMORY_LOOKS_MAX,
)
from leasehold.wire.clock import sleep_ns

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_LIBC = ctypes.CDLL(None)
_STATUS: Final = Path("/proc/self/statm")


def keep_little_memory() -> None:
    """For the rest of this process. It has no effect where the C library is not glibc."""
    with contextlib.suppress(AttributeError):
        _LIBC.mallopt(_M_ARENA_MAX, MALLOC_ARENAS_MAX)
        _LIBC.mallopt(_M_MMAP_THRESHOLD, MALLOC_MMAP_BYTES)
        _LIBC.mallopt(_M_TRIM_THRESHOLD, MALLOC_TOP_BYTES)


def watch_memory() -> None:
    """Gives freed memory back from now on (`MemoryWatch`)."""
    watch = MemoryWatch(_resident_bytes, give_back_memory)

    def look() -> None:
        while True:
            sleep_ns(MEMORY_LOOK_NS)
            watch.look()

    threading.Thread(target=look, name="freed memory", daemon=True).start()


def give_back_memory() -> None:
    """Gives back what is free now. It takes some milliseconds."""
    with contextlib.suppress(AttributeError):
        _LIBC.malloc_trim(0)


def bound_memory(bytes_max: int) -> None:
    """From now on this process may hold so many bytes, or fewer if it was bounded before. Whatever asks for more gets
    an error: MemoryError in Python."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bounds = [bytes_max, *(one for one in (soft, hard) if one != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), hard))


class MemoryWatch:
    """Gives freed memory back soon after the process has grown, and then less and less often: what a flood holds is
    free some time after it was taken."""

    def __init__(self, resident_bytes: Callable[[], int], give_back: Callable[[], None]) -> None:
        self._resident_bytes = resident_bytes
        self._give_back = give_back
        self._kept_bytes = resident_bytes()
        self._looks = 0
        """Since memory was given back."""
        self._rest = 1
        """At so many looks it is given back again."""

    def look(self) -> None:
        """To be called every MEMORY_LOOK_NS."""
        self._looks += 1
        has_grown = self._resident_bytes() >= self._kept_bytes + MEMORY_GROWN_BYTES
        if has_grown or self._looks >= self._rest:
            self._give_back()
            self._kept_bytes = self._resident_bytes()
            self._looks = 0
            self._rest = 1 if has_grown else min(2 * self._rest, MEMORY_LOOKS_MAX)


def _resident_bytes() -> int:
    return int(_STATUS.read_text().split()[1]) * mmap.PAGESIZE
