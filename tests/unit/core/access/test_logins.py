"""Logins as records."""

import msgspec
import pytest

from leasehold.core.access.callers import Caller, CallerRole
from leasehold.core.access.logins import (
    find_user,
    logins_ended,
    record_login,
    record_login_by_certificate,
    record_login_by_token,
    tokens_ended,
)
from leasehold.core.catalog.plan import put
from leasehold.core.membership.identity import hash_login, hash_secret
from leasehold.core.words import keys
from leasehold.core.words.records import (
    PrincipalKind,
    PrincipalRecord,
    RevokedCertificateRecord,
    TokenRecord,
    UseState,
)
from leasehold.errors import Forbidden, Unauthenticated, WrongPassword
from leasehold.ids import LoginToken, UserToken
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
    left = [hash_login(token(one)) in catalog.logins for one in range(LOGINS_MAX + 1)]
    assert left == [False] * PURGE_BATCH + [True] * (LOGINS_MAX + 1 - PURGE_BATCH)
    assert sum(len(one) for one in catalog.logins_of.values()) == len(catalog.logins)


def test_of_too_many_logins_of_a_user_the_oldest_of_that_user_end():
    busy, other = principal(1, "ann"), principal(2, "bob")
    catalog = with_principals(busy, other)
    catalog = catalog.changed(record_login(token(0), other, catalog))
    for one in range(1, LOGINS_PER_USER_MAX + 3):
        catalog = catalog.changed(record_login(token(one), busy, catalog))
    ended = [one for one in range(LOGINS_PER_USER_MAX + 3) if hash_login(token(one)) not in catalog.logins]
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
    known, unknown = hash_login(token(1)), hash_login(token(2))
    changes = logins_ended([known, unknown], catalog)
    assert [change.key for change in changes] == [keys.login(known)]
    assert logins_ended([known, unknown], catalog.changed(changes)) == ()


SHOWN = UserToken("lht_" + "a" * 64)
HASH = hash_secret(SHOWN)
NOW_US = 1_700_000_000_000_000


def with_token(**fields):
    record = TokenRecord(hash=HASH, name="k", user=1, made_us=NOW_US, expires_us=None)
    other = principal(2, "bob")
    catalog = with_principals(principal(1, "ann", **fields.pop("ann", {})), other)
    record = msgspec.structs.replace(record, **fields)
    return catalog.changed([put(keys.token(record.hash), record)])


def by_token(catalog, user="ann", shown=SHOWN, now_us=NOW_US):
    return record_login_by_token(token(1), user, shown, catalog, now_us)


@pytest.mark.parametrize("fields", [{}, {"expires_us": NOW_US + 1}])
def test_a_token_logs_its_user_in_and_the_login_says_by_which(fields):
    catalog = with_token(**fields)
    login = catalog.changed(by_token(catalog, "ANN")).logins[hash_login(token(1))]
    assert (login.user, login.by_token, login.by_certificate) == (1, HASH, False)


@pytest.mark.parametrize(
    ("fields", "user", "shown"),
    [
        ({}, "ann", UserToken("lht_" + "b" * 64)),
        ({}, "ann", UserToken(HASH.hex())),
        ({}, "bob", SHOWN),
        ({}, "nobody", SHOWN),
        ({"expires_us": NOW_US}, "ann", SHOWN),
        ({"ann": {"state": UseState.PRE_DELETE}}, "ann", SHOWN),
    ],
    ids=["another token", "its hash", "of another user", "of nobody", "expired", "user going"],
)
def test_a_token_that_is_wrong_another_users_or_expired_logs_nobody_in(fields, user, shown):
    with pytest.raises(Unauthenticated) as caught:
        by_token(with_token(**fields), user, shown)
    assert caught.value.code == "WRONG_USER_TOKEN"
    assert shown not in caught.value.text + caught.value.hint


def test_a_token_ends_with_its_logins_once_it_has_expired():
    catalog = with_token(expires_us=NOW_US + 1)
    catalog = catalog.changed(by_token(catalog))
    catalog = catalog.changed(record_login(token(2), catalog.principals[1], catalog))
    assert tokens_ended(catalog, NOW_US) == ()
    ended = {change.key for change in tokens_ended(catalog, NOW_US + 1)}
    assert ended == {keys.token(HASH), keys.login(hash_login(token(1)))}
    assert tokens_ended(with_token(), NOW_US * 10) == ()


ENDS_S = NOW_US // 1_000_000 + 1
ANN = Caller(CallerRole.CLIENT, "Ann", "1f", ends_s=ENDS_S)


def by_certificate(caller, catalog, wall_us=NOW_US):
    return record_login_by_certificate(token(1), caller, catalog, wall_us)


def test_a_certificate_logs_the_user_of_its_name_in():
    catalog = with_principals(principal(1, "ann", by_certificate=True))
    login = catalog.changed(by_certificate(ANN, catalog)).logins[hash_login(token(1))]
    assert (login.user, login.by_token, login.by_certificate, login.certificate) == (1, b"", True, "1f")


def test_a_certificate_that_is_revoked_while_its_login_is_under_way_logs_nobody_in():
    key, record = keys.revoked_certificate("1f"), RevokedCertificateRecord(serial="1f")
    catalog = with_principals(principal(1, "ann", by_certificate=True)).changed([put(key, record)])
    with pytest.raises(Forbidden) as caught:
        by_certificate(ANN, catalog)
    assert caught.value.code == "CERTIFICATE_REVOKED"


def test_a_certificate_that_has_ended_since_it_was_shown_logs_nobody_in():
    catalog = with_principals(principal(1, "ann", by_certificate=True))
    assert by_certificate(ANN, catalog, ENDS_S * 1_000_000 - 1)
    with pytest.raises(Unauthenticated, match="the certificate of client Ann has ended"):
        by_certificate(ANN, catalog, ENDS_S * 1_000_000)


def test_a_text_that_is_no_token_logs_nobody_in_though_its_hash_was_made_known():
    guessed = UserToken("0")
    with pytest.raises(Unauthenticated) as caught:
        by_token(with_token(hash=hash_secret(guessed)), shown=guessed)
    assert caught.value.code == "WRONG_USER_TOKEN"


@pytest.mark.parametrize(
    ("caller", "is_on"),
    [
        (ANN, False),
        (None, True),
        (Caller(CallerRole.CLIENT, "bob", ends_s=ENDS_S), True),
        (Caller(CallerRole.NODE, "ann", ends_s=ENDS_S), True),
        (Caller(CallerRole.COORDINATOR, "ann", ends_s=ENDS_S), True),
        (Caller(CallerRole.NEIGHBOUR), True),
        (Caller(CallerRole.STRANGER, "ann"), True),
    ],
    ids=["off", "without TLS", "of another", "node", "coordinator", "neighbour", "stranger"],
)
def test_no_other_certificate_logs_in(caller, is_on):
    catalog = with_principals(principal(1, "ann", by_certificate=is_on), principal(2, "bob"))
    with pytest.raises(Unauthenticated) as caught:
        by_certificate(caller, catalog)
    assert caught.value.code == "UNAUTHENTICATED"
