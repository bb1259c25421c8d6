"""What a caller may ask by its certificate, or for lack of one."""

import pytest

from leasehold.core.access.callers import Caller, CallerRole, check_caller, check_no_stranger
from leasehold.core.words import messages
from leasehold.errors import Forbidden
from tests.unit.core.access.rights_words import one_catalog
from tests.unit.core.catalog_words import Ground

CLUSTER = "c" * 32
TOKEN, NONCE, SESSION = "1" * 32, "2" * 32, "3" * 32
NODE, OTHER_NODE = Caller(CallerRole.NODE, "n2"), Caller(CallerRole.NODE, "n3")
COORDINATOR = Caller(CallerRole.COORDINATOR, "n2")
CLIENT, NEIGHBOUR, STRANGER = Caller(CallerRole.CLIENT, "n2"), Caller(CallerRole.NEIGHBOUR), Caller(CallerRole.STRANGER)

OF_THE_NODE = (
    messages.Allocate(cluster_id=CLUSTER, token=TOKEN, name="n2", address="n2:1"),
    messages.Join(
        cluster_id=CLUSTER,
        generation=1,
        token=TOKEN,
        node=2,
        name="n2",
        address="n2:1",
        previous=1,
        nonce=NONCE,
        session=SESSION,
        protocol=1,
        applied=0,
        lineage=b"",
    ),
    messages.AskIncarnation(cluster_id=CLUSTER, token=TOKEN, node=2),
    messages.OpenSession(cluster_id=CLUSTER, node=2, incarnation=1, session=SESSION, watch_from=1),
    messages.AskSnapshot(cluster_id=CLUSTER, node=2, incarnation=1, session=SESSION),
    messages.ReportProcessEnd(cluster_id=CLUSTER, node=2, incarnation=1, proof=b""),
    messages.FetchTicket(cluster_id=CLUSTER, table=1, bucket=0, segment="s", node=2, session=SESSION),
    messages.ForwardTicket(
        cluster_id=CLUSTER, segment="s", table=1, bucket=0, revision=1, sender=2, sender_incarnation=1, session=SESSION
    ),
)
REPORT = messages.ReportCoordinator(cluster_id=CLUSTER, address="c:1", name="n2", version="1", applied=1)
OF_PEOPLE = (
    messages.Execute(cluster_id=None, statement="4" * 32, text="SHOW NODES"),
    messages.AskTable(cluster_id=None, name="d.t"),
    messages.AskStatus(),
    messages.AskBackup(cluster_id=CLUSTER),
    messages.Login(cluster_id=None, user="u", password="p"),
    messages.WriteTicket(
        cluster_id=CLUSTER, transaction=TOKEN, segment="s", table=1, bucket=0, schema_version=1, revision=1
    ),
    messages.ReadTicket(
        cluster_id=CLUSTER,
        request="r",
        table=1,
        bucket=0,
        segment="s",
        sha256=b"",
        row_offset=0,
        fields=(),
        revision=1,
    ),
    messages.ScrubTicket(cluster_id=CLUSTER, revision=1),
)
FOR_ALL = (
    messages.WhoAreYou(),
    messages.ChallengeCoordinator(cluster_id=CLUSTER, address="c:1", nonce=NONCE),
)

OPEN = Ground().catalog
"""Without users, with the nodes n1, n2 and n3."""
WITH_USERS = one_catalog()


def refusal(request, caller, catalog=OPEN):
    try:
        check_caller(request, caller, catalog)
    except Forbidden as error:
        assert error.text
        assert error.hint
        return str(error.code)
    return None


@pytest.mark.parametrize("request_", OF_THE_NODE, ids=lambda one: type(one).__name__)
def test_what_a_node_asks_is_for_the_node_that_its_certificate_names(request_):
    assert refusal(request_, NODE) is None
    assert refusal(request_, None) is None, "without TLS its token or session alone says who it is"
    assert [refusal(request_, one) for one in (OTHER_NODE, COORDINATOR)] == ["NOT_THIS_NODE"] * 2
    assert {refusal(request_, one) for one in (CLIENT, NEIGHBOUR, STRANGER)} == {"WRONG_DOOR"}


def test_a_node_that_nobody_knows_is_for_others_to_refuse():
    unknown = messages.OpenSession(cluster_id=CLUSTER, node=9, incarnation=1, session=SESSION, watch_from=1)
    assert refusal(unknown, NODE) is None
    assert refusal(unknown, STRANGER) == "WRONG_DOOR"


def test_only_a_coordinator_reports_one():
    assert refusal(REPORT, COORDINATOR) is None
    assert refusal(REPORT, NODE) == "NOT_THIS_NODE"
    assert {refusal(REPORT, one) for one in (CLIENT, NEIGHBOUR, STRANGER)} == {"WRONG_DOOR"}


@pytest.mark.parametrize("request_", OF_PEOPLE, ids=lambda one: type(one).__name__)
def test_a_stranger_may_ask_once_there_are_users(request_):
    assert refusal(request_, STRANGER) == "OPEN_CLUSTER"
    assert {refusal(request_, one) for one in (None, NODE, COORDINATOR, CLIENT, NEIGHBOUR)} == {None}
    assert refusal(request_, STRANGER, WITH_USERS) is None, "then the login decides"


@pytest.mark.parametrize("request_", FOR_ALL, ids=lambda one: type(one).__name__)
def test_anybody_may_ask_which_cluster_it_is(request_):
    assert refusal(request_, STRANGER) is None


def test_a_stranger_gives_no_new_meta_storage_its_cluster():
    with pytest.raises(Forbidden) as caught:
        check_no_stranger(STRANGER)
    assert caught.value.code == "OPEN_CLUSTER"
    for one in (None, NODE, COORDINATOR, CLIENT, NEIGHBOUR):
        check_no_stranger(one)


def test_an_error_names_both_who_asks_and_who_it_says_it_is():
    with pytest.raises(Forbidden) as caught:
        check_caller(OF_THE_NODE[0], OTHER_NODE, OPEN)
    assert "node n2" in caught.value.text
    assert "node n3" in caught.value.text
