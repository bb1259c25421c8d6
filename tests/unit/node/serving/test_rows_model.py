"""Random changes of a schema, appends, DELETEs and rewrites against a plain list of rows, read back through a node.

The files are of all formats. Names of columns are swapped, and used again for other columns.

A scan that was pinned before keeps its columns, names and types, and shows what was there then and is not hidden now.
"""

import dataclasses
import math
import operator
import tempfile
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leasehold.client.append import stage
from leasehold.client.scan import read_plan
from leasehold.core.catalog.catalog import field_named
from leasehold.core.data.filters import may_hold, planned_filters
from leasehold.core.ddl import roll_back
from leasehold.core.replicas.rewrite import worth_rewriting
from leasehold.core.words.messages import Filter, Replaced, ScanPlan
from leasehold.core.words.records import SegmentFormat
from leasehold.core.words.statements import (
    AddColumns,
    ColumnDefinition,
    Condition,
    DeleteRows,
    DropColumn,
    Literal,
    MoveColumn,
    RenameColumn,
    SetDefault,
    WidenColumn,
)
from leasehold.core.words.types import parse_type
from leasehold.errors import Refused
from leasehold.storage.schema import arrow_type
from tests.unit.core.catalog_words import released
from tests.unit.node.cluster import NAME, Cluster, cluster
from tests.unit.node.formats import writing

WIDER = {"INT": "BIGINT", "FLOAT": "DOUBLE", "DECIMAL(5,2)": "DECIMAL(9,2)"}
LITERALS = {
    "INT": [Literal("number", text) for text in ("-1", "0", "2")],
    "BIGINT": [Literal("number", text) for text in ("-1", "2", "5000000000")],
    "FLOAT": [Literal("number", text) for text in ("-0.5", "0", "0.1")],
    "DOUBLE": [Literal("number", text) for text in ("-0.5", "0.1", "1e300")],
    "DECIMAL(5,2)": [Literal("number", text) for text in ("-1.5", "0", "2.25")],
    "DECIMAL(9,2)": [Literal("number", text) for text in ("-1.5", "2.25", "1234567.5")],
    "STRING": [Literal("string", text) for text in ("", "b", "é")],
    "BOOLEAN": [Literal("boolean", "true"), Literal("boolean", "false")],
    "BINARY": [Literal("binary", "00ff"), Literal("binary", "61")],
}
SINGLE = {0.1: 0.10000000149011612}
"""What 0.1 is once it has been a FLOAT."""
NAN = float("nan")
COMPARE = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def value(literal: Literal | None, kind: str) -> object:
    """What a literal comes to in a column of that type."""
    if literal is None:
        return None
    match kind.partition("(")[0]:
        case "INT" | "BIGINT":
            return int(literal.text)
        case "FLOAT":
            return SINGLE.get(float(literal.text), float(literal.text))
        case "DOUBLE":
            return float(literal.text)
        case "DECIMAL":
            return Decimal(literal.text).quantize(Decimal("0.01"))
        case "BOOLEAN":
            return literal.text == "true"
        case "BINARY":
            return bytes.fromhex(literal.text)
        case _:
            return literal.text


def fulfils(found: object, comparison: str, wanted: object) -> bool:
    """As Spark compares: a NULL with nothing, NaN above all."""
    if found is None:
        return False
    if isinstance(found, float) and math.isnan(found):
        return comparison in {">", ">="}
    return COMPARE[comparison](found, wanted)


@dataclasses.dataclass(eq=False)
class Column:
    name: str
    kind: str
    default: object = None


@dataclasses.dataclass(eq=False)
class Row:
    """Its values by column, as they read from now on; a column that came later has one too."""

    key: int
    values: dict[Column, object]
    deleted: bool = False


@dataclasses.dataclass
class Pinned:
    plan: ScanPlan
    columns: list[tuple[Column, str, str]]
    rows: list[Row]
    """Those that were not deleted when it was planned."""


