"""What takes long is computed one at a time, users in turn; large statements not at all for users without rights."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import pytest

from leasehold.coordinator.user_turns import UserTurns
from leasehold.core.words.records import PrincipalRecord
from leasehold.errors import Forbidden, LeaseholdError, Refused
from leasehold.limits.statements import (
    INLINE_EFFORT_MAX,
    LARGE_STATEMENT_CHARACTERS,
    PARSE_INLINE_CHARACTERS,
    PARSES_PER_USER_CHARACTERS,
    PARSES_PER_USER_MAX,
)
from tests.sim.test_users import Users, simulate

T = TypeVar("T")


class Slow:
    """A thread that computes when it is told to."""

    def __init__(self) -> None:
        self.allowed = asyncio.Semaphore(0)

    async def run(self, compute: Callable[[], T]) -> T:
        await self.allowed.acquire()
        return compute()


def noted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The users who have had a turn from now on."""
    users, run = list[str](), UserTurns.run

    def runs(
        self: UserTurns, user: PrincipalRecord, work: Callable[[], Coroutine[Any, Any, T]], *, characters: int = 0
    ) -> Awaitable[T]:
        users.append(user.name)
        return run(self, user, work, characters=characters)

    monkeypatch.setattr(UserTurns, "run", runs)
    return users


async def test_the_turn_passes_over_a_caller_who_was_cancelled_and_has_not_run_since() -> None:
    threads, turns, ended = Slow(), UserTurns(), list[str]()

    def asked(name: str) -> "asyncio.Task[None]":
        work = partial(threads.run, lambda: ended.append(name))
        return asyncio.get_running_loop().create_task(turns.run("u", work))

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
    turns = UserTurns()

    async def ask(user: str) -> None:
        await turns.run(
            user, partial(threads.run, lambda: ended.append(user)), characters=PARSES_PER_USER_CHARACTERS + 1
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
    turns = UserTurns()
    running, waiting, last = (
        asyncio.ensure_future(
            turns.run(user, partial(threads.run, lambda: None), characters=PARSES_PER_USER_CHARACTERS + 1)
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
    await turns.run("d", partial(threads.run, lambda: None), characters=PARSES_PER_USER_CHARACTERS + 1)


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
