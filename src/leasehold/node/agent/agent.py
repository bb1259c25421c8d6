"""The agent: a node's identity, its view of the catalog, and its lease, on one event loop.

It joins (`node/agent/join.py`), then follows the watch from the first revision that its vault lacks. Each revision
becomes the published view; then the lease is renewed on it, and it becomes durable in the vault
(`node/agent/projection.py`). Recovery runs beside that (`node/agent/recovery.py`). A lost connection changes nothing at
once: the lease ends by the clock, and the agent asks again.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import NoReturn, assert_never

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.data.seals import seal_key
from leasehold.core.lease import holder
from leasehold.core.lease.holder import Holder, HolderEvent
from leasehold.core.lease.process_end import end_proof
from leasehold.core.membership.generations import generation_of
from leasehold.core.membership.identity import Start
from leasehold.core.membership.proofs import ProofKeys
from leasehold.core.recovery import events
from leasehold.core.recovery.events import DiskComparison
from leasehold.core.words import keys, messages
from leasehold.core.words.operations import RevisionChanges
from leasehold.core.words.records import Allocated
from leasehold.core.words.time_passed import TimePassed
from leasehold.error_codes import ErrorCode
from leasehold.errors import (
    BadMessage,
    Definite,
    Indefinite,
    LeaseholdError,
    NotInitialised,
    NotLeader,
    Refused,
    Unreachable,
)
from leasehold.ids import Nonce, Revision, Session, Term, Token
from leasehold.limits.lease import RENEWAL_INTERVAL_NS, SURRENDER_WAIT_NS
from leasehold.node.agent.coordinators import KnownCoordinators
from leasehold.node.agent.join import Joiner
from leasehold.node.agent.outbox import Reporter
from leasehold.node.agent.projection import PROJECTION_LIMITS, Projection, ProjectionLimits
from leasehold.node.agent.published import Published
from leasehold.node.agent.recovery import Recovering, StreamStale
from leasehold.node.agent.remedies import raise_unless_temporary, with_remedy
from leasehold.node.agent.silence import StreamSilence
from leasehold.wire.deadline import DeadlineTimer
from leasehold.wire.ports import Clock, Connection, Duplex, Entropy, Threads, Transport, Vault
from leasehold.wire.tasks import gravest_here, until_set_or_due

log = logging.getLogger(__name__)


class Agent(Reporter):
    """One process of one node. `directory` is named in hints. With `compares_disk`, a reconciler runs beside it, and
    the leader hears of missing segments before recovery counts as finished (I7). `on_session` gets, each time a session
    is open, what a supervisor reports when this process ends, and the coordinators to tell, the leader first."""

    def __init__(
        self,
        *,
        name: str,
        address: str,
        coordinators: tuple[str, ...],
        vault: Vault,
        transport: Transport,
        clock: Clock,
        entropy: Entropy,
        threads: Threads,
        published: Published,
        compares_disk: bool,
        directory: str = "DIR",
        rack: str = "",
        keys: ProofKeys | None = None,
        on_session: Callable[[tuple[str, ...], messages.ReportProcessEnd], None] = lambda *_: None,
        projection_limits: ProjectionLimits = PROJECTION_LIMITS,
    ) -> None:
        super().__init__(published)
        self._session = Session(entropy.hex_128())
        self._name = name
        self._address = address
        self._directory = directory
        self._rack = rack
        self._coordinators = KnownCoordinators(coordinators, transport, clock, entropy, keys)
        self._vault = vault
        self._clock = clock
        self._entropy = entropy
        self._compares_disk = compares_disk
        self._on_session = on_session
        self._end_report: messages.ReportProcessEnd | None = None
        self._joiner = Joiner(self._coordinators, vault, clock, keys)
        self._holder: Holder | None = None
        self._recovering: Recovering | None = None
        self._deadline = DeadlineTimer(clock, lambda: self._step(TimePassed()))
        self._projection = Projection(
            vault=vault,
            published=published,
            clock=clock,
            threads=threads,
            on_stored=self._on_stored,
            on_leapt=self._on_leapt,
            limits=projection_limits,
        )
        self._term = Term(0)
        self._caught_up_at: Revision | None = None
        self.must_verify = False
        """Whether no file of this directory is trusted before its checksum was read: see `verified`."""
        self._surrendered, self._comparable = asyncio.Event(), asyncio.Event()
        self._to_reconnect = asyncio.Event()
        self.connection: Connection | None = None  # to the leader, while a session with it is open

    @property
    def durable(self) -> Catalog:
        """The newest catalog that the vault holds. Files may be changed by no newer one."""
        return self._projection.durable

    @property
    def caught_up(self) -> bool:
        """Whether the vault has reached the revision that was newest when this process first connected."""
        return self._caught_up_at is not None and self.durable.revision >= self._caught_up_at

    @property
    def recovered(self) -> bool:
        """Whether this process is in the logical topology, and its vault has the revision that this required."""
        return self._recovering is not None and self._recovering.recovery.recovered

    @property
    def comparison_due(self) -> DiskComparison | None:
        """The comparison of the disk that recovery waits for; a new one on each stream until this node is let in."""
        return None if self._recovering is None else self._recovering.recovery.comparison_due

    async def comparable(self) -> None:
        """Returns once the first comparison was due and the durable catalog was new enough for it."""
        await self._comparable.wait()

    def on_disk_compared(self, comparison: DiskComparison, *, kept: int, missing: int) -> None:
        """The disk was compared with a durable catalog of at least `comparison.revision`, and every missing segment was
        passed to `report_missing` since it was due. A comparison that is no longer due changes nothing."""
        if self._recovering is not None:
            self._recovering.compared(comparison, kept, missing)

    def counted(self, *, fetched: int = 0, evicted: int = 0, missing: int | None = None) -> None:
        """Counts segments for people: more were fetched or evicted, `missing` are missing now."""
        if self._recovering is not None:
            self._recovering.counted(fetched, evicted, missing)

    async def verified(self) -> None:
        """Every file of this directory was verified, or is gone: this process and later ones trust them now."""
        identity = await self._vault.identity()
        if self.must_verify and isinstance(identity, Allocated):
            await self._vault.write_identity(msgspec.structs.replace(identity, unverified=False))
            self.must_verify = False

    def found(self, coordinators: tuple[str, ...]) -> None:
        """The physical topology shows coordinators at these addresses now."""
        self._coordinators.found(coordinators)

    def reconnect(self) -> None:
        """Begins a new stream, from where this node is: it shows a new certificate. The lease goes on."""
        self._to_reconnect.set()

    async def _until_reconnect(self) -> NoReturn:
        await self._to_reconnect.wait()
        raise StreamStale

    async def run(self) -> None:
        """Joins, then follows until cancelled. Raises the definite error that ends this process."""
        try:
            await self._run()
        except Definite as error:
            raise with_remedy(error, name=self._name, directory=self._directory) from error

    async def _run(self) -> None:
        self._coordinators.say_if_keyless()
        view = await self._projection.restore()
        self._coordinators.listed(view.coordinators)
        start = Start(
            name=self._name,
            address=self._address,
            session=self._session,
            token=Token(self._entropy.hex_128()),
            nonce=Nonce(self._entropy.hex_128()),
            applied=view.revision,
            lineage=view.lineage,
            generation=generation_of(view),
            rack=self._rack,
        )
        cluster_id, joined = await self._joiner.join(start)
        self._published.session = self._session
        self._published.seal_key = seal_key(joined.token, self._session)
        self._end_report = messages.ReportProcessEnd(
            cluster_id=cluster_id,
            node=joined.node,
            incarnation=joined.incarnation,
            proof=end_proof(joined.token, self._session),
        )
        # Before anybody is answered: the view says who may ask for a copy.
        self._published.publish(view)
        self._published.joined(cluster_id, joined.node, joined.incarnation)
        log.info("joined as node %d, incarnation %d, from revision %d", joined.node, joined.incarnation, view.revision)
        self.must_verify = joined.unverified
        self._holder = Holder(
            node=joined.node,
            incarnation=joined.incarnation,
            session=self._session,
            applied=view.revision,
            lineage=view.lineage,
            renew_every_ns=RENEWAL_INTERVAL_NS,
        )
        self._recovering = Recovering(
            joined=joined,
            compares_disk=self._compares_disk,
            published=self._published,
            projection=self._projection,
            clock=self._clock,
            post=self._post,
            renew=self._renew,
            on_comparable=self._comparable.set,
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._projection.save())
                while True:
                    failed: LeaseholdError | None = None
                    try:
                        await self._follow()
                    except StreamStale:
                        continue  # from where it is now
                    except NotInitialised:
                        self._coordinators.say_uninitialised()
                    except (Indefinite, NotLeader) as error:
                        self._coordinators.say_cut_off(error)
                        failed = error
                    except Refused as refusal:
                        if not await self._coordinators.passes_over(refusal):
                            raise
                        continue
                    await self._coordinators.next(failed)  # or restarting: ask again, the next one first
        except BaseExceptionGroup as errors:
            raise gravest_here(errors) from errors
        finally:
            self._deadline.cancel()

    async def surrender(self) -> None:
        """Gives the lease back, and serves nothing from this call on. Waits up to SURRENDER_WAIT_NS for the answer."""
        if self._holder is None or self._recovering is None:
            return
        log.info("surrendering the lease")
        self._recovering.step(events.Stopping())
        self._step(holder.SurrenderRequested())
        self._step(holder.Drained())
        await until_set_or_due(self._surrendered, self._clock.now_ns() + SURRENDER_WAIT_NS, self._clock)

    async def _follow(self) -> None:
        """One stream to one coordinator, until it breaks. Raises `StreamStale` if a new stream has to begin."""
        assert self._holder is not None
        assert self._recovering is not None
        await self._projection.settled()
        self._to_reconnect.clear()
        connection = self._coordinators.connect()
        silence = StreamSilence(self._clock, self._coordinators)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(silence.end())
                duplex = await self._coordinators.session(connection, self._published.cluster_id)
                opened = await self._opened(duplex)
                silence.broken()
                self._renew()
                self.connection = connection
                group.create_task(self._send(duplex))
                group.create_task(self._recovering.leap_when_due(connection))
                group.create_task(self._recovering.tell())
                group.create_task(self._until_reconnect())
                await self._receive(duplex, opened.term, silence)
        except BaseExceptionGroup as errors:
            raise gravest_here(errors) from errors
        finally:
            self.connection = None
            self._deadline.cancel()
            self._recovering.step(events.StreamBroken())
            await connection.close()

    async def _opened(self, duplex: Duplex) -> messages.SessionOpened:
        """Opens the session, from the first revision that the view lacks."""
        assert self._holder is not None
        assert self._recovering is not None
        view = self._published.view
        await duplex.send(
            messages.OpenSession(
                **self._published.speaker(),
                cluster_id=self._published.cluster_id,
                watch_from=Revision(view.revision + 1),
                generation=generation_of(view),
                seal_key=self._published.seal_key,
            )
        )
        opened = await duplex.receive()
        if not isinstance(opened, messages.SessionOpened):
            raise Unreachable("the stream ended before its first message", hint="the node asks again")
        if opened.term < self._holder.term:
            raise Unreachable(f"the leader's term {opened.term} is over", hint="the node asks another coordinator")
        assert self._end_report is not None
        self._on_session(self._coordinators.asked_first(), self._end_report)
        await self._coordinators.keep(self._vault)
        if self._caught_up_at is None:
            self._caught_up_at = opened.latest
        log.info("following term %d from revision %d of %d", opened.term, view.revision, opened.latest)
        self._forget_unsent()
        self._term = opened.term
        self._recovering.opened(opened)
        return opened

    async def _receive(self, duplex: Duplex, term: Term, silence: StreamSilence) -> None:
        assert self._recovering is not None
        while True:
            message = await duplex.receive()
            silence.broken()
            match message:
                case None:
                    raise Unreachable("the coordinator ended the stream", hint="the node asks again")
                case messages.Watched(batch=batch):
                    if not self._recovering.leaping:
                        await self._apply(batch)
                case messages.Grant():
                    if message.term == term:
                        self._step(holder.GrantReceived(grant=message))
                case messages.RenewalRefused():
                    self._on_refused(message)
                case messages.RecoveryAccepted() | messages.RecoveryBehind():
                    self._recovering.answered(message)
                case messages.SurrenderAccepted():
                    self._surrendered.set()
                case messages.WatchFailed():
                    if not self._recovering.leaping:
                        self._recovering.overtaken(message)
                case _:
                    found = type(message).__name__
                    raise BadMessage(f"a {found} on a session")

    def _on_refused(self, refused: messages.RenewalRefused) -> None:
        assert self._holder is not None
        assert self._recovering is not None
        if not self._holder.awaits(refused.request):
            return
        raise_unless_temporary(refused)
        if refused.code == ErrorCode.RECOVERING:
            self._recovering.step(events.Excluded(request=refused.request))

    async def _apply(self, batch: RevisionChanges) -> None:
        assert self._recovering is not None
        view = await self._projection.take(batch)
        if view is not None:
            # A barrier waits for a procedure that appears or moves on, but for none that is deleted.
            urgent = any(one.key.startswith(keys.PROCEDURES) and one.value is not None for one in batch.changes)
            self._step(holder.Applied(revision=view.revision, lineage=view.lineage, urgent=urgent))
            self._recovering.step(events.RevisionShown(revision=view.revision))
            self._coordinators.listed(view.coordinators)

    def _on_stored(self, revision: Revision) -> None:
        assert self._recovering is not None
        self._recovering.step(events.Stored(revision=revision))

    def _on_leapt(self, revision: Revision) -> None:
        assert self._holder is not None
        assert self._recovering is not None
        log.info("leapt to revision %d", revision)
        if revision > self._holder.applied:
            view = self._published.view
            self._step(holder.Applied(revision=view.revision, lineage=view.lineage, urgent=True))
            self._coordinators.listed(view.coordinators)
        self._recovering.step(events.Leapt(revision=revision))

    def _renew(self) -> None:
        """Asks for a lease now, and again in regular intervals."""
        self._step(holder.SessionEstablished(term=self._term))

    def _step(self, event: HolderEvent) -> None:
        """Feeds the holder; the clock is read before any of its effects is sent."""
        assert self._holder is not None
        assert self._recovering is not None
        for effect in self._holder.step(event, self._clock.now_ns()):
            match effect:
                case holder.SendRenewal(renewal=renewal):
                    full, failing = self._published.disk_full, self._published.disk_failing
                    self._post(msgspec.structs.replace(renewal, disk_full=full, disk_failing=failing))
                    self._recovering.step(events.RenewalSent(request=renewal.request))
                case holder.SendSurrender(surrender=surrender):
                    self._post(surrender)
                case holder.PublishLease(lease=lease):
                    now_ns = self._clock.now_ns()
                    if self._published.lease.deadline_ns <= now_ns < lease.deadline_ns:
                        log.info("serving from revision %d", self._published.view.revision)
                    self._published.hold(lease)
                case _:
                    assert_never(effect)
        self._deadline.set(self._holder.next_deadline_ns())
