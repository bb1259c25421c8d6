"""The port for what computes for long: the real one and the simulated one."""

import threading

import pytest

from leasehold.errors import Refused
from leasehold.testing.threads import NoThreads
from leasehold.wire.ports import Threads
from leasehold.wire.threads import OneThread


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
