"""The Python client: one cluster, its statements and its tables."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Self

import pyarrow as pa

from leasehold.client.append import stage
from leasehold.client.coordinators import Coordinators
from leasehold.client.lost import Forgotten, forget_lost
from leasehold.client.rewrite import Rewritten, rewrite
from leasehold.client.scan import read_again, read_plan
from leasehold.core.messages import ScanPlan, TableFacts, TransactionFacts, ViewFacts
from leasehold.core.records import ViewColumn
from leasehold.errors import LeaseholdError, Refused
from leasehold.ids import Revision, TransactionId
from leasehold.limits import TRANSACTION_RENEW_NS
from leasehold.storage.schema import arrow_schema


class Cluster(Coordinators):
    """A connection to a cluster; use it as a context manager. Not for use from several threads at once: only what
    `looking_again` gives is."""

    def table(self, name: str) -> "Table":
        """The table `database.table`. Raises `NotFound`."""
        return Table(self, self.facts(name))

    def view(self, name: str) -> "View":
        """The view `database.view`. Raises `NotFound`."""
        return View(self, self.view_facts(name))

    def query(self, name: str) -> pa.RecordBatchReader:
        """All rows of a table or of a view, as a stream."""
        try:
            return self.table(name).scan()
        except Refused as error:
            if error.code != "IS_VIEW":
                raise
        return self.view(name).scan()

    def read(self, plan: ScanPlan) -> pa.RecordBatchReader:
        """The rows of a plan of this client."""
        return read_plan(plan, refresh=self.looking_again(plan.facts), login=self.token, known=self.known)

    def keeping_open(
        self, facts: TableFacts, transaction: TransactionId, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Hands `batches` on, and asks for more time for the transaction now and then: writing may take hours."""
        due_ns = self._clock.now_ns() + TRANSACTION_RENEW_NS
        for batch in batches:
            if self._clock.now_ns() >= due_ns:
                self.open_transaction(facts, transaction)
                due_ns = self._clock.now_ns() + TRANSACTION_RENEW_NS
            yield batch

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
    """A table as it stood when it was looked up; each scan and append looks again."""

    def __init__(self, cluster: Cluster, facts: TableFacts) -> None:
        self._cluster = cluster
        self._name = facts.name
        self.schema: pa.Schema = arrow_schema(facts.fields)

    def scan(self, columns: Iterable[str] | None = None) -> pa.RecordBatchReader:
        """All rows visible now, as a stream of Arrow batches; `columns` by name, default all."""
        cluster, chosen = self._cluster, None if columns is None else tuple(columns)
        return read_again(lambda: cluster.read(cluster.plan(self._name, chosen)))

    def append(self, rows: pa.Table | pa.RecordBatchReader) -> Appended:
        """Adds rows, all or none; answers how many, and on how many nodes they are. Columns are matched by name."""
        cluster, facts = self._cluster, self._cluster.facts(self._name)
        transaction = cluster.new_transaction()
        opened = cluster.open_transaction(facts, transaction)
        batches = rows.to_batches() if isinstance(rows, pa.Table) else rows
        try:
            kept_open = cluster.keeping_open(facts, transaction, batches)
            segments = stage(
                facts,
                transaction,
                kept_open,
                opened.revision,
                refresh=cluster.looking_again(facts),
                login=cluster.token,
                known=cluster.known,
            )
        except BaseException:
            # Once, as a courtesy: what is not aborted expires by itself, and the first error is the one to see.
            with contextlib.suppress(LeaseholdError):
                cluster.try_abort(facts.cluster_id, transaction)
            raise
        return Appended.by(cluster.commit(facts.cluster_id, transaction, segments), len(segments))


class View:
    """A view as it stood when it was looked up; each scan looks again."""

    def __init__(self, cluster: Cluster, facts: ViewFacts) -> None:
        self._cluster = cluster
        self._name = facts.views[-1].name
        self.columns: tuple[ViewColumn, ...] = facts.views[-1].columns

    def scan(self) -> pa.RecordBatchReader:
        """All rows of it now, as a stream: DuckDB runs its SELECT in this process, over scans of the tables.

        Each table is pinned by itself: what is added between two of them may be in the later one alone.
        """
        from leasehold.client.views import read_view  # noqa: PLC0415 - few need it, and DuckDB takes long to load

        cluster = self._cluster

        def read() -> pa.RecordBatchReader:
            facts = cluster.view_facts(self._name)
            through = tuple(view.view for view in facts.views)
            plans = {table.name: cluster.plan(table.name, table.columns, through=through) for table in facts.tables}
            return read_view(facts, plans, cluster.read)

        return read_again(read)


def connect(target: str | Path = "leasehold-data", *, user: str | None = None, password: str | None = None) -> Cluster:
    """A cluster by its coordinator's `host:port`, or by the directory that `leasehold up` was given.

    Where the cluster has users, `user` and `password` say who asks; default $LEASEHOLD_USER and $LEASEHOLD_PASSWORD.
    """
    return Cluster(target, user=user, password=password)
