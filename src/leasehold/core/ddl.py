"""DDL: each statement as a durable, resumable procedure (DESIGN section 8).

Theory of operation. The first transaction writes the change (or its pre-state), the procedure and the statement
together, at revision R; then barrier(R) proves that no node serves anything older; then, if the change takes
something away, a second transaction crosses the **point of no return**, comparing the pre-state. A procedure's
record says all that a later leader needs to go on, so it is resumed exactly where it stands.

| kind        | transaction 1              | then       | transaction 2                           |
| additive    | the change, PUBLISHED      | barrier(R) | none; the answer needs nothing more     |
| destructive | PRE_DELETE with PRE_STATE  | barrier(R) | the object goes, FINISHED               |

Either way a last transaction closes the procedure and writes the receipt, behind the answer.

The removal and the point of no return are one transaction: nothing can stand between them
(docs/decisions/0001-one-transaction-past-the-point-of-no-return.md). No statement waits for files to be deleted.
"""

from collections.abc import Iterable
from typing import Literal, assert_never

import msgspec

from leasehold.core import keys
from leasehold.core.catalog import Catalog, field_by_id, field_named, live_fields
from leasehold.core.codec import encode
from leasehold.core.operations import Change
from leasehold.core.queueing import Claim
from leasehold.core.records import (
    AnyRecord,
    BarrierReceipt,
    CountersRecord,
    DatabaseRecord,
    DroppedRecord,
    Field,
    Outcome,
    ProcedureRecord,
    StatementRecord,
    Step,
    TableRecord,
    UseState,
)
from leasehold.core.replication import place
from leasehold.core.settings import settings_changes
from leasehold.core.statements import (
    AddColumns,
    AlterCluster,
    ColumnDefinition,
    CreateDatabase,
    CreateTable,
    Definition,
    DropColumn,
    DropDatabase,
    DropTable,
    RenameColumn,
    TableName,
    fold,
)
from leasehold.core.types import render_type
from leasehold.errors import AlreadyExists, NotFound, Refused
from leasehold.ids import BucketNumber, FieldId, NodeId, ObjectId, SchemaVersion, StatementId
from leasehold.limits import (
    COLUMNS_MAX,
    PURGE_BATCH,
    SEGMENTS_DROPPED_AT_ONCE,
    STATEMENT_TEXT_KEPT,
    STATEMENTS_KEPT,
)

DEFAULT_REPLICATION = 2
THE_CLUSTER = ObjectId(0)
"""The target of a procedure that changes no object but the cluster's settings."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A statement as it was asked for; `bound_ns` is what is published for it."""

    id: StatementId
    text: str
    statement: Definition
    bound_ns: int


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """The first transaction of a statement: `procedure` None means there is nothing to do (IF [NOT] EXISTS)."""

    changes: tuple[Change, ...]
    procedure: ProcedureRecord | None


def claims(statement: Definition) -> dict[str, Claim]:
    """What a statement uses, by name: names are what two statements can collide on."""
    match statement:
        case CreateDatabase(name=name) | DropDatabase(name=name):
            return claims_on_database(name)
        case CreateTable(name=table) | DropTable(table=table):
            return claims_on_table(table)
        case AddColumns(table=table) | RenameColumn(table=table) | DropColumn(table=table):
            return claims_on_table(table)
        case AlterCluster():
            return claims_on_cluster()
        case _:
            assert_never(statement)


def claims_on_cluster() -> dict[str, Claim]:
    """The settings are changed by one statement at a time; no other statement has to wait for that.

    Those that run, or come while it waits, keep the bound that was published for them: see `grantor.SettingsChanged`.
    """
    return {"cluster": Claim.EXCLUSIVE}


def claims_on_database(name: str) -> dict[str, Claim]:
    """A database is used alone by what makes or drops it."""
    return {f"database {fold(name)}": Claim.EXCLUSIVE}


def claims_on_table(table: TableName) -> dict[str, Claim]:
    """A table is used alone, its database with others."""
    return {
        f"database {fold(table.database)}": Claim.SHARED,
        f"table {fold(table.database)}.{fold(table.table)}": Claim.EXCLUSIVE,
    }


# ---------------------------------------------------------------- the first transaction


