"""How coordinators are asked, in virtual time: whom, for how long, and what is known in the end."""

import asyncio
import itertools
from collections.abc import Awaitable

import msgspec
import pytest

from leasehold.core.data.asking import Asking
from leasehold.core.data.coordinator_client import CoordinatorClient
from leasehold.core.words.messages import (
    AgreeCutoff,
    AskReceipts,
    AskTable,
    ClusterFacts,
    CommitTransaction,
    LoggedIn,
    Login,
    Message,
    Receipts,
    TableFacts,
    TransactionFacts,
    WhoAreYou,
)
from leasehold.core.words.records import TransactionState
from leasehold.error_codes import ErrorCode
from leasehold.errors import (
    Indefinite,
    LeaseholdError,
    NotFound,
    NotInitialised,
    NotLeader,
    OutcomeUnknown,
    Refused,
    SealUnknown,
    Unauthenticated,
    Unreachable,
    WrongPassword,
)
from leasehold.ids import Generation, LoginToken, ObjectId, Revision, SchemaVersion, Term, TransactionId
from leasehold.limits.clients import COORDINATOR_SILENCE_NS, LOGIN_PAUSE_NS, RETRY_PAUSE_NS
from leasehold.limits.units import SECOND_NS
from tests.unit.core.data.coordinator_words import CALL_NS, CLUSTER, SECONDS, Answer, Steps, ask, in_order

QUESTION = AskReceipts(after=0, limit=1)
ANSWER = Receipts(barriers=(), next_after=None)
COMMIT = CommitTransaction(cluster_id=CLUSTER, transaction=TransactionId("4" * 32), segments=())
COMMITTED = TransactionFacts(
    transaction=COMMIT.transaction, state=TransactionState.COMMITTED, rows=0, revision=Revision(7)
)


def question(client: CoordinatorClient) -> Awaitable[object]:
    return client.look_up(QUESTION, Receipts, SECONDS)


def change(client: CoordinatorClient) -> Awaitable[object]:
    return client.resolve(COMMIT, SECONDS)


# ---------------------------------------------------------------- whom


@pytest.mark.parametrize("error", [Unreachable("gone"), NotLeader("no")])
def test_the_next_coordinator_is_asked_after_one_that_can_not_answer_and_then_stays(error: LeaseholdError) -> None:
    async def twice(client: CoordinatorClient) -> object:
        await question(client)
        return await question(client)

    port, end, took_ns = ask(lambda address, _: error if address == "a:1" else ANSWER, twice)
    assert end == ANSWER
    assert port.addresses == ["a:1", "b:1", "b:1"]
    assert took_ns == 3 * CALL_NS + RETRY_PAUSE_NS


def test_the_leader_that_a_coordinator_names_is_asked_next() -> None:
    error = NotLeader("no", leader="c:1", term=4)
    port, end, took_ns = ask(
        lambda address, _: ANSWER if address == "c:1" else error, question, addresses=("a:1", "b:1", "c:1")
    )
    assert end == ANSWER
    assert port.addresses == ["a:1", "c:1"]
    assert took_ns == 2 * CALL_NS + RETRY_PAUSE_NS


def test_a_leader_at_an_address_that_the_client_was_not_given_is_not_asked() -> None:
    error = NotLeader("no", leader="stranger:1", term=4)
    port, end, _ = ask(lambda address, _: ANSWER if address == "b:1" else error, question)
    assert end == ANSWER
    assert port.addresses == ["a:1", "b:1"]


def test_a_client_that_learns_asks_anew_who_there_is_once_a_leader_is_named_that_it_does_not_know() -> None:
    knows: list[str] = []

    def answer(address: str, request: Message) -> Message | LeaseholdError:
        if isinstance(request, WhoAreYou):
            facts = ClusterFacts(cluster_id=CLUSTER, generation=Generation(1), term=Term(4), leader=False)
            return msgspec.structs.replace(facts, coordinators=tuple(knows))
        knows[:] = ["a:1", "c:1"]
        return ANSWER if address == "c:1" else NotLeader("no", leader="c:1", term=4)

    port, end, _ = ask(answer, question, addresses=("a:1",), learns=True)
    assert end == ANSWER
    assert port.addresses == ["a:1", "a:1", "a:1", "c:1"]
    _, end, _ = ask(lambda address, request: answer("a:1", request), question, addresses=("a:1",))
    assert isinstance(end, Unreachable), "a client that does not learn knows one alone"


