"""The changes of a table as rows: each row that came or went, with how, and in which revision.

What one commit changed are two sets of segments (`core/data/changes.py`). Rows of an append all came. Where rows were
replaced, a row may be in both sets, since its file was written anew: such rows are left out. Equal rows are in the same
bucket, so each bucket is compared by itself. DuckDB counts the rows of both sets, and keeps what it can't hold in
memory in files of its own.
"""

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from leasehold.client.past import AsOf, revision_and_time_us
from leasehold.core.words.messages import ChangesPlan, CommitChanges, PlanChanges, ScanPlan, TableFacts
from leasehold.core.words.records import Field, SegmentRecord
from leasehold.core.words.statements import fold
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, Refused
from leasehold.ids import BucketNumber, Revision
from leasehold.limits.queries import CHANGES_MEMORY_BYTES, CHANGES_THREADS
from leasehold.limits.segments import BATCH_ROWS
from leasehold.storage.schema import TIMESTAMP, arrow_schema

if TYPE_CHECKING:
    from leasehold.client.cluster import Cluster

CHANGE: Final = "_change"
REVISION: Final = "_revision"
COMMITTED_AT: Final = "_committed_at"
LABELS: Final = (
    pa.field(CHANGE, pa.string(), nullable=False),
    pa.field(REVISION, pa.int64(), nullable=False),
    pa.field(COMMITTED_AT, TIMESTAMP),
)
"""The columns beside those of the table: `insert` or `delete`, the revision of the commit, and its time, which is null
if it is not kept any more."""
_COUNT: Final = pa.field("n", pa.int8())

Read = Callable[[ScanPlan], Iterable[pa.RecordBatch]]


def changes_schema(fields: Sequence[Field]) -> pa.Schema:
    """Raises `Refused` with code BAD_SCHEMA if the table has a column with the name of a label."""
    for one in fields:
        if fold(one.name) in {label.name for label in LABELS}:
            raise Refused(
                f"the table has a column {one.name}, as its changes have",
                code=ErrorCode.BAD_SCHEMA,
                hint="choose other columns, or rename it",
            )
    return pa.schema([*arrow_schema(fields), *LABELS])


def plans_of(cluster: "Cluster", request: PlanChanges) -> Iterator[ChangesPlan]:
    """What was asked for, in as many answers as it takes; all end at the same revision."""
    plan = cluster.plan_changes(request)
    until = plan.plan.facts.revision if request.until is None else request.until
    yield plan
    while plan.until < until:
        plan = cluster.plan_changes(msgspec.structs.replace(request, since=plan.until, until=until))
        yield plan


def pieces(commits: Iterable[CommitChanges]) -> Iterator[CommitChanges]:
    """The smallest parts that can be read by themselves, in the order of their commits."""
    for commit in commits:
        if not commit.taken:
            for one in commit.added:
                yield msgspec.structs.replace(commit, added=(one,))
            continue
        added, taken = _by_bucket(commit.added), _by_bucket(commit.taken)
        for bucket in sorted({*added, *taken}):
            yield msgspec.structs.replace(commit, added=tuple(added[bucket]), taken=tuple(taken[bucket]))


def _by_bucket(segments: Iterable[SegmentRecord]) -> defaultdict[BucketNumber, list[SegmentRecord]]:
    found: defaultdict[BucketNumber, list[SegmentRecord]] = defaultdict(list)
    for one in segments:
        found[one.bucket].append(one)
    return found


def read_piece(plan: ScanPlan, piece: CommitChanges, read: Read) -> Iterator[pa.RecordBatch]:
    """The changes of a piece in `changes_schema(plan.fields)`. Raises what `read` raises."""
    schema = changes_schema(plan.fields)
    added = msgspec.structs.replace(plan, segments=piece.added)
    if not piece.taken:
        for batch in read(added):
            yield _labelled(batch, ["insert"] * batch.num_rows, piece, schema)
        return
    taken = msgspec.structs.replace(plan, segments=piece.taken)
    for batch, counts in _differences(arrow_schema(plan.fields), read(added), read(taken)):
        for rows, labels in _repeated(batch, counts):
            yield _labelled(rows, labels, piece, schema)


def _labelled(batch: pa.RecordBatch, labels: list[str], piece: CommitChanges, schema: pa.Schema) -> pa.RecordBatch:
    count = batch.num_rows
    commit = (
        pa.array(labels, pa.string()),
        pa.repeat(pa.scalar(piece.revision, pa.int64()), count),
        pa.repeat(pa.scalar(piece.committed_us, TIMESTAMP), count),
    )
    return pa.RecordBatch.from_arrays([*batch.columns, *commit], schema=schema)


