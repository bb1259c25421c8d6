"""Who may do what: every kind of statement, decided on one catalog, and whose rights count."""

from typing import get_args

import hypothesis
import pytest
from hypothesis import strategies as st

from leasehold.core import ddl
from leasehold.core.access.request_rights import check_append, check_read, check_request
from leasehold.core.access.rights import (
    CLUSTER,
    check_hidden,
    check_statement,
    holds,
    keeps_administrator,
)
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.membership.identity import hash_secret, node_login
from leasehold.core.words import keys
from leasehold.core.words.messages import AskReceipts
from leasehold.core.words.operations import Change
from leasehold.core.words.records import (
    GrantRecord,
    HiddenColumn,
    HiddenDatabase,
    HiddenRows,
    HiddenTable,
    HiddenView,
    LoginRecord,
    PrincipalKind,
    Right,
    UseState,
)
from leasehold.core.words.statements import AlterProperties, Definition, TableName
from leasehold.errors import Forbidden, Refused, Unauthenticated
from leasehold.sql.parse import parse
from tests.unit.core.access.rights_words import (
    ALTER,
    CREATE,
    DATABASE,
    DROP,
    INSERT,
    LOGIN,
    NOBODY,
    OTHER,
    ROLE,
    SELECT,
    TABLE,
    TOKEN,
    TRANSACTION,
    USER,
    VIEW,
    given,
    one_catalog,
    principal,
    put,
)
from tests.unit.core.catalog_words import create_database
from tests.unit.core.ddl_words import ground


@pytest.fixture(scope="module")
def before():
    return one_catalog()


NEEDS = [
    ("CREATE DATABASE x", [(CREATE, CLUSTER)]),
    ("ALTER DATABASE db SET DBPROPERTIES ('a' = 'b')", [(ALTER, DATABASE)]),
    ("DROP DATABASE db", [(DROP, DATABASE)]),
    ("DROP DATABASE db CASCADE", [(DROP, DATABASE)]),
    ("CREATE TABLE db.x (a INT)", [(CREATE, DATABASE)]),
    ("ALTER TABLE db.t RENAME TO db.x", [(ALTER, TABLE), (CREATE, DATABASE)]),
    ("ALTER TABLE db.t SET TBLPROPERTIES ('a' = 'b')", [(ALTER, TABLE)]),
    ("ALTER TABLE db.t ADD COLUMN x INT", [(ALTER, TABLE)]),
    ("ALTER TABLE db.t RENAME COLUMN a TO x", [(ALTER, TABLE)]),
    ("ALTER TABLE db.t ALTER COLUMN b FIRST", [(ALTER, TABLE)]),
    ("ALTER TABLE db.t ALTER COLUMN a TYPE BIGINT", [(ALTER, TABLE)]),
    ("ALTER TABLE db.t ALTER COLUMN a SET DEFAULT 1", [(ALTER, TABLE)]),
    ("ALTER TABLE db.t DROP COLUMN a", [(ALTER, TABLE)]),
    ("ALTER TABLE db.t ALTER COLUMN a COMMENT 'x'", [(ALTER, TABLE)]),
    ("COMMENT ON TABLE db.t IS 'x'", [(ALTER, TABLE)]),
    ("COMMENT ON VIEW db.v IS 'x'", [(ALTER, VIEW)]),
    ("COMMENT ON DATABASE db IS 'x'", [(ALTER, DATABASE)]),
    ("DROP TABLE db.t", [(DROP, TABLE)]),
    ("DELETE FROM db.t WHERE a = 1", [(DROP, TABLE)]),
    (
        "CREATE VIEW db.x AS SELECT t.a FROM db.t JOIN db.v ON t.a = v.a",
        [(CREATE, DATABASE), (SELECT, TABLE), (SELECT, VIEW)],
    ),
    ("CREATE OR REPLACE VIEW db.x AS SELECT a FROM db.t", [(CREATE, DATABASE), (SELECT, TABLE)]),
    ("CREATE OR REPLACE VIEW db.v AS SELECT a FROM db.t", [(CREATE, DATABASE), (ALTER, VIEW), (SELECT, TABLE)]),
    ("ALTER VIEW db.v RENAME TO db.x", [(ALTER, VIEW), (CREATE, DATABASE)]),
    ("DROP VIEW db.v", [(DROP, VIEW)]),
    ("CREATE USER x PASSWORD 'p'", [(ALTER, CLUSTER)]),
    ("ALTER USER p11 PASSWORD 'p'", [(ALTER, CLUSTER)]),
    ("ALTER USER u SET CERTIFICATE ON", [(ALTER, CLUSTER)]),
    (f"CREATE TOKEN x FOR USER p11 HASH '{'ab' * 32}'", [(ALTER, CLUSTER)]),
    ("DROP TOKEN other", [(ALTER, CLUSTER)]),
    ("CREATE ROLE x", [(ALTER, CLUSTER)]),
    ("ALTER ROLE p11 RENAME TO x", [(ALTER, CLUSTER)]),
    ("ALTER USER u RENAME TO x", [(ALTER, CLUSTER)]),
    ("DROP USER u", [(ALTER, CLUSTER)]),
    ("GRANT SELECT ON TABLE db.t TO u", [(ALTER, CLUSTER)]),
    ("REVOKE SELECT ON TABLE db.t FROM u", [(ALTER, CLUSTER)]),
    ("GRANT ROLE p11 TO u", [(ALTER, CLUSTER)]),
    ("REVOKE ROLE p11 FROM u", [(ALTER, CLUSTER)]),
    ("ALTER CLUSTER SET min_in_sync = 1", [(ALTER, CLUSTER)]),
    ("ALTER CLUSTER REBALANCE", [(ALTER, CLUSTER)]),
    ("ALTER CLUSTER REVOKE CERTIFICATE '1f'", [(ALTER, CLUSTER)]),
    ("ALTER NODE n1 DRAIN", [(ALTER, CLUSTER)]),
]


