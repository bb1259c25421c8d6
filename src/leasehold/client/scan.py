"""Scans: the segments of a plan from whichever replicas can serve them (decisions in `core/scan.py`).

Everything blocks, and Ctrl-C ends it. Each request to a replica has a thread, which puts what comes into the inbox of
its segment, bounded in bytes. All decisions are made in the thread that takes the rows, when it takes them: whom to ask
next, and whether a batch may still be handed out.

A replica that is fenced is left for the next one at once and rests a little (`client/known.py`). While one is silent,
another one is asked as well, and the first that answers is taken. A call has a deadline that covers all of it. One that
passes after some batches came, because the reader of the rows took its time, is no fault of the replica: it is asked
again, from the next row.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, assert_never

import msgspec
import pyarrow as pa

from leasehold.client.asking import Asking
from leasehold.client.attempts import Attempt, Inbox, Marked
from leasehold.client.known import Known
from leasehold.client.lost import check_nothing_lost
from leasehold.client.places import Places, Refresh, boottime_ns, pause, silent
from leasehold.core.hedging import Ask, GiveUp, Pause, Wait
from leasehold.core.messages import BatchMark, ReadTicket, ScanPlan
from leasehold.core.records import SegmentRecord
from leasehold.core.scan import Done, SegmentReading
from leasehold.errors import LeaseholdError, Refused, Unreachable
from leasehold.ids import LoginToken, NodeId
from leasehold.limits.clients import SCAN_BATCH_TIMEOUT_NS, SCAN_PLANS_MAX, SCAN_STREAMS
from leasehold.storage.schema import arrow_schema
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.flight import within

FINAL: Final = frozenset(
    {
        "BAD_MESSAGE",
        "BAD_SEGMENT_NAME",
        "BAD_TICKET",
        "COLUMN_DROPPED",
        "FORBIDDEN",
        "FORKED",
        "GENERATION_CHANGED",
        "OTHER_CLUSTER",
        "ROWS_TAKEN_AWAY",
        "SCHEMA_CHANGED",
        "SEGMENT_UNKNOWN",
        "TABLE_DROPPED",
        "UNAUTHENTICATED",
        "VIEW_DROPPED",
    }
)
"""What no other replica would answer differently."""


# ---------------------------------------------------------------- one segment


def read_segment(
    plan: ScanPlan,
    segment: SegmentRecord,
    *,
    now_ns: Callable[[], int] = boottime_ns,
    sleep: Callable[[int], None] = pause,
    refresh: Refresh | None = None,
    places: Places | None = None,
    login: LoginToken | None = None,
    batch_timeout_ns: int = SCAN_BATCH_TIMEOUT_NS,
) -> Iterator[pa.RecordBatch]:
    """The rows of one segment, each once, in exactly `arrow_schema(plan.fields)`.

    A caller that reads several segments makes `places` once, of the plan's facts and `refresh`, and hands them to each.
    A replica that has sent nothing for `batch_timeout_ns` is left for the next one.
    Raises `Refused` (TABLE_DROPPED, COLUMN_DROPPED, FORBIDDEN ..) as soon as one replica says so, or with code
    SEGMENTS_LOST if there is none any more, `Unreachable` with code NO_REPLICA once none has served for as long as
    `Asking` says.
    """
    places = places or Places(plan.facts, refresh, now_ns=now_ns)
    reader = _SegmentReader(
        plan,
        segment,
        places,
        now_ns=now_ns,
        sleep=sleep,
        login=login,
        asking=Asking(),
        batch_timeout_ns=batch_timeout_ns,
    )
    return reader.batches()


class _SegmentReader:
    """Carries out what `SegmentReading` decides."""

    def __init__(
        self,
        plan: ScanPlan,
        segment: SegmentRecord,
        places: Places,
        *,
        now_ns: Callable[[], int],
        sleep: Callable[[int], None],
        login: LoginToken | None,
        asking: Asking,
        batch_timeout_ns: int,
    ) -> None:
        check_nothing_lost(plan.facts.name, (segment,))
        self._plan = plan
        self._login = login
        self._asking = asking
        self._segment = segment
        self._places = places
        self._known = places.known
        self._now_ns = now_ns
        self._sleep = sleep
        self._request = SystemEntropy().hex_128()
        self._schema = arrow_schema(plan.fields)
        # What only people and writers look at does not travel.
        self._asked = tuple(msgspec.structs.replace(one, default=None, comment="") for one in plan.fields)
        self._timeout_ns = min(batch_timeout_ns, asking.for_ns)
        self._was_late = False
        self._reasons: dict[NodeId, LeaseholdError] = {}
        self._attempts: dict[NodeId, Attempt] = {}
        self._inbox = Inbox()
        holders = places.in_turn(reading_order(segment))
        record = msgspec.structs.replace(segment, holders=holders)
        self._reading = SegmentReading(record, give_up_ns=asking.for_ns)

    def start(self) -> None:
        """Asks the first replica, so that its rows are on their way when they are wanted."""
        self._step()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, once."""
        try:
            while True:
                arrived = self._inbox.take(0)
                if arrived is None:
                    wait_ns = self._step()
                    if wait_ns is None:
                        return
                    arrived = self._inbox.take(wait_ns)
                batch = None if arrived is None else self._take(*arrived)
                if batch is not None and batch.num_rows:
                    yield batch
        finally:
            self.close()

    def close(self) -> None:
        """Ends what is under way; idempotent."""
        for attempt in self._attempts.values():
            attempt.drop()
        self._attempts.clear()
        self._inbox.close()

    def _step(self) -> int | None:
        """Does what is to be done next; how long to wait for an answer then, None once all rows were read."""
        delay_ns = self._known.reads.delay_ns(self._segment.size_bytes)
        move = self._reading.move(self._now_ns(), delay_ns=delay_ns, may_hedge=self._known.reads.may_hedge)
        match move:
            case Ask(node=node, also=also):
                self._known.reads.asked(also=also)
                self._ask(node)
            case Wait(until_ns=until_ns):
                return max(0, until_ns - self._now_ns())
            case Pause(until_ns=until_ns):
                gives_up_ns = self._reading.gives_up_ns
                if gives_up_ns is not None:
                    self._asking.again(self._nobody(), gives_up_ns - self._now_ns())
                self._sleep(max(0, until_ns - self._now_ns()))
                if self._was_late:
                    # A replica that is slow, not stopped, gets its chance in a later round.
                    self._timeout_ns = min(2 * self._timeout_ns, self._asking.for_ns)
                self._was_late = False
                self._look_again()
            case Done():
                return None
            case GiveUp():
                now_ns = self._now_ns()
                self._reasons |= {one.node: silent(now_ns - one.began_ns) for one in self._attempts.values()}
                raise self._nobody()
            case _:
                assert_never(move)
        return 0

    def _nobody(self) -> Unreachable:
        what = f"no replica serves segment {self._segment.id} of {self._plan.facts.name}"
        return self._places.nobody(what, self._reasons)

    def _ask(self, node: NodeId) -> None:
        address = self._places.address(node)
        if address is None:
            self._failed(node, Unreachable("nobody knows its address", code="NO_ADDRESS"))
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
        )
        options, now_ns = within(self._timeout_ns, request), self._now_ns()
        attempt = Attempt(node, address, request, now_ns, self._schema, options, self._inbox, self._places)
        self._attempts[node] = attempt
        attempt.start()

    def _take(self, attempt: Attempt, what: Marked | BaseException | None) -> pa.RecordBatch | None:
        """What has arrived: rows to hand on, or how an attempt ended."""
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
                self._failed(node, Unreachable(text, code="BROKEN_STREAM"))
            case None:
                self._reading.ended(node)
            case LeaseholdError() if what.code == "TIMED_OUT" and row > attempt.request.row_offset:
                self._reading.ended(node)
            case LeaseholdError() if what.code not in FINAL:
                self._was_late = self._was_late or what.code == "TIMED_OUT"
                self._failed(node, what)
            case _:
                raise what
        return None

    def _received(self, attempt: Attempt, batch: pa.RecordBatch | None, mark: BatchMark) -> pa.RecordBatch | None:
        node, row, rows, now_ns = attempt.node, self._reading.row, self._segment.rows, self._now_ns()
        if batch is None or not row < mark.next_row <= rows or batch.num_rows > mark.next_row - row:
            text = f"a batch up to row {mark.next_row} came at row {row} of {rows}"
            self._leave(attempt, Refused(text, code="BAD_BATCH"))
            return None
        needed = self._known.needed(attempt.request.revision)
        overtaken = self._reading.received(node, mark, batch.num_rows, now_ns, needed)
        if overtaken is None:
            text = f"a batch was released on revision {mark.view_revision}, an older one"
            # One that was new enough when it was asked for has only been on its way for too long: it is asked for anew.
            is_fault = mark.view_revision < attempt.request.revision
            self._leave(attempt, Refused(text, code="BEHIND") if is_fault else None)
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
        return batch

    def _leave(self, attempt: Attempt, error: LeaseholdError | None) -> None:
        """Its answer counts no more; by an `error` it failed."""
        attempt.drop()
        self._inbox.wake()
        del self._attempts[attempt.node]
        if error is not None:
            self._failed(attempt.node, error)

    def _failed(self, node: NodeId, error: LeaseholdError) -> None:
        self._reasons[node] = error
        self._places.failed(node, error)
        self._reading.failed(node)

    def _look_again(self) -> None:
        self._places.look_again()
        first = reading_order(self._segment)
        later = [node for node in self._places.replicas(self._segment.bucket) if node not in first]
        self._reading.moved(self._places.in_turn((*first, *later)))


