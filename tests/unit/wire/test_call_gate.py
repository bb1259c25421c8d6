"""The gate before the first messages of calls: who waits, who is let in, who gives way."""

from collections.abc import Iterator

import pytest
from tests.unit.wire.gated_call import GatedCall, unforeseen

from leasehold.limits.units import MILLISECOND_NS
from leasehold.wire.call_gate import CallGate
from leasehold.wire.call_watch import CallWatch, WatchedCall

PATIENCE_NS = 10 * MILLISECOND_NS
TURN_NS = 2 * MILLISECOND_NS


class Entering:
    def __init__(self, ground: "Ground", peer: str) -> None:
        self._ground = ground
        self.call = GatedCall()
        self.watched = WatchedCall(self.call, ground.watch)
        self.entered: bool | None = None
        """What it was told; None while it waits."""
        ground.gate.enter(self.watched, peer, self._told)

    def _told(self, is_in: bool) -> None:
        assert self.entered is None, "once"
        self.entered = is_in
        self._ground.told.append(self)


class Ground:
    def __init__(self) -> None:
        self.now_ns = 0
        self.told: list[Entering] = []
        self.watch = CallWatch(unforeseen)
        self.gate = CallGate(
            opening_max=2, waiting_max=3, patience_ns=PATIENCE_NS, turn_ns=TURN_NS, now_ns=lambda: self.now_ns
        )

    def entering(self, peer: str = "") -> Entering:
        made = Entering(self, peer)
        self.read()
        return made

    def read(self) -> None:
        """Those that have got in since are read from now on."""
        for one in self.told:
            if one.entered:
                self.gate.reads(one.watched)
        self.told.clear()

    def inside(self) -> list[Entering]:
        found = [self.entering() for _ in range(2)]
        assert [one.entered for one in found] == [True, True]
        return found


@pytest.fixture
def ground() -> Iterator[Ground]:
    made = Ground()
    yield made
    made.watch.close()


def test_calls_wait_in_order_and_those_inside_are_few(ground: Ground) -> None:
    first, _ = ground.inside()
    waiting = [ground.entering() for _ in range(2)]
    assert [one.entered for one in waiting] == [None, None]
    ground.gate.leave(first.watched)
    assert waiting[0].entered
    assert waiting[1].entered is None
    ground.gate.leave(waiting[0].watched)
    assert waiting[1].entered


def test_with_one_more_the_call_that_waited_longest_gives_way(ground: Ground) -> None:
    ground.inside()
    waiting = [ground.entering() for _ in range(4)]
    assert waiting[0].entered is False
    assert [one.entered for one in waiting[1:]] == [None] * 3


def test_peers_take_turns(ground: Ground) -> None:
    first, _ = ground.inside()
    of_the_same, of_another = ground.entering(), ground.entering("another")
    ground.gate.leave(first.watched)
    assert of_another.entered
    assert of_the_same.entered is None


def test_the_peer_with_the_most_waiting_calls_gives_way(ground: Ground) -> None:
    ground.inside()
    of_another = ground.entering("another")
    waiting = [ground.entering() for _ in range(3)]
    assert waiting[0].entered is False
    assert [one.entered for one in (of_another, *waiting[1:])] == [None] * 3


def test_a_call_that_is_slow_is_cancelled_while_others_wait_and_only_then(ground: Ground) -> None:
    slow = ground.inside()
    waiting = ground.entering()
    assert not any(one.call.is_cancelled for one in slow)
    ground.now_ns = PATIENCE_NS - 1
    ground.gate.look()
    assert not any(one.call.is_cancelled for one in slow)
    ground.now_ns = PATIENCE_NS
    ground.gate.look()
    assert waiting.entered
    assert [one.call.is_cancelled for one in slow] == [True, False], "no more of them than wait"
    ground.gate.look()
    assert not slow[1].call.is_cancelled, "nobody waits"


def test_one_of_several_calls_of_a_peer_gives_way_sooner_to_a_peer_that_has_none_inside(ground: Ground) -> None:
    slow = ground.inside()
    of_the_same = ground.entering()
    of_another = ground.entering("another")
    ground.now_ns = TURN_NS - 1
    ground.gate.look()
    assert of_another.entered is None
    ground.now_ns = TURN_NS
    ground.gate.look()
    assert of_another.entered
    assert [one.call.is_cancelled for one in slow] == [True, False]
    further = ground.entering("another")
    ground.now_ns = PATIENCE_NS - 1
    third = ground.entering("a third")
    ground.gate.look()
    assert [one.entered for one in (of_the_same, further, third)] == [None] * 3, "each peer has one inside"
    assert [one.call.is_cancelled for one in (slow[1], of_another)] == [False, False]


def test_a_call_that_is_decided_on_never_gives_way(ground: Ground) -> None:
    decided, slow = ground.inside()
    ground.gate.has_read(decided.watched)
    waiting = ground.entering()
    ground.now_ns = PATIENCE_NS
    ground.gate.look()
    assert waiting.entered
    assert [decided.call.is_cancelled, slow.call.is_cancelled] == [False, True]


def test_a_call_that_ends_while_it_waits_is_forgotten(ground: Ground) -> None:
    first, _ = ground.inside()
    gone, stays = (ground.entering() for _ in range(2))
    ground.gate.leave(gone.watched)
    ground.gate.leave(first.watched)
    assert stays.entered


def test_leaving_twice_makes_room_once(ground: Ground) -> None:
    first, _ = ground.inside()
    waiting = [ground.entering() for _ in range(2)]
    ground.gate.leave(first.watched)
    ground.gate.leave(first.watched)
    assert waiting[0].entered
    assert waiting[1].entered is None


def test_each_peer_without_a_call_inside_gets_one_of_the_heaviest(ground: Ground) -> None:
    ground.gate = CallGate(
        opening_max=4, waiting_max=9, patience_ns=PATIENCE_NS, turn_ns=TURN_NS, now_ns=lambda: ground.now_ns
    )
    inside = [ground.entering("a") for _ in range(4)]
    assert all(one.entered for one in inside)
    waiting = [ground.entering(peer) for peer in ("b", "b", "c", "d", "e")]
    ground.now_ns = TURN_NS
    ground.gate.look()
    assert [waiting[number].entered for number in (0, 2, 3)] == [True] * 3
    assert [waiting[number].entered for number in (1, 4)] == [None] * 2
    assert [one.call.is_cancelled for one in inside] == [True] * 3 + [False], "it keeps one"
