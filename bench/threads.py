"""Threads with one owner: it waits for all of them, and a thread that fails ends what the owner does."""

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

JOIN_SECONDS = 60.0


class ThreadFailed(Exception):
    """Raised in the owner while it waits for something else; the cause is what the thread raised."""


class Threads:
    """A context manager of threads, for the main thread. `over` tells them to end; the block sets it when it ends.

    If a thread fails, the block is interrupted wherever it is, in a blocking call too, and raises `ThreadFailed`. The
    block fails as well if a thread has not ended JOIN_SECONDS after `over` was set.
    """

    def __init__(self) -> None:
        self.over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []
        self._inside = False

    def __enter__(self) -> Self:
        assert threading.current_thread() is threading.main_thread(), "only the main thread can be interrupted"
        self._before = signal.signal(signal.SIGUSR1, self._interrupt)
        self._inside = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._inside = False
        self.over.set()
        late = self.join_all()
        signal.signal(signal.SIGUSR1, self._before)
        if self._failures:
            raise ThreadFailed(f"a thread failed: {self._failures[0]!r}") from self._failures[0]
        if error is None and late:
            raise ThreadFailed(f"{', '.join(late)} did not end within {JOIN_SECONDS:.0f} s")

    def start(self, work: Callable[[], object]) -> None:
        """Starts a thread that runs `work`."""
        thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def join_all(self) -> list[str]:
        """Waits until all threads have ended, once `over` is set no longer than JOIN_SECONDS each; names of the others.

        For threads that end by themselves it can be called before.
        """
        for thread in self._threads:
            while thread.is_alive() and not self.over.is_set():
                thread.join(1.0)
            thread.join(JOIN_SECONDS)
        return [thread.name for thread in self._threads if thread.is_alive()]

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as failure:  # noqa: BLE001 - whatever it is, the owner raises it
            self._failures.append(failure)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._inside and self._failures:
            self._inside = False
            raise ThreadFailed
