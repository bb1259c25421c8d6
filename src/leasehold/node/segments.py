"""The disk port over real files and Flight: each step on a worker thread."""

import asyncio
from collections.abc import Callable, Sequence

from leasehold.core.reconcile import OnDisk
from leasehold.core.records import SegmentRecord
from leasehold.errors import Corrupt, LeaseholdError, NotFound
from leasehold.ids import ClusterId, NodeId, ObjectId
from leasehold.node.fetch import check_record, fetch_segment
from leasehold.node.published import Published
from leasehold.storage.files import SegmentFiles
from leasehold.storage.segment import verify_segment


class LocalDisk:
    """Implements `wire.ports.Disk` on the segment files of this node, which `published` names to its peers."""

    def __init__(self, files: SegmentFiles, published: Published) -> None:
        self._files = files
        self._published = published

    async def listing(self) -> frozenset[OnDisk]:
        """The finished segments."""
        return await asyncio.to_thread(self._listing)

    async def trash(self, one: OnDisk) -> bool:
        """Moves a segment to the trash, durably; False if it was not there."""
        return await asyncio.to_thread(self._files.trash, one.table, one.bucket, one.segment)

    async def trash_table(self, table: ObjectId) -> bool:
        """Moves all segments of a table to the trash, durably; False if there was nothing of it."""
        return await asyncio.to_thread(self._files.trash_table, table)

    async def empty_trash(self, max_files: int) -> int:
        """Deletes up to `max_files` files of the trash for good; how many."""
        return await asyncio.to_thread(self._files.empty_trash, max_files)

    async def verify(self, record: SegmentRecord) -> bool:
        """Whether the segment is here and what the manifest says; a file that is not goes to the trash."""
        return await asyncio.to_thread(self._verify, record)

    async def fetch(
        self,
        record: SegmentRecord,
        places: Sequence[tuple[NodeId, str]],
        cluster_id: ClusterId,
        on_asked: Callable[[NodeId, LeaseholdError | None], None],
    ) -> bool:
        """As `node.fetch.fetch_segment`, which calls `on_asked` on the worker thread."""
        return await asyncio.to_thread(
            fetch_segment, self._files, record, places, cluster_id, self._published, on_asked
        )

    def _listing(self) -> frozenset[OnDisk]:
        return frozenset(OnDisk(table, bucket, segment) for table, bucket, segment in self._files.listing())

    def _verify(self, record: SegmentRecord) -> bool:
        check_record(record)
        path = self._files.path(record.table, record.bucket, record.id)
        try:
            verify_segment(path, size_bytes=record.size_bytes, sha256=record.sha256)
        except NotFound:
            return False
        except Corrupt:
            self._files.trash(record.table, record.bucket, record.id)
            return False
        # It may have been moved into place this moment, and its writer still waits for the sync.
        self._files.sync(record.table, record.bucket, record.id)
        return True
