"""Readers and writers for tests of fenced nodes: unhurried ones, and what they read."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from leasehold.client.append import stage
from leasehold.client.scan import read_plan, read_segments
from leasehold.client.threads import THREADS, Refresh, of_process, places_of
from leasehold.core.data.hedging import HedgeLimits
from leasehold.core.data.known import Known
from leasehold.core.data.places import Places
from leasehold.core.data.reader import reading_order
from leasehold.core.data.runtime import Runtime
from leasehold.core.words.messages import ScanPlan, StagedSegment, TableFacts
from leasehold.core.words.records import SegmentRecord
from tests.unit.node.cluster import CLUSTER, Cluster, cluster, rows

SEGMENTS = 6


@contextmanager
def filled_pair(directory: Path) -> Generator[Cluster]:
    """Rows 0 to 11,999 in six segments, each on both nodes, served in batches of 1,000."""
    with cluster(directory) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        for number in range(SEGMENTS):
            append(made, rows(2000 * number, 2000))
        for node in made.nodes:
            node.readings = 0
        yield made


def append(made: Cluster, *batches: pa.RecordBatch, **how: Any) -> tuple[StagedSegment, ...]:
    transaction = made.open()
    known = unhurried(how.get("runtime", THREADS))
    staged = stage(made.facts(), transaction, batches, made.catalog.revision, known=known, **how)
    made.commit(transaction, staged)
    return staged


def unhurried(runtime: Runtime = THREADS) -> Known:
    """What a client knows that never hedges: fences alone decide whom it asks, however slow this machine is."""
    return Known(runtime, HedgeLimits(burst=0))


def unhurried_process() -> Known:
    """What the tasks of this process share, for tasks that never hedge."""
    known, other = of_process(CLUSTER), unhurried()
    known.reads, known.writes = other.reads, other.writes
    return known


def places_in(facts: TableFacts, refresh: Refresh | None = None, *, runtime: Runtime = THREADS) -> Places:
    return places_of(facts, refresh, known=unhurried(runtime), runtime=runtime)


def read(plan: ScanPlan, *, runtime: Runtime = THREADS, **how: Any) -> pa.RecordBatchReader:
    return read_plan(plan, runtime=runtime, known=unhurried(runtime), **how)


def read_one(
    plan: ScanPlan, segment: SegmentRecord, *, runtime: Runtime = THREADS, places: Places | None = None, **how: Any
) -> Iterator[pa.RecordBatch]:
    places = places or places_in(plan.facts, runtime=runtime)
    return read_segments(plan, (segment,), runtime=runtime, places=places, **how)


def never(_duration_ns: int) -> None:
    raise AssertionError("nobody needs to wait")


def stopped() -> int:
    """A clock that stands still."""
    return 0


def leaping() -> tuple[Callable[[], int], Callable[[int], None]]:
    """A clock that leaps at every pause, so that giving up takes no time."""
    clock = [0]

    def sleep(duration_ns: int) -> None:
        clock[0] += duration_ns * 100

    return lambda: clock[0], sleep


def numbers(batches: Iterator[pa.RecordBatch] | pa.RecordBatchReader) -> list[int]:
    return sorted(value for batch in batches for value in batch["k"].to_pylist())


def first_of(made: Cluster) -> int:
    """The node that a reader of the first segment asks first."""
    return reading_order(made.plan().segments[0])[0]
