"""Logins as records."""

import msgspec
import pytest

from leasehold.core.access.logins import find_user, logins_ended, record_login
from leasehold.core.catalog.plan import put
from leasehold.core.membership.identity import hash_secret
from leasehold.core.words import keys
from leasehold.core.words.records import PrincipalKind, PrincipalRecord, UseState
from leasehold.errors import WrongPassword
from leasehold.ids import LoginToken
from leasehold.limits.people import LOGINS_MAX, LOGINS_PER_USER_MAX
from leasehold.limits.statements import IDENTIFIER_CHARACTERS_MAX, PURGE_BATCH
from tests.unit.core.catalog_words import Ground


def principal(number, name, **fields):
    record = PrincipalRecord(
        id=number, name=name, kind=PrincipalKind.USER, state=UseState.IN_USE, password_hash="hash", roles=()
    )
    return msgspec.structs.replace(record, **fields)


def with_principals(*some):
    return Ground().catalog.changed(put(keys.principal(one.id), one) for one in some)


def token(number):
    return LoginToken(f"{number:032x}")


def test_of_too_many_logins_the_oldest_of_all_end():
    users = [principal(10 + one, f"w{one}") for one in range(LOGINS_MAX // LOGINS_PER_USER_MAX + 1)]
    catalog = with_principals(*users)
    for one in range(LOGINS_MAX + 1):
        catalog = catalog.changed(record_login(token(one), users[one % len(users)], catalog))
    assert len(catalog.logins) == LOGINS_MAX + 1 - PURGE_BATCH
    left = [hash_secret(token(one)) in catalog.logins for one in range(LOGINS_MAX + 1)]
    assert left == [False] * PURGE_BATCH + [True] * (LOGINS_MAX + 1 - PURGE_BATCH)
    assert sum(len(one) for one in catalog.logins_of.values()) == len(catalog.logins)


def test_of_too_many_logins_of_a_user_the_oldest_of_that_user_end():
    busy, other = principal(1, "ann"), principal(2, "bob")
    catalog = with_principals(busy, other)
    catalog = catalog.changed(record_login(token(0), other, catalog))
    for one in range(1, LOGINS_PER_USER_MAX + 3):
        catalog = catalog.changed(record_login(token(one), busy, catalog))
    ended = [one for one in range(LOGINS_PER_USER_MAX + 3) if hash_secret(token(one)) not in catalog.logins]
    assert ended == [1, 2]


@pytest.mark.parametrize("fields", [{"password_hash": "another"}, {"state": UseState.PRE_DELETE}])
def test_a_login_is_not_written_for_a_user_who_has_changed_since_the_check(fields):
    checked = principal(1, "ann")
    with pytest.raises(WrongPassword):
        record_login(token(1), checked, with_principals(msgspec.structs.replace(checked, **fields)))
    with pytest.raises(WrongPassword):
        record_login(token(1), checked, with_principals())


def test_only_users_in_use_are_found():
    role = principal(2, "readers", kind=PrincipalKind.ROLE)
    catalog = with_principals(principal(1, "Ann"), role, principal(3, "left", state=UseState.PRE_DELETE))
    assert find_user("ann", catalog).id == 1
    for name in ("readers", "left", "nobody", "", "a b", "a" * (IDENTIFIER_CHARACTERS_MAX + 1)):
        assert find_user(name, catalog) is None


def test_a_login_ends_once():
    user = principal(1, "ann")
    catalog = with_principals(user)
    catalog = catalog.changed(record_login(token(1), user, catalog))
    known, unknown = hash_secret(token(1)), hash_secret(token(2))
    changes = logins_ended([known, unknown], catalog)
    assert [change.key for change in changes] == [keys.login(known)]
    assert logins_ended([known, unknown], catalog.changed(changes)) == ()
