"""Appends: rows become staged segments on replicas of their buckets; a commit makes them visible.

Rows are gathered up to a bound and put into their buckets. Each bucket's share is sent as one segment, by the steps of
`core/data/row_sender.py` on threads, while the next rows are gathered.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from leasehold.client.not_written import aborted_on_error, not_written, writing_nothing
from leasehold.client.replicas import FlightReplicas
from leasehold.client.threads import THREADS, Refresh, places_of
from leasehold.core.data.asking import Asking
from leasehold.core.data.known import Known
from leasehold.core.data.row_sender import RowSender, SenderPorts
from leasehold.core.data.runtime import Runtime
from leasehold.core.words.messages import StagedSegment, TableFacts, TransactionFacts
from leasehold.core.words.records import TransactionState
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused, Unreachable
from leasehold.ids import BucketNumber, NodeLogin, Revision, TransactionId
from leasehold.limits.clients import APPEND_BATCHES_MAX, APPEND_BUFFER_BYTES, APPEND_BUFFERS_BYTES_MAX, APPEND_PAUSE_NS
from leasehold.limits.flight import FLIGHT_BATCH_BYTES
from leasehold.limits.segments import BATCH_ROWS
from leasehold.storage.buckets import split
from leasehold.storage.conformance import conform
from leasehold.storage.held_rows import HeldRows
from leasehold.storage.schema import arrow_schema
from leasehold.wire.clock import sleep_ns
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.flight import parts
from leasehold.wire.steps import run
from leasehold.wire.tls import TlsSource

if TYPE_CHECKING:
    from leasehold.client.cluster import Cluster


class Appended(int):
    """How many rows an append has added; they are committed."""

    segments: int
    """How many segments they are in."""
    segments_short: int
    """How many of these segments are on fewer nodes than the table wants: the loss of a disk may lose their rows."""
    revision: Revision
    """The first revision that shows them."""

    @classmethod
    def by(cls, committed: TransactionFacts, segments: int) -> Self:
        """From the leader's answer."""
        made = cls(committed.rows)
        made.segments, made.segments_short, made.revision = segments, committed.segments_short, committed.revision
        return made


Share = Sequence[pa.RecordBatch]
"""The rows of one bucket for one segment."""


def append_rows(
    cluster: "Cluster",
    facts: TableFacts,
    read: Callable[[], Iterable[pa.RecordBatch]],
    attempts: int,
    *,
    transaction: TransactionId | None = None,
    text_sha256: bytes = b"",
) -> Appended:
    """Adds the rows that `read` gives, which are read again at most so many times. Else as `client.table.Table.append`;
    columns belong to those that had their names in `facts`."""
    # Under an id that was used before, an earlier attempt may have been committed.
    may_be_taken = transaction is not None
    with writing_nothing() if transaction is None else nullcontext():
        chosen = transaction or cluster.new_transaction()
        opened = cluster.open_transaction(facts, chosen, text_sha256, may_be_taken=may_be_taken)
        if opened.state is TransactionState.COMMITTED:
            return Appended.by(opened, 0)
    for attempt in range(1, attempts + 1):
        unwritten = writing_nothing() if transaction is None else nullcontext()
        with unwritten, aborted_on_error(cluster, facts, chosen):
            segments = cluster.stage(facts, opened.transaction, read(), opened.revision, text_sha256)
        try:
            committed = cluster.commit(facts.cluster_id, chosen, segments, may_be_taken=may_be_taken)
        except Unreachable as error:
            raise not_written(error) from error
        except Refused as error:
            if error.code != ErrorCode.TOO_FEW_HOLDERS or attempt == attempts:
                raise
            # A replica has died after it took the rows: the others may be enough, or it is back in a moment.
            sleep_ns(APPEND_PAUSE_NS << (attempt - 1))
        else:
            return Appended.by(committed, len(segments))
    raise AssertionError("the last attempt returns or raises")


def stage(
    facts: TableFacts,
    transaction: TransactionId,
    batches: Iterable[pa.RecordBatch],
    revision: Revision,
    *,
    runtime: Runtime = THREADS,
    refresh: Refresh | None = None,
    buffer_bytes: int = APPEND_BUFFER_BYTES,
    login: NodeLogin | None = None,
    known: Known | None = None,
    asking: Asking | None = None,
    tls: TlsSource | None = None,
) -> tuple[StagedSegment, ...]:
    """Writes rows to the nodes as part of an open `transaction`; returns the segments to commit, none without rows.

    Columns are matched by name. `revision` is that of the opened transaction. It buffers about `buffer_bytes` of rows
    for each bucket, at most APPEND_BUFFERS_BYTES_MAX in all, while as much is being sent. Raises definite refusals,
    such as ROWS_DO_NOT_FIT, at once, and `Unreachable` with code NO_REPLICA once no replica has taken a segment for as
    long as `asking` says. After an error the transaction should be aborted.
    """
    load_bytes_max = min(buffer_bytes * len(facts.buckets), APPEND_BUFFERS_BYTES_MAX)
    place = _cluster_place(facts)
    sender = RowSender(
        facts,
        transaction,
        revision,
        places_of(facts, refresh, runtime=runtime, known=known),
        SenderPorts(runtime, FlightReplicas(arrow_schema(facts.fields), tls), SystemEntropy().hex_128),
        login=login,
        asking=asking or Asking(),
    )
    load = Load()
    try:
        for part in (part for batch in batches for part in parts(conform(batch, facts.fields), FLIGHT_BATCH_BYTES)):
            load.add(part)
            if load.size_bytes >= load_bytes_max:
                _send(load.shares(place, len(facts.buckets)), sender)
                load = Load()
        _send(load.shares(place, len(facts.buckets)), sender)
        run(sender.sent())
    finally:
        sender.stop()
    return sender.staged


def _send(shares: Sequence[tuple[BucketNumber, Share]], sender: RowSender[pa.RecordBatch]) -> None:
    """Sends a load, which was put into its buckets while the one before was on its way."""
    run(sender.sent())
    sender.start(shares)


def _cluster_place(facts: TableFacts) -> int | None:
    """The place of the field that decides the bucket, if any."""
    if facts.cluster_by is None:
        return None
    return next(place for place, field in enumerate(facts.fields) if field.id == facts.cluster_by)


class Load:
    """Rows gathered for all buckets, not yet put into them."""

    def __init__(self, *, batches_max: int = APPEND_BATCHES_MAX, part_bytes: int = FLIGHT_BATCH_BYTES) -> None:
        self._held = HeldRows(batches_max)
        self._part_bytes = part_bytes

    def add(self, batch: pa.RecordBatch) -> None:
        """Gathers these rows too; small batches are joined once there are many."""
        if batch.num_rows:
            self._held.add(batch)

    @property
    def size_bytes(self) -> int:
        """How much there is to send."""
        return self._held.value_bytes

    def shares(self, place: int | None, buckets: int) -> list[tuple[BucketNumber, Share]]:
        """The rows of each bucket, in batches that are neither tiny nor too large for a message. They leave the load as
        they are copied, so that no two copies of all of them are in memory."""
        rows: dict[BucketNumber, list[pa.RecordBatch]] = {}
        for batch in self._held.taken():
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
