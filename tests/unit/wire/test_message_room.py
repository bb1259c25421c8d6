"""Messages that a server holds: so many bytes of all callers, and of each one."""

from typing import Any

import pytest
from tests.unit.wire.gated_call import unforeseen

from leasehold.wire.call_watch import CallWatch, WatchedCall
from leasehold.wire.message_room import MessageRoom


class Silent:
    """A call of gRPC to which nothing happens."""

    def cancel(self) -> None: ...

    def add_callback(self, _: Any) -> bool:
        return True


@pytest.fixture
def held() -> MessageRoom:
    return MessageRoom(bytes_max=100, of_one_max=40, small_bytes=5)


def calls(count: int) -> list[WatchedCall]:
    watch = CallWatch(unforeseen)
    watch.close()
    return [WatchedCall(Silent(), watch) for _ in range(count)]


def test_a_caller_has_room_for_so_much_and_all_for_more(held: MessageRoom) -> None:
    one, two, three, four, five = calls(5)
    assert held.hold(one, "ann", 30)
    assert not held.hold(two, "ann", 11), "of one caller"
    assert held.hold(two, "ann", 10)
    assert held.hold(three, "bob", 40)
    assert not held.hold(four, "eve", 21), "of all"
    assert held.hold(four, "eve", 20)
    held.drop(one)
    held.drop(one)
    assert held.hold(five, "eve", 20)
    assert not held.hold(one, "eve", 6)


def test_small_ones_are_not_counted_and_a_single_large_one_has_room(held: MessageRoom) -> None:
    one, two, *others = calls(30)
    assert held.hold(one, "ann", 1_000)
    assert not held.hold(two, "bob", 6)
    assert all(held.hold(other, "ann", 5) for other in others)
    for other in others:
        held.drop(other)
    held.drop(one)
    assert held.hold(two, "bob", 6)
