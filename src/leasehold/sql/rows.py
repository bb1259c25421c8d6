"""DELETE FROM."""

from leasehold.core.words.statements import DeleteRows
from leasehold.errors import BadStatement
from leasehold.sql.cursor import Cursor
from leasehold.sql.where import conditions


def delete_rows(cursor: Cursor) -> DeleteRows:
    table = cursor.table()
    if not cursor.form:
        raise BadStatement(
            "DELETE FROM without WHERE would take every row away",
            hint=f"choose rows with WHERE column = value, or drop the whole table with DROP TABLE {table}",
        )
    cursor.expect("WHERE")
    where = list(conditions(cursor))
    while cursor.accept("AND"):
        where += conditions(cursor)
    return DeleteRows(table=table, where=tuple(where))
