"""A virtual-time event loop: asyncio without I/O and threads, the same from the same seed.

When nothing is ready, time jumps to the next timer; with no timer either, nothing can ever happen again and the run
ends with `Deadlock`. What makes two runs equal, beyond the seed:

- tasks and futures hash by the order of their making, not by address, so that sets of them have one order;
- the cyclic garbage collector runs at fixed steps, so that finalisers do;
- time is an integer of nanoseconds.
"""

import asyncio
import gc
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from random import Random  # noqa: TID251 the simulator's randomness starts here, from one seed
from typing import Any, Final, NoReturn, TypeVar

from leasehold.limits import SECOND_NS

T = TypeVar("T")

COLLECT_EVERY_STEPS: Final = 50_000
TIMERS_CANCELLED_MAX: Final = 256
"""So many cancelled timers may wait among the others before they are swept, if they are the most."""
STEPS_WITHOUT_TIME_MAX: Final = 1_000_000
"""So many passes of the loop at one instant mean that the program turns in a circle."""


class Deadlock(AssertionError):
    """Nothing is ready and no timer runs: the program waits for ever."""


class Livelock(AssertionError):
    """The program runs on and on without time passing."""


class Unhandled(AssertionError):
    """An error that no one awaited: of a callback, or of a task that was dropped."""


class _Numbered:
    """A hash that is the same in every process. (Equality stays identity.)"""

    _number: int

    def __hash__(self) -> int:
        return self._number


class _NumberedFuture(_Numbered, asyncio.Future[Any]):
    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)


