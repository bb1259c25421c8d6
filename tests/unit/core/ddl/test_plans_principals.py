"""Users, roles and rights: what each statement writes first, at its point of no return, and when it is taken back."""

import pytest

from leasehold.core import ddl
from leasehold.core.access.rights import user_by
from leasehold.core.catalog.plan import put
from leasehold.core.ddl.plans.rights import forget_rights
from leasehold.core.replicas.leftovers import count, leftovers
from leasehold.core.words import keys
from leasehold.core.words.records import (
    CertifiedNameRecord,
    GrantRecord,
    HiddenMembership,
    HiddenPrincipal,
    HiddenRights,
    LoginRecord,
    PrincipalKind,
    PrincipalRecord,
    Right,
    UseState,
)
from leasehold.errors import AlreadyExists, Forbidden, NotFound, Refused, Unauthenticated
from leasehold.limits.people import ROLES_PER_USER_MAX
from leasehold.sql.parse import parse
from tests.unit.core.catalog_words import Ground
from tests.unit.core.ddl_words import began, close, run, written

SELECT, INSERT, ALTER, DROP, CREATE = Right
CLUSTER = 0
SETUP = (
    ("CREATE DATABASE db", None),
    ("CREATE TABLE db.t (a INT)", None),
    ("CREATE USER root PASSWORD 'p'", None),
    ("CREATE USER u PASSWORD 'p'", "root"),
    ("CREATE ROLE r", "root"),
)
DATABASE, TABLE, ROOT, USER, ROLE = 1, 2, 3, 4, 5
GIVEN_UP = {keys.certified_name("client/u"): CertifiedNameRecord(name="client/u", from_s=0)}
"""What the user's name leaves."""


def ground(*more):
    """A cluster with db.t, the administrator root, the user u and the role r; `more` statements are root's."""
    base = Ground()
    for text, user in (*SETUP, *((text, "root") for text in more)):
        run(base, parse(text), user=user, password_hash="h")
    return base


def principal(number, name, kind=PrincipalKind.USER, **fields):
    whole = {"id": number, "name": name, "kind": kind, "state": UseState.IN_USE, "roles": ()}
    return PrincipalRecord(**{**whole, "password_hash": "h" if kind is PrincipalKind.USER else None, **fields})


def right(target, who, *rights, leaving=()):
    return GrantRecord(object=target, principal=who, rights=rights, leaving=leaving)


def log_in(base, who, number):
    token_hash = bytes([number]) * 32
    base.put(keys.login(token_hash), LoginRecord(token_hash=token_hash, user=who, order=number))
    return keys.login(token_hash)


def first(base, text, *hides, user="root", **context):
    """What the first transaction of a statement writes besides what all write."""
    return began(base, parse(text), *hides, user=user, password_hash="h", **context)


def refused(base, text, kind, code, user="root"):
    login = None if user is None else base.login(user)
    before = base.catalog
    with pytest.raises(kind) as caught:
        base.begin(parse(text), login=login, password_hash="h")
    assert caught.value.code == code
    assert base.catalog is before
    return caught.value


# ---------------------------------------------------------------- users and roles


def test_the_first_user_has_every_right_on_the_cluster():
    changes, made = first(Ground(), "CREATE USER root PASSWORD 'p'", user=None)
    assert changes == {
        keys.principal(1): principal(1, "root"),
        keys.grant(CLUSTER, 1): right(CLUSTER, 1, *Right),
    }
    assert made == 1


def test_of_two_first_users_asked_for_at_once_one_is():
    base = Ground()
    base.begin(parse("CREATE USER a PASSWORD 'p'"), password_hash="h")
    refused(base, "CREATE USER b PASSWORD 'p'", Unauthenticated, "UNAUTHENTICATED", user=None)


def test_a_later_user_and_a_role_have_no_rights():
    base = ground()
    number = base.catalog.counters.next_object
    assert first(base, "CREATE USER v PASSWORD 'p'") == ({keys.principal(number): principal(number, "v")}, 1)
    role = principal(number, "s", PrincipalKind.ROLE)
    assert first(base, "CREATE ROLE s") == ({keys.principal(number): role}, 1)


@pytest.mark.parametrize("text", ["CREATE USER U PASSWORD 'p'", "CREATE USER r PASSWORD 'p'", "CREATE ROLE u"])
def test_users_and_roles_share_their_names(text):
    refused(ground(), text, AlreadyExists, "ALREADY_EXISTS")


