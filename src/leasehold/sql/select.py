"""A typed SELECT: parsed, bound to the columns of the tables that it names, and written for DuckDB.

It is in Spark's SQL, as the SELECTs of views are. What only Spark can run, or what DuckDB would silently ignore (SORT
BY), is refused with the line that runs it in Spark.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlglot import exp
from sqlglot.errors import UnsupportedError

from leasehold.core.words.statements import TableName, fold
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadStatement, NotFound, Refused
from leasehold.sql.binder import (
    DIALECT,
    OF_THE_ENGINE,
    columns_read,
    first_select,
    qualified,
    spellings,
    sqlglot_reads,
    unsupported_part,
    written_for,
)
from leasehold.sql.front import FOREIGN_ERRORS, Source, read
from leasehold.sql.query import typed_query
from leasehold.sql.view_size import check_size

_NAME: Final = re.compile(r"\s*(\w+)\.(\w+)\s*")
_SHOWN: Final = 300
"""Characters of a SELECT in a hint."""
_NAME_SHOWN: Final = 60
"""Characters of an expression that is the name of its column."""
_SPARKS: Final[Mapping[type[exp.Expr], str]] = {
    exp.Sort: "SORT BY",
    exp.Distribute: "DISTRIBUTE BY",
    exp.Cluster: "CLUSTER BY",
}
"""Clauses about partitions, which only Spark has."""


@dataclass(frozen=True, kw_only=True)
class Select:
    """A SELECT as it was read; `reads` are the tables and views that it names, each once."""

    source: Source
    tree: exp.Query
    reads: tuple[TableName, ...]
    cluster: str


class BoundSelect(NamedTuple):
    """A SELECT with every name in full, the names of its columns, and the folded columns that it reads of each table
    and view."""

    select: Select
    tree: exp.Query
    names: tuple[str, ...]
    columns: Mapping[tuple[str, str], frozenset[str]]


def read_select(text: str, *, cluster: str) -> Select:
    """The one SELECT in `text`, or all rows of the table or view that it names. Hints name the `cluster`.

    Raises `BadStatement`, or `Refused` with code BAD_IDENTIFIER, SELECT_TOO_LONG, NOT_ON_THIS_ENGINE.
    """
    named = _NAME.fullmatch(text)
    source = read(f"SELECT * FROM `{named[1]}`.`{named[2]}`" if named else text)  # noqa: S608 - two plain words

    def sparks(tree: exp.Query, what: str) -> Refused:
        return not_here(what, tree, cluster)

    tree, reads = typed_query(source, sparks)
    _check_parts(source, tree, sparks)
    return Select(source=source, tree=tree, reads=reads, cluster=cluster)


def _check_parts(source: Source, tree: exp.Query, sparks: Callable[[exp.Query, str], Refused]) -> None:
    for node in tree.walk():
        if isinstance(node, OF_THE_ENGINE):
            raise source.bad(f"{node.sql(DIALECT)[:_NAME_SHOWN]} is not valid here")
        if isinstance(node, exp.Lateral):
            raise sparks(tree, "LATERAL VIEW")
        clause = _SPARKS.get(type(node))
        if clause is not None:
            raise sparks(tree, clause)
    found = unsupported_part(tree)
    if found is not None:
        raise sparks(tree, f"{found[0]} ({found[1].sql(DIALECT)[:_NAME_SHOWN]})")


def not_here(what: str, tree: exp.Query, cluster: str) -> Refused:
    """The error for what DuckDB can't run, with the line that runs it in Spark."""
    return Refused(
        f"this SELECT can't run here, in DuckDB: {what}",
        code=ErrorCode.NOT_ON_THIS_ENGINE,
        hint=spark_line(tree, cluster),
    )


def spark_line(tree: exp.Query, cluster: str) -> str:
    """The line of Python that runs a SELECT in Spark."""
    try:
        text = tree.sql(DIALECT)
    except FOREIGN_ERRORS:
        text = "SELECT .."
    text = text if len(text) <= _SHOWN else text[:_SHOWN] + ".."
    return (
        f'in Python: import leasehold.spark; spark = leasehold.spark.session(cluster="{cluster}");'
        f" leasehold.spark.sql(spark, {text!r}).show()"
    )


# ---------------------------------------------------------------- names


def bind(select: Select, relations: Mapping[tuple[str, str], Sequence[str]]) -> BoundSelect:
    """The SELECT with its names resolved; `relations` are the columns of all that it names, by folded names.

    Raises `NotFound` with code NO_SUCH_COLUMN, `BadStatement`, or `Refused` (COLUMN_COUNT, TOO_MANY_COLUMNS,
    SELECT_TOO_LONG).
    """
    tree = select.tree.copy()
    names = {key: {fold(column): "" for column in own} for key, own in relations.items()}
    columns: dict[tuple[str, str], set[str]] = {key: set() for key in names}
    try:
        with sqlglot_reads("the SELECT"):
            check_size(tree, {key: len(one) for key, one in names.items()})
            _name_columns(tree)
            shown = spellings(tree, (column for own in relations.values() for column in own))
            tree = qualified(tree, names)
            _check_stars(select.source, tree)
            for key, column in columns_read(tree):
                columns[key].add(column)
    except NotFound as error:
        raise _placed(error, select.source) from error
    return BoundSelect(
        select=select,
        tree=tree,
        names=tuple(shown.get(fold(name), name) for name in tree.named_selects),
        columns={key: frozenset(own) for key, own in columns.items()},
    )


def _name_columns(tree: exp.Query) -> None:
    """Names each unnamed column by its expression, such as COUNT(*)."""
    for select in first_select(tree).selects:
        if not select.is_star and not select.output_name:
            name = select.sql(DIALECT)
            select.replace(exp.alias_(select.copy(), name[:_NAME_SHOWN], quoted=True))


def _check_stars(source: Source, tree: exp.Query) -> None:
    """Raises `NotFound` for a star that was not expanded: its table is not there."""
    for star in tree.find_all(exp.Star):
        if star.parent is not None and not isinstance(star.parent, exp.Count):
            text = f"the SELECT reads no table or view of that name: {star.parent.sql(DIALECT)[:_NAME_SHOWN]}"
            raise NotFound(text, code=ErrorCode.NO_SUCH_COLUMN, hint=source.hint)


def _placed(error: NotFound, source: Source) -> NotFound:
    """The error with the place of the missing column: that of the first word like it."""
    named = error.text.rsplit("'", 2)
    if len(named) == 3:
        for token in source.tokens:
            if fold(token.text) == fold(named[1]):
                return NotFound(f"{error.text} {source.place(token.start)}", code=error.code, hint=error.hint)
    return error


# ---------------------------------------------------------------- for DuckDB


def written(bound: BoundSelect, called: Mapping[str, str]) -> str:
    """The SELECT in DuckDB's dialect; `called` has the word for each `database.name`.

    Raises `Refused` with code NOT_ON_THIS_ENGINE.
    """
    try:
        return written_for(bound.tree.copy(), called, "duckdb")
    except UnsupportedError as error:
        raise not_here(str(error)[:_SHOWN], bound.select.tree, bound.select.cluster) from error
    except FOREIGN_ERRORS as error:
        raise BadStatement("the SELECT is too complex to run", hint="split it into several views") from error


def key_of(name: str) -> tuple[str, str]:
    database, _, relation = name.partition(".")
    return fold(database), fold(relation)
