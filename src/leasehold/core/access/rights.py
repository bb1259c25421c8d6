"""Who may do what, decided on one catalog.

A cluster without users is open: everybody may do everything. Where users exist, whoever asks shows a login, and the
user that it belongs to needs a right on the object, on its database or on the cluster, his own or one of his roles'.
Nothing that is being taken away counts: a user or role in PRE_DELETE, rights and roles that are leaving.

| what is asked | what it needs |
| --- | --- |
| CREATE DATABASE | CREATE on the cluster |
| CREATE TABLE, CREATE VIEW | CREATE on the database; for a view SELECT on all that it reads |
| CREATE OR REPLACE of a view that exists | ALTER on the view besides |
| ALTER, COMMENT | ALTER on the object; RENAME TO also CREATE on the database |
| DROP | DROP on the object; with CASCADE on all that goes |
| DELETE FROM, a shorter TTL | DROP on the table; for the TTL also ALTER |
| users, roles, rights, CANCEL PROCEDURE, moving the leadership | ALTER on the cluster |
| ALTER CLUSTER, ALTER NODE, removing a node | ALTER on the cluster |
| SHOW HISTORY FOR an object: statements of others | ALTER on the object; on the cluster for users and roles |
| SHOW HISTORY of all, the barriers of all statements (`leasehold verify`) | ALTER on the cluster |
| SHOW PROCEDURES: texts of statements of others | ALTER on the cluster |
| a statement's receipt once more, by its id and the same text | to be the user who ran it |
| a statement's outcome by its id alone | to be the user who ran it, or ALTER on the cluster |
| ALTER USER .. PASSWORD of oneself, CREATE TOKEN for oneself | a login that no token made |
| DROP TOKEN of one's own | a login |
| a SELECT, a scan | SELECT on the table, and on the views that it is read through |
| an INSERT, an append | INSERT; one that replaces rows also DROP, and SELECT unless it replaces all rows |
| any statement longer than 10,000 characters, and CREATE VIEW | any right besides |
| every other question | a login |

A delegated login has limits besides (`core/access/delegation.py`). No answer is remembered: each request, each batch
and each append is decided on the catalog of its moment.
"""

from typing import NamedTuple, assert_never

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.membership.identity import hash_secret
from leasehold.core.words import records, statements
from leasehold.core.words.records import Hidden, LoginLimits, PrincipalRecord, Right, TableRecord, UseState, ViewRecord
from leasehold.core.words.statements import Definition, On, Question, TableName, fold
from leasehold.error_codes import ErrorCode
from leasehold.errors import Forbidden, Refused, Unauthenticated
from leasehold.ids import NodeLogin, ObjectId, PrincipalId

CLUSTER = ObjectId(0)
"""The cluster among the objects that rights are on."""
LOG_IN = "connect with user=.. and password=.., on the command line `--user` with LEASEHOLD_PASSWORD set"

Path = tuple[ObjectId, ...]
"""An object and what it lies in: a right on any of them holds for it."""


def object_of(on: On, catalog: Catalog) -> ObjectId:
    """What a right is on, among the grants; raises `NotFound`."""
    match on:
        case statements.OnCluster():
            return CLUSTER
        case statements.OnDatabase(name=name):
            return catalog.database(name).id
        case statements.OnTable(table=table):
            return catalog.table(table).id
        case statements.OnView(view=view):
            return catalog.view(view).id
        case _:
            assert_never(on)


# ---------------------------------------------------------------- who asks


class Asker(NamedTuple):
    """The user of a login, and the limits of a delegated one (`core/access/delegation.py`)."""

    user: PrincipalRecord
    limits: LoginLimits | None


def user_of(login: NodeLogin | None, catalog: Catalog) -> PrincipalRecord | None:
    """As `user_by`, of a login's token."""
    return user_by(None if login is None else hash_secret(login), catalog)


def user_by(login: bytes | None, catalog: Catalog) -> PrincipalRecord | None:
    """The user of a login that may do what its user may; None in a cluster without users. Raises `Unauthenticated`, and
    `Forbidden` for a delegated login."""
    asker = _asker_by(login, catalog)
    if asker is None:
        return None
    if asker.limits is not None:
        text = f"this login of {asker.user.name} was made for the rows of one table, and allows nothing else"
        raise Forbidden(text, hint=f"connect as {asker.user.name} for anything else")
    return asker.user


def asker_of(login: NodeLogin | None, catalog: Catalog) -> Asker | None:
    """Of any login: the caller has to check its limits. None in a cluster without users. Raises `Unauthenticated`."""
    return _asker_by(None if login is None else hash_secret(login), catalog)


