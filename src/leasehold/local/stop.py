"""SIGINT and SIGTERM as something that a command waits for, so that it can end what it has started."""

import os
import select
import signal

from leasehold.limits.units import SECOND_NS

STOPPING = (signal.SIGINT, signal.SIGTERM)


class ToldToStop(Exception):
    """A signal came; the command ends in order."""


class StopSignals:
    """From here to the end of the process both signals only wake whoever waits here; a second one hurries nothing.

    Libraries start threads as soon as they are imported, and the kernel hands a signal that this thread blocks to one
    of those. So nothing is blocked: whichever thread is interrupted writes a byte to a pipe, and that is waited for.
    """

    def __init__(self) -> None:
        self._told, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in STOPPING:
            signal.signal(number, lambda *_: None)

    def pause(self, duration_ns: int) -> None:
        """Waits so long. Raises `ToldToStop` once there was a signal."""
        if select.select([self._told], [], [], duration_ns / SECOND_NS)[0]:
            raise ToldToStop

    def wait(self) -> None:
        """Returns once there was a signal."""
        select.select([self._told], [], [])
