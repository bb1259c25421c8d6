"""Scans: the rows of a plan as Arrow, read by the steps of `core/data/reader.py` on threads.

Scans block, and Ctrl-C ends them. Each request to a replica has a thread of its own.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import closing

import pyarrow as pa

from leasehold.client.replicas import FlightReplicas
from leasehold.client.threads import THREADS, Refresh, blocking, places_of
from leasehold.core.data.asking import Asking
from leasehold.core.data.known import Known
from leasehold.core.data.places import Places
from leasehold.core.data.reader import ReaderPorts, SegmentReader, in_order, plan_until_read
from leasehold.core.data.reader import read_again as steps_again
from leasehold.core.data.runtime import Runtime
from leasehold.core.data.scan import Together
from leasehold.core.replicas.lost import check_nothing_lost
from leasehold.core.words.messages import BatchMark, ScanPlan
from leasehold.ids import NodeLogin
from leasehold.limits.clients import SCAN_BATCH_TIMEOUT_NS, SCAN_STREAMS
from leasehold.storage.schema import arrow_schema
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.steps import iterate, run
from leasehold.wire.tls import TlsSource


def read_segments(
    plan: ScanPlan,
    segments: Together,
    *,
    runtime: Runtime = THREADS,
    places: Places | None = None,
    login: NodeLogin | None = None,
    tls: TlsSource | None = None,
    batch_timeout_ns: int = SCAN_BATCH_TIMEOUT_NS,
) -> Iterator[pa.RecordBatch]:
    """The rows of segments of a plan, each once, in exactly `arrow_schema(plan.fields)`.

    By default the `places` are those of the plan; a caller that reads other segments too makes them once. After a
    replica has sent nothing for `batch_timeout_ns`, the next one is asked. Raises `Refused` (TABLE_DROPPED,
    COLUMN_DROPPED, FORBIDDEN ..) as soon as one replica says so, or with code SEGMENTS_LOST if no node holds a segment
    any more, and `Unreachable` with code NO_REPLICA once no replica has served for as long as `Asking` says.
    """
    places, ports = places or places_of(plan.facts, runtime=runtime), _ports(plan, runtime, tls)
    reader = SegmentReader(
        plan, segments, places, ports, login=login, asking=Asking(), batch_timeout_ns=batch_timeout_ns
    )
    return _batches(reader.batches())


def read_plan(
    plan: ScanPlan,
    *,
    runtime: Runtime = THREADS,
    refresh: Refresh | None = None,
    streams: int = SCAN_STREAMS,
    login: NodeLogin | None = None,
    known: Known | None = None,
    asking: Asking | None = None,
    tls: TlsSource | None = None,
    batch_timeout_ns: int = SCAN_BATCH_TIMEOUT_NS,
) -> pa.RecordBatchReader:
    """All rows of a plan, segment by segment in its order, as a stream of `arrow_schema(plan.fields)`.

    Up to `streams` calls are made ahead, each by at most SCAN_AHEAD_BYTES_MAX. `known` is what the client knows.
    `batch_timeout_ns` and errors are as in `read_segments`.
    """
    assert streams >= 1
    patient = asking or Asking()
    check_nothing_lost(plan.facts.name, plan.segments)
    places, ports = places_of(plan.facts, refresh, known=known, runtime=runtime), _ports(plan, runtime, tls)

    def some(segments: Together) -> SegmentReader[pa.RecordBatch]:
        return SegmentReader(
            plan, segments, places, ports, login=login, asking=patient, batch_timeout_ns=batch_timeout_ns
        )

    return pa.RecordBatchReader.from_batches(arrow_schema(plan.fields), _batches(in_order(plan, some, streams)))


def _ports(plan: ScanPlan, runtime: Runtime, tls: TlsSource | None) -> ReaderPorts[pa.RecordBatch]:
    return ReaderPorts(runtime, FlightReplicas(arrow_schema(plan.fields), tls), SystemEntropy().hex_128)


def _batches(steps: AsyncGenerator[tuple[pa.RecordBatch, BatchMark], None]) -> Iterator[pa.RecordBatch]:
    with closing(iterate(steps)) as found:
        for batch, _ in found:
            yield batch


def read_again(read: Callable[[], pa.RecordBatchReader]) -> pa.RecordBatchReader:
    """The rows that `read` plans and reads; it is called again if rows are deleted before the first batch.

    Errors are as in `read` and `core.data.reader.read_again`.
    """
    steps = blocking(read)
    first, attempt = run(plan_until_read(steps, 1))
    schema = first.schema
    again = steps_again((first, attempt), steps, _taken, lambda reader: reader.schema.equals(schema))
    return pa.RecordBatchReader.from_batches(schema, iterate(again))


async def _taken(reader: pa.RecordBatchReader) -> AsyncGenerator[pa.RecordBatch, None]:
    for batch in reader:
        yield batch
