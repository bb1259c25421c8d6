"""Since when the certificates of a name count that somebody else had before."""

import pytest

from leasehold.core import ddl
from leasehold.core.access.callers import Caller, CallerRole
from leasehold.core.access.certified_names import certified_after, certified_later, is_too_old
from leasehold.core.access.logins import record_login_by_certificate
from leasehold.core.catalog.catalog import Catalog
from leasehold.errors import Forbidden
from leasehold.ids import LoginToken
from leasehold.limits.certificates import CERTIFICATE_SKEW_NS
from leasehold.limits.units import SECOND_NS
from leasehold.sql.parse import parse
from tests.unit.core.ddl.test_plans_principals import ground
from tests.unit.core.ddl_words import run as run_whole

NOW_S = 1_700_000_000
LATER = {"wall_us": NOW_S * 1_000_000}
FROM_S = certified_after(LATER["wall_us"])
ON = "ALTER USER {} SET CERTIFICATE ON"
AGAIN = "CREATE USER {} PASSWORD 'p'"


@pytest.mark.parametrize("wall_us", [1_000_000_000_000_000, 1_000_000_000_999_999])
def test_of_a_removed_name_a_certificate_counts_that_is_issued_in_a_later_second(wall_us):
    catalog = Catalog()
    after = catalog.changed([certified_later("n1", catalog, wall_us)])
    in_that_second, in_the_next = (10**9 + late - CERTIFICATE_SKEW_NS // SECOND_NS for late in (0, 1))
    assert in_that_second < after.certified_names["n1"].from_s <= in_the_next
    assert after.changed([certified_later("n1", after, wall_us - 10**9)]).certified_names == after.certified_names


def logs_in(base, name, begins_s):
    caller = Caller(CallerRole.CLIENT, name, "1f", begins_s=begins_s, ends_s=2 * NOW_S)
    try:
        record_login_by_certificate(LoginToken("1" * 32), caller, base.catalog, LATER["wall_us"])
    except Forbidden as error:
        assert error.code == "CERTIFICATE_REVOKED"
        return False
    return True


def run(base, *texts, **context):
    for text in texts:
        run_whole(base, parse(text), user="root", password_hash="h", **context)


def test_a_certificate_older_than_its_name_s_first_user_counts():
    base = ground()
    run(base, ON.format("u"), **LATER)
    assert logs_in(base, "u", 0)
    assert not base.catalog.certified_names


@pytest.mark.parametrize("given_up", ["DROP USER u", "ALTER USER u RENAME TO x"])
@pytest.mark.parametrize("next_", ["U", "u"])
def test_who_gets_a_name_is_not_opened_by_the_certificate_of_who_had_it(given_up, next_):
    base = ground(ON.format("u"))
    run(base, given_up, AGAIN.format(next_))
    run(base, ON.format(next_), **LATER)
    for name in ("u", "U"):
        assert not logs_in(base, name, FROM_S - 1)
        assert logs_in(base, name, FROM_S)


def test_who_is_renamed_is_not_opened_by_the_certificate_of_who_had_that_name():
    base = ground("CREATE USER v PASSWORD 'p'")
    run(base, "DROP USER v", "ALTER USER u RENAME TO v")
    run(base, ON.format("v"), **LATER)
    assert not logs_in(base, "v", FROM_S - 1)


def test_a_name_that_only_changes_its_letters_is_not_given_up():
    base = ground(ON.format("u"), "ALTER USER u RENAME TO U")
    assert logs_in(base, "u", 0)
    assert not base.catalog.certified_names


def test_switching_off_and_on_keeps_the_certificates_of_a_user():
    base = ground()
    run(base, "DROP USER u", AGAIN.format("u"))
    run(base, ON.format("u"), **LATER)
    run(base, "ALTER USER u SET CERTIFICATE OFF", ON.format("u"), wall_us=2 * LATER["wall_us"])
    assert logs_in(base, "u", FROM_S)


def test_each_next_user_of_a_name_begins_anew():
    base = ground()
    run(base, "DROP USER u", AGAIN.format("u"))
    run(base, ON.format("u"), **LATER)
    run(base, "DROP USER u", AGAIN.format("u"))
    run(base, ON.format("u"), wall_us=LATER["wall_us"] + 1_000_000)
    assert not logs_in(base, "u", FROM_S)
    assert logs_in(base, "u", FROM_S + 1)


def test_a_dropped_user_that_comes_back_keeps_the_certificates():
    base = ground(ON.format("u"))
    procedure = base.begin(parse("DROP USER u"), user="root")
    base.commit(ddl.roll_back(procedure, base.catalog, elapsed_ns=1))
    assert logs_in(base, "u", 0)
    assert not base.catalog.certified_names


def test_names_of_roles_are_in_no_certificate():
    base = ground()
    run(base, "ALTER ROLE r RENAME TO q", "DROP ROLE q")
    assert not base.catalog.certified_names


def test_the_names_of_nodes_and_of_users_are_apart():
    base = ground()
    run(base, "DROP USER u")
    base.commit([certified_later("w", base.catalog, LATER["wall_us"])])
    assert not is_too_old("u", 0, base.catalog)
    run(base, AGAIN.format("w"), ON.format("w"), **LATER)
    assert logs_in(base, "w", 0)
