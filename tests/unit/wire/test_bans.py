"""Whom a server keeps out for a while."""

from collections import Counter

import pytest

from leasehold.limits.bans import (
    BAN_GRACE_NS,
    BAN_NS,
    BAN_PAUSE_NS,
    CROWD_SHARE,
    FAULTS_OF_CROWD_MAX,
    FAULTS_OF_ONE_MAX,
    FAULTS_PER_SECOND_MAX,
    MEMBERS_REMEMBERED_MAX,
)
from leasehold.limits.units import SECOND_NS
from leasehold.wire.bans import Bans

LOOK_NS = SECOND_NS // 10
MANY = FAULTS_PER_SECOND_MAX + 1


@pytest.fixture
def bans() -> Bans:
    made = Bans()
    made.look(Counter(), 0, 0)
    return made


def looked(bans: Bans, *faults: dict[str, int], since_ns: int = 0) -> list[set[str]]:
    """Whom it bans at each of these looks."""
    return [
        set(bans.look(Counter(of_look), since_ns + number * LOOK_NS, 0))
        for number, of_look in enumerate(faults, start=1)
    ]


def test_too_many_faults_in_a_second_ban_the_peer_with_most(bans: Bans) -> None:
    half = FAULTS_PER_SECOND_MAX // 2
    assert looked(bans, {"eve": half}, {"ann": 1, "eve": half + 1}) == [set(), {"eve"}]
    assert "eve" in bans
    assert "ann" not in bans
    assert looked(bans, {"eve": half}, since_ns=2 * LOOK_NS) == [set()], "what it was banned for is over"


def test_faults_are_forgotten_after_a_second(bans: Bans) -> None:
    each = {"eve": FAULTS_PER_SECOND_MAX // 10}
    assert looked(bans, *([each] * 30)) == [set()] * 30
    assert looked(bans, {"eve": FAULTS_PER_SECOND_MAX // 5}, since_ns=30 * LOOK_NS) == [{"eve"}]


def test_several_peers_are_banned_until_the_others_have_few(bans: Bans) -> None:
    many = {f"eve{number}": 2 * FAULTS_OF_ONE_MAX - number for number in range(20)}
    (banned,) = looked(bans, many)
    assert banned == {f"eve{number}" for number in range(len(banned))}, "those with most"
    left = sum(count for peer, count in many.items() if peer not in banned)
    assert left <= FAULTS_PER_SECOND_MAX < left + 2 * FAULTS_OF_ONE_MAX


def test_peers_with_few_faults_each_ban_neither_themselves_nor_others(bans: Bans) -> None:
    few = {f"10.0.0.{number}": FAULTS_OF_ONE_MAX for number in range(FAULTS_OF_CROWD_MAX // FAULTS_OF_ONE_MAX - 2)}
    assert looked(bans, {**few, "ann": FAULTS_OF_ONE_MAX + 1}) == [set()]


def test_a_crowd_with_few_faults_each_is_banned(bans: Bans) -> None:
    part = FAULTS_OF_ONE_MAX // CROWD_SHARE
    crowd = {f"10.0.0.{number}": part + 1 for number in range(FAULTS_OF_CROWD_MAX // part)}
    banned, others = *looked(bans, {**crowd, "ann": part}), {"ann"}
    others |= crowd.keys() - banned
    assert banned < crowd.keys()
    assert sum(crowd.get(one, 0) for one in others) <= FAULTS_PER_SECOND_MAX


def test_a_ban_ends(bans: Bans) -> None:
    looked(bans, {"eve": MANY})
    until_ns = LOOK_NS + BAN_NS
    bans.look(Counter(), until_ns - 1, BAN_NS)
    assert "eve" in bans
    assert bans.banned
    bans.look(Counter(), until_ns, BAN_NS)
    assert "eve" not in bans
    assert not bans.banned


def test_members_are_never_banned(bans: Bans) -> None:
    bans.is_member("node")
    assert looked(bans, {"node": 10 * MANY, "eve": FAULTS_OF_ONE_MAX + 1}) == [set()]


def test_who_turns_out_to_be_a_member_is_not_banned_any_more(bans: Bans) -> None:
    assert looked(bans, {"node": MANY, "late": FAULTS_OF_ONE_MAX + 1}) == [{"node"}]
    bans.is_member("node")
    bans.is_member("late")
    assert not bans.banned
    assert looked(bans, {"late": MANY, "node": MANY}, since_ns=LOOK_NS) == [set()]


def test_the_members_that_called_last_are_remembered(bans: Bans) -> None:
    for number in range(MEMBERS_REMEMBERED_MAX):
        bans.is_member(f"node-{number}")
    bans.is_member("node-0")
    bans.is_member("another")
    assert looked(bans, {"node-0": MANY, "node-1": MANY}) == [{"node-1"}]


def test_what_went_stale_while_the_process_stood_still_does_not_count(bans: Bans) -> None:
    bans.look(Counter(ann=FAULTS_PER_SECOND_MAX), LOOK_NS, 0)
    resumed_ns = LOOK_NS + BAN_PAUSE_NS + 2
    assert bans.look(Counter(ann=10 * MANY), resumed_ns, BAN_PAUSE_NS // 2) == frozenset()
    grace = int(BAN_GRACE_NS / LOOK_NS)
    stale = looked(bans, *([{"ann": 10 * MANY}] * (grace - 1)), since_ns=resumed_ns)
    assert stale == [set()] * (grace - 1)
    assert looked(bans, {"ann": MANY}, since_ns=resumed_ns + BAN_GRACE_NS) == [{"ann"}]


def test_what_comes_while_the_process_is_busy_counts(bans: Bans) -> None:
    assert bans.look(Counter(ann=MANY), 2 * BAN_PAUSE_NS, BAN_PAUSE_NS) == {"ann"}
