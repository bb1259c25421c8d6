"""Calls that give way to others while a server has many, and the thread that looks for them."""

import threading
from collections.abc import Iterable

from tests.unit.wire.gated_call import unforeseen
from tests.unit.wire.test_message_room import Silent

from leasehold.wire.call_watch import CallWatch, WatchedCall, displaced


def call(caller: str, since_ns: int | None) -> WatchedCall:
    watch = CallWatch(unforeseen)
    watch.close()
    made = WatchedCall(Silent(), watch)
    made.caller, made.idle_since_ns = caller, since_ns
    return made


def named(calls: Iterable[WatchedCall]) -> list[tuple[str, int | None]]:
    return [(one.caller, one.idle_since_ns) for one in calls]


def test_nobody_gives_way_while_there_is_room() -> None:
    assert displaced([call("eve", 1) for _ in range(3)], 3, 100) == []


def test_the_longest_silent_calls_of_the_caller_with_most_give_way() -> None:
    calls = [call("ann", 1), *(call("eve", since) for since in (7, 3, 5, 200)), call("eve", None)]
    assert named(displaced(calls, 5, 100)) == [("eve", 3)]
    assert named(displaced(calls, 3, 100)) == [("eve", 3), ("eve", 5), ("eve", 7)]
    assert named(displaced(calls, 0, 100)) == [("eve", 3), ("eve", 5), ("eve", 7), ("ann", 1)], "who is busy stays"


def test_a_look_that_fails_is_told_and_the_others_go_on() -> None:
    faults: list[BaseException] = []
    looked = [threading.Event(), threading.Event()]
    watch = CallWatch(faults.append)

    def fails() -> None:
        raise ZeroDivisionError

    def looks() -> None:
        looked[looked[0].is_set()].set()

    watch.also(fails)
    watch.also(looks)
    assert looked[1].wait(20), "again and again"
    watch.close()
    assert {type(one) for one in faults} == {ZeroDivisionError}