def begin(request: Request, catalog: Catalog, serving: Iterable[NodeId]) -> Begun:
    """Plans the first transaction on `catalog`. Raises `Refused` (and its kin) and then nothing changes."""
    planned = _plan(request.statement, catalog, serving)
    if planned is None:
        return Begun(changes=(), procedure=None)
    assert catalog.counters is not None
    number = catalog.counters.next_procedure
    kind, target, field, counters, changes = planned
    procedure = ProcedureRecord(
        number=number,
        statement=request.id,
        text=request.text[:STATEMENT_TEXT_KEPT],
        step=Step.PUBLISHED if kind == "additive" else Step.PRE_STATE,
        kind=kind,
        target=target,
        field=field,
    )
    record = StatementRecord(
        id=request.id,
        order=number,
        text=procedure.text,
        outcome=Outcome.RUNNING,
        revision=None,
        elapsed_ns=0,
        bound_ns=request.bound_ns,
        barriers=(),
        pending=(),
    )
    counters = msgspec.structs.replace(counters, next_procedure=number + 1)
    return Begun(
        changes=(
            *changes,
            put(keys.COUNTERS, counters),
            put(keys.procedure(number), procedure),
            put(keys.statement(request.id), record),
        ),
        procedure=procedure,
    )


Planned = tuple[Literal["additive", "destructive"], ObjectId, FieldId | None, CountersRecord, list[Change]]


def _plan(statement: Definition, catalog: Catalog, serving: Iterable[NodeId]) -> Planned | None:
    match statement:
        case CreateDatabase():
            return _create_database(statement, catalog)
        case DropDatabase():
            return _drop_database(statement, catalog)
        case CreateTable():
            return _create_table(statement, catalog, serving)
        case AddColumns():
            return _add_columns(statement, catalog)
        case RenameColumn():
            return _rename_column(statement, catalog)
        case DropColumn():
            return _drop_column(statement, catalog)
        case DropTable():
            return _drop_table(statement, catalog)
        case AlterCluster(settings=asked):
            changes = settings_changes(asked, catalog)
            return ("additive", THE_CLUSTER, None, _counters(catalog), list(changes)) if changes else None
        case _:
            assert_never(statement)


def _create_database(statement: CreateDatabase, catalog: Catalog) -> Planned | None:
    if catalog.find_database(statement.name) is not None:
        if statement.if_not_exists:
            return None
        raise AlreadyExists(f"database {statement.name} exists", hint="use CREATE DATABASE IF NOT EXISTS")
    object_id, counters = _next_object(catalog)
    record = DatabaseRecord(id=object_id, name=statement.name, state=UseState.IN_USE)
    return "additive", object_id, None, counters, [put(keys.database(object_id), record)]


def _drop_database(statement: DropDatabase, catalog: Catalog) -> Planned | None:
    database = catalog.find_database(statement.name)
    if database is None:
        if statement.if_exists:
            return None
        raise NotFound(f"no database {statement.name}", hint="SHOW DATABASES lists them")
    tables = sorted(one.name for one in catalog.tables.values() if one.database == database.id)
    if tables:
        raise Refused(
            f"database {database.name} holds {len(tables)} tables, {tables[0]} among them",
            code="NOT_EMPTY",
            hint="drop its tables first",
        )
    hidden = msgspec.structs.replace(database, state=UseState.PRE_DELETE)
    return "destructive", database.id, None, _counters(catalog), [put(keys.database(database.id), hidden)]


def _create_table(statement: CreateTable, catalog: Catalog, serving: Iterable[NodeId]) -> Planned | None:
    database = catalog.database(statement.name.database)
    if catalog.find_table(statement.name) is not None:
        if statement.if_not_exists:
            return None
        raise AlreadyExists(f"table {statement.name} exists", hint="use CREATE TABLE IF NOT EXISTS, or drop it first")
    object_id, counters = _next_object(catalog)
    fields = _number(statement.columns, FieldId(1))
    ids = {fold(field.name): field.id for field in fields}
    replication = statement.replication or min(DEFAULT_REPLICATION, max(1, _members(catalog)))
    table = TableRecord(
        id=object_id,
        database=database.id,
        name=statement.name.table,
        state=UseState.IN_USE,
        schema_version=SchemaVersion(1),
        fields=fields,
        next_field=FieldId(len(fields) + 1),
        cluster_by=None if statement.cluster_by is None else ids[fold(statement.cluster_by)],
        buckets=statement.buckets,
        replication=replication,
        ttl_ns=statement.ttl_ns,
        time_column=None if statement.time_column is None else ids[fold(statement.time_column)],
        properties=dict(statement.properties),
    )
    buckets = place(catalog, table=object_id, buckets=table.buckets, replication=table.replication, serving=serving)
    changes = [put(keys.table(object_id), table)]
    changes.extend(put(keys.bucket(object_id, one.bucket), one) for one in buckets)
    return "additive", object_id, None, counters, changes


