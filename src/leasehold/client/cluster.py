"""The Python client: one cluster, its statements and its tables."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa

from leasehold.client.append import stage
from leasehold.client.compaction import Compaction, compact, stage_compacted
from leasehold.client.coordinators import Coordinators
from leasehold.client.lost import Forgotten, forget_lost
from leasehold.client.result import QueryResult
from leasehold.client.scan import read_plan
from leasehold.client.scrub import ScrubbedNode, scrub
from leasehold.client.table import Table
from leasehold.client.threads import THREADS
from leasehold.core.membership.identity import node_login
from leasehold.core.words.messages import (
    ChangesPlan,
    DelegateLogin,
    LoggedIn,
    LoggedOut,
    LoginsRenewed,
    LogOut,
    PlanChanges,
    RenewLogins,
    Rows,
    ScanPlan,
    StagedSegment,
    TableFacts,
    TransactionFacts,
    ViewFacts,
)
from leasehold.core.words.records import SegmentRecord, ViewColumn
from leasehold.errors import LeaseholdError
from leasehold.ids import ApplicationSecret, ObjectId, Revision, StatementId, TransactionId
from leasehold.limits.people import LOG_OUT_TIMEOUT_NS
from leasehold.limits.queries import QUERY_MEMORY_BYTES
from leasehold.limits.segments import TRANSACTION_RENEW_NS
from leasehold.sql.kind import StatementKind, kind_of
from leasehold.wire.steps import run


class Cluster(Coordinators):
    """A connection to a cluster, its nodes as well as its coordinators; use it as a context manager.

    Only what `looking_again` gives may be used from several threads at once.
    """

    def table(self, name: str) -> Table:
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
        return read_plan(
            plan, refresh=refresh, login=node_login(self.token), known=self.known, asking=self.asking, tls=self.tls
        )

    def plan_changes(self, request: PlanChanges) -> ChangesPlan:
        """What was changed in a table after a revision; see `core/data/changes.py`."""
        return self._look_up(request, ChangesPlan)

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
            login=node_login(self.token),
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

    def renew_logins(self, application: ApplicationSecret, *, ends: bool = False) -> None:
        """Lets the delegated logins of an application hold for DELEGATED_TTL_NS from now on, or `ends` them."""
        request = RenewLogins(cluster_id=None, application=application, ends=ends)
        run(self._client.until_answered(self._client.question(request, LoginsRenewed), self.asking))

    def _insert(self, text: str, statement_id: StatementId | None, timeout: float | None) -> Rows | None:
        if kind_of(text) is not StatementKind.INSERT:
            return None
        from leasehold.client.insert import insert  # noqa: PLC0415 - few need it, and the parser takes long to load

        return insert(self.within(timeout), text, statement_id)

    def compact(self, name: str, on_progress: Callable[[Compaction], None] | None = None) -> Compaction:
        """Takes the rows that are deleted or expired out of the files of a table, and joins small files; see
        `client/compaction.py`."""
        return compact(self, name, on_progress)

    def scrub(
        self, name: str | None = None, on_progress: Callable[[int, int, int], None] = lambda *_: None
    ) -> tuple[ScrubbedNode, ...]:
        """Has all nodes read the files of a table, or of all, and replace damaged ones; see `client/scrub.py`."""
        return scrub(self, name, on_progress)

    def stage_compacted(
        self,
        facts: TableFacts,
        transaction: TransactionId,
        portion: Iterable[SegmentRecord],
        revision: Revision,
    ) -> tuple[StagedSegment, ...]:
        """Has the nodes write what is left of some segments, as part of a transaction that was opened at `revision`;
        see `client/compaction.py`."""
        return stage_compacted(
            facts,
            transaction,
            portion,
            revision,
            refresh=self.looking_again(facts),
            login=node_login(self.token),
            known=self.known,
            asking=self.asking,
            tls=self.tls,
        )

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
