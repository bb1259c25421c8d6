"""Calls that a server can't keep up with."""

from collections import Counter

import pytest
from tests.unit.wire.server_counters import Counted

from leasehold.limits.bans import (
    BACKLOG_ASK_EACH_NS,
    BACKLOG_ASKED_NS,
    BACKLOG_CALLS_MAX,
    BACKLOG_OF_CROWD_MAX,
    BACKLOG_RECENT_NS,
    BAN_GRACE_NS,
    CROWD_SHARE,
)
from leasehold.limits.requests import CALLS_OF_CLIENT_MAX
from leasehold.wire.backlog import Backlog
from leasehold.wire.bans import Bans
from leasehold.wire.own_sockets import FarEnd

EVE, ANN = FarEnd("192.0.2.1", 1), FarEnd("192.0.2.2", 2)


@pytest.fixture
def counted() -> Counted:
    return Counted()


@pytest.fixture
def backlog(counted: Counted) -> Backlog:
    return Backlog(counted)


def test_as_many_calls_as_may_wait_are_not_too_many(counted: Counted, backlog: Backlog) -> None:
    counted.in_all[EVE] = BACKLOG_CALLS_MAX
    assert backlog.look(0) is None
    counted.in_all[ANN] = 2
    backlog.begin(ANN)
    assert backlog.look(0) == ({}, {}), "it may be a burst"
    assert backlog.look(BACKLOG_ASKED_NS - 1) is None, "they were asked just before"
    assert backlog.look(BACKLOG_ASKED_NS) == ({EVE: BACKLOG_CALLS_MAX, ANN: 1}, {EVE: 0, ANN: 0})


def test_bursts_are_not_too_many(counted: Counted, backlog: Backlog) -> None:
    for number in range(5):
        counted.in_all[EVE] += BACKLOG_CALLS_MAX + 1
        assert backlog.look(2 * number * BACKLOG_ASKED_NS) == ({}, {EVE: 0} if number else {})
        counted.ended = counted.in_all.copy()
        for _ in range(BACKLOG_CALLS_MAX + 1):
            backlog.begin(EVE)
            backlog.end(EVE)
        assert backlog.look((2 * number + 1) * BACKLOG_ASKED_NS) is None


def test_many_connections_are_asked_less_often(counted: Counted, backlog: Backlog) -> None:
    counted.in_all.update({FarEnd("192.0.2.9", port): 2 * BACKLOG_CALLS_MAX for port in range(1_000)})
    assert backlog.look(0) is not None
    assert backlog.look(1_000 * BACKLOG_ASK_EACH_NS - 1) is None
    assert backlog.look(1_000 * BACKLOG_ASK_EACH_NS) is not None


def test_calls_under_way_do_not_wait(counted: Counted, backlog: Backlog) -> None:
    counted.in_all[EVE] = 2 * BACKLOG_CALLS_MAX
    for _ in range(BACKLOG_CALLS_MAX):
        backlog.begin(EVE)
    assert backlog.look(0) is None
    for _ in range(BACKLOG_CALLS_MAX):
        backlog.end(EVE)  # their clients have cancelled them, so they are open until their handlers end
    counted.in_all[EVE] += 1
    assert backlog.look(0) == ({}, {})
    assert backlog.look(BACKLOG_ASKED_NS) == ({EVE: BACKLOG_CALLS_MAX + 1}, {EVE: 0})
    counted.ended[EVE] = BACKLOG_CALLS_MAX
    assert backlog.look(2 * BACKLOG_ASKED_NS) == ({EVE: BACKLOG_CALLS_MAX + 1}, {EVE: 0})


