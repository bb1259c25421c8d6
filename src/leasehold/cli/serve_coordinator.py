"""One coordinator, composed of its runtime and the real ports. It handles no rows, so Arrow is not loaded."""

import asyncio
from importlib.metadata import version

from leasehold.certificates.names import CertificateRole
from leasehold.cli.config import CoordinatorConfig
from leasehold.cli.coordinator_directory import check_for_a_coordinator
from leasehold.cli.discovery import Secrets, Sightings, coordinator_name, read_secrets, take_part
from leasehold.cli.meta import open_meta_storage
from leasehold.cli.notify_socket import NotifySocket
from leasehold.cli.rotation import Rotation
from leasehold.cli.serve import report_callbacks, run, serve_until_stopped
from leasehold.cli.supervised import SupervisorChannel
from leasehold.coordinator.opening import OpeningCoordinator
from leasehold.coordinator.runtime import Coordinator
from leasehold.core.swim.messages import Role
from leasehold.errors import Indefinite
from leasehold.limits.lease import HAND_OVER_NS
from leasehold.limits.units import SECOND_NS
from leasehold.local.files import make_directory, write_address
from leasehold.metastorage.contract import MetaStorage
from leasehold.metastorage.lock import lock_of
from leasehold.metastorage.sqlite import FILE_NAME
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.memory import watch_memory
from leasehold.wire.passwords import Argon2Passwords
from leasehold.wire.rpc import GrpcServer, serve
from leasehold.wire.rpc_client import GrpcTransport
from leasehold.wire.threads import OneThread


def run_coordinator(config: CoordinatorConfig) -> None:
    """Serves until SIGTERM or SIGINT. Raises `BadDirectory`, `BadSettings`, and any other error that ended it."""
    secrets = read_secrets(config, CertificateRole.COORDINATOR)
    check_for_a_coordinator(config.directory)
    make_directory(config.directory)
    systemd = NotifySocket.of_this_process()
    run(_coordinator(config, secrets, systemd), SupervisorChannel.of_this_process(), systemd)


async def _coordinator(config: CoordinatorConfig, secrets: Secrets, systemd: NotifySocket) -> None:
    """It listens before the meta storage is open, so that a person can ask what it waits for."""
    faults: asyncio.Queue[BaseException] = asyncio.Queue()
    report_callbacks(faults)
    watch_memory()
    clock, opening = BoottimeClock(), OpeningCoordinator()
    server = await serve(
        config.listen, opening, on_fault=faults.put_nowait, tls=secrets.tls, check_counts=opening.check_counts
    )

    def waits(why: Indefinite) -> None:
        if opening.obstacle is None:
            write_address(config.directory, server.address)
            systemd.ready()
        opening.obstacle = why

    storage: MetaStorage | None = None
    try:
        storage = await open_meta_storage(config, clock, waits)
        await _serve(config, secrets, storage, opening, server, faults, systemd=systemd)
    finally:
        await server.close()
        if storage is not None:
            await storage.close()


async def _serve(
    config: CoordinatorConfig,
    secrets: Secrets,
    storage: MetaStorage,
    opening: OpeningCoordinator,
    server: GrpcServer,
    faults: "asyncio.Queue[BaseException]",
    *,
    systemd: NotifySocket,
) -> None:
    clock, sightings, service = BoottimeClock(), Sightings(server.known), config.advertised(server.address)
    keys = secrets.proof_keys
    coordinator = Coordinator(
        name=service,
        storage=storage,
        clock=clock,
        passwords=Argon2Passwords(),
        entropy=SystemEntropy(),
        threads=OneThread(),
        statement_threads=OneThread(),
        seen=sightings.seen,
        keys=keys,
        transport=GrpcTransport(secrets.tls),
        label=config.label,
        version=version("leasehold"),
    )
    coordinator.membership.serve_at(server.address, service)
    opening.opened = coordinator
    gossip = await take_part(
        config,
        secrets,
        name=coordinator_name(service),
        role=Role.COORDINATOR,
        service=service,
        clock=clock,
        sightings=sightings,
    )
    write_address(config.directory, server.address)
    async with asyncio.TaskGroup() as group:
        leading = group.create_task(coordinator.run())
        await serve_until_stopped(
            group,
            gossip,
            faults,
            lambda: _end(coordinator, leading, server),
            lock=lock_of(config.directory / FILE_NAME),
            systemd=systemd,
            rotation=Rotation(secrets, keys, gossip),
        )


async def _end(coordinator: Coordinator, leading: asyncio.Task[None], server: GrpcServer) -> None:
    """Hands the leadership over, so that a successor need not wait, and clients ask again at once."""
    if coordinator.leader is not None:
        coordinator.hand_over()
        await asyncio.wait([leading], timeout=HAND_OVER_NS / SECOND_NS)
    await server.close()
