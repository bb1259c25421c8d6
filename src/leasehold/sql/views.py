"""The SELECT of a view: checked against a catalog when the view is made, and written for an engine when it is read.

What is stored names every table and column in full, `*` written out, so that it means the same whatever is added to the
tables later. Its columns are called, in order, what the view's record says: those names are unique and ours, while the
names in the text are only what the text itself needs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from sqlglot import exp, parse_one
from sqlglot.errors import ErrorLevel, OptimizeError, UnsupportedError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.schema import MappingSchema

from leasehold.core.catalog import Catalog, live_fields
from leasehold.core.plan import ResolvedView
from leasehold.core.records import Need, TableRecord, ViewColumn, ViewRecord
from leasehold.core.statements import CreateView, TableName, fold
from leasehold.core.types import parse_type
from leasehold.errors import BadStatement, NotFound, Refused
from leasehold.ids import FieldId, ObjectId
from leasehold.limits import COLUMNS_MAX
from leasehold.sql.front import FOREIGN_ERRORS, check_name
from leasehold.sql.view_size import check_size

Engine: TypeAlias = Literal["spark", "duckdb"]
"""What runs a body, by the name of its dialect."""

_DIALECT: Final = "spark"
_TABLES_HINT: Final = "name every table as database.table, and every column of two tables as table.column"
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
"""What has no place in a view: it can't be checked, reaches outside of the tables, or depends on who runs it."""

_NOT_BY_POSITION: Final = ("by_name", "side", "kind", "on")
"""How the branches of a UNION may be matched otherwise than column by column."""

_Relation: TypeAlias = TableRecord | ViewRecord
_Names: TypeAlias = Mapping[tuple[str, str], Mapping[str, str]]
"""Of each table and view that is read: its columns by their folded names, in order, and types where those are known."""


def resolve(statement: CreateView, catalog: Catalog) -> ResolvedView:
    """What the body comes to on a catalog: the text to store, the columns, and what it reads.

    May take seconds. Raises `NotFound` for a table or column that is not there, `BadStatement` or `Refused`
    (NOT_IN_A_VIEW, NO_COLUMN_NAME, COLUMN_COUNT, DUPLICATE_COLUMN, TOO_MANY_COLUMNS, VIEW_TOO_LONG, BAD_IDENTIFIER).
    """
    relations = {_key(name): _relation(name, catalog) for name in statement.reads}
    try:
        names = {key: _names(one) for key, one in relations.items()}
        tree = _read(statement.body)
        _check_parts(tree)
        check_size(tree, {key: len(one) for key, one in names.items()})
        if not statement.names:
            _check_named(tree)
        spellings = _spellings(tree, relations)
        tree = _qualified(tree, names)
        _check_branches(tree)
        needs = _needs(tree, relations)
        columns = _columns(
            [spellings.get(fold(name), name) for name in tree.named_selects], _types(tree, names), statement.names
        )
        body = tree.sql(_DIALECT, comments=False)
    except RecursionError as error:
        raise BadStatement("the SELECT of the view is too entangled to be read", hint="make several views") from error
    except FOREIGN_ERRORS as error:
        raise BadStatement("the SELECT of the view can't be understood", hint=_TABLES_HINT) from error
    return ResolvedView(body=body, columns=columns, needs=needs)


def words(names: Iterable[str], unique: str) -> dict[str, str]:
    """A word for each table and view, with `unique` in it: no SELECT uses it for something else."""
    return {name: f"leasehold_{unique}_{place}" for place, name in enumerate(names)}


