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
        self._asked: dict[str, int] = {}
        """When this leader was last asked about each query, by `keys.query_name`."""
        self._note_known()

    def _note_known(self) -> None:
        """Counts time for queries that this leader has not heard of: of an earlier leader, or of a client that has gone
        before it was answered. No clock reading outlives its process."""
        now_ns = self._clock.now_ns()
        self._asked = {name: self._asked.get(name, now_ns) for name in self._writer.catalog.queries}

    async def agree(self, request: AgreeCutoff) -> Cutoff:
        """The cutoff of a query on a table. Raises `NotFound` (TABLE_DROPPED), `Refused` (BUSY, BAD_MESSAGE)."""

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            user = check_request(request, catalog)
            check_through(request.through, catalog)
            return record_cutoff(request, user, catalog)

        await self._writer.submit(decide)
        self._asked[keys.query_name(request.table, request.query)] = self._clock.now_ns()
        return cutoff_of(request, self._writer.catalog)

    async def expire(self) -> None:
        """Forgets the queries that no process has asked about for QUERY_KEPT_NS."""
        self._note_known()
        until_ns = self._clock.now_ns() - QUERY_KEPT_NS
        gone = [name for name, asked_ns in self._asked.items() if asked_ns <= until_ns][:QUERIES_AT_ONCE]
        if gone:
            await self._writer.submit(lambda _: tuple(Change(keys.QUERIES + name.encode(), None) for name in gone))
