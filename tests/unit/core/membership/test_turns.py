"""Whose turn it is among several coordinators."""

from leasehold.core.membership.turns import Turns
from leasehold.errors import NotLeader, Unreachable

ADDRESSES = ("a:1", "b:1", "c:1")


def named(leader, term):
    return NotLeader("it does not lead", leader=leader, term=term)


def asked(turns, turn, error, addresses=ADDRESSES):
    after = turns.after(turn, addresses, error)
    assert after > turn, "a step that has met the same sees that the turn has changed"
    return addresses[after % len(addresses)]


def test_the_leader_that_is_named_is_next_wherever_it_stands():
    for turn in range(6):
        for leader in ADDRESSES:
            assert asked(Turns(), turn, named(leader, 4)) == leader


def test_without_a_name_it_is_the_next_one():
    for error in (None, Unreachable("gone"), NotLeader("it does not lead")):
        assert asked(Turns(), 4, error) == "c:1"


def test_an_address_that_is_not_known_is_not_asked():
    assert asked(Turns(), 0, named("stranger:1", 4)) == "b:1"


def test_a_term_is_followed_once_and_an_older_one_never():
    turns = Turns()
    assert asked(turns, 0, named("c:1", 4)) == "c:1"
    assert asked(turns, 2, named("b:1", 3)) == "a:1"
    assert asked(turns, 0, named("c:1", 4)) == "b:1"
    assert asked(turns, 1, named("a:1", 5)) == "a:1"
