"""The names in a SELECT: resolves each column to its table, expands `*`, and renames tables for an engine.

For the SELECTs of views, which are bound when the view is made, and for those that people type.
"""

import contextlib
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from sqlglot import exp
from sqlglot.errors import ErrorLevel, OptimizeError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.schema import MappingSchema

from leasehold.core.words.nearest import nearest
from leasehold.core.words.statements import fold
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadStatement, NotFound, Refused
from leasehold.sql.front import FOREIGN_ERRORS

Engine: TypeAlias = Literal["spark", "duckdb"]
"""An engine for SELECTs, by the name of its dialect."""
Names: TypeAlias = Mapping[tuple[str, str], Mapping[str, str]]
"""The columns of each table and view that is read, in order, with their types if known; all names are folded."""

DIALECT: Final = "spark"
"""The dialect of SELECTs as they are written and stored."""
TABLES_HINT: Final = "name every table as database.table, and every column of two tables as table.column"

_REFUSED: Final[Mapping[type[exp.Expr], str]] = {
    exp.Anonymous: "a function that is not known here",
    exp.AnonymousAggFunc: "a function that is not known here",
    exp.Hint: "a hint",
    exp.Into: "INTO",
    exp.Lock: "FOR UPDATE",
    exp.Parameter: "a parameter",
    exp.Pivot: "PIVOT",
    exp.Placeholder: "a parameter",
    exp.QueryTransform: "TRANSFORM",
    exp.SessionParameter: "a parameter",
    exp.Version: "the version of a table",
}
"""What can't be checked, reads anything but tables, or depends on the user who runs it."""
OF_THE_ENGINE: Final = (
    exp.CurrentUser,
    exp.SessionUser,
    exp.CurrentRole,
    exp.CurrentDatabase,
    exp.CurrentSchema,
    exp.CurrentCatalog,
    exp.CurrentVersion,
    exp.ReadCSV,
    exp.ReadParquet,
)
"""What an engine would answer about itself and its own user, or read from files."""

_NOT_BY_POSITION: Final = ("by_name", "side", "kind", "on")
"""How a UNION may match its branches other than column by column."""
_UNKNOWN: Final = re.compile(
    r"(?:Column '\"?|Unknown column: \"?)([^'\"]*)(?:\"?' could not be resolved for table: '([^']*)')?"
)
"""How sqlglot names the column that it did not find, and the table before its dot."""


@contextlib.contextmanager
def sqlglot_reads(what: str) -> Generator[None]:
    """Turns sqlglot's errors into `BadStatement`; `what` is what it reads, such as `the SELECT`."""
    try:
        yield
    except RecursionError as error:
        raise BadStatement(f"{what} is too complex", hint="split it into several views") from error
    except FOREIGN_ERRORS as error:
        raise BadStatement(f"{what} can't be parsed", hint=TABLES_HINT) from error


# ---------------------------------------------------------------- before names are resolved


def unsupported_part(tree: exp.Query) -> tuple[str, exp.Expr] | None:
    """The first part of a SELECT that can't be bound: its name, and its node."""
    for node in tree.walk():
        what = _refused(node)
        if what is not None:
            return what, node.parent if isinstance(node, exp.Star) and node.parent else node
    return None


def _refused(node: exp.Expr) -> str | None:
    match node:
        case exp.Table() if not isinstance(node.this, exp.Identifier):
            return "a function in FROM"
        case exp.Star() if not _is_written_out(node):
            return "* other than as columns of a SELECT, or in COUNT(*),"
        case exp.Join(method="NATURAL"):
            return "NATURAL, which depends on columns to come,"
        case exp.SetOperation() if any(node.args.get(one) for one in _NOT_BY_POSITION):
            return "columns matched by name"
        case _ if isinstance(node, OF_THE_ENGINE):
            return "what an engine tells of itself"
        case _:
            return _REFUSED.get(type(node))


def _is_written_out(star: exp.Star) -> bool:
    """Whether the star can be expanded to columns, or stands for none, as in COUNT(*)."""
    if isinstance(star.parent, exp.Count):
        return not any(star.args.values()) and not star.parent.expressions
    whole = star.parent if isinstance(star.parent, exp.Column) else star
    return isinstance(whole.parent, exp.Select) and whole.arg_key == "expressions"


def first_select(tree: exp.Query) -> exp.Query:
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    return tree


