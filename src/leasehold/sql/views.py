"""The SELECT of a view: checked against a catalog when the view is made, and written for an engine when it is read.

The stored text names every table and column in full and has no `*`, so that columns that are added later don't change
it. The names of the view's columns are in its record, in the same order, and not in the text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlglot import exp, parse_one
from sqlglot.errors import UnsupportedError
from sqlglot.optimizer.scope import Scope, traverse_scope

from leasehold.core.catalog.catalog import Catalog, live_fields
from leasehold.core.catalog.plan import ResolvedView
from leasehold.core.words.records import Field, Need, TableRecord, ViewColumn, ViewRecord
from leasehold.core.words.statements import CreateView, TableName, fold
from leasehold.core.words.types import parse_type
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadStatement, LeaseholdError, Refused
from leasehold.ids import FieldId, ObjectId
from leasehold.limits.statements import COLUMNS_MAX
from leasehold.sql.binder import (
    DIALECT,
    Engine,
    Names,
    columns_read,
    first_select,
    qualified,
    source_of,
    spellings,
    sqlglot_reads,
    unsupported_part,
    written_for,
)
from leasehold.sql.front import check_name
from leasehold.sql.view_size import check_size

_Relation: TypeAlias = TableRecord | ViewRecord
_Read: TypeAlias = tuple[ObjectId, Sequence[Field | ViewColumn]]
_WHAT: Final = "the SELECT of the view"


def resolve(statement: CreateView, catalog: Catalog) -> ResolvedView:
    """The body of a view on a catalog: the text to store, the columns, and what it reads.

    May take seconds. Raises `NotFound` for a table or column that is not there, `BadStatement` or `Refused`
    (NOT_IN_A_VIEW, NO_COLUMN_NAME, COLUMN_COUNT, DUPLICATE_COLUMN, TOO_MANY_COLUMNS, SELECT_TOO_LONG, BAD_IDENTIFIER).
    """
    relations = {_key(name): _relation(name, catalog) for name in statement.reads}
    names = {key: _names(one) for key, one in relations.items()}
    with sqlglot_reads(_WHAT):
        tree = _read(statement.body)
        _check_parts(tree)
        check_size(tree, {key: len(one) for key, one in names.items()})
        if not statement.names:
            _check_named(tree)
        shown = spellings(tree, (column for one in relations.values() for column in _shown_columns(one)))
        tree = qualified(tree, names)
        needs = _needs(tree, relations)
        columns = _columns(
            [shown.get(fold(name), name) for name in tree.named_selects], _types(tree, names), statement.names
        )
        body = tree.sql(DIALECT, comments=False)
    return ResolvedView(body=body, columns=columns, needs=needs)


@dataclass(frozen=True)
class PreparedView:
    """A view that was resolved before its statement has its turn at what it reads, or why it could not be."""

    found: ResolvedView | LeaseholdError
    reads: tuple[_Read | None, ...]

    def is_of(self, statement: CreateView, catalog: Catalog) -> bool:
        """Whether it would be the same on this catalog."""
        return self.reads == _reads(statement, catalog)

    def view(self) -> ResolvedView:
        """Raises as `resolve`."""
        if isinstance(self.found, LeaseholdError):
            raise self.found
        return self.found


def prepare(statement: CreateView, catalog: Catalog) -> PreparedView:
    reads = _reads(statement, catalog)
    try:
        return PreparedView(resolve(statement, catalog), reads)
    except LeaseholdError as error:
        error.__cause__ = error.__context__ = error.__traceback__ = None  # they would hold the syntax tree
        return PreparedView(error, reads)


def written(body: str, words: Mapping[str, str], engine: Engine) -> str:
    """A stored body in the dialect of an engine; `words` has the word for each `database.name`.

    Raises `Refused` with code NOT_ON_THIS_ENGINE for what the engine can't express.
    """
    with sqlglot_reads(_WHAT):
        tree = _read(body)
    try:
        return written_for(tree, words, engine)
    except UnsupportedError as error:
        raise Refused(
            f"{engine} can't run the view: {str(error)[:200]}", code=ErrorCode.NOT_ON_THIS_ENGINE, hint=_other(engine)
        ) from error


def _read(body: str) -> exp.Query:
    tree = parse_one(body, dialect=DIALECT)
    if not isinstance(tree, exp.Query) or not tree.selects:
        raise BadStatement("the body of a view must be one SELECT", hint="CREATE VIEW database.view AS SELECT ..")
    return tree


def _other(engine: Engine) -> str:
    return "read it with leasehold.spark.view" if engine == "duckdb" else "write the SELECT in another way"


# ---------------------------------------------------------------- before names are resolved


def _key(name: TableName) -> tuple[str, str]:
    return fold(name.database), fold(name.table)


def _relation(name: TableName, catalog: Catalog) -> _Relation:
    return catalog.find_view(name) or catalog.table(name)


def _reads(statement: CreateView, catalog: Catalog) -> tuple[_Read | None, ...]:
    """All that `resolve` uses of a catalog; None for what is not there."""
    found = (catalog.find_view(name) or catalog.find_table(name) for name in statement.reads)
    return tuple(None if one is None else (one.id, _columns_of(one)) for one in found)


def _columns_of(relation: _Relation) -> Sequence[Field | ViewColumn]:
    return live_fields(relation) if isinstance(relation, TableRecord) else relation.columns


def _names(relation: _Relation) -> dict[str, str]:
    return {fold(column.name): column.type for column in _columns_of(relation)}


def _shown_columns(relation: _Relation) -> Iterator[str]:
    return (column.name for column in _columns_of(relation))


def _check_parts(tree: exp.Query) -> None:
    """Raises `Refused` with code NOT_IN_A_VIEW."""
    found = unsupported_part(tree)
    if found is not None:
        what, shown = found
        text = f"{what} ({shown.sql(DIALECT)[:80]}) can't stand in a view"
        raise Refused(text, code=ErrorCode.NOT_IN_A_VIEW, hint="use only tables, columns and known functions in a view")


def _check_named(tree: exp.Query) -> None:
    for place, select in enumerate(first_select(tree).selects, start=1):
        if not select.is_star and not select.output_name:
            raise Refused(
                f"column {place} of the view has no name: {select.sql(DIALECT)[:80]}",
                code=ErrorCode.NO_COLUMN_NAME,
                hint="write AS name after it, or all names after the view's: CREATE VIEW d.v (a, b) AS ..",
            )


# ---------------------------------------------------------------- names


def _needs(tree: exp.Query, relations: Mapping[tuple[str, str], _Relation]) -> tuple[Need, ...]:
    """Each table and view that is read, by its number, with the columns of a table that are named."""
    fields: dict[ObjectId, set[FieldId]] = {one.id: set() for one in relations.values()}
    ids = {
        one.id: {fold(field.name): field.id for field in live_fields(one)}
        for one in relations.values()
        if isinstance(one, TableRecord)
    }
    for key, column in columns_read(tree):
        relation = relations[key]
        if relation.id in ids:
            fields[relation.id].add(ids[relation.id][column])
    return tuple(Need(object=one, fields=tuple(sorted(fields[one]))) for one in sorted(fields))


# ---------------------------------------------------------------- columns


def _types(tree: exp.Query, names: Names) -> list[str]:
    """The type of each column if all engines agree on it: for a plain column, a CAST or a COUNT. Else empty."""
    shown: dict[int, list[str]] = {}
    known: dict[int, dict[str, str]] = {}
    for scope in traverse_scope(tree):  # what a SELECT reads comes before it
        query = scope.expression
        if isinstance(query, exp.Select):
            types = [_type(one.unalias(), scope, known, names) for one in query.selects]
            shown[id(query)] = types
            known[id(query)] = dict(zip(map(fold, query.named_selects), types, strict=True))
    first, *others = (shown.get(id(one), []) for one in _branches(tree))
    return [kind if all(one[place : place + 1] == [kind] for one in others) else "" for place, kind in enumerate(first)]


def _branches(tree: exp.Expr) -> Iterator[exp.Expr]:
    rest = [tree]
    while rest:
        match rest.pop():
            case exp.SetOperation() as several:
                rest += [several.right, several.left]
            case exp.Subquery() as one:
                rest.append(one.this)
            case one:
                yield one


def _type(
    value: exp.Expr,
    scope: Scope,
    known: Mapping[int, Mapping[str, str]],
    names: Names,
) -> str:
    match value:
        case exp.Column():
            source = source_of(scope, value.table)
            if isinstance(source, exp.Table):
                return names[source.db, source.name][fold(value.name)]
            return known.get(id(source.expression), {}).get(fold(value.name), "") if isinstance(source, Scope) else ""
        case exp.Cast():
            return _spelled(value.to)
        case exp.Count():
            return "BIGINT"
        case _:
            return ""


def _spelled(kind: exp.DataType) -> str:
    """A type as `core.words.types` spells it; empty for one that is not ours."""
    text = kind.sql(DIALECT).replace(", ", ",")
    try:
        parse_type(text)
    except Refused:
        return ""
    return text


def _columns(names: Sequence[str], types: Sequence[str], given: tuple[str, ...]) -> tuple[ViewColumn, ...]:
    if given and len(given) != len(names):
        raise Refused(
            f"the view has {len(given)} names, but its SELECT has {len(names)} columns",
            code=ErrorCode.COLUMN_COUNT,
            hint="give each column one name",
        )
    if len(names) > COLUMNS_MAX:
        raise Refused(
            f"{len(names)} columns, over {COLUMNS_MAX}",
            code=ErrorCode.TOO_MANY_COLUMNS,
            hint="name the columns instead of *",
        )
    columns: dict[str, ViewColumn] = {}
    for name, kind in zip(given or names, types, strict=True):
        if fold(name) in columns:
            raise Refused(
                f"the view would have two columns {name[:100]}",
                code=ErrorCode.DUPLICATE_COLUMN,
                hint="write AS name after one of them; upper and lower case do not distinguish names",
            )
        columns[fold(name)] = ViewColumn(name=check_name(name), type=kind)
    return tuple(columns.values())
