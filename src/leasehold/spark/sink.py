"""Writing a DataFrame as one write transaction: every row once, or none (docs/design.md, "Data").

The transaction's id is drawn before the tasks start and is part of the sink. Each task stages segments and returns
their records. `commit` names the segments of the attempts that Spark accepted. The segments of a lost or repeated
attempt are in no manifest, and the nodes delete them when the transaction has ended. `commit` and `abort` run in a
Python process that shares nothing with the one that opened the transaction. They end the login of the tasks.

| Spark calls            | the transaction is      | then                                            |
| commit                 | open                    | committed                                       |
| commit                 | committed               | committed, as before: Spark or we asked twice   |
| commit                 | aborted or expired      | an error: nothing was written                   |
| abort                  | open                    | aborted                                         |
| abort, after a commit whose answer was lost | committed | committed: the rows are there, and stay  |
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from leasehold.client.cluster import Cluster
from leasehold.client.overwrite import check_few_values, commit_overwrite, new_rows, replace_all
from leasehold.client.threads import of_process
from leasehold.core.data.replacement import Overwrite
from leasehold.core.words.codec import decode_message, encode
from leasehold.core.words.messages import StagedSegment, StreamBatch, TableFacts
from leasehold.core.words.records import TransactionState
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import Revision, TransactionId
from leasehold.spark.entry import ClusterEntry
from leasehold.spark.errors import readable

log = logging.getLogger(__name__)


class StagedByTask(WriterCommitMessage):
    """What one task staged: encoded `StagedSegment` messages, and the values by which it replaces rows."""

    def __init__(self, segments: Iterable[bytes], values: Iterable[str]) -> None:
        self.segments = tuple(segments)
        self.values = frozenset(values)


class LeaseholdSink(DataSourceArrowWriter):
    """One write of one DataFrame; made by `LeaseholdSource.writer`, pickled to the tasks and to the commit."""

    def __init__(
        self,
        *,
        entry: ClusterEntry,
        facts: bytes,
        transaction: str,
        revision: int,
        begun: Overwrite | None = None,
    ) -> None:
        self._entry = entry
        self._encoded_facts = facts
        self.transaction = TransactionId(transaction)
        self._revision = Revision(revision)
        self._begun = begun

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedByTask:
        """Runs in a task: stages its rows. Raises `Definite` for the first row that does not fit."""
        facts = self._facts()
        known = of_process(facts.cluster_id)
        with readable(facts.name), self._entry.kept(Cluster, known) as cluster:
            values: set[str] = set()
            begun = self._begun
            rows = iterator if begun is None else new_rows(iterator, facts, begun, values)
            # A task may start long after the transaction was opened: nodes may have moved since.
            segments = cluster.stage(facts, self.transaction, rows, self._revision)
            return StagedByTask([encode(segment) for segment in segments], values)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Makes the rows of all tasks visible at once; the same again changes nothing."""

        def commit(cluster: Cluster, facts: TableFacts) -> int:
            staged = all_staged(messages)
            return self._committed(cluster, facts, staged, segments_of(staged))

        self._end(commit)

    def commit_batch(self, staged: Sequence[StagedByTask], batch: StreamBatch, *, replaces: bool) -> None:
        """The same for a batch of a streaming query, unless it is committed already; if it `replaces`, all rows that
        there are go."""

        def commit(cluster: Cluster, facts: TableFacts) -> int:
            segments = segments_of(staged)
            try:
                if replaces:
                    return replace_all(cluster, facts, self.transaction, segments, batch).segments_short
                return cluster.commit(facts.cluster_id, self.transaction, segments, batch=batch).segments_short
            except Refused as error:
                if error.code != ErrorCode.BATCH_COMMITTED:
                    raise
                log.info("%s", error.text)
                cluster.abort(facts.cluster_id, self.transaction)
                return 0

        self._end(commit)

    def _end(self, commit: Callable[[Cluster, TableFacts], int]) -> None:
        """Commits and ends the login; `commit` tells how many segments are on fewer nodes than the table wants."""
        facts = self._facts()
        with readable(facts.name), self._entry.connect(Cluster) as cluster:
            short = commit(cluster, facts)
            cluster.end_login()
        say_short(facts.name, short)

    def _committed(
        self, cluster: Cluster, facts: TableFacts, staged: list[StagedByTask], segments: list[StagedSegment]
    ) -> int:
        """How many segments are on fewer nodes than the table wants."""
        if self._begun is None:
            return cluster.commit(facts.cluster_id, self.transaction, segments).segments_short
        opened = cluster.open_transaction(facts, self.transaction, may_be_taken=True)
        if opened.state is TransactionState.COMMITTED:
            return 0  # what it replaced is gone, so it can't be prepared again
        values = frozenset[str]().union(*(one.values for one in staged))
        if self._begun.by is not None:
            check_few_values(values, self._begun.by)
        done = commit_overwrite(
            cluster, facts, self.transaction, segments, self._begun, revision=self._revision, values=values
        )
        return done.segments_short

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - the nodes know what they hold
        """Ends the transaction, unless it is already committed: then its rows stay."""
        facts = self._facts()
        with readable(facts.name), self._entry.connect(Cluster) as cluster:
            cluster.abort(facts.cluster_id, self.transaction)
            cluster.end_login()

    def _facts(self) -> TableFacts:
        facts = decode_message(self._encoded_facts)
        assert isinstance(facts, TableFacts), "writer() made it"
        return facts


def say_short(table: str, short: int) -> None:
    """Warns of segments of a write that are on too few nodes."""
    if short:
        log.warning("%s: %d segments just written are on fewer nodes than the table wants", table, short)


def all_staged(messages: Sequence[WriterCommitMessage | None]) -> list[StagedByTask]:
    if not all(isinstance(one, StagedByTask) for one in messages):
        raise Refused("a task did not say what it wrote", code=ErrorCode.INCOMPLETE, hint="write the rows again")
    return cast("list[StagedByTask]", list(messages))


def segments_of(staged: Iterable[StagedByTask]) -> list[StagedSegment]:
    segments = [decode_message(blob) for one in staged for blob in one.segments]
    assert all(isinstance(one, StagedSegment) for one in segments), "write() made them"
    return cast("list[StagedSegment]", segments)