def spellings(tree: exp.Query, columns: Iterable[str]) -> dict[str, str]:
    """Names as they were written, by their folded form: those in the SELECT, else the `columns` that it reads."""
    found = {fold(column): column for column in columns}
    found |= {fold(alias.alias): alias.alias for alias in tree.find_all(exp.Alias)}
    own = (select.output_name for select in first_select(tree).selects if not select.is_star)
    return found | {fold(name): name for name in own}


# ---------------------------------------------------------------- names


def qualified(tree: exp.Query, names: Names) -> exp.Query:
    """The SELECT with every name in full and `*` expanded.

    Raises `NotFound` with code NO_SUCH_COLUMN, `BadStatement`, or `Refused` with code COLUMN_COUNT for a UNION of
    SELECTs with different numbers of columns.
    """
    columns: dict[str, dict[str, dict[str, str]]] = {}
    for (database, relation), own in names.items():
        columns.setdefault(database, {})[relation] = dict.fromkeys(own, "UNKNOWN")
    schema: dict[str, object] = {**columns}
    try:
        whole = qualify(tree, schema=MappingSchema(schema, dialect=DIALECT), dialect=DIALECT)
    except OptimizeError as error:
        raise _unresolved(str(error), names) from error
    assert isinstance(whole, exp.Query)
    for several in whole.find_all(exp.SetOperation):
        left, right = (len(first_select(one).selects) for one in (several.left, several.right))
        if left != right:
            raise Refused(
                f"the SELECTs of a UNION have {left} and {right} columns",
                code=ErrorCode.COLUMN_COUNT,
                hint="name as many columns in each of them",
            )
    return whole


def _unresolved(said: str, names: Names) -> Refused:
    """Our error for sqlglot's message."""
    match = _UNKNOWN.search(said)
    hint = _columns_hint(names)
    if match is not None:
        column = match[1][:100]
        within = [".".join(key) for key, own in names.items() if fold(column) in own]
        if match[2]:
            text = f"the SELECT reads no {match[2][:100]!r} with a column {column!r}"
        elif len(within) > 1:
            text, hint = f"column {column!r} is in {' and in '.join(within)}", f"write table.{column}"
        else:
            meant = nearest(column, (one for own in names.values() for one in own))
            text, hint = f"nothing that the SELECT reads has a column {column!r}", f"{meant} {hint}".lstrip()
        return NotFound(text, code=ErrorCode.NO_SUCH_COLUMN, hint=hint)
    text = "in the SELECT: " + said.split(" Line:", maxsplit=1)[0].rstrip(". ")[:300]
    if "olumn" in text:
        return NotFound(text, code=ErrorCode.NO_SUCH_COLUMN, hint=hint)
    return BadStatement(text, hint=hint)


def _columns_hint(names: Names) -> str:
    if not names:
        return TABLES_HINT
    said = "; ".join(f"{'.'.join(key)} has {', '.join(own)}" for key, own in names.items())
    return (said if len(said) <= 500 else f"{said[:498]}..") + f"; {TABLES_HINT}"


def columns_read(tree: exp.Query) -> Iterator[tuple[tuple[str, str], str]]:
    """Each table or view and column that a qualified SELECT names, folded; as often as it names them."""
    for scope in traverse_scope(tree):
        for column in scope.columns:
            source = source_of(scope, column.table)
            if isinstance(source, exp.Table):
                yield (source.db, source.name), fold(column.name)


def source_of(scope: Scope, name: str) -> exp.Expr | Scope | None:
    """The source that a name before a dot means: of this SELECT, else of an outer one."""
    around: Scope | None = scope
    while name and around is not None:
        if name in around.sources:
            return around.sources[name]
        around = around.parent
    return None


# ---------------------------------------------------------------- for an engine


def words(names: Iterable[str], unique: str) -> dict[str, str]:
    """A word for each table and view; it contains `unique`, so that no SELECT uses it for something else."""
    return {name: f"leasehold_{unique}_{place}" for place, name in enumerate(names)}


def written_for(tree: exp.Query, called: Mapping[str, str], engine: Engine) -> str:
    """The SELECT in the dialect of an engine; `called` has the word for each `database.name`. Changes `tree`.

    Raises sqlglot's UnsupportedError for what the engine can't express.
    """
    folded = {fold(name): word for name, word in called.items()}
    for table in list(tree.find_all(exp.Table)):
        if table.db:
            table.set("this", exp.to_identifier(folded[fold(f"{table.db}.{table.name}")], quoted=True))
            table.set("db", None)
    return tree.sql(engine, unsupported_level=ErrorLevel.RAISE)
