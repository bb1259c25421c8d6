"""What a delegated login may do: the rows of one table, within its limits and the rights of its user."""

import msgspec
import pytest

from leasehold.core.access.logins import (
    delegated_logins,
    delegated_logins_expired,
    delegated_logins_renewed,
    logins_ended,
    record_delegated_login,
)
from leasehold.core.access.request_rights import check_append, check_read, check_request, check_scrub
from leasehold.core.access.rights import (
    CLUSTER,
    asker_of,
    check_administrator,
    check_question,
    check_statement,
    user_of,
)
from leasehold.core.membership.identity import hash_login, node_login
from leasehold.core.words import keys
from leasehold.core.words.messages import (
    AbortTransaction,
    AgreeCutoff,
    AskBackup,
    AskOutcome,
    AskReceipts,
    AskTable,
    AskView,
    CommitTransaction,
    DelegateLogin,
    Execute,
    OpenTransaction,
    PlanChanges,
    PlanQuery,
    PlanScan,
    RemoveNode,
    Replaced,
    TransferLeadership,
)
from leasehold.core.words.operations import Change
from leasehold.core.words.records import LoginRecord, TransactionState
from leasehold.errors import Forbidden, Refused, Unauthenticated
from leasehold.ids import LoginToken, TransactionId
from leasehold.limits.people import DELEGATED_RENEW_NS, DELEGATED_TTL_NS, LOGIN_TTL_NS
from leasehold.limits.statements import QUERY_TABLES_MAX
from leasehold.sql.parse import parse
from tests.unit.core.access.rights_words import (
    ALTER,
    CREATE,
    DROP,
    INSERT,
    LOGIN,
    OTHER,
    SELECT,
    TABLE,
    TOKEN,
    TRANSACTION,
    USER,
    VIEW,
    given,
    one_catalog,
    put,
)

READS, READS_THROUGH, WRITES, REPLACES = (LoginToken(digit * 32) for digit in "abce")
ANOTHER = TransactionId("9" * 32)
APPLICATION = b"a" * 32
NOW_US = 1_700_000_000_000_000


def asking(**fields):
    return DelegateLogin(cluster_id="c", login=TOKEN, **{"table": TABLE, **fields})


def delegated(catalog, token, **fields):
    return catalog.changed(record_delegated_login(token, asking(**fields), catalog, NOW_US))


@pytest.fixture(scope="module")
def all_rights():
    """Its user may do everything; the logins to read, to read through a view, to write, and to replace rows."""
    catalog = given(one_catalog(), *((right, CLUSTER) for right in (SELECT, INSERT, ALTER, DROP, CREATE)))
    catalog = delegated(catalog, READS)
    catalog = delegated(catalog, READS_THROUGH, through=(VIEW,))
    catalog = delegated(catalog, WRITES, transaction=TRANSACTION)
    return delegated(catalog, REPLACES, transaction=TRANSACTION, replaces=True)


def asks(kind, **fields):
    return kind(**{"cluster_id": "c", **fields})


GONE = (Replaced(bucket=0, segment="s"),)
COMMIT, ABORT = (
    asks(kind, transaction=TRANSACTION, **more)
    for kind, more in (
        (CommitTransaction, {"segments": ()}),
        (AbortTransaction, {}),
    )
)
ALLOWED = [
    (asks(AskTable, name="db.t"), {READS, READS_THROUGH, WRITES, REPLACES}),
    (asks(AskTable, name="db.gone"), {READS, READS_THROUGH, WRITES, REPLACES}),
    (asks(AskTable, name="db.other"), set()),
    (asks(AskTable, name="db.v"), set()),
    (asks(AskView, name="db.v"), set()),
    (asks(PlanScan, name="db.t", columns=None), {READS, REPLACES}),
    (asks(PlanScan, name="db.t", columns=None, replaces=True), {REPLACES}),
    (asks(PlanScan, name="db.other", columns=None, replaces=True), set()),
    (asks(PlanScan, name="db.t", columns=None, through=(VIEW,)), {READS_THROUGH}),
    (asks(PlanScan, name="db.other", columns=None), set()),
    (asks(PlanChanges, name="db.t", columns=None, since=0), {READS, REPLACES}),
    (asks(PlanChanges, name="db.other", columns=None, since=0), set()),
    (asks(PlanQuery, names=("db.t",)), set()),
    (asks(AgreeCutoff, table=TABLE, query="q"), {READS, REPLACES}),
    (asks(AgreeCutoff, table=TABLE, query="q", through=(VIEW,)), {READS_THROUGH}),
    (asks(AgreeCutoff, table=OTHER, query="q"), set()),
    (asks(OpenTransaction, transaction=TRANSACTION, table=TABLE, schema_version=1), {WRITES, REPLACES}),
    (asks(OpenTransaction, transaction=TRANSACTION, table=OTHER, schema_version=1), set()),
    (asks(OpenTransaction, transaction=ANOTHER, table=TABLE, schema_version=1), set()),
    (COMMIT, {WRITES, REPLACES}),
    (msgspec.structs.replace(COMMIT, transaction=ANOTHER), set()),
    (msgspec.structs.replace(COMMIT, replaces=GONE), {REPLACES}),
    (msgspec.structs.replace(COMMIT, covers=()), {REPLACES}),
    (msgspec.structs.replace(COMMIT, transaction=ANOTHER, covers=()), set()),
    (ABORT, {WRITES, REPLACES}),
    (msgspec.structs.replace(ABORT, transaction=ANOTHER), set()),
    (asking(), set()),
    (asking(transaction=TRANSACTION), set()),
    (asks(Execute, statement="1" * 32, text="SHOW TABLES"), set()),
    (asks(AskOutcome, statement="1" * 32), set()),
    (AskReceipts(after=0, limit=1), set()),
    (asks(AskBackup), set()),
    (asks(RemoveNode, name="n1"), set()),
    (asks(TransferLeadership, term=1), set()),
]


