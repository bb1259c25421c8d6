"""Receipts of answered statements, written in the background."""

import asyncio
import logging
from collections.abc import Callable

from leasehold.coordinator.writer import STORE_DECLINES, Decide, StoreDeclined, Writer
from leasehold.core import ddl
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.ddl.effects import QueueReceipt
from leasehold.core.ddl.outcomes import Ended
from leasehold.core.words.operations import Change
from leasehold.ids import Revision, StatementId
from leasehold.limits.lease import LEADER_RETRY_NS
from leasehold.limits.statements import CLOSE_GATHER_NS, STATEMENTS_RUNNING_MAX
from leasehold.wire.ports import Clock

log = logging.getLogger(__name__)


class Closings:
    """The receipts that one leader has to write. `on_closed` hears of each that is durable."""

    def __init__(self, writer: Writer, clock: Clock, on_closed: Callable[[StatementId], object]) -> None:
        self._writer = writer
        self._clock = clock
        self._on_closed = on_closed
        self._waiting: asyncio.Queue[QueueReceipt] = asyncio.Queue(STATEMENTS_RUNNING_MAX)
        self._open: dict[StatementId, QueueReceipt] = {}
        self._ended = Ended(writer.catalog, clock.now_ns())

    async def add(self, closing: QueueReceipt) -> None:
        """Queues a receipt; waits while the queue is full."""
        self._open[closing.procedure.statement] = closing
        self._ended.note(closing.procedure.statement, self._clock.now_ns())
        await self._waiting.put(closing)

    def forgetting(self, statement: StatementId, catalog: Catalog) -> tuple[StatementId, ...]:
        """The old statements that the transaction that ends `statement` may forget."""
        now_ns = self._clock.now_ns()
        self._ended.note(statement, now_ns)
        return self._ended.forgettable(catalog, now_ns)

    def done(self, catalog: Catalog) -> Catalog:
        """The catalog as it will be once every receipt is written."""
        for one in self._open.values():
            catalog = catalog.changed(_closing_changes(one, catalog))
        return catalog

    async def run(self) -> None:
        """Writes until cancelled; receipts that come within CLOSE_GATHER_NS share a transaction."""
        while True:
            closings = [await self._waiting.get()]
            await self._clock.sleep_until(self._clock.now_ns() + CLOSE_GATHER_NS)
            while not self._waiting.empty():
                closings.append(self._waiting.get_nowait())
            await asyncio.gather(*(self._close(one) for one in closings))
            self._ended.tidy(self._writer.catalog)

    async def _close(self, one: QueueReceipt) -> None:
        await insist(
            self._writer,
            self._clock,
            lambda catalog: _closing_changes(one, catalog, self._ended.forgettable(catalog, self._clock.now_ns())),
        )
        self._open.pop(one.procedure.statement, None)
        self._on_closed(one.procedure.statement)


def _closing_changes(one: QueueReceipt, catalog: Catalog, forget: tuple[StatementId, ...] = ()) -> tuple[Change, ...]:
    return ddl.close(
        one.procedure,
        catalog,
        barrier=one.barrier,
        elapsed_ns=one.elapsed_ns,
        bound_ns=one.bound_ns,
        forget=forget,
    )


async def insist(writer: Writer, clock: Clock, decide: Decide, what: str = "a statement") -> Revision:
    """Writes what a statement that has begun has to come to, again and again while the store has no room for it."""
    while True:
        try:
            return await writer.submit(decide)
        except StoreDeclined as error:
            if error.code not in STORE_DECLINES:
                raise
            log.warning("%s can't continue: %s", what, error)
            await clock.sleep_until(clock.now_ns() + LEADER_RETRY_NS)
