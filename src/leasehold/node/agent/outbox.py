"""What a node sends to its leader: queued for the stream that is open, and lost if that breaks."""

import asyncio
import contextlib

from leasehold.core.words.messages import Message, SegmentsHeld, SegmentsMissing, TableCleaned
from leasehold.ids import BucketNumber, ObjectId, SegmentId
from leasehold.limits.sessions import SESSION_QUEUE_MESSAGES_MAX
from leasehold.node.agent.published import Published
from leasehold.wire.ports import Duplex


class Reporter:
    """The reports of one process about its disk. They wait while the queue is full. A report that is lost has to be
    made again."""

    def __init__(self, published: Published) -> None:
        self._published = published
        self._outbox: asyncio.Queue[Message] = asyncio.Queue(SESSION_QUEUE_MESSAGES_MAX)

    async def report_held(self, table: ObjectId, bucket: BucketNumber, segments: tuple[SegmentId, ...]) -> None:
        report = SegmentsHeld(**self._published.speaker(), table=table, bucket=bucket, segments=segments)
        await self._outbox.put(report)

    async def report_missing(self, table: ObjectId, bucket: BucketNumber, segments: tuple[SegmentId, ...]) -> None:
        """Reports segments that this disk should hold and does not."""
        report = SegmentsMissing(**self._published.speaker(), table=table, bucket=bucket, segments=segments)
        await self._outbox.put(report)

    async def report_cleaned(self, table: ObjectId) -> None:
        """Reports that no file of a dropped table is left here."""
        await self._outbox.put(TableCleaned(**self._published.speaker(), table=table))

    def _post(self, message: Message) -> None:
        # A full queue means that the stream is stuck: it will break, and the next stream starts afresh.
        with contextlib.suppress(asyncio.QueueFull):
            self._outbox.put_nowait(message)

    async def _send(self, duplex: Duplex) -> None:
        while True:
            await duplex.send(await self._outbox.get())

    def _forget_unsent(self) -> None:
        while not self._outbox.empty():
            self._outbox.get_nowait()
