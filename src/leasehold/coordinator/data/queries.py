"""Queries of several processes that each read a part of a table: rows that are hidden from one are hidden from all.

The table's cutoff (`core/data/cutoff.py`) is stored at the first request of a query. All others get the same one, also
from later leaders.
"""

from leasehold.coordinator.writer import Writer
from leasehold.core.access.request_rights import check_request
from leasehold.core.catalog.catalog import Catalog, check_through
from leasehold.core.data.cutoff import cutoff_of, record_cutoff
from leasehold.core.words import keys
from leasehold.core.words.messages import AgreeCutoff, Cutoff
from leasehold.core.words.operations import Change
from leasehold.limits.queries import QUERIES_AT_ONCE, QUERY_KEPT_NS
from leasehold.wire.ports import Clock


class Queries:
    """The cutoffs that one leader has agreed on."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        # A new leader counts anew: no clock reading outlives its process.
        self._asked = {keys.query(one.table, one.query): clock.now_ns() for one in writer.catalog.queries.values()}

    async def agree(self, request: AgreeCutoff) -> Cutoff:
        """The cutoff of a query on a table. Raises `NotFound` (TABLE_DROPPED), `Refused` (BUSY, BAD_MESSAGE)."""

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            check_request(request, catalog)
            check_through(request.through, catalog)
            return record_cutoff(request, catalog)

        await self._writer.submit(decide)
        self._asked[keys.query(request.table, request.query)] = self._clock.now_ns()
        return cutoff_of(request, self._writer.catalog)

    async def expire(self) -> None:
        """Forgets the queries that no process has asked about for QUERY_KEPT_NS."""
        until_ns = self._clock.now_ns() - QUERY_KEPT_NS
        gone = [key for key, asked_ns in self._asked.items() if asked_ns <= until_ns][:QUERIES_AT_ONCE]
        if gone:
            await self._writer.submit(lambda _: tuple(Change(key, None) for key in gone))
            for key in gone:
                del self._asked[key]
