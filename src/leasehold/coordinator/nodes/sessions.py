"""Sessions: one stream per node process, with renewals and acknowledgements in, grants and whole revisions out."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TypeAlias, assert_never

import msgspec

from leasehold.coordinator.nodes.leases import Leasing
from leasehold.coordinator.nodes.open_session import EndedSession, OpenedSession
from leasehold.coordinator.nodes.topology import Topology
from leasehold.coordinator.stored_catalog import watched
from leasehold.coordinator.upkeep.retention import Retaining, reading_the_store
from leasehold.coordinator.writer import StoreDeclined
from leasehold.core.access.callers import check_caller, check_counts
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.lease.grants import EndReportReceived, SurrenderReceived
from leasehold.core.membership.speaker import check_speaker
from leasehold.core.replicas.reports import Report
from leasehold.core.words import messages
from leasehold.core.words.keys import REVOKED_CERTIFICATES
from leasehold.core.words.operations import RevisionChanges
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadMessage, Definite, Forbidden, LeaseholdError, NotLeader, Refused, Unreachable, gravest
from leasehold.ids import NodeId, Term
from leasehold.limits.lease import LEADER_RETRY_NS, RENEWAL_INTERVAL_NS
from leasehold.limits.replication import SEGMENTS_PER_REPORT_MAX
from leasehold.limits.sessions import KEEPALIVE_TIMEOUT_NS, SESSION_IDLE_NS, SESSION_OPENING_NS, SESSIONS_UNOPENED_MAX
from leasehold.metastorage.contract import Compacted, FutureRevision, MetaStorage, StorageStatus
from leasehold.wire.ports import CALLER, Clock, Duplex
from leasehold.wire.tasks import BoundedWaits

Spoken: TypeAlias = (
    messages.Renewal | messages.Surrender | messages.RecoveryFinished | messages.RecoveryProgress | Report
)
"""The messages of a node on its open session."""

log = logging.getLogger(__name__)


class Sessions:
    """All open sessions of this leader. `live_keys` tells how many keys a snapshot would have, `prove` answers the
    challenge of a node that is about to open a session."""

    def __init__(
        self,
        storage: MetaStorage,
        term: Term,
        catalog: Callable[[], Catalog],
        acknowledge: Callable[[Report], Awaitable[None]],
        *,
        clock: Clock,
        leasing: Leasing,
        topology: Topology,
        retaining: Retaining,
        live_keys: Callable[[], int],
        prove: Callable[[messages.ChallengeCoordinator], messages.CoordinatorProof],
    ) -> None:
        self._storage = storage
        self._term = term
        self._catalog = catalog
        self._acknowledge = acknowledge
        self._clock = clock
        self._leasing = leasing
        self._topology = topology
        self._retaining = retaining
        self._live_keys = live_keys
        self._prove = prove
        self._open: dict[NodeId, OpenedSession] = {}
        self._began_ns = clock.now_ns()
        self._ended: dict[NodeId, EndedSession] = {}
        self._failing: set[NodeId] = set()
        self.on_failing: Callable[[], None] = lambda: None
        """Called when it is first heard that the disk of a node fails."""
        self._unopened = BoundedWaits(SESSIONS_UNOPENED_MAX, SESSION_OPENING_NS)

    def connected(self, node: NodeId) -> bool:
        """Whether a session of the node's newest incarnation is open; a hint, never a proof."""
        one, record = self._open.get(node), self._catalog().nodes.get(node)
        return one is not None and record is not None and one.incarnation == record.incarnation

    def silences(self) -> tuple[messages.Silence, ...]:
        """How long ago the last message came on each open session, and what it said of the node's disk."""
        now_ns = self._clock.now_ns()
        return tuple(
            messages.Silence(node=node, silent_ns=now_ns - one.heard_ns, disk_failing=one.disk_failing)
            for node, one in sorted(self._open.items())
            if self.connected(node)
        )

    def certificate_ends_s(self) -> dict[NodeId, int]:
        """When the certificates of connected nodes end, in seconds since 1970 UTC."""
        open_ = ((node, one.caller) for node, one in self._open.items() if self.connected(node))
        return {node: caller.ends_s for node, caller in open_ if caller is not None}

    @property
    def heard_ns(self) -> int:
        """When the last message came on a session that is open; 0 where none is."""
        return max((one.heard_ns for one in self._open.values()), default=0)

    def disks_full(self) -> tuple[NodeId, ...]:
        return tuple(node for node, one in sorted(self._open.items()) if one.disk_full and self.connected(node))

    def disks_failing(self) -> frozenset[NodeId]:
        """The nodes whose last process that was heard had a disk that fails; also if that process has ended since."""
        return frozenset(self._failing)

    def ends(self) -> tuple[messages.SessionEnd, ...]:
        """How the last session of each node ended that has none now."""
        now_ns, nodes = self._clock.now_ns(), self._catalog().nodes
        return tuple(
            messages.SessionEnd(node=node, how=one.how, ago_ns=now_ns - one.at_ns)
            for node, one in sorted(self._ended.items())
            if node not in self._open and (known := nodes.get(node)) is not None
            if not known.removed and known.incarnation == one.incarnation
        )

    def absent_since_ns(self, node: NodeId) -> int | None:
        """Since when no session of the node's newest incarnation is open, by this leader; None while one is."""
        if self.connected(node):
            return None
        ended = self._ended.get(node)
        return self._began_ns if ended is None else ended.at_ns

    async def serve(self, duplex: Duplex) -> None:
        """Serves one stream until either side ends it, or it is silent for too long (R20)."""
        opening = await self._opening(duplex)
        caller = CALLER.get()
        check_caller(opening, caller, self._catalog())
        check_speaker(opening, self._catalog())
        one = OpenedSession(incarnation=opening.incarnation, heard_ns=self._clock.now_ns(), caller=caller)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._watch(opening, one))]
                await asyncio.sleep(0)  # the watch has begun, and only now LM is read (R5)
                with reading_the_store():
                    status = await self._storage.status()
                self._register(opening, one, status)
                tasks += [
                    group.create_task(self._receive(duplex, opening, one)),
                    group.create_task(_forward(one, duplex)),
                    group.create_task(self._acknowledge_in_turn(one)),
                    group.create_task(self._finish_in_turn(one)),
                    group.create_task(self._end_if_silent(opening, one)),
                ]
                await one.ended.wait()
                for task in tasks:
                    task.cancel()
            if one.error is not None:
                raise one.error
        except BaseExceptionGroup as errors:
            gravest_error = gravest(errors)
            if not isinstance(gravest_error, Unreachable):
                one.how = "REFUSED"
                raise gravest_error from errors
            # The node is gone or cut off: its lease ends, and it comes back by itself.
            if one.how not in {"SURRENDERED", "ENDED"}:
                one.how = self._how_broken(one)
        finally:
            if self._open.get(opening.node) is one:
                del self._open[opening.node]
                self._ended[opening.node] = EndedSession(one.incarnation, one.how, self._clock.now_ns())

    def _how_broken(self, one: OpenedSession) -> str:
        """A guess, since the transport gives no reason. The kernel closes the connection of a process that has ended at
        once. The keepalive breaks that of a silent one only after KEEPALIVE_TIMEOUT_NS."""
        silent_ns = self._clock.now_ns() - one.heard_ns
        return "GONE" if silent_ns < KEEPALIVE_TIMEOUT_NS else "NO_ANSWER"

    async def _opening(self, duplex: Duplex) -> messages.OpenSession:
        """The first message of a stream, or the one after a challenge; within SESSION_OPENING_NS."""
        try:
            async with self._unopened.wait():
                opening = await duplex.receive()
                if isinstance(opening, messages.ChallengeCoordinator):
                    await duplex.send(self._prove(opening))
                    opening = await duplex.receive()
        except TimeoutError as error:
            text = "the first message of the session did not arrive"
            raise Unreachable(text, code=ErrorCode.SILENT, hint="the node asks again") from error
        if not isinstance(opening, messages.OpenSession):
            raise Refused(
                "the first message of a session must be OpenSession",
                code=ErrorCode.BAD_MESSAGE,
                hint="upgrade the node",
            )
        return opening

    def _register(self, opening: messages.OpenSession, one: OpenedSession, status: StorageStatus) -> None:
        """Without an await, so that no newer process can come in between."""
        catalog = self._catalog()
        check_speaker(opening, catalog)
        check_counts(one.caller, catalog)
        if opening.watch_from > status.latest + 1:
            raise Refused(
                f"a watch from revision {opening.watch_from}, the newest one is {status.latest}",
                code=ErrorCode.AHEAD_OF_CLUSTER,
                hint="the meta storage may have been restored from an older backup",
            )
        assert catalog.settings is not None
        older = self._open.get(opening.node)
        if older is not None:
            older.ended.set()  # the same process has come back on a new stream
        self._retaining.followed(opening.node, opening.watch_from, status.latest)
        one.outbox.put(
            messages.SessionOpened(
                term=self._term,
                renew_every_ns=RENEWAL_INTERVAL_NS,
                latest=status.latest,
                minimum=status.minimum,
                live_keys=self._live_keys(),
                catch_up_difference=catalog.settings.catch_up_difference,
                member=catalog.nodes[opening.node].member,
            )
        )
        self._leasing.seals.keys.learn(opening.node, opening.incarnation, opening.seal_key)
        self._open[opening.node] = one
        one.opened.set()

    def process_ended(self, report: messages.ReportProcessEnd) -> messages.Message:
        """Closes the incarnation of a process that has ended, and its session; one that is past is closed already.
        Raises `NotLeader` where nothing proves it to this leader."""
        node = self._catalog().nodes.get(report.node)
        if node is not None and (node.removed or report.incarnation < node.incarnation):
            return messages.ProcessEndReported()
        answers: list[messages.Message] = []
        self._leasing.step(EndReportReceived(report=report), answers.append)
        if not answers:
            raise NotLeader(
                f"nothing proves here that incarnation {report.incarnation} of node {report.node} has ended",
                hint="no action is needed: another coordinator may know of it, and its lease ends by the clock",
            )
        one, last = self._open.get(report.node), self._ended.get(report.node)
        if one is not None and one.incarnation == report.incarnation:
            one.how = "ENDED"
            one.ended.set()
        elif last is None or (last.incarnation, last.how) != (report.incarnation, "SURRENDERED"):
            self._ended[report.node] = EndedSession(report.incarnation, "ENDED", self._clock.now_ns())
        if report.disk_failing:
            self._has_failing_disk(report.node)
        self._topology.closed()
        return answers[0]

    def end(self, node: NodeId, error: LeaseholdError) -> None:
        """Ends the session of a node, if one is open, with an error for the node."""
        one = self._open.get(node)
        if one is not None:
            one.error, one.how = error, "REFUSED"
            one.ended.set()

    def committed(self, batch: RevisionChanges, catalog: Catalog) -> None:
        """Ends the sessions whose certificate was revoked."""
        if not any(change.key.startswith(REVOKED_CERTIFICATES) for change in batch.changes):
            return
        for node, one in self._open.items():
            try:
                check_counts(one.caller, catalog)
            except Forbidden as error:
                self.end(node, error)

    async def _receive(self, duplex: Duplex, opening: messages.OpenSession, one: OpenedSession) -> None:
        while True:
            message = await duplex.receive()
            one.heard_ns = self._clock.now_ns()
            if message is None:
                break
            if not isinstance(message, Spoken):
                raise BadMessage(f"unexpected message on a session: {type(message).__name__}")
            _check_own(message, opening)
            await self._take(message, one)
        one.ended.set()

    async def _take(self, message: Spoken, one: OpenedSession) -> None:
        match message:
            case messages.Renewal():
                one.heard_disk(message)
                self._heard_disk(message)
                self._leasing.renew(message, one.reply)
            case messages.Surrender():
                one.how = "SURRENDERED"
                self._leasing.step(SurrenderReceived(surrender=message), one.reply)
                self._topology.closed()
            case messages.RecoveryFinished():
                one.finished = message
                one.recovered.set()
            case messages.RecoveryProgress():
                self._topology.progressed(message)
            case messages.SegmentsHeld() | messages.SegmentsMissing() | messages.TableCleaned():
                if not isinstance(message, messages.TableCleaned) and len(message.segments) > SEGMENTS_PER_REPORT_MAX:
                    text = f"a report of {len(message.segments)} segments, over {SEGMENTS_PER_REPORT_MAX}"
                    raise BadMessage(text)
                if self._leasing.live_incarnations([message.node]).get(message.node) == message.incarnation:
                    await one.reports.put(message)
            case _:
                assert_never(message)

    def _heard_disk(self, renewal: messages.Renewal) -> None:
        if not renewal.disk_failing:
            self._failing.discard(renewal.node)
        elif self.connected(renewal.node):
            self._has_failing_disk(renewal.node)

    def _has_failing_disk(self, node: NodeId) -> None:
        if node not in self._failing:
            self._failing.add(node)
            self.on_failing()

    async def _finish_in_turn(self, one: OpenedSession) -> None:
        """In a task of its own, since renewals must not wait for a disk."""
        while True:
            await one.recovered.wait()
            one.recovered.clear()
            # Segments that it reported missing before count first (I7).
            await one.reports.all_done()
            assert one.finished is not None
            answer = await self._topology.finish(one.finished)
            if answer is not None:
                one.reply(answer)

    async def _end_if_silent(self, opening: messages.OpenSession, one: OpenedSession) -> None:
        while (until_ns := one.heard_ns + SESSION_IDLE_NS) > self._clock.now_ns():
            await self._clock.sleep_until(until_ns)
        log.warning("closing the session of node %d: it was silent for too long", opening.node)
        one.how = "NO_ANSWER"
        one.ended.set()

    async def _acknowledge_in_turn(self, one: OpenedSession) -> None:
        """In a task of its own, since renewals must not wait for a disk. Waiting reports share transactions."""
        while True:
            waiting = await one.reports.get()
            await asyncio.gather(*map(self._acknowledge_whole, waiting))
            one.reports.done(waiting)

    async def _acknowledge_whole(self, message: Report) -> None:
        """Acknowledges a report; halves one that is too large. A refusal does not end the session: the node will report
        again. Missing segments are retried until the node has entered, since they have to count before that (I7)."""
        try:
            while True:
                try:
                    await self._acknowledge(message)
                    return
                except StoreDeclined as error:
                    waits = isinstance(message, messages.SegmentsMissing) and error.code != ErrorCode.TOO_LARGE
                    if not waits or self._topology.has_entered(message.node):
                        raise
                    log.warning(
                        "the report of node %d about missing segments of table %d waits: %s",
                        message.node,
                        message.table,
                        error,
                    )
                    await self._clock.sleep_until(self._clock.now_ns() + LEADER_RETRY_NS)
        except Definite as error:
            if (
                not isinstance(message, messages.TableCleaned)
                and len(message.segments) > 1
                and error.code == ErrorCode.TOO_LARGE
            ):
                half = len(message.segments) // 2
                for part in (message.segments[:half], message.segments[half:]):
                    await self._acknowledge_whole(msgspec.structs.replace(message, segments=part))
                return
            log.warning(
                "the report of node %d about table %d was refused: %s (%s)",
                message.node,
                message.table,
                error.text,
                error.code,
            )

    async def _watch(self, opening: messages.OpenSession, one: OpenedSession) -> None:
        try:
            with reading_the_store():
                async with aclosing(watched(self._storage, opening.watch_from)) as batches:
                    async for batch in batches:
                        await one.opened.wait()
                        await one.outbox.put_in_turn(messages.Watched(batch=batch))
                        if self._open.get(opening.node) is one:
                            self._retaining.delivered(opening.node, batch.revision)
        except (Compacted, FutureRevision) as error:
            await one.opened.wait()
            with reading_the_store():
                minimum = (await self._storage.status()).minimum
            await one.outbox.put_in_turn(messages.WatchFailed(code=error.code, minimum=minimum))


def _check_own(message: Spoken, opening: messages.OpenSession) -> None:
    speaker = (message.node, message.incarnation, message.session)
    if speaker != (opening.node, opening.incarnation, opening.session):
        raise BadMessage("the message is of another process than this session")


async def _forward(one: OpenedSession, duplex: Duplex) -> None:
    while True:
        await duplex.send(await one.outbox.get())
