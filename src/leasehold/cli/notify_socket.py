"""What a node or a coordinator tells systemd (sd_notify(3)): it serves, its event loop runs, it stops.

| the process | sends | when |
| --- | --- | --- |
| starts | `WATCHDOG=1`, `EXTEND_TIMEOUT_USEC=` | twice in the interval of the watchdog: a long start is no timeout |
| serves | `READY=1` | once it listens, and its address is written down |
| runs | `WATCHDOG=1` | twice in the interval of the watchdog, by a timer of the event loop |
| stops | `STOPPING=1` | at SIGTERM or SIGINT |

A loop that hangs sends nothing, so systemd ends the process and starts it again. Each message is one datagram to the
socket that NOTIFY_SOCKET names. The supervisor passes the variables on and sends nothing, because it would feed the
watchdog for a process that hangs. For systemd it is the main process, so WATCHDOG_PID may name it.
"""

import asyncio
import contextlib
import os
import socket
from typing import Final, Self

from leasehold.limits.processes import WATCHDOG_FEEDS, WATCHDOG_USEC_MAX

SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"
WATCHDOG_VARIABLE: Final = "WATCHDOG_USEC"
WATCHED_PROCESS_VARIABLE: Final = "WATCHDOG_PID"


class NotifySocket:
    """The way to systemd; where it did not start this process, nothing is sent."""

    def __init__(self, address: str, watchdog_usec: int) -> None:
        """`@` at the beginning of an address stands for an abstract name of Linux. An interval of 0 is no watchdog."""
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._watchdog_usec = watchdog_usec
        self._serves = False

    @classmethod
    def of_this_process(cls) -> Self:
        """That of the environment, which loses the variables: they are meant for nothing that this process starts."""
        address, interval, process = (
            os.environ.pop(name, "") for name in (SOCKET_VARIABLE, WATCHDOG_VARIABLE, WATCHED_PROCESS_VARIABLE)
        )
        is_ours = process in {"", str(os.getpid()), str(os.getppid())}
        is_valid = interval.isascii() and interval.isdecimal() and len(interval) <= len(str(WATCHDOG_USEC_MAX))
        return cls(address if address.startswith(("/", "@")) else "", int(interval) if is_ours and is_valid else 0)

    def feed(self, loop: asyncio.AbstractEventLoop) -> None:
        """Feeds the watchdog now, and goes on for as long as the loop runs."""
        if not self._address or self._watchdog_usec == 0:
            return
        more = "" if self._serves else f"\nEXTEND_TIMEOUT_USEC={self._watchdog_usec}"
        self._send(f"WATCHDOG=1{more}")
        loop.call_later(self._watchdog_usec / 1_000_000 / WATCHDOG_FEEDS, self.feed, loop)

    def ready(self) -> None:
        """The process serves. Only the first call sends something."""
        if not self._serves:
            self._serves = True
            self._send("READY=1")

    def stopping(self) -> None:
        """A signal has asked the process to stop."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        # systemd may start anew, or not read for long: the loop waits for nobody.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
            one.setblocking(False)
            one.sendto(message.encode(), self._address)
