"""A coordinator that does not lead: it applies each revision of the meta storage to its catalog, and answers from it.

After a request has come, the follower reads the newest revision from the shared store. It answers once its catalog has
reached that revision. So the answer contains every change that any client had seen before the request was sent, also
revoked rights (INV-READ-1).

| request | answer |
| --- | --- |
| which cluster it is; SHOW, DESCRIBE; a table, a view, barriers of statements, the plan of a scan | from the catalog |
| a backup | the meta storage at the revision of the catalog |
| a challenge | the proof of the cluster key |
| all else, and SHOW of what only a leader knows | NOT_LEADER, with the leader that was seen last |
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Final, NoReturn, Protocol, TypeVar

from leasehold.coordinator.backups import Backups
from leasehold.coordinator.data.history import with_times
from leasehold.coordinator.nodes.proofs import Membership
from leasehold.coordinator.statements.faults import ending_the_statement
from leasehold.coordinator.stored_catalog import check_format, read_catalog, watched
from leasehold.coordinator.user_turns import UserTurns
from leasehold.coordinator.who_asks import tell_who_asks
from leasehold.core.access.callers import check_caller
from leasehold.core.access.request_rights import check_request
from leasehold.core.access.rights import check_question
from leasehold.core.catalog.catalog import Catalog, Diverged
from leasehold.core.ddl.origin import check_statement_id
from leasehold.core.membership.cluster_ids import check_same_cluster
from leasehold.core.membership.coordinators import cluster_facts
from leasehold.core.membership.identity import hash_login
from leasehold.core.questions.catalog import answer, is_large, tells_alone
from leasehold.core.questions.long_lookups import takes_long
from leasehold.core.questions.lookups import Found, LookUp, looked_up
from leasehold.core.questions.rows import pages
from leasehold.core.words.messages import (
    AskBackup,
    AskTable,
    ChallengeCoordinator,
    ChangesPlan,
    Execute,
    Message,
    PlanScan,
    Rows,
    WhoAreYou,
)
from leasehold.core.words.records import ClusterRecord, PrincipalRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, LeaseholdError, NotLeader
from leasehold.ids import Revision, Term
from leasehold.limits.statements import INLINE_EFFORT_MAX
from leasehold.metastorage.contract import Compacted, MetaStorage
from leasehold.sql.parse import parse, parses_at_once
from leasehold.wire.ports import CALLER
from leasehold.wire.tasks import EndableWaits

log = logging.getLogger(__name__)

T = TypeVar("T")


class NotLeading(Protocol):
    """Makes the error that sends a client to the leader, from a reason, and what the store said if that is why."""

    def __call__(self, why: str, error: LeaseholdError | None = None, /) -> NotLeader: ...


_OLD: Final = "can't find out whether its catalog is current"


class Follower:
    """Follows from `before`, or from a catalog that it reads first."""

    def __init__(
        self,
        storage: MetaStorage,
        membership: Membership,
        backups: Backups,
        not_leading: NotLeading,
        turns: UserTurns,
        before: Catalog | None = None,
    ) -> None:
        self._storage = storage
        self._membership = membership
        self._turns = turns
        self._backups = backups
        self._not_leading = not_leading
        self._catalog = before
        self._moved = asyncio.Event()
        self._waiting = EndableWaits()
        """Requests that wait for a catalog that is current."""

    @property
    def catalog(self) -> Catalog | None:
        """As of the last revision that was applied; None before the first catalog was read."""
        return self._catalog

    async def run(self) -> NoReturn:
        """Follows until cancelled; then no request waits any more. Raises what ends the meta storage, and `Corrupt`
        (NEWER_VERSION)."""
        try:
            while True:
                try:
                    await self._follow(self._catalog or await read_catalog(self._storage))
                except (Compacted, Diverged) as error:
                    log.warning("the catalog is read anew: %s", error.text)
                    self._catalog = None
        finally:
            self._waiting.end()

    async def _follow(self, catalog: Catalog) -> NoReturn:
        self._move(catalog)
        async with aclosing(watched(self._storage, Revision(catalog.revision + 1))) as batches:
            async for batch in batches:
                catalog = catalog.applying(batch)
                check_format(catalog)
                self._move(catalog)
        raise AssertionError("a watch has no end")

    def _move(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._moved.set()
        self._moved = asyncio.Event()

    async def reached(self, revision: Revision) -> Catalog:
        """The catalog once it is of `revision` or later."""
        while self._catalog is None or self._catalog.revision < revision:
            await self._moved.wait()
        return self._catalog

    def answers(self, request: Message) -> bool:
        """Whether this follower may know the answer: then it is asked, else the leader."""
        if self._catalog is None or self._catalog.cluster is None:
            return False
        match request:
            case Execute(text=text):
                return text.lstrip()[:4].upper() in {"SHOW", "DESC"} and parses_at_once(text)
            case AskTable(absences=True):
                return False
            case PlanScan(rewrite=rewrite, as_of=as_of, as_of_us=as_of_us):
                return not rewrite and as_of is None and as_of_us is None  # these take long
            case _:
                return isinstance(request, AskBackup | ChallengeCoordinator | WhoAreYou | LookUp)

    async def call(self, request: Message) -> Message:
        """Answers a request. Raises `NotLeader` if only the leader can, and the error for the peer."""
        async with aclosing(self.stream(request)) as answers:
            return await anext(answers)

    async def stream(self, request: Message) -> AsyncGenerator[Message, None]:
        """As `call`, in several messages."""
        if isinstance(request, ChallengeCoordinator):
            # Not confirmed: which cluster this is never changes.
            check_same_cluster(request, _cluster(self._catalog).cluster_id)
            yield self._membership.prove(request)
            return
        catalog = await self._confirmed()
        check_caller(request, CALLER.get(), catalog)
        check_same_cluster(request, _cluster(catalog).cluster_id)
        match request:
            case WhoAreYou():
                seen = self._storage.seen_leader
                yield cluster_facts(catalog, Term(0) if seen is None else seen.term, leader=False)
            case Execute():
                async for page in self._shown(request, catalog):
                    yield page
            case AskBackup():
                check_request(request, catalog)
                async with aclosing(self._backups.serve(catalog)) as pages_of_it:
                    async for page in pages_of_it:
                        yield page
            case _ if isinstance(request, LookUp) and takes_long(request, catalog):
                asking = check_request(request, catalog, reads_max=INLINE_EFFORT_MAX)
                tell_who_asks(asking)

                def planned(now: Catalog) -> Found:
                    check_request(request, now)
                    return looked_up(request, now)

                found = await self._in_turn(request, asking, planned)
                yield await with_times(found, self._storage) if isinstance(found, ChangesPlan) else found
            case _ if isinstance(request, LookUp):
                tell_who_asks(check_request(request, catalog))
                yield looked_up(request, catalog)
            case _:
                raise self._not_leading("only the leader answers this")

    async def _confirmed(self) -> Catalog:
        """The catalog of a revision that was the newest one after this call."""
        if (obstacle := self._storage.obstacle) is not None and obstacle.code == ErrorCode.NO_QUORUM:
            raise self._not_leading(_OLD, obstacle)  # it would be found out again in seconds
        try:
            async with self._waiting.wait():
                return await self.reached(await self._storage.confirm())
        except TimeoutError as error:
            raise self._not_leading("has ceased to follow") from error
        except Indefinite as error:
            raise self._not_leading(_OLD, error) from error

    async def _shown(self, request: Execute, catalog: Catalog) -> AsyncGenerator[Message, None]:
        check_statement_id(request.statement)
        asking = check_request(request, catalog)
        tell_who_asks(asking)
        with ending_the_statement():
            statement = parse(request.text)
            # An id that is known already is the leader's to answer.
            if request.statement in catalog.statements or not tells_alone(statement):
                raise self._not_leading("only the leader knows the answer")
            login = None if request.login is None else hash_login(request.login)

            def told(now: Catalog) -> Rows:
                check_question(statement, now, login)
                return answer(statement, now, lambda _: 0)

            is_long = is_large(statement, catalog)
            rows = await self._in_turn(request, asking, told) if is_long else told(catalog)
        for page in pages(rows):
            yield page

    async def _in_turn(self, request: Message, user: PrincipalRecord | None, tell: Callable[[Catalog], T]) -> T:
        """What `tell` makes of the catalog of that moment. It checks who asks: the user may have been dropped or have
        lost a right before this turn."""

        async def told() -> T:
            catalog = await self._confirmed()
            check_caller(request, CALLER.get(), catalog)
            return await self._turns.threads.run(partial(tell, catalog))

        return await self._turns.run(user, told, request=request)


def _cluster(catalog: Catalog | None) -> ClusterRecord:
    assert catalog is not None
    assert catalog.cluster is not None, "`answers` has looked"
    return catalog.cluster
