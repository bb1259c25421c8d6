"""Room in memory for scans: who waits, whose turn it is, who gives way."""

import threading
from collections.abc import Iterator

import pytest
from tests.unit.wire.gated_call import GatedCall, unforeseen

from leasehold.limits.units import MILLISECOND_NS
from leasehold.wire.call_watch import CallWatch, WatchedCall
from leasehold.wire.scan_room import ScanRoom

PATIENCE_NS = 10 * MILLISECOND_NS
TURN_NS = 2 * MILLISECOND_NS
WHOLE = 100


class Scan:
    """A scan that enters on a thread of its own."""

    def __init__(self, room: ScanRoom, watch: CallWatch, user: str, size: int) -> None:
        self.call = GatedCall()
        self.watched = WatchedCall(self.call, watch)
        self.entered: bool | None = None
        self._thread = threading.Thread(target=self._run, args=(room, user, size), daemon=True)
        self._thread.start()
        assert self.call.is_watched.wait(20)

    def ended(self) -> bool | None:
        self._thread.join(20)
        return self.entered

    def _run(self, room: ScanRoom, user: str, size: int) -> None:
        self.entered = room.enter(self.watched, user, size)


class Ground:
    def __init__(self) -> None:
        self.now_ns = 10 * PATIENCE_NS
        self.watch = CallWatch(unforeseen)
        self.room = ScanRoom(
            bytes_max=WHOLE, scans_max=4, patience_ns=PATIENCE_NS, turn_ns=TURN_NS, now_ns=lambda: self.now_ns
        )

    def scan(self, user: str = "ann", size: int = WHOLE) -> Scan:
        return Scan(self.room, self.watch, user, size)


@pytest.fixture
def ground() -> Iterator[Ground]:
    made = Ground()
    yield made
    made.watch.close()


def test_scans_enter_as_long_as_there_is_room(ground: Ground) -> None:
    first, second = ground.scan(size=60), ground.scan(size=40)
    assert first.ended()
    assert second.ended()
    third = ground.scan(size=1)
    assert third.entered is None
    assert not ground.room.leave(first.watched)
    assert third.ended()


def test_a_scan_larger_than_the_room_enters_alone(ground: Ground) -> None:
    large = ground.scan(size=10 * WHOLE)
    assert large.ended()
    small = ground.scan(size=1)
    assert small.entered is None
    ground.room.hold(large.watched, WHOLE - 1)
    assert small.ended()


def test_the_user_with_the_fewest_scans_inside_comes_first(ground: Ground) -> None:
    first, second = ground.scan("ann", 50), ground.scan("bob", 50)
    assert first.ended()
    assert second.ended()
    more, other = ground.scan("bob", 50), ground.scan("ann", 50)
    ground.room.leave(first.watched)
    assert other.ended()
    assert more.entered is None
    ground.room.leave(second.watched)
    assert more.ended()


def test_the_newest_scan_of_the_user_with_the_most_that_wait_gives_way(ground: Ground) -> None:
    assert ground.scan("ann").ended()
    waiting = [ground.scan("ann") for _ in range(3)]
    other = ground.scan("bob")
    assert waiting[-1].ended() is False
    assert [one.entered for one in (*waiting[:-1], other)] == [None] * 3


def test_a_scan_whose_client_takes_nothing_gives_way_to_one_that_waits(ground: Ground) -> None:
    silent = ground.scan()
    assert silent.ended()
    with silent.watched.idle():
        silent.watched.idle_since_ns = ground.now_ns - PATIENCE_NS
        waiting = ground.scan()
        ground.room.look()
        assert silent.call.is_cancelled
    assert waiting.entered is None, "its memory is not free yet"
    assert ground.room.leave(silent.watched), "it has given way"
    assert waiting.ended()


def test_no_more_scans_give_way_than_are_in_the_way(ground: Ground) -> None:
    older, newer = ground.scan(size=50), ground.scan(size=50)
    assert older.ended()
    assert newer.ended()
    with older.watched.idle(), newer.watched.idle():
        older.watched.idle_since_ns, newer.watched.idle_since_ns = 0, 1
        ground.room.look()
        assert not older.call.is_cancelled, "nobody waits"
        waiting = ground.scan(size=50)
        ground.room.look()
        assert older.call.is_cancelled
        ground.room.look()
        ground.room.leave(older.watched)
        assert waiting.ended()
    assert not newer.call.is_cancelled


def test_a_scan_that_takes_rows_keeps_its_room(ground: Ground) -> None:
    lively = ground.scan()
    assert lively.ended()
    waiting = ground.scan()
    with lively.watched.idle():
        lively.watched.idle_since_ns = ground.now_ns
        ground.room.look()
        waiting.call.end()
        assert waiting.ended() is False
    assert not lively.call.is_cancelled


@pytest.mark.parametrize(("user", "gives_way"), [("bob", True), ("ann", False)])
def test_one_of_several_scans_gives_way_soon_to_a_user_who_has_none(ground: Ground, user: str, gives_way: bool) -> None:
    """Users who began ever more scans that they did not read let the scan of another wait for a second each time."""
    older, newer = ground.scan(size=50), ground.scan(size=50)
    assert older.ended()
    assert newer.ended()
    with older.watched.idle(), newer.watched.idle():
        older.watched.idle_since_ns = newer.watched.idle_since_ns = ground.now_ns - TURN_NS
        waiting = ground.scan(user, size=WHOLE)
        ground.room.look()
        assert older.call.is_cancelled is gives_way
        assert not newer.call.is_cancelled, "it is the only one now"
        waiting.call.end()
        waiting.ended()