def _asker_by(login: bytes | None, catalog: Catalog) -> Asker | None:
    if not catalog.users:
        return None
    if login is None:
        raise Unauthenticated("this cluster has users, and the request has no login", hint=LOG_IN)
    record = catalog.logins.get(login)
    user = None if record is None else catalog.principals.get(record.user)
    if record is None or user is None:
        raise Unauthenticated("this login has ended", hint=f"log in again: {LOG_IN}")
    if user.state is not UseState.IN_USE:
        raise Unauthenticated(f"user {user.name} is being dropped", hint="SHOW PROCEDURES shows the statement")
    return Asker(user, record.limits)


# ---------------------------------------------------------------- what he may


def holds(user: PrincipalRecord, right: Right, path: Path, catalog: Catalog) -> bool:
    """Whether the user or one of the user's roles has the right on any object of the path."""
    granted_on = [granted for target in path if (granted := catalog.grants.get(target)) is not None]
    counting = _counting(user, catalog) if granted_on else ()
    for granted in granted_on:
        for principal in counting:
            record = granted.get(principal)
            if record is not None and right in record.rights and right not in record.leaving:
                return True
    return False


def _counting(user: PrincipalRecord, catalog: Catalog) -> list[PrincipalId]:
    """The user, and the user's roles that are not being revoked."""
    return [user.id, *(role for role in user.roles if role not in user.leaving and _is_in_use(role, catalog))]


def keeps_administrator(catalog: Catalog, *, dropped: PrincipalId | None = None) -> None:
    """Raises `Refused` (LAST_ADMINISTRATOR) if there are users and none of them could give rights any more.

    The last user of all may be `dropped`. Others count whatever their state: their DROP may be rolled back.
    """
    if any(one != dropped for one in catalog.users) and not _has_administrator(catalog):
        raise Refused(
            "this is the last user with ALTER ON CLUSTER, so nobody could grant rights any more",
            code=ErrorCode.LAST_ADMINISTRATOR,
            hint="GRANT ALTER ON CLUSTER TO another user first",
        )


def _has_administrator(catalog: Catalog) -> bool:
    """Whether a user in use holds ALTER on the cluster. Starts from the few grants of it."""
    having = {
        one
        for one, record in catalog.grants.get(CLUSTER, {}).items()
        if Right.ALTER in record.rights and Right.ALTER not in record.leaving and _is_in_use(one, catalog)
    }
    if any(one in catalog.users for one in having):
        return True
    found = (catalog.principals[one] for one in catalog.users) if having else ()
    users = (one for one in found if one.state is UseState.IN_USE and not having.isdisjoint(one.roles))
    return any(not having.isdisjoint(set(one.roles).difference(one.leaving)) for one in users)


def _is_in_use(principal: PrincipalId, catalog: Catalog) -> bool:
    record = catalog.principals.get(principal)
    return record is not None and record.state is UseState.IN_USE


def need(user: PrincipalRecord | None, right: Right, path: Path, catalog: Catalog) -> None:
    """Raises `Forbidden` unless the user has the right; None has all."""
    if user is None or holds(user, right, path, catalog):
        return
    on = " ".join(object_named(path[0], catalog)).rstrip()
    raise Forbidden(
        f"{user.name} lacks {right} ON {on}",
        hint=f"ask a user who has ALTER ON CLUSTER to GRANT {right} ON {on} TO {user.name}",
    )


def path_of(relation: TableRecord | ViewRecord) -> Path:
    """The objects by which a right on a relation may be held: itself, its database, the cluster."""
    return (relation.id, relation.database, CLUSTER)


def object_named(target: ObjectId, catalog: Catalog) -> tuple[str, str]:
    """The kind and the name of an object, as GRANT writes them; the cluster has no name."""
    if target in catalog.databases:
        return "DATABASE", catalog.databases[target].name
    if target in catalog.tables:
        return "TABLE", str(catalog.table_name(catalog.tables[target]))
    if target in catalog.views:
        return "VIEW", str(catalog.table_name(catalog.views[target]))
    return "CLUSTER", ""


# ---------------------------------------------------------------- statements


def check_statement(statement: Definition, catalog: Catalog, login: bytes | None) -> PrincipalRecord | None:
    """The user who asks; raises `Unauthenticated` or `Forbidden` unless that user may run it on this catalog.

    Only its plan tells what else goes with it (CASCADE, rows): see `check_hidden`. An object that is not there needs no
    right: the plan refuses it.
    """
    asking = user_by(login, catalog)
    if asking is None or login is None or _is_own(statement, asking, login, catalog):
        return asking
    for right, path in _needs(statement, catalog):
        need(asking, right, path, catalog)
    return asking


