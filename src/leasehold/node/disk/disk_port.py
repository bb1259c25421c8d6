"""The disk port over real files and Flight: each step on a worker thread."""

import asyncio
from collections.abc import Callable, Sequence

from leasehold.core.data.fetches import check_record
from leasehold.core.replicas.reconcile import Emptied, Listing, OnDisk
from leasehold.core.words.records import SegmentRecord
from leasehold.errors import Corrupt, LeaseholdError, NotFound
from leasehold.ids import ClusterId, NodeId, ObjectId
from leasehold.node.agent.published import Published
from leasehold.node.disk.fetch import fetch_segment
from leasehold.storage.files import SegmentFiles
from leasehold.storage.listing import Lister
from leasehold.storage.segment import verify_segment


class LocalDisk:
    """Implements `wire.ports.Disk` on the segment files of this node, which `published` names to its peers."""

    def __init__(self, files: SegmentFiles, published: Published, now_ns: Callable[[], int]) -> None:
        self._files = files
        self._lister = Lister(files, now_ns)
        self._published = published

    async def listing(self) -> Listing:
        """The finished segments; a folder that has not changed since the last time is not read again."""
        return await asyncio.to_thread(self._lister.listing)

    async def trash(self, one: OnDisk) -> bool:
        """Moves a segment to the trash, durably; False if it was not there."""
        return await asyncio.to_thread(self._files.trash, one.table, one.bucket, one.segment)

    async def trash_table(self, table: ObjectId) -> bool:
        """Moves all segments of a table to the trash, durably; False if there was nothing of it."""
        return await asyncio.to_thread(self._files.trash_table, table)

    async def empty_trash(self, max_files: int, max_bytes: int) -> Emptied:
        """Deletes up to `max_files` files of the trash for good; the one with which `max_bytes` is reached goes too."""
        return await asyncio.to_thread(self._files.empty_trash, max_files, max_bytes)

    async def check_sizes(self, records: Sequence[SegmentRecord]) -> tuple[SegmentRecord, ...]:
        """Those that are here with another size than the manifest says; they go to the trash."""
        return await asyncio.to_thread(self._check_sizes, tuple(records))

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
        """As `node.disk.fetch.fetch_segment`, which calls `on_asked` on the worker thread."""
        return await asyncio.to_thread(
            fetch_segment, self._files, record, places, cluster_id, self._published, on_asked
        )

    def _check_sizes(self, records: tuple[SegmentRecord, ...]) -> tuple[SegmentRecord, ...]:
        wrong: list[SegmentRecord] = []
        for one in records:
            size_bytes = self._files.size_bytes(one.table, one.bucket, one.id)
            if size_bytes not in {None, one.size_bytes}:
                self._files.trash(one.table, one.bucket, one.id)
                wrong.append(one)
        return tuple(wrong)

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
