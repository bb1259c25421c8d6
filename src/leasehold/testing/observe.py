"""Observation: makes the production runtimes of a simulated cluster, and their disks, visible to an oracle.

Observation changes nothing: each watched part is a subclass of the production class that also tells the oracle, passed
in where the runtime takes that part anyway. `Watch` makes these parts.
"""

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.lease.barrier import Proceed
from leasehold.core.lease.grantor import Grantor
from leasehold.core.lease.grants import (
    BarrierRequested,
    EndReportReceived,
    GrantorEffect,
    GrantorEvent,
    HeldLease,
    IncarnationJoined,
    LeadershipEnded,
    LeadershipExtended,
    MemberEntered,
    RenewalReceived,
    ReportVerdict,
    SendGrant,
    SurrenderReceived,
)
from leasehold.core.lease.holder import NO_LEASE, Lease
from leasehold.core.membership.identity import hash_secret
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.messages import Renewal, ReportProcessEnd, Surrender
from leasehold.core.words.operations import Txn, TxnResult
from leasehold.core.words.records import Allocated, Claiming, IdentityRecord, Joining, LogPosition, NodeRecord, Record
from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite, Indefinite
from leasehold.ids import BucketNumber, ClusterId, Incarnation, NodeId, ObjectId, SegmentId, Session, Term
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.node.agent.agent import Agent
from leasehold.node.agent.published import Published
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.log_news import Acknowledged, LeftUnknown, LogState, ReplicaMoved
from leasehold.testing.loop import VirtualLoop
from leasehold.testing.metastorage import MemoryStore
from leasehold.testing.mirror import LogMirror
from leasehold.testing.news import (
    DiskImage,
    EnteredTopology,
    Granted,
    Heard,
    LeaderSeen,
    Leased,
    LetIn,
    Proceeded,
    ProcessEnded,
    RealClock,
    Reported,
    Spoke,
    StoredSegments,
    VaultChanged,
    Viewed,
)
from leasehold.testing.oracle import Oracle
from leasehold.testing.replica import MemoryReplicaPlace
from leasehold.testing.steps import TaskCondition
from leasehold.testing.vault import VaultDisk, VaultState, VaultStep


class Watch:
    """Connects a simulated cluster to an oracle; made before the first commit, on the loop of the cluster."""

    def __init__(self, oracle: Oracle, loop: VirtualLoop, store: MemoryStore) -> None:
        self.oracle = oracle
        store.on_commit.append(oracle.committed)
        oracle.on_news = lambda: loop.after_pass(self._look)
        self._directories: dict[VaultDisk, int] = {}

    def _look(self) -> None:
        if self.oracle.anything_new:
            self.oracle.check()

    def grantor(self, name: str, clock: RealClock, kind: type[Grantor] = Grantor) -> type[Grantor]:
        """The class of a coordinator's grantors; `clock` is that coordinator's own."""
        return watched_grantor(self.oracle, name, clock, kind)

    def published(self, host: str, clock: SimulatedClock) -> "WatchedPublished":
        """The `Published` of a new process on a host; the older process of that host is gone."""
        return WatchedPublished(self.oracle, host, clock)

    @property
    def agent(self) -> "type[WatchedAgent]":
        """The class of the agents."""
        oracle = self.oracle

        class HeardAgent(WatchedAgent):
            ear = oracle

        return HeardAgent

    def ended_by(self, published: Published, agent: Agent, error: Definite) -> None:
        """A process ends by itself."""
        assert isinstance(agent, WatchedAgent)
        assert isinstance(published, WatchedPublished)
        record = self.oracle.history.records.get(keys.node(published.node))
        assert record is None or isinstance(record, NodeRecord)
        self.oracle.note(f"{published.name} ends: {error.text} ({error.code})")
        self.oracle.saw(
            ProcessEnded(
                host=published.name,
                node=published.node,
                incarnation=published.incarnation,
                session_hash=agent.session_hash,
                code=error.code,
                text=error.text,
                record=record,
            )
        )

    def log(self, mirror: LogMirror) -> None:
        """Follows the log of several coordinators."""
        mirror.on_election.append(self.oracle.elected)
        mirror.on_append.append(self.oracle.saw)

    def replica(self, name: str, place: MemoryReplicaPlace) -> None:
        """Follows a coordinator's replica."""

        def applied(position: LogPosition, store: MemoryStore) -> None:
            # After a checkpoint it holds more than the entries that it has applied, until these have caught up.
            if store.newest == position.revision:
                self.oracle.saw(ReplicaMoved(name=name, state=LogState.of(position, store)))

        place.on_apply = applied

    def replicated(self, name: str) -> type[ReplicatedMetaStorage]:
        """The class of a coordinator's meta storage over the log."""
        oracle = self.oracle

        class WatchedMetaStorage(ReplicatedMetaStorage):
            async def txn(self, txn: Txn) -> TxnResult:
                try:
                    result = await super().txn(txn)
                except Indefinite as error:
                    if error.code != ErrorCode.CLOSED and self._fence() is not None:
                        oracle.saw(LeftUnknown(name=name))
                    raise
                oracle.saw(Acknowledged(name=name, txn=txn, result=result))
                return result

        return WatchedMetaStorage

    def process_ended(self, published: Published) -> None:
        """A process is gone, by a kill or by itself."""
        assert isinstance(published, WatchedPublished)
        self.oracle.ended(published)

    def vault(self, host: str, disk: VaultDisk) -> None:
        """Follows a host's directory; another disk of the same host replaces it."""
        seen = WatchedVault(disk)
        directory = self._directories.setdefault(disk, len(self._directories))
        self.oracle.vaults[host] = seen

        def changed(step: VaultStep) -> None:
            image, durable = seen.image, seen.durable
            if isinstance(durable.identity, Allocated | Joining):
                self.oracle.nodes[host] = durable.identity.node
            self.oracle.saw(VaultChanged(host=host, directory=directory, step=step, image=image, durable=durable))
            self.oracle.note(f"the vault of {host}: {step.name.lower()}, {image.applied} ({durable.applied})")

        disk.on_change = changed

    def segments(self, host: str, disk: StoredSegments) -> None:
        """Follows a host's segment files; another disk of the same host replaces it."""
        self.oracle.disks[host] = disk
        disk.on_removed = partial(self.oracle.removed, host)


