"""What takes long is computed one at a time, users in turn; large statements not at all for users without rights."""

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, TypeVar

import pytest

from leasehold.coordinator.statements.preparation import ParsedStatement
from leasehold.coordinator.statements.procedures import Procedures
from leasehold.coordinator.user_turns import UserTurns
from leasehold.core.access import fair_queue
from leasehold.core.ddl.room import StatementRoom
from leasehold.core.words.messages import AskTable, Filter, Message, PlanScan
from leasehold.core.words.records import Claim, PrincipalRecord
from leasehold.core.words.request_sizes import decoded_bytes
from leasehold.core.words.statements import Literal
from leasehold.errors import Forbidden, Indefinite, LeaseholdError, Refused
from leasehold.ids import StatementId
from leasehold.limits.requests import (
    TURNS_WAITING_BYTES_MAX,
    TURNS_WAITING_MAX,
    TURNS_WAITING_PER_USER_BYTES_MAX,
    TURNS_WAITING_PER_USER_MAX,
)
from leasehold.limits.statements import (
    COLUMNS_MAX,
    INLINE_EFFORT_MAX,
    LARGE_STATEMENT_CHARACTERS,
    PARSE_INLINE_CHARACTERS,
    PARSES_PER_USER_CHARACTERS,
    PARSES_PER_USER_MAX,
)
from leasehold.wire.ports import Threads
from tests.sim.test_users import Users, simulate

T = TypeVar("T")
ASKED = AskTable(cluster_id=None, name="db.t")


class Slow:
    """A thread that computes when it is told to."""

    def __init__(self) -> None:
        self.allowed = asyncio.Semaphore(0)

    async def run(self, compute: Callable[[], T]) -> T:
        await self.allowed.acquire()
        return compute()


def turns_at(threads: Threads, now_ns: Callable[[], int] = lambda: 0) -> UserTurns:
    return UserTurns(threads, now_ns)


