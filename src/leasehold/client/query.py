"""A SELECT from its text to rows: read, planned at one revision, run by DuckDB in this process over scans.

The coordinator plans all tables of the SELECT, those that its views read too, in one answer, so their rows are those of
one revision. Of each table the columns that are named are read, nothing else. A SELECT that ends with ROWS_TAKEN_AWAY
before it has given out a row is planned and run again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa

from leasehold.client.engine import Open, Prepared, Run
from leasehold.client.result import QueryResult
from leasehold.client.scan import next_plan
from leasehold.core.messages import QueryPlan, ScanPlan
from leasehold.core.records import Field
from leasehold.core.statements import fold
from leasehold.errors import Refused
from leasehold.sql.binder import words
from leasehold.sql.select import Bound, Select, bind, key_of, spark_line, written
from leasehold.sql.views import written as written_view
from leasehold.storage.schema import arrow_type
from leasehold.wire.entropy import SystemEntropy

_WIDE_BITS: Final = 2**31
"""Of a column whose values have no fixed width."""


def run_query(
    select: Select,
    plan: Callable[[Sequence[str]], QueryPlan],
    open_plan: Open,
    memory_bytes: int,
    on_read: Callable[[int, int], None] = lambda *_: None,
) -> QueryResult:
    """Runs a SELECT, and answers once its first rows are there. `plan` pins what it names, by `database.name`.

    `on_read` is told how many rows were read so far and how many the tables have, on another thread. Raises what `plan`
    and `sql.select` raise; what ends a scan as it is, but ROWS_TAKEN_AWAY only once it has come SCAN_PLANS_MAX times;
    `Refused` with code NOT_ON_THIS_ENGINE, QUERY_TOO_LARGE, or QUERY_FAILED with what DuckDB says. Rows that are read
    later may raise so too.
    """
    attempt = 1
    while True:
        run = Run(prepare(select, plan([str(name) for name in select.reads]), memory_bytes), open_plan, on_read)
        try:
            schema, first = run.take(), run.take()
        except BaseException as error:
            run.stop()
            if not isinstance(error, Refused):
                raise
            attempt = next_plan(error, attempt)
        else:
            assert isinstance(schema, pa.Schema), "the schema comes first"
            assert not isinstance(first, pa.Schema), "and once"
            return QueryResult(run, schema, first)


def prepare(select: Select, plan: QueryPlan, memory_bytes: int) -> Prepared:
    """A SELECT with its plan, ready to run: which columns of each table, and all in DuckDB's words."""
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


def _narrowed(plan: QueryPlan, bound: Bound) -> Iterator[ScanPlan]:
    """The plans of the tables with the columns that the SELECT and its views read; where rows are only counted, the
    narrowest column stands for them."""
    needed: Mapping[tuple[str, str], Sequence[str]] = {key_of(one.name): one.columns for one in plan.needed}
    for table in plan.plans:
        key = key_of(table.facts.name)
        wanted = bound.columns.get(key, frozenset()) | {fold(name) for name in needed.get(key, ())}
        fields = tuple(field for field in table.fields if fold(field.name) in wanted)
        yield msgspec.structs.replace(table, fields=fields or (min(table.fields, key=_width_bits),))


def _width_bits(field: Field) -> int:
    try:
        return arrow_type(field.type).bit_width
    except ValueError:
        return _WIDE_BITS
