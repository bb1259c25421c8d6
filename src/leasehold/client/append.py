"""Appends: rows become staged segments on replicas of their buckets; a commit makes them visible.

Rows are gathered up to a bound, put into their buckets, and each bucket's share is sent as one segment, several at
once, while the next rows are gathered. The share stays in memory until a replica has answered for it, so a replica
that is fenced or dies in the middle costs nothing but a second try elsewhere, under a new segment id: what the first
one may have written is never part of the commit. While a replica is silent, the share is sent to another one as well
(`core/data/hedging.py`), and the first answer is taken. A replica that failed or was overtaken rests a little, so that
not every share is tried there first (`core/data/known.py`).
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias, assert_never

import pyarrow as pa

from leasehold.client.threads import THREADS, Refresh, places_of
from leasehold.core.data.asking import Asking
from leasehold.core.data.hedging import Ask, GiveUp, Hedging, Pause, Wait
from leasehold.core.data.known import Known
from leasehold.core.data.places import silent
from leasehold.core.data.runtime import Runtime
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import RowsEnd, StagedSegment, TableFacts, WriteTicket
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, Refused, Unreachable
from leasehold.ids import BucketNumber, LoginToken, NodeId, Revision, SegmentId, TransactionId
from leasehold.limits.clients import (
    APPEND_BATCHES_MAX,
    APPEND_BUFFER_BYTES,
    APPEND_BUFFERS_BYTES_MAX,
    APPEND_STREAMS,
    STAGE_CALL_NS,
    STAGE_PAUSE_NS,
)
from leasehold.limits.flight import FLIGHT_BATCH_BYTES
from leasehold.limits.segments import BATCH_ROWS
from leasehold.limits.units import SECOND_NS
from leasehold.storage.buckets import split
from leasehold.storage.conformance import conform
from leasehold.storage.schema import arrow_schema
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.flight import calling, descriptor, expect, parts, send, within, writer_to
from leasehold.wire.steps import run

FINAL: Final = frozenset(
    {
        ErrorCode.ABORTED,
        ErrorCode.BAD_MESSAGE,
        ErrorCode.BAD_SEGMENT,
        ErrorCode.BAD_TICKET,
        ErrorCode.BAD_TYPE,
        ErrorCode.FORBIDDEN,
        ErrorCode.FORKED,
        ErrorCode.OTHER_CLUSTER,
        ErrorCode.ROWS_DO_NOT_FIT,
        ErrorCode.SCHEMA_CHANGED,
        ErrorCode.SEGMENT_TOO_LARGE,
        ErrorCode.TABLE_DROPPED,
        ErrorCode.TRANSACTION_ENDED,
        ErrorCode.TRANSACTION_UNKNOWN,
        ErrorCode.UNAUTHENTICATED,
    }
)
"""What no other replica would answer differently, for these rows in this transaction."""

Share = Sequence[pa.RecordBatch]
"""The rows of one bucket for one segment."""

_Arrived: TypeAlias = tuple[NodeId, int, StagedSegment | BaseException | None]
"""Which replica, since when it is asked, and its answer, why there is none, or that it has taken some of the rows."""


def stage(
    facts: TableFacts,
    transaction: TransactionId,
    batches: Iterable[pa.RecordBatch],
    revision: Revision,
    *,
    runtime: Runtime = THREADS,
    refresh: Refresh | None = None,
    buffer_bytes: int = APPEND_BUFFER_BYTES,
    login: LoginToken | None = None,
    known: Known | None = None,
    asking: Asking | None = None,
) -> tuple[StagedSegment, ...]:
    """Writes rows to the nodes as part of an open `transaction`; what to commit. No rows give no segments.

    Columns are matched by name. `revision` is the newest that the caller has seen, that of the opened transaction.
    Holds about `buffer_bytes` of rows for each bucket, at most APPEND_BUFFERS_BYTES_MAX in all, and as much on its way.
    Raises `Refused` with code ROWS_DO_NOT_FIT and other definite refusals at once, `Unreachable` with code NO_REPLICA
    once no replica has taken a segment for as long as `asking` says. Then the transaction should be aborted.
    """
    load_bytes_max = min(buffer_bytes * len(facts.buckets), APPEND_BUFFERS_BYTES_MAX)
    place = _cluster_place(facts)
    staged: list[StagedSegment] = []
    stopped = threading.Event()
    sender = _Sender(
        facts,
        transaction,
        revision,
        runtime=runtime,
        refresh=refresh,
        is_stopped=stopped.is_set,
        login=login,
        known=known,
        asking=asking or Asking(),
    )
    pool = ThreadPoolExecutor(APPEND_STREAMS, thread_name_prefix="append")
    sending: list[Future[StagedSegment]] = []
    load = Load()
    try:
        for part in (part for batch in batches for part in parts(conform(batch, facts.fields), FLIGHT_BATCH_BYTES)):
            load.add(part)
            if load.size_bytes >= load_bytes_max:
                staged.extend(one.result() for one in sending)
                sending = [pool.submit(sender.send, *share) for share in load.shares(place, len(facts.buckets))]
                load = Load()
        staged.extend(one.result() for one in sending)
        sending = [pool.submit(sender.send, *share) for share in load.shares(place, len(facts.buckets))]
        staged.extend(one.result() for one in sending)
    finally:
        stopped.set()
        pool.shutdown(wait=False, cancel_futures=True)
    return tuple(staged)


def _cluster_place(facts: TableFacts) -> int | None:
    """Which of the fields decides the bucket, if any."""
    if facts.cluster_by is None:
        return None
    return next(place for place, field in enumerate(facts.fields) if field.id == facts.cluster_by)


class Load:
    """Rows gathered for all buckets, not yet put into them."""

    def __init__(self, *, batches_max: int = APPEND_BATCHES_MAX, part_bytes: int = FLIGHT_BATCH_BYTES) -> None:
        self.size_bytes = 0
        self._batches_max = batches_max
        self._part_bytes = part_bytes
        self._batches: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Gathers these rows too; small batches are joined once there are many."""
        if batch.num_rows:
            self._batches.append(batch)
            self.size_bytes += batch.nbytes
            if len(self._batches) > self._batches_max:
                self._batches = [pa.concat_batches(self._batches)]

    def shares(self, place: int | None, buckets: int) -> list[tuple[BucketNumber, Share]]:
        """What goes to each bucket, in batches that are neither tiny nor too large for a message."""
        rows: dict[BucketNumber, list[pa.RecordBatch]] = {}
        for batch in self._batches:
            divided = {BucketNumber(0): batch} if place is None else split(batch, place, buckets)
            for bucket, part in divided.items():
                rows.setdefault(bucket, []).append(part)
        return [(bucket, _whole(found, self._part_bytes)) for bucket, found in sorted(rows.items())]


