"""How the long-running processes run, and how they end."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NoReturn

import uvloop

from leasehold.cli.notify_socket import NotifySocket
from leasehold.cli.rotation import Rotation
from leasehold.cli.supervised import SupervisorChannel
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, gravest
from leasehold.limits.processes import DIRECTORY_LOOK_NS
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.gossip import Gossip
from leasehold.wire.log_file import BoundedLog
from leasehold.wire.log_lines import OneLine
from leasehold.wire.repeated_lines import RepeatedLines

log = logging.getLogger(__name__)


def report_callbacks(faults: "asyncio.Queue[BaseException]") -> None:
    """Puts what a timer raises into `faults`. asyncio would only log it, and the process would wait for ever."""

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        fault = context.get("exception")
        if "handle" in context and isinstance(fault, BaseException):
            faults.put_nowait(fault)
        else:
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(handle)


class Stop(Exception):
    """A signal asked the process to stop."""


SWITCH_INTERVAL_S = 0.0005
"""How long a thread waits for the interpreter. The default is ten times that: longer than a whole schema change, which
needs the event loop and the database's thread in turn."""


def run(process: Coroutine[Any, Any, None], channel: SupervisorChannel | None, systemd: NotifySocket) -> None:
    """Runs a process until it raises `Stop`, as also when the supervisor at the other end of `channel` is gone. Raises
    the gravest of any other errors that ended it."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until `serve_until_stopped` takes it
    lines = BoundedLog(sys.stderr)
    lines.addFilter(RepeatedLines(BoottimeClock().now_ns))
    lines.setFormatter(OneLine("%(asctime)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[lines], level=logging.INFO)
    try:
        uvloop.run(_supervised(process, channel, systemd))
    except BaseExceptionGroup as errors:
        gravest_error = gravest(errors)
        if not isinstance(gravest_error, Stop):
            raise gravest_error from errors


async def _supervised(
    process: Coroutine[Any, Any, None], channel: SupervisorChannel | None, systemd: NotifySocket
) -> None:
    loop = asyncio.get_running_loop()
    if channel is not None:
        loop.add_reader(channel, channel.on_readable)
    systemd.feed(loop)
    await process


async def serve_until_stopped(
    group: asyncio.TaskGroup,
    gossip: Gossip | None,
    faults: "asyncio.Queue[BaseException]",
    end: Callable[[], Coroutine[Any, Any, None]],
    *,
    lock: Path,
    systemd: NotifySocket,
    rotation: Rotation,
) -> NoReturn:
    """Runs gossip beside the tasks of `group` until SIGTERM or SIGINT; then leaves it, while `end` runs. Raises `Stop`.
    `systemd` hears both: that the process serves, and that it stops. At SIGHUP `rotation` looks at once.

    An unexpected error in `faults` ends the process, which restarts from what is durable. So does the loss of `lock`,
    the lock file of its directory.
    """
    group.create_task(_fail_on(faults))
    group.create_task(fail_without(lock))
    if gossip is not None:
        group.create_task(gossip.run())
    rotation.start(group)
    told = asyncio.Event()

    def stop(number: signal.Signals) -> None:
        log.info("stopping, as told by %s", number.name)
        told.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    loop.add_signal_handler(signal.SIGHUP, rotation.look)
    systemd.ready()
    await told.wait()
    systemd.stopping()
    async with asyncio.TaskGroup() as ending:
        ending.create_task(end())
        if gossip is not None:
            ending.create_task(gossip.leave())
    raise Stop


async def _fail_on(faults: "asyncio.Queue[BaseException]") -> NoReturn:
    raise await faults.get()


async def fail_without(lock: Path) -> NoReturn:
    """Raises `BadDirectory` once `lock` is deleted or replaced.

    A process whose files are deleted could write to them on and on: what it calls durable would end with it.
    """
    clock, first = BoottimeClock(), _identity(lock)
    while first is not None and _identity(lock) in (first, UNSEEN):
        await clock.sleep_until(clock.now_ns() + DIRECTORY_LOOK_NS)
    raise BadDirectory(
        f"{lock.parent} was deleted or replaced while this process used it",
        code=ErrorCode.DIRECTORY_GONE,
        hint="start the process again; it begins with what is in the directory now",
    )


UNSEEN = (0, 0)


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file has this name; None if there is none, UNSEEN if that can't be found out now."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return UNSEEN
    return found.st_dev, found.st_ino
