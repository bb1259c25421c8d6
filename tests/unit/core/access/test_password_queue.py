"""Lanes, turns and places of password checks, and which names have failed of late."""

import pytest

from leasehold.core.access.password_queue import PLACES, Lane, NameHash, PasswordQueue, QueuedCheck, WrongPasswords
from leasehold.errors import Refused
from leasehold.limits.people import (
    PASSWORDS_AT_ONCE,
    PASSWORDS_WAITING_MAX,
    WRONG_PASSWORD_RECENT_NS,
    WRONG_PASSWORD_REST_MAX_NS,
    WRONG_PASSWORD_REST_MIN_NS,
    WRONG_PASSWORDS_KEPT,
)


def name(text: object) -> NameHash:
    return NameHash(str(text).encode())


def enter(queue: PasswordQueue, lane: Lane, who: object, peer: str = "p") -> int:
    return queue.enter(lane, peer, name(who)).ticket


def is_busy(queue: PasswordQueue, lane: Lane, who: object, peer: str = "p") -> bool:
    try:
        queue.enter(lane, peer, name(who))
    except Refused as error:
        return error.code == "BUSY"
    return False


def one_by_one(queue: PasswordQueue) -> list[int]:
    """The order of the checks if each ends before the next one begins."""
    found: list[int] = []
    while (ticket := queue.next_ticket()) is not None:
        found.append(ticket)
        queue.leave(ticket)
    return found


def filled(lane: Lane, names: int, peer: str = "p") -> tuple[PasswordQueue, list[int]]:
    """A queue with all places of the lane taken by so many names, and the tickets."""
    queue = PasswordQueue()
    return queue, [enter(queue, lane, f"x{number % names}", peer) for number in range(PLACES[lane])]


def test_half_of_the_places_are_for_users_without_a_recent_wrong_password() -> None:
    assert sum(PLACES.values()) == PASSWORDS_WAITING_MAX
    assert PLACES[Lane.USER] == 2 * PASSWORDS_WAITING_MAX // 5
    queue = PasswordQueue()
    for lane in (Lane.STRANGER, Lane.FAILED):
        for number in range(PLACES[lane]):
            enter(queue, lane, number)
        assert is_busy(queue, lane, "another")
    for number in range(PLACES[Lane.USER]):
        assert not is_busy(queue, Lane.USER, number)
    assert is_busy(queue, Lane.USER, "another")


def test_lanes_take_turns_whoever_came_first() -> None:
    queue, strangers = filled(Lane.STRANGER, names=PLACES[Lane.STRANGER])
    failed = [enter(queue, Lane.FAILED, "f") for _ in range(2)]
    user = enter(queue, Lane.USER, "u")
    order = one_by_one(queue)
    assert order[:5] == [user, failed[0], strangers[0], failed[1], strangers[1]]
    assert sorted(order) == sorted([*strangers, *failed, user])


def test_names_of_a_lane_take_turns() -> None:
    queue = PasswordQueue()
    first, second = enter(queue, Lane.USER, "a"), enter(queue, Lane.USER, "a")
    third = enter(queue, Lane.USER, "b")
    assert one_by_one(queue) == [first, third, second]


def test_so_many_checks_run_at_once_and_of_one_name_one() -> None:
    queue = PasswordQueue()
    enter(queue, Lane.FAILED, "a")
    enter(queue, Lane.FAILED, "a", peer="q")
    assert queue.next_ticket() is not None
    assert queue.next_ticket() is None, "another check of that name runs"
    others = [enter(queue, Lane.USER, number) for number in range(PASSWORDS_AT_ONCE)]
    running = [queue.next_ticket() for _ in range(PASSWORDS_AT_ONCE)]
    assert running == [*others[:-1], None]
    queue.leave(others[0])
    assert queue.next_ticket() is not None


@pytest.mark.parametrize("lane", Lane)
def test_a_name_that_takes_all_places_yields_to_others(lane: Lane) -> None:
    queue, tickets = filled(lane, names=1)
    assert is_busy(queue, lane, "x0")
    entered = queue.enter(lane, "p", name("u"))
    assert entered == QueuedCheck(ticket=tickets[-1] + 1, displaced=tickets[-1])
    assert one_by_one(queue)[1] == entered.ticket
    queue.leave(tickets[-1])  # it has lost its place: nothing happens


def test_names_with_one_place_each_yield_to_nobody_of_their_peer() -> None:
    queue, tickets = filled(Lane.STRANGER, names=PLACES[Lane.STRANGER])
    assert is_busy(queue, Lane.STRANGER, "another")
    assert one_by_one(queue) == tickets