def test_if_not_exists_is_for_the_same_kind():
    base = ground()
    assert base.begin(parse("CREATE USER IF NOT EXISTS u PASSWORD 'q'"), user="root", password_hash="q") is None
    assert base.begin(parse("CREATE ROLE IF NOT EXISTS r"), user="root") is None
    refused(base, "CREATE ROLE IF NOT EXISTS u", AlreadyExists, "ALREADY_EXISTS")


def test_another_password_ends_what_he_has_logged_in():
    base = ground()
    his, hers = log_in(base, USER, 1), log_in(base, ROOT, 2)
    with_it = keys.login(base.login("u"))
    changes, _ = first(base, "ALTER USER u PASSWORD 'q'", user="u")
    assert changes == {keys.principal(USER): principal(USER, "u"), his: None, with_it: None}
    assert hers not in changes


def test_a_renamed_user_keeps_what_he_has():
    base = ground("GRANT SELECT ON TABLE db.t TO u")
    log_in(base, USER, 1)
    changes, _ = first(base, "ALTER USER u RENAME TO w")
    assert changes == {keys.principal(USER): principal(USER, "w"), **GIVEN_UP}
    assert first(base, "ALTER USER u RENAME TO U")[0] == {keys.principal(USER): principal(USER, "U")}
    assert base.begin(parse("ALTER USER u RENAME TO u"), user="root") is None
    refused(base, "ALTER USER u RENAME TO r", AlreadyExists, "ALREADY_EXISTS")
    refused(base, "ALTER ROLE u RENAME TO x", NotFound, "NOT_FOUND")


def test_a_dropped_user_is_hidden_and_logged_out_and_then_gone_with_his_rights():
    base = ground("GRANT SELECT ON TABLE db.t TO u", "GRANT CREATE ON DATABASE db TO u", "GRANT ROLE r TO u")
    login = log_in(base, USER, 1)
    hidden = HiddenPrincipal(principal=USER)
    going = principal(USER, "u", roles=(ROLE,), state=UseState.PRE_DELETE)
    assert first(base, "DROP USER u", hidden)[0] == {keys.principal(USER): going}
    procedure = base.begin(parse("DROP USER u"), user="root")
    gone = written(ddl.finish(procedure, base.catalog))
    del gone[keys.procedure(procedure.number)]
    assert gone == {keys.principal(USER): None, login: None, **GIVEN_UP}
    base.commit(ddl.finish(procedure, base.catalog))
    assert leftovers(base.catalog) == [keys.grant(DATABASE, USER), keys.grant(TABLE, USER)], "which go behind it"


def test_a_login_counts_for_nothing_while_its_user_is_being_dropped_and_lives_again():
    base = ground("GRANT SELECT ON TABLE db.t TO u")
    login = base.login("u")
    procedure = base.begin(parse("DROP USER u"), user="root")
    with pytest.raises(Unauthenticated, match="user u is being dropped"):
        user_by(login, base.catalog)
    base.commit(ddl.roll_back(procedure, base.catalog, elapsed_ns=1))
    assert user_by(login, base.catalog).name == "u"


def test_a_user_goes_however_many_rights_he_has():
    """What the point of no return writes does not grow with them: else it would not fit one transaction some day."""
    base = ground()
    many = 500
    rights = [put(keys.grant(number, USER), right(number, USER, SELECT)) for number in range(1_000, 1_000 + many)]
    procedure = base.begin(parse("DROP USER u"), user="root")
    catalog = base.catalog.changed(rights)
    changes = ddl.finish(procedure, catalog)
    assert len(changes) == 3
    assert count(catalog.changed(changes)) == many


def test_a_role_that_somebody_has_is_not_dropped():
    base = ground("GRANT ROLE r TO u")
    error = refused(base, "DROP ROLE r", Refused, "ROLE_IN_USE")
    assert "u" in error.text.split()
    run(base, parse("REVOKE ROLE r FROM u"), user="root")
    run(base, parse("DROP ROLE r"), user="root")
    assert base.catalog.find_principal("r") is None


def test_if_exists_passes_over_what_is_not_there():
    base = ground()
    for text in ("DROP USER IF EXISTS nobody", "DROP ROLE IF EXISTS u", "DROP USER IF EXISTS r"):
        assert base.begin(parse(text), user="root") is None
    refused(base, "DROP USER r", NotFound, "NOT_FOUND")


# ---------------------------------------------------------------- the last administrator


