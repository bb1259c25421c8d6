"""Plans: what each kind of statement writes first, what becomes of what it hides.

A plan looks at one catalog and says what to change, or raises `Refused` (and its kin) and then nothing changes. Of what
a destructive statement hides, `removed` says how it goes for good, and `restored` how it comes back.
"""

from collections.abc import Callable
from typing import Any, Final

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import Context, Plan, counters, in_turn
from leasehold.core.ddl.plans import columns, databases, principals, properties, rights, rows, tables, views
from leasehold.core.ddl.settings import settings_changes
from leasehold.core.words.operations import Change
from leasehold.core.words.records import (
    ExpiredRows,
    Hidden,
    HiddenColumn,
    HiddenDatabase,
    HiddenMembership,
    HiddenPrincipal,
    HiddenRights,
    HiddenRows,
    HiddenTable,
    HiddenView,
)
from leasehold.core.words.statements import (
    AddColumns,
    AlterCluster,
    AlterDatabase,
    AlterProperties,
    Comment,
    CreateDatabase,
    CreateRole,
    CreateTable,
    CreateUser,
    CreateView,
    Definition,
    DeleteRows,
    DropColumn,
    DropDatabase,
    DropPrincipal,
    DropTable,
    DropView,
    GrantRights,
    GrantRole,
    MoveColumn,
    RenameColumn,
    RenamePrincipal,
    RenameTable,
    RenameView,
    Revoke,
    RevokeRole,
    SetDefault,
    SetPassword,
    WidenColumn,
)


def _alter_cluster(statement: AlterCluster, catalog: Catalog, _context: Context) -> Plan | None:
    changes = settings_changes(statement.settings, catalog)
    return Plan(changes=changes, counters=counters(catalog)) if changes else None


_PLANS: Final[dict[type[Definition], Callable[[Any, Catalog, Context], Plan | None]]] = {
    CreateDatabase: databases.create_database,
    AlterDatabase: databases.alter_database,
    DropDatabase: databases.drop_database,
    CreateTable: tables.create_table,
    RenameTable: tables.rename_table,
    DropTable: tables.drop_table,
    AlterProperties: properties.alter_properties,
    AddColumns: columns.add_columns,
    RenameColumn: columns.rename_column,
    MoveColumn: columns.move_column,
    WidenColumn: columns.widen_column,
    SetDefault: columns.set_default,
    DropColumn: columns.drop_column,
    Comment: properties.comment,
    CreateView: views.create_view,
    RenameView: views.rename_view,
    DropView: views.drop_view,
    DeleteRows: rows.delete_rows,
    CreateUser: principals.create_user,
    SetPassword: principals.set_password,
    CreateRole: principals.create_role,
    RenamePrincipal: principals.rename_principal,
    DropPrincipal: principals.drop_principal,
    GrantRights: rights.grant,
    Revoke: rights.revoke,
    GrantRole: rights.grant_role,
    RevokeRole: rights.revoke_role,
    AlterCluster: _alter_cluster,
}

_HIDDEN: Final[
    dict[
        type[Hidden], tuple[Callable[[Any, Catalog], tuple[Change, ...]], Callable[[Any, Catalog], tuple[Change, ...]]]
    ]
] = {
    HiddenDatabase: (databases.remove_database, databases.restore_database),
    HiddenTable: (tables.remove_table, tables.restore_table),
    HiddenColumn: (columns.remove_column, columns.restore_column),
    HiddenView: (views.remove_view, views.restore_view),
    HiddenRows: (rows.remove_rows, rows.restore_rows),
    ExpiredRows: (properties.remove_expired, properties.restore_expired),
    HiddenPrincipal: (principals.remove_principal, principals.restore_principal),
    HiddenRights: (rights.remove_rights, rights.restore_rights),
    HiddenMembership: (rights.remove_membership, rights.restore_membership),
}


def plan(statement: Definition, catalog: Catalog, context: Context) -> Plan | None:
    """The first transaction of a statement; None if there is nothing to do (IF [NOT] EXISTS, or as it is already)."""
    return _PLANS[type(statement)](statement, catalog, context)


def removed(hides: tuple[Hidden, ...], catalog: Catalog) -> tuple[Change, ...]:
    """What the point of no return writes: all that was hidden goes; `core/replicas/leftovers.py` has what is left
    behind."""
    return in_turn(catalog, hides, lambda one, draft: _HIDDEN[type(one)][0](one, draft))


def restored(hides: tuple[Hidden, ...], catalog: Catalog) -> tuple[Change, ...]:
    """What rolling back writes: all that was hidden is back."""
    return in_turn(catalog, hides, lambda one, draft: _HIDDEN[type(one)][1](one, draft))
