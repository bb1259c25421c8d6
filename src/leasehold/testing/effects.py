"""What each statement does to what a catalog shows: a model of its own, that shares nothing with the plans of the
production code but the parsed statements.

Raises `AssertionError`, `KeyError` or `ValueError` where a statement could not have been accepted.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from leasehold.core.words.literals import fit
from leasehold.core.words.records import Right
from leasehold.core.words.records.principals import PrincipalKind
from leasehold.core.words.statements import (
    AddColumns,
    AlterCluster,
    AlterDatabase,
    AlterNode,
    AlterProperties,
    ColumnDefinition,
    Comment,
    CreateDatabase,
    CreateRole,
    CreateTable,
    CreateToken,
    CreateUser,
    CreateView,
    Definition,
    DeleteRows,
    DropColumn,
    DropDatabase,
    DropPrincipal,
    DropTable,
    DropToken,
    DropView,
    GrantRights,
    GrantRole,
    MoveColumn,
    On,
    OnCluster,
    OnDatabase,
    OnTable,
    OnView,
    Rebalance,
    RenameColumn,
    RenamePrincipal,
    RenameTable,
    RenameView,
    Revoke,
    RevokeCertificate,
    RevokeRole,
    SetCertificate,
    SetDefault,
    SetPassword,
    TableName,
    WidenColumn,
    fold,
)
from leasehold.core.words.types import render_type
from leasehold.testing.catalog_rows import (
    CLUSTER,
    CatalogRows,
    Column,
    DatabaseRow,
    Principal,
    RowKey,
    TableRow,
    ViewRow,
)

WIDER: Final = frozenset({("SMALLINT", "INT"), ("SMALLINT", "BIGINT"), ("INT", "BIGINT")})
"""Of the types that random statements name (`testing/statements.py`)."""
_SIMPLE_BODY: Final = re.compile(r"SELECT (?P<columns>.+) FROM (?P<database>\w+)\.(?P<table>\w+)")
Effects: TypeAlias = dict[RowKey, Any]
"""What becomes of each key: its new value, None where it goes."""


def effects(statement: Definition, shown: CatalogRows) -> tuple[Effects, Effects]:
    """What a statement does at once, and what only past its point of no return."""
    late: Effects = {}
    effect = _EFFECTS[type(statement)]
    now = effect(statement, shown)
    if isinstance(statement, AlterProperties) and statement.ttl_ns is not None:
        key = _table(statement.table)
        table: TableRow = shown[key]
        ttl_ns = statement.ttl_ns or None
        if ttl_ns is not None and (table.ttl_ns is None or ttl_ns < table.ttl_ns):
            late, now = {one: value._replace(ttl_ns=ttl_ns) for one, value in now.items()}, {}
        else:
            now = {one: value._replace(ttl_ns=ttl_ns) for one, value in now.items()}
    return now, late


def _table(name: TableName) -> RowKey:
    return ("table", fold(name.database), fold(name.table))


def _view(name: TableName) -> RowKey:
    return ("view", fold(name.database), fold(name.table))


def _principal(name: str) -> RowKey:
    return ("principal", fold(name))


def _of(on: On) -> RowKey:
    match on:
        case OnCluster():
            return CLUSTER
        case OnDatabase(name=name):
            return ("database", fold(name))
        case OnTable(table=table):
            return _table(table)
        case OnView(view=view):
            return _view(view)


def _properties(old: frozenset[tuple[str, str]], changes: Mapping[str, str | None]) -> frozenset[tuple[str, str]]:
    after: dict[str, str | None] = {**dict(old), **changes}
    return frozenset((key, value) for key, value in after.items() if value is not None)


def _column(one: ColumnDefinition) -> Column:
    type_ = render_type(one.type)
    default = None if one.default is None else fit(one.default, type_, column=one.name)
    return Column(one.name, type_, one.nullable, default, one.comment)


def _gone(gone: set[RowKey], shown: CatalogRows) -> Effects:
    """All of `gone`, the views that read any of it, and the rights on it."""
    while True:
        readers = {key for key, one in shown.items() if isinstance(one, ViewRow) and one.reads & gone} - gone
        if not readers:
            break
        gone = gone | readers
    rights = {key for key in shown if key[0] == "grant" and key[2:] in gone}
    return dict.fromkeys(gone | rights)


def _create_database(one: CreateDatabase, _shown: CatalogRows) -> Effects:
    return {("database", fold(one.name)): DatabaseRow(one.comment, frozenset(one.properties.items()))}


def _alter_database(one: AlterDatabase, shown: CatalogRows) -> Effects:
    key = ("database", fold(one.name))
    old: DatabaseRow = shown[key]
    return {key: old._replace(properties=_properties(old.properties, one.properties))}


def _drop_database(one: DropDatabase, shown: CatalogRows) -> Effects:
    name = fold(one.name)
    inside = {key for key in shown if key[0] in {"table", "view"} and key[1] == name}
    assert one.cascade or not inside, "it holds something"
    assert ("database", name) in shown, "it is not there"
    return _gone({("database", name), *inside}, shown)


def _create_table(one: CreateTable, shown: CatalogRows) -> Effects:
    assert _table(one.name) not in shown, "it is there"
    assert _view(one.name) not in shown, "a view has its name"
    columns = tuple(_column(column) for column in one.columns)
    return {_table(one.name): TableRow(columns, one.ttl_ns, frozenset(one.properties.items()), one.comment)}


def _renamed(old: RowKey, new: RowKey, shown: CatalogRows) -> Effects:
    assert new not in shown, "the name is taken"
    moved: Effects = {old: None, new: shown[old]}
    for key, value in shown.items():
        if key[0] == "grant" and key[2:] == old:
            moved[key] = None
            moved[(*key[:2], *new)] = value
    return moved


def _rename_table(one: RenameTable, shown: CatalogRows) -> Effects:
    return _renamed(_table(one.table), _table(one.to), shown)


def _rename_view(one: RenameView, shown: CatalogRows) -> Effects:
    return _renamed(_view(one.view), _view(one.to), shown)


def _alter_properties(one: AlterProperties, shown: CatalogRows) -> Effects:
    key = _table(one.table)
    old: TableRow = shown[key]
    return {key: old._replace(properties=_properties(old.properties, one.properties))}


def _drop_table(one: DropTable, shown: CatalogRows) -> Effects:
    assert _table(one.table) in shown, "it is not there"
    gone = _gone({_table(one.table)}, shown)
    assert one.cascade or not any(key[0] == "view" for key in gone), "a view reads it"
    return gone


def _drop_view(one: DropView, shown: CatalogRows) -> Effects:
    assert _view(one.view) in shown, "it is not there"
    gone = _gone({_view(one.view)}, shown)
    assert one.cascade or sum(key[0] == "view" for key in gone) == 1, "a view reads it"
    return gone


def _altered(
    table: TableName, shown: CatalogRows, change: Callable[[tuple[Column, ...]], tuple[Column, ...]]
) -> Effects:
    key = _table(table)
    old: TableRow = shown[key]
    columns = change(old.columns)
    names = [fold(column.name) for column in columns]
    assert columns, "no column is left"
    assert len(set(names)) == len(names), "a name occurs twice"
    return {key: old._replace(columns=columns)}


def _place(columns: tuple[Column, ...], name: str) -> int:
    return [fold(column.name) for column in columns].index(fold(name))


def _with(columns: tuple[Column, ...], of: str, /, **changes: Any) -> tuple[Column, ...]:
    at = _place(columns, of)
    return (*columns[:at], columns[at]._replace(**changes), *columns[at + 1 :])


def _add_columns(one: AddColumns, shown: CatalogRows) -> Effects:
    old: TableRow = shown[_table(one.table)]
    known = {fold(column.name) for column in old.columns}
    added = [column for column in one.columns if not (one.if_not_exists and fold(column.name) in known)]
    return _altered(one.table, shown, lambda columns: (*columns, *map(_column, added)))


def _rename_column(one: RenameColumn, shown: CatalogRows) -> Effects:
    return _altered(one.table, shown, lambda columns: _with(columns, one.old, name=one.new))


def _move_column(one: MoveColumn, shown: CatalogRows) -> Effects:
    def moved(columns: tuple[Column, ...]) -> tuple[Column, ...]:
        at = _place(columns, one.column)
        rest = (*columns[:at], *columns[at + 1 :])
        to = 0 if one.after is None else _place(rest, one.after) + 1
        return (*rest[:to], columns[at], *rest[to:])

    return _altered(one.table, shown, moved)


def _widen_column(one: WidenColumn, shown: CatalogRows) -> Effects:
    def wider(columns: tuple[Column, ...]) -> tuple[Column, ...]:
        before, after = columns[_place(columns, one.column)].type, render_type(one.type)
        assert (before, after) in WIDER, f"{before} does not become {after}"
        return _with(columns, one.column, type=after)

    return _altered(one.table, shown, wider)


def _set_default(one: SetDefault, shown: CatalogRows) -> Effects:
    def changed(columns: tuple[Column, ...]) -> tuple[Column, ...]:
        type_ = columns[_place(columns, one.column)].type
        default = None if one.default is None else fit(one.default, type_, column=one.column)
        return _with(columns, one.column, default=default)

    return _altered(one.table, shown, changed)


def _drop_column(one: DropColumn, shown: CatalogRows) -> Effects:
    def without(columns: tuple[Column, ...]) -> tuple[Column, ...]:
        at = _place(columns, one.column)
        return (*columns[:at], *columns[at + 1 :])

    key = _table(one.table)
    readers = {
        view
        for view, value in shown.items()
        if isinstance(value, ViewRow) and key in value.reads and fold(one.column) in map(fold, value.columns)
    }
    assert one.cascade or not readers, "a view reads it"
    return {**_gone(readers, shown), **_altered(one.table, shown, without)}


def _create_view(one: CreateView, shown: CatalogRows) -> Effects:
    assert _table(one.view) not in shown, "a table has its name"
    assert one.or_replace or _view(one.view) not in shown, "it is there"
    body = _SIMPLE_BODY.fullmatch(one.body.replace("`", ""))
    assert body is not None, f"the model can't tell the columns of {one.body}"
    name = TableName(body["database"], body["table"])
    source = _view(name) if _view(name) in shown else _table(name)
    found = shown[source]
    known = found.columns if isinstance(found, ViewRow) else tuple(column.name for column in found.columns)
    columns = known if body["columns"] == "*" else tuple(body["columns"].split(", "))
    assert {fold(column) for column in columns} <= {fold(column) for column in known}, "a column is not there"
    return {_view(one.view): ViewRow(one.names or columns, frozenset({source}), one.comment)}


def _comment(one: Comment, shown: CatalogRows) -> Effects:
    if one.column is not None:
        assert isinstance(one.on, OnTable)
        return _altered(one.on.table, shown, lambda columns: _with(columns, one.column or "", comment=one.text))
    key = _of(one.on)
    return {key: shown[key]._replace(comment=one.text)}


def _create_user(one: CreateUser, shown: CatalogRows) -> Effects:
    assert _principal(one.name) not in shown, "it is there"
    made: Effects = {_principal(one.name): Principal(PrincipalKind.USER, frozenset())}
    if not any(isinstance(other, Principal) and other.kind is PrincipalKind.USER for other in shown.values()):
        made[("grant", fold(one.name), *CLUSTER)] = shown.get(("grant", fold(one.name), *CLUSTER), frozenset()) | set(
            Right
        )
    return made


def _create_role(one: CreateRole, shown: CatalogRows) -> Effects:
    assert _principal(one.name) not in shown, "it is there"
    return {_principal(one.name): Principal(PrincipalKind.ROLE, frozenset())}


def _rename_principal(one: RenamePrincipal, shown: CatalogRows) -> Effects:
    old, new = fold(one.name), fold(one.to)
    assert _principal(new) not in shown, "the name is taken"
    moved: Effects = {_principal(old): None, _principal(new): shown[_principal(old)]}
    for key, value in shown.items():
        if key[0] == "grant" and key[1] == old:
            moved[key] = None
            moved[("grant", new, *key[2:])] = value
        elif isinstance(value, Principal) and old in value.roles:
            moved[key] = value._replace(roles=(value.roles - {old}) | {new})
    return moved


def _drop_principal(one: DropPrincipal, shown: CatalogRows) -> Effects:
    name = fold(one.name)
    assert _principal(name) in shown, "it is not there"
    assert not any(isinstance(other, Principal) and name in other.roles for other in shown.values()), "in use"
    return dict.fromkeys([_principal(name), *(key for key in shown if key[0] == "grant" and key[1] == name)])


def _grant(one: GrantRights, shown: CatalogRows) -> Effects:
    assert _principal(one.to) in shown, "nobody"
    key = ("grant", fold(one.to), *_of(one.on))
    return {key: shown.get(key, frozenset()) | frozenset(one.rights)}


def _revoke(one: Revoke, shown: CatalogRows) -> Effects:
    key = ("grant", fold(one.of), *_of(one.on))
    return {key: (shown[key] - frozenset(one.rights)) or None}


def _grant_role(one: GrantRole, shown: CatalogRows) -> Effects:
    assert _principal(one.role) in shown, "nobody"
    key = _principal(one.user)
    old: Principal = shown[key]
    return {key: old._replace(roles=old.roles | {fold(one.role)})}


def _revoke_role(one: RevokeRole, shown: CatalogRows) -> Effects:
    key = _principal(one.user)
    old: Principal = shown[key]
    return {key: old._replace(roles=old.roles - {fold(one.role)})}


def _nothing(_one: object, _shown: CatalogRows) -> Effects:
    return {}


_EFFECTS: Final[dict[type[Definition], Callable[[Any, CatalogRows], Effects]]] = {
    CreateDatabase: _create_database,
    AlterDatabase: _alter_database,
    DropDatabase: _drop_database,
    CreateTable: _create_table,
    RenameTable: _rename_table,
    AlterProperties: _alter_properties,
    DropTable: _drop_table,
    AddColumns: _add_columns,
    RenameColumn: _rename_column,
    MoveColumn: _move_column,
    WidenColumn: _widen_column,
    SetDefault: _set_default,
    DropColumn: _drop_column,
    CreateView: _create_view,
    RenameView: _rename_view,
    DropView: _drop_view,
    Comment: _comment,
    DeleteRows: _nothing,
    CreateUser: _create_user,
    SetPassword: _nothing,
    SetCertificate: _nothing,
    CreateToken: _nothing,
    DropToken: _nothing,
    CreateRole: _create_role,
    RenamePrincipal: _rename_principal,
    DropPrincipal: _drop_principal,
    GrantRights: _grant,
    Revoke: _revoke,
    GrantRole: _grant_role,
    RevokeRole: _revoke_role,
    AlterCluster: _nothing,
    Rebalance: _nothing,
    RevokeCertificate: _nothing,
    AlterNode: _nothing,
}
"""DELETE shows in rows, not in the catalog; how a user logs in nowhere; settings have a check of their own."""
