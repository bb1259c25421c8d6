"""The clock of one simulated machine: it drifts, differs from others, and jumps when the machine was suspended."""

import asyncio
from collections.abc import Callable
from typing import Final

from leasehold.testing.loop import VirtualLoop

MILLION: Final = 1_000_000

WALL_START_US = 1_577_836_800_000_000


class SimulatedTimer:
    """Implements `wire.ports.Timer`; it is armed again whenever its clock jumps or drifts differently."""

    def __init__(self, clock: "SimulatedClock", deadline_ns: int, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._deadline_ns = deadline_ns
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        """Takes the call back; harmless once it has run."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._clock.forget(self)

    def arm(self) -> None:
        """Asks the loop for the first instant at which the deadline may be reached."""
        self.disarm()
        self.rearm()

    def rearm(self) -> None:
        """As `arm`, if nothing is asked of the loop now."""
        self._handle = self._clock.call_when_due(self._deadline_ns, self._fire)

    def disarm(self) -> None:
        """Takes back what was asked of the loop."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        if self._clock.now_ns() < self._deadline_ns:
            self.rearm()
        else:
            self._clock.forget(self)
            self._callback()


class SimulatedClock:
    """Implements `wire.ports.Clock` on a virtual loop.

    `drift_ppm` parts in a million faster (or, negative, slower) than virtual time; `offset_ns` is its first reading.
    """

    def __init__(self, loop: VirtualLoop, *, drift_ppm: int = 0, offset_ns: int = 0) -> None:
        assert drift_ppm > -MILLION, "a clock never goes back"
        assert offset_ns >= 0, "a clock starts at 0 or later"
        self._loop = loop
        self._rate_ppm = MILLION + drift_ppm
        self._base_virtual_ns = loop.now_ns()
        self._base_local_ns = offset_ns
        self._paused = False
        self._timers: dict[SimulatedTimer, None] = {}
        self._beside: list[SimulatedClock] = []

    def beside(self) -> "SimulatedClock":
        """The clock of another process of the same machine: it reads the same, and is not paused with this one."""
        made = SimulatedClock(self._loop, drift_ppm=self._rate_ppm - MILLION, offset_ns=self.now_ns())
        self._beside.append(made)
        return made

    def now_ns(self) -> int:
        """The reading; goes on while paused."""
        passed_ns = self._loop.virtual_ns - self._base_virtual_ns
        return self._base_local_ns + passed_ns * self._rate_ppm // MILLION

    def real_ns(self, local_ns: int) -> int:
        """The first virtual instant at which it reads at least `local_ns`, if nothing changes from now on.

        A past reading is dated as if the clock had always run as it does now, but never in the future.
        """
        left_ns = local_ns - self._base_local_ns
        return self._base_virtual_ns - (-left_ns * MILLION // self._rate_ppm)

    def wall_us(self) -> int:
        """Counts from the start of 2020, with the same drift as the clock itself."""
        return WALL_START_US + self.now_ns() // 1000

    def call_at(self, deadline_ns: int, callback: Callable[[], None]) -> SimulatedTimer:
        """Calls back as soon as the reading reaches `deadline_ns`, by drift or by a jump; not while paused."""
        timer = SimulatedTimer(self, deadline_ns, callback)
        self._timers[timer] = None
        if not self._paused:
            timer.rearm()
        return timer

    async def sleep_until(self, deadline_ns: int) -> None:
        """Returns as soon as the reading reaches `deadline_ns`, by drift or by a jump; not while paused."""
        if not self._paused and self.now_ns() >= deadline_ns:
            return
        woken: asyncio.Future[None] = self._loop.create_future()
        timer = self.call_at(deadline_ns, lambda: None if woken.done() else woken.set_result(None))
        try:
            await woken
        except BaseException:
            timer.cancel()
            raise

    def jump(self, forward_ns: int) -> None:
        """Moves the reading forward at once, as a suspend does."""
        assert forward_ns >= 0, "a clock never goes back"
        self._rebase()
        self._base_local_ns += forward_ns
        self._arm_all()
        for other in self._beside:
            other.jump(forward_ns)

    def set_drift(self, drift_ppm: int) -> None:
        """Changes the rate from now on."""
        assert drift_ppm > -MILLION, "a clock never goes back"
        self._rebase()
        self._rate_ppm = MILLION + drift_ppm
        self._arm_all()
        for other in self._beside:
            other.set_drift(drift_ppm)

    def pause(self) -> None:
        """From now on no timer fires, while the reading goes on: a stopped process."""
        self._paused = True
        self._arm_all()

    def resume(self) -> None:
        """Timers whose deadline passed meanwhile fire now."""
        self._paused = False
        self._arm_all()

    # ------------------------------------------------------------ for its timers

    def call_when_due(self, local_ns: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Asks the loop for the first virtual instant at which the reading is at least `local_ns`."""
        # As `real_ns`, and no earlier than now.
        left_ns = local_ns - self._base_local_ns
        due_ns = self._base_virtual_ns - (-left_ns * MILLION // self._rate_ppm)
        now_ns = self._loop.virtual_ns
        return self._loop.call_at_ns(max(now_ns, due_ns), callback)

    def forget(self, timer: SimulatedTimer) -> None:
        """It has fired, or was taken back."""
        self._timers.pop(timer, None)

    def _rebase(self) -> None:
        # Rounds down, so the reading at this very instant does not change.
        self._base_local_ns = self.now_ns()
        self._base_virtual_ns = self._loop.now_ns()

    def _arm_all(self) -> None:
        for timer in self._timers:
            if self._paused:
                timer.disarm()
            else:
                timer.arm()
