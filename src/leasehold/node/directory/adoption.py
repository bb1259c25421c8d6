"""Adopting: an older copy of a node's directory continues as that node, once no process of the node lives.

Without that a copy is refused (`STALE_COPY`), since it could as well be a second machine with the same disk. Adopting
gives the vault the newest incarnation, so that its next start joins with the one after. The token in the vault proves
the id. Older copies are still refused.

The same command serves a directory that is ahead of a cluster which was recovered from an older state
(`core.membership.generations`). Its contents are set aside for people (`node.directory.aside`), its vault forgets what
it has applied, and its next start takes a snapshot.

The vault changes in one durable transaction, and adopting twice does no harm. No segment is trusted before its bytes
were read: the copy may have been made while files were written.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.membership.generations import generation_of
from leasehold.core.membership.proofs import ProofKeys, with_proof
from leasehold.core.words.messages import AskIncarnation, ClusterFacts, JoinWait, Message, NewestIncarnation, WhoAreYou
from leasehold.core.words.records import Allocated, Claiming, Joining
from leasehold.error_codes import ErrorCode
from leasehold.errors import (
    BadSettings,
    Indefinite,
    NotFound,
    NotInitialised,
    NotLeader,
    Refused,
    Unreachable,
    unexpected_answer,
)
from leasehold.ids import Generation, Incarnation, NodeId
from leasehold.limits.clients import RETRY_PAUSE_NS, STATEMENT_RESOLVE_NS
from leasehold.limits.membership import ADOPT_WAIT_MAX_NS, COORDINATORS_KNOWN_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.remedies import with_remedy
from leasehold.node.directory.aside import set_aside
from leasehold.node.directory.reset import check_no_reset, check_node_directory
from leasehold.vault.store import FILE_NAME, SqliteVault
from leasehold.wire.ports import Clock, Entropy, Transport, Vault
from leasehold.wire.proven_coordinator import ProvenCoordinator

OnWait = Callable[[int], None]
"""Hears for how long the newest process of the node may still serve, in nanoseconds."""
SetAside = Callable[[], Path]
"""Keeps the contents of the directory, durably; returns where."""


class Adopted(msgspec.Struct, frozen=True, kw_only=True):
    """The directory continues as the node; not `changed` if it had the newest incarnation already."""

    node: NodeId
    name: str
    before: Incarnation
    incarnation: Incarnation
    changed: bool
    kept: Path | None = None
    """The folder with the contents that its vault has forgotten; None if it has forgotten nothing."""


async def adopt_directory(
    directory: Path,
    coordinators: tuple[str, ...],
    *,
    transport: Transport,
    clock: Clock,
    entropy: Entropy,
    on_wait: OnWait,
    keys: ProofKeys | None = None,
) -> Adopted:
    """Adopts under the directory's lock. Raises `BadDirectory` (LOCKED, NOT_SET_ASIDE), `NotFound` (NO_NODE,
    NO_IDENTITY), `Refused` (OTHER_CLUSTER, COORDINATOR_UNPROVEN, or the leader's reason), `Unreachable`."""
    check_no_reset(directory)
    check_node_directory(directory)
    if not (directory / FILE_NAME).exists():
        raise _no_identity(directory)
    vault = await SqliteVault.open(directory)
    try:
        keep = partial(set_aside, directory)
        adopting = Adopting(
            directory, vault, coordinators, transport, clock, on_wait, entropy=entropy, set_aside=keep, keys=keys
        )
        return await adopting.adopt()
    finally:
        await vault.close()


class Adopting:
    """One attempt on an open vault."""

    def __init__(
        self,
        directory: Path,
        vault: Vault,
        coordinators: tuple[str, ...],
        transport: Transport,
        clock: Clock,
        on_wait: OnWait,
        *,
        entropy: Entropy,
        set_aside: SetAside,
        keys: ProofKeys | None = None,
    ) -> None:
        self._keys = keys
        self._proven = ProvenCoordinator(keys, clock, entropy)
        self._directory = directory
        self._vault = vault
        self._coordinators = coordinators
        self._transport = transport
        self._clock = clock
        self._on_wait = on_wait
        self._set_aside = set_aside
        self._turn = 0

    async def adopt(self) -> Adopted:
        record = await self._vault.identity()
        if record is None or isinstance(record, Claiming):
            raise _no_identity(self._directory)
        known = (*self._coordinators, *await self._vault.coordinators())
        self._coordinators = tuple(dict.fromkeys(known))[:COORDINATORS_KNOWN_MAX]
        if not self._coordinators:
            hint = "give --coordinator HOST:PORT, or LEASEHOLD_COORDINATORS"
            raise BadSettings(
                "no coordinator was given, and the vault knows none", code=ErrorCode.NO_COORDINATOR, hint=hint
            )
        before = record.previous if isinstance(record, Joining) else record.incarnation
        generation = await self._generation(record)
        newest = await self._newest(record)
        view = Catalog.reopened(await self._vault.reopened())
        lost = view.revision > 0 and generation_of(view) != generation
        if newest.incarnation < before and not lost:
            raise Refused(
                f"this directory has reached incarnation {before}, the cluster says {newest.incarnation}",
                code=ErrorCode.AHEAD_OF_CLUSTER,
                hint="the meta storage was restored from an older backup: restore the newest one; if it is lost, stop"
                " the coordinator and run `leasehold recover` on its directory",
            )
        kept: Path | None = None
        adopted = Allocated(
            token=record.token,
            node=record.node,
            cluster_id=record.cluster_id,
            incarnation=newest.incarnation,
            nonce=None,
            unverified=True,
        )
        if lost:
            # The cluster may have lost some of what this vault has applied.
            kept = self._set_aside()
            await self._vault.begin_anew(adopted)
        elif newest.incarnation > before:
            await self._vault.write_identity(adopted)
        return Adopted(
            node=record.node,
            name=newest.name,
            before=before,
            incarnation=newest.incarnation,
            changed=lost or newest.incarnation > before,
            kept=kept,
        )

    async def _generation(self, record: Allocated | Joining) -> Generation:
        facts = await self._ask(WhoAreYou())
        if not isinstance(facts, ClusterFacts):
            raise unexpected_answer(facts)
        if facts.cluster_id != record.cluster_id:
            raise Refused(
                f"this directory belongs to cluster {record.cluster_id}, the coordinator serves {facts.cluster_id}",
                code=ErrorCode.OTHER_CLUSTER,
                hint="check the coordinator's address",
            )
        return facts.generation

    async def _newest(self, record: Allocated | Joining) -> NewestIncarnation:
        """Asks until it is certain whether a process of the node lives."""
        unproven = AskIncarnation(cluster_id=record.cluster_id, token=record.token, node=record.node)
        request = with_proof(unproven, self._keys)
        give_up_ns = self._clock.now_ns() + ADOPT_WAIT_MAX_NS
        while self._clock.now_ns() < give_up_ns:
            try:
                answer = await self._ask(request)
            except Refused as error:
                raise with_remedy(error, name=str(record.node), directory=str(self._directory)) from error
            if isinstance(answer, NewestIncarnation):
                return answer
            if not isinstance(answer, JoinWait):
                raise unexpected_answer(answer)
            self._on_wait(answer.wait_ns)
            wait_ns = min(max(answer.wait_ns, RETRY_PAUSE_NS), SECOND_NS)
            await self._clock.sleep_until(self._clock.now_ns() + wait_ns)
        raise Unreachable(
            f"the lease of node {record.node} has not ended within {ADOPT_WAIT_MAX_NS // SECOND_NS} s",
            hint="`leasehold status` shows where it serves: stop it first",
        )

    async def _ask(self, request: Message) -> Message:
        """Asks the coordinators in turn until one answers; raises the last error after STATEMENT_RESOLVE_NS."""
        give_up_ns = self._clock.now_ns() + STATEMENT_RESOLVE_NS
        while True:
            address = self._coordinators[self._turn % len(self._coordinators)]
            connection = self._transport.connect(address)
            try:
                return await self._proven.call(connection, address, request)
            except (Indefinite, NotInitialised, NotLeader):
                self._turn += 1
                if self._clock.now_ns() >= give_up_ns:
                    raise
            finally:
                await connection.close()
            await self._clock.sleep_until(self._clock.now_ns() + RETRY_PAUSE_NS)


def _no_identity(directory: Path) -> NotFound:
    return NotFound(
        f"the vault of {directory} holds no node id, so there is nothing to adopt",
        code=ErrorCode.NO_IDENTITY,
        hint="start it as a new node; if its old name is taken, `leasehold node remove NAME` frees it",
    )
