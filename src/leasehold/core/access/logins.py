"""Logins as records: who may get one, which older ones it ends."""

from collections.abc import Callable
from heapq import nsmallest

import msgspec

from leasehold.core.access.callers import Caller, CallerRole, check_not_revoked
from leasehold.core.access.certified_names import is_too_old, name_of_client
from leasehold.core.access.delegation import check_delegation
from leasehold.core.access.rights import LOG_IN
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import counters, put
from leasehold.core.membership.identity import hash_login, hash_secret
from leasehold.core.words import keys
from leasehold.core.words.messages import DelegateLogin
from leasehold.core.words.operations import Change
from leasehold.core.words.records import LoginLimits, LoginRecord, PrincipalKind, PrincipalRecord, TokenRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Forbidden, Unauthenticated, WrongPassword, WrongUserToken
from leasehold.ids import IDENTIFIER, LoginToken, PrincipalId, UserToken, is_user_token
from leasehold.limits.people import DELEGATED_RENEW_NS, DELEGATED_TTL_NS, LOGIN_TTL_NS, LOGINS_MAX, LOGINS_PER_USER_MAX
from leasehold.limits.statements import IDENTIFIER_CHARACTERS_MAX, PURGE_BATCH


def wrong_password() -> WrongPassword:
    """The error for a wrong password, and for a user who does not exist."""
    return WrongPassword(
        "the user does not exist, or the password is wrong", hint="check LEASEHOLD_USER and LEASEHOLD_PASSWORD"
    )


def find_user(name: str, catalog: Catalog) -> PrincipalRecord | None:
    """The user in use under a name from outside."""
    if len(name) > IDENTIFIER_CHARACTERS_MAX or IDENTIFIER.fullmatch(name) is None:
        return None
    found = catalog.find_principal(name)
    return found if found is not None and found.kind is PrincipalKind.USER else None


def record_login(token: LoginToken, user: PrincipalRecord, catalog: Catalog) -> tuple[Change, ...]:
    """Writes the login of a user whose password was checked.

    Raises `WrongPassword` if the password has changed since.
    """
    standing = catalog.principals.get(user.id)
    if standing is None or (standing.state, standing.password_hash) != (user.state, user.password_hash):
        raise wrong_password()
    return _login(token, user.id, catalog)


def record_login_by_token(
    token: LoginToken, user: str, shown: UserToken, catalog: Catalog, wall_us: int
) -> tuple[Change, ...]:
    """Writes the login of the user who `shown` is a token of. Raises `WrongUserToken`, also for a text that
    could be guessed and whose hash somebody has made known."""
    found, record = find_user(user, catalog), catalog.tokens.get(hash_secret(shown).hex())
    if (
        not is_user_token(shown)
        or found is None
        or record is None
        or record.user != found.id
        or _has_expired(record, wall_us)
    ):
        raise WrongUserToken(
            "the token is wrong, is of another user, was dropped, or has expired",
            hint="SHOW TOKENS lists the tokens; `leasehold token create` makes one",
        )
    return _login(token, found.id, catalog, by_token=record.hash)


def record_login_by_certificate(
    token: LoginToken, caller: Caller | None, catalog: Catalog, wall_us: int
) -> tuple[Change, ...]:
    """Writes the login of the user whose name is in the certificate of a client. Raises `Unauthenticated`, also if the
    certificate has ended since it was shown, and `Forbidden` (CERTIFICATE_REVOKED) if it was revoked since then, or may
    be that of somebody who had the name before."""
    if caller is None or caller.role is not CallerRole.CLIENT:
        raise Unauthenticated("the request comes without the certificate of a client", hint=LOG_IN)
    check_not_revoked(caller, catalog)
    if caller.ends_s * 1_000_000 <= wall_us:
        raise Unauthenticated(
            f"the certificate of {caller} has ended",
            hint="renew it (`leasehold ca renew`), and connect again",
        )
    user = find_user(caller.name, catalog)
    if user is None or not user.by_certificate:
        raise Unauthenticated(
            f"no user {caller.name} logs in by a certificate",
            hint=f"{LOG_IN}; or ALTER USER {caller.name} SET CERTIFICATE ON",
        )
    if is_too_old(name_of_client(caller.name), caller.begins_s, catalog):
        raise Forbidden(
            f"another user was {caller.name} before, and the certificate {caller.serial} was issued before this one had"
            " SET CERTIFICATE ON",
            code=ErrorCode.CERTIFICATE_REVOKED,
            hint="make a new certificate with `leasehold ca renew` or `leasehold ca issue`",
        )
    return _login(token, user.id, catalog, by_certificate=True, certificate=caller.serial)


