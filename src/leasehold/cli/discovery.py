"""The physical topology in a process: it takes part by gossip, and keeps what that shows.

A hint. Nodes learn by it where coordinators are, and people how it sees nodes; nothing is decided by it.
"""

import hashlib
import logging
import re
from collections.abc import Callable
from typing import Final

from leasehold.cli.config import ANY_PORT, ProcessConfig
from leasehold.core.swim.messages import Member, Role, State
from leasehold.ids import NodeId
from leasehold.local.files import write_gossip_address
from leasehold.wire import cluster_key, udp
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.gossip import Gossip, MemberChange
from leasehold.wire.ports import Clock

log = logging.getLogger(__name__)

NAME_LENGTH_MAX: Final = 63
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.-]")


class Sightings:
    """What the others look like from here. `on_coordinators` gets where coordinators serve, whenever that changes."""

    def __init__(self, on_coordinators: Callable[[tuple[str, ...]], None] = lambda _: None) -> None:
        self._on_coordinators = on_coordinators
        self._nodes: dict[str, State] = {}
        self._coordinators: dict[str, str] = {}

    def notice(self, change: MemberChange) -> None:
        """Takes over what gossip tells."""
        member, state = change.member, change.state
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
        """The state in which a node of that name is seen, empty if none is; from any thread."""
        state = self._nodes.get(name)
        return "" if state is None else state.name


def read_key(config: ProcessConfig) -> bytes | None:
    """The key of those who take part; None for a process that does not. Raises `BadSettings`."""
    return None if config.cluster_key is None else cluster_key.read(config.cluster_key)


async def take_part(
    config: ProcessConfig,
    key: bytes | None,
    *,
    name: str,
    role: Role,
    service: str,
    clock: Clock,
    sightings: Sightings,
    node: NodeId | None = None,
) -> Gossip | None:
    """Hears from here on, and takes part once it is run. `service` is where this process serves.

    Raises `BadSettings` where it can't hear at the address that it was given.
    """
    if key is None:
        return None
    datagrams = await udp.listen(config.gossip or ANY_PORT)
    gossip = Gossip(
        me=Member(name=name, address=datagrams.address, role=role, service=service, node=node or NodeId(0)),
        key=key,
        cluster_id=cluster_key.stands_for(key),
        seeds=config.seeds,
        clock=clock,
        entropy=SystemEntropy(),
        datagrams=datagrams,
        on_change=sightings.notice,
    )
    write_gossip_address(config.directory, datagrams.address)
    log.info("gossip at %s as %s, %d seeds", datagrams.address, name, len(config.seeds))
    return gossip


def coordinator_name(service: str) -> str:
    """What a coordinator is called in the physical topology: by the address that it alone serves at."""
    name = "coordinator-" + _NOT_IN_NAMES.sub("-", service)
    if len(name) <= NAME_LENGTH_MAX:
        return name
    digest = hashlib.sha256(service.encode()).hexdigest()[:16]
    return f"{name[: NAME_LENGTH_MAX - len(digest) - 1]}-{digest}"
