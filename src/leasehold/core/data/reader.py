"""Reading a plan: its segments in order, each from whichever replica can serve it (decisions in `core/data/scan.py`).

Each request to a replica runs beside the reader, and puts what comes into the inbox of its segment, bounded in bytes.
Where the rows are taken from the inbox it is decided whom to ask next, and whether a batch may still be handed out.

A replica that is fenced is left for the next one at once and rests a little (`core/data/known.py`). While one is
silent, another one is asked as well, and the first answer is taken. A call has a deadline that covers all of it. If
that passes after some batches came, the reader of the rows was slow: the replica is asked again, from the next row.

If rows are taken away before any was handed out, the scan is planned and read again (`read_again`).
"""

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Generic, TypeVar, assert_never

import msgspec

from leasehold.core.data.asking import Asking
from leasehold.core.data.attempts import Attempt, B, Inbox, Marked, Replicas
from leasehold.core.data.filters import lean
from leasehold.core.data.hedging import Ask, GiveUp, Pause, Wait
from leasehold.core.data.places import Places, silent
from leasehold.core.data.runtime import Runtime
from leasehold.core.data.scan import Done, SegmentReading, Together, as_one, together
from leasehold.core.replicas.lost import check_nothing_lost
from leasehold.core.words.messages import BatchMark, NextSegment, ReadTicket, ReadTogether, ScanPlan
from leasehold.core.words.records import SegmentRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, Refused, Unreachable
from leasehold.ids import NodeId, NodeLogin
from leasehold.limits.clients import SCAN_BATCH_TIMEOUT_NS, SCAN_BYTES_PER_SECOND_MIN, SCAN_PLANS_MAX
from leasehold.limits.units import SECOND_NS

P = TypeVar("P")
T = TypeVar("T")

FINAL: Final = frozenset(
    {
        ErrorCode.BAD_MESSAGE,
        ErrorCode.BAD_SEGMENT_NAME,
        ErrorCode.BAD_TICKET,
        ErrorCode.CERTIFICATE_REVOKED,
        ErrorCode.COLUMN_DROPPED,
        ErrorCode.FORBIDDEN,
        ErrorCode.FORKED,
        ErrorCode.GENERATION_CHANGED,
        ErrorCode.OTHER_CLUSTER,
        ErrorCode.ROWS_TAKEN_AWAY,
        ErrorCode.SCHEMA_CHANGED,
        ErrorCode.SEGMENT_UNKNOWN,
        ErrorCode.TABLE_DROPPED,
        ErrorCode.UNAUTHENTICATED,
        ErrorCode.VIEW_DROPPED,
    }
)
"""What no other replica would answer differently."""


@dataclass(frozen=True)
class ReaderPorts(Generic[B]):
    """What a reader needs of the world."""

    runtime: Runtime
    replicas: Replicas[B]
    draw_id: Callable[[], str]
    """128 random bits as hex digits: the id of a request."""


