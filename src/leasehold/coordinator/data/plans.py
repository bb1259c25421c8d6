"""Plans of scans. For one of the past the leader reads the table in the history of the meta storage
(`core/data/past_plan.py`)."""

import asyncio
from collections.abc import Callable
from functools import partial

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import SEGMENTS
from leasehold.core.data.facts import parse_name
from leasehold.core.data.past_plan import PastTable, missing, plan_past, too_old, was_there
from leasehold.core.data.scan_plan import plan_scan, takes_long
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.messages import PlanScan, ScanPlan
from leasehold.core.words.records import SegmentRecord, TableRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import ObjectId, Revision
from leasehold.limits.metastorage import RANGE_PAGE_MAX
from leasehold.metastorage.contract import Compacted, MetaStorage
from leasehold.wire.ports import Threads


class Plans:
    """Plans of one leader."""

    def __init__(self, storage: MetaStorage, threads: Threads, catalog: Callable[[], Catalog]) -> None:
        self._storage = storage
        self._threads = threads
        self._catalog = catalog
        self._of_the_past = asyncio.Lock()
        """One at a time: each holds all segments that the table had."""

    async def plan(self, request: PlanScan) -> ScanPlan:
        """Raises as `plan_scan` and `plan_past`, and `Refused` with code TOO_OLD or FUTURE_REVISION."""
        if request.as_of is not None and not request.rewrite:
            async with self._of_the_past:
                return await self._plan_past(request, request.as_of)
        plan = partial(plan_scan, request, self._catalog())
        return await self._threads.run(plan) if takes_long(request) else plan()

    async def _plan_past(self, request: PlanScan, revision: Revision) -> ScanPlan:
        catalog = self._catalog()
        table = catalog.table(parse_name(request.name)).id
        if revision > catalog.revision:
            raise Refused(
                f"revision {revision} does not exist yet: the newest is {catalog.revision}",
                code=ErrorCode.FUTURE_REVISION,
                hint="leave the revision out to read the present",
            )
        try:
            past = await self._read(table, revision)
            return await self._threads.run(partial(plan_past, request, past, self._catalog()))
        except Compacted:
            text = f"revision {revision} is not kept any more"
        except Refused as error:
            if error.code != ErrorCode.TOO_OLD:
                raise
            text = error.text
        raise too_old(text, await self._oldest(table, revision, self._catalog()))

    async def _read(self, table: ObjectId, revision: Revision) -> PastTable:
        """Raises `Compacted`."""
        found = await self._storage.get(keys.table(table), revision)
        segments: list[SegmentRecord] = []
        start, end = SEGMENTS.table_range(table)
        following: bytes | None = start
        while following is not None:
            page = await self._storage.range(following, end, revision=revision, limit=RANGE_PAGE_MAX)
            segments += [decode_record(SegmentRecord, item.value) for item in page.items]
            following = page.next_start
        record = None if found is None else decode_record(TableRecord, found.value)
        return PastTable(revision=revision, table=record, segments=tuple(segments))

    async def _oldest(self, table: ObjectId, revision: Revision, catalog: Catalog) -> Revision:
        """A revision that can be read, while the one before it can't. It is found by halves: as a rule, what can't be
        read is all that lies before some revision."""
        low, high = revision, catalog.revision
        while high - low > 1:
            middle = Revision((low + high) // 2)
            try:
                past = await self._read(table, middle)
            except Compacted as error:
                low = max(middle, Revision(error.minimum - 1))
                continue
            if not was_there(past) or missing(past, catalog):
                low = middle
            else:
                high = middle
        return high
