"""Saying who one is: when a client logs in, when again, and what it keeps to itself."""

import contextlib
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from leasehold.client.credentials import Credentials
from leasehold.client.login import LoginConnection
from leasehold.core.words.messages import (
    AskReceipts,
    AskStatus,
    Execute,
    LoggedIn,
    LoggedOut,
    Login,
    LogOut,
    Message,
    Receipts,
    WhoAreYou,
)
from leasehold.error_codes import ErrorCode
from leasehold.errors import (
    BadSettings,
    Forbidden,
    LeaseholdError,
    Refused,
    Unauthenticated,
    Unreachable,
    WrongPassword,
)
from leasehold.ids import LoginToken, Revision, StatementId
from leasehold.limits.units import SECOND_NS
from leasehold.wire.steps import iterate, run

QUESTION = AskReceipts(after=0, limit=1)
ANSWER = Receipts(barriers=(), next_after=None)


class Coordinator:
    """Answers those who hold a token that is good; each login makes another one."""

    address = "127.0.0.1:1"
    is_private = True

    def __init__(self, *, users: bool = True) -> None:
        self.users = users
        self.good: set[LoginToken | None] = set()
        self.asked: list[Message] = []
        self.error: LeaseholdError | None = None
        self.patience_ns = 0

    @property
    def logins(self) -> int:
        return sum(isinstance(one, Login) for one in self.asked)

    def call(self, request: Message, timeout_ns: int) -> Message:
        self.asked.append(request)
        if isinstance(request, Login):
            if request.password != "right":
                raise WrongPassword("no")
            token = LoginToken(f"{self.logins:032x}")
            self.good = {token}
            return LoggedIn(token=token, revision=Revision(1))
        if isinstance(request, LogOut):
            self.patience_ns = timeout_ns
            if self.error is not None:
                raise self.error
            self.good.discard(request.token)
            return LoggedOut(revision=Revision(2))
        if self.users and isinstance(request, AskReceipts) and request.login not in self.good:
            raise Unauthenticated("who?")
        if self.error is not None:
            raise self.error
        return ANSWER

    def stream(self, request: Message, timeout_ns: int) -> Iterator[Message]:
        yield self.call(request, timeout_ns)
        yield ANSWER

    def close(self) -> None:
        self.asked.append(WhoAreYou())


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEASEHOLD_USER", raising=False)
    monkeypatch.delenv("LEASEHOLD_PASSWORD", raising=False)


class Client:
    """Calls one coordinator."""

    def __init__(
        self,
        to: Coordinator,
        user: str | None = "u",
        password: str | None = "right",
        *,
        token: LoginToken | None = None,
        check: "Check | None" = None,
    ) -> None:
        self._connection = LoginConnection(lambda _: to, Credentials(user, password), token, lambda _: check)
        self.close = self._connection.close

    @property
    def token(self) -> LoginToken | None:
        return self._connection.calls.token

    def call(self, request: Message) -> Message:
        return run(self._connection.calls.call("c:1", request, 1))

    def stream(self, request: Message) -> list[Message]:
        return list(iterate(self._connection.calls.stream("c:1", request, 1)))


def test_where_nobody_asks_who_one_is_nothing_is_said() -> None:
    there = Coordinator(users=False)
    assert Client(there).call(QUESTION) == ANSWER
    assert there.asked == [QUESTION]


def test_it_logs_in_once_and_shows_the_token_from_then_on() -> None:
    there = Coordinator()
    mine = Client(there)
    for _ in range(3):
        assert mine.call(QUESTION) == ANSWER
    assert mine.stream(QUESTION) == [ANSWER, ANSWER]
    assert there.logins == 1
    assert mine.token in there.good


def test_a_stream_logs_in_too() -> None:
    there = Coordinator()
    assert Client(there).stream(QUESTION) == [ANSWER, ANSWER]
    assert there.logins == 1


def test_a_login_that_has_ended_is_made_again() -> None:
    there = Coordinator()
    mine = Client(there)
    mine.call(QUESTION)
    there.good.clear()
    assert mine.call(QUESTION) == ANSWER
    there.good.clear()
    assert mine.stream(QUESTION) == [ANSWER, ANSWER]
    assert there.logins == 3


