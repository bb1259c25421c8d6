"""A leader: everything that exists for one term, put together, and the requests it answers."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from functools import partial

import msgspec

from leasehold.coordinator.data.queries import Queries
from leasehold.coordinator.data.transactions import WriteTransactions
from leasehold.coordinator.nodes.lease_settings import lower_largest_lease
from leasehold.coordinator.nodes.leases import Leasing
from leasehold.coordinator.nodes.proofs import Membership
from leasehold.coordinator.nodes.registration import Registration
from leasehold.coordinator.nodes.removal import Removal
from leasehold.coordinator.nodes.sessions import Sessions
from leasehold.coordinator.nodes.snapshots import Snapshots
from leasehold.coordinator.nodes.topology import Topology
from leasehold.coordinator.people.logins import Logins
from leasehold.coordinator.people.overview import Overview
from leasehold.coordinator.replicas.repair import Repair
from leasehold.coordinator.replicas.reports import NodeReports
from leasehold.coordinator.statements.execution import Execution
from leasehold.coordinator.statements.procedures import Procedures
from leasehold.coordinator.upkeep.housekeeping import Housekeeping
from leasehold.coordinator.upkeep.retention import Retaining
from leasehold.coordinator.upkeep.scrub import scrub
from leasehold.coordinator.upkeep.wallclock import BelievedClock
from leasehold.coordinator.writer import Writer
from leasehold.core.access.request_rights import check_request
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.live_keys import LiveKeys
from leasehold.core.data.facts import parse_name, table_facts, view_facts
from leasehold.core.data.scan_plan import plan_query, plan_scan
from leasehold.core.lease.grantor import Grantor, LeadershipEnded, LeadershipExtended, registrations
from leasehold.core.membership.identity import hash_secret
from leasehold.core.membership.speaker import check_speaker
from leasehold.core.questions.receipts import receipts
from leasehold.core.words.messages import (
    AbortTransaction,
    AgreeCutoff,
    Allocate,
    AskIncarnation,
    AskOutcome,
    AskReceipts,
    AskSnapshot,
    AskStatus,
    AskTable,
    AskView,
    ChallengeCoordinator,
    ClientRequest,
    ClusterFacts,
    CommitTransaction,
    CoordinatorProof,
    Execute,
    Join,
    Login,
    LogOut,
    Message,
    NodeRemoved,
    OpenTransaction,
    PlanQuery,
    PlanScan,
    RemoveNode,
    WhoAreYou,
)
from leasehold.core.words.operations import RevisionChanges
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadMessage, Definite, Indefinite, Refused
from leasehold.ids import ClusterId, NodeId
from leasehold.limits.upkeep import HOUSEKEEPING_INTERVAL_NS
from leasehold.metastorage.contract import Leadership, MetaStorage
from leasehold.wire.peer import PEER
from leasehold.wire.ports import Clock, Duplex, Entropy, Passwords, Threads

log = logging.getLogger(__name__)


class Leader:
    """Serves one term on a catalog that was read after the election was won."""

    def __init__(
        self,
        *,
        storage: MetaStorage,
        leadership: Leadership,
        catalog: Catalog,
        clock: Clock,
        passwords: Passwords,
        entropy: Entropy,
        threads: Threads,
        group: asyncio.TaskGroup,
        grantor: type[Grantor] = Grantor,
        seen: Callable[[str], str] = lambda _: "",
        membership: Membership | None = None,
    ) -> None:
        self._membership = membership or Membership(None)
        assert catalog.cluster is not None
        assert catalog.settings is not None
        assert catalog.largest_lease is not None
        self._storage = storage
        self._clock = clock
        self._threads = threads
        self._group = group
        self._leadership = leadership
        self._term = leadership.term
        self._cluster = catalog.cluster
        engine = grantor(
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
        self._writer = Writer(storage, leadership, catalog, self._committed, clock.now_ns)
        self._leasing = Leasing(engine, clock)
        self._leasing.committed(catalog.revision, catalog.lineage)
        self._transactions = WriteTransactions(self._writer, self._leasing, clock)
        self._queries = Queries(self._writer, clock)
        self._reports = NodeReports(self._writer, self._leasing)
        self._wall = BelievedClock(clock, self._writer)
        self._housekeeping = Housekeeping(self._writer, self._wall, threads)
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
            topology=self._topology,
            retaining=self._retaining,
            live_keys=lambda: self._live_keys.count,
            prove=self._prove,
        )
        self._removal = Removal(self._writer, self._leasing, clock, threads, group, end_session=self._sessions.end)
        self._repair = Repair(self._writer, threads, self._removal.all_leaving)
        self._registration = Registration(
            storage, self._writer, self._leasing, clock, self._sessions.connected, membership=self._membership
        )
        self._logins = Logins(self._writer, clock, passwords, entropy)
        wait = self._registration.join_wait_ns
        self._overview = Overview(
            self._leasing,
            self._sessions,
            self._topology,
            leadership.term,
            self._logins.failed,
            seen,
            join_wait_ns=wait,
            anybody_may_join=self._membership.anybody_may_join,
        )
        self._overview.copies = self._repair.copies
        self._reports.on_lacked = self._repair.copies.lacks
        self._procedures = Procedures(
            storage,
            self._writer,
            self._leasing,
            self._wall,
            group,
            threads,
            serving=self._serving,
            hashed=self._logins.hashed,
            leaving=self._removal.all_leaving,
        )
        self._execution = Execution(
            self._procedures, self._overview.answer, lambda: self._writer.catalog, clock, threads
        )

    def start(self) -> None:
        """Begins to write, resumes what earlier leaders left, and keeps house, all in the group it was given."""
        self._group.create_task(self._writer.run())
        self._group.create_task(self._procedures.close_behind())
        self._group.create_task(self._keep_house())
        self._group.create_task(self._topology.run())
        self._group.create_task(self._retaining.run())
        self._group.create_task(scrub(self._writer.catalog, self._clock, self._threads))
        self._procedures.resume()
        self._membership.warn()

    @property
    def grantor(self) -> Grantor:
        """The leases of this term, to look at."""
        return self._leasing.grantor

    def extended(self, until_ns: int | None) -> None:
        """The leadership has been renewed."""
        self._leasing.step(LeadershipExtended(until_ns=until_ns))

    def stop(self) -> None:
        """Grants nothing from here on. Tasks end with their group."""
        self._leasing.step(LeadershipEnded())
        self._leasing.stop()

    async def call(self, request: Message) -> Message:  # noqa: C901, PLR0911, PLR0912 - one return per kind of request
        """Answers one request; raises the error that the peer is to see."""
        self._same_cluster(request)
        if isinstance(request, ClientRequest) and not isinstance(request, Execute | AskOutcome):
            check_request(request, self._writer.catalog)
        match request:
            case WhoAreYou():
                return ClusterFacts(
                    cluster_id=self._cluster.cluster_id,
                    generation=self._cluster.generation,
                    term=self._term,
                    leader=True,
                )
            case ChallengeCoordinator():
                return self._prove(request)
            case Allocate():
                return await self._registration.allocate(request)
            case Join():
                return await self._registration.join(request)
            case AskIncarnation():
                return await self._registration.newest_incarnation(request)
            case Login():
                return await self._logins.log_in(request, PEER.get())
            case LogOut():
                return await self._logins.log_out(request)
            case AskStatus():
                status = self._overview.status(self._writer.catalog, self._clock.now_ns())
                return msgspec.structs.replace(status, clock_ahead_ns=self._wall.ahead_ns)
            case AskReceipts():
                return receipts(request, self._writer.catalog)
            case AskTable(name=name):
                return table_facts(self._writer.catalog.table(parse_name(name)), self._writer.catalog)
            case AskView(name=name):
                return view_facts(parse_name(name), self._writer.catalog)
            case PlanScan(rewrite=True):
                # It holds all segments against all DELETEs: not on the loop that grants leases.
                return await self._threads.run(partial(plan_scan, request, self._writer.catalog))
            case PlanScan():
                return plan_scan(request, self._writer.catalog)
            case PlanQuery():
                return plan_query(request, self._writer.catalog)
            case AgreeCutoff():
                return await self._queries.agree(request)
            case OpenTransaction():
                return await self._transactions.open(request, self._procedures.origin)
            case CommitTransaction():
                return await self._transactions.commit(request)
            case AbortTransaction():
                return await self._transactions.abort(request)
            case RemoveNode():
                async with contextlib.aclosing(self.stream(request)) as answers:
                    async for answer in answers:
                        if isinstance(answer, NodeRemoved):
                            return answer
                raise Indefinite("the removal was interrupted", hint="ask again")
            case Execute() | AskOutcome():
                # Most statements end within milliseconds: the answer itself, or whom it waits for, without a stream.
                async with contextlib.aclosing(self.stream(request)) as answers:
                    return await anext(answers)
            case _:
                raise BadMessage(f"not a request: {type(request).__name__}")

    async def stream(self, request: Message) -> AsyncGenerator[Message, None]:
        """Runs a statement, or tells what became of one: progress, then the answer."""
        self._same_cluster(request)
        if isinstance(request, Execute | AskOutcome):
            origin = self._procedures.origin(request.statement)
            if origin is not None:
                async for message in self._execution.tell_again(request, origin):
                    yield message
                return
        match request:
            case AskSnapshot():
                catalog = self._writer.catalog
                check_speaker(request, catalog)
                async with contextlib.aclosing(self._snapshots.serve(request, catalog)) as messages:
                    async for message in messages:
                        yield message
            case RemoveNode():
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
        await self._sessions.serve(duplex, self._leasing)

    def _prove(self, challenge: ChallengeCoordinator) -> CoordinatorProof:
        self._same_cluster(challenge)
        return self._membership.prove(challenge)

    def _same_cluster(self, request: Message) -> None:
        asked: ClusterId | None = getattr(request, "cluster_id", None)
        if (
            asked is not None
            and asked != self._cluster.cluster_id
            and not isinstance(request, Allocate | AskIncarnation | Join)
        ):
            raise Refused(
                f"this is cluster {self._cluster.cluster_id}, the request is for {asked[:64]}",
                code=ErrorCode.OTHER_CLUSTER,
                hint="connect again: another cluster has taken this address",
            )

    def _committed(self, batch: RevisionChanges, catalog: Catalog) -> None:
        self._leasing.committed(batch.revision, catalog.lineage)
        self._leasing.follow(catalog.settings, batch.revision)
        self._registration.committed(batch, catalog)
        self._topology.committed(batch, catalog)
        self._live_keys.committed(batch.changes, catalog)
        self._housekeeping.committed(batch)
        self._removal.committed(batch, catalog)
        self._repair.committed(batch, catalog)

    def _absent_since_ns(self, node: NodeId) -> int | None:
        return self._sessions.absent_since_ns(node)

    def _is_being_removed(self, node: NodeId) -> bool:
        return self._removal.leaving(node)

    def _serving(self) -> list[NodeId]:
        return self._overview.serving(self._writer.catalog, self._clock.now_ns())

    async def _keep_house(self) -> None:
        """Now and then. What can't be done now is tried again; a meta storage that is gone ends this leader."""
        while True:
            await self._clock.sleep_until(self._clock.now_ns() + HOUSEKEEPING_INTERVAL_NS)
            if not await self._look_at_the_store():
                continue
            try:
                await self._queries.expire()
                await self._transactions.expire()
                await self._logins.expire()
                await self._registration.give_up()
                await self._housekeeping.keep()
                await self._repair.keep()
                await lower_largest_lease(self._writer, self._leasing.grantor, self._clock)
            except Definite as error:
                log.warning("housekeeping failed, retrying: %s", error)

    async def _look_at_the_store(self) -> bool:
        """Whether the meta storage answers; raises what it says once it never will again."""
        try:
            await self._storage.status()
        except Refused as error:
            if error.code != ErrorCode.BUSY:
                raise
            log.warning("housekeeping failed, retrying: %s", error)
        except Indefinite as error:
            # Where machines share the store, an answer may be lost; the term has an end of its own.
            if self._leadership.deadline_ns() is None:
                raise
            log.warning("housekeeping failed, retrying: %s", error)
        else:
            return True
        return False
