"""The finished segment files of a simulated node, as the steps of scans and copies read them."""

from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TYPE_CHECKING, Final

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.data.cutoff import rows_taken_away
from leasehold.core.data.hidden_rows import Hiding
from leasehold.core.data.segment_files import Opening, Stamp, file_of
from leasehold.core.lease.holder import Pass
from leasehold.core.replicas.reconcile import OnDisk
from leasehold.core.words.messages import ReadTicket
from leasehold.core.words.records import Field, SegmentRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt, NotFound
from leasehold.testing.disk import MemoryDisk
from leasehold.testing.rows import Content, Part, RowId, footer, fulfils, row_bytes
from leasehold.wire.ports import Clock

if TYPE_CHECKING:
    from leasehold.testing.dataplane import DataNode

CHUNK_BYTES: Final = 128

OnReleased = Callable[[Pass[Catalog], ReadTicket, tuple[RowId, ...]], None]
"""Told of each batch at the instant its guard has passed: the guard's pass, the scan, the rows."""


class MemorySegments:
    """Implements `core.data.segment_files.ReadsSegments` and `GivesFiles`. A reader goes on with a file after it is
    trashed. Rows don't expire here, since they have no time."""

    def __init__(self, disk: MemoryDisk, pace: "DataNode", clock: Clock) -> None:
        self._disk = disk
        self._pace = pace
        self._clock = clock

    def exists(self, one: OnDisk) -> bool:
        """Whether a segment is there, finished."""
        return self._disk.exists(one)

    def stamp(self, one: OnDisk) -> Stamp | None:
        """The stamp of the present file, if there is one; damage does not change it."""
        return self._disk.disk.stamp(one)

    async def verify(self, one: OnDisk, sha256: bytes) -> None:
        self._pace.on_verified(one)
        if self._content(one).sha256 != sha256:
            raise Corrupt(f"the file of {one} is not what the manifest says")

    async def batches(
        self, ticket: ReadTicket, telling: tuple[Field, ...], row: int, rows: int, opening: Opening
    ) -> AsyncGenerator[tuple[Part, int]]:
        del telling, rows, opening  # a row is its id
        one = file_of(ticket)
        content = self._content(one)
        while row < len(content.rows):
            await self._pass()
            # Each page has a checksum: what a reader has open stays damaged when the file goes to the trash.
            is_wrong = content.sha256 != ticket.sha256 or self._disk.disk.is_damaged(one)
            if is_wrong or self._disk.disk.failing:
                raise Corrupt(f"the file of {one} is damaged")
            part = Part(content.rows[row : row + self._pace.batch_rows], content.columns)
            row += part.num_rows
            yield part, part.num_rows

    def shown(self, batch: Part, hiding: Hiding, segment: SegmentRecord, columns: int) -> Part:
        del columns, segment  # the entry of a segment that was replaced has no statistics: the file knows its columns
        left: list[RowId] = []
        for row in batch.rows:
            if any(fulfils(row, one, batch.columns, hiding.fields) for one in hiding.deletes):
                continue
            if any(fulfils(row, one, batch.columns, hiding.fields) for one in hiding.later):
                raise rows_taken_away(hiding.table, "rows were deleted")
            left.append(row)
        return Part(tuple(left))

    def log(self, ticket: ReadTicket, passed: Pass[Catalog], batch: Part | None) -> None:
        self._pace.on_released(passed, ticket, () if batch is None else batch.rows)

    def suspect(self, one: OnDisk) -> None:
        self._disk.suspect(one)

    async def chunks(self, one: OnDisk) -> AsyncGenerator[bytes]:
        content = self._content(one)
        blob = row_bytes(content.rows) + footer(content.columns)
        for start in range(0, len(blob), CHUNK_BYTES):
            await self._pass()
            yield blob[start : start + CHUNK_BYTES]

    def _content(self, one: OnDisk) -> Content:
        self._disk.check()
        content = self._disk.disk.content(one)
        if content is None:
            raise NotFound(f"the file of {one} is gone", code=ErrorCode.SEGMENT_MISSING)
        if self._disk.disk.failing:
            raise Corrupt(f"the file of {one} can't be read: Input/output error")
        return content

    async def _pass(self) -> None:
        await self._clock.sleep_until(self._clock.now_ns() + self._pace.batch_delay_ns())


class ReversedRows:
    """Implements `core.data.compactions.SortsRows`: two batches at a time, since rows have no time here."""

    def __init__(self, column: int) -> None:
        del column
        self._held: list[RowId] = []
        self._batches = 0

    def add(self, batch: Part) -> Iterator[Part]:
        self._held.extend(batch.rows)
        self._batches += 1
        if self._batches % 2 == 0:
            yield from self.rest()

    def rest(self) -> Iterator[Part]:
        rows, self._held = self._held, []
        if rows:
            yield Part(tuple(reversed(rows)))
