"""How the long-running processes run, and how they end."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import uvloop

from leasehold.errors import gravest
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.gossip import Gossip
from leasehold.wire.repeated_lines import RepeatedLines


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


def run(process: Coroutine[Any, Any, None]) -> None:
    """Runs a process until it raises `Stop`. Raises the gravest of any other errors that ended it."""
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


async def serve_until_stopped(
    group: asyncio.TaskGroup,
    gossip: Gossip | None,
    faults: "asyncio.Queue[BaseException]",
    end: Callable[[], Coroutine[Any, Any, None]],
) -> NoReturn:
    """Runs gossip beside the tasks of `group` until SIGTERM or SIGINT; then leaves it, while `end` runs. Raises `Stop`.

    An unexpected error in `faults` ends the process, which restarts from what is durable.
    """
    group.create_task(_fail_on(faults))
    if gossip is not None:
        group.create_task(gossip.run())
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    await told.wait()
    async with asyncio.TaskGroup() as ending:
        ending.create_task(end())
        if gossip is not None:
            ending.create_task(gossip.leave())
    raise Stop


async def _fail_on(faults: "asyncio.Queue[BaseException]") -> NoReturn:
    raise await faults.get()
