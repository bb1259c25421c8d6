"""Users take turns, and few of each wait."""

import pytest

from leasehold.core.access.fair_queue import FairQueue
from leasehold.errors import Refused
from leasehold.limits.requests import TURNS_IN_HAND_NS, TURNS_REMEMBERED
from leasehold.limits.statements import PARSES_PER_USER_CHARACTERS, PARSES_PER_USER_MAX, PARSES_WAITING_MAX

LARGE = PARSES_PER_USER_CHARACTERS + 1


def turns(queue: FairQueue) -> list[int]:
    found: list[int] = []
    while (ticket := queue.next_ticket()) is not None:
        found.append(ticket)
    return found


def test_users_take_turns_whoever_came_first() -> None:
    queue = FairQueue()
    first, second = queue.enter("a", LARGE), queue.enter("a", LARGE)
    third = queue.enter("b", LARGE)
    assert turns(queue) == [first, third, second]


def test_a_user_who_asks_now_and_then_waits_for_one_turn() -> None:
    """Seven users with statements that take a second each delayed a question of another user by up to 7 s."""
    queue = FairQueue()
    greedy = {queue.enter(user): user for user in 3 * "abcdefg"}

    def greedy_turn() -> None:
        ticket = queue.next_ticket()
        assert ticket is not None
        queue.used(greedy[ticket], 1_000_000_000)

    for _ in "abcdefg":
        greedy_turn()
    for _ in "abcdefg":
        greedy_turn()
        asked = queue.enter("honest")
        assert queue.next_ticket() == asked
        queue.used("honest", 1_000_000)


def test_whoever_used_nothing_keeps_little_in_hand() -> None:
    queue = FairQueue()
    for _ in range(10):
        queue.begin("greedy")
        queue.used("greedy", TURNS_IN_HAND_NS)
    asked = [queue.enter(user) for user in ("a", "a", "a", "greedy")]
    order: list[int] = []
    for _ in range(3):
        ticket = queue.next_ticket()
        assert ticket is not None
        order.append(asked.index(ticket))
        queue.used("greedy" if ticket == asked[-1] else "a", 3 * TURNS_IN_HAND_NS // 2)
    assert order == [0, 1, 3], "and nobody owes more than the last turn"


def test_what_others_wait_for_comes_before_what_else_its_user_asks() -> None:
    queue = FairQueue()
    last, other, first = queue.enter("a"), queue.enter("b"), queue.enter("a", is_first=True)
    assert turns(queue) == [first, other, last]


def test_a_queue_remembers_those_who_have_used_most() -> None:
    queue = FairQueue()
    queue.used("greedy", 20)
    for number in range(3 * TURNS_REMEMBERED):
        queue.used(f"u{number}", 10)
        assert len(queue._used_ns) <= 2 * TURNS_REMEMBERED
    last, first = queue.enter("greedy"), queue.enter("u0")
    assert turns(queue) == [first, last]


def test_one_user_has_few_places_and_gets_them_back() -> None:
    queue = FairQueue()
    for _ in range(PARSES_PER_USER_MAX):
        last = queue.enter("a", LARGE)
    with pytest.raises(Refused) as caught:
        queue.enter("a", LARGE)
    assert caught.value.code == "BUSY"
    queue.enter("b", LARGE)
    queue.leave(last)
    queue.enter("a", LARGE)
    queue.next_ticket()
    queue.leave(last)  # it left before: nothing happens
    assert len(turns(queue)) == PARSES_PER_USER_MAX


def test_many_short_texts_of_one_user_may_wait() -> None:
    """As many programs of one user create views at once."""
    queue = FairQueue()
    tickets = [queue.enter("a", 80) for _ in range(60)]
    with pytest.raises(Refused):
        queue.enter("a", LARGE)
    with pytest.raises(Refused):
        while True:
            tickets.append(queue.enter("a", 1))
    assert len(tickets) < 70, "a short one counts as well"
    queue.enter("b", LARGE)
    for ticket in tickets:
        queue.leave(ticket)
    queue.enter("a", LARGE)


def test_all_users_together_have_a_bound() -> None:
    queue = FairQueue()
    for user in range(PARSES_WAITING_MAX):
        queue.enter(f"u{user}", LARGE)
    with pytest.raises(Refused):
        queue.enter("another", LARGE)
    assert len(turns(queue)) == PARSES_WAITING_MAX
    assert turns(queue) == []


def test_any_number_of_others_may_wait_and_users_take_turns_all_the_same() -> None:
    queue = FairQueue()
    tickets = [queue.enter("a") for _ in range(2 * PARSES_WAITING_MAX)]
    large, last = queue.enter("a", LARGE), queue.enter("b")
    first, *rest = turns(queue)
    assert (first, *rest[:1], *rest[1:]) == (tickets[0], last, *tickets[1:], large)