class WatchedVault:
    """A directory as an observer sees it; implements `news.VaultSeen`."""

    def __init__(self, disk: VaultDisk) -> None:
        self._disk = disk
        self._decoded: dict[bytes, IdentityRecord] = {}

    @property
    def image(self) -> DiskImage:
        """As the process sees it."""
        return self._image(self._disk.state)

    @property
    def durable(self) -> DiskImage:
        """What would survive the machine."""
        return self._image(self._disk.durable)

    def _image(self, state: VaultState) -> DiskImage:
        return DiskImage(
            identity=self._identity(state.identity), applied=state.applied, lineage=state.lineage, items=state.items
        )

    def _identity(self, blob: bytes) -> IdentityRecord | None:
        if not blob:
            return None
        known = self._decoded.get(blob)
        if known is None:
            decoded = decode_record(Record, blob)
            assert isinstance(decoded, Claiming | Allocated | Joining), "only such a record was written"
            # The present one and the one before are asked for again and again, older ones never.
            while len(self._decoded) > 1:
                del self._decoded[next(iter(self._decoded))]
            known = self._decoded[blob] = decoded
        return known


class WatchedAgent(Agent):
    """An agent that tells the oracle of its reports."""

    ear: Oracle

    @property
    def session_hash(self) -> bytes:
        """The hash of its session, as in records."""
        return hash_secret(self._session)

    async def report_held(self, table: ObjectId, bucket: BucketNumber, segments: tuple[SegmentId, ...]) -> None:
        """As `Agent.report_held`."""
        self._reported(table, bucket, segments)
        await super().report_held(table, bucket, segments)

    async def report_cleaned(self, table: ObjectId) -> None:
        """As `Agent.report_cleaned`."""
        self._reported(table, None, ())
        await super().report_cleaned(table)

    def _reported(self, table: ObjectId, bucket: BucketNumber | None, segments: tuple[SegmentId, ...]) -> None:
        node, incarnation = self._published.node, self._published.incarnation
        self.ear.saw(Reported(node=node, incarnation=incarnation, table=table, bucket=bucket, segments=segments))