def _is_own(statement: Definition, asking: PrincipalRecord, login: bytes, catalog: Catalog) -> bool:
    """Whether it is about how the user who asks logs in, which needs no right. Raises `Forbidden` for a login by a
    token, which must not gain what outlives the token."""
    match statement:
        case statements.DropToken(name=name):
            token = catalog.find_token(name)
            return token is None or token.user == asking.id
        case statements.SetPassword(name=name) | statements.CreateToken(user=name) if fold(name) == fold(asking.name):
            if catalog.logins[login].by_token and not holds(asking, Right.ALTER, (CLUSTER,), catalog):
                text = "a token gives neither another password nor another token"
                raise Forbidden(text, hint=f"use a password: {LOG_IN}")
            return True
        case _:
            return False


def check_hidden(hides: tuple[Hidden, ...], catalog: Catalog, asking: PrincipalRecord | None) -> None:
    """Raises `Forbidden` unless the user may remove what the plan hides."""
    for hidden in hides:
        match hidden:
            case records.HiddenDatabase(database=target):
                need(asking, Right.DROP, (target, CLUSTER), catalog)
            case (
                records.HiddenTable(table=target) | records.HiddenRows(table=target) | records.ExpiredRows(table=target)
            ):
                need(asking, Right.DROP, path_of(catalog.tables[target]), catalog)
            case records.HiddenView(view=target):
                need(asking, Right.DROP, path_of(catalog.views[target]), catalog)
            case _:
                pass  # a column is its table's, and who may take rights away may do all


Needs = list[tuple[Right, Path]]


def _needs(statement: Definition, catalog: Catalog) -> Needs:
    match statement:
        case statements.CreateDatabase():
            return [(Right.CREATE, (CLUSTER,))]
        case statements.CreateTable(name=name):
            return _in_database(Right.CREATE, name.database, catalog)
        case statements.CreateView(view=view, reads=reads):
            reading = [need for name in reads for need in _relation(Right.SELECT, name, catalog)]
            replaced = _relation(Right.ALTER, view, catalog) if statement.or_replace else []
            return [*_in_database(Right.CREATE, view.database, catalog), *replaced, *reading]
        case statements.AlterDatabase(name=name) | statements.Comment(on=statements.OnDatabase(name=name)):
            return _in_database(Right.ALTER, name, catalog)
        case statements.DropDatabase(name=name):
            return _in_database(Right.DROP, name, catalog)
        case (
            statements.AlterProperties(table=name)
            | statements.AddColumns(table=name)
            | statements.RenameColumn(table=name)
            | statements.MoveColumn(table=name)
            | statements.WidenColumn(table=name)
            | statements.SetDefault(table=name)
            | statements.DropColumn(table=name)
            | statements.Comment(on=statements.OnTable(table=name) | statements.OnView(view=name))
        ):
            return _relation(Right.ALTER, name, catalog)
        case statements.RenameTable(table=name) | statements.RenameView(view=name):
            return [*_relation(Right.ALTER, name, catalog), *_in_database(Right.CREATE, name.database, catalog)]
        case statements.DropTable(table=name) | statements.DropView(view=name) | statements.DeleteRows(table=name):
            return _relation(Right.DROP, name, catalog)
        case _:
            return _needs_of_cluster(statement)


def _needs_of_cluster(_statement: statements.OfCluster | statements.Comment | statements.OfPrincipals) -> Needs:
    return [(Right.ALTER, (CLUSTER,))]


def _in_database(right: Right, name: str, catalog: Catalog) -> Needs:
    database = catalog.find_database(name)
    return [] if database is None else [(right, (database.id, CLUSTER))]


def _relation(right: Right, name: TableName, catalog: Catalog) -> Needs:
    found = catalog.find_table(name) or catalog.find_view(name)
    return [] if found is None else [(right, path_of(found))]


def check_question(question: Question, catalog: Catalog, login: bytes | None) -> None:
    """Raises `Unauthenticated` or `Forbidden` unless the login may be answered."""
    if isinstance(question, statements.ShowHistory) and question.of is None:
        check_administrator(catalog, login)
    else:
        user_by(login, catalog)


def check_large_statement(asking: PrincipalRecord | None, catalog: Catalog) -> None:
    """Raises `Forbidden` for a user without any right, before a statement is parsed that takes long to parse."""
    if asking is None:
        return
    for one in _counting(asking, catalog):
        for target in catalog.rights_of.get(one, ()):
            granted = catalog.grants[target][one]
            if set(granted.rights).difference(granted.leaving):
                return
    hint = f"ask a user who has ALTER ON CLUSTER to GRANT rights TO {asking.name}"
    raise Forbidden(f"{asking.name} has no right at all, and the statement is large", hint=hint)


def check_administrator(catalog: Catalog, login: bytes | None) -> None:
    """Raises `Unauthenticated` or `Forbidden` unless the login may hear of all statements and cancel procedures."""
    need(user_by(login, catalog), Right.ALTER, (CLUSTER,), catalog)
