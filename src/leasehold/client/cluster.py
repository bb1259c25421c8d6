"""The Python client: one cluster, its statements and its tables."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol, Self, cast

import pyarrow as pa

from leasehold.client.append import stage
from leasehold.client.coordinators import Coordinators
from leasehold.client.lost import Forgotten, forget_lost
from leasehold.client.not_written import aborted_on_error, not_written, writing_nothing
from leasehold.client.overwrite import Overwritten, overwrite
from leasehold.client.past import AsOf
from leasehold.client.result import QueryResult
from leasehold.client.rewrite import Rewritten, rewrite
from leasehold.client.scan import read_again, read_plan
from leasehold.client.scrub import ScrubbedNode, scrub
from leasehold.client.threads import THREADS
from leasehold.core.data.replacement import Isolation
from leasehold.core.words.messages import (
    DelegateLogin,
    Filter,
    LoggedIn,
    LoggedOut,
    LoginsRenewed,
    LogOut,
    RenewLogins,
    Rows,
    ScanPlan,
    StagedSegment,
    TableFacts,
    TransactionFacts,
    ViewFacts,
)
from leasehold.core.words.records import Field, TransactionState, ViewColumn
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, NotFound, Refused, Unreachable
from leasehold.ids import ApplicationSecret, ObjectId, Revision, StatementId, TransactionId
from leasehold.limits.clients import APPEND_ATTEMPTS, APPEND_PAUSE_NS
from leasehold.limits.people import LOG_OUT_TIMEOUT_NS
from leasehold.limits.queries import QUERY_MEMORY_BYTES
from leasehold.limits.segments import TRANSACTION_RENEW_NS
from leasehold.sql.kind import StatementKind, kind_of
from leasehold.storage.schema import arrow_schema
from leasehold.wire.clock import sleep_ns
from leasehold.wire.steps import run


class ArrowStream(Protocol):
    """A source of an Arrow stream: a table or reader of pyarrow, a frame of polars, a relation of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class Cluster(Coordinators):
    """A connection to a cluster, its nodes as well as its coordinators; use it as a context manager.

    Only what `looking_again` gives may be used from several threads at once.
    """

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

        The name of a table or view stands for all of its rows. DuckDB holds at most `memory_bytes`, and the result is
        streamed. Returns once the first rows are there. `timeout` is as in `connect`, for this query. `on_read` gets
        the number of rows read so far and the number of rows in the tables, on another thread. Raises `BadStatement`,
        `NotFound`, `Forbidden`, or `Refused` (NOT_ON_THIS_ENGINE, QUERY_TOO_LARGE, QUERY_FAILED ..).
        """
        from leasehold.client.query import run_query  # noqa: PLC0415 - few need it, and DuckDB takes long to load
        from leasehold.sql.select import read_select  # noqa: PLC0415

        cluster = self.within(timeout)
        prepared = read_select(select, cluster=self.address)
        return run_query(prepared, cluster.plan_query, cluster.read, memory_bytes, on_read, self.known)

    def read(self, plan: ScanPlan) -> pa.RecordBatchReader:
        """The rows of a plan of this client."""
        refresh = self.looking_again(plan.facts)
        return read_plan(plan, refresh=refresh, login=self.token, known=self.known, asking=self.asking, tls=self.tls)

    def stage(
        self,
        facts: TableFacts,
        transaction: TransactionId,
        batches: Iterable[pa.RecordBatch],
        revision: Revision,
        text_sha256: bytes = b"",
    ) -> tuple[StagedSegment, ...]:
        """Writes rows to the nodes as part of a transaction that was opened at `revision`; see `client/append.py`.

        The transaction stays open however long that takes.
        """
        return stage(
            facts,
            transaction,
            _keeping_open(partial(self.open_transaction, facts, transaction, text_sha256), batches),
            revision,
            refresh=self.looking_again(facts),
            login=self.token,
            known=self.known,
            asking=self.asking,
            tls=self.tls,
        )

    def delegate(
        self,
        table: ObjectId,
        *,
        through: tuple[ObjectId, ...] = (),
        transaction: TransactionId | None = None,
        application: bytes = b"",
        replaces: bool = False,
    ) -> LoggedIn:
        """A login for processes on other machines, to read the table through these views or, with an open
        `transaction`, to write to it, and if it `replaces` rows to overwrite it. It does not end with this connection.
        If the hash of the secret of an `application` is given, the login ends unless `renew_logins` renews it. Only
        where there are users."""
        request = DelegateLogin(
            cluster_id=None,
            table=table,
            through=through,
            transaction=transaction,
            application=application,
            replaces=replaces,
        )
        return run(self._client.until_answered(self._client.question(request, LoggedIn), self.asking))

    def end_login(self) -> None:
        """Ends the login that this client was given, for all who have it. Asks once, and ignores errors: it would end
        by itself."""
        if self.token is not None:
            request = LogOut(cluster_id=None, token=self.token)
            with contextlib.suppress(LeaseholdError):
                run(self._client.ask_once(request, LoggedOut, LOG_OUT_TIMEOUT_NS))

    def renew_logins(self, application: ApplicationSecret) -> None:
        """Lets the delegated logins of an application hold for DELEGATED_TTL_NS from now on."""
        request = RenewLogins(cluster_id=None, application=application)
        run(self._client.until_answered(self._client.question(request, LoginsRenewed), self.asking))

    def end_logins(self, application: ApplicationSecret) -> None:
        """Ends the delegated logins of an application. Asks once, and ignores errors: they would end by themselves."""
        request = RenewLogins(cluster_id=None, application=application, ends=True)
        with contextlib.suppress(LeaseholdError):
            run(self._client.ask_once(request, LoginsRenewed, LOG_OUT_TIMEOUT_NS))

    def _insert(self, text: str, statement_id: StatementId | None, timeout: float | None) -> Rows | None:
        if kind_of(text) is not StatementKind.INSERT:
            return None
        from leasehold.client.insert import insert  # noqa: PLC0415 - few need it, and the parser takes long to load

        return insert(self.within(timeout), text, statement_id)

    def rewrite(self, name: str, on_progress: Callable[[Rewritten], None] | None = None) -> Rewritten:
        """Takes the rows that are deleted or expired out of the files of a table; see `client/rewrite.py`."""
        return rewrite(self, name, on_progress)

    def scrub(
        self, name: str | None = None, on_progress: Callable[[int, int, int], None] = lambda *_: None
    ) -> tuple[ScrubbedNode, ...]:
        """Has all nodes read the files of a table, or of all, and replace damaged ones; see `client/scrub.py`."""
        return scrub(self, name, on_progress)

    def forget_lost(self, name: str, confirm: Callable[[Forgotten], None] = lambda _: None) -> Forgotten:
        """Gives up the rows of a table that no node holds any more, for ever; see `client/lost.py`."""
        return forget_lost(self, name, confirm)


def _keeping_open(
    open_again: Callable[[], TransactionFacts], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yields `batches`, and extends the transaction now and then: writing may take hours."""
    due_ns = THREADS.now_ns() + TRANSACTION_RENEW_NS
    for batch in batches:
        if THREADS.now_ns() >= due_ns:
            open_again()
            due_ns = THREADS.now_ns() + TRANSACTION_RENEW_NS
        yield batch


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


