"""The state of a cluster with many nodes: all who ask for it share an answer, and the loop goes on between two."""

import asyncio
from typing import Any

import pytest

from leasehold.coordinator.people.overview import Overview
from leasehold.coordinator.shared_answer import SharedAnswer
from leasehold.errors import LeaseholdError, Refused
from leasehold.limits.statements import INLINE_EFFORT_MAX, SHARED_ANSWER_AT_ONCE_MAX, SHARED_ANSWER_REST
from tests.unit.core.catalog_words import Ground

ASKED = 5


class Shown(Overview):
    """Only counts its answers."""

    def __init__(self, nodes: int) -> None:
        ignored: Any = None
        catalog = Ground(nodes=tuple(range(1, nodes + 1))).catalog
        assert len(catalog.nodes) == nodes
        super().__init__(
            *(ignored,) * 5,
            catalog=lambda: catalog,
            now_ns=lambda: 0,
            failed_logins=ignored,
            seen=ignored,
            join_wait_ns=ignored,
            anybody_may_join=False,
            coordinators=ignored,
            coordinator_certificates_end_s=ignored,
            store_warnings=ignored,
            replaced_in_ns=ignored,
            copy_rates=ignored,
            began_ns=0,
            wall_us=ignored,
        )
        self.answers = 0

    def status(self, catalog: Any, now_ns: int) -> Any:
        self.answers += 1
        return self.answers


@pytest.mark.parametrize(("nodes", "answers"), [(INLINE_EFFORT_MAX, ASKED), (INLINE_EFFORT_MAX + 1, 1)])
async def test_with_many_nodes_all_who_ask_share_an_answer(nodes: int, answers: int) -> None:
    overview = Shown(nodes)
    await asyncio.gather(*(overview.status_shown() for _ in range(ASKED)))
    assert overview.answers == answers


async def test_an_answer_is_computed_after_the_question() -> None:
    overview = Shown(INLINE_EFFORT_MAX + 1)
    assert [await overview.status_shown() for _ in range(ASKED)] == list(range(1, ASKED + 1))


async def test_a_caller_who_gives_up_takes_no_answer_from_others() -> None:
    overview = Shown(INLINE_EFFORT_MAX + 1)
    asking = [asyncio.create_task(overview.status_shown()) for _ in range(2)]
    await asyncio.sleep(0)
    asking[0].cancel()
    assert await asking[1] == 1


async def test_between_two_answers_the_loop_has_time_for_others() -> None:
    loop, ended_s = asyncio.get_running_loop(), list[float]()
    began_s, took_s = list[float](), 0.01

    def compute() -> None:
        began_s.append(loop.time())
        while loop.time() < began_s[-1] + took_s:
            pass
        ended_s.append(loop.time())

    shared = SharedAnswer(compute)
    for _ in range(3):
        await shared.get()
    rests = [begin - end for end, begin in zip(ended_s, began_s[1:], strict=False)]
    assert min(rests) >= SHARED_ANSWER_REST * took_s * 0.9, "a loop may call a little early"


async def test_others_are_served_before_all_who_asked_have_the_answer() -> None:
    shared = SharedAnswer(lambda: 1)
    asking = [asyncio.create_task(shared.get()) for _ in range(3 * SHARED_ANSWER_AT_ONCE_MAX)]
    seen = {0}
    while sum(one.done() for one in asking) < len(asking):
        await asyncio.sleep(0)
        seen.add(sum(one.done() for one in asking))
    assert seen >= {SHARED_ANSWER_AT_ONCE_MAX, 2 * SHARED_ANSWER_AT_ONCE_MAX}


async def test_what_goes_wrong_is_raised_for_all_who_asked() -> None:
    def fail() -> None:
        raise Refused("no", code="BUSY", hint="")

    shared = SharedAnswer(fail)
    found = await asyncio.gather(*(shared.get() for _ in range(2)), return_exceptions=True)
    assert all(isinstance(one, LeaseholdError) for one in found)