def above(target):
    """What a right on lies in: there it holds as well."""
    return {CLUSTER: [], DATABASE: [CLUSTER]}.get(target, [DATABASE, CLUSTER])


@pytest.mark.parametrize(("text", "needs"), NEEDS)
def test_a_statement_needs_exactly_these_rights(before, text, needs):
    statement = parse(text)
    check_statement(statement, given(before, *needs), LOGIN)
    for missing in needs:
        others = [one for one in needs if one != missing]
        # Every other right on the same object, and this one on an object that has nothing to do with it.
        wrong = [(right, missing[1]) for right in Right if right != missing[0] and (right, missing[1]) not in others]
        with pytest.raises(Forbidden, match=f"u lacks {missing[0]} ON"):
            check_statement(statement, given(before, *others, *wrong, (missing[0], OTHER)), LOGIN)
        for target in above(missing[1]):
            check_statement(statement, given(before, *others, (missing[0], target)), LOGIN)


def test_the_table_covers_every_kind_of_statement():
    assert {type(parse(text)) for text, _ in NEEDS} == set(get_args(Definition))


def test_a_user_may_change_his_own_password(before):
    check_statement(parse("ALTER USER U PASSWORD 'p'"), before, LOGIN)


def by_token(catalog):
    return put(catalog, keys.login(LOGIN), LoginRecord(token_hash=LOGIN, user=USER, order=1, by_token=b"own"))


OWN = (f"CREATE TOKEN x FOR USER U HASH '{'ab' * 32}'", "DROP TOKEN OWN", "DROP TOKEN gone")


@pytest.mark.parametrize("text", OWN)
def test_a_user_may_make_and_drop_own_tokens(before, text):
    check_statement(parse(text), before, LOGIN)


def test_a_login_by_a_token_gains_nothing_that_outlives_the_token(before):
    for text in (OWN[0], "ALTER USER u PASSWORD 'p'"):
        with pytest.raises(Forbidden, match="neither another password nor another token"):
            check_statement(parse(text), by_token(before), LOGIN)
        check_statement(parse(text), given(by_token(before), (ALTER, CLUSTER)), LOGIN)
    check_statement(parse("DROP TOKEN own"), by_token(before), LOGIN)


@pytest.mark.parametrize("text", ["DROP TABLE IF EXISTS db.gone", "DROP DATABASE IF EXISTS gone", "DROP VIEW db.gone"])
def test_what_is_not_there_needs_no_right(before, text):
    check_statement(parse(text), before, LOGIN)


@pytest.mark.parametrize(
    ("hidden", "target"),
    [
        (HiddenDatabase(database=DATABASE), DATABASE),
        (HiddenTable(table=TABLE), TABLE),
        (HiddenRows(table=TABLE, number=1), TABLE),
        (HiddenView(view=VIEW), VIEW),
    ],
)
def test_what_a_statement_takes_away_needs_drop(before, hidden, target):
    with pytest.raises(Forbidden, match="u lacks DROP ON"):
        check_hidden((hidden,), given(before, (ALTER, target), (DROP, OTHER)), before.principals[USER])
    check_hidden((hidden,), given(before, (DROP, target)), before.principals[USER])


def test_a_dropped_column_is_altering_its_table(before):
    check_hidden((HiddenColumn(table=TABLE, field=1),), before, before.principals[USER])


def test_a_shorter_ttl_needs_drop_besides():
    base = ground(create_database(), parse("CREATE TABLE db.t (a TIMESTAMP) TBLPROPERTIES ('time_column' = 'a')"))
    base.put(keys.principal(USER), principal(USER))
    base.put(keys.grant(TABLE, USER), GrantRecord(object=TABLE, principal=USER, rights=(ALTER,)))
    shorter = AlterProperties(table=TableName("db", "t"), properties={}, ttl_ns=86_400 * 10**9)
    with pytest.raises(Forbidden, match="u lacks DROP ON TABLE"):
        ddl.begin(base.request(shorter, user="u", wall_us=10**15), base.catalog)
    base.put(keys.grant(TABLE, USER), GrantRecord(object=TABLE, principal=USER, rights=(ALTER, DROP)))
    assert ddl.begin(base.request(shorter, user="u", wall_us=10**15), base.catalog).changes


