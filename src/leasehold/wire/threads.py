"""Real threads, for long computations and for the calls of a server."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

from leasehold.limits.flight import FLIGHT_CALLS_MAX, FLIGHT_SHUTDOWN_NS
from leasehold.limits.units import SECOND_NS

T = TypeVar("T")


class OneThread:
    """Implements `wire.ports.Threads`. One thread, since Python runs one at a time: with several the event loop would
    wait longer for its turn. Computations run in the order of the calls."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="computing")

    async def run(self, compute: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, compute)


class ServingThreads(Executor):
    """A pool of FLIGHT_CALLS_MAX threads, which end with the process. For those of the standard library a process waits
    at its end, but a call that hangs must not keep a node from stopping."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Runs `fn` on a thread that waits for work, or on a new one."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 it belongs to the caller of `result`
                future.set_exception(error)

        self._work.put(run)
        if not self._idle.acquire(blocking=False) and len(self._threads) < FLIGHT_CALLS_MAX:
            thread = threading.Thread(target=self._run, name=f"serving {len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def close(self) -> None:
        """Ends the threads once they have no work; waits for at most FLIGHT_SHUTDOWN_NS in all."""
        for _ in self._threads:
            self._work.put(None)

        def join_all() -> None:
            for thread in self._threads:
                thread.join()

        joining = threading.Thread(target=join_all, name="serving ends", daemon=True)
        joining.start()
        joining.join(FLIGHT_SHUTDOWN_NS / SECOND_NS)

    def _run(self) -> None:
        while (run := self._work.get()) is not None:
            run()
            del run
            self._idle.release()
