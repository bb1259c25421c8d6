"""A virtual-time event loop: asyncio without I/O and threads, the same from the same seed.

When nothing is ready, time jumps to the next timer; with no timer either, nothing can ever happen again and the run
ends with `Deadlock`. What makes two runs equal, beyond the seed:

- tasks and futures hash by the order of their making, not by address, so that sets of them have one order;
- the cyclic garbage collector runs at fixed steps, so that finalisers do;
- time is an integer of nanoseconds.
"""

import asyncio
import contextlib
import gc
import heapq
import itertools
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from random import Random  # noqa: TID251 the simulator's randomness starts here, from one seed
from typing import Any, Final, NoReturn, TypeVar

from leasehold.limits.units import SECOND_NS

T = TypeVar("T")

COLLECT_EVERY_STEPS: Final = 50_000
TIMERS_CANCELLED_MAX: Final = 256
"""Cancelled timers are swept once there are more, if they are also more than half of all timers."""
TASKS_MADE_MAX: Final = 256
"""The loop forgets ended tasks once it remembers this many."""
STEPS_WITHOUT_TIME_MAX: Final = 1_000_000
"""More passes of the loop at one instant mean an endless loop of the program."""


class Deadlock(AssertionError):
    """Nothing is ready and no timer runs: the program waits for ever."""


class Livelock(AssertionError):
    """The program runs on and on without time passing."""


class Unhandled(AssertionError):
    """An error that no one awaited: of a callback, or of a task that was dropped."""


class _NumberedFuture(asyncio.Future[Any]):
    """Its hash is the same in every process: a number, drawn when it is first asked for. (Equality stays identity.)"""

    __slots__ = ("number",)
    number: int

    def __hash__(self) -> int:
        try:
            return self.number
        except AttributeError:
            self.number = _next_number(self)
            return self.number


class _NumberedTask(asyncio.Task[Any]):
    """As `_NumberedFuture`."""

    __slots__ = ("number",)
    number: int

    def __hash__(self) -> int:
        try:
            return self.number
        except AttributeError:
            self.number = _next_number(self)
            return self.number


def _next_number(future: asyncio.Future[Any]) -> int:
    loop = future.get_loop()
    assert isinstance(loop, VirtualLoop)
    return loop.next_number()


class _Call(list[Any]):
    """A handle of asyncio: a callback and its arguments, None once it is cancelled. A simulated second of a cluster has
    hundreds of them, so it is a list, which is made without a Python call."""

    __slots__ = ()

    def cancel(self) -> None:
        """Prevents the call, unless it has happened."""
        self[-2] = self[-1] = None

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self[-2] is None


