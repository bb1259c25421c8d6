"""Holding Spark's tasks until something has happened to the cluster that they work on."""

import threading
from collections.abc import Callable
from pathlib import Path

from leasehold.wire.clock import sleep_ns
from tests.e2e.waiting import wait_until

HELD_SECONDS = 200
"""By when the first tasks run and it has happened, also on a busy machine. Tasks go on after that in any case: they
would hold the places of all later tests."""


def until_there(path: Path) -> Callable[[], None]:
    """What a task calls to wait for a file. It travels whole: tasks can import the product, but not the tests."""

    def wait() -> None:
        for _ in range(HELD_SECONDS * 50):
            if path.exists():
                return
            sleep_ns(20_000_000)

    return wait


def once(holds: Callable[[], bool], act: Callable[[], object], done: Path) -> threading.Thread:
    """A thread that acts once this holds, and then makes the file `done`, also if it failed."""

    def run() -> None:
        try:
            wait_until(holds, seconds=HELD_SECONDS)
            act()
        finally:
            done.touch()

    thread = threading.Thread(target=run)
    thread.start()
    return thread
