"""Listings of a node's segment folder that cost little when nothing has changed.

The time of a folder says when a name in it last changed, but it ticks coarsely: a name may change right after a folder
was read and leave the same time. So a folder counts as unchanged only after a reading that began FOLDER_TICK_NS after
that time was first seen. And each listing reads some folders whatever their time, so that every folder is read once in
RECONCILE_ROUNDS_WHOLE listings.
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
from leasehold.storage.files import SegmentFiles


class _Read(msgspec.Struct, frozen=True):
    """A folder as it was read; `at` are its inode and its time before that, first seen at `since_ns`."""

    at: tuple[int, int]
    since_ns: int
    is_settled: bool
    segments: frozenset[SegmentId]


class Lister:
    """Any thread may use it. Errors are those of `SegmentFiles`."""

    def __init__(self, files: SegmentFiles, now_ns: Callable[[], int]) -> None:
        self._files = files
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._read: dict[BucketKey, _Read] = {}
        """In the order of reading."""

    def listing(self) -> Listing:
        """The finished segments, with every change made before this call."""
        with self._lock:
            anew = set(islice(self._read, -(-len(self._read) // RECONCILE_ROUNDS_WHOLE)))
            began_ns, here, seen_ns = self._now_ns(), dict(self._files.folders()), self._now_ns()
            for key, at in here.items():
                self._look(key, at, began_ns, seen_ns, anew=key in anew)
            for key in self._read.keys() - here.keys():
                del self._read[key]
            return {key: self._read[key].segments for key in here}

    def _look(self, key: BucketKey, at: tuple[int, int], began_ns: int, seen_ns: int, *, anew: bool) -> None:
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