@pytest.mark.parametrize(("request_of", "allowed"), ALLOWED)
def test_a_delegated_login_is_for_the_rows_of_its_table_alone(all_rights, request_of, allowed):
    for token in (READS, READS_THROUGH, WRITES, REPLACES):
        request = msgspec.structs.replace(request_of, login=token)
        if token in allowed:
            assert check_request(request, all_rights).id == USER
        else:
            with pytest.raises(Forbidden, match="this login of u was made to"):
                check_request(request, all_rights)


def test_a_node_takes_it_for_its_table_its_views_and_its_transaction(all_rights):
    for token, table, through in ((READS, TABLE, ()), (READS_THROUGH, TABLE, (VIEW,)), (REPLACES, TABLE, ())):
        check_read(node_login(token), table, through, all_rights)
    for token, table, through in (
        (READS, OTHER, ()),
        (READS, TABLE, (VIEW,)),
        (READS_THROUGH, TABLE, ()),
        (WRITES, TABLE, ()),
        (REPLACES, OTHER, ()),
        (REPLACES, TABLE, (VIEW,)),
    ):
        with pytest.raises(Forbidden):
            check_read(node_login(token), table, through, all_rights)
    check_append(node_login(WRITES), TABLE, TRANSACTION, all_rights)
    check_append(node_login(REPLACES), TABLE, TRANSACTION, all_rights)
    for token, table, transaction in (
        (WRITES, OTHER, TRANSACTION),
        (WRITES, TABLE, ANOTHER),
        (READS, TABLE, TRANSACTION),
        (READS_THROUGH, TABLE, TRANSACTION),
    ):
        with pytest.raises(Forbidden):
            check_append(node_login(token), table, transaction, all_rights)
    with pytest.raises(Forbidden):
        check_scrub(node_login(READS), all_rights)


@pytest.mark.parametrize(
    "text",
    [
        "SHOW TABLES",
        "CREATE TOKEN k FOR USER u HASH '" + "0" * 64 + "'",
        "ALTER USER u PASSWORD 'p'",
        "DROP TOKEN own",
        "DROP TABLE db.t",
    ],
)
def test_it_runs_no_statement(all_rights, text):
    statement = parse(text)
    check = check_question if text.startswith("SHOW") else check_statement
    check(statement, all_rights, LOGIN)
    for token in (READS, WRITES):
        for ask in (
            lambda login: check(statement, all_rights, login),
            lambda login: check_administrator(all_rights, login),
        ):
            with pytest.raises(Forbidden, match="allows nothing else"):
                ask(hash_login(token))


def test_its_user_needs_the_rights_at_each_moment(all_rights):
    none = given(all_rights, (CREATE, CLUSTER))
    with pytest.raises(Forbidden, match="u lacks SELECT"):
        check_read(node_login(READS), TABLE, (), none)
    with pytest.raises(Forbidden, match="u lacks SELECT ON VIEW"):
        check_read(node_login(READS_THROUGH), TABLE, (VIEW,), given(none, (SELECT, TABLE)))
    with pytest.raises(Forbidden, match="u lacks INSERT"):
        check_append(node_login(WRITES), TABLE, TRANSACTION, none)
    for request in (asking(), asking(transaction=TRANSACTION)):
        with pytest.raises(Forbidden, match="u lacks"):
            check_request(request, none)
    with pytest.raises(Forbidden, match="u lacks SELECT ON VIEW"):
        check_request(asking(through=(VIEW,)), given(none, (SELECT, TABLE)))


