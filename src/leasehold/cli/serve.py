"""The long-running processes: one coordinator, one node. Composed here from the runtimes and the real ports."""

import asyncio
import logging
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NoReturn

import uvloop

from leasehold.coordinator.runtime import Coordinator
from leasehold.errors import gravest
from leasehold.local.files import make_directory, write_address
from leasehold.metastorage.sqlite import SqliteMetaStorage
from leasehold.node.agent import Agent
from leasehold.node.published import Published
from leasehold.node.reconciler import Reconciler
from leasehold.node.segments import LocalDisk
from leasehold.node.serving import NodeFlight
from leasehold.storage.files import SegmentFiles
from leasehold.storage.servelog import ServeLog
from leasehold.vault.store import SqliteVault
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.passwords import Argon2Passwords
from leasehold.wire.rpc import GrpcTransport, serve
from leasehold.wire.threads import OneThread


def run_coordinator(directory: Path, listen: str) -> None:
    """Serves until SIGTERM or SIGINT. Raises `BadDirectory`, and what ended it, if something else did."""
    make_directory(directory)
    _run(_coordinator(directory, listen))


def run_node(directory: Path, *, name: str, listen: str, coordinators: tuple[str, ...]) -> None:
    """Serves until SIGTERM or SIGINT, then gives its lease back. Raises `BadDirectory`, and what ended it."""
    make_directory(directory)
    _run(_node(directory, name=name, listen=listen, coordinators=coordinators))


async def _coordinator(directory: Path, listen: str) -> None:
    storage = await SqliteMetaStorage.open(directory / "meta.db")
    faults: asyncio.Queue[BaseException] = asyncio.Queue()
    _report_callbacks(faults)
    try:
        coordinator = Coordinator(
            name=listen,
            storage=storage,
            clock=BoottimeClock(),
            passwords=Argon2Passwords(),
            entropy=SystemEntropy(),
            threads=OneThread(),
        )
        server = await serve(listen, coordinator, on_fault=faults.put_nowait)
        write_address(directory, server.address)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(coordinator.run())
                group.create_task(_fail_on(faults))
                await _until_told_to_stop()
                raise _Stop
        finally:
            await server.close()
    finally:
        await storage.close()


async def _node(directory: Path, *, name: str, listen: str, coordinators: tuple[str, ...]) -> None:
    faults: asyncio.Queue[BaseException] = asyncio.Queue()
    _report_callbacks(faults)
    vault = await SqliteVault.open(directory)
    clock = BoottimeClock()
    published = Published()
    files = SegmentFiles(directory)
    files.open()
    serve_log = ServeLog(directory / "servelog")
    flight = NodeFlight(published=published, files=files, serve_log=serve_log, now_ns=clock.now_ns, listen=listen)
    try:
        write_address(directory, flight.address)
        agent = Agent(
            name=name,
            address=flight.address,
            coordinators=coordinators,
            vault=vault,
            transport=GrpcTransport(),
            clock=clock,
            entropy=SystemEntropy(),
            published=published,
        )
        disk = LocalDisk(files, published)
        reconciler = Reconciler(
            agent=agent,
            published=published,
            disk=disk,
            since_start=await disk.listing(),
            vault=vault,
            clock=clock,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(agent.run())
            group.create_task(reconciler.run())
            group.create_task(_fail_on(faults))
            await _until_told_to_stop()
            await agent.surrender()
            raise _Stop
    finally:
        await asyncio.to_thread(flight.shutdown)
        serve_log.close()
        await vault.close()


def _report_callbacks(faults: "asyncio.Queue[BaseException]") -> None:
    """A timer that fails would otherwise leave a line in the log and a process that waits for ever."""

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        fault = context.get("exception")
        if "handle" in context and isinstance(fault, BaseException):
            faults.put_nowait(fault)
        else:
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(handle)


class _Stop(Exception):
    """We were told to stop, in order."""


SWITCH_INTERVAL_S = 0.0005
"""A thread that waits for the interpreter gets it after this long: the default, ten times that, is longer than a whole
schema change takes, which needs the event loop and the database's thread in turn."""


def _run(process: Coroutine[Any, Any, None]) -> None:
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    try:
        uvloop.run(process)
    except BaseExceptionGroup as errors:
        gravest_error = gravest(errors)
        if not isinstance(gravest_error, _Stop):
            raise gravest_error from errors


async def _until_told_to_stop() -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    await told.wait()


async def _fail_on(faults: "asyncio.Queue[BaseException]") -> NoReturn:
    """What a handler did not expect ends the process: it restarts from what is durable."""
    raise await faults.get()
