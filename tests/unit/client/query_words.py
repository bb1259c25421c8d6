"""Tables that a SELECT reads in a test: rows by hand, their plan, and the stream that comes of it."""

import datetime as dt
from collections.abc import Iterator, Sequence
from decimal import Decimal

import pyarrow as pa

from leasehold.client.query import run_query
from leasehold.client.result import QueryResult
from leasehold.core.words.messages import QueryPlan, ScanPlan, TableFacts, TableNeeded, ViewBody
from leasehold.core.words.records import Field, UseState, ViewColumn
from leasehold.errors import NotFound
from leasehold.ids import ClusterId, FieldId, ObjectId, Revision, SchemaVersion
from leasehold.sql.select import read_select
from leasehold.storage.schema import arrow_schema

CLUSTER = ClusterId("c" * 32)
FIELDS = tuple(
    Field(id=FieldId(number), name=name, type=kind, nullable=True, state=UseState.IN_USE)
    for number, (name, kind) in enumerate((("a", "INT"), ("d", "DECIMAL(10,2)"), ("ts", "TIMESTAMP")), start=1)
)
AT = dt.datetime(2026, 7, 1, 23, 30, tzinfo=dt.UTC)


class Tables:
    """One table of three batches; counts how often it is read, and how many of its readers have ended."""

    def __init__(self, *, ends_with: BaseException | None = None, batches: int = 3, rows: int = 2) -> None:
        self.ends_with = ends_with
        self.rows = rows
        self.count = batches
        self.opened = self.ended = self.served = 0
        self.columns: list[list[str]] = []

    def open(self, plan: ScanPlan) -> pa.RecordBatchReader:
        self.opened += 1
        self.columns.append([field.name for field in plan.fields])
        return pa.RecordBatchReader.from_batches(arrow_schema(plan.fields), self._batches(plan))

    def _batches(self, plan: ScanPlan) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(plan.fields)
        try:
            for batch in range(self.count):
                if self.ends_with is not None and batch == 1:
                    raise self.ends_with
                self.served += 1
                first = self.rows * batch
                values = {
                    "a": pa.array(range(first, first + self.rows), pa.int32()),
                    "d": pa.repeat(pa.scalar(Decimal("0.10")), self.rows),
                    "ts": pa.repeat(pa.scalar(AT), self.rows),
                }
                columns = [values[field.name].cast(field.type) for field in schema]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
        finally:
            self.ended += 1


def plan() -> ScanPlan:
    facts = TableFacts(
        cluster_id=CLUSTER,
        revision=Revision(1),
        table=ObjectId(1),
        name="db.T",
        schema_version=SchemaVersion(1),
        fields=FIELDS,
        cluster_by=None,
        buckets=(),
        places=(),
    )
    return ScanPlan(facts=facts, fields=FIELDS, segments=())


def planned(*bodies: tuple[str, str, tuple[str, ...]]) -> QueryPlan:
    """The table, and views with their bodies and columns."""
    views = tuple(
        ViewBody(
            view=ObjectId(number),
            name=name,
            body=body,
            columns=tuple(ViewColumn(name=column, type="") for column in columns),
        )
        for number, (name, body, columns) in enumerate(bodies, start=2)
    )
    needed = (TableNeeded(name="db.T", columns=("a", "d", "ts")),) if bodies else ()
    return QueryPlan(revision=Revision(1), plans=(plan(),), views=views, needed=needed)


MEMORY_BYTES = 256 * 1024 * 1024


def select(
    tables: Tables, text: str, *bodies: tuple[str, str, tuple[str, ...]], memory: int = MEMORY_BYTES
) -> QueryResult:
    """The rows of a SELECT on `db.T` and these views."""

    def plan(names: Sequence[str]) -> QueryPlan:
        for name in names:
            if name.lower() not in {"db.t", *(body[0] for body in bodies)}:
                raise NotFound(f"no table or view {name}")
        return planned(*bodies)

    return run_query(read_select(text, cluster="here:1"), plan, tables.open, memory)


def read(tables: Tables, *bodies: tuple[str, str, tuple[str, ...]]) -> QueryResult:
    """All of the last of these views."""
    return select(tables, bodies[-1][0], *bodies)
