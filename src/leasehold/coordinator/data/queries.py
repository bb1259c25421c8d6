"""Queries of several processes that each read a part of a table: rows that are hidden from one are hidden from all.

The table's cutoff (`core/data/cutoff.py`) is stored at the first request of a query. All others get the same one, also
from later leaders.
"""

from typing import NamedTuple

from leasehold.coordinator.writer import Writer
from leasehold.core.access.request_rights import check_request
from leasehold.core.catalog.catalog import Catalog, check_through
from leasehold.core.data.cutoff import cutoff_of, record_cutoff
from leasehold.core.words import keys
from leasehold.core.words.messages import AgreeCutoff, Cutoff
from leasehold.core.words.operations import Change
from leasehold.core.words.records import PrincipalRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import PrincipalId
from leasehold.limits.queries import QUERIES_AT_ONCE, QUERY_KEPT_NS, USER_QUERIES_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.wire.ports import Clock


class _Asked(NamedTuple):
    """When a query was last asked about, and who began it as far as this leader knows."""

    at_ns: int
    user: PrincipalId | None = None


class Queries:
    """The cutoffs that one leader has agreed on."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        # A new leader counts anew: no clock reading outlives its process.
        self._asked = {
            keys.query(one.table, one.query): _Asked(clock.now_ns()) for one in writer.catalog.queries.values()
        }

    async def agree(self, request: AgreeCutoff) -> Cutoff:
        """The cutoff of a query on a table. Raises `NotFound` (TABLE_DROPPED), `Refused` (BUSY, BAD_MESSAGE)."""

        key, user = keys.query(request.table, request.query), None

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            nonlocal user
            user = check_request(request, catalog)
            check_through(request.through, catalog)
            changes = record_cutoff(request, catalog)
            if changes and user is not None:
                self._check_room(user)
            return changes

        await self._writer.submit(decide)
        known = self._asked.get(key) or _Asked(0, None if user is None else user.id)
        self._asked[key] = known._replace(at_ns=self._clock.now_ns())
        return cutoff_of(request, self._writer.catalog)

    def _check_room(self, user: PrincipalRecord) -> None:
        if sum(one.user == user.id for one in self._asked.values()) >= USER_QUERIES_MAX:
            text = f"{USER_QUERIES_MAX} Spark queries of {user.name} began within {QUERY_KEPT_NS // SECOND_NS} s"
            raise Refused(text, code=ErrorCode.BUSY, hint="run the query again later")

    async def expire(self) -> None:
        """Forgets the queries that no process has asked about for QUERY_KEPT_NS."""
        until_ns = self._clock.now_ns() - QUERY_KEPT_NS
        gone = [key for key, asked in self._asked.items() if asked.at_ns <= until_ns][:QUERIES_AT_ONCE]
        if gone:
            await self._writer.submit(lambda _: tuple(Change(key, None) for key in gone))
            for key in gone:
                del self._asked[key]