@settings(max_examples=8, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))
class Rows(RuleBasedStateMachine):
    """The table starts as (k BIGINT, c1 INT, c2 FLOAT); k tells the rows apart."""

    @initialize()
    def begin(self) -> None:
        self.stack = ExitStack()
        root = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.made: Cluster = self.stack.enter_context(cluster(root, nodes=1, batch_rows=3))
        self.made.create(("k", "BIGINT"), ("c1", "INT"), ("c2", "FLOAT"), replication=1)
        self.columns = [Column("c1", "INT"), Column("c2", "FLOAT")]
        self.rows: list[Row] = []
        self.unused = [f"c{number}" for number in range(99, 2, -1)]
        """Names that no column has, the next one last."""
        self.pinned: Pinned | None = None
        self.used: set[Column] = set()
        """Columns that DELETEs compared whose rows may still be in a file."""

    def teardown(self) -> None:
        self.stack.close()

    def column(self, data: st.DataObject) -> Column:
        return data.draw(st.sampled_from(self.columns))

    def literal(self, data: st.DataObject, kind: str) -> Literal:
        return data.draw(st.sampled_from(LITERALS[kind]))

    # ------------------------------------------------------------ the schema

    @rule(data=st.data(), kind=st.sampled_from([*WIDER, "STRING", "BOOLEAN", "BINARY"]), required=st.booleans())
    def add(self, data: st.DataObject, kind: str, required: bool) -> None:
        has_default = required or data.draw(st.booleans())
        default = self.literal(data, kind) if has_default else None
        column = Column(self.unused.pop(), kind, value(default, kind))
        definition = ColumnDefinition(name=column.name, type=parse_type(kind), nullable=not required, default=default)
        self.made.run(AddColumns(table=NAME, columns=(definition,)))
        self.columns.append(column)
        for row in self.rows:
            row.values[column] = column.default

    @precondition(lambda self: self.columns)
    @rule(data=st.data())
    def rename(self, data: st.DataObject) -> None:
        self.rename_to(self.column(data), self.unused.pop())

    def rename_to(self, column: Column, name: str) -> None:
        self.made.run(RenameColumn(table=NAME, old=column.name, new=name))
        self.unused.append(column.name)
        column.name = name

    @precondition(lambda self: len(self.columns) > 1)
    @rule(data=st.data())
    def swap_names(self, data: st.DataObject) -> None:
        one, other = data.draw(st.permutations(self.columns))[:2]
        names = one.name, other.name
        self.rename_to(one, self.unused.pop())
        self.rename_to(other, names[0])
        self.rename_to(one, names[1])
        self.unused = [name for name in self.unused if name not in names]

    @precondition(lambda self: self.columns)
    @rule(data=st.data(), first=st.booleans())
    def move(self, data: st.DataObject, first: bool) -> None:
        self.made.run(MoveColumn(table=NAME, column=self.column(data).name, after=None if first else "k"))

    @precondition(lambda self: any(one.kind in WIDER for one in self.columns))
    @rule(data=st.data())
    def widen(self, data: st.DataObject) -> None:
        column = data.draw(st.sampled_from([one for one in self.columns if one.kind in WIDER]))
        column.kind = WIDER[column.kind]
        self.made.run(WidenColumn(table=NAME, column=column.name, type=parse_type(column.kind)))

    @precondition(lambda self: self.columns)
    @rule(data=st.data())
    def set_default(self, data: st.DataObject) -> None:
        column = self.column(data)
        literal = self.literal(data, column.kind)
        column.default = value(literal, column.kind)
        self.made.run(SetDefault(table=NAME, column=column.name, default=literal))

    @precondition(lambda self: self.columns)
    @rule(data=st.data(), rolled_back=st.booleans())
    def drop(self, data: st.DataObject, rolled_back: bool) -> None:
        column = self.column(data)
        statement = DropColumn(table=NAME, column=column.name)
        try:
            if rolled_back:
                procedure = self.made.hide(statement)
                self.made.change(roll_back(procedure, self.made.catalog, elapsed_ns=1))
                return
            self.made.run(statement)
        except Refused as error:
            assert error.code == "COLUMN_IN_USE"
            assert column in self.used
            return
        self.columns.remove(column)
        self.unused.append(column.name)
        if self.pinned is not None and any(one is column for one, _, _ in self.pinned.columns):
            if self.pinned.plan.segments:
                with pytest.raises(Refused) as refused:
                    read_plan(self.pinned.plan).read_all()
                assert refused.value.code == "COLUMN_DROPPED"
            self.pinned = None

    # ------------------------------------------------------------ the rows

    @rule(data=st.data(), count=st.integers(1, 7), in_format=st.sampled_from(SegmentFormat))
    def append(self, data: st.DataObject, count: int, in_format: SegmentFormat) -> None:
        table = self.made.table
        required = [one for one in self.columns if not field_named(table, one.name).nullable]
        named = [one for one in self.columns if one in required or data.draw(st.booleans())]
        rows = [Row(len(self.rows) + place, {one: one.default for one in self.columns}) for place in range(count)]
        for column in named:
            nulls = [] if column in required else [None]
            values = [value(one, column.kind) for one in LITERALS[column.kind]]
            if column.kind in {"FLOAT", "DOUBLE"}:
                values += [NAN, float("inf"), -0.0]
            for row in rows:
                row.values[column] = data.draw(st.sampled_from([*values, *nulls]))
        arrays = {one.name: pa.array([row.values[one] for row in rows], arrow_type(one.kind)) for one in named}
        batch = pa.record_batch({"k": pa.array([row.key for row in rows], pa.int64()), **arrays})
        transaction = self.made.open()
        with writing(in_format):
            staged = stage(self.made.facts(), transaction, [batch], self.made.catalog.revision)
        assert {one.format for one in staged} == {in_format}
        self.made.commit(transaction, staged)
        self.rows += rows

    @precondition(lambda self: self.columns)
    @rule(data=st.data(), count=st.integers(1, 2), rolled_back=st.booleans())
    def delete(self, data: st.DataObject, count: int, rolled_back: bool) -> None:
        """Some rows, and with the statement rolled back they are there again."""
        conditions: list[Condition] = []
        gone = [row for row in self.rows if not row.deleted]
        for _ in range(count):
            column, comparison = self.column(data), data.draw(st.sampled_from(list(COMPARE)))
            literal = self.literal(data, column.kind)
            conditions.append(Condition(column=column.name, operator=comparison, value=literal))
            wanted = value(literal, column.kind)
            gone = [row for row in gone if fulfils(row.values[column], comparison, wanted)]
            self.used.add(column)
        statement = DeleteRows(table=NAME, where=tuple(conditions))
        for row in gone:
            row.deleted = True
        if not rolled_back:
            self.made.run(statement)
            return
        procedure = self.made.hide(statement)
        self.the_table_reads_as_the_list()
        self.a_pinned_scan_shows_all_of_a_delete_or_nothing()
        while_hidden = self.made.plan()
        self.made.change(roll_back(procedure, self.made.catalog, elapsed_ns=1))
        for row in gone:
            row.deleted = False
        if gone:
            self.ends(while_hidden)

    @rule(let_go=st.booleans())
    def rewrite(self, let_go: bool) -> None:
        """What a client does; afterwards nothing is left to do."""
        facts, deletes = self.made.facts(), self.made.table.deletes
        segments = worth_rewriting(self.made.table, self.made.catalog)
        if segments:
            plan = ScanPlan(facts=facts, fields=facts.fields, segments=segments)
            transaction = self.made.open()
            staged = stage(facts, transaction, read_plan(plan), self.made.catalog.revision)
            replaces = tuple(Replaced(bucket=one.bucket, segment=one.id) for one in segments)
            self.made.commit(transaction, staged, replaces=replaces, deletes=deletes)
        assert worth_rewriting(self.made.table, self.made.catalog) == ()
        if let_go:
            self.made.change(released(self.made.catalog))
            assert not self.made.catalog.replaced
            assert not segments or not self.made.catalog.deletes
            self.used = set() if not self.made.catalog.deletes else self.used
            self.pinned = None

    # ------------------------------------------------------------ reading

    @precondition(lambda self: self.columns)
    @rule(data=st.data())
    def read_where(self, data: st.DataObject) -> None:
        column, comparison = self.column(data), data.draw(st.sampled_from(list(COMPARE)))
        literal = self.literal(data, column.kind)
        where = planned_filters((Filter(column=column.name, operator=comparison, values=(literal,)),), self.made.table)
        plan = self.made.plan()
        plan = msgspec.structs.replace(plan, where=where, segments=tuple(may_hold(where, plan.segments)))
        wanted = value(literal, column.kind)
        rows = [row for row in self.rows if not row.deleted and fulfils(row.values[column], comparison, wanted)]
        self.check(plan, [(one, one.name, one.kind) for one in self.columns], rows)

    @rule()
    def pin(self) -> None:
        columns = [(one, one.name, one.kind) for one in self.columns]
        self.pinned = Pinned(self.made.plan(), columns, [row for row in self.rows if not row.deleted])

    @invariant()
    def the_table_reads_as_the_list(self) -> None:
        kept = [row for row in self.rows if not row.deleted]
        self.check(self.made.plan(), [(one, one.name, one.kind) for one in self.columns], kept)

    @invariant()
    def a_pinned_scan_shows_all_of_a_delete_or_nothing(self) -> None:
        if self.pinned is None:
            return
        if any(row.deleted for row in self.pinned.rows):
            self.ends(self.pinned.plan)
        else:
            self.check(self.pinned.plan, self.pinned.columns, self.pinned.rows)

    def ends(self, plan: ScanPlan) -> None:
        with pytest.raises(Refused) as refused:
            read_plan(plan).read_all()
        assert refused.value.code == "ROWS_TAKEN_AWAY"

    def check(self, plan: ScanPlan, columns: list[tuple[Column, str, str]], kept: list[Row]) -> None:
        found = read_plan(plan).read_all().sort_by("k")
        wanted = {name: [row.values[column] for row in kept] for column, name, _ in columns}
        assert found["k"].to_pylist() == [row.key for row in kept]
        for _, name, kind in columns:
            assert found.schema.field(name).type == arrow_type(kind)
            assert repr(found[name].to_pylist()) == repr(wanted[name]), name
        assert len(found.schema) == len(columns) + 1


TestRows = Rows.TestCase
