"""A coordinator process: wins a term, reads the catalog, leads until the term ends."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from enum import Enum
from functools import partial
from typing import Any, NoReturn, TypeVar

import msgspec

from leasehold.coordinator.backups import Backups
from leasehold.coordinator.follower import Follower
from leasehold.coordinator.leader import Leader
from leasehold.coordinator.nodes.proofs import Membership
from leasehold.coordinator.reporter import CoordinatorReporter
from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS, first_records
from leasehold.coordinator.user_turns import CoordinatorTurns
from leasehold.core.access.callers import Caller, check_counts, check_founder
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.lease.grantor import Grantor
from leasehold.core.log.isolation import Isolation
from leasehold.core.membership.proofs import ProofKeys
from leasehold.core.words import keys
from leasehold.core.words.messages import (
    READING,
    AskBackup,
    AskSnapshot,
    ClusterFacts,
    Initialise,
    Message,
    ReportCoordinator,
)
from leasehold.core.words.operations import Missing, Txn
from leasehold.core.words.records import CoordinatorRecord, SettingsRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, LeaseholdError, NotInitialised, NotLeader, Refused
from leasehold.ids import Generation, Revision, is_hex_128
from leasehold.limits.lease import (
    LEADER_ASIDE_NS,
    LEADER_POLL_NS,
    LEADER_RETRY_NS,
)
from leasehold.metastorage.contract import Leadership, LeadershipLost, MetaStorage
from leasehold.wire.ports import CALLER, Clock, Duplex, Entropy, Passwords, Threads, Transport
from leasehold.wire.tasks import EndableWaits, gravest_here

log = logging.getLogger(__name__)

T = TypeVar("T")


class Coordinator:
    """The service of one coordinator process; `run` is its life.

    Of several coordinators with one meta storage, one leads, and the others follow and report themselves to it by
    `transport`. `label` is its name for people, `version` that of the program. `seen` tells the state of a node, by its
    name, in the physical topology. Without `keys`, any process that reaches it may become a node.
    """

    def __init__(
        self,
        *,
        name: str,
        storage: MetaStorage,
        clock: Clock,
        passwords: Passwords,
        entropy: Entropy,
        threads: Threads,
        statement_threads: Threads,
        settings: SettingsRecord = DEFAULT_SETTINGS,
        grantor: type[Grantor] = Grantor,
        seen: Callable[[str], str] = lambda _: "",
        keys: ProofKeys | None = None,
        transport: Transport | None = None,
        label: str = "",
        version: str = "",
    ) -> None:
        self.membership = Membership(
            keys,
            certificates=transport is not None and transport.checks_peers,
            certificate_ends_s=lambda: None if transport is None else transport.certificate_ends_s,
        )
        self.name = name
        """The address at which others reach it: the leader record tells it to them."""
        self._label = label
        self._version = version
        self._transport = transport
        self._keys = keys
        self._storage = storage
        self._clock = clock
        self._began_ns = clock.now_ns()
        self._settings = settings
        self._new_turns = partial(CoordinatorTurns, threads, statement_threads, clock.now_ns)
        backups = Backups(storage, clock.now_ns)
        self._new_leader = partial(
            Leader,
            storage=storage,
            clock=clock,
            passwords=passwords,
            entropy=entropy,
            grantor=grantor,
            seen=seen,
            membership=self.membership,
            backups=backups,
        )
        self._new_follower = partial(Follower, storage, self.membership, backups, self._does_not_lead)
        self._leadership: Leadership | None = None
        self._leader: Leader | None = None
        self._follower: Follower | None = None
        """Answers while nobody leads here."""
        self._catalog: Catalog | None = None
        """Where the next follower begins: the last catalog of a term that ended in order."""
        self._lacks_cluster = False
        """Whether this term has read the meta storage and found no cluster in it."""
        self._leaving = asyncio.Event()
        self._isolation = Isolation()
        self._in_office = asyncio.Event()
        """Set once this term's leader answers, or the term is over."""
        self._answering = EndableWaits()
        """Calls that wait for this term's leader: they end with the term."""

    @property
    def leader(self) -> Leader | None:
        return self._leader

    async def run(self) -> None:
        """Leads or stands by until cancelled or handed over. Raises errors that only a restart can cure."""
        while True:
            pause_ns = LEADER_RETRY_NS
            try:
                match await self._lead():
                    case _End.HANDED_OVER:
                        return
                    case _End.STEPPED_ASIDE:
                        pause_ns = LEADER_ASIDE_NS
            except BaseExceptionGroup as errors:
                error = gravest_here(errors)
                if not self._stands_by_after(error):
                    raise error from errors
                if self._leadership is not None:
                    await self._leadership.resign()  # so that the next leader looks up at once what was written
            except LeaseholdError as error:
                if not self._stands_by_after(error):
                    raise
            finally:
                self._leadership = None
                self._in_office.set()
                self._in_office = asyncio.Event()
            await self._clock.sleep_until(self._clock.now_ns() + pause_ns)

    def hand_over(self) -> None:
        """Ends the term in order, so that a successor need not wait; then `run` returns. Cancel `run` instead if this
        coordinator stands by."""
        self._leaving.set()

    async def _lead(self) -> "_End":
        """Follows until it leads, and leads for one term; returns how that ended in order."""
        asked_aside: BaseException | None = None
        leadership = None
        try:
            async with asyncio.TaskGroup() as group:
                follower = self._follower = self._new_follower(self._new_turns().short, self._catalog)
                self._catalog = None
                following = [group.create_task(follower.run())]
                if self._transport is not None:
                    reporter = CoordinatorReporter(
                        self._storage, follower, self._me(), self._transport, self._clock, self._keys
                    )
                    following.append(group.create_task(reporter.run()))
                try:
                    leadership = self._leadership = await self._storage.campaign(self.name)
                    group.create_task(leadership.hold(self._extended))
                    catalog = await self._caught_up(follower)
                    for task in following:
                        task.cancel()
                    leader = self._take_office(leadership, catalog, group)
                    if leadership.deadline_ns() is not None:
                        group.create_task(self._while_heard(leader))
                        group.create_task(_until_transferred(leader))
                    await self._leaving.wait()
                finally:
                    # Within the group: nothing may be begun in it once it ends.
                    if self._leader is not None:
                        self._leader.stop()
                        self._catalog = self._leader.catalog
                    self._leader = self._follower = None
                    self._answering.end()
                raise _HandOver
        except* _HandOver:
            pass
        except* _StepAside as asked:
            asked_aside = gravest_here(asked)
        if isinstance(asked_aside, asyncio.CancelledError):
            raise asked_aside
        assert leadership is not None, "nothing else ends in order"
        end, successor = _End.HANDED_OVER, ""
        if asked_aside is not None and not self._leaving.is_set():
            end, successor = _End.STEPPED_ASIDE, str(asked_aside)
        await leadership.resign(successor)
        log.info("%s term %d", end.value, leadership.term)
        return end

    def _me(self) -> CoordinatorRecord:
        return CoordinatorRecord(address=self.name, name=self._label, version=self._version)

    async def _while_heard(self, leader: Leader) -> NoReturn:
        """Raises `_StepAside` once this leader should let another go first."""
        self._isolation.began(self._clock.now_ns())
        while True:
            self._isolation.heard(leader.heard_ns)
            settings, largest = leader.catalog.settings, leader.catalog.largest_lease
            assert settings is not None
            assert largest is not None
            # A node that waits for the end of its older lease is silent meanwhile.
            longest_ns = max(settings.lease_duration_ns, largest.duration_ns)
            due_ns = self._isolation.due_ns(longest_ns)
            if self._clock.now_ns() < due_ns:
                await self._clock.sleep_until(due_ns)
            elif any(node.member for node in leader.catalog.nodes.values()):
                self._isolation.stepped_aside()
                log.warning("neither a node nor a client has spoken to %s: another one may lead", self.name)
                raise _StepAside
            else:
                await self._clock.sleep_until(self._clock.now_ns() + LEADER_POLL_NS)

    async def _caught_up(self, follower: Follower) -> Catalog:
        """The newest catalog, once there is a cluster in it: nobody else writes any more."""
        self._lacks_cluster = False
        catalog = await follower.reached((await self._storage.status()).latest)
        while catalog.cluster is None:
            self._lacks_cluster = True
            catalog = await follower.reached(Revision(catalog.revision + 1))
        self._lacks_cluster = False
        return catalog

    def _take_office(self, leadership: Leadership, catalog: Catalog, group: asyncio.TaskGroup) -> Leader:
        leader = self._new_leader(
            turns=self._new_turns(), leadership=leadership, catalog=catalog, group=group, me=self._me()
        )
        leader.start()
        log.info(
            "leading term %d at revision %d, %d nodes registered, %d statements to resume",
            leadership.term,
            catalog.revision,
            len(catalog.nodes),
            len(catalog.procedures),
        )
        self._leader, self._follower = leader, None
        self._in_office.set()
        return leader

    def _extended(self, until_ns: int | None) -> None:
        if self._leader is not None:
            self._leader.extended(until_ns)

    def _stands_by_after(self, error: BaseException) -> bool:
        """Whether to stand by after an error. With a shared store a term may end at any time; a lock ends with its
        process."""
        shared = self._leadership is None or self._leadership.deadline_ns() is not None
        stands_by = shared and isinstance(error, LeadershipLost | Indefinite)
        if stands_by:
            log.warning("%s is on standby: %s", self.name, error)
        return stands_by

    async def call(self, request: Message) -> Message:
        if not isinstance(request, ReportCoordinator):  # others may hear it that neither nodes nor clients reach
            self._isolation.heard(self._clock.now_ns())
        if isinstance(request, Initialise):
            return await self._initialise(request)
        answer = await self._unless_over(request, self._answering_for(request).call(request))
        if not isinstance(answer, ClusterFacts):
            return answer
        return msgspec.structs.replace(answer, running_ns=self._clock.now_ns() - self._began_ns)

    async def stream(self, request: Message) -> AsyncIterator[Message]:
        self._isolation.heard(self._clock.now_ns())
        # Closes the inner stream together with this one, which frees its resources at once.
        answering = self._answering_for(request)
        async with contextlib.aclosing(answering.stream(request)) as messages:
            async for message in messages:
                # A statement that has begun ends: an error would say that nothing has changed.
                if isinstance(request, AskBackup | AskSnapshot) and answering.catalog is not None:
                    check_counts(CALLER.get(), answering.catalog)
                yield message

    async def session(self, duplex: Duplex) -> None:
        """Serves one node's stream."""
        self._isolation.heard(self._clock.now_ns())
        await self._unless_over(None, self._leading().session(duplex))

    def check_counts(self, caller: Caller | None) -> None:
        """Raises `Forbidden` for a certificate that counts no more, as far as is known here."""
        for one in (self._leader, self._follower):
            if one is not None and one.catalog is not None:
                check_counts(caller, one.catalog)

    def _answering_for(self, request: Message) -> Leader | Follower:
        """Who answers a request here. Raises `NotLeader`, `NotInitialised`."""
        follower = self._follower
        return follower if follower is not None and follower.answers(request) else self._leading()

    async def _unless_over(self, request: Message | None, answer: Coroutine[Any, Any, T]) -> T:
        """Awaits an answer. Once the term of the leader ends, it raises `NotLeader` if the request only reads, else
        `Indefinite`."""
        try:
            async with self._answering.wait():
                return await answer
        except TimeoutError as error:
            if isinstance(request, READING):
                raise self._does_not_lead("has just ceased to lead") from error
            raise Indefinite(
                "the leadership ended before it answered", hint="ask another coordinator, with the same id"
            ) from error

    def _leading(self) -> Leader:
        leadership = self._leadership
        ends_ns = None if leadership is None else leadership.deadline_ns()
        # The clock is read after the request came in: the catalog of an old leader may be out of date.
        if leadership is None or (ends_ns is not None and self._clock.now_ns() >= ends_ns):
            raise self._does_not_lead()
        if self._leader is not None:
            return self._leader
        if self._lacks_cluster:
            raise NotInitialised(
                f"the meta storage of coordinator {self.name} has no cluster yet", hint="run `leasehold init`"
            )
        # Not `NotInitialised`, which says that no statement has ever been committed here.
        raise NotLeader(f"{self.name} is still reading its meta storage", hint="ask again in a moment")

    def _does_not_lead(self, why: str = "does not lead", error: LeaseholdError | None = None) -> NotLeader:
        """`error` is what the store has just said, if that is why."""
        text, cause, hint = f"{self.name} {why}", None, "try again in a moment"
        seen, obstacle = self._storage.seen_leader, error or self._storage.obstacle
        if obstacle is not None:
            text = f"{text}, since {obstacle.text}" if error else f"{text} and can't, since {obstacle.text}"
        if obstacle is not None and obstacle.code == ErrorCode.NO_QUORUM:
            cause, hint = obstacle.code, obstacle.hint
        elif obstacle is not None:
            text = f"{text} ({obstacle.hint})"
        if seen is None or seen.holder in {"", self.name}:
            return NotLeader(text, hint=hint if cause else f"ask another coordinator, or {hint}", cause=cause)
        return NotLeader(
            f"{text}: when it looked last, {seen.holder} led term {seen.term}",
            hint=hint if cause else f"ask {seen.holder}, or {hint}",
            leader=seen.holder,
            term=seen.term,
            cause=cause,
        )

    async def _initialise(self, request: Initialise) -> ClusterFacts:
        if (answering := self._leader or self._follower) is not None and answering.catalog is not None:
            check_counts(CALLER.get(), answering.catalog)
        check_founder(CALLER.get())
        if not is_hex_128(request.cluster_id):
            raise Refused("a cluster id is 128 bits in hex", code=ErrorCode.BAD_CLUSTER_ID, hint="draw a random one")
        leadership = self._leadership
        if leadership is None:
            raise self._does_not_lead()
        changes = first_records(request.cluster_id, self._settings)
        result = await self._storage.txn(Txn(compares=(*leadership.fence(), Missing(keys.CLUSTER)), then=changes))
        if not result.succeeded:
            standing = (await self._storage.status()).cluster_id
            if standing is None:
                raise NotLeader("another coordinator leads", hint="ask again: the next coordinator may lead")
            if standing != request.cluster_id:
                text = "this meta storage already belongs to a cluster"
                raise Refused(text, code=ErrorCode.INITIALISED, hint="use another directory for a second cluster")
        await self._in_office.wait()  # so that the next request of the same client finds a leader
        return ClusterFacts(cluster_id=request.cluster_id, generation=Generation(1), term=leadership.term, leader=True)


async def _until_transferred(leader: Leader) -> NoReturn:
    """Raises `_StepAside` once an operator wants another coordinator to lead."""
    successor = await leader.succession.successor
    log.info("an operator wants %s to lead", successor or "another coordinator")
    raise _StepAside(successor)


class _HandOver(Exception):
    """The term has to end in order."""


class _StepAside(Exception):
    """The term has to end in order, and another coordinator may campaign first: the one of this name, if any."""


class _End(Enum):
    """How a term ended in order."""

    HANDED_OVER = "handed over"
    STEPPED_ASIDE = "stepped aside in"
