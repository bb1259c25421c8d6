"""Plans: what each kind of statement writes first, and how what it hides goes for good (`removed`) or comes back
(`restored`).

A plan looks at one catalog and answers changes, or raises `Refused` (and its kin).
"""

from collections.abc import Callable
from typing import Any, Final

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import Context, Plan, in_turn
from leasehold.core.ddl.plans import (
    cluster,
    columns,
    databases,
    nodes,
    principals,
    properties,
    rights,
    rows,
    tables,
    tokens,
    views,
)
from leasehold.core.words import records, statements
from leasehold.core.words.operations import Change
from leasehold.core.words.records import Hidden
from leasehold.core.words.statements import Definition

_PLANS: Final[dict[type[Definition], Callable[[Any, Catalog, Context], Plan | None]]] = {
    statements.CreateDatabase: databases.create_database,
    statements.AlterDatabase: databases.alter_database,
    statements.DropDatabase: databases.drop_database,
    statements.CreateTable: tables.create_table,
    statements.RenameTable: tables.rename_table,
    statements.DropTable: tables.drop_table,
    statements.AlterProperties: properties.alter_properties,
    statements.AddColumns: columns.add_columns,
    statements.RenameColumn: columns.rename_column,
    statements.MoveColumn: columns.move_column,
    statements.WidenColumn: columns.widen_column,
    statements.SetDefault: columns.set_default,
    statements.DropColumn: columns.drop_column,
    statements.Comment: properties.comment,
    statements.CreateView: views.create_view,
    statements.RenameView: views.rename_view,
    statements.DropView: views.drop_view,
    statements.DeleteRows: rows.delete_rows,
    statements.CreateUser: principals.create_user,
    statements.SetPassword: principals.set_password,
    statements.SetCertificate: principals.set_certificate,
    statements.CreateToken: tokens.create_token,
    statements.DropToken: tokens.drop_token,
    statements.CreateRole: principals.create_role,
    statements.RenamePrincipal: principals.rename_principal,
    statements.DropPrincipal: principals.drop_principal,
    statements.GrantRights: rights.grant,
    statements.Revoke: rights.revoke,
    statements.GrantRole: rights.grant_role,
    statements.RevokeRole: rights.revoke_role,
    statements.AlterCluster: cluster.alter_cluster,
    statements.Rebalance: cluster.rebalance,
    statements.RevokeCertificate: cluster.revoke_certificate,
    statements.AlterNode: nodes.alter_node,
}

_HIDDEN: Final[
    dict[
        type[Hidden], tuple[Callable[[Any, Catalog], tuple[Change, ...]], Callable[[Any, Catalog], tuple[Change, ...]]]
    ]
] = {
    records.HiddenDatabase: (databases.remove_database, databases.restore_database),
    records.HiddenTable: (tables.remove_table, tables.restore_table),
    records.HiddenColumn: (columns.remove_column, columns.restore_column),
    records.HiddenView: (views.remove_view, views.restore_view),
    records.HiddenRows: (rows.remove_rows, rows.restore_rows),
    records.ExpiredRows: (properties.remove_expired, properties.restore_expired),
    records.HiddenPrincipal: (principals.remove_principal, principals.restore_principal),
    records.HiddenRights: (rights.remove_rights, rights.restore_rights),
    records.HiddenMembership: (rights.remove_membership, rights.restore_membership),
}


def plan(statement: Definition, catalog: Catalog, context: Context) -> Plan | None:
    """The first transaction of a statement; None if there is nothing to do (IF [NOT] EXISTS, or as it is already)."""
    return _PLANS[type(statement)](statement, catalog, context)


def removed(hides: tuple[Hidden, ...], catalog: Catalog) -> tuple[Change, ...]:
    """What the point of no return writes: all that was hidden goes, but for `core/replicas/leftovers.py`."""
    return in_turn(catalog, hides, lambda one, draft: _HIDDEN[type(one)][0](one, draft))


def restored(hides: tuple[Hidden, ...], catalog: Catalog) -> tuple[Change, ...]:
    """What rolling back writes: all that was hidden is back."""
    return in_turn(catalog, hides, lambda one, draft: _HIDDEN[type(one)][1](one, draft))