def _add_columns(statement: AddColumns, catalog: Catalog) -> Planned:
    table = catalog.table(statement.table)
    taken = {fold(field.name) for field in live_fields(table)}
    for column in statement.columns:
        if fold(column.name) in taken:
            raise AlreadyExists(f"table {statement.table} has a column {column.name}", hint="choose another name")
    if len(table.fields) + len(statement.columns) > COLUMNS_MAX:
        raise Refused(f"a table has at most {COLUMNS_MAX} columns", code="TOO_MANY_COLUMNS", hint="use a second table")
    fields = (*table.fields, *_number(statement.columns, table.next_field))
    changed = msgspec.structs.replace(
        _next_schema(table, fields), next_field=FieldId(table.next_field + len(statement.columns))
    )
    return "additive", table.id, None, _counters(catalog), [put(keys.table(table.id), changed)]


def _rename_column(statement: RenameColumn, catalog: Catalog) -> Planned:
    table = catalog.table(statement.table)
    renamed = field_named(table, statement.old)
    for field in live_fields(table):
        if fold(field.name) == fold(statement.new) and field.id != renamed.id:
            raise AlreadyExists(f"table {statement.table} has a column {field.name}", hint="choose another name")
    fields = tuple(
        msgspec.structs.replace(field, name=statement.new) if field.id == renamed.id else field
        for field in table.fields
    )
    return "additive", table.id, None, _counters(catalog), [put(keys.table(table.id), _next_schema(table, fields))]


def _drop_column(statement: DropColumn, catalog: Catalog) -> Planned:
    table = catalog.table(statement.table)
    dropped = field_named(table, statement.column)
    if dropped.id in (table.cluster_by, table.time_column):
        raise Refused(
            f"column {dropped.name} decides where rows go or when they expire",
            code="COLUMN_IN_USE",
            hint="make a table without it and copy the rows",
        )
    if len(live_fields(table)) == 1:
        raise Refused(f"{dropped.name} is the only column", code="LAST_COLUMN", hint="drop the table instead")
    fields = tuple(
        msgspec.structs.replace(field, state=UseState.PRE_DELETE) if field.id == dropped.id else field
        for field in table.fields
    )
    changed = _next_schema(table, fields)
    return "destructive", table.id, dropped.id, _counters(catalog), [put(keys.table(table.id), changed)]


def _drop_table(statement: DropTable, catalog: Catalog) -> Planned | None:
    table = catalog.find_table(statement.table)
    if table is None:
        if statement.if_exists:
            return None
        catalog.table(statement.table)
    assert table is not None
    hidden = msgspec.structs.replace(table, state=UseState.PRE_DELETE)
    return "destructive", table.id, None, _counters(catalog), [put(keys.table(table.id), hidden)]


# ---------------------------------------------------------------- the second transaction


def finish(procedure: ProcedureRecord, catalog: Catalog) -> tuple[Change, ...]:
    """What a destructive statement writes at its point of no return; nothing if it is past it already.

    Raises `Refused` (ROLLED_BACK) where the pre-state is gone: somebody rolled the statement back.
    """
    standing = catalog.procedures.get(procedure.number)
    if standing is None:
        record = catalog.statements.get(procedure.statement)
        if record is not None and record.outcome is Outcome.COMMITTED:
            return ()
        raise Refused("the statement was rolled back", code="ROLLED_BACK", hint="run it again")
    if standing.step is not Step.PRE_STATE:
        return ()
    past = put(keys.procedure(procedure.number), msgspec.structs.replace(standing, step=Step.FINISHED))
    database = catalog.databases.get(procedure.target)
    if database is not None:
        assert database.state is UseState.PRE_DELETE, "the pre-state is compared (INV-DROP-1)"
        return (Change(keys.database(database.id), None), past)
    table = catalog.tables[procedure.target]
    if procedure.field is not None:
        gone = field_by_id(table, procedure.field)
        assert gone is not None, "the pre-state is compared (INV-DROP-1)"
        assert gone.state is UseState.PRE_DELETE, "the pre-state is compared (INV-DROP-1)"
        fields = tuple(field for field in table.fields if field.id != gone.id)
        return (put(keys.table(table.id), msgspec.structs.replace(table, fields=fields)), past)
    assert table.state is UseState.PRE_DELETE, "the pre-state is compared (INV-DROP-1)"
    return (*_remove_table(table, catalog), past)


