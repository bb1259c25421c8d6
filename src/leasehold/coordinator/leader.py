"""A leader: everything that exists for one term, and the requests that it answers."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Final

import msgspec

from leasehold.coordinator.backups import Backups
from leasehold.coordinator.data.plans import Plans
from leasehold.coordinator.data.queries import Queries
from leasehold.coordinator.data.transactions import WriteTransactions
from leasehold.coordinator.nodes.leases import Leasing
from leasehold.coordinator.nodes.proofs import Membership
from leasehold.coordinator.nodes.registration import Registration
from leasehold.coordinator.nodes.removal import Removal
from leasehold.coordinator.nodes.sessions import Sessions
from leasehold.coordinator.nodes.snapshots import Snapshots
from leasehold.coordinator.nodes.topology import Topology
from leasehold.coordinator.people.logins import LoginRequest, Logins
from leasehold.coordinator.people.overview import Overview
from leasehold.coordinator.replicas.repair import Repair
from leasehold.coordinator.replicas.reports import NodeReports
from leasehold.coordinator.roster import CoordinatorRoster
from leasehold.coordinator.statements.execution import Execution
from leasehold.coordinator.statements.procedures import Procedures
from leasehold.coordinator.succession import WantedSuccessor
from leasehold.coordinator.upkeep.housekeeping import Housekeeping
from leasehold.coordinator.upkeep.retention import Retaining
from leasehold.coordinator.upkeep.scrub import scrub
from leasehold.coordinator.upkeep.wallclock import BelievedClock
from leasehold.coordinator.user_turns import CoordinatorTurns
from leasehold.coordinator.who_asks import tell_who_asks
from leasehold.coordinator.writer import Writer
from leasehold.core.access.callers import check_caller
from leasehold.core.access.request_rights import check_request
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.live_keys import LiveKeys
from leasehold.core.lease.grantor import Grantor
from leasehold.core.lease.grants import LeadershipEnded, LeadershipExtended, registrations
from leasehold.core.membership.cluster_ids import check_same_cluster
from leasehold.core.membership.coordinators import cluster_facts
from leasehold.core.membership.identity import hash_secret
from leasehold.core.membership.speaker import check_speaker
from leasehold.core.questions.lookups import LookUp
from leasehold.core.words import messages
from leasehold.core.words.messages import AskOutcome, Execute, Message
from leasehold.core.words.operations import RevisionChanges
from leasehold.core.words.records import CoordinatorRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadMessage, Definite, Indefinite, Refused
from leasehold.ids import NodeId
from leasehold.limits.statements import INLINE_EFFORT_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.limits.upkeep import HOUSEKEEPING_INTERVAL_NS, REPAIR_GATHER_NS
from leasehold.metastorage.contract import Leadership, MetaStorage
from leasehold.wire.ports import CALLER, PEER, Clock, Duplex, Entropy, Passwords

log = logging.getLogger(__name__)


class Leader:
    """Leads for one term, from a catalog that was read after the election."""

    def __init__(
        self,
        *,
        storage: MetaStorage,
        leadership: Leadership,
        catalog: Catalog,
        clock: Clock,
        passwords: Passwords,
        entropy: Entropy,
        turns: CoordinatorTurns,
        group: asyncio.TaskGroup,
        grantor: type[Grantor],
        seen: Callable[[str], str],
        membership: Membership,
        me: CoordinatorRecord,
        backups: Backups,
    ) -> None:
        self._membership = membership
        self._backups = backups
        assert catalog.cluster is not None
        assert catalog.settings is not None
        assert catalog.largest_lease is not None
        self._storage = storage
        self._clock = clock
        self._threads = turns.short.threads
        self._group = group
        self._leadership = leadership
        self._cluster = catalog.cluster
        self.grantor: Final = grantor(
            term=leadership.term,
            floor=catalog.revision,
            settings=catalog.settings,
            largest_outstanding_ns=catalog.largest_lease.duration_ns,
            registered=registrations(catalog.nodes.values()),
            hash_session=hash_secret,
            leads_until_ns=leadership.deadline_ns(),
            now_ns=clock.now_ns(),
            strangers=catalog.cluster.strangers,
        )
        """The leases of this term, to look at."""
        self.succession: Final = WantedSuccessor(leadership)
        """The end that an operator wants."""
        self._writer = Writer(storage, leadership, catalog, self._committed, clock.now_ns, self._wall_us)
        self._leasing = Leasing(self.grantor, clock)
        self._leasing.committed(catalog)
        self._transactions = WriteTransactions(self._writer, self._leasing, clock, entropy, turns.short, self._wall_us)
        self._queries = Queries(self._writer, clock)
        self._plans = Plans(storage, turns.short, self._writer)
        self._reports = NodeReports(self._writer, self._leasing)
        self._wall = BelievedClock(clock, self._writer)
        self._housekeeping = Housekeeping(self._writer, self._wall, turns.short.threads)
        self._retaining = Retaining(storage, leadership, self._writer, clock)
        self._live_keys = LiveKeys(catalog)
        self._snapshots = Snapshots(storage, self._retaining, lambda: self._live_keys.count, clock.now_ns)
        self._topology = Topology(self._writer, self._leasing, clock, self._absent_since_ns, self._is_being_removed)
        self._sessions = Sessions(
            storage,
            leadership.term,
            lambda: self._writer.catalog,
            self._reports.acknowledge,
            clock=clock,
            leasing=self._leasing,
            topology=self._topology,
            retaining=self._retaining,
            live_keys=lambda: self._live_keys.count,
            prove=self._prove,
        )
        self._removal = Removal(
            self._writer,
            self._leasing,
            clock,
            turns.short.threads,
            group,
            end_session=self._sessions.end,
            wall_us=self._wall.wall_us,
        )
        self._repair = Repair(
            self._writer,
            turns.short.threads,
            clock.now_ns,
            leaving=self._removal.all_leaving,
            leased=self._leasing.leased,
            failing=self._sessions.disks_failing,
        )
        self._sessions.on_failing = self._repair.wanted.set
        self._registration = Registration(
            storage, self._writer, self._leasing, clock, self._sessions.connected, membership=self._membership
        )
        self._logins = Logins(self._writer, clock, passwords, entropy, self._wall.wall_us)
        self._roster = CoordinatorRoster(storage, self._writer, clock, membership, me, leadership.term)
        self._overview = Overview(
            self._leasing,
            self._sessions,
            self._topology,
            self._repair.copies,
            leadership.term,
            catalog=lambda: self._writer.catalog,
            now_ns=clock.now_ns,
            failed_logins=self._logins.failed,
            seen=seen,
            join_wait_ns=self._registration.join_wait_ns,
            anybody_may_join=self._membership.anybody_may_join,
            coordinators=self._roster.rows,
            coordinator_certificates_end_s=self._roster.certificate_ends_s,
            store_warnings=lambda: storage.warnings,
            replaced_in_ns=self._repair.replaced_in_ns,
            copy_rates=self._repair.copied.rates,
            began_ns=clock.now_ns(),
            wall_us=self._wall.wall_us,
        )
        self._reports.on_lacked = self._repair.copies.lacks
        self._reports.on_held = self._repair.copies.holds
        self._procedures = Procedures(
            storage,
            self._writer,
            self._leasing,
            clock,
            group,
            turns.long,
            wall_us=self._wall.wall_us,
            serving=lambda: self._overview.serving(self._writer.catalog, clock.now_ns()),
            hashed=self._logins.hashed,
            leaving=self._removal.all_leaving,
            failing=self._sessions.disks_failing,
        )
        self._execution = Execution(self._procedures, self._overview, lambda: self._writer.catalog, clock, turns)

    def start(self) -> None:
        """Starts the tasks of this term in its group, and resumes the statements of earlier leaders."""
        self._group.create_task(self._writer.run())
        self._group.create_task(self._procedures.close_behind())
        self._group.create_task(self._keep_house())
        self._group.create_task(self._keep_replicas())
        self._group.create_task(self._topology.run())
        self._group.create_task(self._retaining.run())
        if self._leadership.deadline_ns() is not None:
            self._group.create_task(self._roster.enter())
        self._group.create_task(scrub(self._writer.catalog, self._clock, self._threads))
        self._procedures.resume()
        self._membership.warn()

    def extended(self, until_ns: int | None) -> None:
        self._leasing.step(LeadershipExtended(until_ns=until_ns))

    @property
    def catalog(self) -> Catalog:
        """As of the newest durable revision."""
        return self._writer.catalog

    @property
    def heard_ns(self) -> int:
        """When a node spoke last on a session that is open; 0 where none is."""
        return self._sessions.heard_ns

    def stop(self) -> None:
        """Grants nothing from now on. The tasks end with their group."""
        self._leasing.step(LeadershipEnded())
        self._leasing.stop()

    async def call(self, request: Message) -> Message:  # noqa: C901, PLR0911, PLR0912 - one return per kind of request
        """Answers one request; raises the error for the peer. `stream` looks at the rights of statements."""
        self._admit(request)
        await self._settled(request)
        user = None
        if isinstance(request, messages.ClientRequest) and not isinstance(request, Execute | AskOutcome):
            user = check_request(request, self._writer.catalog, reads_max=INLINE_EFFORT_MAX)
            tell_who_asks(user)
        match request:
            case messages.WhoAreYou():
                return cluster_facts(self._writer.catalog, self._leadership.term, leader=True)
            case messages.ChallengeCoordinator():
                return self._prove(request)
            case messages.Allocate():
                return await self._registration.allocate(request)
            case messages.Join():
                return await self._registration.join(request)
            case messages.AskIncarnation():
                return await self._registration.newest_incarnation(request)
            case messages.ReportProcessEnd():
                return self._sessions.process_ended(request)
            case messages.ReportCoordinator():
                return await self._roster.take(request)
            case _ if isinstance(request, LoginRequest):
                return await self._logins.answer(request, PEER.get(), CALLER.get())
            case messages.AskStatus():
                status = await self._overview.status_shown()
                return msgspec.structs.replace(status, clock_ahead_ns=self._wall.ahead_ns)
            case messages.PlanScan() | messages.PlanChanges() | messages.PlanQuery():
                return await self._plans.plan(request, user)
            case messages.AskTable():
                facts = await self._plans.facts(request, user)
                if not request.absences:
                    return facts
                absences = self._overview.absences(facts, self._writer.catalog, self._clock.now_ns())
                return msgspec.structs.replace(facts, absences=absences)
            case _ if isinstance(request, LookUp):
                return await self._plans.looked_up(request, user)
            case messages.AgreeCutoff():
                return await self._queries.agree(request)
            case messages.OpenTransaction() | messages.CommitTransaction() | messages.AbortTransaction():
                return await self._transactions.answer(request, self._procedures.origin)
            case messages.AskCompaction() | messages.EndCompaction():
                return await self._transactions.answer(request, self._procedures.origin)
            case messages.TransferLeadership():
                return self.succession.ask(request)
            case messages.RemoveNode():
                async with aclosing(self.stream(request)) as answers:
                    async for answer in answers:
                        if isinstance(answer, messages.NodeRemoved):
                            return answer
                raise Indefinite("the removal was interrupted", hint="ask again")
            case Execute() | AskOutcome():
                # Most statements end within milliseconds. Otherwise this is the first message about its progress.
                async with aclosing(self.stream(request)) as answers:
                    return await anext(answers)
            case _:
                raise BadMessage(f"not a request: {type(request).__name__}")

    async def stream(self, request: Message) -> AsyncGenerator[Message, None]:
        """Answers a request in several messages: progress first, the answer last."""
        self._admit(request)
        await self._settled(request)
        if isinstance(request, Execute | AskOutcome):
            origin = self._procedures.origin(request.statement)
            if origin is not None:
                async for message in self._execution.tell_again(request, origin):
                    yield message
                return
        match request:
            case messages.AskSnapshot():
                catalog = self._writer.catalog
                check_speaker(request, catalog)
                async with aclosing(self._snapshots.serve(request, catalog)) as pages:
                    async for message in pages:
                        yield message
            case messages.AskBackup():
                check_request(request, self._writer.catalog)
                async with aclosing(self._backups.serve(self._writer.catalog)) as pages:
                    async for message in pages:
                        yield message
            case messages.RemoveNode():
                check_request(request, self._writer.catalog)
                async for message in self._removal.stream(request):
                    yield message
            case AskOutcome(statement=statement):
                check_request(request, self._writer.catalog)
                async for message in self._procedures.outcome(statement):
                    yield message
            case Execute():
                async for message in self._execution.execute(request):
                    yield message
            case _:
                raise BadMessage(f"not a statement: {type(request).__name__}")

    async def session(self, duplex: Duplex) -> None:
        """Serves one node's stream."""
        await self._sessions.serve(duplex)

    def _prove(self, challenge: messages.ChallengeCoordinator) -> messages.CoordinatorProof:
        self._admit(challenge)
        return self._membership.prove(challenge)

    async def _settled(self, request: Message) -> None:
        """Returns once a client may be answered: it may have heard of what is under way from a follower."""
        if isinstance(request, messages.ClientRequest | messages.AnyLogin | messages.RenewLogins | messages.LogOut):
            await self._writer.settled()

    def _admit(self, request: Message) -> None:
        check_caller(request, CALLER.get(), self._writer.catalog)
        check_same_cluster(request, self._cluster.cluster_id)

    def _committed(self, batch: RevisionChanges, catalog: Catalog) -> None:
        self._leasing.committed(catalog)
        self._registration.committed(batch, catalog)
        self._topology.committed(batch, catalog)
        self._live_keys.committed(batch.changes, catalog)
        self._housekeeping.committed(batch)
        self._retaining.committed(batch)
        self._removal.committed(batch, catalog)
        self._sessions.committed(batch, catalog)
        self._repair.committed(batch, catalog)

    def _wall_us(self) -> int:
        return self._wall.wall_us()  # made after the writer, whose catalog it reads

    def _absent_since_ns(self, node: NodeId) -> int | None:
        return self._sessions.absent_since_ns(node)

    def _is_being_removed(self, node: NodeId) -> bool:
        return self._removal.leaving(node)

    async def _keep_house(self) -> None:
        """Keeps house each HOUSEKEEPING_INTERVAL_NS. A meta storage that is gone ends this leader."""
        while True:
            await self._clock.sleep_until(self._clock.now_ns() + HOUSEKEEPING_INTERVAL_NS)
            if not await self._look_at_the_store():
                continue
            try:
                await self._queries.expire()
                await self._transactions.expire()
                await self._logins.expire()
                await self._registration.give_up()
                await self._roster.forget()
                await self._housekeeping.keep()
                await self._leasing.lower_largest_lease(self._writer)
            except Definite as error:
                log.warning("housekeeping failed, retrying: %s", error)

    async def _keep_replicas(self) -> None:
        """Each HOUSEKEEPING_INTERVAL_NS; at once if that is wanted and the last time is REPAIR_GATHER_NS ago."""
        kept_ns = self._clock.now_ns()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(HOUSEKEEPING_INTERVAL_NS / SECOND_NS):
                    await self._repair.wanted.wait()
                    await self._clock.sleep_until(kept_ns + REPAIR_GATHER_NS)
            try:
                await self._repair.keep()
            except Definite as error:
                log.warning("repair failed, retrying: %s", error)
            kept_ns = self._clock.now_ns()

    async def _look_at_the_store(self) -> bool:
        """Whether the meta storage answers; raises its error if it never will again."""
        try:
            await self._storage.status()
        except (Refused, Indefinite) as error:
            # In a shared store an answer may be lost, and the term ends by its deadline.
            may_be_lost = isinstance(error, Indefinite) and self._leadership.deadline_ns() is not None
            if error.code != ErrorCode.BUSY and not may_be_lost:
                raise
            log.warning("housekeeping failed, retrying: %s", error)
            return False
        return True
