"""The disk port over real files and Flight; each call runs on a worker thread."""

import asyncio
import errno
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from leasehold.core.data import fetches
from leasehold.core.data.fetches import OnAsked, check_record
from leasehold.core.data.write_access import Peer
from leasehold.core.replicas.reconcile import Emptied, Listing, OnDisk
from leasehold.core.words.messages import FetchTicket
from leasehold.core.words.records import SegmentRecord
from leasehold.errors import Corrupt, NotFound
from leasehold.ids import ClusterId, ObjectId
from leasehold.node.agent.published import Published
from leasehold.node.disk.segment_files import LocalFiles
from leasehold.storage.files import SegmentFiles
from leasehold.storage.listing import Lister
from leasehold.storage.segment import verified_pieces, verify_segment
from leasehold.wire.flight import bytes_of, calling, ticket, within, writer_to
from leasehold.wire.steps import run
from leasehold.wire.tls import TlsSource

log = logging.getLogger(__name__)


class LocalDisk:
    """Implements `wire.ports.Disk` on the segment files of this node; `published` identifies it to its peers."""

    def __init__(
        self, files: SegmentFiles, published: Published, now_ns: Callable[[], int], tls: TlsSource | None = None
    ) -> None:
        self._copies = FlightCopies(tls)
        self._files = files
        self._lister = Lister(files, now_ns)
        self._published = published

    async def listing(self) -> Listing:
        """The finished segments. A folder that has not changed since the last call is not read again."""
        return await asyncio.to_thread(self._lister.listing)

    async def trash(self, one: OnDisk) -> bool:
        """Moves a segment to the trash, durably; False if it was not there."""
        return await asyncio.to_thread(self._files.trash, one.table, one.bucket, one.segment)

    async def trash_table(self, table: ObjectId) -> bool:
        """Moves all segments of a table to the trash, durably; False if there were none."""
        return await asyncio.to_thread(self._files.trash_table, table)

    async def empty_trash(self, max_files: int, max_bytes: int) -> Emptied:
        """Deletes up to `max_files` files of the trash, until `max_bytes` are reached."""
        return await asyncio.to_thread(self._files.empty_trash, max_files, max_bytes)

    async def check_sizes(self, records: Sequence[SegmentRecord]) -> tuple[SegmentRecord, ...]:
        """Moves files whose size is not that in the manifest to the trash, and returns them."""
        return await asyncio.to_thread(self._check_sizes, tuple(records))

    async def verify(self, record: SegmentRecord) -> bool:
        """Whether the segment is here, as the manifest says; a file that differs goes to the trash."""
        return await asyncio.to_thread(self._verify, record)

    async def is_damaged(self, record: SegmentRecord, rest: Callable[[int], Awaitable[None]]) -> bool:
        """Whether the segment is here and differs from the manifest, or can't be read from the disk."""
        check_record(record)
        path = self._files.path(record.table, record.bucket, record.id)
        pieces = verified_pieces(path, size_bytes=record.size_bytes, sha256=record.sha256)
        try:
            while piece_bytes := await asyncio.to_thread(next, pieces, 0):
                await rest(piece_bytes)
        except NotFound:
            return False
        except Corrupt as error:
            log.warning("%s", error.text)
            if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EIO:
                self._published.disk_failing = True
            return True
        return False

    async def fetch(
        self,
        record: SegmentRecord,
        places: Sequence[Peer],
        cluster_id: ClusterId,
        on_asked: OnAsked,
    ) -> bool:
        """As `fetch_segment`, which calls `on_asked` on the worker thread."""
        return await asyncio.to_thread(
            fetch_segment, self._files, record, places, cluster_id, self._published, on_asked, copies=self._copies
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
        # Its writer may have just moved it into place, and still wait for the sync.
        self._files.sync(record.table, record.bucket, record.id)
        return True


def fetch_segment(
    files: SegmentFiles,
    record: SegmentRecord,
    places: Sequence[Peer],
    cluster_id: ClusterId,
    asking: Published,
    on_asked: OnAsked = lambda _node, _error, _came: None,
    *,
    copies: "FlightCopies | None" = None,
) -> bool:
    """As `core.data.fetches.fetch_segment`, on this thread."""
    copying = fetches.fetch_segment(
        LocalFiles(files, asking.suspects),
        copies or FlightCopies(None),
        record,
        places,
        cluster_id=cluster_id,
        asking=asking,
        on_asked=on_asked,
    )
    return run(copying)


class FlightCopies:
    """Implements `core.data.fetches.GetsCopies`."""

    def __init__(self, tls: TlsSource | None) -> None:
        self._tls = tls

    async def chunks(self, peer: Peer, request: FetchTicket, timeout_ns: int) -> AsyncGenerator[memoryview]:
        with calling(peer.address):
            reader = writer_to(peer.address, self._tls, peer.name).do_get(ticket(request), within(timeout_ns, request))
            try:
                for chunk in reader:
                    for content in bytes_of(chunk.data):
                        yield content
            finally:
                reader.cancel()