def reading_order(segment: SegmentRecord) -> tuple[NodeId, ...]:
    """The holders, another one first for another segment: so that readers spread over the nodes."""
    turn = int(segment.id[-8:], 16) % max(1, len(segment.holders))
    return segment.holders[turn:] + segment.holders[:turn]


# ---------------------------------------------------------------- a whole plan


def read_plan(
    plan: ScanPlan,
    *,
    now_ns: Callable[[], int] = boottime_ns,
    sleep: Callable[[int], None] = pause,
    refresh: Refresh | None = None,
    streams: int = SCAN_STREAMS,
    login: LoginToken | None = None,
    known: Known | None = None,
    asking: Asking | None = None,
    batch_timeout_ns: int = SCAN_BATCH_TIMEOUT_NS,
) -> pa.RecordBatchReader:
    """All rows of a plan, segment by segment in its order, as a stream of `arrow_schema(plan.fields)`.

    Up to `streams` segments are read ahead, each by at most SCAN_AHEAD_BYTES_MAX. `known` is what the client knows.
    `batch_timeout_ns` and errors as of `read_segment`.
    """
    assert streams >= 1
    patient = asking or Asking()
    check_nothing_lost(plan.facts.name, plan.segments)
    places = Places(plan.facts, refresh, now_ns=now_ns, known=known)

    def one(segment: SegmentRecord) -> _SegmentReader:
        return _SegmentReader(
            plan,
            segment,
            places,
            now_ns=now_ns,
            sleep=sleep,
            login=login,
            asking=patient,
            batch_timeout_ns=batch_timeout_ns,
        )

    return pa.RecordBatchReader.from_batches(arrow_schema(plan.fields), _in_order(plan, one, streams))


