"""Who may ask what: every kind of question and request, decided on one catalog."""

import pytest

from leasehold.core.access.request_rights import check_append, check_read, check_request, check_scrub
from leasehold.core.access.rights import CLUSTER, check_administrator, check_question
from leasehold.core.membership.identity import node_login
from leasehold.core.words.messages import (
    AbortTransaction,
    AskBackup,
    AskOutcome,
    AskReceipts,
    AskStatus,
    AskTable,
    AskView,
    CommitTransaction,
    DelegateLogin,
    FieldFilter,
    Filter,
    OpenTransaction,
    PlanChanges,
    PlanQuery,
    PlanScan,
    RemoveNode,
    Replaced,
    TransferLeadership,
)
from leasehold.core.words.records import Field, UseState
from leasehold.errors import Forbidden, Unauthenticated
from leasehold.ids import TransactionId
from leasehold.sql.parse import parse
from tests.unit.core.access.rights_words import (
    ALTER,
    CREATE,
    DROP,
    INSERT,
    LOGIN,
    NOBODY,
    OTHER,
    SELECT,
    TABLE,
    TOKEN,
    TRANSACTION,
    VIEW,
    given,
    one_catalog,
)


@pytest.fixture(scope="module")
def before():
    return one_catalog()


def test_the_history_of_all_and_cancelling_are_for_administrators(before):
    for catalog, allowed in ((before, False), (given(before, (ALTER, CLUSTER)), True)):
        for check in (
            lambda one=catalog: check_question(parse("SHOW HISTORY"), one, LOGIN),
            lambda one=catalog: check_administrator(one, LOGIN),
        ):
            if allowed:
                check()
            else:
                with pytest.raises(Forbidden):
                    check()


@pytest.mark.parametrize("text", ["SHOW TABLES", "DESCRIBE db.t", "SHOW GRANTS", "SHOW HISTORY FOR TABLE db.t"])
def test_other_questions_need_a_login_alone(before, text):
    check_question(parse(text), before, LOGIN)
    with pytest.raises(Unauthenticated):
        check_question(parse(text), before, None)


def asks(kind, **fields):
    return kind(**{"cluster_id": "c", "login": TOKEN, **fields})


IS_NULL = FieldFilter(field=Field(id=1, name="a", type="INT", nullable=True, state=UseState.IN_USE), operator="IS NULL")

REQUESTS = [
    (asks(AskTable, name="db.t"), [(SELECT, TABLE)]),
    (asks(AskTable, name="db.t"), [(INSERT, TABLE)]),
    (asks(AskView, name="db.v"), [(SELECT, VIEW)]),
    (asks(PlanScan, name="db.t", columns=None), [(SELECT, TABLE)]),
    (asks(PlanScan, name="db.t", columns=None, through=(VIEW,)), [(SELECT, TABLE), (SELECT, VIEW)]),
    (asks(PlanChanges, name="db.t", columns=None, since=0), [(SELECT, TABLE)]),
    (asks(PlanQuery, names=("db.t",)), [(SELECT, TABLE)]),
    (asks(PlanQuery, names=("db.other", "db.t")), [(SELECT, OTHER), (SELECT, TABLE)]),
    (asks(PlanQuery, names=("db.v",)), [(SELECT, VIEW), (SELECT, TABLE)]),
    (asks(OpenTransaction, transaction=TRANSACTION, table=TABLE, schema_version=1), [(INSERT, TABLE)]),
    (asks(CommitTransaction, transaction=TRANSACTION, segments=()), [(INSERT, TABLE)]),
    (
        asks(
            CommitTransaction,
            transaction=TRANSACTION,
            segments=(),
            replaces=(Replaced(bucket=0, segment=f"{TRANSACTION}-{TRANSACTION}"),),
        ),
        [(INSERT, TABLE), (DROP, TABLE)],
    ),
    (
        asks(CommitTransaction, transaction=TRANSACTION, segments=(), covers=()),
        [(INSERT, TABLE), (DROP, TABLE)],
    ),
    (
        asks(CommitTransaction, transaction=TRANSACTION, segments=(), covers=(IS_NULL,)),
        [(INSERT, TABLE), (DROP, TABLE), (SELECT, TABLE)],
    ),
    (asks(PlanScan, name="db.t", columns=None, replaces=True), [(INSERT, TABLE), (DROP, TABLE)]),
    (
        asks(PlanScan, name="db.t", columns=None, replaces=True, where=(Filter(column="a", operator="IS NULL"),)),
        [(INSERT, TABLE), (DROP, TABLE), (SELECT, TABLE)],
    ),
    (
        asks(DelegateLogin, table=TABLE, transaction=TRANSACTION, replaces=True),
        [(INSERT, TABLE), (DROP, TABLE)],
    ),
    (asks(RemoveNode, name="n1"), [(ALTER, CLUSTER)]),
    (asks(TransferLeadership, term=1), [(ALTER, CLUSTER)]),
    (asks(AskBackup), [(ALTER, CLUSTER)]),
    (AskReceipts(after=0, limit=1, login=TOKEN), [(ALTER, CLUSTER)]),
]


