"""Following a table as a stream (`core/data/following.py`): first a snapshot of it, then the rows that are added.

Spark keeps in a query's checkpoint from where to where each batch goes, and asks again for the same rows after a
failure. So a batch is planned from two positions alone, and rows are numbered by the cluster. A position is

| in the checkpoint | what was read |
| --- | --- |
| `table`, `generation` | the table that it is of |
| `number`, `deletes` | all segments below the number; the newest DELETE then |
| `snapshot`, `read` | while the snapshot is read: its revision, and how many of its segments were read |

Spark plans in one Python process, which lives as long as the query runs; tasks get the plan and a login with each
partition.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from leasehold.client.cluster import Cluster
from leasehold.client.coordinators import Coordinators
from leasehold.client.threads import THREADS, of_process
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import Follow, ScanPlan
from leasehold.core.words.records import SegmentRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import Generation, ObjectId, Revision
from leasehold.limits.clients import STREAM_LOGIN_NS
from leasehold.spark.entry import ClusterEntry, entry_for
from leasehold.spark.errors import readable
from leasehold.spark.reader import decoded, read_rows, share_out
from leasehold.spark.types import check_readable


class Following(NamedTuple):
    """What a stream asks for."""

    table: str
    after: Revision | None
    """Rows that were added after this revision; None for a snapshot and what is added to it."""
    rows_max: int | None
    """Of a batch, which has one segment at least."""
    segments_max: int | None
    ignores_deletes: bool
    changes: bool = False
    """Whether rows that go are wanted too (`spark/change_stream.py`)."""


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """How far a stream has read."""

    table: ObjectId
    generation: Generation
    number: int
    deletes: int
    snapshot: Revision | None = None
    read: int = 0

    @classmethod
    def at(cls, follow: Follow, snapshot: Revision | None = None) -> "Position":
        return cls(
            table=follow.table,
            generation=follow.generation,
            number=follow.number,
            deletes=follow.deletes,
            snapshot=snapshot,
        )

    @property
    def offset(self) -> dict[str, Any]:
        return msgspec.to_builtins(self)

    @property
    def follow(self) -> Follow:
        return Follow(table=self.table, generation=self.generation, number=self.number, deletes=self.deletes)


P = TypeVar("P", bound=msgspec.Struct)


def read_offset(offset: dict[str, Any], kind: type[P]) -> P:
    """A position from a checkpoint. Raises `Refused` with code OTHER_CHECKPOINT."""
    try:
        return msgspec.convert(offset, kind)
    except msgspec.ValidationError as error:
        raise Refused(
            f"the checkpoint is not of such a stream from Leasehold: {error}",
            code=ErrorCode.OTHER_CHECKPOINT,
            hint="start the query with a new checkpoint",
        ) from error


class StreamPart(InputPartition):
    """A share of the segments of a batch; `value` is an encoded plan."""

    def __init__(self, value: bytes, entry: ClusterEntry) -> None:
        super().__init__(value)
        self.entry = entry


class TableStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What all streams from a table have; `connect` makes a client of the one who asks."""

    def __init__(
        self, connect: Callable[[], Cluster], asked: Following, schema: StructType, application: bytes
    ) -> None:
        self._connect = connect
        self._asked = asked
        self._schema = schema
        self._application = application
        self._client: Cluster | None = None
        self._entry: ClusterEntry | None = None
        self._entry_ns = 0

    def __getstate__(self) -> dict[str, object]:
        """Tasks only read."""
        return {"_asked": self._asked, "_schema": self._schema}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        if self._asked.rows_max is None and self._asked.segments_max is None:
            return ReadAllAvailable()
        return ReadMaxRows(self._asked.rows_max or 2**31 - 1)

    def _cluster(self) -> Cluster:
        if self._client is None:
            self._client = self._connect()
        return self._client

    def _entry_of(self, table: ObjectId) -> ClusterEntry:
        """A login for the tasks, made anew long before it ends for good."""
        now_ns = THREADS.now_ns()
        if self._entry is None or now_ns - self._entry_ns >= STREAM_LOGIN_NS:
            self._entry = entry_for(self._cluster(), table, application=self._application)
            self._entry_ns = now_ns
        return self._entry

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has read all up to there: nothing has to be told to the cluster."""

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


class LeaseholdStreamReader(TableStream):
    """A stream of the columns of `schema`."""

    _until: int | None = None
    """With `availableNow` the number at which the stream ends."""

    # ---------------------------------------------------------------- where batches begin and end

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        with readable(self._asked.table):
            plan = self._plan(as_of=self._asked.after)
            assert plan.follows is not None, "the coordinator is as new as the client"
            snapshot = plan.facts.revision if self._asked.after is None else None
            return Position.at(plan.follows, snapshot).offset

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The end of the next batch; `start` if there is nothing to read."""
        with readable(self._asked.table):
            begin = read_offset(start, Position)
            plan = self._added(begin)
            assert plan.follows is not None, "the coordinator is as new as the client"
            segments = plan.segments
            taken = segments if isinstance(limit, ReadAllAvailable) else self._first(segments)
            if begin.snapshot is not None:
                if len(taken) < len(segments):
                    return msgspec.structs.replace(begin, read=begin.read + len(taken)).offset
                return Position.at(begin.follow).offset
            if not taken:
                return start
            if len(taken) < len(segments) or self._until is not None:
                return msgspec.structs.replace(begin, number=taken[-1].number + 1).offset
            return Position.at(plan.follows).offset

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        with readable(self._asked.table):
            follows = self._plan().follows
            assert follows is not None, "the coordinator is as new as the client"
            self._until = follows.number

    def _first(self, segments: Sequence[SegmentRecord]) -> Sequence[SegmentRecord]:
        """As many as a batch may have."""
        rows, count = 0, 0
        for one in segments[: self._asked.segments_max]:
            rows += one.rows
            if count and self._asked.rows_max is not None and rows > self._asked.rows_max:
                break
            count += 1
        return segments[:count]

    # ---------------------------------------------------------------- plans

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with readable(self._asked.table):
            begin, until = read_offset(start, Position), read_offset(end, Position)
            plan = self._added(begin)
            if begin.snapshot is None:
                segments = tuple(one for one in plan.segments if one.number < until.number)
            elif until.snapshot is None:
                segments = plan.segments
            else:
                segments = plan.segments[: until.read - begin.read]
            check_readable(self._schema, plan.fields, table=self._asked.table)
            entry = self._entry_of(plan.facts.table)
            shares = share_out(segments)
            return [StreamPart(encode(msgspec.structs.replace(plan, segments=one)), entry) for one in shares]

    def _added(self, begin: Position) -> ScanPlan:
        """What was added since, in order; as far as the stream goes."""
        if begin.snapshot is None:
            plan = self._plan(follows=begin.follow, ignores_taken=self._asked.ignores_deletes)
            segments = (
                plan.segments if self._until is None else [one for one in plan.segments if one.number < self._until]
            )
            return msgspec.structs.replace(plan, segments=tuple(segments))
        plan = self._plan(as_of=begin.snapshot)
        return msgspec.structs.replace(
            plan, segments=tuple(sorted(plan.segments, key=lambda one: one.id))[begin.read :]
        )

    def _plan(self, **how: Any) -> ScanPlan:
        return self._cluster().plan(self._asked.table, self._schema.names, **how)

    # ---------------------------------------------------------------- reading

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task, as `LeaseholdReader.read`."""
        assert isinstance(partition, StreamPart), "`partitions` made it"
        plan = decoded(partition.value)
        known = of_process(plan.facts.cluster_id)
        with readable(self._asked.table), partition.entry.kept(Coordinators, known) as cluster:
            yield from read_rows(plan, self._schema, cluster)
