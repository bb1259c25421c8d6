"""What a catalog shows to people: the rows of SHOW and DESCRIBE. Pure; a large catalog takes a while."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, TypeVar

import msgspec
from rpds import HashTrieMap

from leasehold.core.catalog import Catalog, live_fields
from leasehold.core.durations import render_duration
from leasehold.core.literals import render
from leasehold.core.messages import Rows
from leasehold.core.records import (
    GrantRecord,
    PrincipalKind,
    PrincipalRecord,
    TableRecord,
    UseState,
    ViewRecord,
)
from leasehold.core.statements import (
    Describe,
    DescribeDatabase,
    On,
    OnCluster,
    OnDatabase,
    OnTable,
    OnView,
    ShowDatabases,
    ShowGrants,
    ShowPrincipals,
    ShowProperties,
    ShowTables,
    ShowViews,
)
from leasehold.errors import NotFound
from leasehold.ids import BucketNumber, ObjectId, PrincipalId
from leasehold.limits.statements import ROWS_PAGE_CHARACTERS_MAX, ROWS_PAGE_MAX, SHOW_INLINE_ROWS_MAX

Row: TypeAlias = tuple[str | int | bool | None, ...]
R = TypeVar("R", TableRecord, ViewRecord)


def pages(rows: Rows) -> Iterator[Rows]:
    """The same rows in messages that are small enough; each but the last says that more follow."""
    begin = size = 0
    for number, row in enumerate(rows.rows):
        wide = sum(len(cell) for cell in row if isinstance(cell, str))
        if number > begin and (number - begin == ROWS_PAGE_MAX or size + wide > ROWS_PAGE_CHARACTERS_MAX):
            yield msgspec.structs.replace(rows, rows=rows.rows[begin:number], more=True)
            begin, size = number, 0
        size += wide
    yield msgspec.structs.replace(rows, rows=rows.rows[begin:])


def is_large(question: object, catalog: Catalog) -> bool:
    """Whether putting its rows together takes too long for a loop that grants leases."""
    match question:
        case ShowTables() if _add_up_to_many(map(catalog.segments.count, catalog.segments)):
            return True
        case ShowTables(database=database) | ShowViews(database=database) if database is not None:
            owner = catalog.find_database(database)
            rows = 0 if owner is None else len(catalog.relation_names.get(owner.id, ()))
        case ShowTables() | ShowViews():
            rows = len(catalog.tables) + len(catalog.views)
        case ShowGrants():
            return _add_up_to_many(len(granted) for granted in catalog.grants.values())
        case ShowPrincipals():
            return _add_up_to_many(1 + len(one.roles) for one in catalog.principals.values())
        case _:
            rows = 0
    return rows > SHOW_INLINE_ROWS_MAX


def _add_up_to_many(sizes: Iterable[int]) -> bool:
    """Looks at no more of them than it takes to know."""
    rows = 0
    for size in sizes:
        rows += size
        if rows > SHOW_INLINE_ROWS_MAX:
            return True
    return False


def databases(_question: ShowDatabases, catalog: Catalog) -> Rows:
    """SHOW DATABASES."""
    used = [one for one in catalog.databases.values() if one.state is UseState.IN_USE]
    return _rows(("database", "comment"), sorted((one.name, one.comment) for one in used), catalog)


def database(question: DescribeDatabase, catalog: Catalog) -> Rows:
    """DESCRIBE DATABASE."""
    found = catalog.database(question.name)
    rows = [("name", found.name), ("comment", found.comment), *sorted(found.properties.items())]
    return _rows(("key", "value"), rows, catalog)


def tables(question: ShowTables, catalog: Catalog) -> Rows:
    """SHOW TABLES, by name."""
    rows: list[Row] = []
    for owner, table in _in_use(catalog.tables, catalog, question.database):
        written = (catalog.segments.get((table.id, BucketNumber(number))) for number in range(table.buckets))
        size = sum(segment.rows for segments in written if segments is not None for segment in segments.values())
        rows.append((owner, table.name, table.buckets, table.replication, size))
    return _rows(("database", "table", "buckets", "replication", "rows"), sorted(rows), catalog)


def views(question: ShowViews, catalog: Catalog) -> Rows:
    """SHOW VIEWS, by name."""
    rows = [
        (owner, view.name, ", ".join(_needed(view, catalog)), view.comment)
        for owner, view in _in_use(catalog.views, catalog, question.database)
    ]
    return _rows(("database", "view", "reads", "comment"), sorted(rows), catalog)


def properties(question: ShowProperties, catalog: Catalog) -> Rows:
    """SHOW TBLPROPERTIES, of a view too."""
    view = catalog.find_view(question.table)
    if view is not None:
        known = {"comment": view.comment, "reads": ", ".join(_needed(view, catalog)), "select": view.body}
    else:
        known = _table_properties(catalog.table(question.table))
    return _rows(("key", "value"), sorted(known.items()), catalog)


def columns(question: Describe, catalog: Catalog) -> Rows:
    """DESCRIBE of a table or a view."""
    view = catalog.find_view(question.table)
    if view is not None:
        return _rows(("column", "type"), [(one.name, one.type) for one in view.columns], catalog)
    table = catalog.table(question.table)
    rows: list[Row] = []
    for field in live_fields(table):
        notes: list[str] = []
        if field.id == table.cluster_by:
            notes.append(f"clustered into {table.buckets} buckets")
        if field.id == table.time_column and table.ttl_ns is not None:
            notes.append(f"rows expire after {render_duration(table.ttl_ns)}")
        default = None if field.default is None else render(field.default, field.type)
        rows.append((field.name, field.type, field.nullable, default, field.comment, ", ".join(notes)))
    return _rows(("column", "type", "nullable", "default", "comment", "note"), rows, catalog)


def principals(question: ShowPrincipals, catalog: Catalog, failed_logins: Callable[[str], int]) -> Rows:
    """SHOW USERS, with the roles of each, and SHOW ROLES, with who has them."""
    used = sorted(_principals(catalog), key=lambda one: one.name)
    users = [one for one in used if one.kind is PrincipalKind.USER]
    if question.roles:
        having: dict[PrincipalId, list[str]] = {one.id: [] for one in used if one.kind is PrincipalKind.ROLE}
        for user in users:
            for role in _roles(user) & having.keys():
                having[role].append(user.name)
        rows = [(one.name, ", ".join(having[one.id])) for one in used if one.id in having]
        return _rows(("role", "users"), rows, catalog)
    names = {one.id: one.name for one in used}
    return _rows(
        ("user", "roles", "failed_logins"),
        [
            (one.name, ", ".join(sorted(names[role] for role in _roles(one) if role in names)), failed_logins(one.name))
            for one in users
        ],
        catalog,
    )


def grants(question: ShowGrants, catalog: Catalog) -> Rows:
    """SHOW GRANTS: what was granted to each, and to the roles of the one that is asked for."""
    who = None if question.principal is None else _with_roles(question.principal, catalog)
    objects = catalog.grants if question.on is None else (_object(question.on, catalog),)
    names = {one.id: one for one in _principals(catalog)}
    rows: list[Row] = []
    for object_id in objects:
        kind, name = _object_named(object_id, catalog)
        for principal, grant in catalog.grants.get(object_id, {}).items():
            held = _held(grant)
            if held and principal in names and (who is None or principal in who):
                one = names[principal]
                rows.append((one.name, one.kind.value, kind, name, held))
    return _rows(("principal", "principal_kind", "kind", "object", "rights"), sorted(rows), catalog)


# ---------------------------------------------------------------- words


def _rows(names: tuple[str, ...], rows: Iterable[Row], catalog: Catalog) -> Rows:
    return Rows(columns=names, rows=tuple(rows), revision=catalog.revision)


def _in_use(relations: "HashTrieMap[ObjectId, R]", catalog: Catalog, database: str | None) -> Iterator[tuple[str, R]]:
    """Those of one database, or of all, with the name of theirs."""
    if database is not None:
        owner = catalog.database(database)
        for one in (relations.get(number) for number in catalog.relations(owner.id)):
            if one is not None and one.state is UseState.IN_USE:
                yield owner.name, one
        return
    owners = {one.id: one.name for one in catalog.databases.values() if one.state is UseState.IN_USE}
    for one in relations.values():
        if one.state is UseState.IN_USE and one.database in owners:
            yield owners[one.database], one


def _needed(view: ViewRecord, catalog: Catalog) -> list[str]:
    found = [catalog.tables.get(need.object) or catalog.views.get(need.object) for need in view.needs]
    return sorted(str(catalog.table_name(one)) for one in found if one is not None)


def _table_properties(table: TableRecord) -> dict[str, str]:
    known = {**table.properties, "comment": table.comment, "replication": str(table.replication)}
    time_column = next((one.name for one in table.fields if one.id == table.time_column), None)
    if time_column is not None:
        known["time_column"] = time_column
    if table.ttl_ns is not None:
        known["ttl"] = render_duration(table.ttl_ns)
    return known


def _principals(catalog: Catalog) -> list[PrincipalRecord]:
    return [one for one in catalog.principals.values() if one.state is UseState.IN_USE]


def _roles(user: PrincipalRecord) -> set[PrincipalId]:
    return set(user.roles) - set(user.leaving)


def _with_roles(name: str, catalog: Catalog) -> set[PrincipalId]:
    found = catalog.find_principal(name)
    if found is None:
        raise NotFound(f"no user or role {name}", hint="SHOW USERS and SHOW ROLES list them")
    return {found.id, *_roles(found)}


def _held(grant: GrantRecord) -> str:
    return ", ".join(one.value for one in grant.rights if one not in grant.leaving)


def _object(on: On, catalog: Catalog) -> ObjectId:
    match on:
        case OnCluster():
            return ObjectId(0)
        case OnDatabase(name=name):
            return catalog.database(name).id
        case OnTable(table=name):
            return catalog.table(name).id
        case OnView(view=name):
            return catalog.view(name).id


def _object_named(object_id: ObjectId, catalog: Catalog) -> tuple[str, str]:
    if object_id in catalog.databases:
        return "DATABASE", catalog.databases[object_id].name
    if object_id in catalog.tables:
        return "TABLE", str(catalog.table_name(catalog.tables[object_id]))
    if object_id in catalog.views:
        return "VIEW", str(catalog.table_name(catalog.views[object_id]))
    return "CLUSTER", ""