@pytest.mark.parametrize("given", [("dead:1", "b:1"), ("b:1", "dead:1")])
def test_a_client_learns_of_the_leader_beside_one_that_is_dead(given: tuple[str, ...]) -> None:
    def answer(address: str, request: Message) -> Message | LeaseholdError:
        if address == "dead:1":
            return Unreachable("gone")
        if isinstance(request, WhoAreYou):
            facts = ClusterFacts(cluster_id=CLUSTER, generation=Generation(1), term=Term(4), leader=address == "c:1")
            return msgspec.structs.replace(facts, coordinators=("b:1", "c:1"))
        return ANSWER if address == "c:1" else NotLeader("no", leader="c:1", term=4)

    _, end, _ = ask(answer, question, addresses=given, learns=True)
    assert end == ANSWER


def test_a_request_that_is_sent_once_goes_to_each_coordinator_once() -> None:
    port, end, took_ns = ask(
        lambda address, _: Unreachable("gone") if address == "a:1" else ANSWER,
        lambda client: client.ask_once(QUESTION, Receipts),
    )
    assert end == ANSWER
    assert port.addresses == ["a:1", "b:1"]
    assert took_ns == 2 * CALL_NS
    port, end, _ = ask(lambda _, __: NotLeader("no"), lambda client: client.ask_once(QUESTION, Receipts))
    assert isinstance(end, Unreachable), "nobody leads"
    assert port.addresses == ["a:1", "b:1"]


def test_steps_that_fail_together_move_on_together() -> None:
    async def both(client: CoordinatorClient) -> object:
        return await asyncio.gather(question(client), question(client))

    port, _, _ = ask(lambda address, _: NotLeader("no") if address == "a:1" else ANSWER, both)
    assert port.addresses == ["a:1", "a:1", "b:1", "b:1"]


def test_a_leader_that_lacks_a_seal_is_asked_again() -> None:
    port, end, _ = ask(in_order([SealUnknown("not yet"), COMMITTED]), change)
    assert end == COMMITTED
    assert port.addresses == ["a:1", "a:1"]


# ---------------------------------------------------------------- again, or not


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        (question, NotFound("no")),
        (question, NotInitialised("no")),
        (question, Indefinite("perhaps")),
        (change, NotFound("no")),
        (change, Refused("forgotten", code=ErrorCode.TRANSACTION_FORGOTTEN)),
        (change, Unreachable("forgotten", code=ErrorCode.TRANSACTION_FORGOTTEN)),
    ],
)
def test_what_asking_again_would_not_change_is_raised_at_once(steps: Steps, error: LeaseholdError) -> None:
    port, end, took_ns = ask(in_order([error]), steps)
    assert end is error
    assert (len(port.asked), took_ns) == (1, CALL_NS)


@pytest.mark.parametrize("error", [Indefinite("perhaps"), Unreachable("gone"), NotInitialised("no"), NotLeader("no")])
def test_a_change_is_asked_for_again_after_whatever_says_nothing_of_it(error: LeaseholdError) -> None:
    _, end, _ = ask(in_order([error, COMMITTED]), change)
    assert end == COMMITTED


