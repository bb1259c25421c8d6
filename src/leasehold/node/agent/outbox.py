"""What a node tells its leader of its disk: handed to the stream that is open, and lost with it."""

import asyncio
import contextlib

from leasehold.core.words.messages import Message, SegmentsHeld, SegmentsMissing, TableCleaned
from leasehold.ids import BucketNumber, ObjectId, SegmentId, Session
from leasehold.limits.sessions import SESSION_QUEUE_MESSAGES_MAX
from leasehold.node.agent.published import Published
from leasehold.wire.ports import Duplex


class Reporter:
    """Of one process; waits while too much waits for its stream."""

    def __init__(self, published: Published, session: Session) -> None:
        self._published = published
        self._session = session
        self._outbox: asyncio.Queue[Message] = asyncio.Queue(SESSION_QUEUE_MESSAGES_MAX)

    async def report_held(self, table: ObjectId, bucket: BucketNumber, segments: tuple[SegmentId, ...]) -> None:
        """Tells the leader of segments that lie on this disk, verified. Lost if the session breaks: report again."""
        await self._outbox.put(
            SegmentsHeld(
                node=self._published.node,
                incarnation=self._published.incarnation,
                session=self._session,
                table=table,
                bucket=bucket,
                segments=segments,
            )
        )

    async def report_missing(self, table: ObjectId, bucket: BucketNumber, segments: tuple[SegmentId, ...]) -> None:
        """Tells the leader of segments that this disk should hold and does not. Lost if the session breaks."""
        await self._outbox.put(
            SegmentsMissing(
                node=self._published.node,
                incarnation=self._published.incarnation,
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

    def _post(self, message: Message) -> None:
        # Full: nothing leaves this node any more. The lease runs out, the stream breaks, and it starts afresh.
        with contextlib.suppress(asyncio.QueueFull):
            self._outbox.put_nowait(message)

    async def _send(self, duplex: Duplex) -> None:
        while True:
            await duplex.send(await self._outbox.get())

    def _forget_unsent(self) -> None:
        """What a broken stream left is of no use on the next one."""
        while not self._outbox.empty():
            self._outbox.get_nowait()
