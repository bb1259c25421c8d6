"""DELETE FROM."""

from leasehold.core.words.statements import Condition, DeleteRows, Literal
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadStatement, Refused
from leasehold.sql.cursor import Cursor

_OPERATORS = ("=", "<", "<=", ">", ">=")


def delete_rows(cursor: Cursor) -> DeleteRows:
    table = cursor.table()
    if not cursor.form:
        raise BadStatement(
            "DELETE FROM without WHERE would take every row away",
            hint=f"choose rows with WHERE column = value, or drop the whole table with DROP TABLE {table}",
        )
    cursor.expect("WHERE")
    where = list(_conditions(cursor))
    while cursor.accept("AND"):
        where += _conditions(cursor)
    return DeleteRows(table=table, where=tuple(where))


def _conditions(cursor: Cursor) -> tuple[Condition, ...]:
    if cursor.form == "NOT" and cursor.ahead(1) not in {*_OPERATORS, "BETWEEN"}:
        raise cursor.unsupported()
    column = cursor.column()
    if cursor.accept("BETWEEN"):
        low = _value(cursor)
        cursor.expect("AND")
        return (
            Condition(column=column, operator=">=", value=low),
            Condition(column=column, operator="<=", value=_value(cursor)),
        )
    match cursor.choose(*_OPERATORS, "BETWEEN"):
        case "=" | "<" | "<=" | ">" | ">=" as operator:
            return (Condition(column=column, operator=operator, value=_value(cursor)),)
        case other:
            raise AssertionError(other)


def _value(cursor: Cursor) -> Literal:
    if cursor.form == "NULL":
        raise Refused("NULL is equal to nothing", code=ErrorCode.BAD_VALUE, hint="compare with a value")
    return cursor.literal()
