"""ALTER TABLE, ALTER VIEW and COMMENT ON."""

from leasehold.core.words.statements import (
    AddColumns,
    AlterProperties,
    Comment,
    Definition,
    DropColumn,
    MoveColumn,
    OnDatabase,
    OnTable,
    OnView,
    RenameColumn,
    RenameTable,
    RenameView,
    SetDefault,
    TableName,
    WidenColumn,
    fold,
)
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.sql.cursor import Cursor
from leasehold.sql.properties import changed_properties, check_unset, read_keys, read_properties
from leasehold.sql.table import read_column, read_columns, read_type

TTL, MIN_IN_SYNC = "ttl", "min_in_sync"


def alter_table(cursor: Cursor) -> Definition:
    if cursor.accept("IF", "EXISTS"):
        table = cursor.table()
        cursor.expect("RENAME", "TO")
        return RenameTable(table=table, to=_other(cursor, table), if_exists=True)
    table = cursor.table()
    match cursor.choose("ADD", "RENAME", "DROP", "ALTER", "SET", "UNSET"):
        case "ADD":
            return _add(cursor, table)
        case "RENAME":
            if cursor.choose("TO", "COLUMN") == "TO":
                return RenameTable(table=table, to=_other(cursor, table))
            old = cursor.column()
            cursor.expect("TO")
            return RenameColumn(table=table, old=old, new=cursor.column())
        case "DROP":
            cursor.expect("COLUMN")
            if_exists = cursor.accept("IF", "EXISTS")
            column = cursor.column()
            return DropColumn(table=table, column=column, if_exists=if_exists, cascade=cursor.accept("CASCADE"))
        case "ALTER":
            cursor.expect("COLUMN")
            return _alter_column(cursor, table, cursor.column())
        case "SET":
            cursor.expect("TBLPROPERTIES")
            given = changed_properties(read_properties(cursor))
            return AlterProperties(
                table=table,
                properties={**given.others},
                ttl_ns=given.ttl_ns,
                replication=given.replication,
                min_in_sync=given.min_in_sync,
            )
        case _:
            return _unset(cursor, table)


def alter_view(cursor: Cursor) -> RenameView:
    if_exists = cursor.accept("IF", "EXISTS")
    view = cursor.table()
    cursor.expect("RENAME", "TO")
    return RenameView(view=view, to=_other(cursor, view), if_exists=if_exists)


def comment_on(cursor: Cursor) -> Comment:
    on: OnDatabase | OnTable | OnView
    match cursor.choose("DATABASE", "SCHEMA", "TABLE", "VIEW"):
        case "TABLE":
            on = OnTable(cursor.table())
        case "VIEW":
            on = OnView(cursor.table())
        case _:
            on = OnDatabase(cursor.database())
    cursor.expect("IS")
    return Comment(on=on, text="" if cursor.accept("NULL") else cursor.comment())


def _other(cursor: Cursor, old: TableName) -> TableName:
    """The new name of a table or view, which stays in its database."""
    new = cursor.table()
    if fold(new.database) != fold(old.database):
        raise Refused(
            f"{old} can't go to another database, {new.database}",
            code=ErrorCode.OTHER_DATABASE,
            hint=f"write RENAME TO {old.database}.{new.table}",
        )
    return new


def _add(cursor: Cursor, table: TableName) -> AddColumns:
    several = cursor.choose("COLUMN", "COLUMNS") == "COLUMNS"
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    columns = read_columns(cursor) if several else (read_column(cursor),)
    for column in columns:
        if not column.nullable and (column.default is None or column.default.kind == "null"):
            raise Refused(
                f"column {column.name} can't be added as NOT NULL: the rows that are there have no value for it",
                code=ErrorCode.NOT_NULL_ADDED,
                hint=f"give them one: {column.name} .. NOT NULL DEFAULT value",
            )
    return AddColumns(table=table, columns=columns, if_not_exists=if_not_exists)


def _alter_column(cursor: Cursor, table: TableName, column: str) -> Definition:
    match cursor.choose("TYPE", "SET", "DROP", "FIRST", "AFTER", "COMMENT"):
        case "TYPE":
            return WidenColumn(table=table, column=column, type=read_type(cursor, column))
        case "SET":
            cursor.expect("DEFAULT")
            return SetDefault(table=table, column=column, default=cursor.literal())
        case "DROP":
            cursor.expect("DEFAULT")
            return SetDefault(table=table, column=column, default=None)
        case "FIRST":
            return MoveColumn(table=table, column=column, after=None)
        case "AFTER":
            return MoveColumn(table=table, column=column, after=cursor.column())
        case _:
            return Comment(on=OnTable(table), text=cursor.comment(), column=column)


def _unset(cursor: Cursor, table: TableName) -> AlterProperties:
    cursor.expect("TBLPROPERTIES")
    if_exists = cursor.accept("IF", "EXISTS")
    keys = read_keys(cursor)
    check_unset(keys)
    properties: dict[str, str | None] = dict.fromkeys(key for key in keys if key not in {TTL, MIN_IN_SYNC})
    return AlterProperties(
        table=table,
        properties=properties,
        ttl_ns=0 if TTL in keys else None,
        min_in_sync=0 if MIN_IN_SYNC in keys else None,
        if_exists=if_exists,
    )
