"""TBLPROPERTIES and DBPROPERTIES: the keys with a meaning, and other keys, which are kept as they are."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from leasehold.core.words.change_retention import CHANGE_RETENTION, parse_retention
from leasehold.core.words.compact_property import COMPACT, check_compact
from leasehold.core.words.durations import parse_duration
from leasehold.core.words.statements import ColumnDefinition, fold
from leasehold.core.words.types import Plain
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.statements import PROPERTIES_MAX, PROPERTY_CHARACTERS_MAX, REPLICATION_MAX
from leasehold.sql.cursor import Cursor

_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_RESERVED: Final = "leasehold."
_OF_TABLES: Final = ("ttl", "replication", "min_in_sync", "time_column")
_KEPT: Final = ("replication", "time_column")
"""A table always has them, or never."""
_TIME_TYPES: Final = (Plain("TIMESTAMP"), Plain("DATE"))


class TableProperties(msgspec.Struct, frozen=True, kw_only=True):
    """What the properties of a table say; `others` has its keys in lower case."""

    replication: int | None = None
    min_in_sync: int | None = None
    ttl_ns: int | None = None
    time_column: str | None = None
    others: dict[str, str] = msgspec.field(default_factory=dict[str, str])


def new_properties(given: Mapping[str, str], columns: Sequence[ColumnDefinition]) -> TableProperties:
    """What the properties of a new table with these columns mean; raises `Refused` with code BAD_PROPERTY."""
    time_column = _time_column(given, columns)
    ttl_ns = _ttl_ns(given["ttl"], "leave 'ttl' out to keep rows forever") if "ttl" in given else None
    if ttl_ns is not None and time_column is None:
        raise _bad(
            "'ttl' needs 'time_column'", "name the TIMESTAMP or DATE column from which the age of a row is computed"
        )
    return TableProperties(
        replication=_nodes("replication", given),
        min_in_sync=_nodes("min_in_sync", given),
        ttl_ns=ttl_ns,
        time_column=time_column,
        others=_others(given),
    )


def changed_properties(given: Mapping[str, str]) -> TableProperties:
    """What new properties of a table mean; raises `Refused` with code BAD_PROPERTY."""
    if "time_column" in given:
        raise _bad("'time_column' can't be changed", "create a new table with it and copy the rows")
    ttl_ns = _ttl_ns(given["ttl"], "UNSET TBLPROPERTIES ('ttl') keeps rows forever") if "ttl" in given else None
    return TableProperties(
        replication=_nodes("replication", given),
        min_in_sync=_nodes("min_in_sync", given),
        ttl_ns=ttl_ns,
        others=_others(given),
    )


def check_unset(keys: Collection[str]) -> None:
    """Raises `Refused` with code BAD_PROPERTY for a property that can't be taken away from a table."""
    for key in _KEPT:
        if key in keys:
            raise _bad(f"{key!r} can't be taken away", "SHOW TBLPROPERTIES shows what a table has")


def database_properties(given: Mapping[str, str]) -> dict[str, str]:
    """The properties of a database; raises `Refused` with code BAD_PROPERTY."""
    for key in (*_OF_TABLES, CHANGE_RETENTION, COMPACT):
        if key in given:
            raise _bad(f"{key!r} is only for tables", "write it in the TBLPROPERTIES of each table")
    return dict(given)


def read_properties(cursor: Cursor) -> dict[str, str]:
    """`('key' = 'value', ..)`, the keys in lower case; raises `Refused` with code BAD_PROPERTY."""
    found: dict[str, str] = {}
    cursor.expect("(")
    while True:
        key = _key(cursor, found)
        cursor.expect("=")
        found[key] = _value(cursor, key)
        if cursor.choose(",", ")") == ")":
            return found


def read_keys(cursor: Cursor) -> tuple[str, ...]:
    """`('key', ..)` in lower case; raises `Refused` with code BAD_PROPERTY."""
    found: dict[str, str] = {}
    cursor.expect("(")
    while True:
        found[_key(cursor, found)] = ""
        if cursor.choose(",", ")") == ")":
            return tuple(found)


def _key(cursor: Cursor, found: Mapping[str, str]) -> str:
    if cursor.form != "'" and (cursor.form in {"9", "?", ""} or cursor.ahead(1) == "."):
        raise _bad("a property's key is not a plain word", "write it in quotes: 'key' = 'value'")
    key = cursor.token().text
    if _KEY.fullmatch(key) is None:
        raise _bad(f"{key[:64]!r} can't be a property's key", "use 1 to 64 letters, digits, _ . -")
    if key.lower().startswith(_RESERVED):
        raise _bad(f"property {key!r}: keys that start with {_RESERVED!r} are reserved", "choose another key")
    if key.lower() in found:
        raise _bad(f"property {key.lower()!r} occurs twice", "upper and lower case do not distinguish keys")
    if len(found) == PROPERTIES_MAX:
        raise _bad(f"more than {PROPERTIES_MAX} properties", "keep fewer of them")
    return key.lower()


def _value(cursor: Cursor, key: str) -> str:
    interval = cursor.interval()
    if interval is not None:
        return _checked(interval, key)
    number = cursor.form == "9"
    value = cursor.token().text if cursor.form in {"'", "9"} else None
    if value is None or (number and not (value.isascii() and value.isdigit())) or cursor.form not in {",", ")", ""}:
        raise _bad(f"the value of property {key!r} is not a text", "write it in quotes: 'key' = 'value'")
    return _checked(value, key)


def _checked(value: str, key: str) -> str:
    if len(value) > PROPERTY_CHARACTERS_MAX or "\0" in value:
        raise _bad(f"the value of property {key!r} is too long or has NUL in it", f"at most {PROPERTY_CHARACTERS_MAX}")
    return value


def _nodes(key: str, found: Mapping[str, str]) -> int | None:
    text = found.get(key)
    if text is None:
        return None
    if len(text) > 3 or not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= REPLICATION_MAX:
        raise _bad(
            f"{key!r} is {text[:40]!r}, not a number of replicas",
            f"write {key!r} = 'n' with n from 1 to {REPLICATION_MAX}",
        )
    return int(text)


def _ttl_ns(text: str, without: str) -> int:
    try:
        ttl_ns = parse_duration(text)
    except Refused as error:
        raise _bad(f"'ttl': {error.text}", error.hint) from error
    if ttl_ns == 0:
        raise _bad("'ttl' is zero: every row would expire at once", without)
    return ttl_ns


def _time_column(found: Mapping[str, str], columns: Sequence[ColumnDefinition]) -> str | None:
    text = found.get("time_column")
    if text is None:
        return None
    for column in columns:
        if fold(column.name) == fold(text) and column.type in _TIME_TYPES:
            return column.name
    raise _bad(
        f"'time_column' is {text[:100]!r}, which is not a TIMESTAMP or DATE column of the table",
        "name one of the columns in the parentheses",
    )


def _others(found: Mapping[str, str]) -> dict[str, str]:
    if CHANGE_RETENTION in found:
        parse_retention(found[CHANGE_RETENTION])
    if COMPACT in found:
        check_compact(found[COMPACT])
    return {key: value for key, value in found.items() if key not in _OF_TABLES}


def _bad(text: str, hint: str) -> Refused:
    return Refused(text, code=ErrorCode.BAD_PROPERTY, hint=hint)
