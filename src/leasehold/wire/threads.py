"""Real threads, for long computations and for the calls of a server."""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

from leasehold.limits.flight import FLIGHT_CALLS_MAX, FLIGHT_SHUTDOWN_NS, FLIGHT_THREAD_IDLE_NS
from leasehold.limits.units import SECOND_NS

T = TypeVar("T")
_Work: TypeAlias = Callable[[], None]
_Inbox: TypeAlias = "queue.SimpleQueue[_Work | None]"
"""Of one thread: its next work, or None at its end."""


class OneThread:
    """Implements `wire.ports.Threads`. Computations run in the order of the calls. A process has few of these: Python
    runs one thread at a time, and the event loop waits for all of them."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="computing")

    async def run(self, compute: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, compute)


class ServingThreads(Executor):
    """A pool of FLIGHT_CALLS_MAX threads, which end with the process. For those of the standard library a process waits
    at its end, but a call that hangs must not keep a node from stopping.

    A thread keeps up to 300 KiB of what its calls have freed: its stack, and what the allocators keep for each thread.
    So work goes to the thread that has worked last, and a thread without work for `idle_ns` ends.
    """

    def __init__(self, *, idle_ns: int = FLIGHT_THREAD_IDLE_NS) -> None:
        self._idle_s = idle_ns / SECOND_NS
        self._lock = threading.Lock()
        self._work: deque[_Work] = deque()
        """That waits for a thread."""
        self._idle: list[_Inbox] = []
        """Of the threads without work."""
        self._threads: set[threading.Thread] = set()
        self._is_closed = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Runs `fn` on a thread that waits for work, or on a new one."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 it belongs to the caller of `result`
                future.set_exception(error)

        with self._lock:
            if self._idle:
                self._idle.pop().put(run)
            elif len(self._threads) < FLIGHT_CALLS_MAX:
                inbox: _Inbox = queue.SimpleQueue()
                inbox.put(run)
                thread = threading.Thread(target=self._run, args=[inbox], name="serving", daemon=True)
                thread.start()
                self._threads.add(thread)
            else:
                self._work.append(run)
        return future

    def close(self) -> None:
        """Ends the threads once they have no work; waits for at most FLIGHT_SHUTDOWN_NS in all."""
        with self._lock:
            self._is_closed = True
            for inbox in self._idle:
                inbox.put(None)
            self._idle.clear()
            threads = list(self._threads)

        def join_all() -> None:
            for thread in threads:
                thread.join()

        joining = threading.Thread(target=join_all, name="serving ends", daemon=True)
        joining.start()
        joining.join(FLIGHT_SHUTDOWN_NS / SECOND_NS)

    def _run(self, inbox: _Inbox) -> None:
        while (run := self._next(inbox)) is not None:
            run()
            del run
            with self._lock:
                if self._work:
                    inbox.put(self._work.popleft())
                elif self._is_closed:
                    inbox.put(None)
                else:
                    self._idle.append(inbox)

    def _next(self, inbox: _Inbox) -> _Work | None:
        try:
            return inbox.get(timeout=self._idle_s)
        except queue.Empty:
            with self._lock:
                if inbox in self._idle:
                    self._idle.remove(inbox)
                    self._threads.remove(threading.current_thread())
                    return None
            return inbox.get()  # it has come at the last moment