class SegmentReader(Generic[B]):
    """Carries out what `SegmentReading` decides."""

    def __init__(
        self,
        plan: ScanPlan,
        segments: Together,
        places: Places,
        ports: ReaderPorts[B],
        *,
        login: NodeLogin | None,
        asking: Asking,
        batch_timeout_ns: int = SCAN_BATCH_TIMEOUT_NS,
    ) -> None:
        check_nothing_lost(plan.facts.name, segments)
        self._plan = plan
        self._login = login
        self._asking = asking
        self._segment = segment = as_one(segments)
        self._then = tuple(NextSegment(segment=one.id, sha256=one.sha256) for one in segments[1:])
        self._places = places
        self._known = places.known
        self._runtime = ports.runtime
        self._now_ns = ports.runtime.now_ns
        self._replicas = ports.replicas
        self._request = ports.draw_id()
        self._asked = tuple(lean(one) for one in plan.fields)
        self._timeout_ns = min(batch_timeout_ns, asking.for_ns)
        self._was_late = False
        self._reasons: dict[NodeId, LeaseholdError] = {}
        self._attempts: dict[NodeId, Attempt[B]] = {}
        self._inbox: Inbox[B] = Inbox(ports.runtime)
        holders = places.in_turn(reading_order(segment))
        record = msgspec.structs.replace(segment, holders=holders)
        self._reading = SegmentReading(record, give_up_ns=asking.for_ns)

    async def start(self) -> None:
        """Asks the first replica, so that its rows are on their way when they are wanted."""
        await self._step()

    async def batches(self) -> AsyncGenerator[tuple[B, BatchMark], None]:
        """The rows, once, and what their node said of them.

        Raises the codes in `FINAL` as soon as one replica says so, `Unreachable` with code NO_REPLICA once none has
        served for as long as `asking` says.
        """
        try:
            while True:
                arrived = await self._inbox.take(None)
                if arrived is None:
                    until_ns = await self._step()
                    if until_ns is None:
                        return
                    arrived = await self._inbox.take(until_ns)
                taken = None if arrived is None else self._take(*arrived)
                if taken is not None and taken[0].num_rows:
                    yield taken
        finally:
            self.close()

    def close(self) -> None:
        """Ends what is under way; idempotent."""
        for attempt in self._attempts.values():
            attempt.drop()
        self._attempts.clear()
        self._inbox.close()

    async def _step(self) -> int | None:
        """Makes the next move; answers until when to wait then, None once all rows were read."""
        delay_ns = self._known.reads.delay_ns(self._segment.size_bytes)
        now_ns = self._now_ns()
        move = self._reading.move(now_ns, delay_ns=delay_ns, may_hedge=self._known.reads.may_hedge)
        match move:
            case Ask(node=node, also=also):
                self._known.reads.asked(also=also)
                self._ask(node)
            case Wait(until_ns=until_ns):
                return until_ns
            case Pause(until_ns=until_ns):
                gives_up_ns = self._reading.hedging.gives_up_ns
                if gives_up_ns is not None:
                    self._asking.again(self._nobody(), gives_up_ns - self._now_ns())
                await self._runtime.sleep_until(until_ns)
                if self._was_late:
                    # A replica that is slow, not stopped, gets its chance in a later round.
                    self._timeout_ns = min(2 * self._timeout_ns, self._asking.for_ns)
                self._was_late = False
                await self._look_again()
            case Done():
                return None
            case GiveUp():
                self._reasons |= {one.node: silent(now_ns - one.began_ns) for one in self._attempts.values()}
                raise self._nobody()
            case _:
                assert_never(move)
        return now_ns

    def _nobody(self) -> Unreachable:
        more = f" and {len(self._then)} more" if self._then else ""
        what = f"no replica serves segment {self._segment.id}{more} of {self._plan.facts.name}"
        return self._places.nobody(what, self._reasons)

    def _ask(self, node: NodeId) -> None:
        place = self._places.place(node)
        if place is None:
            self._failed(node, Unreachable("its address is not known", code=ErrorCode.NO_ADDRESS))
            return
        request = ReadTicket(
            cluster_id=self._plan.facts.cluster_id,
            request=self._request,
            table=self._segment.table,
            bucket=self._segment.bucket,
            segment=self._segment.id,
            sha256=self._segment.sha256,
            row_offset=self._reading.row,
            fields=self._asked,
            revision=self._places.revision,
            through=self._plan.through,
            login=self._login,
            generation=self._plan.facts.generation,
            cutoff=self._plan.cutoff,
            where=self._plan.where,
        )
        asked = ReadTogether(first=request, then=self._then) if self._then else request
        stream = self._replicas.open(place, asked, self._timeout_ns)
        attempt = Attempt(node, request, self._now_ns(), stream, self._inbox, self._places)
        self._attempts[node] = attempt
        # Not as a daemon: a thread that comes back from gRPC while the interpreter ends would abort the process. So the
        # end of the program waits for it, at most until the deadline of its call.
        self._runtime.start(attempt.run(), name=f"scan of node {node}")

    def _take(self, attempt: Attempt[B], what: Marked[B] | Exception | None) -> tuple[B, BatchMark] | None:
        """Takes what has arrived: rows to hand on, or how an attempt ended."""
        node = attempt.node
        if self._attempts.get(node) is not attempt:
            return None  # it was overtaken
        if isinstance(what, tuple):
            return self._received(attempt, *what)
        del self._attempts[node]
        row, rows = self._reading.row, self._segment.rows
        match what:
            case None if row < rows:
                text = f"the stream ended at row {row} of {rows}"
                self._failed(node, Unreachable(text, code=ErrorCode.BROKEN_STREAM))
            case None:
                self._reading.hedging.ended(node)
            case LeaseholdError() if what.code == ErrorCode.TIMED_OUT and row > attempt.request.row_offset:
                self._timed_out(attempt)
            case LeaseholdError() if what.code not in FINAL:
                self._was_late = self._was_late or what.code == ErrorCode.TIMED_OUT
                self._failed(node, what)
            case _:
                raise what
        return None

    def _timed_out(self, attempt: Attempt[B]) -> None:
        """The deadline of an attempt has passed that has brought rows. The next replica goes on if these were few."""
        came_bytes = self._segment.size_bytes * (self._reading.row - attempt.request.row_offset) // self._segment.rows
        took_ns = self._now_ns() - attempt.began_ns
        if came_bytes * SECOND_NS < SCAN_BYTES_PER_SECOND_MIN * took_ns:
            self._reading.hedging.was_slow(attempt.node)
        else:
            self._reading.hedging.ended(attempt.node)

    def _received(self, attempt: Attempt[B], batch: B | None, mark: BatchMark) -> tuple[B, BatchMark] | None:
        node, row, rows, now_ns = attempt.node, self._reading.row, self._segment.rows, self._now_ns()
        if batch is None or not row < mark.next_row <= rows or batch.num_rows > mark.next_row - row:
            text = f"a batch up to row {mark.next_row} came at row {row} of {rows}"
            self._leave(attempt, Refused(text, code=ErrorCode.BAD_BATCH))
            return None
        needed = self._known.needed(attempt.request.revision)
        overtaken = self._reading.received(node, mark, batch.num_rows, now_ns, needed)
        if overtaken is None:
            text = f"a batch was released on the older revision {mark.view_revision}"
            # One that was new enough when it was asked for has only been on its way for too long: it is asked for anew.
            is_fault = mark.view_revision < attempt.request.revision
            self._leave(attempt, Refused(text, code=ErrorCode.BEHIND) if is_fault else None)
            return None
        for other in overtaken:
            late = self._attempts[other]
            self._leave(late, None)
            self._reasons[other] = error = silent(now_ns - late.began_ns)
            self._places.failed(other, error)
        if not attempt.has_answered:
            attempt.has_answered = True
            self._asking.answered()
            self._known.reads.answered(now_ns - attempt.began_ns)
        return batch, mark

    def _leave(self, attempt: Attempt[B], error: LeaseholdError | None) -> None:
        """Ends an attempt; with an `error` it has failed."""
        attempt.drop()
        self._inbox.wake()
        del self._attempts[attempt.node]
        if error is not None:
            self._failed(attempt.node, error)

    def _failed(self, node: NodeId, error: LeaseholdError) -> None:
        self._reasons[node] = error
        self._places.failed(node, error)
        self._reading.hedging.failed(node)

    async def _look_again(self) -> None:
        await self._places.look_again()
        first = reading_order(self._segment)
        later = [node for node in self._places.replicas(self._segment.bucket) if node not in first]
        self._reading.hedging.moved(self._places.in_turn((*first, *later)))


