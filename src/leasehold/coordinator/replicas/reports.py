"""Reports of nodes about their files, at the leader (decided in `core/replicas/reports.py`)."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from leasehold.coordinator.nodes.leases import Leasing
from leasehold.coordinator.writer import Writer
from leasehold.core.catalog.catalog import BucketKey, Catalog
from leasehold.core.replicas.reports import Report, after_report
from leasehold.core.words.messages import SegmentsHeld, TableCleaned
from leasehold.core.words.operations import Change
from leasehold.ids import NodeId, SegmentId
from leasehold.limits.replication import REPORTED_SEGMENTS_AT_ONCE_MAX

log = logging.getLogger(__name__)


class NodeReports:
    """Writes down the reports of nodes, up to REPORTED_SEGMENTS_AT_ONCE_MAX segments at once."""

    def __init__(self, writer: Writer, leasing: Leasing) -> None:
        self.on_lacked: Callable[[NodeId, BucketKey, tuple[SegmentId, ...]], None] = lambda *_: None
        """Hears of segments whose only holder, by the manifest, has no file of them."""
        self.on_held: Callable[[NodeId, BucketKey, tuple[SegmentId, ...]], None] = lambda *_: None
        """Hears of segments that a node holds."""
        self._writer = writer
        self._leasing = leasing
        self._reported = 0
        self._reporting = asyncio.Lock()
        self._decided = asyncio.Event()

    async def acknowledge(self, message: Report) -> None:
        """Takes a report: a node holds or lacks segments, or has deleted a dropped table. Raises `StoreDeclined`."""
        alone: tuple[SegmentId, ...] = ()
        is_heard = False

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            nonlocal alone, is_heard
            live = self._leasing.live_incarnations([message.node])
            if live.get(message.node) != message.incarnation:
                return ()  # superseded while the report waited (INV-ID-2)
            is_heard = True
            changes, alone = after_report(message, catalog)
            return changes

        async with self._in_turn(0 if isinstance(message, TableCleaned) else len(message.segments)):
            await self._writer.submit(decide)
        if is_heard and isinstance(message, SegmentsHeld):
            self.on_held(message.node, (message.table, message.bucket), message.segments)
        if alone and not isinstance(message, TableCleaned):
            self.on_lacked(message.node, (message.table, message.bucket), alone)
            log.warning(
                "node %d lacks %d segments of table %d that no other node holds, such as %s",
                message.node,
                len(alone),
                message.table,
                alone[0],
            )

    @asynccontextmanager
    async def _in_turn(self, segments: int) -> AsyncGenerator[None]:
        """Waits until a report of so many segments may be decided. The reports of all nodes may share a transaction,
        and no grant is sent while that is decided."""
        async with self._reporting:
            while self._reported and self._reported + segments > REPORTED_SEGMENTS_AT_ONCE_MAX:
                self._decided.clear()
                await self._decided.wait()
            self._reported += segments
        try:
            yield
        finally:
            self._reported -= segments
            self._decided.set()
