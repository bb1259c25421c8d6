"""What a person sees of a catalog, as a plain dictionary: the words that the model of it and a view are compared in."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from leasehold.core.catalog.catalog import Catalog, live_fields
from leasehold.core.words.records import UseState
from leasehold.core.words.records.principals import PrincipalKind
from leasehold.core.words.statements import fold

RowKey: TypeAlias = tuple[str, ...]
"""`("database", d)`, `("table", d, t)`, `("view", d, v)`, `("principal", p)`, `("grant", p, *key of what it is on)`."""
CLUSTER: Final[RowKey] = ("cluster",)


class Column(NamedTuple):
    """A column as DESCRIBE shows it."""

    name: str
    type: str
    nullable: bool
    default: str | None
    comment: str


class DatabaseRow(NamedTuple):
    """A database."""

    comment: str
    properties: frozenset[tuple[str, str]]


class TableRow(NamedTuple):
    """A table."""

    columns: tuple[Column, ...]
    ttl_ns: int | None
    properties: frozenset[tuple[str, str]]
    comment: str


class ViewRow(NamedTuple):
    """A view; `reads` are the keys of what it reads."""

    columns: tuple[str, ...]
    reads: frozenset[RowKey]
    comment: str


class Principal(NamedTuple):
    """A user or role, with the roles it has, by name."""

    kind: PrincipalKind
    roles: frozenset[str]


CatalogRows: TypeAlias = Mapping[RowKey, Any]


def shown_by(catalog: Catalog) -> dict[RowKey, Any]:
    """What a catalog shows of all this: only what is in use."""
    found: dict[RowKey, Any] = {}
    named: dict[int, RowKey] = {0: CLUSTER}
    for database in catalog.databases.values():
        if database.state is UseState.IN_USE:
            named[database.id] = ("database", fold(database.name))
            found[named[database.id]] = DatabaseRow(database.comment, frozenset(database.properties.items()))
    for table in catalog.tables.values():
        if table.state is UseState.IN_USE and table.database in named:
            named[table.id] = ("table", named[table.database][1], fold(table.name))
            columns = tuple(
                Column(one.name, one.type, one.nullable, one.default, one.comment) for one in live_fields(table)
            )
            found[named[table.id]] = TableRow(columns, table.ttl_ns, frozenset(table.properties.items()), table.comment)
    views = [view for view in catalog.views.values() if view.state is UseState.IN_USE and view.database in named]
    named.update((view.id, ("view", named[view.database][1], fold(view.name))) for view in views)
    for view in views:
        reads = frozenset(named.get(need.object, ("nothing", str(need.object))) for need in view.needs)
        found[named[view.id]] = ViewRow(tuple(one.name for one in view.columns), reads, view.comment)
    found.update(_principals(catalog, named))
    return found


def _principals(catalog: Catalog, named: Mapping[int, RowKey]) -> dict[RowKey, Any]:
    found: dict[RowKey, Any] = {}
    in_use = {one.id: one for one in catalog.principals.values() if one.state is UseState.IN_USE}
    for one in in_use.values():
        roles = frozenset(fold(in_use[role].name) for role in one.roles if role not in one.leaving and role in in_use)
        found["principal", fold(one.name)] = Principal(one.kind, roles)
    for grants in catalog.grants.values():
        for grant in grants.values():
            rights = frozenset(grant.rights) - frozenset(grant.leaving)
            if rights and grant.principal in in_use and grant.object in named:
                found[("grant", fold(in_use[grant.principal].name), *named[grant.object])] = rights
    return found
