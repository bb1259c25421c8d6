"""Conditions that choose rows, each on one column, joined by AND: those of a scan, and the simpler ones of a DELETE.

OR stands between values of one column, which is IN: in parentheses beside AND, so that nobody has to know which of
them binds first."""

from collections.abc import Sequence
from typing import Final

from leasehold.core.words.messages import Filter
from leasehold.core.words.statements import Condition, Literal, fold
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadStatement, Refused
from leasehold.limits.statements import FILTERS_MAX
from leasehold.sql.cursor import Cursor
from leasehold.sql.front import read

_COMPARISONS: Final = ("=", "<", "<=", ">", ">=")
_WRITE: Final = (
    "write column = value, <, <=, >, >=, BETWEEN, IN (..), IS NULL, IS NOT NULL or LIKE 'start%', joined by AND;"
    " OR between values of one column, such as (a = 1 OR a = 2)"
)


def read_where(text: str) -> tuple[Filter, ...]:
    """The conditions in `text`, for `where` of a scan.

    Raises `BadStatement`, whose hint says what can be written, or `Refused` (BAD_IDENTIFIER, TOO_MANY_CONDITIONS ..).
    """
    try:
        cursor = Cursor(read(text))
        found = list(_filters(cursor))
        if cursor.form == "OR":
            found = [_alternatives(cursor, found)]
        else:
            while cursor.accept("AND"):
                found += _filters(cursor)
                if len(found) > FILTERS_MAX:
                    raise Refused(
                        f"more than {FILTERS_MAX} conditions",
                        code=ErrorCode.TOO_MANY_CONDITIONS,
                        hint="write IN (..) for several values, or filter the rows that come",
                    )
        cursor.end()
    except BadStatement as error:
        raise BadStatement(error.text, hint=_WRITE) from error
    return tuple(found)


def _alternatives(cursor: Cursor, first: Sequence[Filter]) -> Filter:
    """`first OR ..`: one of several values of a column."""
    column, values = first[0].column, list[Literal]()
    found = first
    while True:
        if len(found) != 1 or found[0].operator not in {"=", "IN"} or fold(found[0].column) != fold(column):
            raise cursor.bad("OR can only stand between values of one column")
        values += found[0].values
        if not cursor.accept("OR"):
            return Filter(column=column, operator="IN", values=tuple(values))
        found = _simple(cursor)


def _filters(cursor: Cursor) -> tuple[Filter, ...]:
    if not cursor.accept("("):
        return _simple(cursor)
    found = _simple(cursor)
    if cursor.form == "OR":
        found = (_alternatives(cursor, found),)
    cursor.expect(")")
    return found


def _simple(cursor: Cursor) -> tuple[Filter, ...]:
    if cursor.form == "NOT" and cursor.ahead(1) not in {*_COMPARISONS, "BETWEEN", "IN", "IS", "LIKE"}:
        raise cursor.unsupported()
    column = cursor.column()
    if cursor.accept("IS"):
        is_not = cursor.accept("NOT")
        cursor.expect("NULL")
        return (Filter(column=column, operator="IS NOT NULL" if is_not else "IS NULL"),)
    if cursor.accept("IN"):
        return (Filter(column=column, operator="IN", values=cursor.listed(_value)),)
    if cursor.accept("LIKE"):
        return (Filter(column=column, operator="STARTS WITH", values=(_start(cursor),)),)
    compared = _compared(cursor, column, "BETWEEN", "IN", "IS", "LIKE")
    return tuple(Filter(column=column, operator=one.operator, values=(one.value,)) for one in compared)


def conditions(cursor: Cursor) -> tuple[Condition, ...]:
    """The next comparison of a DELETE: two for BETWEEN."""
    if cursor.form == "NOT" and cursor.ahead(1) not in {*_COMPARISONS, "BETWEEN"}:
        raise cursor.unsupported()
    return _compared(cursor, cursor.column(), "BETWEEN")


def _compared(cursor: Cursor, column: str, *others: str) -> tuple[Condition, ...]:
    if cursor.accept("BETWEEN"):
        low = _value(cursor)
        cursor.expect("AND")
        return (
            Condition(column=column, operator=">=", value=low),
            Condition(column=column, operator="<=", value=_value(cursor)),
        )
    match cursor.choose(*_COMPARISONS, *others):
        case "=" | "<" | "<=" | ">" | ">=" as operator:
            return (Condition(column=column, operator=operator, value=_value(cursor)),)
        case other:
            raise AssertionError(other)


def _value(cursor: Cursor) -> Literal:
    if cursor.form == "NULL":
        raise Refused("NULL is equal to nothing", code=ErrorCode.BAD_VALUE, hint="compare with a value")
    return cursor.literal()


def _start(cursor: Cursor) -> Literal:
    """The text before the `%` that ends a pattern, in which a backslash makes the next character stand for itself."""
    pattern = cursor.text()
    found, rest = "", iter(pattern)
    for one in rest:
        if one == "%" and next(rest, None) is None:
            return Literal("string", found)
        following = next(rest, None) if one == "\\" else one
        if one in "%_" or following is None:
            break
        found += following
    cursor.at -= 1
    raise cursor.bad("a pattern that is a text with one % behind it is expected, such as LIKE 'JFK%'")
