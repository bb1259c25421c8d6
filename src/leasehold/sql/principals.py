"""Users, roles and rights."""

from leasehold.core.words.records.principals import PrincipalKind, Right
from leasehold.core.words.statements import (
    CreateRole,
    CreateUser,
    Definition,
    DropPrincipal,
    GrantRights,
    GrantRole,
    On,
    OnCluster,
    OnDatabase,
    OnTable,
    OnView,
    RenamePrincipal,
    Revoke,
    RevokeRole,
    SetPassword,
)
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.people import PASSWORD_CHARACTERS_MAX
from leasehold.sql.cursor import Cursor

_ALL = "ALL"
_RIGHTS = tuple(right.value for right in Right)


def create_user(cursor: Cursor) -> CreateUser:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.principal()
    cursor.expect("PASSWORD")
    return CreateUser(name=name, password=_password(cursor), if_not_exists=if_not_exists)


def create_role(cursor: Cursor) -> CreateRole:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    return CreateRole(name=cursor.principal(), if_not_exists=if_not_exists)


def alter_principal(cursor: Cursor, kind: PrincipalKind) -> SetPassword | RenamePrincipal:
    name = cursor.principal()
    if kind is PrincipalKind.USER and cursor.accept("PASSWORD"):
        return SetPassword(name=name, password=_password(cursor))
    cursor.expect("RENAME", "TO")
    return RenamePrincipal(kind=kind, name=name, to=cursor.principal())


def drop_principal(cursor: Cursor, kind: PrincipalKind) -> DropPrincipal:
    if_exists = cursor.accept("IF", "EXISTS")
    return DropPrincipal(kind=kind, name=cursor.principal(), if_exists=if_exists)


def grant(cursor: Cursor) -> Definition:
    if cursor.accept("ROLE"):
        role = cursor.principal()
        cursor.expect("TO")
        return GrantRole(role=role, user=cursor.principal())
    rights = _rights(cursor)
    on = read_on(cursor)
    cursor.expect("TO")
    return GrantRights(rights=rights, on=on, to=cursor.principal())


def revoke(cursor: Cursor) -> Definition:
    if cursor.accept("ROLE"):
        role = cursor.principal()
        cursor.expect("FROM")
        return RevokeRole(role=role, user=cursor.principal())
    rights = _rights(cursor)
    on = read_on(cursor)
    cursor.expect("FROM")
    return Revoke(rights=rights, on=on, of=cursor.principal())


def read_on(cursor: Cursor) -> On:
    """`ON CLUSTER | DATABASE name | TABLE database.table | VIEW database.view`."""
    cursor.expect("ON")
    match cursor.choose("CLUSTER", "DATABASE", "SCHEMA", "TABLE", "VIEW"):
        case "CLUSTER":
            return OnCluster()
        case "TABLE":
            return OnTable(cursor.table())
        case "VIEW":
            return OnView(cursor.table())
        case _:
            return OnDatabase(cursor.database())


def _rights(cursor: Cursor) -> tuple[Right, ...]:
    if cursor.accept(_ALL):
        return tuple(Right)
    said: set[str] = set()
    rights = [Right(cursor.once(said, *_RIGHTS))]
    while cursor.accept(","):
        rights.append(Right(cursor.once(said, *_RIGHTS)))
    return tuple(rights)


def _password(cursor: Cursor) -> str:
    password = cursor.text()
    if not 1 <= len(password) <= PASSWORD_CHARACTERS_MAX:
        raise Refused(
            f"a password of {len(password)} characters",
            code=ErrorCode.BAD_PASSWORD,
            hint=f"use 1 to {PASSWORD_CHARACTERS_MAX} characters",
        )
    return password
