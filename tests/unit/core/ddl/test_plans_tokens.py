"""Tokens and certificates of users: what each statement writes, and what it ends."""

import pytest

from leasehold.core import ddl
from leasehold.core.access.logins import record_login_by_token
from leasehold.core.membership.identity import hash_secret
from leasehold.core.words import keys
from leasehold.core.words.records import LoginRecord, RevokedCertificateRecord, TokenRecord
from leasehold.errors import AlreadyExists, Forbidden, NotFound, Refused, Unauthenticated
from leasehold.ids import LoginToken, UserToken
from leasehold.limits.people import TOKENS_MAX, TOKENS_PER_USER_MAX
from leasehold.sql.parse import parse
from tests.unit.core.ddl.test_plans_principals import GIVEN_UP, ROOT, USER, first, ground, log_in, principal, refused

NOW_US = 1_700_000_000_000_000
DAY_US = 86_400_000_000
SHOWN = UserToken("lht_" + "a" * 64)
HASH = hash_secret(SHOWN)
MADE = f"CREATE TOKEN k FOR USER u HASH '{HASH.hex()}'"


def token(name="k", user=USER, digest=HASH, **fields):
    whole = {"hash": digest, "name": name, "user": user, "made_us": 0, "expires_us": None}
    return TokenRecord(**{**whole, **fields})


def log_in_by(base, number, user=USER, **how):
    token_hash = bytes([number]) * 32
    base.put(keys.login(token_hash), LoginRecord(token_hash=token_hash, user=user, order=number, **how))
    return keys.login(token_hash)


def test_a_token_is_its_hash_with_the_times_of_the_wall_clock():
    base = ground()
    assert first(base, MADE, wall_us=NOW_US)[0] == {keys.token(HASH): token(made_us=NOW_US)}
    base = ground()
    expiring = token(made_us=NOW_US, expires_us=NOW_US + 30 * DAY_US)
    assert first(base, f"{MADE} EXPIRES '30d'", user="u", wall_us=NOW_US)[0] == {keys.token(HASH): expiring}


def test_names_and_hashes_of_tokens_are_unique():
    base = ground(MADE)
    other = MADE.replace(HASH.hex(), "b" * 64)
    refused(base, other.replace("k FOR", "K FOR"), AlreadyExists, "ALREADY_EXISTS")
    refused(base, MADE.replace("k FOR", "other FOR"), AlreadyExists, "ALREADY_EXISTS")


@pytest.mark.parametrize("user", ["r", "nobody"])
def test_only_users_have_tokens(user):
    refused(ground(), MADE.replace("USER u", f"USER {user}"), NotFound, "NOT_FOUND")


def test_another_one_makes_or_drops_no_token_of_a_user():
    base = ground(MADE, "CREATE USER v PASSWORD 'p'")
    refused(base, MADE.replace("k FOR", "other FOR"), Forbidden, "FORBIDDEN", user="v")
    refused(base, "DROP TOKEN k", Forbidden, "FORBIDDEN", user="v")


def test_the_tokens_of_a_user_and_of_all_are_bounded():
    base = ground()
    for one in range(TOKENS_PER_USER_MAX):
        digest = one.to_bytes(32)
        base.put(keys.token(digest), token(f"k{one}", digest=digest))
    refused(base, MADE, Refused, "TOO_MANY_TOKENS")
    assert first(base, MADE.replace("USER u", "USER root"))[0]
    for one in range(TOKENS_PER_USER_MAX, TOKENS_MAX):
        digest = one.to_bytes(32)
        base.put(keys.token(digest), token(f"k{one}", user=1_000 + one, digest=digest))
    refused(base, MADE.replace("USER u", "USER root"), Refused, "TOO_MANY_TOKENS")


def test_a_dropped_token_ends_what_it_has_logged_in_and_nothing_else():
    base = ground(MADE)
    by_it = [log_in_by(base, one, by_token=HASH) for one in (1, 2)]
    log_in(base, USER, 3)
    log_in_by(base, 4, by_token=b"another")
    log_in_by(base, 5, by_certificate=True)
    assert first(base, "DROP TOKEN K", user="u")[0] == {keys.token(HASH): None, **dict.fromkeys(by_it)}


def test_a_token_that_is_not_there_is_dropped_if_it_exists():
    base = ground()
    refused(base, "DROP TOKEN k", NotFound, "NOT_FOUND")
    assert base.begin(parse("DROP TOKEN IF EXISTS k"), user="root") is None


def test_tokens_go_with_their_user_past_the_point_of_no_return():
    base = ground(MADE, f"CREATE TOKEN kept FOR USER root HASH '{'b' * 64}'")
    procedure = base.begin(parse("DROP USER u"), user="root")
    assert len(base.catalog.tokens) == 2, "it may be rolled back"
    with pytest.raises(Unauthenticated):
        record_login_by_token(LoginToken("1" * 32), "u", SHOWN, base.catalog, NOW_US)
    base.commit(ddl.finish(procedure, base.catalog))
    assert [one.name for one in base.catalog.tokens.values()] == ["kept"]


def test_another_password_and_another_name_leave_the_tokens():
    base = ground(MADE, "ALTER USER u PASSWORD 'q'", "ALTER USER u RENAME TO w")
    assert base.catalog.tokens[HASH.hex()].user == USER
    assert record_login_by_token(LoginToken("1" * 32), "w", SHOWN, base.catalog, NOW_US)


def test_certificates_log_a_user_in_while_they_are_on():
    base = ground()
    assert base.begin(parse("ALTER USER u SET CERTIFICATE OFF"), user="root") is None
    assert first(base, "ALTER USER u SET CERTIFICATE ON")[0] == {
        keys.principal(USER): principal(USER, "u", by_certificate=True)
    }


def test_certificates_off_ends_what_they_have_logged_in_and_nothing_else():
    base = ground("ALTER USER u SET CERTIFICATE ON")
    by_it = log_in_by(base, 1, by_certificate=True)
    log_in(base, USER, 2)
    log_in_by(base, 3, by_token=HASH)
    log_in_by(base, 4, user=ROOT, by_certificate=True)
    changes, _ = first(base, "ALTER USER u SET CERTIFICATE OFF")
    assert changes == {keys.principal(USER): principal(USER, "u"), by_it: None}


def test_a_user_with_another_name_is_not_opened_by_a_certificate_of_that_name():
    base = ground("ALTER USER u SET CERTIFICATE ON")
    by_it = log_in_by(base, 1, by_certificate=True)
    log_in(base, USER, 2)
    changes, _ = first(base, "ALTER USER u RENAME TO U")
    assert changes == {keys.principal(USER): principal(USER, "U", by_certificate=True)}
    changes, _ = first(base, "ALTER USER u RENAME TO x")
    assert changes == {keys.principal(USER): principal(USER, "x"), by_it: None, **GIVEN_UP}


def test_what_a_certificate_has_logged_in_ends_once_it_is_revoked_and_nothing_else():
    base = ground("ALTER USER u SET CERTIFICATE ON")
    by_it = log_in_by(base, 1, by_certificate=True, certificate="1f")
    log_in_by(base, 2, by_certificate=True, certificate="2f")
    log_in(base, USER, 3)
    log_in_by(base, 4, by_token=HASH)
    changes, _ = first(base, "ALTER CLUSTER REVOKE CERTIFICATE '1f'")
    assert changes == {keys.revoked_certificate("1f"): RevokedCertificateRecord(serial="1f"), by_it: None}


def test_a_user_does_not_let_certificates_in():
    refused(ground(), "ALTER USER u SET CERTIFICATE ON", Forbidden, "FORBIDDEN", user="u")