def test_a_peer_that_takes_all_places_yields_to_others_up_to_half() -> None:
    places = PLACES[Lane.STRANGER]
    queue, tickets = filled(Lane.STRANGER, names=places)
    displaced = [queue.enter(Lane.STRANGER, "q", name(f"x{number}")).displaced for number in range(places // 2)]
    assert set(displaced) <= set(tickets)
    assert len(set(displaced)) == places // 2
    assert is_busy(queue, Lane.STRANGER, "another", peer="q")
    assert is_busy(queue, Lane.STRANGER, "another", peer="p")


def test_a_name_yields_to_another_one_of_a_peer_that_has_its_share() -> None:
    queue = PasswordQueue()
    half = PLACES[Lane.USER] // 2
    for number in range(half):
        enter(queue, Lane.USER, number, peer="p")
    tickets = [enter(queue, Lane.USER, "x", peer="q") for _ in range(half)]
    assert queue.enter(Lane.USER, "q", name("u")).displaced == tickets[-1]


def test_a_place_is_given_back() -> None:
    queue, tickets = filled(Lane.USER, names=PLACES[Lane.USER])
    queue.leave(tickets[0])
    assert queue.enter(Lane.USER, "p", name("another")).displaced is None
    running = queue.next_ticket()
    assert running == tickets[1]
    assert not is_busy(queue, Lane.USER, "yet another"), "a running check has no place"
    assert len(one_by_one(queue)) == PLACES[Lane.USER]


def test_guesses_at_a_name_delay_its_user_by_few_checks() -> None:
    """While each of 64 strangers tried a password under it, a user waited for all of them: 3.9 s."""
    queue = PasswordQueue()
    for number in range(PLACES[Lane.USER]):
        queue.enter(Lane.USER, f"stranger {number}", name("u"))
    running = queue.next_ticket()
    assert running is not None
    own = queue.enter(Lane.KNOWN, "home", name("u")).ticket
    ended: list[int] = []
    while own not in ended:
        queue.leave(running)
        running = queue.next_ticket()
        assert running is not None
        ended.append(running)
    assert len(ended) <= len(Lane)


def test_a_recent_wrong_password_of_a_user_has_an_end() -> None:
    wrong, now_ns = WrongPasswords(), 1_000
    assert wrong.lane(name("u"), "p", is_user=True, now_ns=now_ns) is Lane.USER
    wrong.failed(name("u"), is_user=True, now_ns=now_ns)
    assert wrong.lane(name("u"), "p", is_user=True, now_ns=now_ns + WRONG_PASSWORD_RECENT_NS - 1) is Lane.FAILED
    assert wrong.lane(name("v"), "p", is_user=True, now_ns=now_ns) is Lane.USER
    assert wrong.lane(name("u"), "p", is_user=True, now_ns=now_ns + WRONG_PASSWORD_RECENT_NS) is Lane.USER
    assert wrong.count(name("u")) == 1
    assert wrong.lane(name("n"), "p", is_user=False, now_ns=now_ns) is Lane.STRANGER


def test_guesses_from_elsewhere_take_no_places_from_where_a_user_logs_in() -> None:
    wrong = WrongPasswords()
    wrong.succeeded(name("u"), "home")
    wrong.failed(name("u"), is_user=True, now_ns=0)
    assert wrong.lane(name("u"), "home", is_user=True, now_ns=1) is Lane.KNOWN
    assert wrong.lane(name("u"), "elsewhere", is_user=True, now_ns=1) is Lane.FAILED
    wrong.failed(name("v"), is_user=True, now_ns=0)
    assert wrong.lane(name("v"), "home", is_user=True, now_ns=1) is Lane.FAILED


def test_a_right_password_ends_the_growth_of_the_wait_for_wrong_ones() -> None:
    wrong = WrongPasswords()
    for _ in range(3):
        took_ns = wrong.failed(name("u"), is_user=True, now_ns=0)
    assert took_ns > WRONG_PASSWORD_REST_MIN_NS
    wrong.succeeded(name("u"), "p")
    assert wrong.failed(name("u"), is_user=True, now_ns=0) == WRONG_PASSWORD_REST_MIN_NS


@pytest.mark.parametrize("is_user", [True, False])
def test_wrong_passwords_are_answered_later_each_time(is_user: bool) -> None:
    wrong = WrongPasswords()
    took = [wrong.failed(name("u"), is_user=is_user, now_ns=0) for _ in range(40)]
    assert took == [min(WRONG_PASSWORD_REST_MIN_NS << one, WRONG_PASSWORD_REST_MAX_NS) for one in range(40)]


def test_so_many_names_are_remembered_and_made_up_names_displace_no_users() -> None:
    wrong = WrongPasswords()
    for number in range(WRONG_PASSWORDS_KEPT):
        wrong.failed(name(number), is_user=True, now_ns=0)
        wrong.failed(name(f"n{number}"), is_user=False, now_ns=0)
    wrong.failed(name("n"), is_user=False, now_ns=0)
    assert wrong.count(name(0)) == 1
    wrong.failed(name("u"), is_user=True, now_ns=0)
    assert wrong.count(name(0)) == 0
    assert wrong.count(name(1)) == 1
    assert wrong.failed(name("n0"), is_user=False, now_ns=0) == WRONG_PASSWORD_REST_MIN_NS