def _repeated(batch: pa.RecordBatch, counts: list[int]) -> Iterator[tuple[pa.RecordBatch, list[str]]]:
    """Each row as often as it came or went."""
    places: list[int] = []
    labels: list[str] = []
    for place, count in enumerate(counts):
        for _ in range(abs(count)):
            places.append(place)
            labels.append("insert" if count > 0 else "delete")
            if len(places) == BATCH_ROWS:
                yield batch.take(pa.array(places, pa.int64())), labels
                places, labels = [], []
    if places:
        yield batch.take(pa.array(places, pa.int64())), labels


def _differences(
    schema: pa.Schema, added: Iterable[pa.RecordBatch], taken: Iterable[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
    """The rows that are not equally often in both, and how much more often they are in `added`."""
    # It takes long to load, and most readers need no changes.
    import duckdb  # noqa: PLC0415

    from leasehold.client.engine import engine_config  # noqa: PLC0415

    names = [f"c{place}" for place in range(len(schema))]
    counted = pa.schema([*(pa.field(name, one.type) for name, one in zip(names, schema, strict=True)), _COUNT])
    ended_by: list[BaseException] = []

    def rows() -> Iterator[pa.RecordBatch]:
        try:
            for batch, count in chain(((one, 1) for one in added), ((one, -1) for one in taken)):
                counts = pa.repeat(pa.scalar(count, _COUNT.type), batch.num_rows)
                yield pa.RecordBatch.from_arrays([*batch.columns, counts], schema=counted)
        except BaseException as error:
            ended_by.append(error)  # DuckDB would make text of it
            raise

    with (
        tempfile.TemporaryDirectory(prefix="leasehold-") as folder,
        duckdb.connect(config=engine_config(CHANGES_MEMORY_BYTES, threads=CHANGES_THREADS, folder=folder)) as engine,
    ):
        engine.execute("SET TimeZone = 'UTC'")
        engine.execute("SET preserve_insertion_order = false")
        engine.register("rows", pa.RecordBatchReader.from_batches(counted, rows()))
        columns = ", ".join(names)
        text = f"SELECT {columns}, CAST(sum(n) AS BIGINT) FROM rows GROUP BY {columns} HAVING sum(n) <> 0"  # noqa: S608 - our own names
        try:
            for batch in engine.sql(text).to_arrow_reader(BATCH_ROWS):
                *values, counts = batch.columns
                fitted = [one.cast(field.type) for one, field in zip(values, schema, strict=True)]
                yield pa.RecordBatch.from_arrays(fitted, schema=schema), counts.to_pylist()
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            if ended_by:
                raise ended_by[0] from error
            raise _too_large(error) from error


def _too_large(error: Exception) -> LeaseholdError:
    return Refused(
        f"the rows before and after a commit can't be compared here: {' '.join(str(error).split())[:500]}",
        code=ErrorCode.QUERY_TOO_LARGE,
        hint="it needs room for them in the folder of temporary files, $TMPDIR",
    )


def asked_for(
    cluster: "Cluster",
    name: str,
    since: AsOf,
    until: AsOf | None = None,
    columns: tuple[str, ...] | None = None,
    *,
    ignores_deletes: bool = False,
) -> PlanChanges:
    """The request for changes between two revisions or times. Raises as `Coordinators.plan`."""
    return PlanChanges(
        cluster_id=None,
        name=name,
        columns=columns,
        since=_revision_of(cluster, name, since),
        until=None if until is None else _revision_of(cluster, name, until),
        ignores_deletes=ignores_deletes,
    )


def _revision_of(cluster: "Cluster", name: str, as_of: AsOf) -> Revision:
    revision, time_us = revision_and_time_us(as_of)
    if time_us is not None:
        revision = cluster.plan(name, (), as_of=as_of).as_of
    assert revision is not None, "a plan of the past says which revision it is of"
    return revision


def read_changes(cluster: "Cluster", request: PlanChanges, check: Callable[[TableFacts], None]) -> pa.RecordBatchReader:
    """The changes, in the order of their commits; `check` raises for another table than the one that is meant."""
    plans = plans_of(cluster, request)
    first = next(plans)
    check(first.plan.facts)

    def rows() -> Iterator[pa.RecordBatch]:
        for plan in chain((first,), plans):
            for piece in pieces(plan.commits):
                yield from read_piece(plan.plan, piece, cluster.read)

    return pa.RecordBatchReader.from_batches(changes_schema(first.plan.fields), rows())
