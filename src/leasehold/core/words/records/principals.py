"""Who may do what: users, roles, their rights, and who has logged in."""

from enum import StrEnum

from leasehold.core.words.records.base import Record
from leasehold.core.words.records.objects import UseState
from leasehold.ids import ObjectId, PrincipalId, TransactionId


class Right(StrEnum):
    """What can be granted. A right on the cluster holds for all databases, one on a database for all that is in it."""

    SELECT = "SELECT"
    INSERT = "INSERT"
    ALTER = "ALTER"
    DROP = "DROP"
    CREATE = "CREATE"


class PrincipalKind(StrEnum):
    """Users log in and have roles; roles do neither. Both have rights."""

    USER = "user"
    ROLE = "role"


class PrincipalRecord(Record, frozen=True, kw_only=True, tag="principal/1"):
    """A user or a role; they share their names. PRE_DELETE: has no rights any more."""

    id: PrincipalId
    name: str
    kind: PrincipalKind
    state: UseState
    password_hash: str | None
    """As argon2 writes it, salt and parameters included. None for a role."""
    roles: tuple[PrincipalId, ...]
    leaving: tuple[PrincipalId, ...] = ()
    """Those of `roles` that are being revoked: they count no more."""
    by_certificate: bool = False
    """Whether a client's certificate with the user's name logs in without a password."""


class GrantRecord(Record, frozen=True, kw_only=True, tag="right/1"):
    """The rights of a principal on an object, on the cluster where the object is 0."""

    object: ObjectId
    principal: PrincipalId
    rights: tuple[Right, ...]
    leaving: tuple[Right, ...] = ()
    """Those of `rights` that are being revoked: they count no more."""


class LoginLimits(Record, frozen=True, kw_only=True, tag="login-limits/1"):
    """What a delegated login is for (`core/access/delegation.py`): to read a table, or to write in a transaction."""

    table: ObjectId
    through: tuple[ObjectId, ...]
    """The views that it is read through."""
    transaction: TransactionId | None
    """None for a login to read."""
    expires_us: int
    """Microseconds since 1970 UTC."""
    application: bytes = b""
    """The hash of the secret of the application that renews it; empty without one."""
    last_us: int = 0
    """No renewal lets it expire later than that; 0 without an application."""
    replaces: bool = False
    """Whether it may replace rows in its transaction, and read the table for that."""


class LoginRecord(Record, frozen=True, kw_only=True, tag="login/1"):
    """A user who has logged in and holds the token of this hash; `order` says which to purge first."""

    token_hash: bytes
    user: PrincipalId
    order: int
    by_token: bytes = b""
    """The hash of the user's token that made the login, and with which it ends; empty without one."""
    by_certificate: bool = False
    certificate: str = ""
    """The serial number of the certificate that made the login, and with which it is revoked; empty without one."""
    limits: LoginLimits | None = None
    """Of a delegated login; None for one that may do what its user may."""


class TokenRecord(Record, frozen=True, kw_only=True, tag="token/1"):
    """A token that logs a user in, by the SHA-256 of its text. The times are microseconds since 1970 UTC."""

    hash: bytes
    name: str
    user: PrincipalId
    made_us: int
    expires_us: int | None
    """None for never."""
