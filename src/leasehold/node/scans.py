"""Scans: the rows of one segment, each batch guarded, authorised and logged before it is released (DESIGN section 7).

Projection follows the revision that the scan pinned, which the ticket carries as its fields; authorisation follows the
newest view, anew for each batch. So a rename changes nothing in a running scan, and a drop ends it within one batch.
Both are decided on the view of the guard that the batch passes, and so is which of its rows have expired. Permission
belongs there too, in `authorise`: nothing that it may say is remembered from one batch to the next.

Each batch carries the first row after it, counted in the rows of the file whether or not they have expired, so that a
reader goes on at any other replica from exactly there.
"""

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from threading import BoundedSemaphore, Lock
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import flight

from leasehold.core.audit import ServeRecord
from leasehold.core.catalog import Catalog, field_by_id
from leasehold.core.codec import encode
from leasehold.core.lease import guard
from leasehold.core.messages import BatchMark, ReadTicket
from leasehold.core.records import Field, HorizonRecord, TableRecord, UseState
from leasehold.errors import Corrupt, Refused
from leasehold.ids import NodeId, SegmentId
from leasehold.limits import BATCH_ROWS, COLUMNS_MAX, FLIGHT_READS_MAX, SEGMENTS_VERIFIED_MAX
from leasehold.node.guarding import busy, guarded, missing, table_in_use, wait_until_shown
from leasehold.node.published import Published
from leasehold.storage.files import SegmentFiles
from leasehold.storage.schema import TIMESTAMP, arrow_schema
from leasehold.storage.segment import read_segment, verify_segment
from leasehold.storage.servelog import ServeLog
from leasehold.wire.flight import answering, parts

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
        on_fault: Callable[[BaseException], None],
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        self._published = published
        self._files = files
        self._serve_log = serve_log
        self._now_ns = now_ns
        self._on_fault = on_fault
        self._batch_rows = batch_rows
        self._reading = BoundedSemaphore(FLIGHT_READS_MAX)
        self._verified = _Verified()

    def open(self, ticket: ReadTicket) -> flight.GeneratorStream:
        """The stream of a ticket. Raises what stands against it now; what comes up later ends the stream."""
        if ticket.row_offset < 0 or len(ticket.fields) > COLUMNS_MAX:
            raise Refused("a ticket that no client of ours makes", code="BAD_TICKET", hint="upgrade the client")
        schema = arrow_schema(ticket.fields)
        bucket = (ticket.table, ticket.bucket)
        wait_until_shown(self._published, self._now_ns, ticket.revision, bucket)
        view = guarded(self._published, self._now_ns, bucket).view
        authorise(ticket, view)
        if not self._files.exists(ticket.table, ticket.bucket, ticket.segment):
            raise missing(self._published, ticket.segment)
        return flight.GeneratorStream(schema, self._guarding(ticket, expiry_field(ticket, view)))

    def _guarding(self, ticket: ReadTicket, clock: Field | None) -> Iterator[Released]:
        with answering(self._on_fault):
            if not self._reading.acquire(blocking=False):
                raise busy("scans", FLIGHT_READS_MAX)
            try:
                yield from self._stream(ticket, clock)
            finally:
                self._reading.release()

    def _stream(self, ticket: ReadTicket, clock: Field | None) -> Iterator[Released]:
        try:
            self._verify(ticket)
            rest: _Rest | None = _Rest(ticket.row_offset, clock)
            while rest is not None:
                rest = yield from self._stream_from(ticket, rest.row, rest.clock)
        except Corrupt:
            self._replace(ticket)
            raise

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
        self, ticket: ReadTicket, row: int, clock: Field | None
    ) -> Generator[Released, None, "_Rest | None"]:
        """Streams from `row` on, until a view says that another column decides which rows have expired."""
        fields = ticket.fields if clock is None else (*ticket.fields, clock)
        path = self._files.path(ticket.table, ticket.bucket, ticket.segment)
        table: TableRecord | None = None
        for read in read_segment(path, fields, row_offset=row, batch_rows=self._batch_rows):
            for part in parts(read):
                passed = guarded(self._published, self._now_ns, (ticket.table, ticket.bucket))
                table = authorise(ticket, passed.view, table)
                deciding = expiry_field(ticket, passed.view)
                if deciding != clock:
                    return _Rest(row, deciding)  # rows have begun to expire since
                horizon = passed.view.horizons.get(ticket.table)
                row += part.num_rows
                lease = passed.lease
                batch = _unexpired(part, clock, horizon, len(ticket.fields))
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
                mark = BatchMark(
                    next_row=row, view_revision=passed.view.revision, term=lease.term, sequence=lease.sequence
                )
                yield batch, encode(mark)
        return None


class _Rest(NamedTuple):
    """The rows from `row` on, still to be read together with the column that says which of them have expired."""

    row: int
    clock: Field | None


def expiry_field(ticket: ReadTicket, view: Catalog) -> Field | None:
    """The column that says which rows have expired, if any can have."""
    table = view.tables.get(ticket.table)
    if table is None or table.time_column is None or ticket.table not in view.horizons:
        return None
    field = field_by_id(table, table.time_column)
    # The file knows it by its id; a nullable one is read from any file.
    return None if field is None else msgspec.structs.replace(field, nullable=True)


def authorise(ticket: ReadTicket, view: Catalog, authorised: TableRecord | None = None) -> TableRecord:
    """Whether a view that has passed the guard allows this scan to go on; `authorised` is the last answer.

    Records are immutable: while the view holds the very record that was authorised, nothing of the table has changed.
    Raises `NotFound` with code TABLE_DROPPED, `Refused` with code COLUMN_DROPPED or SEGMENT_UNKNOWN.
    """
    entry = view.segments.get((ticket.table, ticket.bucket), {}).get(ticket.segment)
    if authorised is not None and entry is not None and view.tables.get(ticket.table) is authorised:
        return authorised
    table = table_in_use(view, ticket.table)
    alive = {field.id for field in table.fields if field.state is UseState.IN_USE}
    for field in ticket.fields:
        if field.id not in alive:
            raise Refused(
                f"column {field.name} of table {view.table_name(table)} was dropped",
                code="COLUMN_DROPPED",
                hint="Start the scan again without it.",
            )
    # The hash too: a file that differs from it is put aside as damaged, which is not for a ticket to say.
    if entry is None or entry.sha256 != ticket.sha256:
        raise Refused(
            f"segment {ticket.segment[:80]!r} is not in the manifest of {view.table_name(table)} with that hash",
            code="SEGMENT_UNKNOWN",
            hint="Start the scan again.",
        )
    return table


def is_replaceable(ticket: ReadTicket, view: Catalog, node: NodeId) -> bool:
    """Whether a node other than `node` holds the segment too."""
    entry = view.segments.get((ticket.table, ticket.bucket), {}).get(ticket.segment)
    return entry is not None and bool(set(entry.holders) - {node})


def _unexpired(
    part: pa.RecordBatch, clock: Field | None, horizon: HorizonRecord | None, columns: int
) -> pa.RecordBatch:
    """The rows that the horizon leaves, in the ticket's columns; `clock` is the last column of `part`, if any."""
    if clock is None:
        return part
    kept = part
    if horizon is not None:
        instants = part.column(columns).cast(TIMESTAMP)
        earliest = pa.scalar(horizon.horizon_us, pa.int64()).cast(TIMESTAMP)
        young = pc.call_function("greater_equal", [instants, earliest])
        # A row without a time never expires.
        kept = part.filter(young.fill_null(True))
    return kept.select(range(columns)) if columns else _counted(kept.num_rows)


def _counted(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], ["counted"]).select([])


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
