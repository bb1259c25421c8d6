"""A SELECT from its text to rows: read, planned at one revision, run by DuckDB in this process over scans.

The coordinator plans all tables of the SELECT, and those that its views read, in one answer, so all rows are of one
revision. Only the columns that the SELECT names are read. A SELECT that ends with ROWS_TAKEN_AWAY before its first row
is planned and run again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
import pyarrow as pa

from leasehold.client.engine import Open, Prepared, Run
from leasehold.client.result import QueryResult
from leasehold.client.threads import THREADS
from leasehold.core.data.cutoff import rows_taken_away
from leasehold.core.data.known import Known
from leasehold.core.data.reader import next_plan
from leasehold.core.words.messages import QueryPlan, ScanPlan
from leasehold.core.words.statements import fold
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotFound, Refused
from leasehold.sql.binder import words
from leasehold.sql.select import BoundSelect, Select, bind, key_of, spark_line, written
from leasehold.sql.views import written as written_view
from leasehold.storage.schema import narrowest
from leasehold.wire.entropy import SystemEntropy


def run_query(
    select: Select,
    plan: Callable[[Sequence[str]], QueryPlan],
    open_plan: Open,
    memory_bytes: int,
    on_read: Callable[[int, int], None] = lambda *_: None,
    known: Known | None = None,
) -> QueryResult:
    """Runs a SELECT, and returns once its first rows are there. `plan` pins what it names, by `database.name`.

    `known` is what the client knows: rows that a statement of the client has deleted are not handed out once that
    statement has returned. `on_read` gets the number of rows read so far and the number of rows in the tables, on
    another thread. Raises, also while rows are read, what `plan` and `sql.select` raise; the error that ends a scan,
    but ROWS_TAKEN_AWAY only after SCAN_PLANS_MAX plans; `Refused` with code NOT_ON_THIS_ENGINE, QUERY_TOO_LARGE, or
    QUERY_FAILED with DuckDB's error.
    """
    return QueryResult(RunningQuery(select, plan, open_plan, memory_bytes, on_read, known or Known(THREADS)))


class RunningQuery:
    """A running SELECT, from its first plan to the last batch that is handed out.

    Rows wait in the buffers of DuckDB and of this process after nodes have released them. So before a batch is handed
    out after a statement of this client has returned, the query is planned again. If anything that it reads was taken
    away, the query ends; if only rows were deleted and no batch was handed out, it runs again.
    """

    schema: pa.Schema

    def __init__(
        self,
        select: Select,
        plan: Callable[[Sequence[str]], QueryPlan],
        open_plan: Open,
        memory_bytes: int,
        on_read: Callable[[int, int], None],
        known: Known,
    ) -> None:
        self._select = select
        self._plan = plan
        self._open = open_plan
        self._memory_bytes = memory_bytes
        self._on_read = on_read
        self._known = known
        self._attempt = 1
        self._has_handed_out = False
        self._begin()

    def _begin(self) -> None:
        while True:
            self._judged = self._known.returned
            self._pinned = self._plan([str(name) for name in self._select.reads])
            self._prepared = prepare(self._select, self._pinned, self._memory_bytes)
            self._run = Run(self._prepared, self._open, self._on_read)
            try:
                self._run.start()
                schema, first = self._run.take(), self._run.take()
            except BaseException as error:
                self._run.stop()
                if not isinstance(error, Refused):
                    raise
                self._attempt = next_plan(error, self._attempt)
            else:
                assert isinstance(schema, pa.Schema), "the schema comes first"
                self.schema, self._ahead = schema, [first]
                return

    def take(self) -> pa.RecordBatch | None:
        """The next batch, None at the end. Raises what ended the query."""
        while True:
            batch = self._ahead.pop() if self._ahead else self._run.take()
            assert not isinstance(batch, pa.Schema), "it came first"
            try:
                if batch is not None:
                    self._judge()
            except Refused as error:
                if self._has_handed_out:
                    raise
                self._attempt = next_plan(error, self._attempt)
                schema = self.schema
                self._run.stop()
                self._begin()
                if not self.schema.equals(schema):
                    raise
            else:
                self._has_handed_out = True
                return batch

    def _judge(self) -> None:
        """Raises `Refused` if anything that the query reads was taken away."""
        returned = self._known.returned
        if returned == self._judged:
            return
        try:
            now = self._plan([str(name) for name in self._select.reads])
        except NotFound as error:
            raise self._gone(error) from error
        if now.revision < returned:
            raise Refused(
                "a coordinator answered on an older revision", code=ErrorCode.BEHIND, hint="run the query again"
            )
        check_still(self._pinned, self._prepared.plans.values(), now)
        self._judged = returned

    def _gone(self, error: NotFound) -> NotFound:
        """The error for the name that does not exist any more."""
        views = {key_of(view.name) for view in self._pinned.views}
        for name in map(str, self._select.reads):
            try:
                self._plan([name])
            except NotFound:
                code = ErrorCode.VIEW_DROPPED if key_of(name) in views else ErrorCode.TABLE_DROPPED
                return NotFound(f"{name} was dropped or renamed", code=code, hint=error.hint)
        return error

    def stop(self) -> None:
        """Ends the query. Idempotent."""
        self._run.stop()


def check_still(pinned: QueryPlan, read: Iterable[ScanPlan], now: QueryPlan) -> None:
    """Raises `Refused` (TABLE_DROPPED, VIEW_DROPPED, COLUMN_DROPPED, ROWS_TAKEN_AWAY) if something that was `read` is
    missing in the plan of `now`."""
    views = {view.view for view in now.views}
    for view in pinned.views:
        if view.view not in views:
            raise Refused(f"{view.name} was dropped", code=ErrorCode.VIEW_DROPPED, hint="SHOW VIEWS lists what exists")
    tables = {plan.facts.table: plan for plan in now.plans}
    for plan in read:
        name, left = plan.facts.name, tables.get(plan.facts.table)
        if left is None:
            raise Refused(f"{name} was dropped", code=ErrorCode.TABLE_DROPPED, hint="SHOW TABLES lists what exists")
        there = {field.id for field in left.fields}
        for field in plan.fields:
            if field.id not in there:
                text = f"column {field.name} of {name} was dropped"
                raise Refused(text, code=ErrorCode.COLUMN_DROPPED, hint="run the query again")
        if plan.cutoff is not None and left.cutoff is not None and left.cutoff.deletes != plan.cutoff.deletes:
            raise rows_taken_away(name, "rows were deleted or a TTL was shortened")


def prepare(select: Select, plan: QueryPlan, memory_bytes: int) -> Prepared:
    """A SELECT with its plan, ready to run in DuckDB's words, with the columns to read of each table."""
    columns: dict[tuple[str, str], Sequence[str]] = {}
    for table in plan.plans:
        columns[key_of(table.facts.name)] = [field.name for field in table.fields]
    for view in plan.views:
        columns[key_of(view.name)] = [column.name for column in view.columns]
    bound = bind(select, {key: columns[key] for key in (key_of(str(name)) for name in select.reads)})
    plans = {table.facts.name: table for table in _narrowed(plan, bound)}
    called = words([*plans, *(view.name for view in plan.views)], SystemEntropy().hex_128())
    return Prepared(
        text=written(bound, called),
        names=bound.names,
        called=called,
        plans=plans,
        views=tuple((view, written_view(view.body, called, "duckdb")) for view in plan.views),
        elsewhere=spark_line(select.tree, select.cluster),
        memory_bytes=memory_bytes,
    )


def _narrowed(plan: QueryPlan, bound: BoundSelect) -> Iterator[ScanPlan]:
    """The plans of the tables with the columns that the SELECT and its views read; if rows are only counted, with the
    narrowest column."""
    needed: Mapping[tuple[str, str], Sequence[str]] = {key_of(one.name): one.columns for one in plan.needed}
    for table in plan.plans:
        key = key_of(table.facts.name)
        wanted = bound.columns.get(key, frozenset()) | {fold(name) for name in needed.get(key, ())}
        fields = tuple(field for field in table.fields if fold(field.name) in wanted)
        yield msgspec.structs.replace(table, fields=fields or (narrowest(table.fields),))
