"""The segment files of this node, for the steps of the data plane: Parquet, by Arrow.

Implements the ports of `core/data/segment_files.py` for threads: every call blocks, and none suspends.
"""

import os
import threading
from collections.abc import AsyncGenerator, Iterator
from typing import Self

import pyarrow as pa

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.data.filters import columns_read
from leasehold.core.data.hidden_rows import Hiding
from leasehold.core.data.peers import Chunk
from leasehold.core.data.segment_files import Opening, Stamp
from leasehold.core.lease.audit import ServeRecord
from leasehold.core.lease.holder import Pass
from leasehold.core.replicas.reconcile import OnDisk
from leasehold.core.words.messages import ReadTicket
from leasehold.core.words.records import Field, SegmentRecord
from leasehold.errors import Corrupt, NotFound
from leasehold.limits.flight import FLIGHT_PART_BYTES, FLIGHT_SENT_BYTES_MAX
from leasehold.limits.replication import FETCH_CHUNK_BYTES
from leasehold.limits.segments import BATCH_ROWS_CROWDED, SCANS_FEW
from leasehold.node.agent.published import Published
from leasehold.node.agent.suspects import Suspects
from leasehold.node.disk.masks import shown
from leasehold.node.disk.space import noting
from leasehold.storage.comparisons import matching
from leasehold.storage.files import SegmentFile, SegmentFiles
from leasehold.storage.segment import FileRows, Most, footer_bytes, read_rows, verify_segment
from leasehold.storage.servelog import ServeLog
from leasehold.wire.coding_turns import CODING_TURNS
from leasehold.wire.flight import parts


class LocalFiles:
    """Implements `WritesFiles` and `GivesFiles`; any thread may use it."""

    def __init__(self, files: SegmentFiles, suspects: Suspects) -> None:
        self._files = files
        self._suspects = suspects

    def suspect(self, one: OnDisk) -> None:
        """Has a file read whole soon."""
        self._suspects.suspect(one)

    def exists(self, one: OnDisk) -> bool:
        """Whether a segment is there, finished."""
        return self._files.exists(one.table, one.bucket, one.segment)

    def create(self, one: OnDisk) -> "_NewFile":
        """Begins a file. Raises `AlreadyExists` if it is there or being written."""
        return _NewFile(self._files.create(one.table, one.bucket, one.segment))

    async def is_whole(self, record: SegmentRecord) -> bool:
        """Whether a finished file is as the manifest says; then it is synced to disk too."""
        path = self._files.path(record.table, record.bucket, record.id)
        try:
            verify_segment(path, size_bytes=record.size_bytes, sha256=record.sha256)
        except (Corrupt, NotFound):
            return False
        self._files.sync(record.table, record.bucket, record.id)
        return True

    async def chunks(self, one: OnDisk) -> AsyncGenerator[bytes]:
        """The bytes of a file. Raises `Corrupt` if it can't be read."""
        path = self._files.path(one.table, one.bucket, one.segment)
        try:
            with path.open("rb", buffering=0) as file:
                while chunk := file.read(FETCH_CHUNK_BYTES):
                    yield chunk
        except OSError as error:
            raise Corrupt(f"{path} can't be read: {error.strerror}", hint="check the disk") from error


class _NewFile:
    """Implements `NewFile`."""

    def __init__(self, file: SegmentFile) -> None:
        self._file = file

    def __enter__(self) -> Self:
        self._file.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._file.__exit__(*error)

    @property
    def size_bytes(self) -> int:
        return self._file.size_bytes

    def write(self, chunk: Chunk) -> None:
        self._file.write(chunk)

    async def finish(self) -> None:
        self._file.finish()


class LocalSegments:
    """Implements `ReadsSegments`; any thread may use it. Batches have at most `batch_rows` rows."""

    def __init__(self, files: SegmentFiles, published: Published, serve_log: ServeLog, *, batch_rows: int) -> None:
        self._files = files
        self._published = published
        self._serve_log = serve_log
        self._batch_rows = batch_rows
        self._reading = threading.BoundedSemaphore(SCANS_FEW)

    def exists(self, one: OnDisk) -> bool:
        """Whether a segment is there, finished."""
        return self._files.exists(one.table, one.bucket, one.segment)

    def stamp(self, one: OnDisk) -> Stamp | None:
        """The inode, time of change and size of a file; None if it is not there."""
        try:
            stat = os.stat(self._files.path_text(one.table, one.bucket, one.segment))  # noqa: PTH116 faster
        except FileNotFoundError:
            return None
        return stat.st_ino, stat.st_mtime_ns, stat.st_size

    async def verify(self, one: OnDisk, sha256: bytes) -> None:
        """Reads the whole file and checks its hash."""
        path = self._files.path(one.table, one.bucket, one.segment)
        verify_segment(path, size_bytes=self._files.size_bytes(one.table, one.bucket, one.segment) or 0, sha256=sha256)

    async def batches(
        self, ticket: ReadTicket, telling: tuple[Field, ...], row: int, rows: int, opening: Opening
    ) -> AsyncGenerator[tuple[pa.RecordBatch, int]]:
        own = columns_read(ticket)
        fields = (*own, *telling)
        if not fields:
            if row < rows:
                yield pa.RecordBatch.from_arrays([pa.nulls(rows - row)], ["counted"]).select([]), rows - row
            return
        path = self._files.path(ticket.table, ticket.bucket, ticket.segment)
        opening(footer_bytes(path))
        is_one_of_few = self._reading.acquire(blocking=False)
        try:
            most = Most(self._batch_rows)
            if not is_one_of_few:
                most = Most(min(self._batch_rows, BATCH_ROWS_CROWDED), FLIGHT_PART_BYTES)
            sent = (*range(len(ticket.fields)), *range(len(own), len(fields)))
            with CODING_TURNS:
                batches = read_rows(path, fields, ticket.where, row_offset=row, most=most)
            while (found := _next(batches)) is not None:
                passed_over = found.rows - found.batch.num_rows
                for part in parts(found.batch, most.bytes, FLIGHT_SENT_BYTES_MAX):
                    with CODING_TURNS:
                        matched = matching(part, own, ticket.where).select(sent)
                    yield matched, passed_over + part.num_rows
                    passed_over = 0
                    del matched, part
                del found
        finally:
            if is_one_of_few:
                self._reading.release()

    def shown(self, batch: pa.RecordBatch, hiding: Hiding, segment: SegmentRecord, columns: int) -> pa.RecordBatch:
        del segment
        with CODING_TURNS:
            return shown(hiding, batch, columns)

    def log(self, ticket: ReadTicket, passed: Pass[Catalog], batch: pa.RecordBatch | None) -> None:
        """Writes a record of the serve log."""
        del batch
        lease = passed.lease
        with noting(self._published):
            self._serve_log.append(
                ServeRecord(
                    node=self._published.node,
                    incarnation=self._published.incarnation,
                    request=ticket.request,
                    table=ticket.table,
                    view=passed.view.revision,
                    term=lease.term,
                    sequence=lease.sequence,
                    deadline_ns=lease.deadline_ns,
                    released_ns=passed.released_ns,
                )
            )

    def suspect(self, one: OnDisk) -> None:
        """Has a file read whole soon."""
        self._published.suspects.suspect(one)


def _next(batches: Iterator[FileRows]) -> FileRows | None:
    with CODING_TURNS:
        return next(batches, None)
