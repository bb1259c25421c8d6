"""SIGINT and SIGTERM as events that a command waits for, so that it can stop what it has started."""

import os
import select
import signal

from leasehold.limits.units import SECOND_NS

STOPPING = (signal.SIGINT, signal.SIGTERM)


class ToldToStop(Exception):
    """A signal has arrived; the command ends in order."""


class StopSignals:
    """From here to the end of the process both signals only wake `pause` and `wait`.

    No signal is blocked in this thread: the kernel would deliver it to a thread that a library has started. Whichever
    thread is interrupted writes a byte to a pipe instead.
    """

    def __init__(self) -> None:
        self._told, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in STOPPING:
            signal.signal(number, lambda *_: None)

    def pause(self, duration_ns: int) -> None:
        """Waits. Raises `ToldToStop` if a signal arrives, or has arrived."""
        if select.select([self._told], [], [], duration_ns / SECOND_NS)[0]:
            raise ToldToStop

    def wait(self) -> None:
        """Returns once a signal has arrived."""
        select.select([self._told], [], [])
