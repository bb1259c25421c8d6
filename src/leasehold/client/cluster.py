"""The Python client: one cluster, its statements and its tables."""

import contextlib
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Protocol, Self, cast

import pyarrow as pa

from leasehold.client.lost import Forgotten, forget_lost
from leasehold.client.result import QueryResult
from leasehold.client.rewrite import Rewritten, rewrite
from leasehold.client.rows import RowAccess
from leasehold.client.scan import read_again
from leasehold.core.words.messages import (
    Rows,
    TableFacts,
    TransactionFacts,
    ViewFacts,
)
from leasehold.core.words.records import Field, TransactionState, ViewColumn
from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, LeaseholdError, NotFound, NotWritten, Unreachable
from leasehold.ids import Revision, StatementId, TransactionId
from leasehold.limits.queries import QUERY_MEMORY_BYTES
from leasehold.sql.kind import StatementKind, kind_of
from leasehold.storage.schema import arrow_schema


class ArrowStream(Protocol):
    """Anything that gives a stream of Arrow: tables and readers of pyarrow, frames of polars, relations of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class Cluster(RowAccess):
    """A connection to a cluster; use it as a context manager. Not for use from several threads at once: only what
    `looking_again` gives is."""

    def table(self, name: str) -> "Table":
        """The table `database.table`. Raises `NotFound`."""
        return Table(self, self.facts(name))

    def view(self, name: str) -> "View":
        """The view `database.view`. Raises `NotFound`."""
        return View(self, self.view_facts(name))

    def query(
        self,
        select: str,
        *,
        memory_bytes: int = QUERY_MEMORY_BYTES,
        timeout: float | None = None,
        on_read: Callable[[int, int], None] = lambda *_: None,
    ) -> QueryResult:
        """The rows of a SELECT, which DuckDB runs in this process; all tables are read at one revision.

        The name of a table or view stands for all of its rows. DuckDB holds at most `memory_bytes`, and what it gives
        out is streamed. Answers once the first rows are there. `timeout` as of `connect`, for this query. `on_read` is
        told how many rows were read so far and how many its tables have, from another thread. Raises `BadStatement`,
        `NotFound`, `Forbidden`, or `Refused` (NOT_ON_THIS_ENGINE, QUERY_TOO_LARGE, QUERY_FAILED ..).
        """
        from leasehold.client.query import run_query  # noqa: PLC0415 - few need it, and DuckDB takes long to load
        from leasehold.sql.select import read_select  # noqa: PLC0415

        cluster = self.within(timeout)
        prepared = read_select(select, cluster=self.address)
        return run_query(prepared, cluster.plan_query, cluster.read, memory_bytes, on_read, self.known)

    def _insert(self, text: str, statement_id: StatementId | None, timeout: float | None) -> Rows | None:
        if kind_of(text) is not StatementKind.INSERT:
            return None
        from leasehold.client.insert import insert  # noqa: PLC0415 - few need it, and the parser takes long to load

        return insert(self.within(timeout), text, statement_id)

    def rewrite(self, name: str, on_progress: Callable[[Rewritten], None] | None = None) -> Rewritten:
        """Takes the rows that are deleted or expired out of the files of a table; see `client/rewrite.py`."""
        return rewrite(self, name, on_progress)

    def forget_lost(self, name: str, confirm: Callable[[Forgotten], None] = lambda _: None) -> Forgotten:
        """Gives up the rows of a table that no node holds any more, for ever; see `client/lost.py`."""
        return forget_lost(self, name, confirm)


class Appended(int):
    """How many rows an append has added; they are committed."""

    segments: int
    """How many segments they are in."""
    segments_short: int
    """How many of these fewer nodes hold than the table wants, so far: the loss of a disk may lose their rows."""
    revision: Revision
    """From which on they are seen."""

    @classmethod
    def by(cls, committed: TransactionFacts, segments: int) -> Self:
        """As the leader has answered."""
        made = cls(committed.rows)
        made.segments, made.segments_short, made.revision = segments, committed.segments_short, committed.revision
        return made


class Table:
    """A table as it stood when it was looked up; each scan and append looks again, and raises `NotFound` with code
    TABLE_DROPPED once this very table is gone, though another one has its name."""

    def __init__(self, cluster: Cluster, facts: TableFacts) -> None:
        self._cluster = cluster
        self.name = facts.name
        self.fields: tuple[Field, ...] = facts.fields
        self._id = facts.table
        self.schema: pa.Schema = arrow_schema(facts.fields)

    def scan(self, columns: Iterable[str] | None = None, *, timeout: float | None = None) -> pa.RecordBatchReader:
        """All rows visible now, as a stream of Arrow batches; `columns` by name, default all.

        `timeout` as of `connect`, for this scan.
        """
        cluster, chosen = self._cluster.within(timeout), None if columns is None else tuple(columns)

        def read() -> pa.RecordBatchReader:
            plan = cluster.plan(self.name, chosen)
            self._check(plan.facts)
            return cluster.read(plan)

        return read_again(read)

    def append(
        self,
        rows: ArrowStream,
        *,
        transaction: TransactionId | None = None,
        timeout: float | None = None,
        text_sha256: bytes = b"",
    ) -> Appended:
        """Adds rows, all or none; answers how many, and on how many nodes they are. Columns are matched by name.

        `rows` is a table or stream of Arrow, or anything that gives one, such as a polars DataFrame or the answer of
        `Cluster.query`. Rows that a write transaction of the id `transaction` has committed are not added again.
        Without such an id an error before the commit is definite: nothing was written. `timeout` as of `connect`, for
        this append. `text_sha256` is that of the INSERT that the rows are of: its id is never that of other rows.
        """
        cluster = self._cluster.within(timeout)
        # Under an id that was used before, an earlier attempt may have been committed.
        with _writing_nothing() if transaction is None else contextlib.nullcontext():
            facts = cluster.facts(self.name)
            self._check(facts)
            chosen = transaction or cluster.new_transaction()
            opened = cluster.open_transaction(facts, chosen, text_sha256)
            if opened.state is TransactionState.COMMITTED:
                return Appended.by(opened, 0)
            try:
                segments = cluster.stage(facts, opened.transaction, _batches(rows), opened.revision, text_sha256)
            except BaseException:
                # Once, as a courtesy: what is not aborted expires by itself, and the first error is the one to see.
                with contextlib.suppress(LeaseholdError):
                    cluster.try_abort(facts.cluster_id, chosen)
                raise
        return Appended.by(cluster.commit(facts.cluster_id, chosen, segments), len(segments))

    def _check(self, facts: TableFacts) -> None:
        if facts.table != self._id:
            raise NotFound(
                f"table {self.name} was dropped, and another table has its name now",
                code=ErrorCode.TABLE_DROPPED,
                hint=f'look the new one up: cluster.table("{self.name}")',
            )


def _batches(rows: ArrowStream) -> Iterable[pa.RecordBatch]:
    # What reads Leasehold is taken as it is: through the C interface its errors would be text alone.
    if isinstance(rows, pa.RecordBatchReader | QueryResult):
        return cast("Iterable[pa.RecordBatch]", rows)
    return pa.RecordBatchReader.from_stream(rows)


@contextlib.contextmanager
def _writing_nothing() -> Generator[None]:
    """Errors of a write that can't be committed any more are definite, whatever was asked and not answered."""
    try:
        yield
    except Indefinite as error:
        code = error.code if isinstance(error, Unreachable) else Unreachable.default_code
        raise NotWritten(f"nothing was written: {error.text}", code=code) from error


class View:
    """A view as it stood when it was looked up; each scan looks again."""

    def __init__(self, cluster: Cluster, facts: ViewFacts) -> None:
        self._cluster = cluster
        self._name = facts.views[-1].name
        self.columns: tuple[ViewColumn, ...] = facts.views[-1].columns

    def scan(self, *, timeout: float | None = None) -> QueryResult:
        """All rows of it now, as `Cluster.query` reads them."""
        return self._cluster.query(self._name, timeout=timeout)


def connect(
    target: str | Path = "leasehold-data",
    *,
    user: str | None = None,
    password: str | None = None,
    timeout: float | None = None,
) -> Cluster:
    """A cluster by its coordinator's `host:port`, or by the directory that `leasehold up` was given.

    Where the cluster has users, `user` and `password` say who asks; default $LEASEHOLD_USER and $LEASEHOLD_PASSWORD.
    While nobody answers who could (no coordinator that leads, no replica of a bucket), each call asks again for
    `timeout` seconds, by default 30; then it raises `Unreachable`, or what fits the request better. The time counts
    anew after each answer, so it does not bound how long a call takes that makes progress.
    """
    return Cluster(target, user=user, password=password, timeout=timeout)
