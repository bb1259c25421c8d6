"""The agent: a node's identity, its view of the catalog, and its lease, on one event loop.

It joins (`node/joining.py`), then follows the watch from the first revision its vault does not hold: each whole
revision becomes the published view, then the lease is renewed on it, and behind that it becomes durable in the
vault. Losing the connection changes nothing at once: the lease runs out by the clock, the agent keeps asking.
"""

import asyncio
import contextlib
import logging
from typing import assert_never

from leasehold.core import keys
from leasehold.core.catalog import Catalog
from leasehold.core.identity import Joined
from leasehold.core.lease import (
    Applied,
    Drained,
    GrantReceived,
    Holder,
    HolderEvent,
    PublishLease,
    SendRenewal,
    SendSurrender,
    SessionEstablished,
    SurrenderRequested,
    TimePassed,
)
from leasehold.core.messages import (
    Grant,
    Message,
    OpenSession,
    RenewalRefused,
    SegmentsHeld,
    SessionOpened,
    SurrenderAccepted,
    TableCleaned,
    Watched,
    WatchFailed,
)
from leasehold.core.operations import RevisionChanges
from leasehold.errors import Indefinite, NotInitialised, NotLeader, Refused, Superseded, Unreachable
from leasehold.ids import BucketNumber, ObjectId, Revision, SegmentId, Session, Term
from leasehold.limits import (
    RENEWAL_INTERVAL_NS,
    SESSION_QUEUE_MESSAGES_MAX,
    SURRENDER_WAIT_NS,
    VAULT_BATCH_REVISIONS_MAX,
    VAULT_DELAY_NS,
    WATCH_QUEUE_REVISIONS_MAX,
)
from leasehold.node.joining import Coordinators, Joiner
from leasehold.node.published import Published
from leasehold.wire.ports import Clock, Duplex, Entropy, Timer, Transport, Vault
from leasehold.wire.tasks import gravest_here

log = logging.getLogger(__name__)

FINAL = frozenset({"SUPERSEDED", "REMOVED", "DIVERGED", "OTHER_CLUSTER", "NOT_JOINED"})
"""Refusals of a renewal after which this process must not go on."""


