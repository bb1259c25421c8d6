"""Scans: the rows of one segment, each batch guarded, authorised and logged before it is released (DESIGN section 7).

Projection follows the revision that the scan pinned, which the ticket carries as its fields; authorisation follows the
newest view, anew for each batch. So a rename changes nothing in a running scan, and a drop ends it within one batch.
Both are decided on the view of the guard that the batch passes, and so is which of its rows are hidden: expired, or
deleted (`node/hiding.py`). Who may read is decided there too, by `authorise` (`core/data/read_access.py`).

Each batch carries the first row after it, counted in the rows of the file whether or not they are hidden, so that a
reader goes on at any other replica from exactly there, and one whose rows are all hidden is progress as well.
"""

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from threading import BoundedSemaphore, Lock
from typing import NamedTuple

import pyarrow as pa

from leasehold.core.audit import ServeRecord
from leasehold.core.catalog import Catalog
from leasehold.core.codec import encode
from leasehold.core.data.read_access import authorise, check_sound, is_replaceable
from leasehold.core.data.requests import guarded, missing
from leasehold.core.lease import Pass, guard
from leasehold.core.messages import BatchMark, ReadTicket
from leasehold.core.records import Field, TableRecord
from leasehold.errors import Corrupt, Definite
from leasehold.ids import SegmentId
from leasehold.limits.flight import FLIGHT_BATCH_BYTES, FLIGHT_READS_MAX
from leasehold.limits.segments import BATCH_ROWS, SCHEMA_WAIT_NS, SEGMENTS_VERIFIED_MAX
from leasehold.node.guarding import place, wait_until_shown
from leasehold.node.hiding import Hiding, Hidings
from leasehold.node.published import Published
from leasehold.node.space import noting
from leasehold.storage.files import SegmentFiles
from leasehold.storage.schema import arrow_schema
from leasehold.storage.segment import read_segment, verify_segment
from leasehold.storage.servelog import ServeLog
from leasehold.wire.flight import parts
from leasehold.wire.flight_server import Outgoing

Released = tuple[pa.RecordBatch, bytes]