@pytest.mark.parametrize(
    ("steps", "answers", "kind"),
    [
        (question, [Unreachable("gone")], Unreachable),
        (question, [NotLeader("no")], Unreachable),
        (change, [Unreachable("gone")], OutcomeUnknown),
        (change, [NotLeader("no")], Unreachable),
        (change, [Unreachable("refused", was_sent=False)], Unreachable),
        (change, [Unreachable("gone"), NotLeader("no")], OutcomeUnknown),
        (change, [Indefinite("perhaps"), NotLeader("no")], OutcomeUnknown),
        (change, [NotInitialised("no")], NotInitialised),
        (change, [SealUnknown("not yet")], SealUnknown),
        (change, [Unreachable("gone"), SealUnknown("not yet")], OutcomeUnknown),
        (change, [SealUnknown("not yet"), NotLeader("no")], Unreachable),
    ],
)
def test_at_the_deadline_it_ends_as_what_is_known(
    steps: Steps, answers: list[Answer], kind: type[LeaseholdError]
) -> None:
    port, end, took_ns = ask(in_order(answers), steps)
    assert type(end) is kind
    assert isinstance(end, LeaseholdError)
    assert "no answer within 2 s" in end.text or kind in {SealUnknown, NotInitialised}
    assert took_ns == 2 * SECOND_NS
    *_, (_, _, last_ns) = port.asked
    assert last_ns <= 2 * SECOND_NS - RETRY_PAUSE_NS, "an attempt has some time"
    assert port.timeouts_ns[-1] < port.timeouts_ns[0] == COORDINATOR_SILENCE_NS, "what is left"


def test_a_commit_that_an_earlier_call_may_have_sent_stays_unknown() -> None:
    _, end, _ = ask(in_order([NotLeader("no")]), lambda client: client.resolve(COMMIT, SECONDS, may_be_taken=True))
    assert isinstance(end, OutcomeUnknown)


NO_QUORUM = NotLeader("a:1 can't lead", hint="start them", cause=ErrorCode.NO_QUORUM)


@pytest.mark.parametrize("steps", [question, change])
@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ([NO_QUORUM], ErrorCode.NO_QUORUM),
        ([NO_QUORUM, Unreachable("refused", was_sent=False)], ErrorCode.NO_QUORUM),
        ([NO_QUORUM, NotLeader("an election")], ErrorCode.UNREACHABLE),
    ],
)
def test_it_says_that_the_store_has_no_quorum_if_that_is_why_nobody_leads(
    steps: Steps, answers: list[Answer], code: ErrorCode
) -> None:
    _, end, _ = ask(in_order(answers), steps)
    assert isinstance(end, Unreachable)
    assert end.code == code
    assert (end.hint == "start them") == (code is ErrorCode.NO_QUORUM)


def test_what_may_have_been_taken_is_unknown_whatever_the_store_lacks() -> None:
    _, end, _ = ask(in_order([Unreachable("gone"), NO_QUORUM]), change)
    assert isinstance(end, OutcomeUnknown)


def test_a_silence_counts_as_taken_even_if_the_coordinator_says_then_that_it_does_not_lead() -> None:
    silent = [None]

    def script(_address: str, _request: Message) -> Answer | None:
        return silent.pop() if silent else NotLeader("no")

    _, end, _ = ask(script, lambda client: client.resolve(COMMIT, SECONDS))
    assert isinstance(end, OutcomeUnknown)


def test_a_question_that_is_not_answered_goes_to_the_next_coordinator() -> None:
    port, end, took_ns = ask(
        lambda address, _: None if address == "a:1" else ANSWER,
        lambda client: client.look_up(QUESTION, Receipts, Asking()),
    )
    assert end == ANSWER
    assert port.addresses == ["a:1", "a:1", "b:1"]
    assert took_ns == 2 * SECOND_NS + RETRY_PAUSE_NS + CALL_NS


def test_a_cutoff_that_nobody_agrees_changes_nothing() -> None:
    request = AgreeCutoff(cluster_id=CLUSTER, table=ObjectId(1), query="6" * 32)
    _, end, _ = ask(in_order([Unreachable("gone")]), lambda client: client.agree_cutoff(request, SECONDS))
    assert isinstance(end, Unreachable)