class Table:
    """A table as it was when it was looked up. Each scan and append looks it up again.

    They raise `NotFound` with code TABLE_DROPPED once this table is dropped, even if another table has its name.
    """

    def __init__(self, cluster: Cluster, facts: TableFacts) -> None:
        self._cluster = cluster
        self.name = facts.name
        self.fields: tuple[Field, ...] = facts.fields
        self._id = facts.table
        self.schema: pa.Schema = arrow_schema(facts.fields)

    def scan(
        self,
        columns: Iterable[str] | None = None,
        *,
        where: str | None = None,
        as_of: AsOf | None = None,
        timeout: float | None = None,
    ) -> pa.RecordBatchReader:
        """All rows visible now, as a stream of Arrow batches; `columns` by name, default all.

        `where` chooses rows by conditions on columns as they are written in SQL, such as
        `day >= DATE '2013-06-15' AND origin IN ('JFK', 'LGA')`: files and parts of files that have no such row are not
        read, and only these rows travel. `as_of` is an earlier revision: its columns and rows are read, without what
        was deleted or has expired since. A `datetime` with a time zone stands for the newest revision that was
        committed by then. `timeout` is as in `connect`, for this scan.

        Raises `Refused` with code TOO_OLD for a revision that can't be read any more, FUTURE_REVISION for one that does
        not exist yet, and for a time in the future.
        """
        cluster, chosen = self._cluster.within(timeout), None if columns is None else tuple(columns)
        filters = conditions(where)

        def read() -> pa.RecordBatchReader:
            plan = cluster.plan(self.name, chosen, where=filters, as_of=as_of)
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
        """Adds rows, all or none; returns how many, and on how many nodes they are. Columns are matched by name.

        `rows` is a table or stream of Arrow, or a source of one, such as a polars DataFrame or the result of
        `Cluster.query`. Rows that the write transaction with the id `transaction` has committed are not added again.
        Without such an id an error before the commit is definite: nothing was written. `timeout` is as in `connect`,
        for this append. `text_sha256` is the hash of the INSERT that has the rows, so that its id is used for no other.
        """
        cluster = self._cluster.within(timeout)
        # Under an id that was used before, an earlier attempt may have been committed.
        may_be_taken = transaction is not None
        with writing_nothing() if transaction is None else contextlib.nullcontext():
            facts = cluster.facts(self.name)
            self._check(facts)
            chosen = transaction or cluster.new_transaction()
            opened = cluster.open_transaction(facts, chosen, text_sha256, may_be_taken=may_be_taken)
            if opened.state is TransactionState.COMMITTED:
                return Appended.by(opened, 0)
        for pause_ns in (*_pauses_ns(rows), None):
            unwritten = writing_nothing() if transaction is None else contextlib.nullcontext()
            with unwritten, aborted_on_error(cluster, facts, chosen):
                segments = cluster.stage(facts, opened.transaction, _batches(rows), opened.revision, text_sha256)
            try:
                committed = cluster.commit(facts.cluster_id, chosen, segments, may_be_taken=may_be_taken)
            except Unreachable as error:
                raise not_written(error) from error
            except Refused as error:
                if error.code != ErrorCode.TOO_FEW_HOLDERS or pause_ns is None:
                    raise
                # A replica has died after it took the rows: the others may be enough, or it is back in a moment.
                sleep_ns(pause_ns)
            else:
                return Appended.by(committed, len(segments))
        raise AssertionError("the last attempt returns or raises")

    def overwrite(
        self,
        rows: ArrowStream,
        where: str | None = None,
        *,
        by: str | None = None,
        isolation: Isolation = "serializable",
        timeout: float | None = None,
    ) -> Overwritten:
        """Puts rows in the place of all rows of the table or, with conditions as in `scan`, of those that fulfil
        `where`. With a column `by` only those go whose value of it occurs in the new rows. All readers see the old ones
        or the new ones.

        `isolation` is as in `core.data.replacement.Overwrite`, the rest as in `append`. Raises as `append`, and
        `Refused`: CONFLICT if the replaced rows have changed meanwhile, OUTSIDE_REPLACED for a new row that does not
        fulfil `where`.
        """
        cluster = self._cluster.within(timeout)
        with writing_nothing():
            facts = cluster.facts(self.name)
            self._check(facts)
        return overwrite(cluster, facts, _batches(rows), conditions(where), isolation, by)

    def _check(self, facts: TableFacts) -> None:
        if facts.table != self._id:
            raise NotFound(
                f"table {self.name} was dropped, and another table has its name now",
                code=ErrorCode.TABLE_DROPPED,
                hint=f'look the new one up: cluster.table("{self.name}")',
            )


