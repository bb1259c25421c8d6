"""One node, composed of its runtimes and the real ports. It handles no statements, so no SQL parser is loaded."""

import asyncio
import os
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path

import msgspec

from leasehold.certificates.names import CertificateRole
from leasehold.cli.config import NodeConfig
from leasehold.cli.discovery import Secrets, Sightings, read_secrets, take_part
from leasehold.cli.notify_socket import NotifySocket
from leasehold.cli.rotation import Rotation
from leasehold.cli.serve import report_callbacks, run, serve_until_stopped
from leasehold.cli.supervised import SupervisorChannel
from leasehold.client.locate import CLUSTER_FILE
from leasehold.core.swim.messages import Role
from leasehold.core.words.messages import ProcessEndReported, ReportProcessEnd
from leasehold.core.words.records import Allocated, Joining
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings
from leasehold.ids import NodeId
from leasehold.local.files import check_not_of_another, make_directory, write_address
from leasehold.metastorage.sqlite import FILE_NAME as META_FILE_NAME
from leasehold.node.agent.agent import Agent
from leasehold.node.agent.published import Published
from leasehold.node.directory.reset import check_no_reset, check_vault_or_new
from leasehold.node.directory.scrub import scrub
from leasehold.node.disk.disk_port import LocalDisk
from leasehold.node.disk.reconciler import Reconciler
from leasehold.node.disk.space import watch_space
from leasehold.node.serving.flight_service import NodeFlight
from leasehold.node.serving.own_compactions import OwnCompactions
from leasehold.storage.files import SegmentFiles
from leasehold.storage.local_links import FOLDER
from leasehold.storage.servelog import ServeLog
from leasehold.vault.faults import VARIABLE as FAULT
from leasehold.vault.faults import vault_kind
from leasehold.vault.lock import LOCK_NAME
from leasehold.vault.store import FILE_NAME
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.memory import keep_little_memory, watch_memory
from leasehold.wire.ports import Vault
from leasehold.wire.prepared_call import prepared_answer, prepared_call
from leasehold.wire.rpc_client import GrpcTransport
from leasehold.wire.threads import OneThread


def run_node(config: NodeConfig) -> None:
    """Serves until SIGTERM or SIGINT, then gives its lease back.

    Raises `BadDirectory`, `BadSettings`, and any other error that ended it.
    """
    secrets = read_secrets(config, CertificateRole.NODE, config.name)
    if not config.coordinators and secrets.keys is None and not (config.directory / FILE_NAME).exists():
        raise _no_coordinator(config)  # before anything is made there
    check_no_reset(config.directory)
    check_vault_or_new(config.directory)
    others = {META_FILE_NAME: "a coordinator", CLUSTER_FILE: "a whole cluster"}
    check_not_of_another(config.directory, FILE_NAME, others)
    make_directory(config.directory)
    sys.meta_path.insert(0, _NoPandas())
    channel, systemd = SupervisorChannel.of_this_process(), NotifySocket.of_this_process()
    run(_node(config, secrets, channel, systemd), channel, systemd)


class _NoPandas(MetaPathFinder):
    """Makes pandas look as if it were not installed. A node has no use for it, but pyarrow imports it, if it can, at
    the first array that it makes: 1.4 s of a processor, while the first rows wait."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:  # noqa: ARG002
        if fullname == "pandas":
            raise ModuleNotFoundError("a node does without pandas", name=fullname)


def _no_coordinator(config: NodeConfig) -> BadSettings:
    return BadSettings(
        f"node {config.name} knows no coordinator: none was given, and its vault remembers none",
        code=ErrorCode.NO_COORDINATOR,
        hint="give --coordinator HOST:PORT, LEASEHOLD_COORDINATORS, or coordinators in its --config file;"
        " or --cluster-key FILE and --seed HOST:PORT, and it finds one",
    )


async def _node(config: NodeConfig, secrets: Secrets, channel: SupervisorChannel | None, systemd: NotifySocket) -> None:
    directory, tls, keys = config.directory, secrets.tls, secrets.proof_keys
    faults: asyncio.Queue[BaseException] = asyncio.Queue()
    report_callbacks(faults)
    vault = await vault_kind(os.environ.get(FAULT)).open(directory)
    if not config.coordinators and keys is None and not await vault.coordinators():
        raise _no_coordinator(config)
    clock, threads = BoottimeClock(), OneThread()
    published = Published()

    def found_full() -> None:
        published.disk_full = True

    vault.on_full = found_full
    ending = Ending(channel, directory / FOLDER, () if tls is None else tls.now().for_supervisor())
    vault.on_disk_error = ending.disk_fails
    files = SegmentFiles(directory)
    files.open()
    serve_log = ServeLog(directory / "servelog")
    keep_little_memory()
    watch_memory()
    flight = NodeFlight(
        published=published,
        files=files,
        manifest=vault.manifest,
        serve_log=serve_log,
        now_ns=clock.now_ns,
        listen=config.listen,
        tls=tls,
    )
    try:
        service = config.advertised(flight.address)
        agent = Agent(
            name=config.name,
            address=service,
            coordinators=config.coordinators,
            vault=vault,
            transport=GrpcTransport(tls),
            clock=clock,
            entropy=SystemEntropy(),
            threads=threads,
            published=published,
            compares_disk=True,
            directory=str(directory),
            rack=config.rack,
            keys=keys,
            on_session=ending.hand_over,
        )
        gossip = await take_part(
            config,
            secrets,
            name=config.name,
            role=Role.NODE,
            service=service,
            clock=clock,
            sightings=Sightings(flight.known, agent.found),
            node=await _node_id(vault),
        )
        write_address(directory, flight.address)
        disk = LocalDisk(files, published, clock.now_ns, tls)
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
            group.create_task(flight.sweep_local(clock))
            group.create_task(OwnCompactions(agent, published, clock, flight.compact_by_itself).run())
            group.create_task(watch_space(directory, published, clock))
            await serve_until_stopped(
                group,
                gossip,
                faults,
                agent.surrender,
                lock=directory / LOCK_NAME,
                systemd=systemd,
                rotation=Rotation(secrets, keys, gossip, agent.reconnect),
            )
    finally:
        await asyncio.to_thread(flight.shutdown)
        serve_log.close()
        await vault.close()


class Ending:
    """Hands the supervisor what it has to send once this process has ended."""

    def __init__(self, channel: SupervisorChannel | None, links: Path, tls: tuple[str, ...] = ()) -> None:
        self._channel = channel
        self._links = str(links.absolute())
        self._tls = tls
        self._last: tuple[tuple[str, ...], ReportProcessEnd] | None = None

    def hand_over(self, coordinators: tuple[str, ...], report: ReportProcessEnd) -> None:
        self._last = coordinators, report
        if self._channel is not None:
            self._channel.hand_over(
                coordinators, prepared_answer(ProcessEndReported()), prepared_call(report), self._tls, self._links
            )

    def disk_fails(self) -> None:
        """This process ends for an error of its disk; one that has never had a session has nobody to tell."""
        if self._last is not None:
            coordinators, report = self._last
            self.hand_over(coordinators, msgspec.structs.replace(report, disk_failing=True))


async def _node_id(vault: Vault) -> NodeId | None:
    identity = await vault.identity()
    return identity.node if isinstance(identity, Allocated | Joining) else None
