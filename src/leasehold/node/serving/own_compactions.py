"""Compactions that a node does by itself: it asks the leader for a task, does it, and says so
(`core/data/auto_compaction.py`). One at a time, and no faster than copies of segments (`repair_rate`)."""

import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

import msgspec

from leasehold.core.data.auto_compaction import has_automatic
from leasehold.core.words.messages import (
    AskCompaction,
    CompactionTask,
    CompactTicket,
    EndCompaction,
    Message,
    StagedSegment,
    TransactionFacts,
)
from leasehold.errors import BadMessage, LeaseholdError
from leasehold.limits.replication import REPAIR_RATE
from leasehold.limits.units import SECOND_NS
from leasehold.limits.upkeep import AUTO_CALL_NS, AUTO_LOOK_NS, AUTO_REST_NS
from leasehold.node.agent.agent import Agent
from leasehold.node.agent.published import Published
from leasehold.wire.ports import Clock, Connection

M = TypeVar("M", bound=Message)

log = logging.getLogger(__name__)


class OwnCompactions:
    """Runs beside the agent. `compact` writes the new segment of a ticket."""

    def __init__(
        self,
        agent: Agent,
        published: Published,
        clock: Clock,
        compact: Callable[[CompactTicket], Awaitable[StagedSegment]],
    ) -> None:
        self._agent = agent
        self._published = published
        self._clock = clock
        self._compact = compact
        self._last: CompactTicket | None = None
        """The task is the next one after this bucket: one that fails holds up no other."""

    async def run(self) -> NoReturn:
        """Asks each AUTO_LOOK_NS, until cancelled."""
        while True:
            rest_ns = AUTO_LOOK_NS
            connection = self._agent.connection
            if connection is not None and self._may_ask():
                try:
                    rest_ns = max(rest_ns, await self._do_one(connection))
                except LeaseholdError as error:
                    log.info("no compaction now: %s (%s)", error.text, error.code)
                    rest_ns = AUTO_REST_NS
            await self._clock.sleep_until(self._clock.now_ns() + rest_ns)

    def _may_ask(self) -> bool:
        can_write = not self._published.disk_full and not self._published.disk_failing
        return can_write and has_automatic(self._published.view)

    async def _do_one(self, connection: Connection) -> int:
        """Does a task, if there is one; for how long to rest then."""
        request = AskCompaction(**self._published.speaker(), cluster_id=self._published.cluster_id)
        if self._last is not None:
            request = msgspec.structs.replace(request, table=self._last.table, bucket=self._last.bucket)
        task = await self._ask(connection, request, CompactionTask)
        self._last = ticket = task.ticket
        if ticket is None:
            return 0
        error: LeaseholdError | None = None
        segment: StagedSegment | None = None
        try:
            segment = await self._compact(ticket)
        except LeaseholdError as failure:
            error = failure
        end = EndCompaction(
            **self._published.speaker(),
            cluster_id=ticket.cluster_id,
            transaction=ticket.transaction,
            joined=tuple(one for one, _ in ticket.joined),
            deletes=task.deletes,
            segment=segment,
        )
        await self._ask(connection, end, TransactionFacts)
        if error is not None:
            raise error
        log.info("joined %d segments of table %d, bucket %d", len(ticket.joined), ticket.table, ticket.bucket)
        settings = self._published.view.settings
        return task.size_bytes * SECOND_NS // (REPAIR_RATE if settings is None else settings.repair_rate)

    async def _ask(self, connection: Connection, request: Message, kind: type[M]) -> M:
        answer = await connection.call(request, timeout_ns=AUTO_CALL_NS)
        if not isinstance(answer, kind):
            raise BadMessage(f"a {type(answer).__name__} came instead of a {kind.__name__}")
        return answer
