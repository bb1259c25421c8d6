"""How many calls of one kind a node takes, and how many of one user."""

from contextlib import ExitStack

import pytest

from leasehold.core.data.requests import Slots
from leasehold.core.words.records import PrincipalKind, PrincipalRecord, UseState
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import PrincipalId
from leasehold.wire.steps import ThreadRuntime


def user(number):
    return PrincipalRecord(
        id=PrincipalId(number),
        name=f"user{number}",
        kind=PrincipalKind.USER,
        state=UseState.IN_USE,
        password_hash=None,
        roles=(),
    )


def taken(slots, held, who):
    """How many slots the user gets, until one is refused, and what the error says."""
    for count in range(100):
        try:
            held.enter_context(slots.one(who))
        except Refused as refused:
            assert refused.code is ErrorCode.BUSY
            return count, refused.text
    raise AssertionError("no bound")


def test_a_user_leaves_as_many_slots_as_they_hold():
    slots = Slots(ThreadRuntime(lambda: 0), "writes", 8)
    with ExitStack() as first, ExitStack() as others:
        count, text = taken(slots, first, user(1))
        assert (count, text) == (
            4,
            "this node already has 4 writes of user1, and leaves as many to others, which is its limit",
        )
        assert [taken(slots, others, user(number))[0] for number in (2, 3, 4, 5)] == [2, 1, 1, 0]
        first.close()
        assert taken(slots, others, user(5))[0] == 2


def test_callers_without_a_name_share_all_slots():
    slots = Slots(ThreadRuntime(lambda: 0), "scans", 8)
    with ExitStack() as held:
        assert taken(slots, held, None) == (8, "this node already has 8 scans, which is its limit")
    with pytest.raises(ZeroDivisionError), slots.one(user(1)):
        raise ZeroDivisionError
    with ExitStack() as held:
        assert taken(slots, held, user(1))[0] == 4, "what failed holds no slot"
