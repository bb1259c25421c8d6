"""Scans: the rows of segments, each batch guarded, authorised and logged before it is released.

docs/design.md, "Lease", has the reasons.

| step                                    | if it fails |
| guard, then authorise the ticket        | refused, nothing was read |
| check the whole file against its hash, unless rows are only counted | damaged: suspected, see below |
| read a batch                            | damaged: as above |
| guard, authorise, decide what is hidden | the scan ends |
| leave out what is hidden, log, hand on  | the scan ends |

Each batch is authorised on the view of the guard that it passes (`core/data/read_access.py`), and its hidden rows are
decided on that view too (`core/data/hidden_rows.py`). What the view says of the segment is read from the vault
(`core/catalog/stored_shelf.py`), and again only once its bucket has changed.

Each batch carries the first row after it, counted in the rows of the file, hidden ones too, so that a reader goes on at
any other replica from exactly there. A batch whose rows are all hidden is progress as well. Several segments of one
bucket may be read one after the other, each as by a ticket of its own; then rows are counted through all.

A file is checked against its hash once in the life of a process: its footer has no other checksum. A later error may
lie in the ticket or in this process. So the scrub reads the file once more before it counts as damaged
(`node/disk/scrub.py`), and the reader goes on at another replica.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Generic, NamedTuple

from msgspec.structs import replace

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.data.filters import columns_read
from leasehold.core.data.hidden_rows import Hidings
from leasehold.core.data.manifest import Manifest
from leasehold.core.data.read_access import authorise, check_sound, entry_at
from leasehold.core.data.requests import Requests, Slots, check_cluster, missing
from leasehold.core.data.runtime import Runtime
from leasehold.core.data.segment_files import B, Opening, ReadsSegments, Stamp, file_of, no_opening
from leasehold.core.lease.holder import Pass
from leasehold.core.words.messages import AnyReadTicket, BatchMark, NextSegment, ReadTicket, ReadTogether
from leasehold.core.words.records import Field, SegmentRecord, TableRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt, Definite
from leasehold.ids import Revision, SegmentId
from leasehold.limits.flight import FLIGHT_READS_MAX
from leasehold.limits.segments import SEGMENTS_VERIFIED_MAX


class OpenScan(NamedTuple):
    """A scan that may begin."""

    ticket: ReadTicket
    hidings: Hidings
    telling: tuple[Field, ...]
    """The columns that tell which rows are hidden, by the view of its beginning."""
    looking: "Looking"
    rows: int
    """Of the segment."""
    by_itself: bool
    """The node reads for itself: no user asks."""
    then: tuple[NextSegment, ...] = ()
    """The segments after the first one, which all else here is about."""


class Scans(Generic[B]):
    """Serves read tickets."""

    def __init__(
        self,
        requests: Requests,
        manifest: Manifest,
        files: ReadsSegments[B],
    ) -> None:
        self._requests = requests
        self._manifest = manifest
        self._serving = requests.serving
        self._files = files
        self._reading = Slots(requests.runtime, "scans", FLIGHT_READS_MAX)
        self._verified = _Verified(requests.runtime)

    def looking(self, ticket: ReadTicket) -> "Looking":
        """At what the newest view says of the segment of a ticket."""
        return Looking(self._requests, self._manifest, ticket)

    def suspect(self, ticket: ReadTicket) -> None:
        """Has the file of a ticket read whole soon."""
        self._files.suspect(file_of(ticket))

    def log(self, ticket: ReadTicket, passed: Pass[Catalog]) -> None:
        """Notes that the whole segment is released now, as a file."""
        self._files.log(ticket, passed, None)

    async def open(self, asked: AnyReadTicket, *, by_itself: bool = False) -> OpenScan:
        """Raises what stands against a ticket and its first segment now; what comes up later ends the stream."""
        ticket, then = (asked.first, asked.then) if isinstance(asked, ReadTogether) else (asked, ())
        check_cluster(self._serving, ticket.cluster_id)
        check_sound(ticket)
        bucket = (ticket.table, ticket.bucket)
        await self._requests.until_shown(
            ticket.revision, bucket, ticket.generation, login=ticket.login, by_itself=by_itself
        )
        looking = self.looking(ticket)
        passed, entry = await looking.passed()
        table = authorise(ticket, passed.view, entry, by_itself=by_itself)
        if not self._files.exists(file_of(ticket)):
            raise missing(self._serving, ticket.segment)
        hidings, segment = Hidings(ticket.cutoff), _authorised(entry)
        telling = hidings.of(table, segment, passed.view).fields
        return OpenScan(ticket, hidings, telling, looking, segment.rows, by_itself, then)

    async def stream(self, scan: OpenScan, opening: Opening = no_opening) -> AsyncGenerator[tuple[B, BatchMark], None]:
        """All segments of the ticket. Raises what `opening` raises before a file is opened."""
        ticket, then, before = scan.ticket, scan.then, 0
        with self._reading.one():
            for following in (None, *then):
                if following is not None:
                    one = replace(ticket, segment=following.segment, sha256=following.sha256)
                    scan = await self.open(one, by_itself=scan.by_itself)
                if ticket.row_offset < before + scan.rows or not then:
                    async with aclosing(self._segment(scan, max(0, ticket.row_offset - before), opening)) as batches:
                        async for batch, mark in batches:
                            yield batch, replace(mark, next_row=before + mark.next_row) if before else mark
                before += scan.rows

    async def _segment(self, scan: OpenScan, row: int, opening: Opening) -> AsyncGenerator[tuple[B, BatchMark], None]:
        """The segment of a scan, from one of its rows on."""
        try:
            async with aclosing(self._batches(scan, row, opening)) as batches:
                async for released in batches:
                    yield released
        except Corrupt:
            self.suspect(scan.ticket)
            raise
        except MemoryError as error:
            raise Definite(
                f"no memory is left for a batch of segment {scan.ticket.segment}",
                code=ErrorCode.BUSY,
                hint="another replica may serve; or try again with fewer streams or columns at once",
            ) from error

    async def _batches(self, scan: OpenScan, row: int, opening: Opening) -> AsyncGenerator[tuple[B, BatchMark], None]:
        ticket, hidings, telling, looking = scan.ticket, scan.hidings, scan.telling, scan.looking
        rest: tuple[Field, ...] | None = telling
        while rest is not None:
            telling, rest = rest, None
            if telling or columns_read(ticket):  # else the manifest has the number of the rows
                await self.verify(ticket)
            async with aclosing(self._files.batches(ticket, telling, row, scan.rows, opening)) as batches:
                table: TableRecord | None = None
                async for part, count in batches:
                    passed, entry = await looking.passed()
                    table = authorise(ticket, passed.view, entry, table, by_itself=scan.by_itself)
                    segment = _authorised(entry)
                    hiding = hidings.of(table, segment, passed.view)
                    if hiding.fields != telling:
                        rest = hiding.fields  # read again, with the columns that tell by this view
                        break
                    row += count
                    batch = self._files.shown(part, hiding, segment, len(ticket.fields))
                    self._files.log(ticket, passed, batch)
                    lease = passed.lease
                    mark = BatchMark(
                        next_row=row, view_revision=passed.view.revision, term=lease.term, sequence=lease.sequence
                    )
                    yield batch, mark

    async def verify(self, ticket: ReadTicket) -> None:
        """Checks the whole file against its hash, unless that was done."""
        stamp = self._files.stamp(file_of(ticket))
        if stamp is None:
            raise missing(self._serving, ticket.segment)
        known = (ticket.segment, ticket.sha256, stamp)
        if known not in self._verified:
            await self._files.verify(file_of(ticket), ticket.sha256)
            self._verified.add(known)


class Looking:
    """What the views that a scan meets say of its segment. The vault is read ahead of the guard, for the newest view,
    and again if the guard passes on a view that differs."""

    def __init__(self, requests: Requests, manifest: Manifest, ticket: ReadTicket) -> None:
        self.entry: SegmentRecord | None = None
        """By each view that it `knows`."""
        self._requests = requests
        self._manifest = manifest
        self._ticket = ticket
        self._bucket = (ticket.table, ticket.bucket)
        self._marks: tuple[object, object] | None = None
        self._applied = Revision(0)
        """By the vault when it was read."""

    async def passed(self) -> tuple[Pass[Catalog], SegmentRecord | None]:
        """A guard that passed, and the entry by its view; raises as `Requests.guarded` and `until_shown`."""
        while True:
            self.look()
            passed = self._requests.guarded(self._bucket)
            if self.knows(passed.view):
                return passed, self.entry
            await self._requests.until_shown(self._applied, self._bucket, self._ticket.generation, by_itself=True)

    def look(self) -> None:
        """Reads the entry for the newest view, unless it is known or the vault is ahead of that view."""
        view = self._requests.serving.view
        if self.knows(view):
            return
        stored = self._manifest.segment(self._bucket, self._ticket.segment)
        self._applied = stored.applied
        if stored.applied <= view.revision:
            self.entry, self._marks = entry_at(self._bucket, self._ticket.segment, view, stored), self._marks_of(view)

    def knows(self, view: Catalog) -> bool:
        """Whether the bucket has not changed between the view for which `entry` was read, and this one."""
        segments, replaced = self._marks_of(view)
        return self._marks is not None and self._marks[0] is segments and self._marks[1] is replaced

    def _marks_of(self, view: Catalog) -> tuple[object, object]:
        return view.segments.mark(self._bucket), view.replaced.mark(self._bucket)


class _Verified:
    """The files found right since the process started, the latest of them."""

    def __init__(self, runtime: Runtime) -> None:
        self._lock = runtime.condition()
        self._known: OrderedDict[tuple[SegmentId, bytes, Stamp], None] = OrderedDict()

    def __contains__(self, known: tuple[SegmentId, bytes, Stamp]) -> bool:
        with self._lock:
            if known not in self._known:
                return False
            self._known.move_to_end(known)
            return True

    def add(self, known: tuple[SegmentId, bytes, Stamp]) -> None:
        with self._lock:
            self._known[known] = None
            if len(self._known) > SEGMENTS_VERIFIED_MAX:
                self._known.popitem(last=False)


def _authorised(entry: SegmentRecord | None) -> SegmentRecord:
    assert entry is not None, "the ticket was authorised"
    return entry
