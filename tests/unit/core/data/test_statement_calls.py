"""Statements and removals, as clients ask for them in virtual time."""

from collections.abc import Awaitable

import pytest

from leasehold.core.data.asking import Asking
from leasehold.core.data.coordinator_client import CoordinatorClient
from leasehold.core.data.node_removal import remove_node
from leasehold.core.data.statement_calls import run_statement
from leasehold.core.words.messages import (
    AskStatus,
    ClusterFacts,
    ClusterStatus,
    Execute,
    Message,
    NodeRemoved,
    NodeStatus,
    RemoveNode,
    Rows,
    WaitingFor,
    WhoAreYou,
)
from leasehold.errors import Indefinite, NotLeader, OutcomeUnknown, Unreachable
from leasehold.ids import Generation, Incarnation, NodeId, Revision, StatementId, Term
from leasehold.limits.clients import COORDINATOR_SILENCE_NS, LATE_ANSWER_NS, RETRY_PAUSE_NS, ROLE_TIMEOUT_NS
from leasehold.limits.units import SECOND_NS
from tests.unit.core.data.coordinator_words import CALL_NS, CLUSTER, SECONDS, Answer, Coordinators, ask, in_order

REFUSED_CONNECTION = Unreachable("nothing listens there", was_sent=False)
FACTS = ClusterFacts(cluster_id=CLUSTER, generation=Generation(1), term=Term(1), leader=True)
STATEMENT = StatementId("5" * 32)


def test_a_statement_that_was_never_sent_is_definite_and_one_that_was_is_unknown() -> None:
    def run(client: CoordinatorClient) -> Awaitable[object]:
        return run_statement(client, "DROP TABLE d.t", STATEMENT, SECONDS)

    for answers in ([NotLeader("no")], [FACTS, NotLeader("no")], [FACTS, REFUSED_CONNECTION]):
        _, end, _ = ask(in_order(answers), run)
        assert type(end) is Unreachable
    for answers in (
        [FACTS, Unreachable("gone")],
        [FACTS, Indefinite("perhaps"), NotLeader("no")],
        [FACTS, WAITS, NotLeader("the leader that took it has ceased to lead")],
    ):
        _, end, _ = ask(in_order(answers), run)
        assert isinstance(end, OutcomeUnknown)
        assert end.statement_id == STATEMENT


def test_a_leader_of_a_later_term_is_asked_again_at_once() -> None:
    async def steps(client: CoordinatorClient) -> object:
        return await run_statement(client, "CANCEL PROCEDURE 1", STATEMENT, SECONDS)

    port, end, took_ns = ask(in_order([FACTS, NotLeader("term 1 has ended", term=2), page_of("done")]), steps)
    assert end == page_of("done")
    assert took_ns == 3 * CALL_NS
    assert [request.term for _, request, _ in port.asked if isinstance(request, Execute)] == [1, 2]


@pytest.mark.parametrize("refusal", [NotLeader("an older one", term=1), NotLeader("it follows", term=2, leader="b:1")])
def test_a_coordinator_that_follows_or_is_behind_is_left(refusal: NotLeader) -> None:
    async def steps(client: CoordinatorClient) -> object:
        return await run_statement(client, "CANCEL PROCEDURE 1", STATEMENT, SECONDS)

    port, _, _ = ask(in_order([FACTS, refusal, page_of("done")]), steps)
    assert port.addresses == ["a:1", "a:1", "b:1"]


@pytest.mark.parametrize("facts", [[], [FACTS]])
def test_a_statement_that_an_earlier_call_may_have_sent_stays_unknown(facts: list[Answer]) -> None:
    _, end, _ = ask(
        in_order([*facts, NotLeader("no")]),
        lambda client: run_statement(client, "DROP TABLE d.t", STATEMENT, SECONDS, may_be_sent=True),
    )
    assert isinstance(end, OutcomeUnknown)
    assert end.statement_id == STATEMENT


def test_a_statement_with_a_timeout_is_asked_for_a_little_longer() -> None:
    port, end, took_ns = ask(
        in_order([FACTS, NotLeader("no")]),
        lambda client: run_statement(client, "DROP TABLE d.t", STATEMENT, SECONDS, has_timeout=True),
    )
    assert isinstance(end, Unreachable)
    assert took_ns == CALL_NS + 2 * SECOND_NS + LATE_ANSWER_NS
    left = [request.timeout_ns for _, request, _ in port.asked if isinstance(request, Execute)]
    assert left[0] == 2 * SECOND_NS
    assert left[1] == 2 * SECOND_NS - CALL_NS - RETRY_PAUSE_NS, "a leader counts from when it is asked"
    assert left[-1] == 1


def test_a_statement_that_waits_is_asked_for_beyond_its_timeout() -> None:
    """What it took away comes back, and that may wait for a node as long as a lease."""
    page = Rows(columns=("name",), rows=(("a",),), revision=Revision(7))
    _, end, took_ns = ask(
        in_order([FACTS, *[WAITS] * 1_000, page]),
        lambda client: run_statement(client, "DROP TABLE d.t", STATEMENT, SECONDS, has_timeout=True),
    )
    assert end == page
    assert took_ns > SECONDS.for_ns + LATE_ANSWER_NS


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
    answers: list[list[Answer]] = [[], [page]]
    _, end, _ = ask(
        lambda _, request: FACTS if isinstance(request, WhoAreYou) else answers.pop(0),
        lambda client: run_statement(client, "SHOW TABLES", STATEMENT, SECONDS),
    )
    assert (end, answers) == (page, [])


