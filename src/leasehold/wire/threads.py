"""Real threads: for what computes for long, and for the calls of a server."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

from leasehold.limits.flight import FLIGHT_SHUTDOWN_NS
from leasehold.limits.units import SECOND_NS

T = TypeVar("T")


class OneThread:
    """Implements `wire.ports.Threads`. One, since Python runs one at a time: several would take turns with the event
    loop, and each would make it wait the longer."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="computing")

    async def run(self, compute: Callable[[], T]) -> T:
        """What `compute` answers or raises; those asked for before come first."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, compute)


class ServingThreads(Executor):
    """A pool whose threads end with the process, unlike those of the standard library, which it waits for at its end:
    a call that hangs must not keep a node from stopping."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Runs `fn` on a thread that waits for work, or on a new one."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 it belongs to whoever asks for the result
                future.set_exception(error)

        self._work.put(run)
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._most:
            thread = threading.Thread(target=self._run, name=f"serving {len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def close(self) -> None:
        """Ends the threads that have no work; waits for others at most FLIGHT_SHUTDOWN_NS in all."""
        for _ in self._threads:
            self._work.put(None)
        ended = threading.Event()

        def join() -> None:
            for thread in self._threads:
                thread.join()
            ended.set()

        threading.Thread(target=join, name="serving ends", daemon=True).start()
        ended.wait(FLIGHT_SHUTDOWN_NS / SECOND_NS)

    def _run(self) -> None:
        while (run := self._work.get()) is not None:
            run()
            del run
            self._idle.release()
