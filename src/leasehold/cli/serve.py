"""The long-running processes: one coordinator, one node. Composed here from the runtimes and the real ports."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any, NoReturn

import uvloop

from leasehold.cli.config import CoordinatorConfig, NodeConfig
from leasehold.cli.discovery import Sightings, coordinator_name, read_key, take_part
from leasehold.coordinator.runtime import Coordinator
from leasehold.core.records import Allocated, Joining
from leasehold.core.swim.messages import Role
from leasehold.errors import BadSettings, gravest
from leasehold.ids import NodeId
from leasehold.local.files import make_directory, write_address
from leasehold.metastorage.sqlite import FILE_NAME as META_FILE_NAME
from leasehold.metastorage.sqlite import SqliteMetaStorage
from leasehold.node.agent import Agent
from leasehold.node.published import Published
from leasehold.node.reconciler import Reconciler
from leasehold.node.reset import check_no_reset, check_vault_or_new
from leasehold.node.scrubbing import scrub
from leasehold.node.segments import LocalDisk
from leasehold.node.serving import NodeFlight
from leasehold.storage.files import SegmentFiles
from leasehold.storage.servelog import ServeLog
from leasehold.vault.faults import VARIABLE as FAULT
from leasehold.vault.faults import vault_kind
from leasehold.vault.store import FILE_NAME
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.gossip import Gossip
from leasehold.wire.passwords import Argon2Passwords
from leasehold.wire.ports import Vault
from leasehold.wire.rpc import GrpcTransport, serve
from leasehold.wire.threads import OneThread


def run_coordinator(config: CoordinatorConfig) -> None:
    """Serves until SIGTERM or SIGINT. Raises `BadDirectory`, `BadSettings`, and what ended it, if another thing did."""
    key = read_key(config)
    make_directory(config.directory)
    _run(_coordinator(config, key))


def run_node(config: NodeConfig) -> None:
    """Serves until SIGTERM or SIGINT, then gives its lease back. Raises `BadDirectory`, `BadSettings`, and what ended
    it."""
    key = read_key(config)
    if not config.coordinators and key is None and not (config.directory / FILE_NAME).exists():
        raise _no_coordinator(config)  # before anything is made there
    check_no_reset(config.directory)
    check_vault_or_new(config.directory)
    make_directory(config.directory)
    _run(_node(config, key))


def _no_coordinator(config: NodeConfig) -> BadSettings:
    return BadSettings(
        f"node {config.name} knows no coordinator: none was given, and its vault remembers none",
        code="NO_COORDINATOR",
        hint="give --coordinator HOST:PORT, LEASEHOLD_COORDINATORS, or coordinators in its --config file;"
        " or --cluster-key FILE and --seed HOST:PORT, and it finds one",
    )


async def _coordinator(config: CoordinatorConfig, key: bytes | None) -> None:
    directory, listen = config.directory, config.listen
    clock, sightings = BoottimeClock(), Sightings()
    storage = await SqliteMetaStorage.open(directory / META_FILE_NAME)
    faults: asyncio.Queue[BaseException] = asyncio.Queue()
    _report_callbacks(faults)
    try:
        coordinator = Coordinator(
            name=config.advertise or listen,
            storage=storage,
            clock=clock,
            passwords=Argon2Passwords(),
            entropy=SystemEntropy(),
            threads=OneThread(),
            seen=sightings.seen,
        )
        server = await serve(listen, coordinator, on_fault=faults.put_nowait)
        try:
            service = config.advertised(server.address)
            gossip = await take_part(
                config,
                key,
                name=coordinator_name(service),
                role=Role.COORDINATOR,
                service=service,
                clock=clock,
                sightings=sightings,
            )
            write_address(directory, server.address)
            async with asyncio.TaskGroup() as group:
                group.create_task(coordinator.run())
                group.create_task(_fail_on(faults))
                if gossip is not None:
                    group.create_task(gossip.run())
                await _until_told_to_stop()
                await _leave_beside(gossip, server.close())
                raise _Stop
        finally:
            await server.close()
    finally:
        await storage.close()


async def _node(config: NodeConfig, key: bytes | None) -> None:
    directory, listen = config.directory, config.listen
    faults: asyncio.Queue[BaseException] = asyncio.Queue()
    _report_callbacks(faults)
    vault = await vault_kind(os.environ.get(FAULT)).open(directory)
    if not config.coordinators and key is None and not await vault.coordinators():
        raise _no_coordinator(config)
    clock, threads = BoottimeClock(), OneThread()
    published = Published()
    files = SegmentFiles(directory)
    files.open()
    serve_log = ServeLog(directory / "servelog")
    flight = NodeFlight(published=published, files=files, serve_log=serve_log, now_ns=clock.now_ns, listen=listen)
    try:
        service = config.advertised(flight.address)
        agent = Agent(
            name=config.name,
            address=service,
            coordinators=config.coordinators,
            vault=vault,
            transport=GrpcTransport(),
            clock=clock,
            entropy=SystemEntropy(),
            threads=threads,
            published=published,
            compares_disk=True,
            directory=str(directory),
        )
        gossip = await take_part(
            config,
            key,
            name=config.name,
            role=Role.NODE,
            service=service,
            clock=clock,
            sightings=Sightings(agent.found),
            node=await _node_id(vault),
        )
        write_address(directory, flight.address)
        disk = LocalDisk(files, published, clock.now_ns)
        reconciler = Reconciler(
            agent=agent,
            published=published,
            disk=disk,
            since_start=await disk.listing(),
            vault=vault,
            clock=clock,
            threads=threads,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(agent.run())
            group.create_task(reconciler.run())
            group.create_task(scrub(vault, clock, published))
            group.create_task(_fail_on(faults))
            if gossip is not None:
                group.create_task(gossip.run())
            await _until_told_to_stop()
            await _leave_beside(gossip, agent.surrender())
            raise _Stop
    finally:
        await asyncio.to_thread(flight.shutdown)
        serve_log.close()
        await vault.close()


async def _node_id(vault: Vault) -> NodeId | None:
    identity = await vault.identity()
    return identity.node if isinstance(identity, Allocated | Joining) else None


async def _leave_beside(gossip: Gossip | None, end: Coroutine[Any, Any, None]) -> None:
    """Ends in order, and tells the others meanwhile: what people see, not what leases go by."""
    async with asyncio.TaskGroup() as ending:
        ending.create_task(end)
        if gossip is not None:
            ending.create_task(gossip.leave())


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
