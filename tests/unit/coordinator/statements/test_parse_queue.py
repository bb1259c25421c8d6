"""Large statements are parsed one at a time, users in turn, and not at all for users without rights."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from leasehold.coordinator.statements.parse_queue import ParseQueue
from leasehold.errors import Forbidden, LeaseholdError, Refused
from leasehold.limits.statements import PARSE_INLINE_CHARACTERS, PARSES_PER_USER_MAX
from tests.sim.test_users import Users, simulate

T = TypeVar("T")


class Slow:
    """A thread that computes when it is told to."""

    def __init__(self) -> None:
        self.allowed = asyncio.Semaphore(0)

    async def run(self, compute: Callable[[], T]) -> T:
        await self.allowed.acquire()
        return compute()


async def test_a_user_who_asks_for_much_holds_up_another_for_one_statement() -> None:
    threads, ended = Slow(), list[str]()
    reading = ParseQueue(threads)

    async def ask(user: str) -> None:
        await reading.run(user, PARSE_INLINE_CHARACTERS + 1, lambda: ended.append(user))

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
    reading = ParseQueue(threads)
    running, waiting, last = (
        asyncio.ensure_future(reading.run(user, PARSE_INLINE_CHARACTERS + 1, lambda: None)) for user in "abc"
    )
    await asyncio.sleep(0)
    waiting.cancel()
    running.cancel()
    await asyncio.wait([running, waiting])
    assert not last.done(), "the thread computes still for whoever gave up"
    for _ in range(3):
        threads.allowed.release()
    await last
    await reading.run("d", PARSE_INLINE_CHARACTERS + 1, lambda: None)


def test_a_large_statement_of_a_user_without_any_right_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        parsed, run = list[str](), ParseQueue.run

        def runs(self: ParseQueue, user: str, characters: int, compute: Callable[[], T]) -> Awaitable[T]:
            parsed.append(user)
            return run(self, user, characters, compute)

        monkeypatch.setattr(ParseQueue, "run", runs)
        large = f"DROP TABLE db.nothing -- {'x' * PARSE_INLINE_CHARACTERS}"
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