def written(body: str, words: Mapping[str, str], engine: Engine) -> str:
    """A stored body for an engine, each table and view called by the one word that `words` has for `database.name`.

    Raises `Refused` with code NOT_ON_THIS_ENGINE for what the engine has no words for.
    """
    called = {fold(name): word for name, word in words.items()}
    tree = _read(body)
    for table in list(tree.find_all(exp.Table)):
        if table.db:
            table.set("this", exp.to_identifier(called[fold(f"{table.db}.{table.name}")], quoted=True))
            table.set("db", None)
    try:
        return tree.sql(engine, unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError as error:
        raise Refused(
            f"{engine} can't run the view: {str(error)[:200]}", code="NOT_ON_THIS_ENGINE", hint=_other(engine)
        ) from error


def _other(engine: Engine) -> str:
    return "read it with leasehold.spark.view" if engine == "duckdb" else "write the view in other words"


def _read(body: str) -> exp.Query:
    try:
        tree = parse_one(body, dialect=_DIALECT)
    except RecursionError as error:
        raise BadStatement("the SELECT of the view is too entangled to be read", hint="make several views") from error
    except FOREIGN_ERRORS as error:
        raise BadStatement("the SELECT of the view can't be understood", hint=_TABLES_HINT) from error
    if not isinstance(tree, exp.Query) or not tree.selects:
        raise BadStatement("the body of a view is one SELECT", hint="CREATE VIEW database.view AS SELECT ..")
    return tree


# ---------------------------------------------------------------- before names are resolved


def _key(name: TableName) -> tuple[str, str]:
    return fold(name.database), fold(name.table)


def _relation(name: TableName, catalog: Catalog) -> _Relation:
    return catalog.find_view(name) or catalog.table(name)


def _names(relation: _Relation) -> dict[str, str]:
    if isinstance(relation, TableRecord):
        return {fold(field.name): field.type for field in live_fields(relation)}
    return {fold(column.name): column.type for column in relation.columns}


def _check_parts(tree: exp.Query) -> None:
    """Raises `Refused` with code NOT_IN_A_VIEW."""
    for node in tree.walk():
        what = _refused(node)
        if what is not None:
            shown = node.parent if isinstance(node, exp.Star) and node.parent else node
            text = f"{what} ({shown.sql(_DIALECT)[:80]}) can't stand in a view"
            raise Refused(text, code="NOT_IN_A_VIEW", hint="a view is made of tables, columns and known functions")


def _refused(node: exp.Expr) -> str | None:
    """What it is that can't stand in a view."""
    match node:
        case exp.Table() if not isinstance(node.this, exp.Identifier):
            return "a function in FROM"
        case exp.Star() if not _is_written_out(node):
            return "* other than as columns of a SELECT, or in COUNT(*),"
        case exp.Join(method="NATURAL"):
            return "NATURAL, which depends on columns to come,"
        case exp.SetOperation() if any(node.args.get(one) for one in _NOT_BY_POSITION):
            return "columns matched by name"
        case _:
            return _REFUSED.get(type(node))


def _is_written_out(star: exp.Star) -> bool:
    """Whether it stands for columns that are named in its place, or for none, as in COUNT(*)."""
    if isinstance(star.parent, exp.Count):
        return not any(star.args.values()) and not star.parent.expressions
    whole = star.parent if isinstance(star.parent, exp.Column) else star
    return isinstance(whole.parent, exp.Select) and whole.arg_key == "expressions"


def _check_branches(tree: exp.Query) -> None:
    """Raises `Refused` with code COLUMN_COUNT unless all SELECTs of each UNION are as wide."""
    for several in tree.find_all(exp.SetOperation):
        left, right = (len(_first(one).selects) for one in (several.left, several.right))
        if left != right:
            raise Refused(
                f"the SELECTs of a UNION have {left} and {right} columns",
                code="COLUMN_COUNT",
                hint="name as many columns in each of them",
            )


def _check_named(tree: exp.Query) -> None:
    for place, select in enumerate(_first(tree).selects, start=1):
        if not select.is_star and not select.output_name:
            raise Refused(
                f"column {place} of the view has no name: {select.sql(_DIALECT)[:80]}",
                code="NO_COLUMN_NAME",
                hint="write AS name after it, or all names after the view's: CREATE VIEW d.v (a, b) AS ..",
            )


def _first(tree: exp.Query) -> exp.Query:
    """The SELECT that names the columns: the first of a UNION."""
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    return tree


def _spellings(tree: exp.Query, relations: Mapping[tuple[str, str], _Relation]) -> dict[str, str]:
    """Names as somebody wrote them, by their folded form: the view's own words first, then the tables'."""
    spellings: dict[str, str] = {}
    for relation in relations.values():
        columns = live_fields(relation) if isinstance(relation, TableRecord) else relation.columns
        spellings |= {fold(column.name): column.name for column in columns}
    spellings |= {fold(alias.alias): alias.alias for alias in tree.find_all(exp.Alias)}
    own = (select.output_name for select in _first(tree).selects if not select.is_star)
    return spellings | {fold(name): name for name in own}


# ---------------------------------------------------------------- names


def _qualified(tree: exp.Query, names: _Names) -> exp.Query:
    columns: dict[str, dict[str, dict[str, str]]] = {}
    for (database, relation), own in names.items():
        columns.setdefault(database, {})[relation] = dict.fromkeys(own, "UNKNOWN")
    schema: dict[str, object] = {**columns}
    try:
        whole = qualify(tree, schema=MappingSchema(schema, dialect=_DIALECT), dialect=_DIALECT)
    except OptimizeError as error:
        text = "in the SELECT of the view: " + str(error).split(" Line:", maxsplit=1)[0].rstrip(". ")[:300]
        hint = _columns_hint(names)
        if "olumn" in text:
            raise NotFound(text, code="NO_SUCH_COLUMN", hint=hint) from error
        raise BadStatement(text, hint=hint) from error
    assert isinstance(whole, exp.Query)
    return whole


def _columns_hint(names: _Names) -> str:
    if not names:
        return _TABLES_HINT
    said = "; ".join(f"{'.'.join(key)} has {', '.join(own)}" for key, own in names.items())
    return (said if len(said) <= 500 else f"{said[:498]}..") + f"; {_TABLES_HINT}"


def _needs(tree: exp.Query, relations: Mapping[tuple[str, str], _Relation]) -> tuple[Need, ...]:
    """Each table and view that is read, in the order of their numbers, with the columns that are named of a table."""
    fields: dict[ObjectId, set[FieldId]] = {one.id: set() for one in relations.values()}
    ids = {
        one.id: {fold(field.name): field.id for field in live_fields(one)}
        for one in relations.values()
        if isinstance(one, TableRecord)
    }
    for scope in traverse_scope(tree):
        for column in scope.columns:
            source = _source(scope, column.table)
            if isinstance(source, exp.Table):
                relation = relations[source.db, source.name]
                if relation.id in ids:
                    fields[relation.id].add(ids[relation.id][fold(column.name)])
    return tuple(Need(object=one, fields=tuple(sorted(fields[one]))) for one in sorted(fields))


def _source(scope: Scope, name: str) -> exp.Expr | Scope | None:
    """What a name before a dot stands for: a source of this SELECT, else of one around it."""
    around: Scope | None = scope
    while name and around is not None:
        if name in around.sources:
            return around.sources[name]
        around = around.parent
    return None


# ---------------------------------------------------------------- columns


def _types(tree: exp.Query, names: _Names) -> list[str]:
    """The type of each column where every engine agrees on it: a column as it is, a CAST, a COUNT. Else empty."""
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
    """Every SELECT of a UNION."""
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
    names: _Names,
) -> str:
    match value:
        case exp.Column():
            source = _source(scope, value.table)
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
    """A type as `core.types` spells it; empty for one that is not ours."""
    text = kind.sql(_DIALECT).replace(", ", ",")
    try:
        parse_type(text)
    except Refused:
        return ""
    return text


def _columns(names: Sequence[str], types: Sequence[str], given: tuple[str, ...]) -> tuple[ViewColumn, ...]:
    if given and len(given) != len(names):
        raise Refused(
            f"the view is given {len(given)} names, and its SELECT has {len(names)} columns",
            code="COLUMN_COUNT",
            hint="give each column one name",
        )
    if len(names) > COLUMNS_MAX:
        raise Refused(
            f"{len(names)} columns, over {COLUMNS_MAX}", code="TOO_MANY_COLUMNS", hint="name the columns instead of *"
        )
    columns: dict[str, ViewColumn] = {}
    for name, kind in zip(given or names, types, strict=True):
        if fold(name) in columns:
            raise Refused(
                f"the view would have two columns {name[:100]}",
                code="DUPLICATE_COLUMN",
                hint="write AS name after one of them; upper and lower case don't tell names apart",
            )
        columns[fold(name)] = ViewColumn(name=check_name(name), type=kind)
    return tuple(columns.values())