# ---------------------------------------------------------------- who asks


def test_without_users_everybody_may_do_everything(before):
    catalog = before.changed([Change(keys.principal(USER), None)])
    assert not catalog.users
    for text, _ in NEEDS:
        check_statement(parse(text), catalog, None)
    assert check_request(AskReceipts(after=0, limit=1), catalog) is None
    check_read(None, TABLE, (), catalog)
    check_read(node_login(NOBODY), TABLE, (), catalog)
    check_append(None, TABLE, TRANSACTION, catalog)


def test_a_user_who_is_going_still_keeps_the_cluster_closed(before):
    catalog = put(before, keys.principal(USER), principal(USER, state=UseState.PRE_DELETE))
    for user in (None, LOGIN):
        with pytest.raises(Unauthenticated):
            check_statement(parse("CREATE DATABASE x"), catalog, user)
    for login in (None, TOKEN):
        with pytest.raises(Unauthenticated):
            check_read(node_login(login), TABLE, (), catalog)


@pytest.mark.parametrize("login", [None, hash_secret(NOBODY)])
def test_a_statement_needs_a_login(before, login):
    catalog = given(before, *((right, CLUSTER) for right in Right))
    with pytest.raises(Unauthenticated):
        check_statement(parse("CREATE DATABASE x"), catalog, login)
    assert check_statement(parse("CREATE DATABASE x"), catalog, LOGIN).name == "u"


@pytest.mark.parametrize("login", [None, NOBODY])
def test_rows_need_a_login(before, login):
    catalog = given(before, *((right, CLUSTER) for right in Right))
    with pytest.raises(Unauthenticated):
        check_read(node_login(login), TABLE, (), catalog)
    with pytest.raises(Unauthenticated):
        check_append(node_login(login), TABLE, TRANSACTION, catalog)
    check_read(node_login(TOKEN), TABLE, (), catalog)
    check_append(node_login(TOKEN), TABLE, TRANSACTION, catalog)


# ---------------------------------------------------------------- whose rights count


def reads(catalog):
    try:
        check_read(node_login(TOKEN), TABLE, (), catalog)
    except Forbidden:
        return False
    return True


def test_the_rights_of_a_role_are_those_of_its_users(before):
    assert not reads(before)
    assert reads(given(before, (SELECT, TABLE), to=ROLE))


def test_a_role_that_is_being_taken_away_counts_no_more(before):
    catalog = given(before, (SELECT, TABLE), to=ROLE)
    assert not reads(put(catalog, keys.principal(USER), principal(USER, roles=(ROLE,), leaving=(ROLE,))))


def test_a_role_that_is_being_dropped_counts_no_more(before):
    catalog = given(before, (SELECT, TABLE), to=ROLE)
    gone = principal(ROLE, PrincipalKind.ROLE, state=UseState.PRE_DELETE)
    assert not reads(put(catalog, keys.principal(ROLE), gone))


def test_a_right_that_is_being_revoked_counts_no_more(before):
    assert not reads(given(before, (SELECT, TABLE), (INSERT, TABLE), leaving=(SELECT,)))
    assert reads(given(before, (SELECT, TABLE), (INSERT, TABLE), leaving=(INSERT,)))


def test_a_right_on_another_object_that_is_left_counts_still(before):
    catalog = given(before, (SELECT, TABLE), leaving=(SELECT,))
    assert reads(given(catalog, (SELECT, DATABASE)))


PRINCIPALS = st.lists(
    st.tuples(
        st.sampled_from(PrincipalKind),
        st.sampled_from(UseState),
        st.sets(st.integers(1, 6)),
        st.sets(st.integers(1, 6)),
        st.sets(st.sampled_from(Right)),
        st.sets(st.sampled_from(Right)),
    ),
    max_size=6,
)


@hypothesis.given(PRINCIPALS)
def test_an_administrator_is_whoever_holds_alter_on_the_cluster(those):
    catalog = Catalog()
    for number, (kind, state, roles, leaving, rights, going) in enumerate(those, 1):
        going_roles = tuple(sorted(roles & leaving))
        record = principal(number, kind, state=state, roles=tuple(sorted(roles)), leaving=going_roles)
        catalog = put(catalog, keys.principal(number), record)
        if rights:
            catalog = given(catalog, *((one, CLUSTER) for one in rights), to=number, leaving=tuple(rights & going))
    users = [one for one in catalog.principals.values() if one.kind is PrincipalKind.USER]
    used = [one for one in users if one.state is UseState.IN_USE]
    if not users or any(holds(one, ALTER, (CLUSTER,), catalog) for one in used):
        keeps_administrator(catalog)
    else:
        with pytest.raises(Refused, match="nobody could grant rights any more"):
            keeps_administrator(catalog)
