"""Columns. Their identity is the field id, resolved when rows are read: no statement rewrites any."""

import msgspec

from leasehold.core.catalog.catalog import Catalog, field_by_id, field_named, live_fields
from leasehold.core.catalog.plan import Context, Plan, counters, put, put_bounded
from leasehold.core.ddl.plans.cascade import bounded, views_that_go
from leasehold.core.ddl.plans.readers import READERS_FIRST, hide_view, refuse_needed
from leasehold.core.ddl.plans.rows import check_not_deleted_by
from leasehold.core.words import keys, statements
from leasehold.core.words.literals import fit
from leasehold.core.words.operations import Change
from leasehold.core.words.records import Field, HiddenColumn, TableRecord, UseState, Widening
from leasehold.core.words.statements import ColumnDefinition, fold
from leasehold.core.words.types import parse_type, render_type, widens, wider_than
from leasehold.error_codes import ErrorCode
from leasehold.errors import AlreadyExists, NotFound, Refused
from leasehold.ids import FieldId, SchemaVersion
from leasehold.limits.statements import COLUMNS_MAX


def numbered(columns: tuple[ColumnDefinition, ...], first: FieldId, *, old_rows: bool) -> tuple[Field, ...]:
    """The fields of new columns, from the id `first` on; rows that are there already have the defaults too."""
    fields: list[Field] = []
    for index, column in enumerate(columns):
        type_text = render_type(column.type)
        default = None if column.default is None else fit(column.default, type_text, column=column.name)
        field = Field(
            id=FieldId(first + index),
            name=column.name,
            type=type_text,
            nullable=column.nullable,
            state=UseState.IN_USE,
            initial=default if old_rows else None,
            default=default,
            comment=column.comment,
        )
        fields.append(field)
    return tuple(fields)


def add_columns(statement: statements.AddColumns, catalog: Catalog, _context: Context) -> Plan | None:
    """New columns behind the others; IF NOT EXISTS adds those that are missing."""
    table = catalog.table(statement.table)
    taken = {fold(field.name) for field in live_fields(table)}
    missing: list[ColumnDefinition] = []
    for column in statement.columns:
        if fold(column.name) not in taken:
            missing.append(column)
            taken.add(fold(column.name))
        elif not statement.if_not_exists:
            raise AlreadyExists(
                f"table {statement.table} has a column {column.name}", hint="choose another name, or use IF NOT EXISTS"
            )
    if not missing:
        return None
    if len(table.fields) + len(missing) > COLUMNS_MAX:
        raise Refused(
            f"a table has at most {COLUMNS_MAX} columns", code=ErrorCode.TOO_MANY_COLUMNS, hint="use a second table"
        )
    added = numbered(tuple(missing), table.next_field, old_rows=True)
    for field in added:
        if not field.nullable and field.initial is None:
            raise Refused(
                f"column {field.name} is NOT NULL: the existing rows need a value",
                code=ErrorCode.NEEDS_DEFAULT,
                hint=f"give it a default: {field.name} {field.type} NOT NULL DEFAULT ..",
            )
    grown = msgspec.structs.replace(table, next_field=FieldId(table.next_field + len(added)))
    return _additive(grown, (*table.fields, *added), catalog)


def rename_column(statement: statements.RenameColumn, catalog: Catalog, _context: Context) -> Plan | None:
    table = catalog.table(statement.table)
    field = field_named(table, statement.old)
    if field.name == statement.new:
        return None
    for other in live_fields(table):
        if fold(other.name) == fold(statement.new) and other.id != field.id:
            raise AlreadyExists(f"table {statement.table} has a column {other.name}", hint="choose another name")
    what = f"column {field.name} of {statement.table} can't be renamed"
    refuse_needed({table.id: field.id}, what, catalog, hint=READERS_FIRST)
    return _changed(table, msgspec.structs.replace(field, name=statement.new), catalog)


def move_column(statement: statements.MoveColumn, catalog: Catalog, _context: Context) -> Plan | None:
    table = catalog.table(statement.table)
    field = field_named(table, statement.column)
    others = [one for one in table.fields if one.id != field.id]
    place = 0
    if statement.after is not None:
        before = field_named(table, statement.after)
        if before.id == field.id:
            text = f"column {field.name} can't come after itself"
            raise Refused(text, code=ErrorCode.BAD_PLACE, hint="name another column")
        place = others.index(before) + 1
    fields = (*others[:place], field, *others[place:])
    return None if fields == table.fields else _additive(table, fields, catalog)