def test_a_table_is_looked_up_again_in_its_own_cluster_and_soon_first_at_a_leader() -> None:
    facts = TableFacts(
        cluster_id=CLUSTER,
        generation=Generation(1),
        table=ObjectId(1),
        name="d.t",
        schema_version=SchemaVersion(1),
        fields=(),
        cluster_by=None,
        buckets=(),
        places=(),
        revision=Revision(7),
    )

    async def look(client: CoordinatorClient) -> object:
        assert await client.look_again(facts) == facts
        assert client.known.revision == 7
        return await client.look_again(facts)

    port, end, _ = ask(in_order([facts, Unreachable("gone")]), look)
    assert isinstance(end, Unreachable)
    at_leader = AskTable(cluster_id=CLUSTER, name="d.t", absences=True)
    anywhere = AskTable(cluster_id=CLUSTER, name="d.t")
    assert [request for _, request, _ in port.asked] == [*[at_leader] * 3, *[anywhere] * 2]
    assert max(port.timeouts_ns) == COORDINATOR_SILENCE_NS


# ---------------------------------------------------------------- who asks


class Doorkeeper:
    """A script: answers those who show the token of the last login."""

    def __init__(self) -> None:
        self.good: LoginToken | None = None
        self.logins = 0

    def __call__(self, _address: str, request: Message) -> Answer:
        if isinstance(request, Login):
            if request.password != "right":
                return WrongPassword("no")
            self.logins += 1
            self.good = LoginToken(f"{self.logins:032x}")
            return LoggedIn(token=self.good, revision=Revision(1))
        assert isinstance(request, AskReceipts)
        return Unauthenticated("who?") if request.login != self.good or self.good is None else ANSWER


def test_steps_that_are_refused_together_log_in_once() -> None:
    async def four(client: CoordinatorClient) -> object:
        return await asyncio.gather(*(question(client) for _ in range(4)))

    door = Doorkeeper()
    _, end, _ = ask(door, four, password=("u", "right"))
    assert end == [ANSWER] * 4
    assert door.logins == 1


@pytest.mark.parametrize("password", [None, ("u", "wrong")])
def test_who_can_not_log_in_is_told_at_once(password: tuple[str, str] | None) -> None:
    port, end, _ = ask(Doorkeeper(), question, password=password)
    assert type(end) is (Unauthenticated if password is None else WrongPassword)
    assert len(port.asked) == (1 if password is None else 2)


BUSY = Refused("too many passwords", code=ErrorCode.BUSY)


def test_a_coordinator_that_is_busy_with_passwords_is_asked_again() -> None:
    door, refusals = Doorkeeper(), [BUSY] * 3

    def script(address: str, request: Message) -> Answer:
        return refusals.pop() if refusals and isinstance(request, Login) else door(address, request)

    port, end, took_ns = ask(script, question, addresses=("a:1",), password=("u", "right"))
    assert end == ANSWER
    assert sum(isinstance(request, Login) for _, request, _ in port.asked) == 4
    assert took_ns < SECONDS.for_ns


def test_a_coordinator_that_stays_busy_with_passwords_is_told_within_the_deadline() -> None:
    port, end, took_ns = ask(
        lambda _, request: BUSY if isinstance(request, Login) else Unauthenticated("who?"),
        question,
        password=("u", "right"),
    )
    assert end is BUSY
    assert took_ns <= SECONDS.for_ns
    logins = [at_ns for _, request, at_ns in port.asked if isinstance(request, Login)]
    assert len(logins) > 1
    assert min(later - one for one, later in itertools.pairwise(logins)) >= LOGIN_PAUSE_NS


def test_a_login_counts_into_the_deadline() -> None:
    before = [Unreachable("gone")] * 12

    def script(_address: str, request: Message) -> Answer:
        if before:
            return before.pop()
        return Unreachable("gone") if isinstance(request, Login) else Unauthenticated("who?")

    _, end, took_ns = ask(script, question, password=("u", "right"))
    assert isinstance(end, Unreachable)
    assert took_ns == 2 * SECOND_NS
