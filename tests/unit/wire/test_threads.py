"""The port for what computes for long: the real one and the simulated one. And the threads of a node's calls."""

import threading
from collections.abc import Iterator

import pytest

from leasehold.errors import Refused
from leasehold.limits.flight import FLIGHT_CALLS_MAX
from leasehold.testing.threads import NoThreads
from leasehold.wire.ports import Threads
from leasehold.wire.threads import OneThread, ServingThreads


@pytest.mark.parametrize("threads", [OneThread(), NoThreads()], ids=["real", "simulated"])
async def test_what_is_computed_is_answered_or_raised(threads: Threads) -> None:
    def refuse() -> None:
        raise Refused("no")

    assert await threads.run(lambda: 1) == 1
    with pytest.raises(Refused, match="no"):
        await threads.run(refuse)


async def test_the_event_loop_is_left_alone() -> None:
    threads = OneThread()
    first, second = [await threads.run(threading.get_ident) for _ in range(2)]
    assert first == second
    assert first != threading.get_ident()


@pytest.fixture
def serving() -> Iterator[ServingThreads]:
    threads = ServingThreads()
    yield threads
    threads.close()


class Calls:
    """So many that are under way at once, until `end`."""

    def __init__(self, serving: ServingThreads, count: int) -> None:
        self._ends = [threading.Event() for _ in range(count)]
        self._futures = [serving.submit(self._wait, one) for one in self._ends]

    @staticmethod
    def _wait(end: threading.Event) -> int:
        end.wait()
        return threading.get_ident()

    def end(self) -> list[int]:
        """Ends them one after the other; which thread served each."""
        served: list[int] = []
        for end, future in zip(self._ends, self._futures, strict=True):
            end.set()
            served.append(future.result())
        return served


def serving_threads() -> set[threading.Thread]:
    """Of all servers: those of one that has stopped may not have ended yet."""
    return {one for one in threading.enumerate() if one.name == "serving"}


def test_each_call_has_a_thread(serving: ServingThreads) -> None:
    assert len(set(Calls(serving, 100).end())) == 100


def test_threads_without_work_end_after_a_time() -> None:
    serving = ServingThreads(idle_ns=1_000_000)
    before = serving_threads()
    calls = Calls(serving, 100)
    threads = serving_threads() - before
    assert len(threads) == 100
    calls.end()
    for one in threads:
        one.join(60)
    assert not any(one.is_alive() for one in threads)
    assert serving.submit(lambda: 1).result() == 1


def test_no_call_is_lost_to_a_thread_that_ends() -> None:
    serving = ServingThreads(idle_ns=1_000)
    for number in range(2_000):
        assert serving.submit(lambda answer=number: answer).result(60) == number


def test_the_thread_that_has_worked_last_works_next(serving: ServingThreads) -> None:
    Calls(serving, 100).end()
    served = {thread for _ in range(50) for thread in Calls(serving, 1).end()}
    assert len(served) < 10  # a thread that has answered may not be without work yet


def test_calls_beyond_the_threads_wait_for_one(serving: ServingThreads) -> None:
    before = serving_threads()
    calls = Calls(serving, FLIGHT_CALLS_MAX + 10)
    assert len(serving_threads() - before) == FLIGHT_CALLS_MAX
    assert len(set(calls.end())) == FLIGHT_CALLS_MAX


def test_an_error_belongs_to_its_call(serving: ServingThreads) -> None:
    def refuse() -> None:
        raise Refused("no")

    with pytest.raises(Refused, match="no"):
        serving.submit(refuse).result()
    assert serving.submit(lambda: 1).result() == 1


def test_threads_without_work_end_with_the_pool() -> None:
    serving = ServingThreads()
    served = serving.submit(threading.current_thread).result()
    serving.close()
    assert not served.is_alive()
