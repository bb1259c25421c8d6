"""Users take turns, and few of each wait."""

import pytest

from leasehold.core import fair_queue
from leasehold.core.fair_queue import FairQueue
from leasehold.errors import Refused
from leasehold.limits import PARSES_PER_USER_MAX, PARSES_WAITING_MAX


def turns(queue: FairQueue) -> list[int]:
    found: list[int] = []
    while (ticket := queue.next_ticket()) is not None:
        found.append(ticket)
    return found


def test_users_take_turns_whoever_came_first() -> None:
    queue = FairQueue()
    first, second = queue.enter("a"), queue.enter("a")
    third = queue.enter("b")
    assert turns(queue) == [first, third, second]


def test_one_user_has_few_places_and_gets_them_back() -> None:
    queue = FairQueue()
    for _ in range(PARSES_PER_USER_MAX):
        last = queue.enter("a")
    with pytest.raises(Refused) as caught:
        queue.enter("a")
    assert caught.value.code == "BUSY"
    queue.enter("b")
    queue.leave(last)
    queue.enter("a")
    queue.next_ticket()
    queue.leave(last)  # it left before: nothing happens
    assert len(queue) == PARSES_PER_USER_MAX


def test_all_users_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PARSES_WAITING_MAX > 3
    monkeypatch.setattr(fair_queue, "PARSES_WAITING_MAX", 3)
    queue = FairQueue()
    for user in "abc":
        queue.enter(user)
    with pytest.raises(Refused):
        queue.enter("d")
    assert len(turns(queue)) == 3
    assert len(queue) == 0
