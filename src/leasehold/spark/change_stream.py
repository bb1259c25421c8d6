"""Following the changes of a table as a stream: first a snapshot, whose rows all come, then what each commit changed.

A batch has whole commits. Its position in the checkpoint is a revision, and while the snapshot is read that of the
snapshot.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from leasehold.client.changes import plans_of
from leasehold.core.words.messages import ChangesPlan, CommitChanges, PlanChanges
from leasehold.ids import Generation, ObjectId, Revision
from leasehold.spark.change_reader import columns_of, read_share, shares_of
from leasehold.spark.errors import readable
from leasehold.spark.stream_reader import StreamPart, TableStream, read_offset


class ChangePosition(msgspec.Struct, frozen=True, kw_only=True):
    """How far a stream has read."""

    table: ObjectId
    generation: Generation
    revision: Revision
    snapshot: bool = False
    """Whether the rows of this revision are still to be read."""


class ChangesStreamReader(TableStream):
    """A stream of changes, in the columns of `schema`."""

    _until: Revision | None = None
    """With `availableNow` the last revision of the stream."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        with readable(self._asked.table):
            facts, after = self._cluster().facts(self._asked.table), self._asked.after
            position = ChangePosition(
                table=facts.table,
                generation=facts.generation,
                revision=facts.revision if after is None else after,
                snapshot=after is None,
            )
            self._cluster().plan_changes(self._request(position))
            return msgspec.to_builtins(position)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The end of the next batch; `start` if there is nothing to read."""
        with readable(self._asked.table):
            begin = read_offset(start, ChangePosition)
            if begin.snapshot:
                return msgspec.to_builtins(msgspec.structs.replace(begin, snapshot=False))
            commits = self._cluster().plan_changes(self._request(begin, self._until)).commits
            if not isinstance(limit, ReadAllAvailable):
                commits = self._first(commits)
            if not commits:
                return start
            return msgspec.to_builtins(msgspec.structs.replace(begin, revision=commits[-1].revision))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        with readable(self._asked.table):
            self._until = self._cluster().facts(self._asked.table).revision

    def _first(self, commits: Sequence[CommitChanges]) -> Sequence[CommitChanges]:
        """As many as a batch may have."""
        rows, segments, count = 0, 0, 0
        for one in commits:
            found = (*one.added, *one.taken)
            rows, segments = rows + sum(each.rows for each in found), segments + len(found)
            over = self._asked.rows_max is not None and rows > self._asked.rows_max
            if count and (over or (self._asked.segments_max is not None and segments > self._asked.segments_max)):
                break
            count += 1
        return commits[:count]

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with readable(self._asked.table):
            begin, until = read_offset(start, ChangePosition), read_offset(end, ChangePosition)
            plans = (
                [self._snapshot(begin)]
                if begin.snapshot
                else plans_of(self._cluster(), self._request(begin, until.revision))
            )
            entry = self._entry_of(begin.table)
            return [StreamPart(one, entry) for one in shares_of(plans, self._schema, self._asked.table)]

    def _snapshot(self, begin: ChangePosition) -> ChangesPlan:
        columns = columns_of(self._schema).names
        plan = self._cluster().plan(self._asked.table, columns, as_of=begin.revision)
        commit = CommitChanges(revision=begin.revision, added=plan.segments, taken=())
        bare = msgspec.structs.replace(plan, segments=())
        return ChangesPlan(plan=bare, commits=(commit,), until=begin.revision)

    def _request(self, begin: ChangePosition, until: Revision | None = None) -> PlanChanges:
        return PlanChanges(
            cluster_id=None,
            name=self._asked.table,
            columns=tuple(columns_of(self._schema).names),
            since=begin.revision,
            until=until,
            table=begin.table,
            generation=begin.generation,
            ignores_deletes=self._asked.ignores_deletes,
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task."""
        assert isinstance(partition, StreamPart), "`partitions` made it"
        yield from read_share(partition.value, self._schema, self._asked.table, partition.entry)