class _Timer(_Call):
    """A `_Call` for later. In front are the instant, a number that orders timers of one instant by their making, and
    the loop while the timer waits there. So timers form a heap."""

    __slots__ = ()

    def cancel(self) -> None:
        """Prevents the call, unless it has happened."""
        loop, self[2] = self[2], None
        super().cancel()
        if loop is not None:
            loop.timer_cancelled()

    def when(self) -> float:
        """When it is called, in seconds."""
        return self[0] / SECOND_NS


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop. With a `shuffle`, tasks that are ready in the same pass run in an order drawn from it."""

    def __init__(self, *, shuffle: Random | None = None, steps_max: int = STEPS_WITHOUT_TIME_MAX) -> None:
        super().__init__()
        self._steps_max = steps_max
        self.virtual_ns = 0
        """As `now_ns()`, for code that reads it very often."""
        self._numbers = itertools.count(1)
        self._shuffle = shuffle
        self._steps = 0
        self._moved_at_step = 0
        """When time last passed."""
        self._timers: list[_Timer] = []
        """A heap by instant, then by the order of their making."""
        self._timers_cancelled = 0
        self.unhandled: list[dict[str, Any]] = []
        """What the loop was told of errors that no one awaited, oldest first."""
        self._after_pass: Callable[[], None] | None = None
        self._made: list[weakref.ref[asyncio.Task[Any]]] = []
        """The tasks of this loop that may still run, in the order of their making."""
        self._made_max = TASKS_MADE_MAX
        # Called for each new future and task.
        self.get_debug = bool  # pyright: ignore[reportAttributeAccessIssue] a false that costs no call of Python
        self.set_exception_handler(lambda _loop, context: self.unhandled.append(context))

    def now_ns(self) -> int:
        """Virtual time since the loop was made."""
        return self.virtual_ns

    def time(self) -> float:
        """The same in seconds, as asyncio wants it."""
        return self.virtual_ns / SECOND_NS

    def count_anew(self) -> None:
        """Forgets how many passes were made at this instant."""
        self._moved_at_step = self._steps

    def after_pass(self, look: Callable[[], None]) -> None:
        """Calls `look` once this pass is over, before anything else runs; what it raises ends the run."""
        assert self._after_pass is None or self._after_pass == look, "one may look"
        self._after_pass = look

    def next_number(self) -> int:
        """The next number, which is the same in every process."""
        return next(self._numbers)

    # There are no contexts: nothing that is simulated keeps anything in one.

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:  # noqa: ARG002 asyncio's signature
        if self._closed:  # pyright: ignore[reportAttributeAccessIssue] set by `close`
            raise RuntimeError("the loop is closed")
        handle = _Call((callback, args))
        self._ready.append(handle)  # pyright: ignore[reportAttributeAccessIssue] asyncio's queue of handles
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:  # noqa: ARG002 as above
        return self.call_at(self.time() + delay, callback, *args)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:  # noqa: ARG002 as above
        # At least one from now on, since a time given as a float may lie between two nanoseconds.
        when_ns = round(when * SECOND_NS)
        if when > self.time():
            when_ns = max(when_ns, self.virtual_ns + 1)
        timer = _Timer((when_ns, next(self._numbers), self, callback, args))
        heapq.heappush(self._timers, timer)
        return timer

    def call_at_ns(self, when_ns: int, callback: Callable[[], object]) -> Any:
        """Like `call_at`, in nanoseconds."""
        timer = _Timer((when_ns, next(self._numbers), self, callback, ()))
        heapq.heappush(self._timers, timer)
        return timer

    def timer_cancelled(self) -> None:
        """A timer that waits was cancelled: it is swept later."""
        self._timers_cancelled += 1
        if self._timers_cancelled > TIMERS_CANCELLED_MAX and self._timers_cancelled * 2 > len(self._timers):
            self._timers[:] = [one for one in self._timers if not one.cancelled()]
            heapq.heapify(self._timers)
            self._timers_cancelled = 0

    def left(self) -> list[asyncio.Task[Any]]:
        """The tasks that have not ended, in the order of their making."""
        tasks = (made() for made in self._made)
        return [task for task in tasks if task is not None and not task.done()]

    def create_future(self) -> asyncio.Future[Any]:
        """A future with a number of its own."""
        return _NumberedFuture(loop=self)

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
        """There is one thread, so this is `call_soon`."""
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> NoReturn:  # noqa: ARG002 asyncio's signature
        """Refused: a thread would make the run depend on the machine."""
        raise AssertionError(f"no threads in virtual time: {func!r} belongs behind a port")

    def create_task(self, coro: Any, *, name: object = None, context: Any = None) -> asyncio.Task[Any]:  # noqa: ARG002
        """A task with a number of its own."""
        task = _NumberedTask(coro, loop=self, name="task" if name is None else str(name))
        if len(self._made) >= self._made_max:
            self._made = [one for one in self._made if one() is not None]
            self._made_max = max(TASKS_MADE_MAX, 2 * len(self._made))
        self._made.append(weakref.ref(task))
        return task

    def _run_once(self) -> None:
        """Passes until the loop is told to stop: what asyncio would call for each."""
        ready: deque[Any] = self._ready  # pyright: ignore[reportAttributeAccessIssue] asyncio's queue of handles
        timers, shuffle, steps_max = self._timers, self._shuffle, self._steps_max
        while True:
            self._steps += 1
            if self._steps - self._moved_at_step > steps_max:
                raise Livelock(f"{steps_max} passes at {self.virtual_ns} ns without time passing")
            if self._steps % COLLECT_EVERY_STEPS == 0:
                gc.collect()
            if not ready and not self._stopping:  # pyright: ignore[reportAttributeAccessIssue] set by `stop`
                self._jump()
            now_ns = self.virtual_ns
            while timers and timers[0][0] <= now_ns:
                timer = heapq.heappop(timers)
                if timer[3] is None:
                    self._timers_cancelled -= 1
                    continue
                timer[2] = None  # its cancel is not told of any more
                ready.append(timer)
            due = len(ready)
            if due > 1 and shuffle is not None:
                _shuffle_tasks(ready, shuffle)
            for _ in range(due):
                handle = ready.popleft()
                callback = handle[-2]
                if callback is None:
                    continue
                try:
                    callback(*handle[-1])
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 as asyncio: what nobody catches is told
                    self.call_exception_handler({"message": f"{callback!r} failed", "exception": error})
            if self._after_pass is not None:
                look, self._after_pass = self._after_pass, None
                look()
            if self._stopping:  # pyright: ignore[reportAttributeAccessIssue] as above
                return

    def _jump(self) -> None:
        """To the first timer that still runs."""
        timers = self._timers
        while timers and timers[0][3] is None:
            heapq.heappop(timers)
            self._timers_cancelled -= 1
        if not timers:
            raise Deadlock(f"at {self.virtual_ns} ns nothing is ready and no timer runs")
        if timers[0][0] > self.virtual_ns:
            self.virtual_ns = timers[0][0]
            self._moved_at_step = self._steps

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list, "there is no I/O"

    def _write_to_self(self) -> None:
        """Would wake a selector; there is none."""


def _shuffle_tasks(ready: deque[Any], shuffle: Random) -> None:
    # Only steps of tasks change places among themselves. A task has at most one, so its own order is kept, and plain
    # callbacks keep the order that asyncio promises.
    places = [at for at, call in enumerate(ready) if type(getattr(call[-2], "__self__", None)) is _NumberedTask]
    if len(places) > 1:
        handles = [ready[at] for at in places]
        # Fisher and Yates; `Random.shuffle` calls two functions of Python for each place.
        draw = shuffle.random
        for last in range(len(handles) - 1, 0, -1):
            other = int(draw() * (last + 1))
            handles[last], handles[other] = handles[other], handles[last]
        for at, handle in zip(places, handles, strict=True):
            ready[at] = handle


def run_virtual(
    main: Callable[[Random], Coroutine[Any, Any, T]],
    seed: int,
    *,
    shuffle: bool = False,
    steps_max: int = STEPS_WITHOUT_TIME_MAX,
) -> T:
    """Runs `main(random)` to its end on a new `VirtualLoop`; `random`, and with `shuffle` the order of tasks that are
    ready together, come from `seed`.

    Raises what `main` raises, `Deadlock`, `Livelock` after `steps_max` passes at one instant, and `Unhandled` where an
    error was left that no one awaited.
    """
    random = Random(seed)  # noqa: S311 not for secrets: a seed has to give the same run again
    order = Random(random.getrandbits(64)) if shuffle else None  # noqa: S311 as above
    loop = VirtualLoop(shuffle=order, steps_max=steps_max)
    collects = gc.isenabled()
    gc.disable()
    gc.freeze()  # what was there before is no part of the run, and need not be looked at again and again
    try:
        with _unregistered():
            return _run_to_end(loop, main(random))
    finally:
        gc.unfreeze()
        if collects:
            gc.enable()


@contextlib.contextmanager
def _unregistered() -> Generator[None]:
    """asyncio's own set of tasks, for `asyncio.all_tasks`, is not told of those that are made meanwhile: it is written
    in Python, and costs more than a step of most tasks. The loop's list takes its place."""
    made: Any = getattr(asyncio.tasks, "_all_tasks", None)  # its name in Python 3.11
    if made is None:
        yield
        return
    made.add = lambda _task: None
    try:
        yield
    finally:
        del made.add


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
    tasks = loop.left()
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks))
