"""UPDATE and MERGE INTO, which only Spark runs (`leasehold.spark.sql`). Their expressions stay text, which Spark reads.

A part of them that is not in GRAMMAR is refused, though Spark or another table format may have it.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from leasehold.core.words.statements import TableName, fold
from leasehold.errors import BadStatement
from leasehold.sql.cursor import Cursor
from leasehold.sql.front import read
from leasehold.sql.table import check_distinct

GRAMMAR: Final[Mapping[str, str]] = {
    "UPDATE": "UPDATE database.table [[AS] name] SET column = expression, .. [WHERE column = value AND ..]",
    "MERGE": (
        "MERGE INTO database.table [[AS] target] USING other | (SELECT ..) [[AS] source]"
        " ON target.column = source.column [AND ..]"
        " [WHEN MATCHED THEN UPDATE SET * | UPDATE SET column = expression, .. | DELETE]"
        " [WHEN NOT MATCHED THEN INSERT * | INSERT (column, ..) VALUES (expression, ..)]"
    ),
}
"""By the first word."""

Matched: TypeAlias = Literal["update", "delete", "ignore"] | Mapping[str, str]
NotMatched: TypeAlias = Literal["insert", "ignore"] | Mapping[str, str]

_OPENING: Final = frozenset({"(", "[", "CASE"})
_CLOSING: Final = frozenset({")", "]", "END"})
_NO_ALIAS: Final = frozenset({"SET", "USING", "ON", ""})


@dataclass(frozen=True, kw_only=True)
class UpdateRows:
    """`changes` are the new values of columns, as expressions; `alias` is what qualifies columns in them."""

    table: TableName
    alias: str
    changes: Mapping[str, str]
    where: str | None
    """As `sql/where.py` reads it."""


@dataclass(frozen=True, kw_only=True)
class MergeRows:
    """`source` is a SELECT of all rows behind USING. Columns of the two sides are qualified with `target_alias` and
    `source_alias`."""

    table: TableName
    target_alias: str
    source: str
    source_alias: str
    on: tuple[str, ...]
    """The columns that are the key, in both."""
    when_matched: Matched
    when_not_matched: NotMatched


def read_update(text: str) -> UpdateRows:
    """Raises `BadStatement`, or `Refused` with code BAD_IDENTIFIER, DUPLICATE_COLUMN."""
    cursor = Cursor(read(text))
    with _hinted("UPDATE"):
        return _update(cursor)


def read_merge(text: str) -> MergeRows:
    """Raises as `read_update`."""
    cursor = Cursor(read(text))
    with _hinted("MERGE"):
        return _merge(cursor)


@contextmanager
def _hinted(word: str) -> Generator[None]:
    try:
        yield
    except BadStatement as error:
        raise BadStatement(error.text, hint=f"write {GRAMMAR[word]}") from error


def _update(cursor: Cursor) -> UpdateRows:
    cursor.expect("UPDATE")
    table = cursor.table()
    alias = _alias(cursor) or table.table
    cursor.expect("SET")
    changes = _assigned(cursor, alias, "WHERE")
    where = None
    if cursor.accept("WHERE"):
        where = _expression(cursor, "")
    return UpdateRows(table=table, alias=alias, changes=changes, where=where)


def _merge(cursor: Cursor) -> MergeRows:
    cursor.expect("MERGE", "INTO")
    table = cursor.table()
    target = _alias(cursor) or table.table
    cursor.expect("USING")
    source, name = _source(cursor)
    if fold(target) == fold(name):
        raise cursor.bad(f"both sides are called {name}: give one of them another name")
    cursor.expect("ON")
    on = [_key(cursor, target, name)]
    while cursor.accept("AND"):
        on.append(_key(cursor, target, name))
    check_distinct(on)
    matched, not_matched = _clauses(cursor, target, name, on)
    cursor.end()
    return MergeRows(
        table=table,
        target_alias=target,
        source=source,
        source_alias=name,
        on=tuple(on),
        when_matched=matched,
        when_not_matched=not_matched,
    )


def _source(cursor: Cursor) -> tuple[str, str]:
    """A SELECT of what stands behind USING, and its name."""
    first = cursor.at
    if cursor.accept("("):
        _skip(cursor, ")")
        cursor.expect(")")
        name = ""
    else:
        name = cursor.parts()[-1]
        if cursor.form in {"VERSION", "TIMESTAMP"}:
            cursor.at += 1
            cursor.expect("AS", "OF")
            cursor.token()
    text = _text(cursor, first)
    name = _alias(cursor) or name
    if not name:
        raise cursor.bad("a name is expected for the SELECT, such as AS source")
    return f"SELECT * FROM {text} AS `{name}`", name  # noqa: S608 - it is the text of the person who asks


def _key(cursor: Cursor, target: str, source: str) -> str:
    """The column that both sides of `target.k = source.k` name."""
    first = cursor.at
    sides = [_qualified(cursor)]
    cursor.expect("=")
    sides.append(_qualified(cursor))
    (_, column), (_, other) = sides
    if {side for side, _ in sides} != {fold(target), fold(source)} or fold(column) != fold(other):
        cursor.at = first
        raise cursor.bad(
            f"{target}.column = {source}.column is expected, with one name on both sides; a SELECT behind USING can"
            " give a column another name"
        )
    return column


def _qualified(cursor: Cursor) -> tuple[str, str]:
    first = cursor.at
    parts = cursor.parts()
    if len(parts) != 2:
        cursor.at = first
        raise cursor.bad("a column with the name of its side is expected")
    return fold(parts[0]), parts[1]


def _clauses(cursor: Cursor, target: str, source: str, on: list[str]) -> tuple[Matched, NotMatched]:
    matched: Matched = "ignore"
    not_matched: NotMatched = "ignore"
    said: set[str] = set()
    while cursor.accept("WHEN"):
        if cursor.once(said, "MATCHED", "NOT") == "MATCHED":
            cursor.expect("THEN")
            matched = _matched(cursor, target)
        else:
            cursor.expect("MATCHED", "THEN", "INSERT")
            not_matched = "insert" if cursor.accept("*") else _inserted(cursor, source, on)
    if not said:
        raise cursor.unsupported("WHEN MATCHED THEN .. or WHEN NOT MATCHED THEN .. is expected")
    return matched, not_matched


def _matched(cursor: Cursor, target: str) -> Matched:
    if cursor.choose("UPDATE", "DELETE") == "DELETE":
        return "delete"
    cursor.expect("SET")
    return "update" if cursor.accept("*") else _assigned(cursor, target, "WHEN")


def _inserted(cursor: Cursor, source: str, on: list[str]) -> Mapping[str, str]:
    """The values of the columns besides the key, which is that of the source."""
    columns = cursor.listed(Cursor.column)
    check_distinct(columns)
    cursor.expect("VALUES")
    values = cursor.listed(lambda inside: _expression(inside, ",", ")"))
    if len(values) != len(columns):
        raise cursor.bad(f"{len(values)} values are given for {len(columns)} columns")
    given = dict(zip(map(fold, columns), values, strict=True))
    for key in map(fold, on):
        value = given.pop(key, "")
        if fold(value.replace("`", "")) not in {key, f"{fold(source)}.{key}"}:
            raise cursor.bad(f"the key of an added row is that of the source, so {source}.{key} is expected for {key}")
    return {one: given[fold(one)] for one in columns if fold(one) in given}


def _assigned(cursor: Cursor, alias: str, end: str) -> Mapping[str, str]:
    """`column = expression, ..`, up to `end`. A column may be qualified with `alias`."""
    columns: list[str] = []
    values: list[str] = []
    while True:
        if cursor.ahead(1) == "." and fold(cursor.source.tokens[cursor.at].text) == fold(alias):
            cursor.at += 2
        columns.append(cursor.column())
        cursor.expect("=")
        values.append(_expression(cursor, ",", end))
        if not cursor.accept(","):
            break
    check_distinct(columns)
    return dict(zip(columns, values, strict=True))


def _expression(cursor: Cursor, *ends: str) -> str:
    """What stands before one of `ends`, outside of brackets and of CASE .. END."""
    first = cursor.at
    _skip(cursor, *ends)
    if cursor.at == first:
        raise cursor.unsupported("an expression is expected")
    return _text(cursor, first)


def _skip(cursor: Cursor, *ends: str) -> None:
    depth = 0
    while cursor.form and (depth or cursor.form not in ends):
        if cursor.source.forms[cursor.at - 1] != ".":  # t.end is a column
            depth += (cursor.form in _OPENING) - (cursor.form in _CLOSING)
        if depth < 0:
            raise cursor.unsupported()
        cursor.at += 1
    if depth:
        raise cursor.bad("a bracket or a CASE is not closed")


def _text(cursor: Cursor, first: int) -> str:
    """The text from the token `first` to where the cursor is."""
    tokens = cursor.source.tokens[first : cursor.at]
    return cursor.source.text[tokens[0].start : tokens[-1].end + 1] if tokens else ""


def _alias(cursor: Cursor) -> str | None:
    """`AS name` or `name`, if that comes next."""
    return cursor.column() if cursor.accept("AS") or cursor.form not in _NO_ALIAS else None