def test_what_is_gone_does_not_wait(counted: Counted, backlog: Backlog) -> None:
    counted.in_all[EVE] = counted.ended[EVE] = 3 * BACKLOG_CALLS_MAX
    assert backlog.look(0) == ({}, {}), "it may have gone long ago"
    assert backlog.look(BACKLOG_ASKED_NS) is None
    assert counted.asked == 1, "they are known by now"
    for now_ns, newly in ((BACKLOG_RECENT_NS, {EVE: BACKLOG_CALLS_MAX}), (3 * BACKLOG_RECENT_NS, {})):
        counted.in_all[EVE] += 2 * BACKLOG_CALLS_MAX
        counted.ended[EVE] += BACKLOG_CALLS_MAX
        assert backlog.look(now_ns) == ({}, newly)
        counted.ended[EVE] = counted.in_all[EVE]
        for _ in range(BACKLOG_CALLS_MAX):
            backlog.begin(EVE)
            backlog.end(EVE)
        assert backlog.look(now_ns + BACKLOG_ASKED_NS) is None


def test_calls_of_banned_peers_do_not_wait(counted: Counted, backlog: Backlog) -> None:
    counted.in_all |= {EVE: 2 * BACKLOG_CALLS_MAX, ANN: 1}
    assert backlog.look(0) is not None
    backlog.give_way(2 * BACKLOG_CALLS_MAX)
    assert backlog.look(BACKLOG_ASKED_NS) is None
    counted.in_all[ANN] += BACKLOG_CALLS_MAX
    assert backlog.look(BACKLOG_ASKED_NS) is not None


def test_connections_that_are_closed_are_forgotten_at_the_second_look(counted: Counted, backlog: Backlog) -> None:
    for one in (EVE, ANN, FarEnd("192.0.2.3", 3)):
        backlog.begin(one)
    for one in (EVE, ANN):
        backlog.end(one)
    backlog.forget({EVE})
    assert len(backlog._begun) == 3, "one may be newer than the look"
    backlog.forget({EVE})
    assert backlog._begun == {EVE: 1, FarEnd("192.0.2.3", 3): 1}, "calls of the other one are under way"


def test_peers_with_most_calls_give_way() -> None:
    bans = Bans()
    bans.look(Counter(), 0, 0)
    bans.is_member("node")
    eves = {f"eve{number}": BACKLOG_CALLS_MAX // 8 + number for number in range(10)}
    few = {f"ann{number}": CALLS_OF_CLIENT_MAX for number in range(24)}
    banned = bans.shed(Counter({**eves, **few, "node": 10 * BACKLOG_CALLS_MAX}), BAN_GRACE_NS)
    assert banned == {f"eve{number}" for number in range(10 - len(banned), 10)}
    left = sum(count for peer, count in eves.items() if peer not in banned)
    assert left <= BACKLOG_CALLS_MAX // 2 < left + 2 * BACKLOG_CALLS_MAX // 8
    assert bans.banned == banned


def test_a_crowd_gives_way_too() -> None:
    bans = Bans()
    bans.look(Counter(), 0, 0)
    few = CALLS_OF_CLIENT_MAX // CROWD_SHARE
    crowd = {f"eve{number}": CALLS_OF_CLIENT_MAX for number in range(BACKLOG_OF_CROWD_MAX // CALLS_OF_CLIENT_MAX)}
    assert not bans.shed(Counter(crowd), BAN_GRACE_NS)
    banned = bans.shed(Counter({**crowd, "ann": few}), BAN_GRACE_NS)
    assert banned < crowd.keys()
    assert (len(crowd) - len(banned)) * CALLS_OF_CLIENT_MAX == BACKLOG_CALLS_MAX // 2


def test_nobody_gives_way_after_a_start_or_a_pause() -> None:
    bans, many = Bans(), Counter({"eve": BACKLOG_CALLS_MAX})
    bans.look(Counter(), 0, 0)
    assert not bans.shed(many, BAN_GRACE_NS - 1)
    paused_ns = 2 * BAN_GRACE_NS
    bans.look(Counter(), paused_ns, 0)
    assert not bans.shed(many, paused_ns + BAN_GRACE_NS - 1)
    assert bans.shed(many, paused_ns + BAN_GRACE_NS) == {"eve"}
