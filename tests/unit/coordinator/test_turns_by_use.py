"""Next is the turn of the user whose turns have taken least time."""

import asyncio

from leasehold.coordinator.user_turns import UserTurns
from leasehold.limits.units import SECOND_NS
from leasehold.testing.threads import NoThreads


class Turns:
    """Turns that take as long as they are told to; `ended` are the users who have had them."""

    def __init__(self) -> None:
        self._now_ns = 0
        self._turns = UserTurns(NoThreads(), lambda: self._now_ns)
        self.ended: list[str] = []

    async def ask(self, user: str, takes_s: int, *, called: str = "", is_first: bool = False) -> None:
        def computed() -> None:
            self._now_ns += takes_s * SECOND_NS
            self.ended.append(called or user)

        await self._turns.compute(user, computed, request=None, is_first=is_first)

    async def ask_at_once(self, *asked: tuple[str, int]) -> list[str]:
        self.ended.clear()
        await asyncio.gather(*(self.ask(*one) for one in asked))
        return self.ended


async def test_turns_count_for_as_long_as_they_take() -> None:
    asked = (("greedy", 10), ("greedy", 10), ("honest", 1), ("honest", 1))
    assert await Turns().ask_at_once(*asked) == ["greedy", "honest", "honest", "greedy"]


async def test_what_nobody_else_wanted_is_not_held_against_a_user() -> None:
    turns = Turns()
    for _ in range(5):
        await turns.ask("honest", 10)
    asked = (("greedy", 10), ("greedy", 10), ("greedy", 10), ("honest", 10))
    assert await turns.ask_at_once(*asked) == ["greedy", "greedy", "honest", "greedy"]


async def test_what_others_may_wait_for_comes_first_of_its_user() -> None:
    turns = Turns()
    names = ("under way", "a question", "first", "second")
    await asyncio.gather(*(turns.ask("a", 1, called=name, is_first=name in {"first", "second"}) for name in names))
    assert turns.ended == ["under way", "first", "second", "a question"]
