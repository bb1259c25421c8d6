"""How this process gives freed memory back to the system.

By default the allocators keep much of it: Arrow's for each thread, and glibc's above the largest block that was ever
freed. A node has hundreds of threads that decode rows, so what they keep would add up to more than what they use.
"""

import contextlib
import ctypes

import pyarrow as pa

from leasehold.limits.processes import MALLOC_MMAP_BYTES, MALLOC_TOP_BYTES

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LIBC = ctypes.CDLL(None)


def keep_little_memory() -> None:
    """For the rest of this process. It has no effect where the C library is not glibc."""
    with contextlib.suppress(AttributeError):
        _LIBC.mallopt(_M_MMAP_THRESHOLD, MALLOC_MMAP_BYTES)
        _LIBC.mallopt(_M_TRIM_THRESHOLD, MALLOC_TOP_BYTES)
        pa.set_memory_pool(pa.system_memory_pool())


def give_back_memory() -> None:
    """Gives back what is free now. It takes some milliseconds."""
    with contextlib.suppress(AttributeError):
        _LIBC.malloc_trim(0)