@pytest.mark.parametrize(
    "text", ["DROP USER root", "REVOKE ALTER ON CLUSTER FROM root", "REVOKE ALL ON CLUSTER FROM root"]
)
def test_the_last_administrator_stays(text):
    refused(ground(), text, Refused, "LAST_ADMINISTRATOR")
    base = ground("GRANT ALTER ON CLUSTER TO u")
    run(base, parse(text), user="u")
    left = base.catalog.grants[CLUSTER].get(ROOT, right(CLUSTER, ROOT))
    assert ROOT not in base.catalog.principals or ALTER not in left.rights


def test_an_administrator_by_a_role_counts_until_the_role_leaves_him():
    base = ground("GRANT ALTER ON CLUSTER TO r", "GRANT ROLE r TO u", "REVOKE ALTER ON CLUSTER FROM root")
    refused(base, "REVOKE ROLE r FROM u", Refused, "LAST_ADMINISTRATOR", user="u")
    refused(base, "REVOKE ALTER ON CLUSTER FROM r", Refused, "LAST_ADMINISTRATOR", user="u")
    refused(base, "DROP USER u", Refused, "LAST_ADMINISTRATOR", user="u")


def test_of_two_administrators_who_are_taken_away_at_once_one_stays():
    base = ground("GRANT ALTER ON CLUSTER TO u")
    base.begin(parse("REVOKE ALTER ON CLUSTER FROM root"), user="root")
    refused(base, "REVOKE ALTER ON CLUSTER FROM u", Refused, "LAST_ADMINISTRATOR", user="u")


def test_a_user_who_is_being_dropped_may_come_back_and_needs_an_administrator_then():
    base = ground()
    procedure = base.begin(parse("DROP USER u"), user="root")
    refused(base, "DROP USER root", Refused, "LAST_ADMINISTRATOR")
    base.commit(ddl.roll_back(procedure, base.catalog, elapsed_ns=1))
    refused(base, "DROP USER root", Refused, "LAST_ADMINISTRATOR")
    assert base.begin(parse("CREATE DATABASE x"), user="root") is not None


def test_the_last_user_of_all_may_go_and_then_the_cluster_is_open():
    base = ground("DROP USER u")
    run(base, parse("DROP USER root"), user="root")
    assert not base.catalog.users
    assert run(base, parse("CREATE DATABASE x")) is not None


# ---------------------------------------------------------------- rights and roles


def test_rights_are_granted_besides_those_held():
    base = ground("GRANT INSERT ON TABLE db.t TO u")
    changes, _ = first(base, "GRANT SELECT, INSERT ON TABLE db.t TO u")
    assert changes == {keys.grant(TABLE, USER): right(TABLE, USER, SELECT, INSERT)}
    assert base.begin(parse("GRANT INSERT ON TABLE db.t TO u"), user="root") is None
    refused(base, "GRANT INSERT ON TABLE db.t TO nobody", NotFound, "NOT_FOUND")
    refused(base, "GRANT INSERT ON TABLE db.gone TO u", NotFound, "NOT_FOUND")
    refused(base, "GRANT INSERT ON VIEW db.t TO u", NotFound, "IS_TABLE")


def test_rights_are_revoked_as_far_as_they_are_held():
    base = ground("GRANT SELECT, INSERT ON DATABASE db TO u")
    hidden = HiddenRights(principal=USER, object=DATABASE, rights=(INSERT,))
    changes, _ = first(base, "REVOKE INSERT, DROP ON DATABASE db FROM u", hidden)
    assert changes == {keys.grant(DATABASE, USER): right(DATABASE, USER, SELECT, INSERT, leaving=(INSERT,))}
    run(base, parse("REVOKE INSERT, DROP ON DATABASE db FROM u"), user="root")
    assert base.catalog.grants[DATABASE][USER] == right(DATABASE, USER, SELECT)
    assert base.begin(parse("REVOKE INSERT ON DATABASE db FROM u"), user="root") is None
    run(base, parse("REVOKE ALL ON DATABASE db FROM u"), user="root")
    assert DATABASE not in base.catalog.grants
    refused(base, "REVOKE INSERT ON DATABASE db FROM nobody", NotFound, "NOT_FOUND")