def test_a_token_alone_is_shown_and_its_end_told() -> None:
    there = Coordinator()
    there.good = {LoginToken("9" * 32)}
    worker = Client(there, None, None, token=LoginToken("9" * 32))
    assert worker.call(QUESTION) == ANSWER
    there.good.clear()
    with pytest.raises(Unauthenticated):
        worker.call(QUESTION)
    with pytest.raises(Unauthenticated):
        worker.stream(QUESTION)
    assert there.logins == 0


def test_closing_gives_back_the_login_that_it_made() -> None:
    there = Coordinator()
    mine, other = Client(there), Client(there)
    mine.call(QUESTION)
    token = mine.token
    assert token is not None
    there.asked.clear()
    for _ in range(2):
        mine.close()
        assert there.asked[0] == LogOut(cluster_id=None, token=token)
        assert sum(isinstance(one, LogOut) for one in there.asked) == 1
    assert there.good == set()
    assert 0 < there.patience_ns < SECOND_NS
    other.close()
    assert sum(isinstance(one, LogOut) for one in there.asked) == 1, "it has not logged in"


def test_a_login_is_not_given_back_by_who_was_handed_it() -> None:
    there = Coordinator()
    owner = Client(there)
    owner.call(QUESTION)
    token = owner.token
    worker = Client(there, None, None, token=token)
    assert worker.call(QUESTION) == ANSWER
    worker.close()
    assert not any(isinstance(one, LogOut) for one in there.asked)
    assert there.good == {token}


def test_a_login_made_in_place_of_one_that_was_handed_to_it_is_given_back() -> None:
    there = Coordinator()
    mine = Client(there, token=LoginToken("9" * 32))
    mine.call(QUESTION)
    mine.close()
    assert LogOut(cluster_id=None, token=LoginToken(f"{1:032x}")) in there.asked


def test_a_child_process_does_not_give_its_parents_login_back(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Coordinator()
    mine = Client(there)
    mine.call(QUESTION)
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)
    mine.close()
    assert not any(isinstance(one, LogOut) for one in there.asked)


@pytest.mark.parametrize(
    "error", [Unreachable("gone"), Refused("no", code=ErrorCode.BAD_MESSAGE), Unauthenticated("who?")]
)
def test_closing_takes_no_notice_of_a_coordinator_that_does_not_log_it_out(error: LeaseholdError) -> None:
    there = Coordinator()
    mine = Client(there)
    mine.call(QUESTION)
    there.error = error
    mine.close()
    assert [type(one) for one in there.asked[-2:]] == [LogOut, WhoAreYou], "asked once, then closed"


def test_closing_does_not_wait_for_a_login_under_way() -> None:
    there, began, go_on = Coordinator(), threading.Event(), threading.Event()
    mine, plain = Client(there), there.call

    def call(request: Message, timeout_ns: int) -> Message:
        if isinstance(request, Login):
            began.set()
            assert go_on.wait(10)
        return plain(request, timeout_ns)

    there.call = call  # pyright: ignore[reportAttributeAccessIssue]
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(mine.call, QUESTION)
        assert began.wait(10)
        mine.close()
        go_on.set()
        asking.result()


def test_a_wrong_password_is_tried_once() -> None:
    there = Coordinator()
    for ask in (lambda one: one.call(QUESTION), lambda one: one.stream(QUESTION)):
        there.asked.clear()
        with pytest.raises(WrongPassword):
            ask(Client(there, password="wrong"))
        assert there.logins == 1


def test_a_lack_of_rights_is_no_reason_to_log_in_again() -> None:
    there = Coordinator()
    there.error = Forbidden("no")
    with pytest.raises(Forbidden):
        Client(there).call(QUESTION)
    assert there.logins == 1


def test_threads_that_are_refused_together_log_in_once() -> None:
    there, together = Coordinator(), threading.Barrier(4)
    mine = Client(there)
    lock, plain = threading.Lock(), there.call

    def call(request: Message, timeout_ns: int) -> Message:
        if isinstance(request, AskReceipts) and request.login is None:
            together.wait(10)
        with lock:
            return plain(request, timeout_ns)

    there.call = call  # pyright: ignore[reportAttributeAccessIssue]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: mine.call(QUESTION), range(4))) == [ANSWER] * 4
    assert there.logins == 1


