"""INSERT INTO: a few rows as literals, or those of a SELECT, which only Spark adds."""

from dataclasses import dataclass
from typing import Final

from leasehold.core.words.statements import Literal, TableName
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadStatement, Refused
from leasehold.limits.statements import INSERT_ROWS_MAX
from leasehold.sql.cursor import Cursor
from leasehold.sql.front import Source, read
from leasehold.sql.table import check_distinct

_QUERIES: Final = frozenset({"SELECT", "WITH", "(", "FROM"})
"""What a query may begin with."""


@dataclass(frozen=True, kw_only=True)
class InsertRows:
    """`columns` are empty if the statement names none: then each row has a value for each column of the table."""

    table: TableName
    columns: tuple[str, ...]
    rows: tuple[tuple[Literal, ...], ...]


@dataclass(frozen=True, kw_only=True)
class InsertQuery:
    """`columns` as in `InsertRows`; the SELECT begins at the token `first`. If it `overwrites`, its rows take the place
    of all rows."""

    table: TableName
    columns: tuple[str, ...]
    overwrites: bool
    source: Source
    first: int


def read_insert_query(text: str) -> InsertQuery | None:
    """The INSERT .. SELECT in `text`, with INTO or OVERWRITE; None for any other INSERT. Raises as `read_insert`."""
    cursor = Cursor(read(text))
    overwrites = cursor.ahead(1) == "OVERWRITE"
    table, columns = _target(cursor, "OVERWRITE" if overwrites else "INTO")
    if cursor.form not in _QUERIES:
        return None
    return InsertQuery(table=table, columns=columns, overwrites=overwrites, source=cursor.source, first=cursor.at)


def read_insert(text: str) -> InsertRows:
    """The one INSERT in `text`.

    Raises `BadStatement`, or `Refused` with code BAD_IDENTIFIER, DUPLICATE_COLUMN, COLUMN_COUNT, TOO_MANY_ROWS.
    """
    cursor = Cursor(read(text))
    table, columns = _target(cursor)
    if cursor.form in _QUERIES:
        raise BadStatement(
            "INSERT takes rows as VALUES, not from a SELECT",
            hint=f'in Python: cluster.table("{table}").append(cluster.query("SELECT .."))',
        )
    cursor.expect("VALUES")
    rows = [cursor.listed(Cursor.literal)]
    while cursor.accept(","):
        if len(rows) == INSERT_ROWS_MAX:
            raise Refused(
                f"more than {INSERT_ROWS_MAX} rows in one INSERT",
                code=ErrorCode.TOO_MANY_ROWS,
                hint=f'insert fewer rows, or append them as Arrow: cluster.table("{table}").append(..)',
            )
        rows.append(cursor.listed(Cursor.literal))
    cursor.end()
    width = len(columns) or len(rows[0])
    for number, row in enumerate(rows, start=1):
        if len(row) != width:
            raise column_count(number, len(row), width)
    return InsertRows(table=table, columns=columns, rows=tuple(rows))


def _target(cursor: Cursor, word: str = "INTO") -> tuple[TableName, tuple[str, ...]]:
    """The table, and the columns that the statement names."""
    cursor.expect("INSERT", word)
    cursor.accept("TABLE")
    table = cursor.table()
    has_columns = cursor.form == "(" and cursor.ahead(1) not in _QUERIES
    columns = cursor.listed(Cursor.column) if has_columns else ()
    check_distinct(columns)
    return table, columns


def column_count(number: int, values: int, columns: int) -> Refused:
    """The error for a row that has more or fewer values than there are columns."""
    return Refused(
        f"row {number} has {values} values, for {columns} columns",
        code=ErrorCode.COLUMN_COUNT,
        hint="give each column one value, NULL among them, or name the columns: INSERT INTO database.table (a, b) ..",
    )