def _remove_table(table: TableRecord, catalog: Catalog) -> list[Change]:
    changes = [Change(keys.table(table.id), None)]
    if table.id in catalog.horizons:
        changes.append(Change(keys.horizon(table.id), None))
    pending: set[NodeId] = set()
    segments: list[Change] = []
    for number in range(table.buckets):
        bucket = catalog.buckets[table.id, BucketNumber(number)]
        pending.update(bucket.replicas)
        changes.append(Change(keys.bucket(table.id, bucket.bucket), None))
        for segment in catalog.bucket_segments(table.id, bucket.bucket):
            pending.update(segment.holders)
            segments.append(Change(keys.segment(table.id, bucket.bucket, segment.id), None))
    alive = tuple(sorted(node for node in pending if node in catalog.nodes and not catalog.nodes[node].removed))
    if alive:
        dropped = DroppedRecord(table=table.id, name=str(catalog.table_name(table)), pending=alive)
        changes.append(put(keys.dropped(table.id), dropped))
    return changes + segments[:SEGMENTS_DROPPED_AT_ONCE]


def sweep(catalog: Catalog) -> tuple[Change, ...]:
    """The next slice of manifest entries that belong to no table any more: what a large table left when it went."""
    changes: list[Change] = []
    for (table, bucket), segments in sorted(catalog.segments.items(), key=lambda one: one[0]):
        if table not in catalog.tables:
            changes.extend(Change(keys.segment(table, bucket, one), None) for one in sorted(segments))
            if len(changes) >= SEGMENTS_DROPPED_AT_ONCE:
                break
    return tuple(changes[:SEGMENTS_DROPPED_AT_ONCE])


# ---------------------------------------------------------------- closing


def close(
    procedure: ProcedureRecord,
    catalog: Catalog,
    *,
    barrier: BarrierReceipt,
    elapsed_ns: int,
    bound_ns: int = 0,
) -> tuple[Change, ...]:
    """Writes the outcome and forgets the procedure; a statement long ended is purged to make room."""
    if procedure.number not in catalog.procedures:
        return ()
    closed = ended(catalog.statements[procedure.statement], barrier, elapsed_ns, bound_ns)
    changes = [
        Change(keys.procedure(procedure.number), None),
        put(keys.statement(procedure.statement), closed),
    ]
    if len(catalog.statements) > STATEMENTS_KEPT + PURGE_BATCH:
        over = (one for one in catalog.statements.values() if one.outcome is not Outcome.RUNNING)
        oldest = sorted(over, key=lambda one: one.order)[:PURGE_BATCH]
        changes.extend(Change(keys.statement(one.id), None) for one in oldest)
    return tuple(changes)


def ended(record: StatementRecord, barrier: BarrierReceipt, elapsed_ns: int, bound_ns: int = 0) -> StatementRecord:
    """The record of a statement whose barrier has proceeded, and which is past its point of no return if it has one.

    `bound_ns` is what the leader that ended it had published: after a change of leader, and of settings, it may be more
    than what was published when the statement began.
    """
    return msgspec.structs.replace(
        record,
        outcome=Outcome.COMMITTED,
        revision=barrier.revision,
        elapsed_ns=elapsed_ns,
        bound_ns=max(record.bound_ns, bound_ns),
        barriers=(barrier,),
    )


def cleaned(catalog: Catalog, table: ObjectId, node: NodeId) -> tuple[Change, ...]:
    """A node has deleted what it held of a dropped table."""
    dropped = catalog.dropped.get(table)
    if dropped is None or node not in dropped.pending:
        return ()
    pending = tuple(one for one in dropped.pending if one != node)
    if not pending:
        return (Change(keys.dropped(table), None),)
    return (put(keys.dropped(table), msgspec.structs.replace(dropped, pending=pending)),)


# ---------------------------------------------------------------- small parts


def put(key: bytes, record: AnyRecord) -> Change:
    """The change that writes a record under its key."""
    return Change(key, encode(record))


def _number(columns: tuple[ColumnDefinition, ...], first: FieldId) -> tuple[Field, ...]:
    return tuple(
        Field(
            id=FieldId(first + index),
            name=column.name,
            type=render_type(column.type),
            nullable=column.nullable,
            state=UseState.IN_USE,
        )
        for index, column in enumerate(columns)
    )


def _next_schema(table: TableRecord, fields: tuple[Field, ...]) -> TableRecord:
    return msgspec.structs.replace(table, fields=fields, schema_version=SchemaVersion(table.schema_version + 1))


def _next_object(catalog: Catalog) -> tuple[ObjectId, CountersRecord]:
    counters = _counters(catalog)
    following = ObjectId(counters.next_object + 1)
    return counters.next_object, msgspec.structs.replace(counters, next_object=following)


def _counters(catalog: Catalog) -> CountersRecord:
    assert catalog.counters is not None, "the cluster is initialised"
    return catalog.counters


def _members(catalog: Catalog) -> int:
    return sum(1 for node in catalog.nodes.values() if not node.removed and node.incarnation > 0)