def test_the_time_for_a_statement_counts_from_the_last_word_of_it() -> None:
    page = Rows(columns=("name",), rows=(("a",),), revision=Revision(7))

    def run(client: CoordinatorClient) -> Awaitable[object]:
        return run_statement(client, "CANCEL PROCEDURE 1", STATEMENT, SECONDS, on_wait=waits.append)

    answers: list[Answer] = [FACTS, *[*[WAITS] * 150, Unreachable("gone")] * 3, page]
    waits: list[WaitingFor] = []
    _, end, took_ns = ask(in_order(answers), run)
    assert end == page
    assert len(waits) == 450
    assert took_ns > 2 * SECONDS.for_ns


# ---------------------------------------------------------------- a leader that hangs


def hung(address: str, request: Message) -> Answer | None:
    """The first coordinator led term 4 and answers nothing; the second one leads by now."""
    if address == "a:1":
        return None
    return FACTS if isinstance(request, WhoAreYou) else page_of("second")


def page_of(name: str) -> Rows:
    return Rows(columns=("name",), rows=((name,),), revision=Revision(7))


@pytest.mark.parametrize("text", ["CANCEL PROCEDURE 1", "SHOW TABLES"])
def test_a_coordinator_that_answers_nothing_is_left_after_two_seconds(text: str) -> None:
    async def steps(client: CoordinatorClient) -> object:
        client.cluster_id, client.term = CLUSTER, Term(1)
        return await run_statement(client, text, STATEMENT, Asking(30 * SECOND_NS))

    port, end, took_ns = ask(hung, steps)
    assert end == page_of("second")
    assert took_ns == COORDINATOR_SILENCE_NS + ROLE_TIMEOUT_NS + RETRY_PAUSE_NS + CALL_NS
    assert [type(request) for _, request, _ in port.asked] == [Execute, WhoAreYou, Execute]


def test_a_statement_whose_leader_hangs_while_it_waits_is_asked_for_elsewhere() -> None:
    waits = iter([WAITS] * 3)

    def script(address: str, request: Message) -> Answer | None:
        return FACTS if isinstance(request, WhoAreYou) and address == "b:1" else next(waits, hung(address, request))

    async def steps(client: CoordinatorClient) -> object:
        client.cluster_id, client.term = CLUSTER, Term(1)
        return await run_statement(client, "CANCEL PROCEDURE 1", STATEMENT, Asking(30 * SECOND_NS))

    _, end, took_ns = ask(script, steps)
    assert end == page_of("second")
    assert took_ns == 4 * CALL_NS + COORDINATOR_SILENCE_NS + ROLE_TIMEOUT_NS + RETRY_PAUSE_NS


def test_a_coordinator_that_is_busy_gets_more_time() -> None:
    def script(_address: str, request: Message) -> Answer | None:
        if isinstance(request, WhoAreYou):
            return FACTS
        return page_of("late") if len(port_timeouts) > 2 else port_timeouts.append(0)

    port_timeouts: list[int] = []

    async def steps(client: CoordinatorClient) -> object:
        client.cluster_id, client.term = CLUSTER, Term(1)
        return await run_statement(client, "CANCEL PROCEDURE 1", STATEMENT, Asking(60 * SECOND_NS))

    port, end, _ = ask(script, steps)
    assert end == page_of("late")
    assert set(port.addresses) == {"a:1"}
    given = [timeout // SECOND_NS for (_, request, _), timeout in asked_with(port) if isinstance(request, Execute)]
    assert given == [1, 4, 16, 30]


def test_the_only_coordinator_is_waited_for() -> None:
    async def steps(client: CoordinatorClient) -> object:
        client.cluster_id, client.term = CLUSTER, Term(1)
        return await run_statement(client, "CANCEL PROCEDURE 1", STATEMENT, SECONDS)

    port, end, _ = ask(hung, steps, addresses=("a:1",))
    assert isinstance(end, OutcomeUnknown)
    assert port.timeouts_ns == [2 * SECOND_NS]


def asked_with(port: Coordinators) -> list[tuple[tuple[str, Message, int], int]]:
    return list(zip(port.asked, port.timeouts_ns, strict=True))


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
    _, end, _ = ask(in_order([STATUS, NotLeader("no")]), remove)
    assert isinstance(end, Unreachable)
    _, end, _ = ask(in_order([STATUS, Unreachable("gone"), NotLeader("no")]), remove)
    assert isinstance(end, OutcomeUnknown)


def test_the_time_for_a_removal_counts_from_the_last_word_of_it() -> None:
    cut: list[Answer] = [*[WAITS] * 150, Unreachable("gone")]
    streams: list[list[Answer]] = [[STATUS], cut, cut, cut, [REMOVED]]
    _, end, took_ns = ask(lambda *_: streams.pop(0), remove)
    assert end == REMOVED
    assert took_ns > 2 * SECONDS.for_ns
