"""The tables that a SELECT for Spark names as `database.table`, and its text with other names for them.

Spark runs the text as it was written: only the names are replaced, and what belongs to them. sqlglot finds the names;
it does not write the text anew, so it can't change what the text means.

| in the text | becomes |
| --- | --- |
| `FROM nyc.weather` | ``FROM `word` AS `weather` `` |
| `FROM nyc.weather VERSION AS OF 7 w` | ``FROM `word` w`` |
| `nyc.weather.day` | `weather.day` |
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from leasehold.core.words.statements import TableName, fold
from leasehold.errors import BadStatement
from leasehold.ids import IDENTIFIER
from leasehold.sql.front import Source
from leasehold.sql.query import any_query

_VERSIONS: Final = frozenset({"VERSION", "TIMESTAMP"})
_OPEN: Final = "("
_SHUT: Final = ")"


@dataclass(frozen=True, kw_only=True)
class Reference:
    """One name of a table or view; a table that is named twice has two."""

    name: TableName
    alias: str
    """What the columns are qualified with."""
    has_alias: bool
    """Whether the text says so."""
    node: exp.Table
    start: int
    end: int
    """Behind the name, and behind VERSION AS OF."""
    alias_at: int
    """Where an alias goes in the text."""
    revision: int | None = None
    """Of VERSION AS OF."""
    time: str | None = None
    """Of TIMESTAMP AS OF, as it was written."""


@dataclass(frozen=True, kw_only=True)
class SparkSelect:
    """A SELECT as it was read, from `start` on in the text of its statement."""

    source: Source
    tree: exp.Query
    start: int
    references: tuple[Reference, ...]


def read_references(source: Source, first: int = 0) -> SparkSelect:
    """The SELECT that starts at the token `first` and ends the statement.

    Raises `BadStatement`, or `Refused` with code SELECT_TOO_LONG.
    """
    tree = any_query(source, first)
    places = {token.start: place for place, token in enumerate(source.tokens)}
    found = [
        _reference(source, one, places) for one in tree.find_all(exp.Table) if _is_read(one) and _is_qualified(one)
    ]
    references = tuple(sorted(found, key=lambda one: one.start))
    return SparkSelect(source=source, tree=tree, start=source.tokens[first].start, references=references)


def rewritten(select: SparkSelect, words: Mapping[int, str]) -> str:
    """The SELECT in which the references with a word, by their place, are called by it; others stay as they are.

    Raises `BadStatement` if `database.table.column` could mean columns of two tables.
    """
    edits: list[tuple[int, int, str]] = []
    renamed = [select.references[place] for place in words]
    for place, word in words.items():
        one = select.references[place]
        edits.append((one.start, one.end, f"`{word}`"))
        if not one.has_alias:
            edits.append((one.alias_at, one.alias_at, f" AS `{one.alias}`"))
    edits += _shorter_columns(select, renamed)
    text, at = "", select.start
    for start, end, by in sorted(edits):
        text += select.source.text[at:start] + by
        at = end
    return text + select.source.text[at : select.source.tokens[-1].end + 1]


def names_of(column: exp.Column, reference: Reference) -> bool:
    """Whether the column is written as `database.table.column` of that reference."""
    written = (fold(column.db), fold(column.table))
    return not reference.has_alias and written == (fold(reference.name.database), fold(reference.name.table))


def _is_read(table: exp.Table) -> bool:
    """Whether it stands behind FROM or JOIN, and not in a hint."""
    around = table.parent
    while isinstance(around, exp.Subquery | exp.Paren | exp.Table):
        around = around.parent
    return isinstance(around, exp.From | exp.Join)


def _is_qualified(table: exp.Table) -> bool:
    """Whether it is `database.table`, in letters that such a name can have: Spark reads others, such as a path."""
    parts = table.parts
    named = all(isinstance(part, exp.Identifier) and IDENTIFIER.fullmatch(part.name) for part in parts)
    return named and len(parts) == 2


def _reference(source: Source, table: exp.Table, places: Mapping[int, int]) -> Reference:
    database, name = table.parts
    place = places.get(_start(database), -1)
    if place < 0 or source.forms[place + 1] != "." or source.tokens[place + 2].start != _start(name):
        raise source.bad(f"the name of the table {database.name}.{name.name} can't be found in the text")
    start, at = source.tokens[place].start, place + 3
    revision, time = None, None
    if table.args.get("version"):
        at, revision, time = _version(source, at)
    end = source.tokens[at - 1].end + 1
    if table.args.get("sample"):
        at = _behind_sample(source, at)
    return Reference(
        name=TableName(database.name, name.name),
        alias=table.alias or name.name,
        has_alias=bool(table.alias),
        node=table,
        start=start,
        end=end,
        alias_at=source.tokens[at - 1].end + 1,
        revision=revision,
        time=time,
    )


def _version(source: Source, at: int) -> tuple[int, int | None, str | None]:
    """Where `[FOR] VERSION AS OF 7` ends, and what it says. Raises `BadStatement`."""
    forms = source.forms
    at += forms[at] == "FOR"
    kind = forms[at]
    if kind not in _VERSIONS or forms[at + 1 : at + 3] != ("AS", "OF") or at + 3 >= len(forms):
        raise source.bad("VERSION AS OF or TIMESTAMP AS OF is expected", source.tokens[at].start)
    value = source.tokens[at + 3]
    if kind == "VERSION":
        if not (forms[at + 3] in {"9", "'"} and value.text.isascii() and value.text.isdigit()):
            raise source.bad("the number of a revision is expected, such as VERSION AS OF 12", value.start)
        return at + 4, int(value.text), None
    if forms[at + 3] != "'":
        raise source.bad("a time in quotes is expected, such as TIMESTAMP AS OF '2026-06-15T12:30:00Z'", value.start)
    return at + 4, None, value.text


def _behind_sample(source: Source, at: int) -> int:
    """The token behind `TABLESAMPLE (..) [REPEATABLE (..)]`."""
    while at < len(source.forms) and source.forms[at] in {"TABLESAMPLE", "REPEATABLE"}:
        depth, at = 0, at + 1
        while at < len(source.forms):
            depth += (source.forms[at] == _OPEN) - (source.forms[at] == _SHUT)
            at += 1
            if depth == 0:
                break
    return at


def _shorter_columns(select: SparkSelect, renamed: list[Reference]) -> Iterator[tuple[int, int, str]]:
    """The edits that leave out the database of `database.table.column`."""
    for column in select.tree.find_all(exp.Column):
        database, table = column.args.get("db"), column.args.get("table")
        if not isinstance(database, exp.Identifier) or not isinstance(table, exp.Identifier) or column.catalog:
            continue
        if not any(names_of(column, one) for one in renamed):
            continue
        alike = {fold(one.name.database) for one in renamed if fold(one.alias) == fold(table.name)}
        if len(alike) > 1:
            raise BadStatement(
                f"{database.name}.{table.name}.{column.name}: two tables of the SELECT are called {table.name}",
                hint="give each an alias: FROM database.table AS a",
            )
        yield _start(database), _start(table), ""


def _start(node: exp.Expr) -> int:
    """Where it begins in the text."""
    return int(node.meta.get("start", -1))
