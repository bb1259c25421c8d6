"""Statements and removals, as clients ask for them in virtual time."""

from collections.abc import Awaitable

from leasehold.core.data.coordinator_client import CoordinatorClient
from leasehold.core.data.node_removal import remove_node
from leasehold.core.data.statement_calls import run_statement
from leasehold.core.words.messages import (
    AskStatus,
    ClusterFacts,
    ClusterStatus,
    Execute,
    NodeRemoved,
    NodeStatus,
    RemoveNode,
    Rows,
    WaitingFor,
    WhoAreYou,
)
from leasehold.errors import NotLeader, OutcomeUnknown, Unreachable
from leasehold.ids import Generation, Incarnation, NodeId, Revision, StatementId, Term
from leasehold.limits.clients import LATE_ANSWER_NS, RETRY_PAUSE_NS
from leasehold.limits.units import SECOND_NS
from tests.unit.core.data.coordinator_words import CALL_NS, CLUSTER, SECONDS, Answer, ask, in_order

FACTS = ClusterFacts(cluster_id=CLUSTER, generation=Generation(1), term=Term(1), leader=True)
STATEMENT = StatementId("5" * 32)


def test_a_statement_that_was_never_sent_is_definite_and_one_that_was_is_unknown() -> None:
    def run(client: CoordinatorClient) -> Awaitable[object]:
        return run_statement(client, "DROP TABLE d.t", STATEMENT, SECONDS)

    _, end, _ = ask(in_order([NotLeader("no")]), run)
    assert type(end) is Unreachable
    _, end, _ = ask(in_order([FACTS, NotLeader("no")]), run)
    assert isinstance(end, OutcomeUnknown)
    assert end.statement_id == STATEMENT


def test_a_statement_with_a_timeout_is_asked_for_a_little_longer() -> None:
    port, end, took_ns = ask(
        in_order([FACTS, NotLeader("no")]),
        lambda client: run_statement(client, "DROP TABLE d.t", STATEMENT, SECONDS, has_timeout=True),
    )
    assert isinstance(end, OutcomeUnknown)
    assert took_ns == CALL_NS + 2 * SECOND_NS + LATE_ANSWER_NS
    left = [request.timeout_ns for _, request, _ in port.asked if isinstance(request, Execute)]
    assert left[0] == 2 * SECOND_NS
    assert left[1] == 2 * SECOND_NS - CALL_NS - RETRY_PAUSE_NS, "a leader counts from when it is asked"
    assert left[-1] == 1


def test_all_pages_of_an_answer_are_one() -> None:
    pages: list[Answer] = [
        Rows(columns=("name",), rows=((name,),), revision=Revision(7), more=name != "c") for name in "abc"
    ]
    for text in ("SHOW TABLES", "DESCRIBE d.t"):
        port, end, _ = ask(
            lambda _, request: FACTS if isinstance(request, WhoAreYou) else list(pages),
            lambda client, text=text: run_statement(client, text, STATEMENT, SECONDS),
        )
        assert end == Rows(columns=("name",), rows=(("a",), ("b",), ("c",)), revision=Revision(7))
        assert len(port.asked) == (2 if text.startswith("SHOW") else 3), "a SHOW is asked for in pages at once"


def test_an_answer_that_breaks_off_is_asked_for_again() -> None:
    page = Rows(columns=("name",), rows=(("a",),), revision=Revision(7))
    answers: list[list[Answer]] = [[WaitingFor(statement_id=STATEMENT, nodes=("n1",), at_most_ns=1)], [], [page]]
    waits: list[WaitingFor] = []
    _, end, _ = ask(
        lambda _, request: FACTS if isinstance(request, WhoAreYou) else answers.pop(0),
        lambda client: run_statement(client, "CANCEL PROCEDURE 1", STATEMENT, SECONDS, on_wait=waits.append),
    )
    assert (end, len(waits), answers) == (page, 1, [])


def test_the_time_for_a_statement_counts_from_the_last_word_of_it() -> None:
    page = Rows(columns=("name",), rows=(("a",),), revision=Revision(7))

    def run(client: CoordinatorClient) -> Awaitable[object]:
        return run_statement(client, "CANCEL PROCEDURE 1", STATEMENT, SECONDS)

    cut: list[Answer] = [*[WAITS] * 150, Unreachable("gone")]
    answers: list[list[Answer]] = [[FACTS], *[[WAITS], cut] * 3, [page]]
    _, end, took_ns = ask(lambda *_: answers.pop(0), run)
    assert end == page
    assert took_ns > 2 * SECONDS.for_ns


# ---------------------------------------------------------------- nodes


REMOVED = NodeRemoved(node=NodeId(3), name="n3", revision=Revision(9), buckets=0, lost=0)


STATUS = ClusterStatus(
    cluster_id=CLUSTER,
    term=Term(1),
    revision=Revision(7),
    bound_ns=0,
    nodes=tuple(
        NodeStatus(
            id=NodeId(number),
            name=f"n{number}",
            address=f"n{number}:1",
            incarnation=Incarnation(1),
            state="ACTIVE",
            applied_revision=Revision(7),
            lease_remaining_ns=0,
        )
        for number in (1, 3)
    ),
)
WAITS = WaitingFor(statement_id=StatementId(""), nodes=("n3",), at_most_ns=1)


def remove(client: CoordinatorClient) -> Awaitable[object]:
    return remove_node(client, "n3", SECONDS)


def test_which_node_a_name_is_of_is_looked_up_once() -> None:
    port, end, _ = ask(in_order([NotLeader("no"), STATUS, Unreachable("gone"), REMOVED]), remove)
    assert end == REMOVED
    removal = RemoveNode(cluster_id=None, name="n3", node=NodeId(3))
    assert [request for _, request, _ in port.asked] == [AskStatus(), AskStatus(), removal, removal]


def test_a_removal_that_was_not_asked_for_is_definite_and_one_that_was_is_unknown() -> None:
    _, end, _ = ask(in_order([NotLeader("no")]), remove)
    assert isinstance(end, Unreachable)
    assert end.hint == "the removal was not requested"
    _, end, _ = ask(in_order([STATUS, NotLeader("no")]), remove)
    assert isinstance(end, OutcomeUnknown)


def test_the_time_for_a_removal_counts_from_the_last_word_of_it() -> None:
    cut: list[Answer] = [*[WAITS] * 150, Unreachable("gone")]
    streams: list[list[Answer]] = [[STATUS], cut, cut, cut, [REMOVED]]
    _, end, took_ns = ask(lambda *_: streams.pop(0), remove)
    assert end == REMOVED
    assert took_ns > 2 * SECONDS.for_ns
