"""Copies of a node's directory that are started beside the original, or long after the original has moved on.

A copy must be refused, whatever else is broken: a clone of a running node since the node renews its lease
(ALIVE_ELSEWHERE), a stale copy since there were newer incarnations (STALE_COPY), any copy of a removed node by its
tombstone (REMOVED). If one is let in, INV-ID-2 is violated.
"""

import asyncio
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import TYPE_CHECKING, Final

import msgspec

from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.records import Allocated, Claiming, IdentityRecord, Joining, NodeRecord, Record
from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite
from leasehold.testing.machines import SimulatedNode
from leasehold.testing.oracle import Oracle
from leasehold.testing.vault import VaultDisk

if TYPE_CHECKING:
    from leasehold.testing.cluster import SimulatedCluster

REFUSALS: Final = frozenset({ErrorCode.ALIVE_ELSEWHERE, ErrorCode.STALE_COPY, ErrorCode.SUPERSEDED})
PATIENCE_S: Final = 15.0
"""How long a copy may try: it hears of the original's lease twice, and may ask a leader that is about to end."""
KEPT_MAX: Final = 4


class CopiedNode(SimulatedNode):
    """A process on a copy of a node's vault, on its own machine without segments."""

    def __init__(self, cluster: "SimulatedCluster", name: str, calls_itself: str, disk: VaultDisk) -> None:
        super().__init__(cluster, name, 0)
        self.calls_itself = calls_itself
        self.disk = disk
        self.refused: Definite | None = None
        if cluster.watch is not None:
            cluster.watch.vault(name, disk)

    async def run(self, port: int = 9000) -> None:
        """As `SimulatedNode.run`, for one process, which should be refused."""
        try:
            await self._live(port)
        except Definite as error:
            self.refused = error

    def forget(self) -> None:
        """Discards its machine."""
        watch = self.cluster.watch
        if watch is not None:
            for known in (watch.oracle.vaults, watch.oracle.disks, watch.oracle.nodes):
                known.pop(self.name, None)


class Backup(msgspec.Struct, frozen=True):
    """A copy of a node's vault."""

    original: SimulatedNode
    calls_itself: str
    """Its name then: another machine may have taken its place."""
    disk: VaultDisk


class NodeCopies:
    """Makes copies of the nodes of a cluster, and starts them."""

    def __init__(self, cluster: "SimulatedCluster", group: asyncio.TaskGroup, random: Random, oracle: Oracle) -> None:
        self._cluster = cluster
        self._group = group
        self._random = random
        self._oracle = oracle
        self._backups: list[Backup] = []
        self._made = 0

    def back_up(self, node: SimulatedNode) -> None:
        """Keeps a copy of the node's vault, in place of an older copy if there are many."""
        if len(self._backups) == KEPT_MAX:
            del self._backups[self._random.randrange(KEPT_MAX)]
        self._backups.append(Backup(node, node.calls_itself, node.disk.copy()))

    async def start_a_clone(self, node: SimulatedNode) -> str | None:
        """Starts a clone beside the original, if the original is sure to keep its lease; else None."""
        leading = self._cluster.leading
        if leading is None or not leading.is_able or node.guard() is None:
            return None
        if not self._cluster.network.is_clear(node.name, leading.name):
            return None
        return await self._start(node, node.calls_itself, node.disk.copy(), "clone")

    async def start_a_stale_copy(self) -> str | None:
        """Starts a copy of a node that was removed or has newer incarnations; None if there is none."""
        stale = [one for one in self._backups if self._is_stale(one.disk)]
        if not stale or self._cluster.leading is None:
            return None
        chosen = self._random.choice(stale)
        return await self._start(chosen.original, chosen.calls_itself, chosen.disk.copy(), "stale copy")

    def _is_stale(self, disk: VaultDisk) -> bool:
        identity = _identity(disk)
        record = self._record(identity)
        if identity is None or record is None:
            return False
        if record.removed:
            return True
        # The attempt by which the newest process came in may be finished again by whoever knows its nonce.
        finished = identity.nonce if isinstance(identity, Allocated) else identity.finished
        nonces = {finished, identity.nonce}
        reached = identity.incarnation if isinstance(identity, Allocated) else identity.previous
        return record.incarnation > reached and record.nonce not in nonces

    def _record(self, identity: Allocated | Joining | None) -> NodeRecord | None:
        """Of its node, as the store has it."""
        record = None if identity is None else self._oracle.history.records.get(keys.node(identity.node))
        return record if isinstance(record, NodeRecord) else None

    async def _start(self, original: SimulatedNode, calls_itself: str, disk: VaultDisk, what: str) -> str:
        self._made += 1
        copy = CopiedNode(self._cluster, f"{original.name}-copy-{self._made}", calls_itself, disk)
        copy.start(self._group)
        assert copy.task is not None
        await asyncio.wait([copy.task], timeout=PATIENCE_S)
        joined = copy.published.incarnation
        refused = copy.refused
        await copy.kill()
        copy.forget()
        record = self._record(_identity(disk))
        refusals = {ErrorCode.REMOVED} if record is not None and record.removed else REFUSALS
        if joined:
            raise self._oracle.violation("INV-ID-2", f"a {what} of {original.name} was let in as incarnation {joined}")
        if refused is not None and refused.code not in refusals:
            text = f"a {what} of {original.name} was refused by {refused.code}: {refused.text}"
            raise self._oracle.violation("INV-ID-2", text)
        return f"a {what} of {original.name} starts: {refused.code if refused is not None else 'not heard in time'}"


def _identity(disk: VaultDisk) -> Allocated | Joining | None:
    """The identity in a vault, if it has an id."""
    blob = disk.durable.identity
    identity: IdentityRecord | Record | None = decode_record(Record, blob) if blob else None
    if identity is None or isinstance(identity, Claiming):
        return None
    assert isinstance(identity, Allocated | Joining)
    return identity
