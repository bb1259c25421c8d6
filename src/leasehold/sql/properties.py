"""TBLPROPERTIES of CREATE TABLE: the keys that mean something to us, and the rest, kept as they are."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from sqlglot import exp

from leasehold.core.durations import parse_duration
from leasehold.core.statements import ColumnDefinition, fold
from leasehold.core.types import Plain
from leasehold.errors import Refused
from leasehold.limits import PROPERTIES_MAX, PROPERTY_CHARACTERS_MAX, REPLICATION_MAX
from leasehold.sql.front import Source
from leasehold.sql.tree import only

_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_RESERVED: Final = "leasehold."
_TIME_TYPES: Final = (Plain("TIMESTAMP"), Plain("DATE"))


class TableProperties(msgspec.Struct, frozen=True, kw_only=True):
    """What the properties say; `others` has its keys in lower case."""

    replication: int | None
    ttl_ns: int | None
    time_column: str | None
    others: dict[str, str]


def read_properties(
    source: Source, assignments: Sequence[exp.Property], columns: Sequence[ColumnDefinition]
) -> TableProperties:
    """The properties of a table with these columns; raises `Refused` with code BAD_PROPERTY."""
    if len(assignments) > PROPERTIES_MAX:
        raise _bad(f"{len(assignments)} properties, over {PROPERTIES_MAX}", "keep fewer of them")
    found: dict[str, str] = {}
    for assignment in assignments:
        only(source, assignment, "this", "value")
        key = _key(assignment.this)
        if key in found:
            raise _bad(f"property {key!r} is there twice", "upper and lower case don't tell keys apart")
        found[key] = _value(key, assignment.args.get("value"))
    replication = _replication(found)
    time_column = _time_column(found, columns)
    ttl_ns = _ttl_ns(found)
    return TableProperties(replication=replication, ttl_ns=ttl_ns, time_column=time_column, others=_others(found))


def _key(node: object) -> str:
    if isinstance(node, exp.Literal) and node.is_string:
        key = str(node.this)
    elif isinstance(node, exp.Var | exp.Identifier):
        key = node.name
    else:
        raise _bad("a property's key is not a plain word", "write it in quotes: 'key' = 'value'")
    if _KEY.fullmatch(key) is None:
        raise _bad(f"{key[:64]!r} can't be a property's key", "use 1 to 64 letters, digits, _ . -")
    if key.lower().startswith(_RESERVED):
        raise _bad(f"property {key!r}: keys that start with {_RESERVED!r} are reserved", "choose another key")
    return key.lower()


def _value(key: str, node: object) -> str:
    if not isinstance(node, exp.Literal) or not (node.is_string or (node.this.isascii() and node.this.isdigit())):
        raise _bad(f"the value of property {key!r} is not a text", "write it in quotes: 'key' = 'value'")
    value = str(node.this)
    if len(value) > PROPERTY_CHARACTERS_MAX or "\0" in value:
        raise _bad(f"the value of property {key!r} is too long or has NUL in it", f"at most {PROPERTY_CHARACTERS_MAX}")
    return value


def _replication(found: Mapping[str, str]) -> int | None:
    text = found.get("replication")
    if text is None:
        return None
    if len(text) > 3 or not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= REPLICATION_MAX:
        raise _bad(
            f"'replication' is {text[:40]!r}, not a number of replicas",
            f"write 'replication' = 'n' with n from 1 to {REPLICATION_MAX}",
        )
    return int(text)


def _ttl_ns(found: Mapping[str, str]) -> int | None:
    text = found.get("ttl")
    if text is None:
        return None
    try:
        ttl_ns = parse_duration(text)
    except Refused as error:
        raise _bad(f"'ttl': {error.text}", error.hint) from error
    if ttl_ns == 0:
        raise _bad("'ttl' is zero: every row would be gone at once", "leave 'ttl' out to keep rows for ever")
    if "time_column" not in found:
        raise _bad("'ttl' needs 'time_column'", "name the TIMESTAMP or DATE column that says how old a row is")
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
    return {key: value for key, value in found.items() if key not in {"replication", "ttl", "time_column"}}


def _bad(text: str, hint: str) -> Refused:
    return Refused(text, code="BAD_PROPERTY", hint=hint)
