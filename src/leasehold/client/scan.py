"""Scans: the segments of a plan from whichever replicas can serve them (decisions in `core/scan.py`).

Everything blocks, and Ctrl-C ends it. A replica that is fenced is left for the next one at once and rests a little
(`client/places.py`); one that is silent costs a timeout. A call has a deadline that covers all of it. One that passes
after some batches came, because the reader of the rows took its time, is no fault of the replica: it is asked again,
from the next row.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, assert_never

import msgspec
import pyarrow as pa

from leasehold.client.places import Places, Refresh, boottime_ns, pause
from leasehold.core.messages import BatchMark, ReadTicket, ScanPlan
from leasehold.core.records import SegmentRecord
from leasehold.core.scan import Ask, Done, GiveUp, Pause, SegmentReading
from leasehold.errors import LeaseholdError, Refused, Unreachable
from leasehold.ids import LoginToken, NodeId
from leasehold.limits import (
    SCAN_BATCH_TIMEOUT_NS,
    SCAN_GIVE_UP_NS,
    SCAN_PAUSE_NS,
    SCAN_PLANS_MAX,
    SCAN_STREAM_BATCHES,
    SCAN_STREAMS,
    SECOND_NS,
)
from leasehold.storage.schema import arrow_schema
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.flight import calling, expect, reader_to, ticket, within

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
) -> Iterator[pa.RecordBatch]:
    """The rows of one segment, each once, in exactly `arrow_schema(plan.fields)`.

    Who reads several segments makes `places` once, of the plan's facts and `refresh`, and hands them to each. Raises
    `Refused` (TABLE_DROPPED, COLUMN_DROPPED, FORBIDDEN ..) as soon as one replica says so, or with code SEGMENT_LOST if
    there is none any more, `Unreachable` with code NO_REPLICA once none has served for SCAN_GIVE_UP_NS.
    """
    if not segment.holders:
        raise Refused(
            f"{segment.rows} rows of {plan.facts.name} are lost: all nodes that held segment {segment.id} were removed",
            code="SEGMENT_LOST",
            hint="a scan needs all segments of its table: make the table anew from where its rows came from",
        )
    places = places or Places(plan.facts, refresh, now_ns=now_ns)
    return _SegmentReader(plan, segment, places, now_ns=now_ns, sleep=sleep, login=login).batches()


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
    ) -> None:
        self._plan = plan
        self._login = login
        self._segment = segment
        self._places = places
        self._now_ns = now_ns
        self._sleep = sleep
        self._request = SystemEntropy().hex_128()
        self._schema = arrow_schema(plan.fields)
        # What only people and writers look at does not travel.
        self._asked = tuple(msgspec.structs.replace(one, default=None, comment="") for one in plan.fields)
        self._timeout_ns = SCAN_BATCH_TIMEOUT_NS
        self._was_late = False
        self._reasons: dict[NodeId, LeaseholdError] = {}
        holders = places.in_turn(reading_order(segment))
        self._reading = SegmentReading(
            msgspec.structs.replace(segment, holders=holders), seen=plan.facts.revision, now_ns=now_ns()
        )
        self._row = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        while True:
            move = self._reading.move(self._now_ns())
            match move:
                case Ask(node=node, row=row):
                    yield from self._ask(node, row)
                case Pause(until_ns=until_ns):
                    self._sleep(max(0, until_ns - self._now_ns()))
                    if self._was_late:
                        # A replica that is slow, not stopped, gets its chance in a later round.
                        self._timeout_ns = min(2 * self._timeout_ns, SCAN_GIVE_UP_NS)
                    self._was_late = False
                    self._look_again()
                case Done():
                    return
                case GiveUp():
                    what = f"no replica serves segment {self._segment.id} of {self._plan.facts.name}"
                    raise self._places.nobody(what, self._reasons)
                case _:
                    assert_never(move)

    def _ask(self, node: NodeId, row: int) -> Iterator[pa.RecordBatch]:
        """Yields what this replica serves, and tells the reading how it ended."""
        address = self._places.address(node)
        if address is None:
            self._failed(node, Unreachable("nobody knows its address", code="NO_ADDRESS"))
            return
        self._row = row
        try:
            yield from self._from(node, address)
        except LeaseholdError as error:
            if error.code in FINAL:
                raise
            if error.code == "TIMED_OUT":
                if self._row > row:
                    return
                self._was_late = True
            self._failed(node, error)
        else:
            if self._row < self._segment.rows:
                text = f"the stream ended at row {self._row} of {self._segment.rows}"
                self._failed(node, Unreachable(text, code="BROKEN_STREAM"))

    def _failed(self, node: NodeId, error: LeaseholdError) -> None:
        self._reasons[node] = error
        self._places.failed(node, error)
        self._reading.failed(node, error.text)

    def _from(self, node: NodeId, address: str) -> Iterator[pa.RecordBatch]:
        request = ReadTicket(
            cluster_id=self._plan.facts.cluster_id,
            request=self._request,
            table=self._segment.table,
            bucket=self._segment.bucket,
            segment=self._segment.id,
            sha256=self._segment.sha256,
            row_offset=self._row,
            fields=self._asked,
            revision=self._places.revision,
            through=self._plan.through,
            login=self._login,
            generation=self._plan.facts.generation,
            cutoff=self._plan.cutoff,
        )
        with calling(address):
            stream = reader_to(address).do_get(ticket(request), within(self._timeout_ns))
        # The rows are handed on outside of `calling`: an error of who takes them is not ours.
        try:
            while True:
                with calling(address):
                    if not stream.schema.equals(self._schema, check_metadata=True):
                        raise pa.ArrowInvalid("the replica serves another schema than was asked for")
                    try:
                        chunk = stream.read_chunk()
                    except StopIteration:
                        return
                batch = self._accepted(chunk.data, expect(BatchMark, chunk.app_metadata))
                self._places.served(node)
                if batch.num_rows:
                    yield batch
        finally:
            stream.cancel()

    def _accepted(self, batch: pa.RecordBatch | None, mark: BatchMark) -> pa.RecordBatch:
        sound = batch is not None and self._row < mark.next_row <= self._segment.rows
        if batch is None or not sound or batch.num_rows > mark.next_row - self._row:
            raise Refused(
                f"a batch up to row {mark.next_row} came at row {self._row} of {self._segment.rows}",
                code="BAD_BATCH",
            )
        if not self._reading.received(mark, batch.num_rows, self._now_ns()):
            raise Refused(f"a batch was released on revision {mark.view_revision}, an older one", code="BEHIND")
        self._row = mark.next_row
        return batch

    def _look_again(self) -> None:
        self._places.look_again()
        first = reading_order(self._segment)
        later = [node for node in self._places.replicas(self._segment.bucket) if node not in first]
        self._reading.moved(self._places.in_turn((*first, *later)), seen=self._places.revision)


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
) -> pa.RecordBatchReader:
    """All rows of a plan, segment by segment in its order, as a stream of `arrow_schema(plan.fields)`.

    Up to `streams` segments are read ahead, each by at most SCAN_STREAM_BATCHES batches. Errors as of `read_segment`.
    """
    assert streams >= 1
    places = Places(plan.facts, refresh, now_ns=now_ns)
    stopped = threading.Event()

    def sleep_unless_stopped(duration_ns: int) -> None:
        sleep(duration_ns)
        if stopped.is_set():
            raise _Stopped

    def one(segment: SegmentRecord) -> Iterator[pa.RecordBatch]:
        return read_segment(plan, segment, now_ns=now_ns, sleep=sleep_unless_stopped, places=places, login=login)

    return pa.RecordBatchReader.from_batches(arrow_schema(plan.fields), _in_order(plan.segments, one, streams, stopped))


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
                attempt = _next_plan(error, attempt)

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
                reader, attempt = planned(_next_plan(error, attempt))
                if not reader.schema.equals(first.schema):
                    raise
            else:
                return

    return pa.RecordBatchReader.from_batches(first.schema, batches())


def _next_plan(error: Refused, attempt: int) -> int:
    """The number of the next plan; raises `error` where no new plan can help."""
    if error.code != "ROWS_TAKEN_AWAY" or attempt >= SCAN_PLANS_MAX:
        raise error
    return attempt + 1


class _Stopped(Exception):
    """Nobody takes the rows any more."""


def _in_order(
    segments: Sequence[SegmentRecord],
    read: Callable[[SegmentRecord], Iterator[pa.RecordBatch]],
    streams: int,
    stopped: threading.Event,
) -> Iterator[pa.RecordBatch]:
    if len(segments) <= 1 or streams == 1:
        for segment in segments:
            yield from read(segment)
        return
    waiting = iter(segments)
    ahead: deque[_ReadAhead] = deque()
    pool = ThreadPoolExecutor(streams, thread_name_prefix="scan")
    try:
        while True:
            while len(ahead) < streams and (segment := next(waiting, None)) is not None:
                ahead.append(_ReadAhead(read(segment), pool, stopped))
            if not ahead:
                return
            yield from ahead[0].batches()
            ahead.popleft()
    finally:
        # Not waited for: a thread may be inside a call, which ends by its deadline.
        stopped.set()
        pool.shutdown(wait=False, cancel_futures=True)


class _ReadAhead:
    """Batches that a thread reads into a bounded queue; it ends soon once `stopped` is set."""

    def __init__(self, batches: Iterator[pa.RecordBatch], pool: ThreadPoolExecutor, stopped: threading.Event) -> None:
        self._batches = batches
        self._queue: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(SCAN_STREAM_BATCHES)
        self._stopped = stopped
        pool.submit(self._run)

    def batches(self) -> Iterator[pa.RecordBatch]:
        while (item := self._queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def _run(self) -> None:
        last: BaseException | None = None
        try:
            for batch in self._batches:
                if not self._put(batch):
                    return
        except BaseException as error:  # noqa: BLE001 it is raised where the batches are taken
            last = error
        self._put(last)

    def _put(self, item: pa.RecordBatch | BaseException | None) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=SCAN_PAUSE_NS / SECOND_NS)
            except queue.Full:
                continue
            return True
        return False
