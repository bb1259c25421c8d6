"""What a caller may ask by its certificate, or for lack of one."""

import msgspec
import pytest

from leasehold.core.access.callers import Caller, CallerRole, check_caller, check_counts, check_founder
from leasehold.core.catalog.plan import put
from leasehold.core.membership.identity import hash_secret
from leasehold.core.membership.removal import tombstone
from leasehold.core.words import keys, messages
from leasehold.core.words.records import CertifiedNameRecord, RevokedCertificateRecord
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
    messages.CompactTicket(
        cluster_id=CLUSTER,
        transaction=TOKEN,
        segment="s",
        table=1,
        bucket=0,
        schema_version=1,
        joined=(),
        revision=1,
        generation=1,
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


def test_a_certificate_of_its_own_takes_no_node_of_another_name():
    allocate, join = OF_THE_NODE[:2]
    with_name = [msgspec.structs.replace(one, name="n9") for one in (allocate, join)]
    stranger = Caller(CallerRole.NODE, "n9")
    of_n2 = msgspec.structs.replace(OPEN.nodes[2], token_hash=hash_secret(TOKEN))
    catalog = OPEN.changed((put(keys.node(2), of_n2),))
    assert [refusal(one, stranger, catalog) for one in with_name] == ["NOT_THIS_NODE"] * 2
    assert [refusal(one, NODE, catalog) for one in (allocate, join)] == [None, None]
    fresh = msgspec.structs.replace(with_name[0], token="9" * 32)
    assert refusal(fresh, stranger, catalog) is None


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


@pytest.mark.parametrize(("caller", "code"), [(STRANGER, "OPEN_CLUSTER"), (NODE, "NOT_THIS_NODE")])
def test_neither_a_stranger_nor_a_node_gives_a_new_meta_storage_its_cluster(caller, code):
    with pytest.raises(Forbidden) as caught:
        check_founder(caller)
    assert caught.value.code == code
    for one in (None, COORDINATOR, CLIENT, NEIGHBOUR):
        check_founder(one)


def test_an_error_names_both_who_asks_and_who_it_says_it_is():
    with pytest.raises(Forbidden) as caught:
        check_caller(OF_THE_NODE[0], OTHER_NODE, OPEN)
    assert "node n2" in caught.value.text
    assert "node n3" in caught.value.text


# ---------------------------------------------------------------- certificates that count no more

ALL = (*OF_THE_NODE, REPORT, *OF_PEOPLE, *FOR_ALL)
REVOKED = OPEN.changed([put(keys.revoked_certificate("1f"), RevokedCertificateRecord(serial="1f"))])
NAME = put(keys.certified_name("n2"), CertifiedNameRecord(name="n2", from_s=1_000))
REMOVED = OPEN.changed([*tombstone(OPEN.nodes[2], OPEN), NAME])
"""Node n2 was removed."""
SUCCESSOR = REMOVED.changed([put(keys.node(4), msgspec.structs.replace(OPEN.nodes[2], id=4))])
"""Another node has its name."""


@pytest.mark.parametrize("request_", ALL, ids=lambda one: type(one).__name__)
def test_a_revoked_certificate_is_refused_whatever_it_asks(request_):
    for role in (CallerRole.NODE, CallerRole.COORDINATOR, CallerRole.CLIENT):
        assert refusal(request_, Caller(role, "n2", "1f"), REVOKED) == "CERTIFICATE_REVOKED"
        assert refusal(request_, Caller(role, "n2", "1e"), REVOKED) == refusal(request_, Caller(role, "n2", "1e"))
    assert refusal(request_, NEIGHBOUR, REVOKED) == refusal(request_, NEIGHBOUR), "whoever shows none, shows no other"


def test_who_was_let_in_is_refused_once_its_certificate_counts_no_more():
    for caller, catalog in ((Caller(CallerRole.CLIENT, "ann", "1f"), REVOKED), (NODE, REMOVED)):
        check_counts(caller, OPEN)
        with pytest.raises(Forbidden) as caught:
            check_counts(caller, catalog)
        assert caught.value.code == "CERTIFICATE_REVOKED"
    check_counts(None, REVOKED)


def test_a_name_is_free_again_for_a_certificate_that_is_issued_later():
    older, newer = Caller(CallerRole.NODE, "n2", "1", 999), Caller(CallerRole.NODE, "n2", "2", 1_000)
    allocate = OF_THE_NODE[0]
    for request in (allocate, *OF_PEOPLE):
        assert refusal(request, older, REMOVED) == "CERTIFICATE_REVOKED"
        assert refusal(request, newer, REMOVED) is None
    for request in (messages.AskIncarnation(cluster_id=CLUSTER, token=TOKEN, node=4), allocate):
        assert refusal(request, older, SUCCESSOR) == "CERTIFICATE_REVOKED"
        assert refusal(request, newer, SUCCESSOR) is None
    assert refusal(allocate, older) is None, "it was not removed here"
    for other in (Caller(CallerRole.COORDINATOR, "n2"), Caller(CallerRole.CLIENT, "n2"), OTHER_NODE):
        assert refusal(OF_PEOPLE[0], other, REMOVED) is None, "the name of a node is free for a user"


@pytest.mark.parametrize("request_", [*OF_THE_NODE[1:6], *FOR_ALL], ids=lambda one: type(one).__name__)
def test_a_removed_node_is_told_that_it_was_removed(request_):
    """By whoever looks at its id or token next: its certificate is not what a person has to renew first."""
    assert refusal(request_, NODE, REMOVED) is None
    assert refusal(request_, OTHER_NODE, REMOVED) == refusal(request_, OTHER_NODE)