class _NumberedTask(_Numbered, asyncio.Task[Any]):
    # The parent's constructor puts the task into sets, so its number comes first.
    def __init__(
        self, number: int, coro: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop, **how: Any
    ) -> None:
        self._number = number
        super().__init__(coro, loop=loop, **how)


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop. With a `shuffle`, tasks that are ready in the same pass run in an order drawn from it."""

    def __init__(self, *, shuffle: Random | None = None) -> None:
        super().__init__()
        self._virtual_ns = 0
        self._numbers = itertools.count(1)
        self._shuffle = shuffle
        self._steps = 0
        self._steps_here = 0
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        """A heap by instant, then by the order of their making."""
        self._timers_cancelled = 0
        self.unhandled: list[dict[str, Any]] = []
        """What the loop was told of errors that no one awaited, oldest first."""
        self.on_pass: Callable[[], None] | None = None
        """Called after each pass; what it raises ends the run."""
        self.set_exception_handler(lambda _loop, context: self.unhandled.append(context))
        self.set_task_factory(self._make_task)

    def now_ns(self) -> int:
        """Virtual time since the loop was made."""
        return self._virtual_ns

    def time(self) -> float:
        """The same in seconds, as asyncio wants it."""
        return self._virtual_ns / SECOND_NS

    def count_anew(self) -> None:
        """Forgets how many passes were made at this instant."""
        self._steps_here = 0

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        """As asyncio's."""
        # At least one from now on, since a time given as a float may lie between two nanoseconds.
        when_ns = round(when * SECOND_NS)
        if when > self.time():
            when_ns = max(when_ns, self._virtual_ns + 1)
        return self._schedule(when_ns, asyncio.TimerHandle(when, callback, args, self, context))

    def call_at_ns(self, when_ns: int, callback: Callable[[], object]) -> asyncio.TimerHandle:
        """Like `call_at`, in nanoseconds."""
        return self._schedule(when_ns, asyncio.TimerHandle(when_ns / SECOND_NS, callback, (), self))

    def _schedule(self, when_ns: int, timer: asyncio.TimerHandle) -> asyncio.TimerHandle:
        heapq.heappush(self._timers, (when_ns, next(self._numbers), timer))
        timer._scheduled = True  # pyright: ignore[reportAttributeAccessIssue] so that a cancel is told of
        return timer

    def _timer_handle_cancelled(self, _handle: asyncio.TimerHandle) -> None:
        self._timers_cancelled += 1
        if self._timers_cancelled > TIMERS_CANCELLED_MAX and self._timers_cancelled * 2 > len(self._timers):
            self._timers = [one for one in self._timers if not one[2].cancelled()]
            heapq.heapify(self._timers)
            self._timers_cancelled = 0

    def create_future(self) -> asyncio.Future[Any]:
        """A future with a number of its own."""
        return _NumberedFuture(next(self._numbers), self)

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        """There is one thread, so this is `call_soon`."""
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> NoReturn:  # noqa: ARG002 asyncio's signature
        """Refused: a thread would make the run depend on the machine."""
        raise AssertionError(f"no threads in virtual time: {func!r} belongs behind a port")

    def _make_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **how: Any) -> asyncio.Task[Any]:
        number = next(self._numbers)
        task = _NumberedTask(number, coro, loop, **how)
        if not how.get("name"):
            task.set_name(f"task-{number}")
        return task

    def _run_once(self) -> None:
        self._steps += 1
        self._steps_here += 1
        if self._steps_here > STEPS_WITHOUT_TIME_MAX:
            raise Livelock(f"{self._steps_here} passes at {self._virtual_ns} ns without time passing")
        if self._steps % COLLECT_EVERY_STEPS == 0:
            gc.collect()
        ready: deque[Any] = self._ready  # pyright: ignore[reportAttributeAccessIssue] asyncio's queue of handles
        if not ready and not self._stopping:  # pyright: ignore[reportAttributeAccessIssue] set by `stop`
            self._jump()
        now_ns, timers = self._virtual_ns, self._timers
        while timers and timers[0][0] <= now_ns:
            timer = heapq.heappop(timers)[2]
            if timer.cancelled():
                self._timers_cancelled -= 1
                continue
            timer._scheduled = False  # pyright: ignore[reportAttributeAccessIssue] as above
            ready.append(timer)
        if self._shuffle is not None and len(ready) > 1:
            _shuffle_tasks(ready, self._shuffle)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()
        if self.on_pass is not None:
            look, self.on_pass = self.on_pass, None  # what it raises ends the run, and is not raised again
            look()
            self.on_pass = look

    def _jump(self) -> None:
        """To the first timer that still runs."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
            self._timers_cancelled -= 1
        if not timers:
            raise Deadlock(f"at {self._virtual_ns} ns nothing is ready and no timer runs")
        if timers[0][0] > self._virtual_ns:
            self._virtual_ns = timers[0][0]
            self._steps_here = 0

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list, "there is no I/O"

    def _write_to_self(self) -> None:
        """Would wake a selector; there is none."""


def _shuffle_tasks(ready: deque[Any], shuffle: Random) -> None:
    # Only steps of tasks change places among themselves. A task has at most one, so its own order is kept, and plain
    # callbacks keep the order that asyncio promises.
    places = [at for at, handle in enumerate(ready) if _is_step(handle)]
    if len(places) > 1:
        handles = [ready[at] for at in places]
        shuffle.shuffle(handles)
        for at, handle in zip(places, handles, strict=True):
            ready[at] = handle


def _is_step(handle: Any) -> bool:
    callback = getattr(handle, "_callback", None)
    return isinstance(getattr(callback, "__self__", None), asyncio.Task)


def run_virtual(main: Callable[[Random], Coroutine[Any, Any, T]], seed: int, *, shuffle: bool = False) -> T:
    """Runs `main(random)` to its end on a new `VirtualLoop`; `random`, and with `shuffle` the order of tasks that are
    ready together, come from `seed`.

    Raises what `main` raises, `Deadlock`, `Livelock`, and `Unhandled` where an error was left that no one awaited.
    """
    random = Random(seed)  # noqa: S311 not for secrets: a seed has to give the same run again
    loop = VirtualLoop(shuffle=Random(random.getrandbits(64)) if shuffle else None)  # noqa: S311 as above
    collects = gc.isenabled()
    gc.disable()
    gc.freeze()  # what was there before is no part of the run, and need not be looked at again and again
    try:
        return _run_to_end(loop, main(random))
    finally:
        gc.unfreeze()
        if collects:
            gc.enable()


def _run_to_end(loop: VirtualLoop, coro: Coroutine[Any, Any, T]) -> T:
    asyncio.set_event_loop(loop)
    try:
        try:
            result = loop.run_until_complete(coro)
        finally:
            _cancel_all(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
        # A dropped task tells of its error when it is collected.
        gc.collect()
        if loop.unhandled:
            context = loop.unhandled[0]
            raise Unhandled(context["message"]) from context.get("exception")
        return result
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _cancel_all(loop: VirtualLoop) -> None:
    """Cancels what still runs and lets it end, in the order of making."""
    loop.count_anew()
    tasks = sorted(asyncio.all_tasks(loop), key=hash)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks))
