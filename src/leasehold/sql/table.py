"""CREATE TABLE, and columns as statements describe them."""

from collections.abc import Sequence
from typing import Final

from leasehold.core.words.statements import ColumnDefinition, CreateTable, Literal, fold
from leasehold.core.words.types import PLAIN_NAMES, ColumnType, Plain, parse_type
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.statements import BUCKETS_MAX, COLUMNS_MAX
from leasehold.sql.cursor import Cursor
from leasehold.sql.front import short, upper
from leasehold.sql.properties import new_properties, read_properties

_SYNONYMS: Final = {"INTEGER": "INT", "LONG": "BIGINT", "REAL": "FLOAT", "VARCHAR": "STRING"}
_DECIMALS: Final = frozenset({"DECIMAL", "NUMERIC"})
_OPENING: Final = frozenset("(<[")
_CLOSING: Final = frozenset(")>]")


def create_table(cursor: Cursor) -> CreateTable:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.table()
    if cursor.form != "(":
        raise cursor.unsupported("at least one column in parentheses is expected")
    columns = read_columns(cursor)
    cluster_by, buckets = None, 1
    comment = ""
    given: dict[str, str] = {}
    said: set[str] = set()
    while cursor.form:
        match cursor.once(said, "USING", "CLUSTERED", "COMMENT", "TBLPROPERTIES"):
            case "USING":
                cursor.expect("LEASEHOLD")
            case "CLUSTERED":
                cluster_by, buckets = _clustering(cursor, columns)
            case "COMMENT":
                comment = cursor.comment()
            case _:
                given = read_properties(cursor)
    properties = new_properties(given, columns)
    return CreateTable(
        name=name,
        columns=columns,
        if_not_exists=if_not_exists,
        cluster_by=cluster_by,
        buckets=buckets,
        replication=properties.replication,
        min_in_sync=properties.min_in_sync,
        ttl_ns=properties.ttl_ns,
        time_column=properties.time_column,
        comment=comment,
        properties=properties.others,
    )


def read_columns(cursor: Cursor) -> tuple[ColumnDefinition, ...]:
    """`(column, ..)`: at least one, at most `COLUMNS_MAX`, no name twice; raises `BadStatement` or `Refused`."""
    cursor.expect("(")
    if cursor.form == ")":
        raise cursor.bad("at least one column is expected")
    columns = [read_column(cursor)]
    while cursor.choose(",", ")") == ",":
        columns.append(read_column(cursor))
    if len(columns) > COLUMNS_MAX:
        raise Refused(
            f"{len(columns)} columns, over {COLUMNS_MAX}",
            code=ErrorCode.TOO_MANY_COLUMNS,
            hint="split the table into several",
        )
    check_distinct([column.name for column in columns])
    return tuple(columns)


def check_distinct(names: Sequence[str]) -> None:
    """Raises `Refused` with code DUPLICATE_COLUMN if two columns have one name."""
    seen: set[str] = set()
    for name in names:
        if fold(name) in seen:
            raise Refused(
                f"column {name} occurs twice",
                code=ErrorCode.DUPLICATE_COLUMN,
                hint="give each column its own name; upper and lower case do not distinguish names",
            )
        seen.add(fold(name))


def read_column(cursor: Cursor) -> ColumnDefinition:
    """`name type [NOT NULL] [DEFAULT value] [COMMENT 'text']`."""
    name = cursor.column()
    kind = read_type(cursor, name)
    nullable, comment = True, ""
    default: Literal | None = None
    said: set[str] = set()
    while cursor.form not in {",", ")", ""}:
        match cursor.once(said, "NOT", "DEFAULT", "COMMENT"):
            case "NOT":
                cursor.expect("NULL")
                nullable = False
            case "DEFAULT":
                default = cursor.literal()
            case _:
                comment = cursor.comment()
    return ColumnDefinition(name=name, type=kind, nullable=nullable, default=default, comment=comment)


def read_type(cursor: Cursor, column: str) -> ColumnType:
    """A type; raises `Refused` with code BAD_TYPE for one that is not ours."""
    first = cursor.at
    if cursor.form in {",", ")", ""}:
        raise cursor.bad(f"column {column} has no type")
    words = _type_words(cursor)
    spelling = " ".join(words)
    match words:
        case [word] if _SYNONYMS.get(word, word) in PLAIN_NAMES:
            return Plain(_SYNONYMS.get(word, word))
        case [word] if word in _DECIMALS:
            spelling = "DECIMAL(10,0)"
        case [word, "(", precision, ")"] if word in _DECIMALS:
            spelling = f"DECIMAL({precision},0)"
        case [word, "(", precision, ",", scale, ")"] if word in _DECIMALS:
            spelling = f"DECIMAL({precision},{scale})"
        case _:
            pass
    try:
        # Of our types only DECIMAL comes this far: `parse_type` checks its numbers, and refuses anything else.
        return parse_type(spelling)
    except Refused as error:
        where = cursor.source.place(cursor.source.tokens[first].start)
        raise Refused(f"column {column}: {error.text} {where}", code=ErrorCode.BAD_TYPE, hint=error.hint) from error


def _type_words(cursor: Cursor) -> list[str]:
    words = [_written(cursor)]
    depth = 0
    while cursor.form in _OPENING or (depth and cursor.form):
        depth += (cursor.form in _OPENING) - (cursor.form in _CLOSING)
        words.append(_written(cursor))
    return words


def _written(cursor: Cursor) -> str:
    token = cursor.token()
    return upper(cursor.source.text[token.start : token.end + 1])


def _clustering(cursor: Cursor, columns: Sequence[ColumnDefinition]) -> tuple[str, int]:
    cursor.expect("BY", "(")
    name = cursor.column()
    if cursor.form == ",":
        raise cursor.bad("a table is clustered by exactly one column")
    cursor.expect(")", "INTO")
    column = next((column for column in columns if fold(column.name) == fold(name)), None)
    if column is None:
        raise Refused(
            f"CLUSTERED BY names {short(name)}, which is not a column of the table",
            code=ErrorCode.NO_SUCH_COLUMN,
            hint="name one of the columns in the parentheses",
        )
    digits = cursor.token().text if cursor.form == "9" else ""
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10 and 1 <= int(digits) <= BUCKETS_MAX):
        raise Refused(
            f"a table has 1 to {BUCKETS_MAX} buckets",
            code=ErrorCode.BAD_BUCKETS,
            hint="write INTO n BUCKETS, n a whole number",
        )
    cursor.expect("BUCKETS")
    return column.name, int(digits)
