"""Users, roles and rights: what a person can do about them."""

from typing import TypeAlias

from leasehold.core.words.records.principals import PrincipalKind, Right
from leasehold.core.words.statements.base import On, Statement


class CreateUser(Statement, frozen=True, kw_only=True):
    """`CREATE USER [IF NOT EXISTS] u PASSWORD 'secret'`. The first user of a cluster gets every right on it."""

    name: str
    password: str
    if_not_exists: bool = False


class SetPassword(Statement, frozen=True, kw_only=True):
    """`ALTER USER u PASSWORD 'secret'`: ends what u has logged in."""

    name: str
    password: str


class SetCertificate(Statement, frozen=True, kw_only=True):
    """`ALTER USER u SET CERTIFICATE ON | OFF`: whether a client's certificate of that name logs in; OFF ends what such
    certificates have logged in."""

    name: str
    is_on: bool


class CreateToken(Statement, frozen=True, kw_only=True):
    """`CREATE TOKEN name FOR USER u HASH 'hex' [EXPIRES '30d']`: who has the text of this SHA-256 may log in as u."""

    name: str
    user: str
    hash: bytes
    expires_ns: int | None = None
    """From when it is made on; None for never."""


class DropToken(Statement, frozen=True, kw_only=True):
    """`DROP TOKEN [IF EXISTS] name`: ends what it has logged in."""

    name: str
    if_exists: bool = False


class CreateRole(Statement, frozen=True, kw_only=True):
    """`CREATE ROLE [IF NOT EXISTS] r`."""

    name: str
    if_not_exists: bool = False


class RenamePrincipal(Statement, frozen=True, kw_only=True):
    """`ALTER USER u RENAME TO v` or `ALTER ROLE r RENAME TO s`."""

    kind: PrincipalKind
    name: str
    to: str


class DropPrincipal(Statement, frozen=True, kw_only=True):
    """`DROP USER [IF EXISTS] u` or `DROP ROLE [IF EXISTS] r`; a role that somebody has is refused."""

    kind: PrincipalKind
    name: str
    if_exists: bool = False


class GrantRights(Statement, frozen=True, kw_only=True):
    """`GRANT right, .. ON object TO name`; ALL stands for every right."""

    rights: tuple[Right, ...]
    on: On
    to: str


class Revoke(Statement, frozen=True, kw_only=True):
    """`REVOKE right, .. ON object FROM name`."""

    rights: tuple[Right, ...]
    on: On
    of: str


class GrantRole(Statement, frozen=True, kw_only=True):
    """`GRANT ROLE r TO u`."""

    role: str
    user: str


class RevokeRole(Statement, frozen=True, kw_only=True):
    """`REVOKE ROLE r FROM u`."""

    role: str
    user: str


_OfRights: TypeAlias = GrantRights | Revoke | GrantRole | RevokeRole
_OfLogins: TypeAlias = SetPassword | SetCertificate | CreateToken | DropToken
OfPrincipals: TypeAlias = CreateUser | CreateRole | RenamePrincipal | DropPrincipal | _OfLogins | _OfRights
"""Statements about users, how they log in, roles and rights."""
