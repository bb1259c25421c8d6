"""Drives `core/recovery/machine.py`: takes snapshots, and reports progress and the end to the leader."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import NoReturn, assert_never

import msgspec

from leasehold.core.membership.identity import Joined
from leasehold.core.recovery import events
from leasehold.core.recovery.events import Stage
from leasehold.core.recovery.machine import Recovery
from leasehold.core.recovery.progress import in_words, segments_in_words
from leasehold.core.recovery.staging import bad_snapshot
from leasehold.core.words import messages
from leasehold.core.words.messages import Message
from leasehold.core.words.time_passed import TimePassed
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadMessage, Refused, Unreachable
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
    """The recovery of one process, over all its streams."""

    def __init__(
        self,
        *,
        joined: Joined,
        compares_disk: bool,
        published: Published,
        projection: Projection,
        clock: Clock,
        post: Callable[[Message], None],
        renew: Callable[[], None],
        on_comparable: Callable[[], None],
    ) -> None:
        self.recovery = Recovery(
            applied=published.view.revision,
            history_known=joined.history_known,
            compares_disk=compares_disk,
            now_ns=clock.now_ns(),
        )
        self._published = published
        self._projection = projection
        self._clock = clock
        self._post = post
        self._renew = renew
        self._on_comparable = on_comparable
        self._snapshot_due = asyncio.Event()
        self._telling = asyncio.Event()
        self._bad_snapshots = 0
        self._logged_ns = 0
        self._logged_segments = ""

    def opened(self, opened: messages.SessionOpened) -> None:
        """A stream is open. Raises `Refused` with code AHEAD_OF_CLUSTER in case d."""
        self._snapshot_due.clear()
        self._telling.set()
        self.step(
            events.Opened(
                latest=opened.latest,
                minimum=opened.minimum,
                live_keys=opened.live_keys,
                catch_up_difference=opened.catch_up_difference,
                member=opened.member,
            )
        )

    def overtaken(self, failed: messages.WatchFailed) -> None:
        """The watch can't go on; a snapshot is taken. Raises `Refused` where none helps."""
        if failed.code != ErrorCode.COMPACTED:
            shown = self._published.view.revision
            text = f"this directory has applied revision {shown}, the cluster has not reached it"
            raise Refused(text, code=ErrorCode.AHEAD_OF_CLUSTER)
        self.step(events.Overtaken(minimum=failed.minimum))

    def answered(self, answer: messages.RecoveryAccepted | messages.RecoveryBehind) -> None:
        match answer:
            case messages.RecoveryAccepted(required=required):
                self.step(events.Accepted(required=required))
            case messages.RecoveryBehind(latest=latest, catch_up_difference=difference):
                log.info("revision %d is still too far behind %d", self._projection.durable.revision, latest)
                self.step(events.Behind(latest=latest, catch_up_difference=difference))
            case _:
                assert_never(answer)

    @property
    def leaping(self) -> bool:
        """Whether a snapshot was asked for. Then the watch is ignored until the next stream: after the leap, its
        revisions do not follow from the view."""
        return self._snapshot_due.is_set()

    def compared(self, comparison: events.DiskComparison, kept: int, missing: int) -> None:
        log.info("segments: %d kept, %d missing", kept, missing)
        self.step(events.DiskCompared(number=comparison.number, kept=kept, missing=missing))
        self._telling.set()

    def counted(self, fetched: int, evicted: int, missing: int | None) -> None:
        """Counts segments that the reconciler fetched or evicted, and tells the leader if something has changed."""
        before = self._segments()
        self.step(events.SegmentsCounted(fetched=fetched, evicted=evicted, missing=missing))
        if self._segments() != before:
            self._telling.set()

    def _segments(self) -> tuple[int, int, int]:
        told = self.recovery.progress(self._clock.now_ns())
        return told.segments_fetched, told.segments_missing, told.segments_evicted

    def step(self, event: events.Event) -> None:
        """Feeds the recovery, and carries out its effects."""
        before = self.recovery.stage
        for effect in self.recovery.step(event, self._clock.now_ns()):
            match effect:
                case events.TakeSnapshot():
                    self._snapshot_due.set()
                case events.SendFinished(applied=applied):
                    self._post(messages.RecoveryFinished(**self._published.speaker(), applied=applied))
                case events.RenewNow():
                    self._renew()
                case events.EndAhead(applied=applied, latest=latest):
                    text = f"this directory has applied revision {applied}, the cluster is only at {latest}"
                    raise Refused(text, code=ErrorCode.AHEAD_OF_CLUSTER)
                case _:
                    assert_never(effect)
        due = self.recovery.comparison_due
        if due is not None and due.revision <= self._projection.durable.revision:
            self._on_comparable()
        self._say(before)

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
        """Returns when it is time to ask for another snapshot; raises a refusal that this can't help."""
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
        request = messages.AskSnapshot(cluster_id=self._published.cluster_id, **self._published.speaker())
        pages = connection.stream(request, timeout_ns=SNAPSHOT_TIMEOUT_NS)
        try:
            await self._projection.leap(await self._stage(pages))
        finally:
            if isinstance(pages, AsyncGenerator):
                await pages.aclose()

    async def _stage(self, pages: AsyncIterator[Message]) -> messages.SnapshotEnd:
        begin: messages.SnapshotBegin | None = None
        async for message in pages:
            match message:
                case messages.SnapshotBegin() if begin is None:
                    begin = message
                    await self._projection.stage((), first=True)
                    self.step(events.SnapshotBegun(revision=begin.revision, keys=begin.keys))
                    log.info("taking a snapshot of revision %d, %d keys", begin.revision, begin.keys)
                case messages.SnapshotPage(items=items) if begin is not None:
                    await self._projection.stage(items, first=False)
                    self.step(events.PageTaken(keys=len(items)))
                case messages.SnapshotEnd() if begin is not None:
                    self._check(begin, message)
                    return message
                case _:
                    raise BadMessage(f"unexpected message in a snapshot: {type(message).__name__}")
        raise Unreachable("the snapshot stopped before its end", hint="the node asks for a new one")

    def _check(self, begin: messages.SnapshotBegin, end: messages.SnapshotEnd) -> None:
        keys = self.recovery.keys
        if end.revision != begin.revision:
            raise bad_snapshot(f"it begins at revision {begin.revision} and ends at {end.revision}")
        if end.keys != keys:
            raise bad_snapshot(f"{keys} keys came, {end.keys} were sent")

    async def tell(self) -> NoReturn:
        """Reports progress to the leader, repeatedly while there is some, and once at its end."""
        while True:
            await self._telling.wait()
            self._telling.clear()
            while self.recovery.busy:
                self._post(self._progress())
                await self._clock.sleep_until(self._clock.now_ns() + RECOVERY_PROGRESS_NS)
                self._log_progress()
                self.step(TimePassed())
            if self.recovery.stage is not Stage.STOPPED:
                self._post(self._progress())
                # A member fetches and evicts segments one by one: several of them share a report.
                await self._clock.sleep_until(self._clock.now_ns() + RECOVERY_PROGRESS_NS)
                self._log_segments()

    def _progress(self) -> messages.RecoveryProgress:
        progress = self.recovery.progress(self._clock.now_ns())
        return messages.RecoveryProgress(**self._published.speaker(), **msgspec.structs.asdict(progress))

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
        """Logs how many segments a member has fetched and evicted, if that has changed."""
        words = segments_in_words(self.recovery.progress(self._clock.now_ns()))
        if self.recovery.stage is Stage.MEMBER and words != self._logged_segments:
            self._logged_segments = words
            log.info("serving; %s", words)

    def _say(self, before: Stage) -> None:
        """Logs a change of stage that people wait for."""
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
