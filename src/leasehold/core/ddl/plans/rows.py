"""DELETE: rows are hidden at once, and taken out of the files by a rewrite later (`core/replicas/rewrite.py`)."""

import msgspec

from leasehold.core.catalog.catalog import Catalog, field_named
from leasehold.core.catalog.plan import Context, Plan, counters, next_revision, put
from leasehold.core.replicas.rewrite import live_deletes, unspent
from leasehold.core.words import keys
from leasehold.core.words.literals import fit
from leasehold.core.words.operations import Change
from leasehold.core.words.records import Comparison, DeleteRecord, Field, HiddenRows, TableRecord, UseState
from leasehold.core.words.statements import Condition, DeleteRows, TableName
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.statements import CONDITIONS_MAX
from leasehold.limits.upkeep import DELETES_MAX


def delete_rows(statement: DeleteRows, catalog: Catalog, _context: Context) -> Plan | None:
    """Hides the rows of all segments that the manifest has by then.

    Raises `NotFound`, `Refused`: NO_CONDITION, TOO_MANY_CONDITIONS, BAD_VALUE, TOO_MANY_DELETES.
    """
    table = catalog.table(statement.table)
    where = _comparisons(statement.where, table)
    live = len(catalog.deletes.get(table.id, {}))
    if live >= DELETES_MAX:  # else it need not be known exactly
        live = len(live_deletes(table, catalog))
    if live >= DELETES_MAX:
        raise Refused(
            f"the files of {statement.table} hold rows of {live} DELETEs, which is the limit",
            code=ErrorCode.TOO_MANY_DELETES,
            hint=f"`leasehold compact {statement.table}` removes the rows from the files; then delete again",
        )
    number = table.deletes + 1
    record = DeleteRecord(table=table.id, number=number, state=UseState.PRE_DELETE, where=where)
    return Plan(
        changes=(
            put(keys.delete(table.id, number), record),
            put(keys.table(table.id), msgspec.structs.replace(table, deletes=number)),
        ),
        counters=counters(catalog),
        hides=(HiddenRows(table=table.id, number=number),),
    )


def _comparisons(where: tuple[Condition, ...], table: TableRecord) -> tuple[Comparison, ...]:
    if not where:
        raise Refused(
            "DELETE without a condition",
            code=ErrorCode.NO_CONDITION,
            hint="add WHERE; DROP TABLE deletes all rows at once",
        )
    if len(where) > CONDITIONS_MAX:
        raise Refused(
            f"{len(where)} conditions, at most {CONDITIONS_MAX} fit one DELETE",
            code=ErrorCode.TOO_MANY_CONDITIONS,
            hint="split it into several DELETEs; a time range and a few equalities are usual",
        )
    return tuple(_comparison(one, table) for one in where)


def _comparison(condition: Condition, table: TableRecord) -> Comparison:
    field = field_named(table, condition.column)
    value = fit(condition.value, field.type, column=field.name)
    if value is None:
        raise Refused(
            f"column {field.name} is compared with NULL, which is true for no value",
            code=ErrorCode.BAD_VALUE,
            hint="compare it with a value; a DELETE can't select rows without a value",
        )
    return Comparison(field=field.id, operator=condition.operator, value=value)


def remove_rows(hidden: HiddenRows, catalog: Catalog) -> tuple[Change, ...]:
    """The rows are gone for good: its record stays for as long as files may hold some of them."""
    record = catalog.deletes.get(hidden.table, {}).get(hidden.number)
    if record is None:
        return ()
    table, key = catalog.tables[hidden.table], keys.delete(hidden.table, hidden.number)
    deleted = put(keys.table(table.id), msgspec.structs.replace(table, deleted=next_revision(catalog)))
    if not unspent([record], table, catalog):
        return (Change(key, None), deleted)
    return (put(key, msgspec.structs.replace(record, state=UseState.IN_USE)), deleted)


def restore_rows(hidden: HiddenRows, catalog: Catalog) -> tuple[Change, ...]:
    """The rows are back. The number stays used, so that a rewrite meanwhile is refused."""
    if hidden.number not in catalog.deletes.get(hidden.table, {}):
        return ()
    return (Change(keys.delete(hidden.table, hidden.number), None),)


def check_not_deleted_by(table: TableRecord, field: Field, name: TableName, catalog: Catalog) -> None:
    """Raises `Refused` with code COLUMN_IN_USE while DELETEs need a column to tell which rows are gone."""
    deletes = catalog.deletes.get(table.id, {}).values()
    comparing = [one for one in deletes if any(what.field == field.id for what in one.where)]
    if unspent(comparing, table, catalog):
        raise Refused(
            f"column {field.name} of {name} is in the condition of a DELETE, and files still hold some of the"
            " deleted rows",
            code=ErrorCode.COLUMN_IN_USE,
            hint=f"`leasehold compact {name}` removes them; the column can be dropped about ten minutes later",
        )