class Scans:
    """Serves read tickets; any thread may."""

    def __init__(
        self,
        *,
        published: Published,
        files: SegmentFiles,
        serve_log: ServeLog,
        now_ns: Callable[[], int],
        batch_rows: int = BATCH_ROWS,
        schema_wait_ns: int = SCHEMA_WAIT_NS,
    ) -> None:
        self._published = published
        self._files = files
        self._serve_log = serve_log
        self._now_ns = now_ns
        self._batch_rows = batch_rows
        self._schema_wait_ns = schema_wait_ns
        self._reading = BoundedSemaphore(FLIGHT_READS_MAX)
        self._verified = _Verified()

    def open(self, ticket: ReadTicket) -> Outgoing:
        """The stream of a ticket. Raises what stands against it now; what comes up later ends the stream."""
        check_sound(ticket)
        schema = arrow_schema(ticket.fields)
        bucket = (ticket.table, ticket.bucket)
        wait_until_shown(
            self._published,
            self._now_ns,
            ticket.revision,
            bucket,
            generation=ticket.generation,
            wait_ns=self._schema_wait_ns,
        )
        view = guarded(self._published, self._now_ns, bucket).view
        table = authorise(ticket, view)
        if not self._files.exists(ticket.table, ticket.bucket, ticket.segment):
            raise missing(self._published, ticket.segment)
        hidings = Hidings(ticket.cutoff)
        telling = self._hiding(ticket, table, view, hidings).fields
        return Outgoing(schema, self._guarding(ticket, hidings, _Rest(ticket.row_offset, telling)))

    def _guarding(self, ticket: ReadTicket, hidings: Hidings, rest: "_Rest") -> Iterator[Released]:
        with place(self._reading, "scans", FLIGHT_READS_MAX):
            yield from self._stream(ticket, hidings, rest)

    def _stream(self, ticket: ReadTicket, hidings: Hidings, begin: "_Rest") -> Iterator[Released]:
        try:
            self._verify(ticket)
            rest: _Rest | None = begin
            while rest is not None:
                rest = yield from self._stream_from(ticket, hidings, rest)
        except Corrupt:
            if self._is_damaged(ticket):
                self._replace(ticket)
            raise
        except MemoryError as error:
            raise Definite(
                f"there is no memory for a batch of segment {ticket.segment}",
                code="BUSY",
                hint="Another replica may serve; or try again with fewer streams or columns at once.",
            ) from error

    def _is_damaged(self, ticket: ReadTicket) -> bool:
        """Whether the file is not what the manifest says, all of it read once more.

        What failed may lie in the ticket or in this process, and every other holder would find the same.
        """
        path = self._files.path(ticket.table, ticket.bucket, ticket.segment)
        try:
            verify_segment(path, size_bytes=path.stat().st_size, sha256=ticket.sha256)
        except Corrupt:
            return True
        except (Definite, FileNotFoundError):
            return False
        return False

    def _replace(self, ticket: ReadTicket) -> None:
        """Puts a damaged file aside if another node holds the segment: the reconciler fetches what is missing.

        A fenced node leaves it where it is: whether another one holds it is a decision like any other.
        """
        passed = guard(self._published, self._now_ns)
        if passed is not None and is_replaceable(ticket, passed.view, self._published.node):
            self._files.trash(ticket.table, ticket.bucket, ticket.segment)

    def _verify(self, ticket: ReadTicket) -> None:
        """Holds the whole file against its hash once: the footer decides how all is read and has no other checksum."""
        path = self._files.path(ticket.table, ticket.bucket, ticket.segment)
        try:
            stat = path.stat()
        except FileNotFoundError as error:
            raise missing(self._published, ticket.segment) from error
        known = (ticket.segment, ticket.sha256, stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if known not in self._verified:
            verify_segment(path, size_bytes=stat.st_size, sha256=ticket.sha256)
            self._verified.add(known)

    def _stream_from(
        self, ticket: ReadTicket, hidings: Hidings, rest: "_Rest"
    ) -> Generator[Released, None, "_Rest | None"]:
        """Streams the rest, until a view says that other columns tell which of its rows are hidden."""
        row, telling = rest
        path = self._files.path(ticket.table, ticket.bucket, ticket.segment)
        table: TableRecord | None = None
        for read in read_segment(path, (*ticket.fields, *telling), row_offset=row, batch_rows=self._batch_rows):
            for part in parts(read, FLIGHT_BATCH_BYTES):
                passed = guarded(self._published, self._now_ns, (ticket.table, ticket.bucket))
                table = authorise(ticket, passed.view, table)
                hiding = self._hiding(ticket, table, passed.view, hidings)
                if hiding.fields != telling:
                    return _Rest(row, hiding.fields)
                row += part.num_rows
                batch = hiding.shown(part, len(ticket.fields))
                self._log(ticket, passed)
                lease = passed.lease
                mark = BatchMark(
                    next_row=row, view_revision=passed.view.revision, term=lease.term, sequence=lease.sequence
                )
                yield batch, encode(mark)
        return None

    def _hiding(self, ticket: ReadTicket, table: TableRecord, view: Catalog, hidings: Hidings) -> Hiding:
        segment = view.readable_segment(ticket.table, ticket.bucket, ticket.segment)
        assert segment is not None, "the view was authorised"
        return hidings.of(table, segment, view)

    def _log(self, ticket: ReadTicket, passed: Pass[Catalog]) -> None:
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


class _Rest(NamedTuple):
    """The rows from `row` on, to be read together with the columns that tell which of them are hidden."""

    row: int
    telling: tuple[Field, ...]


class _Verified:
    """The files found right since the process started, the latest SEGMENTS_VERIFIED_MAX of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[tuple[SegmentId, bytes, int, int, int], None] = OrderedDict()

    def __contains__(self, known: tuple[SegmentId, bytes, int, int, int]) -> bool:
        with self._lock:
            if known not in self._known:
                return False
            self._known.move_to_end(known)
            return True

    def add(self, known: tuple[SegmentId, bytes, int, int, int]) -> None:
        with self._lock:
            self._known[known] = None
            if len(self._known) > SEGMENTS_VERIFIED_MAX:
                self._known.popitem(last=False)
