"""The queues of a session at the leader: messages for the node, and its reports. Bounded in messages and bytes."""

import asyncio

from leasehold.core.replicas.reports import Report
from leasehold.core.words.messages import Message, TableCleaned, Watched, WatchFailed
from leasehold.limits.requests import COMMANDS_PER_TRANSACTION_MAX
from leasehold.limits.sessions import (
    SESSION_QUEUE_MESSAGES_MAX,
    SESSION_REPORTS_BYTES_MAX,
    SESSION_REVISIONS_BYTES_MAX,
    SESSION_REVISIONS_MAX,
)
from leasehold.metastorage.transaction import bytes_of_changes


class Outbox:
    """Messages for one node, in order. A revision waits for room before it enters; any other message enters at once, as
    a grant must."""

    def __init__(self, *, revisions_bytes_max: int = SESSION_REVISIONS_BYTES_MAX) -> None:
        self._revisions_bytes_max = revisions_bytes_max
        self._waiting: asyncio.Queue[tuple[Message, int]] = asyncio.Queue(SESSION_QUEUE_MESSAGES_MAX)
        self._revisions = 0
        self._revisions_bytes = 0
        self._taken = asyncio.Event()

    def put(self, message: Message) -> None:
        """Adds a message. Raises `asyncio.QueueFull` over SESSION_QUEUE_MESSAGES_MAX."""
        self._waiting.put_nowait((message, 0))

    async def put_in_turn(self, message: Watched | WatchFailed) -> None:
        """Adds a revision, within SESSION_REVISIONS_MAX and `revisions_bytes_max`, or alone; for one producer."""
        size = bytes_of_changes(message.batch.changes) if isinstance(message, Watched) else 0
        while self._waiting.full() or (self._revisions and not self._takes(size)):
            self._taken.clear()
            await self._taken.wait()
        self._waiting.put_nowait((message, size))
        self._revisions += 1
        self._revisions_bytes += size

    def _takes(self, size: int) -> bool:
        return self._revisions < SESSION_REVISIONS_MAX and self._revisions_bytes + size <= self._revisions_bytes_max

    async def get(self) -> Message:
        message, size = await self._waiting.get()
        if isinstance(message, Watched | WatchFailed):
            self._revisions -= 1
            self._revisions_bytes -= size
        self._taken.set()
        return message


class ReportQueue:
    """The reports of one node, in order. They take up room until they are `done`."""

    def __init__(self, *, bytes_max: int = SESSION_REPORTS_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._waiting: asyncio.Queue[Report] = asyncio.Queue(SESSION_QUEUE_MESSAGES_MAX)
        self._bytes = 0
        self._taken = asyncio.Event()

    async def put(self, report: Report) -> None:
        """Adds a report, within `bytes_max`, or alone; for one producer."""
        size = _reported_bytes(report)
        while self._bytes and self._bytes + size > self._bytes_max:
            self._taken.clear()
            await self._taken.wait()
        self._bytes += size
        await self._waiting.put(report)

    async def get(self) -> list[Report]:
        """Takes up to COMMANDS_PER_TRANSACTION_MAX reports, at least one; the caller passes them to `done`."""
        reports = [await self._waiting.get()]
        while not self._waiting.empty() and len(reports) < COMMANDS_PER_TRANSACTION_MAX:
            reports.append(self._waiting.get_nowait())
        return reports

    def done(self, reports: list[Report]) -> None:
        for one in reports:
            self._bytes -= _reported_bytes(one)
            self._waiting.task_done()
        self._taken.set()

    async def all_done(self) -> None:
        """Waits until all reports are done."""
        await self._waiting.join()


def _reported_bytes(report: Report) -> int:
    return 0 if isinstance(report, TableCleaned) else sum(map(len, report.segments))