def test_a_role_is_given_once_and_taken_once():
    base = ground("GRANT ROLE r TO u")
    assert base.catalog.principals[USER].roles == (ROLE,)
    assert base.begin(parse("GRANT ROLE r TO u"), user="root") is None
    hidden = HiddenMembership(user=USER, role=ROLE)
    changes, _ = first(base, "REVOKE ROLE r FROM u", hidden)
    assert changes == {keys.principal(USER): principal(USER, "u", roles=(ROLE,), leaving=(ROLE,))}
    run(base, parse("REVOKE ROLE r FROM u"), user="root")
    assert base.catalog.principals[USER] == principal(USER, "u")
    assert base.begin(parse("REVOKE ROLE r FROM u"), user="root") is None
    for text in ("GRANT ROLE u TO u", "GRANT ROLE r TO r", "GRANT ROLE x TO u", "REVOKE ROLE r FROM nobody"):
        refused(base, text, NotFound, "NOT_FOUND")


def test_a_user_has_so_many_roles():
    base = ground()
    many = principal(USER, "u", roles=tuple(range(100, 100 + ROLES_PER_USER_MAX)))
    base.put(keys.principal(USER), many)
    refused(base, "GRANT ROLE r TO u", Refused, "TOO_MANY_ROLES")


def test_rights_on_what_goes_are_forgotten():
    base = ground(
        "GRANT SELECT ON TABLE db.t TO u", "GRANT SELECT ON TABLE db.t TO r", "GRANT DROP ON DATABASE db TO r"
    )
    assert written(forget_rights([TABLE, TABLE, 99], base.catalog)) == {
        keys.grant(TABLE, USER): None,
        keys.grant(TABLE, ROLE): None,
    }
    run(base, parse("DROP TABLE db.t"), user="root")
    assert set(base.catalog.grants) == {CLUSTER, DATABASE}


def test_who_lacks_the_right_changes_nothing():
    refused(ground(), "CREATE ROLE s", Forbidden, "FORBIDDEN", user="u")
    refused(ground(), "GRANT ALTER ON CLUSTER TO u", Forbidden, "FORBIDDEN", user="u")


# ---------------------------------------------------------------- steps, and steps again

DESTRUCTIVE = ("DROP USER u", "DROP ROLE s", "REVOKE ALL ON TABLE db.t FROM u", "REVOKE ROLE r FROM u")


def filled():
    return ground("CREATE ROLE s", "GRANT ROLE r TO u", "GRANT SELECT, DROP ON TABLE db.t TO u")


@pytest.mark.parametrize("text", DESTRUCTIVE)
def test_what_was_hidden_goes_once(text):
    base = filled()
    procedure = base.begin(parse(text), user="root")
    base.commit(ddl.finish(procedure, base.catalog))
    assert ddl.finish(procedure, base.catalog) == ()
    after = base.catalog
    close(base, procedure)
    assert ddl.finish(procedure, base.catalog) == ()
    assert (base.catalog.principals, base.catalog.grants) == (after.principals, after.grants)
    assert base.restored() == base.catalog
    with pytest.raises(Refused) as caught:
        ddl.roll_back(procedure, base.catalog, elapsed_ns=1)
    assert caught.value.code == "PAST_RETURN"


@pytest.mark.parametrize("text", DESTRUCTIVE)
def test_what_was_hidden_comes_back_once(text):
    base = filled()
    before = base.catalog
    procedure = base.begin(parse(text), user="root")
    assert (base.catalog.principals, base.catalog.grants) != (before.principals, before.grants)
    base.commit(ddl.roll_back(procedure, base.catalog, elapsed_ns=1))
    assert (base.catalog.principals, base.catalog.grants) == (before.principals, before.grants)
    assert (base.catalog.principal_names, base.catalog.users) == (before.principal_names, before.users)
    assert ddl.roll_back(procedure, base.catalog, elapsed_ns=1) == ()
    with pytest.raises(Refused) as caught:
        ddl.finish(procedure, base.catalog)
    assert caught.value.code == "ROLLED_BACK"


@pytest.mark.parametrize("text", ["CREATE USER v PASSWORD 'p'", "CREATE ROLE v", "GRANT ALL ON CLUSTER TO u"])
def test_what_is_added_stays_if_nodes_are_waited_for_in_vain(text):
    base = ground()
    procedure = base.begin(parse(text), user="root", password_hash="h")
    after = base.catalog
    pending = ddl.leave_pending(procedure, base.catalog, revision=after.revision, elapsed_ns=1, pending=(1,))
    base.commit(pending)
    assert (base.catalog.principals, base.catalog.grants) == (after.principals, after.grants)
    assert ddl.leave_pending(procedure, base.catalog, revision=after.revision, elapsed_ns=1, pending=(1,)) == ()
