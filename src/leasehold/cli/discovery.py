"""The physical topology in a process: it takes part in gossip, and keeps what gossip shows.

The topology is a hint, and nothing is decided by it. Nodes find coordinators with it, and `leasehold status` shows it.
"""

import hashlib
import logging
import re
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from leasehold.certificates.names import CertificateRole
from leasehold.cli.config import ProcessConfig
from leasehold.core.membership.proofs import ProofKeys, derive_keys
from leasehold.core.swim.codec import Seal
from leasehold.core.swim.messages import Member, Role, State
from leasehold.core.words.addresses import numeric
from leasehold.ids import NodeId
from leasehold.local.files import write_gossip_address
from leasehold.wire import cluster_key, udp
from leasehold.wire.current_files import CurrentFile, TlsFiles
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.gossip import Gossip
from leasehold.wire.known_peers import KnownPeers
from leasehold.wire.peers import peer_of
from leasehold.wire.ports import Clock
from leasehold.wire.tls import own_tls

log = logging.getLogger(__name__)

NAME_LENGTH_MAX: Final = 63
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.-]")


class Sightings:
    """The other processes as gossip shows them. `on_coordinators` gets the coordinators' addresses when they change.
    The hosts of members with a numeric address become `known`."""

    def __init__(self, known: KnownPeers, on_coordinators: Callable[[tuple[str, ...]], None] = lambda _: None) -> None:
        self._known = known
        self._on_coordinators = on_coordinators
        self._nodes: dict[str, State] = {}
        self._coordinators: dict[str, str] = {}

    def notice(self, member: Member, state: State | None) -> None:
        """Records a change that gossip reports."""
        host = numeric(member.address.rpartition(":")[0].strip("[]"))
        if state is State.ALIVE and host is not None:
            self._known.add_member(peer_of(str(host)))
        if member.role is Role.NODE and state is not None:
            self._nodes[member.name] = state
        else:
            self._nodes.pop(member.name, None)
        lives = member.role is Role.COORDINATOR and state in {State.ALIVE, State.SUSPECT}
        before = self._coordinators.get(member.name)
        if lives:
            self._coordinators[member.name] = member.service
        elif before is not None:
            del self._coordinators[member.name]
        if before != self._coordinators.get(member.name):
            self._on_coordinators(tuple(self._coordinators.values()))

    def seen(self, name: str) -> str:
        """The state of the node with that name, empty if gossip shows none; from any thread."""
        state = self._nodes.get(name)
        return "" if state is None else state.name


class Secrets(NamedTuple):
    """What proves who this process is, as far as it has it. The files may be replaced while it runs."""

    keys: CurrentFile[tuple[bytes, ...]] | None
    """The cluster key, or two of them (`wire.cluster_key`)."""
    tls: TlsFiles | None

    @property
    def proof_keys(self) -> ProofKeys | None:
        """Those of now."""
        return None if self.keys is None else derive_keys(*self.keys.now())


def read_secrets(config: ProcessConfig, role: CertificateRole, name: str | None = None) -> Secrets:
    """Raises `BadSettings`: BAD_CERTIFICATE too, also for a certificate of another role or name."""
    keys = None if config.cluster_key is None else CurrentFile(config.cluster_key, cluster_key.read)
    tls = None if config.tls is None else TlsFiles(config.tls, partial(own_tls, role=role, name=name))
    return Secrets(keys, tls)


def seal_of(keys: tuple[bytes, ...]) -> Seal:
    """Of the datagrams of the cluster with these keys, the first of which seals."""
    key, *others = keys
    return Seal(key, cluster_key.stands_for(key), seal_of(tuple(others)) if others else None)


async def take_part(
    config: ProcessConfig,
    secrets: Secrets,
    *,
    name: str,
    role: Role,
    service: str,
    clock: Clock,
    sightings: Sightings,
    node: NodeId | None = None,
) -> Gossip | None:
    """Listens for gossip; what it returns takes part once it is run. `service` is the address that this process serves.

    Raises `BadSettings` if it can't listen at its gossip address.
    """
    if secrets.keys is None:
        return None
    keys = secrets.keys.now()
    datagrams = await udp.listen(config.gossips_at)
    address = config.gossip_advertised(datagrams.address, service)
    gossip = Gossip(
        me=Member(name=name, address=address, role=role, service=service, node=node or NodeId(0)),
        seal=seal_of(keys),
        seeds=config.seeds,
        clock=clock,
        entropy=SystemEntropy(),
        datagrams=datagrams,
        on_change=sightings.notice,
    )
    write_gossip_address(config.directory, address)
    log.info("gossip at %s as %s, %d seeds", address, name, len(config.seeds))
    return gossip


def coordinator_name(service: str) -> str:
    """The name of a coordinator in the physical topology, made of the address that it serves."""
    name = "coordinator-" + _NOT_IN_NAMES.sub("-", service)
    if len(name) <= NAME_LENGTH_MAX:
        return name
    digest = hashlib.sha256(service.encode()).hexdigest()[:16]
    return f"{name[: NAME_LENGTH_MAX - len(digest) - 1]}-{digest}"
