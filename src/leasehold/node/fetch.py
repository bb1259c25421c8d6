"""Fetching: whole segments from one node to another, when a replica lacks what its bucket should hold.

Segments are immutable and named once, and the manifest says what each byte of them must be, so a copy is right or
wrong whoever sent it, and whenever: that is why a node without a lease may give one, and take one. Who asks proves by
his session that he is a node, as last known here: no right covers a whole segment.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Final

import pyarrow as pa

from leasehold.core.data.requests import check_node, missing
from leasehold.core.messages import FetchTicket
from leasehold.core.records import SegmentRecord
from leasehold.errors import AlreadyExists, Corrupt, LeaseholdError, NotFound, Refused
from leasehold.ids import ClusterId, NodeId
from leasehold.limits.flight import FLIGHT_READS_MAX
from leasehold.limits.replication import FETCH_BASE_NS, FETCH_BYTES_PER_SECOND_MIN, FORWARD_CHUNK_BYTES
from leasehold.limits.segments import SEGMENT_BYTES_MAX, SEGMENT_ROWS_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.node.guarding import place
from leasehold.node.published import Published
from leasehold.storage.files import SegmentFile, SegmentFiles
from leasehold.storage.segment import verify_segment
from leasehold.wire.flight import BYTES_SCHEMA, bytes_batch, calling, copier_to, ticket, within
from leasehold.wire.flight_server import Outgoing

SHA256_BYTES: Final = 32


class Fetches:
    """Serves fetch tickets; any thread may."""

    def __init__(self, *, published: Published, files: SegmentFiles) -> None:
        self._published = published
        self._files = files
        self._reading = BoundedSemaphore(FLIGHT_READS_MAX)
        self._counting = Lock()
        self.segments_given = 0
        """Copies that were given to their end, and the bytes of all, for people."""
        self.bytes_given = 0

    def open(self, request: FetchTicket) -> Outgoing:
        """The bytes of a segment. No guard: see above. Raises `Forbidden` for who is no node."""
        check_node(request.node, request.session, self._published.view)
        path = self._files.path(request.table, request.bucket, request.segment)
        if not self._files.exists(request.table, request.bucket, request.segment):
            raise missing(self._published, request.segment)
        return Outgoing(BYTES_SCHEMA, self._guarding(path))

    def _guarding(self, path: Path) -> Iterator[tuple[pa.RecordBatch, None]]:
        with place(self._reading, "fetches", FLIGHT_READS_MAX):
            try:
                with path.open("rb", buffering=0) as file:
                    while chunk := file.read(FORWARD_CHUNK_BYTES):
                        with self._counting:
                            self.bytes_given += len(chunk)
                        yield bytes_batch(chunk), None
            except OSError as error:
                raise Corrupt(f"{path} can't be read: {error.strerror}", hint="look at the disk") from error
            with self._counting:
                self.segments_given += 1


def _unheard(node: NodeId, error: LeaseholdError | None) -> None:
    """Nobody asked how the places did."""


def check_record(record: SegmentRecord) -> None:
    """Raises `Refused` with code BAD_SEGMENT_RECORD for sizes that no segment can have: no file could match them."""
    if not 0 < record.size_bytes <= SEGMENT_BYTES_MAX:
        why = f"{record.size_bytes} bytes"
    elif not 0 <= record.rows <= SEGMENT_ROWS_MAX:
        why = f"{record.rows} rows"
    elif len(record.sha256) != SHA256_BYTES:
        why = f"a SHA-256 of {len(record.sha256)} bytes"
    else:
        return
    raise Refused(
        f"the manifest says that segment {record.id[:80]} has {why}, which none can have",
        code="BAD_SEGMENT_RECORD",
        hint="upgrade this node; if it is up to date, the manifest is wrong: write the rows again to another table",
    )


def fetch_segment(
    files: SegmentFiles,
    record: SegmentRecord,
    places: Sequence[tuple[NodeId, str]],
    cluster_id: ClusterId,
    asking: Published,
    on_asked: Callable[[NodeId, LeaseholdError | None], None] = _unheard,
) -> bool:
    """Copies a segment from the first of `places` that has it whole; whether this disk holds it now, verified.

    Blocks. A copy that differs from the manifest is thrown away and the next place asked. A file that is there already
    is never replaced. `on_asked` is told of each place that was asked what was wrong with it, None for a whole copy.
    Raises `Refused` with code DISK_FULL, `Definite` with code DISK_ERROR for this node's own disk, and `Refused` with
    code BAD_SEGMENT_RECORD or BAD_SEGMENT_NAME for a record that describes no segment.
    """
    check_record(record)
    if files.exists(record.table, record.bucket, record.id):
        return _is_whole(files, record)
    for node, address in places:
        try:
            file = files.create(record.table, record.bucket, record.id)
        except AlreadyExists:
            return False  # being written this moment: the next round sees what became of it
        with file:
            error = _copied(file, _fetch_ticket(record, cluster_id, asking), record, address)
            if error is None:
                file.finish()
        on_asked(node, error)
        if error is None:
            return True
    return False


def _is_whole(files: SegmentFiles, record: SegmentRecord) -> bool:
    path = files.path(record.table, record.bucket, record.id)
    try:
        verify_segment(path, size_bytes=record.size_bytes, sha256=record.sha256)
    except (Corrupt, NotFound):
        return False
    files.sync(record.table, record.bucket, record.id)
    return True


def _fetch_ticket(record: SegmentRecord, cluster_id: ClusterId, asking: Published) -> FetchTicket:
    return FetchTicket(
        cluster_id=cluster_id,
        table=record.table,
        bucket=record.bucket,
        segment=record.id,
        node=asking.node,
        session=asking.session,
    )


def _copied(file: SegmentFile, request: FetchTicket, record: SegmentRecord, address: str) -> LeaseholdError | None:
    """None once `file` holds exactly the segment, else what the peer did wrong."""
    digest = hashlib.sha256()
    chunks = _chunks(request, record.size_bytes, address)
    while True:
        # Only what the peer does wrong is caught: an error of this disk would be the same with the next peer.
        try:
            chunk = next(chunks, None)
        except LeaseholdError as error:
            return error
        if chunk is None:
            whole = file.size_bytes == record.size_bytes and digest.digest() == record.sha256
            return None if whole else _differs(record, address)
        if file.size_bytes + len(chunk) > record.size_bytes:
            return _differs(record, address)
        digest.update(chunk)
        file.write(chunk)


def _differs(record: SegmentRecord, address: str) -> Corrupt:
    return Corrupt(
        f"the copy of segment {record.id} at {address} is not what the manifest says",
        hint="that node replaces it once a scan there has found it out",
    )


def _chunks(request: FetchTicket, size_bytes: int, address: str) -> Iterator[memoryview]:
    timeout_ns = FETCH_BASE_NS + size_bytes * SECOND_NS // FETCH_BYTES_PER_SECOND_MIN
    with calling(address):
        reader = copier_to(address).do_get(ticket(request), within(timeout_ns, request))
        try:
            if not reader.schema.equals(BYTES_SCHEMA):
                raise pa.ArrowInvalid("not a segment's bytes")
            for chunk in reader:
                batch: pa.RecordBatch | None = chunk.data
                if batch is None or batch.column(0).null_count:
                    raise pa.ArrowInvalid("a chunk without bytes")
                for value in batch.column(0):
                    yield memoryview(value.as_buffer())
        finally:
            reader.cancel()
