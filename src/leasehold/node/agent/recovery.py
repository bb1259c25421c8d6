"""Drives `core/recovery/machine.py`: takes snapshots, says that recovery is finished, and tells how far it is."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import NoReturn, assert_never

import msgspec

from leasehold.core.recovery.events import (
    Accepted,
    Behind,
    DiskCompared,
    DiskComparison,
    EndAhead,
    Event,
    Opened,
    Overtaken,
    PageTaken,
    RenewNow,
    SegmentsCounted,
    SendFinished,
    SnapshotBegun,
    Stage,
    TakeSnapshot,
)
from leasehold.core.recovery.machine import Recovery
from leasehold.core.recovery.progress import in_words, segments_in_words
from leasehold.core.recovery.staging import bad_snapshot
from leasehold.core.words.messages import (
    AskSnapshot,
    Message,
    RecoveryAccepted,
    RecoveryBehind,
    RecoveryFinished,
    RecoveryProgress,
    SessionOpened,
    SnapshotBegin,
    SnapshotEnd,
    SnapshotPage,
    WatchFailed,
)
from leasehold.core.words.time_passed import TimePassed
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadMessage, Refused, Unreachable
from leasehold.ids import Revision, Session
from leasehold.limits.recovery import (
    BAD_SNAPSHOTS_MAX,
    RECOVERY_LOG_NS,
    RECOVERY_PROGRESS_NS,
    SNAPSHOT_BUSY_REST_NS,
    SNAPSHOT_TIMEOUT_NS,
)
from leasehold.node.agent.projection import Projection
from leasehold.node.agent.published import Published
from leasehold.wire.ports import Clock, Connection

log = logging.getLogger(__name__)


class StreamStale(Exception):
    """The node has leapt; the next stream starts where it is now."""


class Recovering:
    """The recovery of one process, for its life."""

    def __init__(
        self,
        *,
        recovery: Recovery,
        published: Published,
        projection: Projection,
        session: Session,
        clock: Clock,
        post: Callable[[Message], None],
        renew: Callable[[], None],
        on_comparable: Callable[[], None],
    ) -> None:
        self.recovery = recovery
        self._published = published
        self._projection = projection
        self._session = session
        self._clock = clock
        self._post = post
        self._renew = renew
        self._on_comparable = on_comparable
        self._snapshot_due = asyncio.Event()
        self._telling = asyncio.Event()
        self._bad_snapshots = 0
        self._logged_ns = 0
        self._logged_segments = ""

    # ------------------------------------------------------------ what the agent hears

    def opened(self, opened: SessionOpened) -> None:
        """A stream is open. Raises `Refused` with code AHEAD_OF_CLUSTER in case d."""
        self._snapshot_due.clear()
        self._telling.set()
        self.step(
            Opened(
                latest=opened.latest,
                minimum=opened.minimum,
                live_keys=opened.live_keys,
                catch_up_difference=opened.catch_up_difference,
                member=opened.member,
            )
        )

    def overtaken(self, failed: WatchFailed) -> None:
        """The watch can't go on; a snapshot is taken. Raises `Refused` where none helps."""
        if failed.code != ErrorCode.COMPACTED:
            shown = self._published.view.revision
            text = f"this directory has applied revision {shown}, the cluster has not reached it"
            raise Refused(text, code=ErrorCode.AHEAD_OF_CLUSTER)
        self.step(Overtaken(minimum=failed.minimum))

    def answered(self, answer: RecoveryAccepted | RecoveryBehind) -> None:
        """The leader's answer to `RecoveryFinished`."""
        match answer:
            case RecoveryAccepted(required=required):
                self.step(Accepted(required=required))
            case RecoveryBehind(latest=latest, catch_up_difference=difference):
                log.info("revision %d is still too far behind %d", self._projection.durable.revision, latest)
                self.step(Behind(latest=latest, catch_up_difference=difference))
            case _:
                assert_never(answer)

    @property
    def leaping(self) -> bool:
        """Whether what the watch of this stream brings is of no use: a snapshot was asked for. So it stays until the
        next stream, since after the leap this one still brings what does not follow from there."""
        return self._snapshot_due.is_set()

    def compared(self, comparison: DiskComparison, kept: int, missing: int) -> None:
        """The reconciler has compared the disk."""
        log.info("segments: %d kept, %d missing", kept, missing)
        self.step(DiskCompared(number=comparison.number, kept=kept, missing=missing))
        self._telling.set()

    def counted(self, fetched: int, evicted: int, missing: int | None) -> None:
        """The reconciler has got on, if anything of that is news."""
        before = self._segments()
        self.step(SegmentsCounted(fetched=fetched, evicted=evicted, missing=missing))
        if self._segments() != before:
            self._telling.set()

    def _segments(self) -> tuple[int, int, int]:
        told = self.recovery.progress(self._clock.now_ns())
        return told.segments_fetched, told.segments_missing, told.segments_evicted

    def step(self, event: Event) -> None:
        """Feeds the recovery, and does what it says."""
        before = self.recovery.stage
        for effect in self.recovery.step(event, self._clock.now_ns()):
            match effect:
                case TakeSnapshot():
                    self._snapshot_due.set()
                case SendFinished(applied=applied):
                    self._post(self._finished(applied))
                case RenewNow():
                    self._renew()
                case EndAhead(applied=applied, latest=latest):
                    text = f"this directory has applied revision {applied}, the cluster is only at {latest}"
                    raise Refused(text, code=ErrorCode.AHEAD_OF_CLUSTER)
                case _:
                    assert_never(effect)
        due = self.recovery.comparison_due
        if due is not None and due.revision <= self._projection.durable.revision:
            self._on_comparable()
        self._say(before)

    # ------------------------------------------------------------ what runs beside a stream

    async def leap_when_due(self, connection: Connection) -> None:
        """Takes a snapshot once one is due, then ends the stream by `StreamStale`."""
        await self._snapshot_due.wait()
        while True:
            try:
                await self._take_snapshot(connection)
            except Refused as refused:
                await self._rest_after(refused)
            else:
                self._bad_snapshots = 0
                raise StreamStale

    async def _rest_after(self, refused: Refused) -> None:
        """Returns when to ask again; raises what can't be helped by that."""
        if refused.code == ErrorCode.BUSY:
            await self._clock.sleep_until(self._clock.now_ns() + SNAPSHOT_BUSY_REST_NS)
            return
        if refused.code == ErrorCode.BAD_SNAPSHOT:
            self._bad_snapshots += 1
            if self._bad_snapshots < BAD_SNAPSHOTS_MAX:
                log.warning("%s; asking for a new one", refused.text)
                return
        raise refused

    async def _take_snapshot(self, connection: Connection) -> None:
        published = self._published
        request = AskSnapshot(
            cluster_id=published.cluster_id,
            node=published.node,
            incarnation=published.incarnation,
            session=self._session,
        )
        messages = connection.stream(request, timeout_ns=SNAPSHOT_TIMEOUT_NS)
        try:
            await self._projection.leap(await self._stage(messages))
        finally:
            if isinstance(messages, AsyncGenerator):
                await messages.aclose()

    async def _stage(self, messages: AsyncIterator[Message]) -> SnapshotEnd:
        """Hands the pages to the vault as they come."""
        begin: SnapshotBegin | None = None
        async for message in messages:
            match message:
                case SnapshotBegin() if begin is None:
                    begin = message
                    await self._projection.stage((), first=True)
                    self.step(SnapshotBegun(revision=begin.revision, keys=begin.keys))
                    log.info("taking a snapshot of revision %d, %d keys", begin.revision, begin.keys)
                case SnapshotPage(items=items) if begin is not None:
                    await self._projection.stage(items, first=False)
                    self.step(PageTaken(keys=len(items)))
                case SnapshotEnd() if begin is not None:
                    self._check(begin, message)
                    return message
                case _:
                    raise BadMessage(f"unexpected message in a snapshot: {type(message).__name__}")
        raise Unreachable("the snapshot stopped before its end", hint="the node asks for a new one")

    def _check(self, begin: SnapshotBegin, end: SnapshotEnd) -> None:
        keys = self.recovery.keys
        if end.revision != begin.revision:
            raise bad_snapshot(f"it begins at revision {begin.revision} and ends at {end.revision}")
        if end.keys != keys:
            raise bad_snapshot(f"{keys} keys came, {end.keys} were sent")

    async def tell(self) -> NoReturn:
        """Tells the leader how far it is, again and again while something goes on, and once at the end of it."""
        while True:
            await self._telling.wait()
            self._telling.clear()
            while self.recovery.busy:
                self._post(self._progress())
                await self._clock.sleep_until(self._clock.now_ns() + RECOVERY_PROGRESS_NS)
                self._log_progress()
                self.step(TimePassed())
            if self.recovery.stage is not Stage.STOPPED:  # who has surrendered says nothing after that
                self._post(self._progress())
                # A member gets segments and evicts others one by one: they are told of some at a time.
                await self._clock.sleep_until(self._clock.now_ns() + RECOVERY_PROGRESS_NS)
                self._log_segments()

    # ------------------------------------------------------------ what is said of it

    def _finished(self, applied: Revision) -> RecoveryFinished:
        published = self._published
        return RecoveryFinished(
            node=published.node, incarnation=published.incarnation, session=self._session, applied=applied
        )

    def _progress(self) -> RecoveryProgress:
        published, progress = self._published, self.recovery.progress(self._clock.now_ns())
        return RecoveryProgress(
            node=published.node,
            incarnation=published.incarnation,
            session=self._session,
            **msgspec.structs.asdict(progress),
        )

    def _log_progress(self) -> None:
        now_ns = self._clock.now_ns()
        if now_ns < self._logged_ns + RECOVERY_LOG_NS or not self.recovery.busy:
            return
        self._logged_ns = now_ns
        if self.recovery.stage is Stage.MEMBER:
            self._log_segments()
        else:
            log.info("recovering by %s", in_words(self.recovery.progress(now_ns)))

    def _log_segments(self) -> None:
        """What a member has got and evicted, if that is news."""
        words = segments_in_words(self.recovery.progress(self._clock.now_ns()))
        if self.recovery.stage is Stage.MEMBER and words != self._logged_segments:
            self._logged_segments = words
            log.info("serving; %s", words)

    def _say(self, before: Stage) -> None:
        """Logs a step that people wait for."""
        stage, now_ns = self.recovery.stage, self._clock.now_ns()
        if stage is before:
            return
        if stage is Stage.LEAPING or (stage is Stage.REPLAYING and before is not Stage.ASKING):
            self._logged_ns = now_ns
            log.info("recovering by %s", in_words(self.recovery.progress(now_ns)))
        elif before is Stage.ASKING and stage in {Stage.ADMITTED, Stage.MEMBER}:
            progress = self.recovery.progress(now_ns)
            self._logged_segments = segments_in_words(progress)
            log.info("recovered by %s", in_words(progress))
        if self.recovery.busy:
            self._telling.set()