def record_delegated_login(
    token: LoginToken, request: DelegateLogin, catalog: Catalog, wall_us: int
) -> tuple[Change, ...]:
    """Writes a login of the same user for other processes, which ends with what the login of the request ends with.

    The right to it was checked on this catalog. Raises `Refused` (TRANSACTION_UNKNOWN, BAD_MESSAGE).
    """
    check_delegation(request, catalog)
    assert request.login is not None, "`check_request` has found its user"
    parent = catalog.logins[hash_login(request.login)]
    last_us = wall_us + LOGIN_TTL_NS // 1_000
    limits = LoginLimits(
        table=request.table,
        through=request.through,
        transaction=request.transaction,
        expires_us=wall_us + DELEGATED_TTL_NS // 1_000 if request.application else last_us,
        application=request.application,
        last_us=last_us if request.application else 0,
        replaces=request.replaces,
    )
    return _login(
        token,
        parent.user,
        catalog,
        by_token=parent.by_token,
        by_certificate=parent.by_certificate,
        certificate=parent.certificate,
        limits=limits,
    )


def _login(
    token: LoginToken,
    user: PrincipalId,
    catalog: Catalog,
    *,
    by_token: bytes = b"",
    by_certificate: bool = False,
    certificate: str = "",
    limits: LoginLimits | None = None,
) -> tuple[Change, ...]:
    """A new login; ends the oldest ones that are too many."""
    numbers = counters(catalog)
    record = LoginRecord(
        token_hash=hash_login(token),
        user=user,
        order=numbers.next_login,
        by_token=by_token,
        by_certificate=by_certificate,
        certificate=certificate,
        limits=limits,
    )
    return (
        put(keys.COUNTERS, msgspec.structs.replace(numbers, next_login=numbers.next_login + 1)),
        put(keys.login(record.token_hash), record),
        *(Change(keys.login(one), None) for one in _too_many(user, catalog)),
    )


def _too_many(user: PrincipalId, catalog: Catalog) -> set[bytes]:
    """The oldest logins of the user beyond the limit, and a batch of the oldest of all: one search finds many."""
    his = catalog.logins_of.get(user, ())
    going = {token_hash for _, token_hash in his[: max(0, len(his) + 1 - LOGINS_PER_USER_MAX)]}
    if len(catalog.logins) >= LOGINS_MAX:
        oldest = nsmallest(PURGE_BATCH, catalog.logins.values(), key=lambda one: one.order)
        going.update(one.token_hash for one in oldest)
    return going


def end_logins(
    user: PrincipalId, catalog: Catalog, which: Callable[[LoginRecord], bool] = lambda _: True
) -> tuple[Change, ...]:
    """The changes that log a user out everywhere, or end only some logins."""
    his = (token_hash for _, token_hash in catalog.logins_of.get(user, ()))
    return tuple(Change(keys.login(one), None) for one in his if which(catalog.logins[one]))


def end_logins_of_certificate(serial: str, catalog: Catalog) -> tuple[Change, ...]:
    """The changes that end what a certificate has logged in."""
    ended = (one for one in catalog.logins.values() if one.certificate == serial)
    return tuple(Change(keys.login(one.token_hash), None) for one in ended)


def end_token(token: TokenRecord, catalog: Catalog) -> tuple[Change, ...]:
    """The changes that take a token and end what it has logged in."""
    ended = end_logins(token.user, catalog, lambda login: login.by_token == token.hash)
    return (Change(keys.token(token.hash), None), *ended)


def tokens_ended(catalog: Catalog, wall_us: int) -> tuple[Change, ...]:
    """Ends the tokens that have expired."""
    expired = [one for one in catalog.tokens.values() if _has_expired(one, wall_us)]
    return tuple(change for one in expired for change in end_token(one, catalog))


def delegated_logins_renewed(application: bytes, catalog: Catalog, wall_us: int) -> tuple[Change, ...]:
    """Lets the delegated logins of an application hold for DELEGATED_TTL_NS from now on, but none beyond its end."""
    changes: list[Change] = []
    for token_hash in delegated_logins(application, catalog):
        record = catalog.logins[token_hash]
        assert record.limits is not None, "a login without limits is of no application"
        expires_us = min(wall_us + DELEGATED_TTL_NS // 1_000, record.limits.last_us)
        grown_us = expires_us - record.limits.expires_us
        # Each change goes to all nodes, so one that comes early makes none.
        if grown_us >= DELEGATED_RENEW_NS // 2_000 or (grown_us > 0 and expires_us == record.limits.last_us):
            limits = msgspec.structs.replace(record.limits, expires_us=expires_us)
            changes.append(put(keys.login(token_hash), msgspec.structs.replace(record, limits=limits)))
    return tuple(changes)


def delegated_logins(application: bytes, catalog: Catalog) -> list[bytes]:
    """Those of an application, by the hashes of their tokens."""
    return sorted(catalog.applications.get(application, ()))


def delegated_logins_expired(catalog: Catalog, wall_us: int) -> list[bytes]:
    """The delegated logins whose time is over, by the hashes of their tokens."""
    limited = ((one.token_hash, one.limits) for one in catalog.logins.values() if one.limits is not None)
    return [token_hash for token_hash, limits in limited if limits.expires_us <= wall_us]


def _has_expired(token: TokenRecord, wall_us: int) -> bool:
    return token.expires_us is not None and token.expires_us <= wall_us


def logins_ended(logins: list[bytes], catalog: Catalog) -> tuple[Change, ...]:
    """Ends those of these logins that have not ended yet, by the hashes of their tokens."""
    return tuple(Change(keys.login(one), None) for one in logins if one in catalog.logins)
