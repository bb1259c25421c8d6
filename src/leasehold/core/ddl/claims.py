"""What a statement uses, by name: names are what two statements can collide on (`core/ddl/queue.py`).

| name | used alone by | with others by |
| --- | --- | --- |
| `cluster` | its settings | |
| `database d` | what makes, changes or drops it | what is done to anything in it |
| `table d.t` | what makes, changes or drops a table or view of that name | views that read it, rights on it |
| `views` | CASCADE: which views go is not known before | what makes, changes or drops one view |
| `principal p` | what makes, changes or drops a user or role, its rights | GRANT ROLE and REVOKE ROLE, of the role |
"""

from typing import Final, assert_never

from leasehold.core.words.records import Claim
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
    OfPrincipals,
    On,
    OnCluster,
    OnDatabase,
    OnTable,
    OnView,
    RenameColumn,
    RenamePrincipal,
    RenameTable,
    RenameView,
    Revoke,
    RevokeRole,
    SetDefault,
    SetPassword,
    TableName,
    WidenColumn,
    fold,
)

CLUSTER: Final = "cluster"
"""The settings are changed by one statement at a time; no other statement has to wait for that.

Those that run, or come while it waits, keep the bound that was published for them: see `grantor.SettingsChanged`.
"""
VIEWS: Final = "views"


def database_name(name: str) -> str:
    """A database among the claims."""
    return f"database {fold(name)}"


def table_name(name: TableName) -> str:
    """A table or view among the claims."""
    return f"table {fold(name.database)}.{fold(name.table)}"


def principal_name(name: str) -> str:
    """A user or role among the claims."""
    return f"principal {fold(name)}"


def claims(statement: Definition) -> dict[str, Claim]:  # noqa: PLR0911 - one for each form
    """What a statement uses, alone or with others."""
    match statement:
        case AlterCluster():
            return {CLUSTER: Claim.EXCLUSIVE}
        case CreateDatabase(name=name) | AlterDatabase(name=name):
            return {database_name(name): Claim.EXCLUSIVE}
        case DropDatabase(name=name, cascade=cascade):
            return {database_name(name): Claim.EXCLUSIVE, **_cascade(cascade)}
        case CreateTable(name=table):
            return _tables(table)
        case DropTable(table=table, cascade=cascade) | DropColumn(table=table, cascade=cascade):
            return {**_tables(table), **_cascade(cascade)}
        case (
            AlterProperties(table=table)
            | AddColumns(table=table)
            | RenameColumn(table=table)
            | MoveColumn(table=table)
            | WidenColumn(table=table)
            | SetDefault(table=table)
            | DeleteRows(table=table)
        ):
            return _tables(table)
        case RenameTable(table=table, to=to):
            return _tables(table, to)
        case CreateView(view=view, reads=reads):
            return {**_read(reads), **_tables(view), VIEWS: Claim.SHARED}
        case RenameView(view=view, to=to):
            return {**_tables(view, to), VIEWS: Claim.SHARED}
        case DropView(view=view, cascade=cascade):
            return {**_tables(view), VIEWS: Claim.SHARED, **_cascade(cascade)}
        case Comment(on=on):
            return _of(on, Claim.EXCLUSIVE)
        case _:
            return _of_principals(statement)


def _of_principals(statement: OfPrincipals) -> dict[str, Claim]:
    match statement:
        case CreateUser(name=name) | SetPassword(name=name) | CreateRole(name=name) | DropPrincipal(name=name):
            return {principal_name(name): Claim.EXCLUSIVE}
        case RenamePrincipal(name=name, to=to):
            return {principal_name(name): Claim.EXCLUSIVE, principal_name(to): Claim.EXCLUSIVE}
        case GrantRights(on=on, to=name) | Revoke(on=on, of=name):
            return {**_of(on, Claim.SHARED), principal_name(name): Claim.EXCLUSIVE}
        case GrantRole(role=role, user=user) | RevokeRole(role=role, user=user):
            return {principal_name(role): Claim.SHARED, principal_name(user): Claim.EXCLUSIVE}
        case _:
            assert_never(statement)


def _tables(*tables: TableName) -> dict[str, Claim]:
    databases = {database_name(one.database): Claim.SHARED for one in tables}
    return {**databases, **{table_name(one): Claim.EXCLUSIVE for one in tables}}


def _read(tables: tuple[TableName, ...]) -> dict[str, Claim]:
    databases = {database_name(one.database): Claim.SHARED for one in tables}
    return {**databases, **{table_name(one): Claim.SHARED for one in tables}}


def _cascade(cascade: bool) -> dict[str, Claim]:
    return {VIEWS: Claim.EXCLUSIVE} if cascade else {}


def _of(on: On, how: Claim) -> dict[str, Claim]:
    match on:
        case OnCluster():
            return {CLUSTER: Claim.SHARED}
        case OnDatabase(name=name):
            return {database_name(name): how}
        case OnTable(table=name):
            return {database_name(name.database): Claim.SHARED, table_name(name): how}
        case OnView(view=name):
            return {database_name(name.database): Claim.SHARED, table_name(name): how, VIEWS: Claim.SHARED}
        case _:
            assert_never(on)
