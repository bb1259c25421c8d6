"""Logins as records: who may get one, which older ones it ends."""

from heapq import nsmallest

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import counters, put
from leasehold.core.membership.identity import hash_secret
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import LoginRecord, PrincipalKind, PrincipalRecord
from leasehold.errors import WrongPassword
from leasehold.ids import IDENTIFIER, LoginToken, PrincipalId
from leasehold.limits.people import LOGINS_MAX, LOGINS_PER_USER_MAX
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
    """Writes the login of a user whose password was checked; ends the oldest ones that are too many.

    Raises `WrongPassword` if the password has changed since.
    """
    standing = catalog.principals.get(user.id)
    if standing is None or (standing.state, standing.password_hash) != (user.state, user.password_hash):
        raise wrong_password()
    numbers = counters(catalog)
    record = LoginRecord(token_hash=hash_secret(token), user=user.id, order=numbers.next_login)
    return (
        put(keys.COUNTERS, msgspec.structs.replace(numbers, next_login=numbers.next_login + 1)),
        put(keys.login(record.token_hash), record),
        *(Change(keys.login(one), None) for one in _too_many(user.id, catalog)),
    )


def _too_many(user: PrincipalId, catalog: Catalog) -> set[bytes]:
    """The oldest logins of the user beyond the limit, and a batch of the oldest of all: one search finds many."""
    his = catalog.logins_of.get(user, ())
    going = {token_hash for _, token_hash in his[: max(0, len(his) + 1 - LOGINS_PER_USER_MAX)]}
    if len(catalog.logins) >= LOGINS_MAX:
        oldest = nsmallest(PURGE_BATCH, catalog.logins.values(), key=lambda one: one.order)
        going.update(one.token_hash for one in oldest)
    return going


def logins_ended(logins: list[bytes], catalog: Catalog) -> tuple[Change, ...]:
    """Ends those of these logins that have not ended yet, by the hashes of their tokens."""
    return tuple(Change(keys.login(one), None) for one in logins if one in catalog.logins)
