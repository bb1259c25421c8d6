"""Turns: work on an event loop that takes long lets others in between."""

import asyncio

from leasehold.limits.replication import RECONCILE_SLICE_RECORDS


class Slices:
    """Counts what is looked at; after every RECONCILE_SLICE_RECORDS others have a turn."""

    def __init__(self) -> None:
        self._left = RECONCILE_SLICE_RECORDS

    async def looked_at(self, records: int) -> None:
        """So many records were, or are about to be."""
        self._left -= records
        if self._left <= 0:
            self._left = RECONCILE_SLICE_RECORDS
            await asyncio.sleep(0)