def test_its_record_names_what_ends_it(all_rights):
    parents = {"by_token": b"own", "by_certificate": True, "certificate": "1f"}
    for field, value in parents.items():
        parent = LoginRecord(token_hash=LOGIN, user=USER, order=1, **{field: value})
        catalog = delegated(put(all_rights, keys.login(LOGIN), parent), LoginToken("d" * 32))
        made = catalog.logins[hash_login(LoginToken("d" * 32))]
        assert getattr(made, field) == value
    made = asker_of(node_login(WRITES), all_rights)
    assert (made.user.id, made.limits.transaction, made.limits.table) == (USER, TRANSACTION, TABLE)
    assert user_of(node_login(TOKEN), all_rights).id == USER


def test_it_expires_after_a_day(all_rights):
    day_us = LOGIN_TTL_NS // 1_000
    assert delegated_logins_expired(all_rights, NOW_US + day_us - 1) == []
    expired = delegated_logins_expired(all_rights, NOW_US + day_us)
    assert set(expired) == {hash_login(one) for one in (READS, READS_THROUGH, WRITES, REPLACES)}


def test_that_of_an_application_expires_soon_and_is_renewed_for_a_day(all_rights):
    token, ttl_us = LoginToken("d" * 32), DELEGATED_TTL_NS // 1_000
    day_us = LOGIN_TTL_NS // 1_000
    catalog = delegated(all_rights, token, application=APPLICATION)
    assert delegated_logins(APPLICATION, catalog) == [hash_login(token)]
    assert delegated_logins_expired(catalog, NOW_US + ttl_us - 1) == []
    assert delegated_logins_expired(catalog, NOW_US + ttl_us) == [hash_login(token)]

    def renewed(catalog, at_us):
        return catalog.changed(delegated_logins_renewed(APPLICATION, catalog, at_us))

    assert delegated_logins_renewed(b"other", catalog, NOW_US + 1) == ()
    assert delegated_logins_renewed(APPLICATION, catalog, NOW_US - 1) == (), (
        "a clock that goes back ends nothing sooner"
    )
    later_us = DELEGATED_RENEW_NS // 2_000
    assert delegated_logins_renewed(APPLICATION, catalog, NOW_US + later_us - 1) == (), "it has just been made"
    catalog = renewed(catalog, NOW_US + later_us)
    assert catalog.logins[hash_login(token)].limits.expires_us == NOW_US + later_us + ttl_us
    catalog = renewed(catalog, NOW_US + day_us - 1)
    assert hash_login(token) in delegated_logins_expired(catalog, NOW_US + day_us)
    assert delegated_logins_renewed(APPLICATION, catalog, NOW_US + day_us + 1) == ()
    ended = catalog.changed(logins_ended(delegated_logins(APPLICATION, catalog), catalog))
    assert delegated_logins(APPLICATION, ended) == []


def test_a_transaction_has_to_be_open_on_the_table_and_views_are_bounded(all_rights):
    record = all_rights.transactions[TRANSACTION]
    ended = put(
        all_rights, keys.transaction(TRANSACTION), msgspec.structs.replace(record, state=TransactionState.ABORTED)
    )
    for catalog, fields, code in (
        (all_rights, {"transaction": ANOTHER}, "TRANSACTION_UNKNOWN"),
        (all_rights, {"transaction": TRANSACTION, "table": OTHER}, "TRANSACTION_UNKNOWN"),
        (ended, {"transaction": TRANSACTION}, "TRANSACTION_UNKNOWN"),
        (all_rights, {"through": (VIEW,) * (QUERY_TABLES_MAX + 1)}, "BAD_MESSAGE"),
    ):
        with pytest.raises(Refused) as caught:
            delegated(catalog, LoginToken("e" * 32), **fields)
        assert caught.value.code == code


def test_a_login_to_write_does_not_open_its_transaction_again_once_that_is_forgotten(all_rights):
    """Records of ended transactions are purged, and to everybody else an unknown id is that of a new transaction."""
    purged = all_rights.changed((Change(keys.transaction(TRANSACTION), None),))
    request = asks(OpenTransaction, transaction=TRANSACTION, table=TABLE, schema_version=1)
    for token in (WRITES, REPLACES):
        assert check_request(msgspec.structs.replace(request, login=token), all_rights).id == USER
        with pytest.raises(Forbidden, match="this login of u was made to"):
            check_request(msgspec.structs.replace(request, login=token), purged)
    assert check_request(msgspec.structs.replace(request, login=TOKEN), purged).id == USER


def test_nobody_delegates_a_login_that_has_ended(all_rights):
    for login in (None, LoginToken("f" * 32)):
        with pytest.raises(Unauthenticated):
            check_request(msgspec.structs.replace(asking(), login=login), all_rights)


@pytest.mark.parametrize("size", [1, 31, 33, 1_000_000])
def test_the_hash_of_an_application_has_its_size(all_rights, size):
    """Every process keeps it, with each login."""
    with pytest.raises(Refused) as caught:
        delegated(all_rights, LoginToken("d" * 32), application=b"a" * size)
    assert caught.value.code == "BAD_MESSAGE"
