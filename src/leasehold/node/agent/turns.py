"""Long work on the event loop, in slices: other tasks run in between."""

import asyncio

from leasehold.limits.replication import RECONCILE_SLICE_RECORDS


class Slices:
    """Counts records; after every RECONCILE_SLICE_RECORDS other tasks have a turn."""

    def __init__(self) -> None:
        self._left = RECONCILE_SLICE_RECORDS

    async def looked_at(self, records: int) -> None:
        self._left -= records
        if self._left <= 0:
            self._left = RECONCILE_SLICE_RECORDS
            await asyncio.sleep(0)
