"""What lies in a node's segment folder, listed again and again at little cost.

The time in a folder says when a name in it was last made, moved or taken away. It ticks coarsely: a name may change
right after a folder was read and leave the same time. So a folder counts as unchanged only after a reading that began
FOLDER_TICK_NS after that time was first seen. And each listing reads some folders whatever their time, so that none
goes unread for RECONCILE_ROUNDS_WHOLE of them.
"""

import threading
from collections.abc import Callable
from itertools import islice

import msgspec

from leasehold.core.catalog.shelf import BucketKey
from leasehold.core.replicas.reconcile import Listing
from leasehold.ids import SegmentId
from leasehold.limits.node_disk import FOLDER_TICK_NS
from leasehold.limits.replication import RECONCILE_ROUNDS_WHOLE
from leasehold.storage.files import Folder, SegmentFiles


class _Read(msgspec.Struct, frozen=True):
    """A folder as it was read; `at` is the time that it had before that, first seen at `since_ns`."""

    at: tuple[int, int]
    since_ns: int
    is_settled: bool
    segments: frozenset[SegmentId]


class Lister:
    """Of one process, on any thread. Errors are those of `SegmentFiles`."""

    def __init__(self, files: SegmentFiles, now_ns: Callable[[], int]) -> None:
        self._files = files
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._read: dict[BucketKey, _Read] = {}
        """In the order of reading."""

    def listing(self) -> Listing:
        """The finished segments, whatever changed before this was called."""
        with self._lock:
            anew = set(islice(self._read, -(-len(self._read) // RECONCILE_ROUNDS_WHOLE)))
            began_ns, here, seen_ns = self._now_ns(), list(self._files.folders()), self._now_ns()
            for folder in here:
                self._look(folder, began_ns, seen_ns, anew=_key(folder) in anew)
            keys = [_key(folder) for folder in here]
            for key in set(self._read).difference(keys):
                del self._read[key]
            return {key: self._read[key].segments for key in keys}

    def _look(self, folder: Folder, began_ns: int, seen_ns: int, *, anew: bool) -> None:
        key, at = _key(folder), (folder.inode, folder.changed_ns)
        before = self._read.get(key)
        since_ns = before.since_ns if before is not None and before.at == at else seen_ns
        is_settled = began_ns - since_ns >= FOLDER_TICK_NS
        if before is not None and before.is_settled and is_settled and not anew:
            return
        segments = self._files.segments_in(*key)
        if before is not None and before.segments == segments:
            segments = before.segments
        self._read.pop(key, None)
        self._read[key] = _Read(at, since_ns, is_settled, segments)


def _key(folder: Folder) -> BucketKey:
    return folder.table, folder.bucket