def noted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The users who have had a turn from now on."""
    users, run = list[str](), UserTurns.run

    def runs(
        self: UserTurns, user: PrincipalRecord, work: Callable[[], Coroutine[Any, Any, T]], **more: Any
    ) -> Awaitable[T]:
        users.append(user.name)
        return run(self, user, work, **more)

    monkeypatch.setattr(UserTurns, "run", runs)
    return users


async def test_the_turn_passes_over_a_caller_who_was_cancelled_and_has_not_run_since() -> None:
    turns, ended = turns_at(threads := Slow()), list[str]()

    def asked(name: str) -> "asyncio.Task[None]":
        work = partial(threads.run, lambda: ended.append(name))
        return asyncio.get_running_loop().create_task(turns.run("u", work, request=ASKED))

    unforeseen = list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unforeseen.append(context))
    first = asked("first")
    await asyncio.sleep(0)
    waiting = [asked(name) for name in ("gone", "gone too", "last")]
    await asyncio.sleep(0)
    for one in waiting[:2]:
        one.cancel()
    turns._pass_on()
    for _ in range(2):
        threads.allowed.release()
    await asyncio.wait_for(asyncio.gather(first, waiting[2]), 10)
    assert sorted(ended) == ["first", "last"]
    assert all(one.cancelled() for one in waiting[:2])
    assert not unforeseen
    assert not turns._is_busy


async def test_a_user_who_asks_for_much_holds_up_another_for_one_statement() -> None:
    threads, ended = Slow(), list[str]()
    turns = turns_at(threads)

    async def ask(user: str) -> None:
        await turns.run(
            user,
            partial(threads.run, lambda: ended.append(user)),
            request=ASKED,
            characters=PARSES_PER_USER_CHARACTERS + 1,
        )

    async with asyncio.TaskGroup() as group:
        for user in ("greedy", "greedy", "greedy", "honest"):
            group.create_task(ask(user))
            await asyncio.sleep(0)
        with pytest.raises(Refused, match="already wait"):
            await ask("greedy")
        for _ in range(4):
            threads.allowed.release()
    assert ended == ["greedy", "greedy", "honest", "greedy"]
    assert PARSES_PER_USER_MAX == 2


async def test_whoever_gives_up_leaves_the_turn_to_the_next() -> None:
    threads = Slow()
    turns = turns_at(threads)
    running, waiting, last = (
        asyncio.ensure_future(
            turns.run(
                user, partial(threads.run, lambda: None), request=ASKED, characters=PARSES_PER_USER_CHARACTERS + 1
            )
        )
        for user in "abc"
    )
    await asyncio.sleep(0)
    waiting.cancel()
    running.cancel()
    await asyncio.wait([running, waiting])
    assert not last.done(), "the thread computes still for whoever gave up"
    for _ in range(3):
        threads.allowed.release()
    await last
    await turns.run("d", partial(threads.run, lambda: None), request=ASKED, characters=PARSES_PER_USER_CHARACTERS + 1)


class Crowd:
    """Many users ask, and none of them gets a turn until `end`."""

    def __init__(self) -> None:
        self._threads = Slow()
        self._turns = turns_at(self._threads)
        self._asked: list[asyncio.Task[None]] = []
        self._busy: list[str] = []

    async def ask(self, user: str, number: int, request: Message = ASKED) -> None:
        for _ in range(number):
            self._asked.append(asyncio.get_running_loop().create_task(self._one(user, request)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def _one(self, user: str, request: Message) -> None:
        try:
            await self._turns.run(user, partial(self._threads.run, lambda: None), request=request)
        except Indefinite as error:
            assert error.code == "BUSY"
            self._busy.append(user)

    def busy(self) -> Counter[str]:
        """How many questions of each user have been answered BUSY since the last call."""
        found = Counter(self._busy)
        self._busy.clear()
        return found

    async def end(self) -> None:
        for _ in self._asked:
            self._threads.allowed.release()
        await asyncio.wait_for(asyncio.gather(*self._asked), 60)
        assert not self._turns._is_busy
        assert not self._turns._turns


async def test_one_user_has_so_many_questions_that_wait() -> None:
    crowd = Crowd()
    await crowd.ask("greedy", 1 + TURNS_WAITING_PER_USER_MAX)
    assert not crowd.busy()
    await crowd.ask("greedy", 3)
    assert crowd.busy() == {"greedy": 3}
    await crowd.ask("honest", 300)
    assert not crowd.busy()
    await crowd.end()


async def test_questions_that_wait_are_bounded_by_their_bytes_in_memory() -> None:
    """1,000 of them that had 62 KB each on their way made a coordinator grow by 708 MiB."""
    wide = PlanScan(cluster_id=None, name="db.t", columns=tuple(f"column_{number}" for number in range(COLUMNS_MAX)))
    crowd, fitting = Crowd(), TURNS_WAITING_PER_USER_BYTES_MAX // decoded_bytes(wide)
    assert fitting > 150
    await crowd.ask("greedy", 1 + fitting, wide)
    assert not crowd.busy()
    await crowd.ask("greedy", 3, wide)
    assert crowd.busy() == {"greedy": 3}
    await crowd.ask("honest", 150, wide)
    await crowd.ask("honest", 300)
    assert not crowd.busy()
    await crowd.end()


async def test_a_single_question_may_be_of_any_size() -> None:
    values = tuple(Literal("string", f"{number}" * 100) for number in range(20_000))
    large = PlanScan(
        cluster_id=None, name="db.t", columns=None, where=(Filter(column="a", operator="IN", values=values),) * 9
    )
    assert decoded_bytes(large) > TURNS_WAITING_PER_USER_BYTES_MAX
    crowd = Crowd()
    await crowd.ask("u", 1)
    await crowd.ask("u", 1, large)
    assert not crowd.busy()
    await crowd.ask("u", 1, large)
    assert crowd.busy() == {"u": 1}
    await crowd.end()


@pytest.mark.parametrize("is_large", [False, True])
async def test_if_too_many_users_wait_the_one_with_most_gives_way(is_large: bool) -> None:
    wide = PlanScan(cluster_id=None, name="db.t", columns=tuple(f"column_{number}" for number in range(COLUMNS_MAX)))
    asked, fitting = (wide, TURNS_WAITING_PER_USER_BYTES_MAX // decoded_bytes(wide)) if is_large else (ASKED, 1_024)
    users = TURNS_WAITING_BYTES_MAX // TURNS_WAITING_PER_USER_BYTES_MAX if is_large else TURNS_WAITING_MAX // 1_024
    crowd = Crowd()
    await crowd.ask("first", 1)
    for number in range(users):
        await crowd.ask(f"greedy {number}", fitting, asked)
    assert not crowd.busy()
    await crowd.ask("honest", 100, asked)
    told = crowd.busy()
    assert told.total() in {99, 100}
    assert set(told) == {f"greedy {number}" for number in range(users)}
    await crowd.ask("greedy 0", 100, asked)
    assert crowd.busy().total() >= 99
    assert all(user.startswith("greedy") for user in told)
    await crowd.end()


async def test_whoever_gives_way_may_have_given_up_before(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TURNS_WAITING_MAX", "TURNS_WAITING_PER_USER_MAX"):
        monkeypatch.setattr(fair_queue, name, 3)
    unforeseen = list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unforeseen.append(context))
    crowd = Crowd()
    await crowd.ask("greedy", 4)
    asked = asyncio.get_running_loop().create_task(crowd.ask("honest", 1))
    await asyncio.sleep(0)  # the question of the honest user comes before the others have noticed
    for gives_up in crowd._asked[2:4]:
        gives_up.cancel()
    crowd._asked[2:4] = []
    await asked
    await crowd.end()
    assert not crowd.busy()
    assert not unforeseen


async def test_whoever_gives_way_may_give_up_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_queue, "TURNS_WAITING_MAX", 2)
    unforeseen = list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unforeseen.append(context))
    crowd = Crowd()
    await crowd.ask("greedy", 3)
    give_way = crowd._turns._end

    def gives_up_too(ticket: int) -> None:
        give_way(ticket)
        crowd._asked[2].cancel()

    monkeypatch.setattr(crowd._turns, "_end", gives_up_too)
    await crowd.ask("honest", 1)
    assert crowd._asked.pop(2).cancelled()
    await crowd.end()
    gc.collect()
    assert not unforeseen


def test_a_large_statement_of_a_user_without_any_right_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        parsed = noted(monkeypatch)
        large = f"DROP TABLE db.nothing -- {'x' * LARGE_STATEMENT_CHARACTERS}"
        await users.refused(users.sql(large, "u"), Forbidden)
        assert parsed == []
        await users.sql("SHOW VIEWS", "u")
        await users.sql("GRANT SELECT ON TABLE db.t TO u", "root")
        error = await users.refused(users.sql(large, "u"), LeaseholdError)
        assert error.code == "NOT_FOUND"
        assert parsed == ["u"]
        await users.sql("REVOKE SELECT ON TABLE db.t FROM u", "root")
        await users.refused(users.sql(large, "u"), Forbidden)

    simulate(scenario)


def test_a_statement_that_would_hold_the_loop_is_parsed_on_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        parsed = noted(monkeypatch)
        signs = "$" * PARSE_INLINE_CHARACTERS
        error = await users.refused(users.sql(f"SHOW {signs}", "u"), LeaseholdError)
        assert (error.code, parsed) == ("BAD_STATEMENT", ["u"])

    simulate(scenario)


def test_a_question_about_much_is_answered_on_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        columns = ", ".join(f"c{number} INT" for number in range(INLINE_EFFORT_MAX + 1))
        await users.sql(f"CREATE TABLE db.wide ({columns})", "root")
        answered = noted(monkeypatch)
        await users.sql("DESCRIBE db.wide", "u")
        await users.sql("SHOW TABLES IN db", "u")
        assert answered == ["u"]

    simulate(scenario)


def test_a_statement_that_changes_much_begins_when_the_one_before_it_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    under_way, most = set[str](), list[int]()
    begin_and_wait = Procedures.begin_and_wait

    async def noting(self: Procedures, asked: ParsedStatement, at_most_ns: int) -> None:
        under_way.add(asked.id)
        most.append(len(under_way))
        await begin_and_wait(self, asked, at_most_ns)
        under_way.discard(asked.id)

    async def scenario(users: Users, group: asyncio.TaskGroup) -> None:
        monkeypatch.setattr(Procedures, "begin_and_wait", noting)
        large = f"(a INT) CLUSTERED BY (a) INTO {INLINE_EFFORT_MAX + 1} BUCKETS"
        made = [group.create_task(users.sql(f"CREATE TABLE db.large{number} {large}", "root")) for number in range(3)]
        await users.sql("CREATE TABLE db.small (a INT)", "root")
        await asyncio.wait(made)
        await users.sql("DROP TABLE db.large0", "root")
        assert most == [1, 1, 1, 1]

    simulate(scenario)


def test_a_statement_that_changes_much_counts_as_what_it_was_parsed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it waits for the one before it, too: 2,000 columns of 21 KB took 460 KB more."""
    counted, run = list[int](), UserTurns.run
    held, enter = list[int](), StatementRoom.enter

    def runs(self: UserTurns, *asked: Any, **more: Any) -> Awaitable[object]:
        counted.append(more.get("more_bytes", 0))
        return run(self, *asked, **more)

    def enters(
        self: StatementRoom, statement: StatementId, user: str | None, size_bytes: int, used: Mapping[str, Claim]
    ) -> None:
        held.append(size_bytes)
        enter(self, statement, user, size_bytes, used)

    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        monkeypatch.setattr(UserTurns, "run", runs)
        monkeypatch.setattr(StatementRoom, "enter", enters)
        columns = ", ".join(f"c{number} INT" for number in range(COLUMNS_MAX))
        await users.sql(f"CREATE TABLE db.wide ({columns}) CLUSTERED BY (c0) INTO 1024 BUCKETS", "root")
        parsing, beginning = counted
        assert parsing == 0
        assert beginning > 200 * COLUMNS_MAX
        assert held == [beginning]

    simulate(scenario)


async def test_what_is_held_beside_a_question_counts() -> None:
    turns = turns_at(threads := Slow())
    ask = partial(turns.run, "u", partial(threads.run, lambda: None), request=ASKED)
    async with asyncio.TaskGroup() as group:
        group.create_task(ask())
        await asyncio.sleep(0)
        group.create_task(ask(more_bytes=TURNS_WAITING_PER_USER_BYTES_MAX // 2))
        await asyncio.sleep(0)
        with pytest.raises(Indefinite) as busy:
            await ask(more_bytes=TURNS_WAITING_PER_USER_BYTES_MAX // 2)
        assert busy.value.code == "BUSY"
        for _ in range(2):
            threads.allowed.release()
