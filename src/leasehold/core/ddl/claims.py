"""What a statement uses, by name: names are what two statements can collide on (`core/ddl/queue.py`).

| name | used alone by | with others by |
| --- | --- | --- |
| `cluster` | its settings, its nodes | GRANT and REVOKE on it |
| `database d` | what makes, changes or drops it | what is done to anything in it |
| `table d.t` | what makes, changes or drops a table or view of that name | views that read it, rights on it |
| `views` | CASCADE: which views go is not known before | what makes, changes or drops one view |
| `principal p` | what makes, changes or drops a user or role, its rights | GRANT and REVOKE ROLE of it; CREATE TOKEN |
| `token t` | what makes or drops it | |
"""

from typing import Final, assert_never

from leasehold.core.words import statements
from leasehold.core.words.records import Claim
from leasehold.core.words.statements import Definition, On, TableName, fold

CLUSTER: Final = "cluster"
"""The settings and nodes are changed by one statement at a time, and not beside a GRANT or REVOKE on the cluster. No
other statement waits for that.

Those that run, or come while it waits, keep the bound that was published for them: see `grants.SettingsChanged`.
"""
VIEWS: Final = "views"


def database_name(name: str) -> str:
    return f"database {fold(name)}"


def table_name(name: TableName) -> str:
    """A table or view among the claims."""
    return f"table {fold(name.database)}.{fold(name.table)}"


def principal_name(name: str) -> str:
    """A user or role among the claims."""
    return f"principal {fold(name)}"


def token_name(name: str) -> str:
    """A token among the claims."""
    return f"token {fold(name)}"


def claims(statement: Definition) -> dict[str, Claim]:  # noqa: PLR0911 - one for each form
    match statement:
        case (
            statements.AlterCluster() | statements.Rebalance() | statements.RevokeCertificate() | statements.AlterNode()
        ):
            return {CLUSTER: Claim.EXCLUSIVE}
        case statements.CreateDatabase(name=name) | statements.AlterDatabase(name=name):
            return {database_name(name): Claim.EXCLUSIVE}
        case statements.DropDatabase(name=name, cascade=cascade):
            return {database_name(name): Claim.EXCLUSIVE, **_cascade(cascade)}
        case statements.CreateTable(name=table):
            return _tables(table)
        case statements.DropTable(table=table, cascade=cascade) | statements.DropColumn(table=table, cascade=cascade):
            return {**_tables(table), **_cascade(cascade)}
        case (
            statements.AlterProperties(table=table)
            | statements.AddColumns(table=table)
            | statements.RenameColumn(table=table)
            | statements.MoveColumn(table=table)
            | statements.WidenColumn(table=table)
            | statements.SetDefault(table=table)
            | statements.DeleteRows(table=table)
        ):
            return _tables(table)
        case statements.RenameTable(table=table, to=to):
            return _tables(table, to)
        case statements.CreateView(view=view, reads=reads):
            return {**_tables(*reads, how=Claim.SHARED), **_tables(view), VIEWS: Claim.SHARED}
        case statements.RenameView(view=view, to=to):
            return {**_tables(view, to), VIEWS: Claim.SHARED}
        case statements.DropView(view=view, cascade=cascade):
            return {**_tables(view), VIEWS: Claim.SHARED, **_cascade(cascade)}
        case statements.Comment(on=on):
            return _of(on, Claim.EXCLUSIVE)
        case _:
            return _of_principals(statement)


def _of_principals(statement: statements.OfPrincipals) -> dict[str, Claim]:
    match statement:
        case (
            statements.CreateUser(name=name)
            | statements.SetPassword(name=name)
            | statements.SetCertificate(name=name)
            | statements.CreateRole(name=name)
            | statements.DropPrincipal(name=name)
        ):
            return {principal_name(name): Claim.EXCLUSIVE}
        case statements.CreateToken(name=name, user=user):
            return {token_name(name): Claim.EXCLUSIVE, principal_name(user): Claim.SHARED}
        case statements.DropToken(name=name):
            return {token_name(name): Claim.EXCLUSIVE}
        case statements.RenamePrincipal(name=name, to=to):
            return {principal_name(name): Claim.EXCLUSIVE, principal_name(to): Claim.EXCLUSIVE}
        case statements.GrantRights(on=on, to=name) | statements.Revoke(on=on, of=name):
            return {**_of(on, Claim.SHARED), principal_name(name): Claim.EXCLUSIVE}
        case statements.GrantRole(role=role, user=user) | statements.RevokeRole(role=role, user=user):
            return {principal_name(role): Claim.SHARED, principal_name(user): Claim.EXCLUSIVE}
        case _:
            assert_never(statement)


def _tables(*tables: TableName, how: Claim = Claim.EXCLUSIVE) -> dict[str, Claim]:
    databases = {database_name(one.database): Claim.SHARED for one in tables}
    return {**databases, **{table_name(one): how for one in tables}}


def _cascade(cascade: bool) -> dict[str, Claim]:
    return {VIEWS: Claim.EXCLUSIVE} if cascade else {}


def _of(on: On, how: Claim) -> dict[str, Claim]:
    match on:
        case statements.OnCluster():
            return {CLUSTER: Claim.SHARED}
        case statements.OnDatabase(name=name):
            return {database_name(name): how}
        case statements.OnTable(table=name):
            return _tables(name, how=how)
        case statements.OnView(view=name):
            return {**_tables(name, how=how), VIEWS: Claim.SHARED}
        case _:
            assert_never(on)
