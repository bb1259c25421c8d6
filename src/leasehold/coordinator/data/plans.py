"""Plans of scans. For one of the past the leader reads the table in the history of the meta storage
(`core/data/past_plan.py`).

What takes long waits for the turn of its user. Meanwhile the user may be dropped or lose a right, and the name of a
table may pass to another table. So the leader checks the request again after each wait, and plans on the catalog on
which it has checked the request.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from leasehold.coordinator.data.history import committed_at, first_revision, newest_until, with_times
from leasehold.coordinator.user_turns import UserTurns
from leasehold.coordinator.writer import Writer
from leasehold.core.access.callers import check_caller
from leasehold.core.access.request_rights import check_request
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import SEGMENTS
from leasehold.core.data.facts import parse_name
from leasehold.core.data.past_plan import OldestRevision, PastTable, missing, plan_past, too_old, was_there
from leasehold.core.questions.long_lookups import takes_long
from leasehold.core.questions.lookups import Found, LookUp, facts_of, looked_up, plan_of
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.literals import render_instant
from leasehold.core.words.messages import (
    AskTable,
    ChangesPlan,
    PlanChanges,
    PlanQuery,
    PlanScan,
    QueryPlan,
    ScanPlan,
    TableFacts,
)
from leasehold.core.words.records import CountersRecord, PrincipalRecord, SegmentRecord, TableRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadMessage, Indefinite, Refused
from leasehold.ids import ObjectId, Revision
from leasehold.limits.metastorage import RANGE_PAGE_MAX
from leasehold.metastorage.contract import Compacted, MetaStorage
from leasehold.wire.ports import CALLER

T = TypeVar("T")


class Plans:
    """Plans of one leader."""

    def __init__(self, storage: MetaStorage, turns: UserTurns, writer: Writer) -> None:
        self._storage = storage
        self._turns = turns
        self._writer = writer
        self._of_the_past = turns.another_queue()
        """One at a time: each holds all segments that the table had."""

    async def plan(
        self, request: PlanScan | PlanChanges | PlanQuery, user: PrincipalRecord | None
    ) -> ScanPlan | ChangesPlan | QueryPlan:
        """Raises as `looked_up` and `plan_past`, `Refused` with code TOO_OLD, or FUTURE_REVISION, and `Indefinite` with
        code BUSY."""
        if isinstance(request, PlanChanges):
            plan = await self._plan_present(request, user)
            assert isinstance(plan, ChangesPlan), "changes were asked for"
            return await with_times(plan, self._storage)
        if not isinstance(request, PlanScan):
            return await self._plan_present(request, user)
        if request.as_of is not None and request.as_of_us is not None:
            raise BadMessage("a scan as of a revision and of a time", hint="leave out one of them")
        if request.follows is not None and (request.rewrite or request.as_of is not None):
            raise BadMessage("a plan that follows a table is of the present", hint="leave out all else")
        if not request.rewrite and (request.as_of is not None or request.as_of_us is not None):
            return await self._of_the_past.run(user, partial(self._plan_past, request), request=request)
        return await self._plan_present(request, user)

    async def facts(self, request: AskTable, user: PrincipalRecord | None) -> TableFacts:
        """Raises as `looked_up`."""
        return await self._in_turn(request, user, lambda catalog: facts_of(request, catalog))

    async def looked_up(self, request: LookUp, user: PrincipalRecord | None) -> Found:
        """Any look-up in the present catalog. Raises as the function of this name."""
        return await self._in_turn(request, user, lambda catalog: looked_up(request, catalog))

    async def _plan_present(
        self, request: PlanScan | PlanChanges | PlanQuery, user: PrincipalRecord | None
    ) -> ScanPlan | ChangesPlan | QueryPlan:
        return await self._in_turn(request, user, lambda catalog: plan_of(request, catalog))

    async def _in_turn(
        self,
        request: LookUp,
        user: PrincipalRecord | None,
        tell: Callable[[Catalog], T],
    ) -> T:
        """The answer at once, on the catalog on which the caller has just checked the request, or after a turn."""
        catalog = self._writer.catalog
        if not takes_long(request, catalog):
            return tell(catalog)

        async def told() -> T:
            checked = await self._checking(request)
            return await self._turns.threads.run(lambda: tell(checked()))

        return await self._turns.run(user, told, request=request)

    async def _checking(self, request: LookUp, table: ObjectId | None = None) -> Callable[[], Catalog]:
        """A function that answers the present catalog, on which the caller may have the answer, and the name of the
        request means this `table`. It raises `Unauthenticated`, `Forbidden`, `NotFound`, and `Indefinite` with code
        BUSY. It is called where the plan is made, since the work of others may go before on the thread."""
        caller = CALLER.get()
        await self._writer.settled()

        def checked() -> Catalog:
            catalog = self._writer.catalog
            check_caller(request, caller, catalog)
            check_request(request, catalog)
            if table is not None:
                assert isinstance(request, PlanScan), "only a plan of the past is read before it is made"
                _check_same_table(request.name, table, catalog)
            return catalog

        return checked

    async def _plan_past(self, request: PlanScan) -> ScanPlan:
        if request.as_of_us is None:
            assert request.as_of is not None, "`plan` has looked"
            revision, asked = self._known(request.as_of), f"revision {request.as_of}"
        else:
            revision = await self._committed_by(request.as_of_us)
            asked = f"the newest revision of {render_instant(request.as_of_us)}"
        needs_time = request.as_of_us is not None
        table = (await self._checking(request))().table(parse_name(request.name)).id
        try:
            past = await self._read(table, revision)
            if needs_time and await committed_at(self._storage, revision) is None:
                raise too_old(f"{asked} is not known: it was committed before commit times were kept")
            checked = await self._checking(request, table)
            return await self._turns.threads.run(lambda: plan_past(request, past, checked()))
        except Compacted:
            text = f"{asked} is not kept any more"
        except Refused as error:
            if error.code != ErrorCode.TOO_OLD:
                raise
            text = error.text
        oldest = await self._oldest(table, revision, self._writer.catalog, needs_time=needs_time)
        (await self._checking(request, table))()
        raise too_old(text, oldest)

    def _known(self, revision: Revision) -> Revision:
        newest = self._writer.catalog.revision
        if revision > newest:
            raise _future(f"revision {revision} does not exist yet: the newest is {newest}", "revision")
        return revision

    async def _committed_by(self, time_us: int) -> Revision:
        """The newest revision with a commit time up to this. Asked again, this leader answers the same: no transaction
        gets such a time any more. It may be too old, or older than commit times."""
        if time_us > self._writer.commit_time_us():
            raise _future(f"{render_instant(time_us)} is in the future, by the clock of the leader", "time")
        return await newest_until(self._storage, time_us, await self._writer.revision_until(time_us))

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
        counted = await self._storage.get(keys.COUNTERS, revision)
        number = 0 if counted is None else decode_record(CountersRecord, counted.value).next_segment
        return PastTable(revision=revision, table=record, segments=tuple(segments), next_segment=number)

    async def _oldest(self, table: ObjectId, before: Revision, catalog: Catalog, *, needs_time: bool) -> OldestRevision:
        """The first revision after one that can't be read, or the newest one: as a rule, what can't be read is all that
        lies before some revision."""

        async def is_readable(revision: Revision) -> bool:
            if needs_time and await committed_at(self._storage, revision) is None:
                return False
            past = await self._read(table, revision)
            return was_there(past) and not missing(past, catalog)

        oldest = await first_revision(before, catalog.revision, is_readable)
        try:
            return OldestRevision(oldest, await committed_at(self._storage, oldest))
        except Compacted:
            return OldestRevision(oldest, None)


def _check_same_table(name: str, table: ObjectId, catalog: Catalog) -> None:
    if catalog.table(parse_name(name)).id != table:
        text = f"{name} became the name of another table while the coordinator read the past of the first one"
        raise Indefinite(text, code=ErrorCode.BUSY, hint="ask again in a moment")


def _future(text: str, what: str) -> Refused:
    return Refused(text, code=ErrorCode.FUTURE_REVISION, hint=f"leave the {what} out to read the present")
