"""Scans: the segments of a plan from whichever replicas can serve them (decisions in `core/scan.py`).

Everything blocks, and Ctrl-C ends it. A call has a deadline that covers all of it. One that passes after some batches
came, because the reader of the rows took its time, is no fault of the replica: it is asked again, from the next row.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, assert_never

import msgspec
import pyarrow as pa

from leasehold.core.messages import BatchMark, ReadTicket, ScanPlan, TableFacts
from leasehold.core.records import SegmentRecord
from leasehold.core.scan import Ask, Done, GiveUp, Pause, SegmentReading
from leasehold.errors import LeaseholdError, Refused, Unreachable
from leasehold.ids import NodeId
from leasehold.limits import (
    SCAN_BATCH_TIMEOUT_NS,
    SCAN_GIVE_UP_NS,
    SCAN_PAUSE_NS,
    SCAN_STREAM_BATCHES,
    SCAN_STREAMS,
    SECOND_NS,
)
from leasehold.storage.schema import arrow_schema
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.flight import calling, expect, reader_to, ticket, within

Refresh = Callable[[], TableFacts]
"""Looks the table up again: nodes may have moved, others may hold the segment by now."""

FINAL: Final = frozenset(
    {"TABLE_DROPPED", "COLUMN_DROPPED", "OTHER_CLUSTER", "BAD_MESSAGE", "BAD_TICKET", "BAD_SEGMENT_NAME", "FORKED"}
)
"""What no other replica would answer differently."""


boottime_ns: Final = BoottimeClock().now_ns


def pause(duration_ns: int) -> None:
    """Blocks this thread for so long."""
    threading.Event().wait(duration_ns / SECOND_NS)


# ---------------------------------------------------------------- one segment


def read_segment(
    plan: ScanPlan,
    segment: SegmentRecord,
    *,
    now_ns: Callable[[], int] = boottime_ns,
    sleep: Callable[[int], None] = pause,
    refresh: Refresh | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of one segment, each once, in exactly `arrow_schema(plan.fields)`.

    Raises `Refused` (TABLE_DROPPED, COLUMN_DROPPED, OTHER_CLUSTER) as soon as one replica says so,
    `Unreachable` with code NO_REPLICA once none has served for SCAN_GIVE_UP_NS.
    """
    return _SegmentReader(plan, segment, now_ns=now_ns, sleep=sleep, refresh=refresh).batches()


class _SegmentReader:
    """Carries out what `SegmentReading` decides."""

    def __init__(
        self,
        plan: ScanPlan,
        segment: SegmentRecord,
        *,
        now_ns: Callable[[], int],
        sleep: Callable[[int], None],
        refresh: Refresh | None,
    ) -> None:
        self._plan = plan
        self._segment = segment
        self._facts = plan.facts
        self._now_ns = now_ns
        self._sleep = sleep
        self._refresh = refresh
        self._request = SystemEntropy().hex_128()
        self._schema = arrow_schema(plan.fields)
        self._timeout_ns = SCAN_BATCH_TIMEOUT_NS
        holders = reading_order(segment)
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
                    # A replica that is slow, not stopped, gets its chance in a later round.
                    self._timeout_ns = min(2 * self._timeout_ns, SCAN_GIVE_UP_NS)
                    self._look_again()
                case Done():
                    return
                case GiveUp(reasons=reasons):
                    raise _no_replica(self._segment, reasons)
                case _:
                    assert_never(move)

    def _ask(self, node: NodeId, row: int) -> Iterator[pa.RecordBatch]:
        """Yields what this replica serves, and tells the reading how it ended."""
        place = next((one for one in self._facts.places if one.node == node), None)
        if place is None:
            self._reading.failed(node, "nobody knows its address")
            return
        self._row = row
        try:
            yield from self._from(place.address)
        except LeaseholdError as error:
            if error.code in FINAL:
                raise
            if error.code == "TIMED_OUT" and self._row > row:
                return
            self._reading.failed(node, error.text)
        else:
            if self._row < self._segment.rows:
                self._reading.failed(node, f"the stream ended at row {self._row} of {self._segment.rows}")

    def _from(self, address: str) -> Iterator[pa.RecordBatch]:
        request = ReadTicket(
            cluster_id=self._facts.cluster_id,
            request=self._request,
            table=self._segment.table,
            bucket=self._segment.bucket,
            segment=self._segment.id,
            sha256=self._segment.sha256,
            row_offset=self._row,
            fields=self._plan.fields,
            revision=self._facts.revision,
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
        if self._refresh is None:
            return
        try:
            facts = self._refresh()
        except LeaseholdError:
            return  # the nodes decide whether the table is there; the places we know are still worth a try
        if facts.table != self._facts.table or facts.revision < self._facts.revision:
            return
        self._facts = facts
        first = reading_order(self._segment)
        later = [
            node
            for bucket in facts.buckets
            if bucket.bucket == self._segment.bucket
            for node in bucket.replicas
            if node not in first
        ]
        self._reading.moved((*first, *later))


def reading_order(segment: SegmentRecord) -> tuple[NodeId, ...]:
    """The holders, another one first for another segment: so that readers spread over the nodes."""
    turn = int(segment.id[-8:], 16) % max(1, len(segment.holders))
    return segment.holders[turn:] + segment.holders[:turn]


def _no_replica(segment: SegmentRecord, reasons: Sequence[tuple[NodeId, str]]) -> Unreachable:
    said = "; ".join(f"node {node}: {reason}" for node, reason in reasons) or "no node holds it"
    return Unreachable(
        f"no replica serves segment {segment.id}: {said}",
        code="NO_REPLICA",
        hint="SHOW NODES tells which nodes are up: start one that holds it.",
    )


# ---------------------------------------------------------------- a whole plan


def read_plan(
    plan: ScanPlan,
    *,
    now_ns: Callable[[], int] = boottime_ns,
    sleep: Callable[[int], None] = pause,
    refresh: Refresh | None = None,
    streams: int = SCAN_STREAMS,
) -> pa.RecordBatchReader:
    """All rows of a plan, segment by segment in its order, as a stream of `arrow_schema(plan.fields)`.

    Up to `streams` segments are read ahead, each by at most SCAN_STREAM_BATCHES batches. Errors as of `read_segment`.
    """
    assert streams >= 1
    stopped = threading.Event()

    def sleep_unless_stopped(duration_ns: int) -> None:
        sleep(duration_ns)
        if stopped.is_set():
            raise _Stopped

    def one(segment: SegmentRecord) -> Iterator[pa.RecordBatch]:
        return read_segment(plan, segment, now_ns=now_ns, sleep=sleep_unless_stopped, refresh=refresh)

    return pa.RecordBatchReader.from_batches(arrow_schema(plan.fields), _in_order(plan.segments, one, streams, stopped))


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