def _whole(batches: list[pa.RecordBatch], part_bytes: int) -> Share:
    rows = sum(batch.num_rows for batch in batches)
    if rows < len(batches) * BATCH_ROWS // 8:
        joined = pa.concat_batches(batches)
        batches = [joined.slice(start, BATCH_ROWS) for start in range(0, rows, BATCH_ROWS)]
    return [part for batch in batches for part in parts(batch, part_bytes)]


class _Sender:
    """Sends shares to replicas; several threads may at once."""

    def __init__(
        self,
        facts: TableFacts,
        transaction: TransactionId,
        revision: Revision,
        *,
        runtime: Runtime,
        refresh: Refresh | None,
        is_stopped: Callable[[], bool],
        login: LoginToken | None,
        known: Known | None,
        asking: Asking,
    ) -> None:
        self._facts = facts
        self._places = places_of(facts, refresh, runtime=runtime, known=known)
        self._transaction = transaction
        self._revision = revision
        self._runtime = runtime
        self._now_ns = runtime.now_ns
        self._is_stopped = is_stopped
        self._login = login
        self._patience = asking
        self._entropy = SystemEntropy()

    def send(self, bucket: BucketNumber, share: Share) -> StagedSegment:
        """Sends the rows to the replicas in turn, to another one as well while one is silent, until one has answered.

        What the others may have written is never part of the commit: each writes under an id of its own.
        """
        arrived: SimpleQueue[_Arrived] = SimpleQueue()
        size_bytes = sum(batch.nbytes for batch in share)
        asking = Hedging(self._order(bucket), give_up_ns=self._patience.for_ns, pause_ns=STAGE_PAUSE_NS)
        reasons: dict[NodeId, LeaseholdError] = {}
        writes = self._places.known.writes
        while True:
            now_ns = self._now_ns()
            step = asking.move(now_ns, delay_ns=writes.delay_ns(size_bytes), may_hedge=writes.may_hedge)
            match step:
                case Ask(node=node, also=also):
                    writes.asked(also=also)
                    self._start(node, bucket, share, arrived, asking, reasons)
                case Wait(until_ns=until_ns):
                    if self._is_stopped():
                        raise self._nobody(bucket, reasons)
                    with contextlib.suppress(Empty):
                        one = arrived.get(timeout=max(0, until_ns - now_ns) / SECOND_NS)
                        staged = self._take(one, asking, reasons)
                        if staged is not None:
                            return staged
                case Pause(until_ns=until_ns):
                    if self._is_stopped():
                        raise self._nobody(bucket, reasons)
                    if asking.gives_up_ns is not None:
                        self._patience.again(self._nobody(bucket, reasons), asking.gives_up_ns - now_ns)
                    run(self._runtime.sleep_until(until_ns))
                    run(self._places.look_again())
                    asking.moved(self._order(bucket))
                case GiveUp():
                    reasons |= {node: silent(now_ns - since_ns) for node, since_ns in asking.asked.items()}
                    raise self._nobody(bucket, reasons)
                case _:
                    assert_never(step)

    def _order(self, bucket: BucketNumber) -> tuple[NodeId, ...]:
        return self._places.in_turn(self._places.replicas(bucket))

    def _nobody(self, bucket: BucketNumber, reasons: Mapping[NodeId, LeaseholdError]) -> Unreachable:
        return self._places.nobody(f"no replica takes rows for bucket {bucket} of {self._facts.name}", reasons)

    def _take(
        self, arrived: "_Arrived", asking: Hedging, reasons: dict[NodeId, LeaseholdError]
    ) -> StagedSegment | None:
        """What a replica did: its answer, if that is one."""
        node, began_ns, what = arrived
        now_ns = self._now_ns()
        match what:
            case None:
                asking.progressed(node, now_ns)
            case StagedSegment():
                assert asking.is_asked(node), "the first answer ends it"
                for other in asking.heard(node, now_ns):
                    self._places.failed(other, silent(now_ns - began_ns))
                self._places.served(node)
                self._places.known.writes.answered(now_ns - began_ns)
                self._patience.answered()
                return what
            case LeaseholdError() if what.code not in FINAL:
                reasons[node] = what
                self._places.failed(node, what)
                asking.failed(node)
            case BaseException():
                raise what
        return None

    def _start(
        self,
        node: NodeId,
        bucket: BucketNumber,
        share: Share,
        arrived: "SimpleQueue[_Arrived]",
        asking: Hedging,
        reasons: dict[NodeId, LeaseholdError],
    ) -> None:
        """Sends the rows to a replica, on a thread of its own: a call that hangs can't be broken off."""
        address = self._places.address(node)
        if address is None:
            reasons[node] = Unreachable("nobody knows its address", code=ErrorCode.NO_ADDRESS)
            asking.failed(node)
            return
        began_ns = self._now_ns()

        def work() -> None:
            try:
                result = self._send_to(address, bucket, share, lambda: arrived.put((node, began_ns, None)))
            except BaseException as error:  # noqa: BLE001 it is raised where the answer is waited for
                arrived.put((node, began_ns, error))
            else:
                arrived.put((node, began_ns, result))

        # Not as a daemon: a thread that comes back from gRPC while the interpreter ends would abort the process.
        threading.Thread(target=work, name=f"append to node {node}", daemon=False).start()

    def _send_to(
        self, address: str, bucket: BucketNumber, share: Share, on_progress: Callable[[], None]
    ) -> StagedSegment:
        segment = SegmentId(f"{self._transaction}-{self._entropy.hex_128()}")
        request = WriteTicket(
            cluster_id=self._facts.cluster_id,
            transaction=self._transaction,
            segment=segment,
            table=self._facts.table,
            bucket=bucket,
            schema_version=self._facts.schema_version,
            revision=max(self._revision, self._places.revision),
            login=self._login,
        )
        rows = sum(batch.num_rows for batch in share)
        schema = arrow_schema(self._facts.fields)
        with calling(address):
            writer, answers = writer_to(address).do_put(descriptor(request), schema, within(STAGE_CALL_NS, request))
            try:
                for batch in share:
                    send(writer, batch)
                    on_progress()
                writer.write_metadata(encode(RowsEnd(rows=rows)))
                writer.done_writing()
                answer: pa.Buffer | None = answers.read()
            finally:
                # Raises why the node declined, if it did.
                writer.close()
        if answer is None:
            # A connection that was cut may show as an orderly end without an answer.
            raise Unreachable(f"{address}: the stream ended without an answer", hint="Write the rows again.")
        staged = expect(StagedSegment, answer)
        if (staged.id, staged.bucket, staged.rows) != (segment, bucket, rows) or not staged.holders:
            raise Refused(f"{address} answered for other rows than it was sent", code=ErrorCode.BAD_ANSWER)
        return staged