def conditions(where: str | None) -> tuple[Filter, ...]:
    """What a person wrote to choose rows. Raises as `sql.where.read_where`."""
    if where is None:
        return ()
    from leasehold.sql.where import read_where  # noqa: PLC0415 - few need it, and the parser takes long to load

    return read_where(where)


def _pauses_ns(rows: ArrowStream) -> Iterable[int]:
    """Before each further attempt; there is none for rows that can be read only once."""
    return (APPEND_PAUSE_NS << turn for turn in range(APPEND_ATTEMPTS - 1)) if isinstance(rows, pa.Table) else ()


def _batches(rows: ArrowStream) -> Iterable[pa.RecordBatch]:
    # Our own readers are used as they are: the C interface would turn their errors into text.
    if isinstance(rows, pa.RecordBatchReader | QueryResult):
        return cast("Iterable[pa.RecordBatch]", rows)
    return pa.RecordBatchReader.from_stream(rows)


class View:
    """A view as it was when it was looked up. Each scan looks it up again."""

    def __init__(self, cluster: Cluster, facts: ViewFacts) -> None:
        self._cluster = cluster
        self._name = facts.views[-1].name
        self.columns: tuple[ViewColumn, ...] = facts.views[-1].columns

    def scan(self, *, timeout: float | None = None) -> QueryResult:
        """All rows of the view now, as `Cluster.query` reads them."""
        return self._cluster.query(self._name, timeout=timeout)


def connect(
    target: str | Path | None = None,
    *,
    user: str | None = None,
    password: str | None = None,
    timeout: float | None = None,
    tls: str | Path | None = None,
    credentials: str | Path | None = None,
) -> Cluster:
    """Connects to a cluster by its coordinator's `host:port`, or by the directory of `leasehold up`.

    `credentials` is a file that `leasehold token create` made, by default $LEASEHOLD_CREDENTIALS; it says what is not
    given here. Else the default is the directory `leasehold-data`. If the cluster has users, `user` and `password` log
    in, else the file, else $LEASEHOLD_USER and $LEASEHOLD_PASSWORD, else the certificate of the connection. While no
    coordinator leads, or no replica of a bucket answers, each call asks again for `timeout` seconds, by default 30.
    Then it raises `Unreachable`, or an error that fits the request better. The time starts again after each answer, so
    a call that makes progress may take longer. `tls` is as in `client.trust.trusted_by`.
    """
    return Cluster(target, user=user, password=password, timeout=timeout, tls=tls, credentials=credentials)