def reading_order(segment: SegmentRecord) -> tuple[NodeId, ...]:
    """The holders, another one first for another segment: so that readers spread over the nodes."""
    turn = int(segment.id[-8:], 16) % max(1, len(segment.holders))
    return segment.holders[turn:] + segment.holders[:turn]


async def in_order(
    plan: ScanPlan, read: Callable[[Together], SegmentReader[B]], streams: int
) -> AsyncGenerator[tuple[B, BatchMark], None]:
    """The rows of all segments in the order of the plan; up to `streams` calls are made ahead."""
    waiting = together(plan.segments)
    ahead: deque[SegmentReader[B]] = deque()
    try:
        while True:
            while len(ahead) < streams and (segments := next(waiting, None)) is not None:
                ahead.append(read(segments))
                await ahead[-1].start()
            if not ahead:
                return
            async with aclosing(ahead[0].batches()) as batches:
                async for batch in batches:
                    yield batch
            ahead.popleft()
    finally:
        # Not waited for: a thread may be inside a call, which ends by its deadline.
        for reader in ahead:
            reader.close()


async def plan_until_read(read: Callable[[], Awaitable[P]], attempt: int) -> tuple[P, int]:
    """What `read` answers, and the number of its plan; makes a new plan where that helps."""
    while True:
        try:
            return await read(), attempt
        except Refused as error:
            attempt = next_plan(error, attempt)


async def read_again(
    first: tuple[P, int],
    read: Callable[[], Awaitable[P]],
    batches: Callable[[P], AsyncGenerator[T, None]],
    is_alike: Callable[[P], bool],
) -> AsyncGenerator[T, None]:
    """The batches of `first`, or of a new plan if rows are taken away before any batch was handed out.

    So a query ends with ROWS_TAKEN_AWAY only if a part of what it showed could be half of a DELETE (INV-SCAN-1), after
    SCAN_PLANS_MAX plans, or if its columns have changed. Errors as of `read` and `batches`.
    """
    planned, attempt = first
    while True:
        is_begun = False
        try:
            async with aclosing(batches(planned)) as found:
                async for batch in found:
                    is_begun = True
                    yield batch
        except Refused as error:
            if is_begun:
                raise
            planned, attempt = await plan_until_read(read, next_plan(error, attempt))
            if not is_alike(planned):
                raise
        else:
            return


def next_plan(error: Refused, attempt: int) -> int:
    """The number of the next plan; raises `error` where no new plan can help."""
    if error.code != ErrorCode.ROWS_TAKEN_AWAY or attempt >= SCAN_PLANS_MAX:
        raise error
    return attempt + 1
