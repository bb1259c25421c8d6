"""Compactions: a node writes the rows of some segments that it holds into a new one, which a commit puts there instead.

Neither the rows nor a decision leave the nodes: each old segment is scanned, and the new one is appended, by the steps
of `core/data/scans.py` and `core/data/appends.py`, with their guards, rights, and checks of bytes. Rows that are hidden
are left out, by the view of each batch. That view is as new as the plan at least, since the transaction was opened
after it. What is hidden later makes the commit refuse (`core/replicas/rewrite.py`).

Rows of a table with a time column are sorted by it, as many as fit into SORTED_BYTES at a time. So a row group is of a
short time, and who asks for a range of time passes over the others.

The work runs beside the stream that answers, which tells that rows go on to come: a node that hangs says nothing. It
ends with its client.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Generic, NamedTuple, Protocol, TypeAlias

from leasehold.core.access.rights import user_of
from leasehold.core.catalog.catalog import live_fields
from leasehold.core.data.appends import Appends
from leasehold.core.data.requests import Requests, Slots, check_cluster
from leasehold.core.data.runtime import Runtime
from leasehold.core.data.scans import Scans
from leasehold.core.data.segment_files import B
from leasehold.core.words.messages import (
    CompactProgress,
    CompactTicket,
    ReadTicket,
    RowsEnd,
    StagedSegment,
    WriteTicket,
)
from leasehold.core.words.records import Field, PrincipalRecord, SegmentRecord, TableRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import BucketNumber, Generation, SegmentId
from leasehold.limits.upkeep import COMPACT_TOLD_NS, COMPACTED_BYTES, COMPACTIONS_MAX


class SortsRows(Protocol[B]):
    """Holds rows, and gives them back sorted by one column, a part of them at a time."""

    def add(self, batch: B) -> Iterable[B]:
        """Holds these rows too; gives back what it holds if that is much."""
        ...

    def rest(self) -> Iterable[B]:
        """Gives back what it holds."""
        ...


class Compactions(Generic[B]):
    """Serves compact tickets. `sorting` makes what sorts rows by the column at a place."""

    def __init__(
        self, requests: Requests, scans: Scans[B], appends: Appends[B], sorting: Callable[[int], SortsRows[B]]
    ) -> None:
        self._sorting = sorting
        self._requests = requests
        self._runtime = requests.runtime
        self._scans = scans
        self._appends = appends
        self._slots = Slots(requests.runtime, "compactions", COMPACTIONS_MAX)

    async def open(self, ticket: CompactTicket) -> PrincipalRecord | None:
        """Who asks; None in a cluster without users. Raises what stands against a ticket before anything is done for
        it: `Unauthenticated`, `Refused` with code OTHER_CLUSTER or BAD_TICKET, and as `Requests.until_shown`."""
        check_cluster(self._requests.serving, ticket.cluster_id)
        if not ticket.joined or len({segment for segment, _ in ticket.joined}) < len(ticket.joined):
            text = "the ticket names no segment, or one twice"
            raise Refused(text, code=ErrorCode.BAD_TICKET, hint="upgrade the client")
        bucket = (ticket.table, ticket.bucket)
        await self._requests.until_shown(ticket.revision, bucket, login=ticket.login)  # it shows a login that is new
        return user_of(ticket.login, self._requests.guarded(bucket).view)

    async def compact(
        self, ticket: CompactTicket, user: PrincipalRecord | None
    ) -> AsyncGenerator[CompactProgress | StagedSegment]:
        """Of a ticket that this `user` has opened: tells the number of rows now and then, and the new segment at the
        end. Raises as a scan and as `Appends.write`."""
        work = _Work(ticket, self._runtime, self._scans, self._appends, self._slots, self._sorting, user=user)
        self._runtime.start(work.run(), name="compaction")
        try:
            while True:
                answer = await work.answer(self._runtime.now_ns() + COMPACT_TOLD_NS)
                if isinstance(answer, Exception):
                    raise answer
                if answer is not None:
                    yield answer
                if isinstance(answer, StagedSegment):
                    return
        finally:
            work.is_wanted = False

    async def compact_by_itself(self, ticket: CompactTicket) -> StagedSegment:
        """The new segment of a bucket that this node was told to compact (`core/data/auto_compaction.py`)."""
        work = _Work(ticket, self._runtime, self._scans, self._appends, self._slots, self._sorting, by_itself=True)
        return await work.done()


class _Work(Generic[B]):
    """One compaction: implements `core.data.appends.RowStream` with the rows of the old segments."""

    def __init__(
        self,
        ticket: CompactTicket,
        runtime: Runtime,
        scans: Scans[B],
        appends: Appends[B],
        slots: Slots,
        sorting: Callable[[int], SortsRows[B]],
        *,
        user: PrincipalRecord | None = None,
        by_itself: bool = False,
    ) -> None:
        self.is_wanted = True
        self._user = user
        self._by_itself = by_itself
        self._ticket = ticket
        self._scans = scans
        self._appends = appends
        self._slots = slots
        self._changed = runtime.condition()
        self._fields: tuple[Field, ...] = ()
        self._sorting = sorting
        self._time_place: int | None = None
        self._rows = self._told_rows = 0
        self._ended: StagedSegment | Exception | None = None

    async def run(self) -> None:
        ended: StagedSegment | Exception
        try:
            ended = await self.done()
        except Exception as error:  # noqa: BLE001 it is raised where the answer is waited for
            ended = error
        with self._changed:
            self._ended = ended
            self._changed.notify_all()

    async def done(self) -> StagedSegment:
        """The new segment, once it is written. Without a free place nothing is begun."""
        with self._slots.one(self._user):
            return await self._appends.write(_write_ticket(self._ticket), self, by_itself=self._by_itself)

    async def answer(self, until_ns: int) -> CompactProgress | StagedSegment | Exception | None:
        """What it came to, or how far it is at `until_ns` or before; None if it has read nothing since it was asked."""
        with self._changed:
            if self._ended is None:
                await self._changed.wait(until_ns)
            if self._ended is not None:
                return self._ended
        told, self._told_rows = self._told_rows, self._rows
        return CompactProgress(rows=self._told_rows) if self._told_rows > told else None

    def fields(self, table: TableRecord) -> tuple[Field, ...]:
        """All columns in use."""
        self._fields = live_fields(table)
        places = (place for place, one in enumerate(self._fields) if one.id == table.time_column)
        self._time_place = next(places, None)
        return self._fields

    async def pieces(self) -> AsyncGenerator[B | RowsEnd]:
        """All rows, by time if they have one."""
        held = None if self._time_place is None else self._sorting(self._time_place)
        async with aclosing(self._old_rows()) as batches:
            async for batch in batches:
                for one in (batch,) if held is None else held.add(batch):
                    yield one
        for one in () if held is None else held.rest():
            yield one
        yield RowsEnd(rows=self._rows)

    async def _old_rows(self) -> AsyncGenerator[B]:
        """The rows of one old segment after the other."""
        for segment, sha256 in self._ticket.joined:
            ticket = _read_ticket(self._ticket, segment, sha256, self._fields)
            scan = await self._scans.open(ticket, by_itself=self._by_itself)
            async with aclosing(self._scans.stream(scan)) as batches:
                async for batch, _ in batches:
                    if not self.is_wanted:
                        raise Refused("its client is gone", code=ErrorCode.BROKEN_STREAM, hint="compact again")
                    self._rows += batch.num_rows
                    if batch.num_rows:
                        yield batch


class OldSegment(NamedTuple):
    """A segment that a replica compacts: what `core/data/row_sender.py` sends in the place of rows."""

    segment: SegmentId
    sha256: bytes
    num_rows: int
    nbytes: int
    """Of its file."""


Share: TypeAlias = list[OldSegment]
"""What becomes one new segment."""


def compact_ticket(ticket: WriteTicket, share: Sequence[OldSegment], generation: Generation) -> CompactTicket:
    """What a replica is asked for in the place of a ticket for rows."""
    return CompactTicket(
        cluster_id=ticket.cluster_id,
        transaction=ticket.transaction,
        segment=ticket.segment,
        table=ticket.table,
        bucket=ticket.bucket,
        schema_version=ticket.schema_version,
        joined=tuple((one.segment, one.sha256) for one in share),
        revision=ticket.revision,
        generation=generation,
        login=ticket.login,
    )


def shares(portion: Iterable[SegmentRecord], size_bytes: int = COMPACTED_BYTES) -> list[tuple[BucketNumber, Share]]:
    """The segments of a portion that become one each: of one bucket, and of `size_bytes` in all, or a larger one."""
    found: list[tuple[BucketNumber, Share]] = []
    left_bytes = 0
    for one in portion:
        if not found or found[-1][0] != one.bucket or one.size_bytes > left_bytes:
            found.append((one.bucket, []))
            left_bytes = size_bytes
        found[-1][1].append(OldSegment(one.id, one.sha256, one.rows, one.size_bytes))
        left_bytes -= one.size_bytes
    return found


def _write_ticket(ticket: CompactTicket) -> WriteTicket:
    return WriteTicket(
        cluster_id=ticket.cluster_id,
        transaction=ticket.transaction,
        segment=ticket.segment,
        table=ticket.table,
        bucket=ticket.bucket,
        schema_version=ticket.schema_version,
        revision=ticket.revision,
        login=ticket.login,
    )


def _read_ticket(ticket: CompactTicket, segment: SegmentId, sha256: bytes, fields: tuple[Field, ...]) -> ReadTicket:
    return ReadTicket(
        cluster_id=ticket.cluster_id,
        request=ticket.transaction,
        table=ticket.table,
        bucket=ticket.bucket,
        segment=segment,
        sha256=sha256,
        row_offset=0,
        fields=fields,
        revision=ticket.revision,
        login=ticket.login,
        generation=ticket.generation,
    )
