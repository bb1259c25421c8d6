"""Writing a stream: each batch of a streaming query is one write transaction, and is committed once.

Spark makes the writer of a batch twice, in two Python processes beside the driver that share nothing.

| Spark calls | where | here |
| --- | --- | --- |
| `streamWriter`, and pickles the writer | in the process that plans | the write transaction of this batch is opened |
| `write` | in each task | rows are staged; the message says for which sink and query |
| `streamWriter` again, then `commit` or `abort` | in the process that commits | the transaction ends |

A batch that Spark runs again, since it does not know whether it was committed, is written by another transaction. Its
commit is refused by the number of the batch (`core/data/streams.py`), and its rows go.
"""

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from leasehold.core.words.messages import StreamBatch
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.spark.sink import LeaseholdSink, StagedByTask, all_staged

QUERY_PROPERTY = "sql.streaming.queryId"
"""Spark's local property of a task."""


class StagedForStream(StagedByTask):
    """What one task staged of a batch, and for what."""

    def __init__(self, staged: StagedByTask, sink: LeaseholdSink, query: str) -> None:
        super().__init__(staged.segments, staged.values)
        self.sink = sink
        self.query = query


class LeaseholdStreamSink(DataSourceStreamArrowWriter):
    """One batch of a stream; `begin` opens its write transaction. If it `replaces`, all rows of the table go."""

    def __init__(self, begin: Callable[[], LeaseholdSink], *, replaces: bool) -> None:
        self._begin = begin
        self._replaces = replaces
        self._sink: LeaseholdSink | None = None

    def __getstate__(self) -> dict[str, object]:
        """Only the writer that tasks get is pickled, not the one that commits."""
        self._sink = self._sink or self._begin()
        return {"_sink": self._sink}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedForStream:
        """Runs in a task, as `LeaseholdSink.write`."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
        assert query is not None, "Spark runs this in a task of a streaming query"
        assert self._sink is not None, "it was pickled"
        return StagedForStream(self._sink.write(iterator), self._sink, query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Makes the rows of the batch visible at once, unless they are already."""
        staged = _staged(messages)
        if staged:  # else no task has run
            batch = StreamBatch(query=staged[0].query, number=batchId)
            staged[0].sink.commit_batch(staged, batch, replaces=self._replaces)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Ends the transaction of the batch, unless it is committed. If no task has staged anything, it expires."""
        sink = next((one.sink for one in messages if isinstance(one, StagedForStream)), None)
        if sink is not None:
            sink.abort(messages)


def _staged(messages: list[WriterCommitMessage | None]) -> list[StagedForStream]:
    staged = [one for one in all_staged(messages) if isinstance(one, StagedForStream)]
    if len({one.sink.transaction for one in staged}) > 1:
        raise Refused(
            "the tasks of a batch have written in several transactions",
            code=ErrorCode.INCOMPLETE,
            hint="start the query again",
        )
    return staged
