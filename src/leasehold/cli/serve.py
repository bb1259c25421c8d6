"""What the long-running processes have in common: how they run, and how they end."""

import asyncio
import logging
import signal
import sys
from collections.abc import Coroutine
from typing import Any, NoReturn

import uvloop

from leasehold.errors import gravest
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.gossip import Gossip
from leasehold.wire.repeated_lines import RepeatedLines


async def leave_beside(gossip: Gossip | None, end: Coroutine[Any, Any, None]) -> None:
    """Ends in order, and tells the others meanwhile: what people see, not what leases go by."""
    async with asyncio.TaskGroup() as ending:
        ending.create_task(end)
        if gossip is not None:
            ending.create_task(gossip.leave())


def report_callbacks(faults: "asyncio.Queue[BaseException]") -> None:
    """A timer that fails would otherwise leave a line in the log and a process that waits for ever."""

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        fault = context.get("exception")
        if "handle" in context and isinstance(fault, BaseException):
            faults.put_nowait(fault)
        else:
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(handle)


class Stop(Exception):
    """We were told to stop, in order."""


SWITCH_INTERVAL_S = 0.0005
"""A thread that waits for the interpreter gets it after this long: the default, ten times that, is longer than a whole
schema change takes, which needs the event loop and the database's thread in turn."""


def run(process: Coroutine[Any, Any, None]) -> None:
    """Runs a process until it raises `Stop`. Raises the gravest of what else ended it."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    lines = logging.StreamHandler(sys.stderr)
    lines.addFilter(RepeatedLines(BoottimeClock().now_ns))
    logging.basicConfig(handlers=[lines], level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    try:
        uvloop.run(process)
    except BaseExceptionGroup as errors:
        gravest_error = gravest(errors)
        if not isinstance(gravest_error, Stop):
            raise gravest_error from errors


async def until_told_to_stop() -> None:
    """Returns at SIGTERM or SIGINT."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    await told.wait()


async def fail_on(faults: "asyncio.Queue[BaseException]") -> NoReturn:
    """What a handler did not expect ends the process: it restarts from what is durable."""
    raise await faults.get()
