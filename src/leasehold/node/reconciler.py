"""The reconciler: makes a node's disk hold what the durable catalog says it should (plans in `core/reconcile.py`)."""

import asyncio

from leasehold.core.catalog import Catalog
from leasehold.core.reconcile import OnDisk, Plan, plan
from leasehold.core.records import SegmentRecord
from leasehold.errors import Corrupt
from leasehold.ids import BucketNumber, NodeId, ObjectId, SegmentId
from leasehold.limits import FETCH_ROUND_SEGMENTS_MAX, RECONCILE_INTERVAL_NS, TRASH_ROUND_FILES_MAX
from leasehold.node.agent import Agent
from leasehold.node.fetch import fetch_segment
from leasehold.node.published import Published
from leasehold.storage.files import SegmentFiles
from leasehold.storage.segment import verify_segment
from leasehold.wire.ports import Clock, Vault


class Reconciler:
    """Runs beside the agent for the life of a process; its disk and network work happens on worker threads."""

    def __init__(self, *, agent: Agent, published: Published, files: SegmentFiles, vault: Vault, clock: Clock) -> None:
        self._agent = agent
        self._published = published
        self._files = files
        self._vault = vault
        self._clock = clock
        self._since_start = frozenset(segment for _, _, segment in files.listing())

    async def run(self) -> None:
        """Reconciles after every durable change, and now and then: a report that was lost is made again."""
        while True:
            if self._published.node:
                await self.round()
            await self._clock.sleep_until(self._clock.now_ns() + RECONCILE_INTERVAL_NS)

    async def round(self) -> Plan:
        """One comparison and what follows from it."""
        on_disk = await asyncio.to_thread(self._listing)
        durable = self._agent.durable
        planned = plan(
            durable,
            self._published.node,
            on_disk,
            self._since_start if self._agent.caught_up else frozenset(),
        )
        if not planned.idle:
            # What is deleted must stay decided: the revision that says so survives the machine first (R9).
            await self._vault.sync()
            await self._carry_out(planned, durable)
        await asyncio.to_thread(self._files.empty_trash, TRASH_ROUND_FILES_MAX)
        return planned

    def _listing(self) -> frozenset[OnDisk]:
        return frozenset(OnDisk(table, bucket, segment) for table, bucket, segment in self._files.listing())

    async def _carry_out(self, planned: Plan, durable: Catalog) -> None:
        for table in planned.clean:
            await asyncio.to_thread(self._files.trash_table, table)
            await self._agent.report_cleaned(table)
        for one in planned.trash:
            await asyncio.to_thread(self._files.trash, one.table, one.bucket, one.segment)
        wanted = planned.fetch[:FETCH_ROUND_SEGMENTS_MAX]
        held = [record for record in planned.report if await asyncio.to_thread(self._verify, record)]
        held += [record for record in wanted if await asyncio.to_thread(self._fetch, record, durable)]
        for (table, bucket), segments in sorted(_grouped(held).items()):
            await self._agent.report_held(table, bucket, tuple(segments))

    def _verify(self, record: SegmentRecord) -> bool:
        """Whether the file is what the manifest says; one that is not goes, and is fetched in the next round."""
        path = self._files.path(record.table, record.bucket, record.id)
        try:
            verify_segment(path, size_bytes=record.size_bytes, sha256=record.sha256)
        except Corrupt:
            self._files.trash(record.table, record.bucket, record.id)
            return False
        return True

    def _fetch(self, record: SegmentRecord, durable: Catalog) -> bool:
        places: list[tuple[NodeId, str]] = [
            (node, durable.nodes[node].address)
            for node in record.holders
            if node != self._published.node and node in durable.nodes
        ]
        return fetch_segment(self._files, record, places, self._published.cluster_id)


def _grouped(records: list[SegmentRecord]) -> dict[tuple[ObjectId, BucketNumber], list[SegmentId]]:
    groups: dict[tuple[ObjectId, BucketNumber], list[SegmentId]] = {}
    for record in records:
        groups.setdefault((record.table, record.bucket), []).append(record.id)
    return groups
