"""The pace at which a node empties its trash and copies segments, so that neither slows down serving."""

from leasehold.core.replicas.reconcile import Emptied
from leasehold.limits.node_disk import TRASH_BYTES_PER_SECOND, TRASH_FILES_PER_SECOND, TRASH_ROUND_FILES_MAX
from leasehold.limits.replication import RECONCILE_INTERVAL_NS
from leasehold.limits.units import SECOND_NS

_ROUND_BYTES = TRASH_BYTES_PER_SECOND * RECONCILE_INTERVAL_NS // SECOND_NS


class Pace:
    """TRASH_FILES_PER_SECOND and TRASH_BYTES_PER_SECOND on average. A file that is larger delays the next one."""

    def __init__(self, now_ns: int) -> None:
        self._then_ns = now_ns
        self._files = TRASH_ROUND_FILES_MAX
        self._size_bytes = _ROUND_BYTES

    def allows(self, now_ns: int) -> tuple[int, int]:
        """How many files and bytes may be deleted now: at most the share of one round."""
        passed_ns = now_ns - self._then_ns
        files = passed_ns * TRASH_FILES_PER_SECOND // SECOND_NS
        if files > 0:
            self._files = min(TRASH_ROUND_FILES_MAX, self._files + files)
            self._size_bytes = min(_ROUND_BYTES, self._size_bytes + passed_ns * TRASH_BYTES_PER_SECOND // SECOND_NS)
            self._then_ns = now_ns
        return (self._files, self._size_bytes) if self._size_bytes > 0 else (0, 0)

    def spend(self, emptied: Emptied) -> None:
        self._files -= emptied.files
        self._size_bytes -= emptied.size_bytes


class CopyPace:
    """A rate of bytes on average, which may change at any time. A copy that begins delays the next one, so copies that
    are made at the same time share the rate."""

    def __init__(self, now_ns: int) -> None:
        self._then_ns = now_ns
        self._owed = 0
        """In billionths of a byte: what a nanosecond pays for is no whole number of bytes."""

    def wait_ns(self, now_ns: int, bytes_per_second: int) -> int:
        """How long from now on no copy may begin."""
        self._owed = max(0, self._owed - (now_ns - self._then_ns) * bytes_per_second)
        self._then_ns = now_ns
        return -(-self._owed // bytes_per_second)

    def spend(self, size_bytes: int) -> None:
        """A copy begins."""
        self._owed += size_bytes * SECOND_NS

    def correct(self, spent_bytes: int, came_bytes: int) -> None:
        """A copy for which so much was spent has ended, and so much came: another copy may use the difference."""
        self._owed = max(0, self._owed + (came_bytes - spent_bytes) * SECOND_NS)