class WatchedPublished(Published):
    """A `Published` that tells the oracle when its view, lease and identity change; a `news.ProcessSeen`."""

    _ear: Oracle | None = None

    def __init__(self, oracle: Oracle, host: str, clock: SimulatedClock) -> None:
        super().__init__(TaskCondition(clock))
        self.name = host
        self._clock = clock
        self._ear = oracle
        oracle.began(self)
        oracle.note(f"{host} starts")

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if self._ear is None:
            return
        if name == "view":
            self._viewed(self._ear, value)
        elif name == "lease":
            self._leased(self._ear, value)

    def joined(self, cluster_id: ClusterId, node: NodeId, incarnation: Incarnation) -> None:
        """As `Published.joined`."""
        super().joined(cluster_id, node, incarnation)
        oracle = self._ear
        assert oracle is not None
        vault = oracle.vaults.get(self.name)
        identity = None if vault is None else vault.durable.identity
        oracle.saw(Spoke(host=self.name, node=node, incarnation=incarnation, identity=identity))
        oracle.note(f"{self.name} goes on as node {node}, incarnation {incarnation}")

    def lease_ends_ns(self) -> int:
        """The real instant at which its lease ends."""
        return self._clock.real_ns(self.lease.deadline_ns)

    def _viewed(self, oracle: Oracle, view: Catalog) -> None:
        oracle.saw(Viewed(process=self, view=view))
        oracle.note(f"{self.name} shows {view.revision}")

    def _leased(self, oracle: Oracle, lease: Lease) -> None:
        oracle.saw(Leased(process=self, lease=lease, showing=self.view.revision))
        what = "gives its lease back" if lease is NO_LEASE else f"is leased by {lease.term}.{lease.sequence}"
        oracle.note(f"{self.name} {what}")


def watched_grantor(oracle: Oracle, name: str, clock: RealClock, kind: type[Grantor] = Grantor) -> type[Grantor]:
    """A grantor that tells the oracle what it hears, grants and lets proceed; `kind` may be a broken one."""

    class WatchedGrantor(kind):
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            term: Term = given["term"]
            self._session_hash: Callable[[Session], bytes] = given["hash_session"]
            _, newest = oracle.elections.get(term, (0, given["floor"]))
            self._seen = LeaderSeen(name=name, term=term, clock=clock, grantor=self, due_floor=newest)
            self._seen.leads_until_ns = given["leads_until_ns"]
            oracle.leads(self._seen)

        def step(self, event: GrantorEvent, now_ns: int) -> tuple[GrantorEffect, ...]:
            message = _message_in(event)
            if message is not None:
                return self._hear(event, message, now_ns)
            _note(oracle, self._seen, event, now_ns)
            return self._told(super().step(event, now_ns))

        def _hear(
            self, event: GrantorEvent, message: Renewal | Surrender | ReportProcessEnd, now_ns: int
        ) -> tuple[GrantorEffect, ...]:
            before = self.held(message.node)
            same = before is not None and _is_of(message, before, self._session_hash)
            effects = super().step(event, now_ns)
            oracle.saw(
                Heard(
                    leader=self._seen,
                    message=message,
                    same_session=same,
                    before=before,
                    after=self.held(message.node),
                    effects=effects,
                )
            )
            if isinstance(message, Renewal):
                key = (message.node, message.incarnation)
                reports = self._seen.reports
                reports[key] = max(message.applied, reports.get(key, message.applied))
                for effect in effects:
                    if isinstance(effect, SendGrant):
                        floor = self._seen.due_floor
                        oracle.saw(Granted(leader=self._seen, renewal=message, grant=effect.grant, due_floor=floor))
            return self._told(effects)

        def _told(self, effects: tuple[GrantorEffect, ...]) -> tuple[GrantorEffect, ...]:
            for effect in effects:
                if isinstance(effect, ReportVerdict) and isinstance(effect.verdict, Proceed):
                    oracle.saw(Proceeded(leader=self._seen, receipt=effect.verdict.receipt))
            return effects

    return WatchedGrantor


def _message_in(event: GrantorEvent) -> Renewal | Surrender | ReportProcessEnd | None:
    match event:
        case (
            RenewalReceived(renewal=message) | SurrenderReceived(surrender=message) | EndReportReceived(report=message)
        ):
            return message
        case _:
            return None


def _is_of(
    message: Renewal | Surrender | ReportProcessEnd, held: HeldLease, session_hash: Callable[[Session], bytes]
) -> bool:
    if isinstance(message, ReportProcessEnd):
        return hashlib.sha256(message.proof).digest() == held.end_hash
    return session_hash(message.session) == held.session_hash


def _note(oracle: Oracle, seen: LeaderSeen, event: GrantorEvent, now_ns: int) -> None:
    match event:
        case BarrierRequested(revision=revision):
            seen.due_floor = max(seen.due_floor, revision)
        case LeadershipExtended(until_ns=until_ns):
            seen.leads_until_ns = until_ns
        case LeadershipEnded():
            seen.leads_until_ns = now_ns
        case IncarnationJoined(node=node, incarnation=incarnation):
            oracle.saw(LetIn(node=node, incarnation=incarnation, required=seen.due_floor))
        case MemberEntered(node=node, incarnation=incarnation, required=required):
            oracle.saw(EnteredTopology(node=node, incarnation=incarnation, required=required))
        case _:
            pass
