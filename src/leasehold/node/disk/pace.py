"""The pace at which a node deletes for good: deleting gives way to serving."""

from leasehold.core.replicas.reconcile import Emptied
from leasehold.limits.node_disk import TRASH_BYTES_PER_SECOND, TRASH_FILES_PER_SECOND, TRASH_ROUND_FILES_MAX
from leasehold.limits.replication import RECONCILE_INTERVAL_NS
from leasehold.limits.units import SECOND_NS

_ROUND_BYTES = TRASH_BYTES_PER_SECOND * RECONCILE_INTERVAL_NS // SECOND_NS


class Pace:
    """So many files and bytes a second on average. A file goes whole, and what it is too large by is waited for."""

    def __init__(self, now_ns: int) -> None:
        self._then_ns = now_ns
        self._files = TRASH_ROUND_FILES_MAX
        self._size_bytes = _ROUND_BYTES

    def allows(self, now_ns: int) -> tuple[int, int]:
        """How many files and bytes may go now; no more than one round's share, however long nothing went."""
        passed_ns = now_ns - self._then_ns
        files = passed_ns * TRASH_FILES_PER_SECOND // SECOND_NS
        if files > 0:
            self._files = min(TRASH_ROUND_FILES_MAX, self._files + files)
            self._size_bytes = min(_ROUND_BYTES, self._size_bytes + passed_ns * TRASH_BYTES_PER_SECOND // SECOND_NS)
            self._then_ns = now_ns
        return (self._files, self._size_bytes) if self._size_bytes > 0 else (0, 0)

    def spend(self, emptied: Emptied) -> None:
        """So much went."""
        self._files -= emptied.files
        self._size_bytes -= emptied.size_bytes
