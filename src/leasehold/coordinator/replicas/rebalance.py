"""Rebalance: begins the moves of replicas, a few at a time, and ends once nothing is left to move (decided in
`core/replicas/spread.py`). Where the cluster says so (`rebalance = 'auto'`), it also begins by itself."""

import logging
from collections.abc import Callable, Mapping
from functools import partial

from leasehold.coordinator.upkeep.housekeeping import found
from leasehold.coordinator.writer import Writer
from leasehold.core.catalog.catalog import BucketKey, Catalog
from leasehold.core.replicas import spread
from leasehold.core.replicas.placement import Fleet
from leasehold.core.replicas.spread import Move, Size, Sizes
from leasehold.limits.membership import MOVES_AT_ONCE, SPREAD_PERCENT, UNEVEN_LOOK_NS, UNEVEN_PERCENT
from leasehold.wire.ports import Threads

log = logging.getLogger(__name__)


class Rebalancing:
    """The rebalances of one leader. `fleet` tells the nodes."""

    def __init__(
        self, writer: Writer, threads: Threads, fleet: Callable[[Catalog], Fleet], now_ns: Callable[[], int]
    ) -> None:
        self._writer = writer
        self._threads = threads
        self._fleet = fleet
        self._now_ns = now_ns
        self._sizes = Sizes()
        self._under_way = 0
        """Moves, after the last plan."""
        self._looked_ns: int | None = None
        """When it last looked whether the nodes hold very different amounts."""

    async def keep(self, *, anew: bool) -> None:
        """Begins what may be under way now: after moves have ended, or `anew` since nodes have changed. Raises
        `Definite` if the meta storage declines."""
        if not spread.is_under_way(self._writer.catalog) and not await self._begin():
            return
        catalog = self._writer.catalog
        if len(catalog.moving) < self._under_way or not len(catalog.moving) or anew:
            sizes, moves = await self._plan(SPREAD_PERCENT, MOVES_AT_ONCE)
            await self._writer.submit(lambda catalog: spread.continued(moves, sizes, catalog, self._fleet(catalog)))
            self._under_way = len(self._writer.catalog.moving)
        if not spread.is_under_way(self._writer.catalog):
            self._sizes = Sizes()  # it may be long until the next one
            log.info("the rebalance has ended")

    async def _begin(self) -> bool:
        """Begins a rebalance if one is needed and wanted."""
        now_ns = self._now_ns()
        is_early = self._looked_ns is not None and now_ns - self._looked_ns < UNEVEN_LOOK_NS
        if is_early or not spread.is_automatic(self._writer.catalog):
            return False
        self._looked_ns = now_ns
        _, moves = await self._plan(UNEVEN_PERCENT, 1)
        if not moves:
            return False
        log.info("nodes hold very different amounts: a rebalance begins")
        await self._writer.submit(lambda catalog: spread.started(catalog) if spread.is_automatic(catalog) else ())
        return spread.is_under_way(self._writer.catalog)

    async def _plan(self, percent: int, most: int) -> tuple[Mapping[BucketKey, Size], list[Move]]:
        catalog = self._writer.catalog
        nodes, size = self._fleet(catalog), len(catalog.buckets) + sum(map(catalog.segments.count, catalog.segments))
        sizes = await found(partial(self._sizes.of, catalog), size, self._threads)
        plan = partial(spread.planned, catalog, nodes, sizes, percent=percent, most=most)
        return sizes, await found(plan, size, self._threads)