def test_what_is_missing_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Credentials().complete() is None
    monkeypatch.setenv("LEASEHOLD_PASSWORD", "p")
    assert Credentials().complete() is None
    monkeypatch.setenv("LEASEHOLD_USER", "e")
    assert Credentials().complete() == Login(cluster_id=None, user="e", password="p")
    assert Credentials("u", "q").complete() == Login(cluster_id=None, user="u", password="q")
    monkeypatch.delenv("LEASEHOLD_PASSWORD")
    with pytest.raises(BadSettings, match="u"):
        Credentials("u").complete()


def test_a_password_shows_in_no_words() -> None:
    assert "secret" not in repr(Credentials("u", "secret"))


def test_what_carries_no_login_is_left_as_it_is() -> None:
    there = Coordinator()
    mine = Client(there, token=LoginToken("9" * 32))
    mine.call(WhoAreYou())
    mine.call(AskStatus())
    assert there.asked == [WhoAreYou(), AskStatus(login=LoginToken("9" * 32))]


class Check:
    """As a `CoordinatorCheck`: counts, and refuses as long as it is told to."""

    def __init__(self, *, proven: bool) -> None:
        self.proven = proven
        self.asked = 0

    def __call__(self, _connection: object, _timeout_ns: int) -> None:
        self.asked += 1
        if not self.proven:
            raise Refused("not proven", code=ErrorCode.COORDINATOR_UNPROVEN)


def test_nothing_secret_goes_to_a_coordinator_that_does_not_prove_itself() -> None:
    there, check = Coordinator(), Check(proven=False)
    mine = Client(there, check=check)
    statement = Execute(cluster_id=None, statement=StatementId("s"), text="CREATE USER u PASSWORD 'secret'")
    for ask in (
        lambda: mine.call(QUESTION),
        lambda: mine.stream(QUESTION),
        lambda: mine.call(statement),
        lambda: mine.stream(statement),
        lambda: Client(there, check=check, token=LoginToken("t" * 32)).call(QUESTION),
    ):
        with pytest.raises(Refused) as caught:
            ask()
        assert caught.value.code == "COORDINATOR_UNPROVEN"
    assert set(map(type, there.asked)) == {AskReceipts}
    assert {one.login for one in there.asked if isinstance(one, AskReceipts)} == {None}
    check.proven = True
    assert mine.call(QUESTION) == ANSWER
    check.proven = False
    mine.close()
    assert not any(isinstance(one, LogOut) for one in there.asked)


def test_it_is_proven_anew_after_a_request_without_an_answer() -> None:
    there, check = Coordinator(), Check(proven=True)
    mine = Client(there, check=check)
    assert mine.call(QUESTION) == ANSWER
    there.error = Unreachable("gone")
    with pytest.raises(Unreachable):
        mine.call(QUESTION)
    there.error, check.proven = None, False
    before = len(there.asked)
    with pytest.raises(Refused):
        mine.call(QUESTION)
    assert there.asked[before:] == []


def test_it_is_proven_anew_for_each_password() -> None:
    there, check = Coordinator(), Check(proven=True)
    mine = Client(there, check=check)
    assert mine.call(QUESTION) == ANSWER
    there.good.clear()
    check.proven = False
    with pytest.raises(Refused) as caught:
        mine.call(QUESTION)
    assert caught.value.code == "COORDINATOR_UNPROVEN"
    assert there.logins == 1


def test_nothing_secret_leaves_the_machine_in_the_clear() -> None:
    there = Coordinator()
    there.is_private = False
    mine = Client(there)
    for request in (Login(cluster_id=None, user="u", password="p"), QUESTION, WhoAreYou()):
        there.asked.clear()
        with contextlib.suppress(LeaseholdError):
            mine.call(request)
        assert there.asked == ([request] if isinstance(request, WhoAreYou | AskReceipts) else [])
    with pytest.raises(BadSettings) as caught:
        mine.call(QUESTION)
    assert caught.value.code == "NOT_ENCRYPTED", "it would log in"
    assert not any(isinstance(one, Login) for one in there.asked)