@pytest.mark.parametrize(("request_", "needs"), REQUESTS)
def test_a_request_needs_exactly_these_rights(before, request_, needs):
    assert check_request(request_, given(before, *needs)).name == "u"
    for missing in needs:
        others = [one for one in needs if one != missing]
        elsewhere = () if (SELECT, OTHER) in needs else ((missing[0], OTHER),)
        with pytest.raises(Forbidden):
            check_request(request_, given(before, *others, (ALTER, TABLE), (CREATE, TABLE), *elsewhere))


def test_an_outcome_needs_a_login_alone(before):
    def ask(login):
        return check_request(AskOutcome(login=login, cluster_id="c", statement="4" * 32), before)

    assert ask(TOKEN).name == "u"
    for login in (None, NOBODY):
        with pytest.raises(Unauthenticated):
            ask(login)


def test_an_open_transaction_is_aborted_by_those_who_may_append_and_its_end_is_told_to_everybody(before):
    abort = AbortTransaction(login=TOKEN, cluster_id="c", transaction=TRANSACTION)
    with pytest.raises(Forbidden):
        check_request(abort, given(before, (SELECT, TABLE)))
    assert check_request(abort, given(before, (INSERT, TABLE))).name == "u"
    unknown = AbortTransaction(login=TOKEN, cluster_id="c", transaction=TransactionId("9" * 32))
    assert check_request(unknown, before).name == "u"


def test_the_state_of_the_cluster_is_told_to_anybody(before):
    assert check_request(AskStatus(), before) is None


def test_a_scrub_is_for_administrators(before):
    check_scrub(node_login(TOKEN), given(before, (ALTER, CLUSTER)))
    with pytest.raises(Forbidden):
        check_scrub(node_login(TOKEN), given(before, (ALTER, TABLE), (SELECT, TABLE), (DROP, TABLE)))
    with pytest.raises(Unauthenticated):
        check_scrub(None, given(before, (ALTER, CLUSTER)))


def test_a_scan_through_a_view_needs_the_view_and_what_it_reads(before):
    check_read(node_login(TOKEN), TABLE, (VIEW,), given(before, (SELECT, TABLE), (SELECT, VIEW)))
    for held in ((SELECT, TABLE), (SELECT, VIEW)):
        with pytest.raises(Forbidden):
            check_read(node_login(TOKEN), TABLE, (VIEW,), given(before, held))


def test_what_is_gone_is_not_told_as_a_missing_right(before):
    check_read(node_login(TOKEN), 99, (), before)
    check_append(node_login(TOKEN), 99, TRANSACTION, before)


def test_what_a_node_has_seen_of_a_login_says_nothing_to_a_coordinator(before):
    """And a node takes no login that is meant for coordinators."""
    every, shown = given(before, (SELECT, TABLE)), node_login(TOKEN)
    check_read(shown, TABLE, (), every)
    check_request(asks(PlanScan, name="db.t", columns=None), every)
    for seen in (shown, node_login(shown)):
        with pytest.raises(Unauthenticated):
            check_request(asks(PlanScan, name="db.t", columns=None, login=seen), every)
    with pytest.raises(Unauthenticated):
        check_read(TOKEN, TABLE, (), every)