def read_again(read: Callable[[], pa.RecordBatchReader]) -> pa.RecordBatchReader:
    """What `read` plans and reads; a new plan is made if rows are taken away before any batch was handed out.

    So a query ends with ROWS_TAKEN_AWAY only where a part of what it showed could be half of a DELETE (INV-SCAN-1), or
    after SCAN_PLANS_MAX plans. Errors as of `read`.
    """

    def planned(attempt: int) -> tuple[pa.RecordBatchReader, int]:
        while True:
            try:
                return read(), attempt
            except Refused as error:
                attempt = next_plan(error, attempt)

    first, attempts = planned(1)

    def batches() -> Iterator[pa.RecordBatch]:
        reader, attempt = first, attempts
        while True:
            is_begun = False
            try:
                for batch in reader:
                    is_begun = True
                    yield batch
            except Refused as error:
                if is_begun:
                    raise
                reader, attempt = planned(next_plan(error, attempt))
                if not reader.schema.equals(first.schema):
                    raise
            else:
                return

    return pa.RecordBatchReader.from_batches(first.schema, batches())


def next_plan(error: Refused, attempt: int) -> int:
    """The number of the next plan; raises `error` where no new plan can help."""
    if error.code != "ROWS_TAKEN_AWAY" or attempt >= SCAN_PLANS_MAX:
        raise error
    return attempt + 1


def _in_order(
    plan: ScanPlan, read: Callable[[SegmentRecord], _SegmentReader], streams: int
) -> Iterator[pa.RecordBatch]:
    waiting = iter(plan.segments)
    ahead: deque[_SegmentReader] = deque()
    try:
        while True:
            while len(ahead) < streams and (segment := next(waiting, None)) is not None:
                ahead.append(read(segment))
                ahead[-1].start()
            if not ahead:
                return
            yield from ahead[0].batches()
            ahead.popleft()
    finally:
        # Not waited for: a thread may be inside a call, which ends by its deadline.
        for reader in ahead:
            reader.close()