def widen_column(statement: statements.WidenColumn, catalog: Catalog, _context: Context) -> Plan | None:
    """A type that holds all values of the old one: files keep theirs, readers cast."""
    table = catalog.table(statement.table)
    field = field_named(table, statement.column)
    now, asked = parse_type(field.type), render_type(statement.type)
    if asked == field.type:
        return None
    if not widens(now, statement.type):
        wider = wider_than(now)
        raise Refused(
            f"column {field.name} is {field.type}: not all of its values fit {asked}",
            code=ErrorCode.NARROWING,
            hint=f"it can become {wider}" if wider else f"{field.type} can't become another type: add a column instead",
        )
    before = Widening(field=field.id, before=SchemaVersion(table.schema_version + 1), type=field.type)
    noted = msgspec.structs.replace(table, widened=(*table.widened, before))
    return _changed(noted, msgspec.structs.replace(field, type=asked), catalog)


def set_default(statement: statements.SetDefault, catalog: Catalog, _context: Context) -> Plan | None:
    """What rows get from here on that are written without the column; those that are there keep what they have."""
    table = catalog.table(statement.table)
    field = field_named(table, statement.column)
    default = None if statement.default is None else fit(statement.default, field.type, column=field.name)
    if default == field.default:
        return None
    return _changed(table, msgspec.structs.replace(field, default=default), catalog)


def drop_column(statement: statements.DropColumn, catalog: Catalog, _context: Context) -> Plan | None:
    """Hides the column, and with CASCADE the views that read it."""
    table = catalog.table(statement.table)
    try:
        field = field_named(table, statement.column)
    except NotFound:
        if statement.if_exists:
            return None
        raise
    if field.id in (table.cluster_by, table.time_column):
        raise Refused(
            f"column {field.name} decides where rows go or when they expire",
            code=ErrorCode.COLUMN_IN_USE,
            hint="create a table without it and copy the rows",
        )
    if len(live_fields(table)) == 1:
        raise Refused(f"{field.name} is the only column", code=ErrorCode.LAST_COLUMN, hint="drop the table instead")
    check_not_deleted_by(table, field, statement.table, catalog)
    what = f"column {field.name} of {statement.table} can't be dropped"
    views = views_that_go({table.id: field.id}, what, catalog, cascade=statement.cascade)
    hidden = [hide_view(view) for view in views]
    plan = Plan(
        changes=(_in_state(table, field, UseState.PRE_DELETE), *(change for change, _ in hidden)),
        counters=counters(catalog),
        hides=(HiddenColumn(table=table.id, field=field.id), *(view for _, view in hidden)),
    )
    return bounded(plan, catalog)


def remove_column(hidden: HiddenColumn, catalog: Catalog) -> tuple[Change, ...]:
    table, field = _hidden(hidden, catalog)
    fields = tuple(one for one in table.fields if one.id != field.id)
    widened = tuple(one for one in table.widened if one.field != field.id)
    return (put(keys.table(table.id), msgspec.structs.replace(table, fields=fields, widened=widened)),)


def restore_column(hidden: HiddenColumn, catalog: Catalog) -> tuple[Change, ...]:
    table, field = _hidden(hidden, catalog)
    return (_in_state(table, field, UseState.IN_USE),)


def _hidden(hidden: HiddenColumn, catalog: Catalog) -> tuple[TableRecord, Field]:
    table = catalog.tables[hidden.table]
    field = field_by_id(table, hidden.field)
    assert field is not None, "the pre-state is compared (INV-DROP-1)"
    assert field.state is UseState.PRE_DELETE, "the pre-state is compared (INV-DROP-1)"
    return table, field


def _in_state(table: TableRecord, field: Field, state: UseState) -> Change:
    return put(keys.table(table.id), _next_schema(table, _with(table, msgspec.structs.replace(field, state=state))))


def _changed(table: TableRecord, field: Field, catalog: Catalog) -> Plan:
    return _additive(table, _with(table, field), catalog)


def _additive(table: TableRecord, fields: tuple[Field, ...], catalog: Catalog) -> Plan:
    change = put_bounded(keys.table(table.id), _next_schema(table, fields))
    return Plan(changes=(change,), counters=counters(catalog))


def _next_schema(table: TableRecord, fields: tuple[Field, ...]) -> TableRecord:
    return msgspec.structs.replace(table, fields=fields, schema_version=SchemaVersion(table.schema_version + 1))


def _with(table: TableRecord, field: Field) -> tuple[Field, ...]:
    return tuple(field if one.id == field.id else one for one in table.fields)