class Agent:
    """One process of one node."""

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
        published: Published,
    ) -> None:
        self._coordinators = Coordinators(coordinators, transport, clock)
        self._vault = vault
        self._clock = clock
        self._published = published
        self._session = Session(entropy.hex_128())
        self._joiner = Joiner(
            name=name,
            address=address,
            session=self._session,
            coordinators=self._coordinators,
            vault=vault,
            clock=clock,
            entropy=entropy,
        )
        self._holder: Holder | None = None
        self._timer: Timer | None = None
        self._outbox: asyncio.Queue[Message] = asyncio.Queue(SESSION_QUEUE_MESSAGES_MAX)
        self._unsaved: asyncio.Queue[tuple[RevisionChanges, Catalog]] = asyncio.Queue(WATCH_QUEUE_REVISIONS_MAX)
        self._durable = Catalog()
        self._caught_up_at: Revision | None = None
        self._surrendered = asyncio.Event()

    # ------------------------------------------------------------ what others of this process use

    @property
    def durable(self) -> Catalog:
        """The newest catalog that the vault holds: what effects on disk may follow."""
        return self._durable

    @property
    def caught_up(self) -> bool:
        """Whether the vault holds what the cluster had when this process first connected."""
        return self._caught_up_at is not None and self._durable.revision >= self._caught_up_at

    async def report_held(self, table: ObjectId, bucket: BucketNumber, segments: tuple[SegmentId, ...]) -> None:
        """Tells the leader of segments that lie on this disk, verified. Lost if the session breaks: report again."""
        node, incarnation = self._published.node, self._published.incarnation
        await self._outbox.put(
            SegmentsHeld(
                node=node,
                incarnation=incarnation,
                session=self._session,
                table=table,
                bucket=bucket,
                segments=segments,
            )
        )

    async def report_cleaned(self, table: ObjectId) -> None:
        """Tells the leader that nothing of a dropped table is left here. Lost if the session breaks: report again."""
        node, incarnation = self._published.node, self._published.incarnation
        await self._outbox.put(TableCleaned(node=node, incarnation=incarnation, session=self._session, table=table))

    # ------------------------------------------------------------ the life of a process

    async def run(self) -> None:
        """Joins, then follows until cancelled. Raises the definite error that ends this process."""
        stored = await self._vault.projection()
        view = Catalog.restored(stored.applied, stored.lineage, stored.items)
        self._durable = view
        cluster_id, joined = await self._joiner.join(view)
        self._published.session = self._session
        # Before anybody is answered: who asks for a copy is told by the view.
        self._published.publish(view)
        self._published.joined(cluster_id, joined.node, joined.incarnation)
        log.info("joined as node %d, incarnation %d, from revision %d", joined.node, joined.incarnation, view.revision)
        self._holder = Holder(
            node=joined.node,
            incarnation=joined.incarnation,
            session=self._session,
            applied=view.revision,
            lineage=view.lineage,
            renew_every_ns=RENEWAL_INTERVAL_NS,
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._save())
                while True:
                    try:
                        await self._follow(joined)
                    except (Indefinite, NotInitialised, NotLeader) as error:
                        log.info("cut off: %s", error)
                        await self._coordinators.next()  # or restarting: ask again, the next one first
        finally:
            self._disarm()

    async def surrender(self) -> None:
        """Gives the lease back: nothing is served from the first line on. Waits a bounded time for the answer."""
        if self._holder is None:
            return
        log.info("giving the lease back")
        self._step(SurrenderRequested())
        self._step(Drained())
        deadline_ns = self._clock.now_ns() + SURRENDER_WAIT_NS
        timer = self._clock.call_at(deadline_ns, self._surrendered.set)
        await self._surrendered.wait()
        timer.cancel()

    # ------------------------------------------------------------ following

    async def _follow(self, joined: Joined) -> None:
        """One stream to one coordinator, until it breaks."""
        connection = self._coordinators.connect()
        try:
            duplex = await connection.session()
            view = self._published.view
            await duplex.send(
                OpenSession(
                    cluster_id=self._published.cluster_id,
                    node=joined.node,
                    incarnation=joined.incarnation,
                    session=self._session,
                    watch_from=Revision(view.revision + 1),
                )
            )
            opened = await duplex.receive()
            if not isinstance(opened, SessionOpened):
                raise Unreachable("the stream ended before it began", hint="the node asks again")
            assert self._holder is not None
            if opened.term < self._holder.term:
                raise Unreachable(f"a leader of term {opened.term}, which is over", hint="the node asks another")
            if self._caught_up_at is None:
                self._caught_up_at = opened.latest
            log.info("following term %d from revision %d of %d", opened.term, view.revision, opened.latest)
            _empty(self._outbox)
            self._step(SessionEstablished(term=opened.term))
            await self._converse(duplex, opened.term)
        finally:
            self._disarm()
            await connection.close()

    async def _converse(self, duplex: Duplex, term: Term) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._send(duplex))
                await self._receive(duplex, term)
        except BaseExceptionGroup as errors:
            raise gravest_here(errors) from errors

    async def _send(self, duplex: Duplex) -> None:
        while True:
            await duplex.send(await self._outbox.get())

    async def _receive(self, duplex: Duplex, term: Term) -> None:
        while True:
            message = await duplex.receive()
            match message:
                case None:
                    raise Unreachable("the coordinator ended the stream", hint="the node asks again")
                case Watched(batch=batch):
                    await self._apply(batch)
                case Grant():
                    if message.term == term:  # no other leader speaks on this stream
                        self._step(GrantReceived(grant=message))
                case RenewalRefused():
                    self._on_refused(message)
                case SurrenderAccepted():
                    self._surrendered.set()
                case WatchFailed(code=code, minimum=minimum):
                    revision = self._published.view.revision
                    raise Refused(
                        f"the changes after revision {revision} are gone, the oldest kept is {minimum}",
                        code=code,
                        hint="this directory is too far behind: start with an empty one and another --name",
                    )
                case _:
                    raise Refused(f"a {type(message).__name__} on a session", code="BAD_MESSAGE", hint="upgrade")

    def _on_refused(self, refused: RenewalRefused) -> None:
        assert self._holder is not None
        if not self._holder.awaits(refused.request):
            return  # not an answer to anything that this process asked
        if refused.code in FINAL:
            hint = "this process ends; `leasehold status` shows who serves"
            raise Superseded(refused.text, code=refused.code, hint=hint)
        if refused.code == "NOT_LEADER":
            raise Unreachable(refused.text, hint="the node asks another coordinator")

    async def _apply(self, batch: RevisionChanges) -> None:
        view = self._published.view
        if batch.revision <= view.revision:
            return  # delivered again after a reconnect (R10)
        view = view.applying(batch)
        self._published.publish(view)
        # A procedure that appears or moves on has a barrier waiting; one that is deleted has not.
        urgent = any(change.key.startswith(keys.PROCEDURES) and change.value is not None for change in batch.changes)
        self._step(Applied(revision=view.revision, lineage=view.lineage, urgent=urgent))
        await self._unsaved.put((batch, view))

    async def _save(self) -> None:
        """Makes revisions durable behind the view, as many at once as wait."""
        while True:
            batches = [await self._unsaved.get()]
            await self._clock.sleep_until(self._clock.now_ns() + VAULT_DELAY_NS)
            while not self._unsaved.empty() and len(batches) < VAULT_BATCH_REVISIONS_MAX:
                batches.append(self._unsaved.get_nowait())
            durable = batches[-1][1]
            await self._vault.apply([batch for batch, _ in batches], durable.lineage)
            self._durable = durable

    # ------------------------------------------------------------ the lease

    def _step(self, event: HolderEvent) -> None:
        """Feeds the holder; the clock is read before anything it says is sent."""
        assert self._holder is not None
        for effect in self._holder.step(event, self._clock.now_ns()):
            match effect:
                case SendRenewal(renewal=message) | SendSurrender(surrender=message):
                    self._post(message)
                case PublishLease(lease=lease):
                    now_ns = self._clock.now_ns()
                    if self._published.lease.deadline_ns <= now_ns < lease.deadline_ns:
                        log.info("serving from revision %d", self._published.view.revision)
                    self._published.lease = lease
                case _:
                    assert_never(effect)
        self._arm()

    def _post(self, message: Message) -> None:
        # Full: nothing leaves this node any more. The lease runs out, the stream breaks, and it starts afresh.
        with contextlib.suppress(asyncio.QueueFull):
            self._outbox.put_nowait(message)

    def _arm(self) -> None:
        self._disarm()
        assert self._holder is not None
        deadline_ns = self._holder.next_deadline_ns()
        if deadline_ns is not None:
            self._timer = self._clock.call_at(deadline_ns, lambda: self._step(TimePassed()))

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _empty(outbox: asyncio.Queue[Message]) -> None:
    """What a broken stream left is of no use on the next one."""
    while not outbox.empty():
        outbox.get_nowait()
