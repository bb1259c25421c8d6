"""Users, how they log in, roles and rights."""

import re
from typing import Final

from leasehold.core.words.durations import parse_duration
from leasehold.core.words.records.principals import PrincipalKind, Right
from leasehold.core.words.statements import (
    CreateRole,
    CreateToken,
    CreateUser,
    Definition,
    DropPrincipal,
    DropToken,
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
    SetCertificate,
    SetPassword,
)
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.people import PASSWORD_CHARACTERS_MAX
from leasehold.sql.cursor import Cursor

_ALL = "ALL"
_RIGHTS = tuple(right.value for right in Right)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def create_user(cursor: Cursor) -> CreateUser:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.principal()
    cursor.expect("PASSWORD")
    return CreateUser(name=name, password=_password(cursor), if_not_exists=if_not_exists)


def create_role(cursor: Cursor) -> CreateRole:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    return CreateRole(name=cursor.principal(), if_not_exists=if_not_exists)


def create_token(cursor: Cursor) -> CreateToken:
    name = cursor.token_name()
    cursor.expect("FOR", "USER")
    user = cursor.principal()
    cursor.expect("HASH")
    at = cursor.at
    digest = cursor.text()
    if _SHA256.fullmatch(digest) is None:
        cursor.at = at
        raise cursor.bad("a SHA-256 is written as 64 hex digits in lower case; `leasehold token create` makes a token")
    return CreateToken(name=name, user=user, hash=bytes.fromhex(digest), expires_ns=_expiry_ns(cursor))


def _expiry_ns(cursor: Cursor) -> int | None:
    if not cursor.accept("EXPIRES"):
        return None
    expires_ns = parse_duration(cursor.interval() or cursor.text())
    if expires_ns == 0:
        raise Refused("the token would expire at once", code=ErrorCode.BAD_DURATION, hint="write EXPIRES '30d'")
    return expires_ns


def drop_token(cursor: Cursor) -> DropToken:
    if_exists = cursor.accept("IF", "EXISTS")
    return DropToken(name=cursor.token_name(), if_exists=if_exists)


def alter_principal(cursor: Cursor, kind: PrincipalKind) -> SetPassword | SetCertificate | RenamePrincipal:
    name = cursor.principal()
    if kind is PrincipalKind.USER and cursor.accept("PASSWORD"):
        return SetPassword(name=name, password=_password(cursor))
    if kind is PrincipalKind.USER and cursor.accept("SET"):
        cursor.expect("CERTIFICATE")
        return SetCertificate(name=name, is_on=cursor.choose("ON", "OFF") == "ON")
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
