"""A coordinator process: wins a term, reads what there is, leads until it ends."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from leasehold.coordinator.leader import Leader
from leasehold.coordinator.nodes.proofs import Membership
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import Holding
from leasehold.core.lease.grantor import Grantor
from leasehold.core.membership.proofs import ProofKeys
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.lineage import GENESIS, next_lineage
from leasehold.core.words.messages import ClusterFacts, Initialise, Message
from leasehold.core.words.operations import Change, Missing, Txn
from leasehold.core.words.records import AnyRecord, ClusterRecord, CountersRecord, LargestLeaseRecord, SettingsRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt, Indefinite, LeaseholdError, NotInitialised, NotLeader, Refused
from leasehold.ids import ClusterId, Generation, LineageHash, NodeId, ObjectId, Revision, is_hex_128
from leasehold.limits.lease import DRIFT_PPM, LEADER_POLL_NS, LEADER_RETRY_NS, LEASE_DURATION_NS, LEASE_MARGIN_NS
from leasehold.limits.messages import FORMAT_VERSION
from leasehold.limits.metastorage import RANGE_PAGE_MAX
from leasehold.limits.recovery import CATCH_UP_DIFFERENCE
from leasehold.metastorage.contract import Leadership, LeadershipLost, MetaStorage
from leasehold.wire.ports import Clock, Duplex, Entropy, Passwords, Threads
from leasehold.wire.tasks import gravest_here

log = logging.getLogger(__name__)

T = TypeVar("T")

DEFAULT_SETTINGS = SettingsRecord(
    lease_duration_ns=LEASE_DURATION_NS,
    lease_margin_ns=LEASE_MARGIN_NS,
    drift_ppm=DRIFT_PPM,
    catch_up_difference=CATCH_UP_DIFFERENCE,
    min_in_sync=0,
)


class Coordinator:
    """The service of one coordinator process; `run` is its life.

    Where several share a meta storage, one leads and the others stand by: they answer `NotLeader`. `seen` says how the
    physical topology sees a node, by its name. Without `keys`, any process that reaches it may become a node.
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
        settings: SettingsRecord = DEFAULT_SETTINGS,
        grantor: type[Grantor] = Grantor,
        seen: Callable[[str], str] = lambda _: "",
        keys: ProofKeys | None = None,
    ) -> None:
        self.membership = Membership(keys)
        self._name = name
        self._storage = storage
        self._clock = clock
        self._passwords = passwords
        self._entropy = entropy
        self._threads = threads
        self._settings = settings
        self._grantor = grantor
        self._seen = seen
        self._leadership: Leadership | None = None
        self._leader: Leader | None = None
        self._lacks_cluster = False
        """Whether this term has read the meta storage and found no cluster in it."""
        self._initialised = asyncio.Event()
        self._leaving = asyncio.Event()
        self._in_office = asyncio.Event()
        """Set once this term's leader answers, or the term is over."""
        self._answering: dict[asyncio.Timeout, None] = {}
        """What waits for an answer of this term's leader: it ends with the term."""

    @property
    def leader(self) -> Leader | None:
        """What leads here now, to look at."""
        return self._leader

    async def run(self) -> None:
        """Leads or stands by until cancelled, or until it has handed over. Raises what only a restart can cure."""
        while True:
            try:
                if await self._lead():
                    return
            except BaseExceptionGroup as errors:
                error = gravest_here(errors)
                if not self._stands_by_after(error):
                    raise error from errors
                if isinstance(error, Indefinite) and self._leadership is not None:
                    await self._leadership.resign()  # what it wrote is looked up by whoever leads next, and at once
            except LeaseholdError as error:
                if not self._stands_by_after(error):
                    raise
            finally:
                self._leadership = None
                self._in_office.set()
                self._in_office = asyncio.Event()
            await self._clock.sleep_until(self._clock.now_ns() + LEADER_RETRY_NS)

    def hand_over(self) -> None:
        """Asks for an end in order: nothing is granted any more, and a successor need not wait; then `run` returns.

        One that stands by has nothing to hand over: cancel it.
        """
        self._leaving.set()

    async def _lead(self) -> bool:
        """One term, from the campaign on; whether it was handed over."""
        leadership = self._leadership = await self._storage.campaign(self._name)
        handed_over = False
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(leadership.hold(self._extended))
                try:
                    await self._take_office(leadership, group)
                    await self._leaving.wait()
                finally:
                    # Within the group: nothing may be begun in it once it ends.
                    if self._leader is not None:
                        self._leader.stop()
                    self._leader = None
                    self._end_answers()
                raise _HandOver
        except* _HandOver:
            handed_over = True
        await leadership.resign()
        log.info("handed over term %d", leadership.term)
        return handed_over

    async def _take_office(self, leadership: Leadership, group: asyncio.TaskGroup) -> None:
        self._lacks_cluster = False
        catalog = await read_catalog(self._storage)
        while catalog.cluster is None:
            self._lacks_cluster = True
            # Told, or found: the answer to an initialisation may have been lost.
            timer = self._clock.call_at(self._clock.now_ns() + LEADER_POLL_NS, self._initialised.set)
            await self._initialised.wait()
            timer.cancel()
            self._initialised.clear()
            catalog = await read_catalog(self._storage)
        leader = Leader(
            storage=self._storage,
            leadership=leadership,
            catalog=catalog,
            clock=self._clock,
            passwords=self._passwords,
            entropy=self._entropy,
            threads=self._threads,
            group=group,
            grantor=self._grantor,
            seen=self._seen,
            membership=self.membership,
        )
        leader.start()
        log.info(
            "leading term %d at revision %d, %d nodes registered, %d statements to resume",
            leadership.term,
            catalog.revision,
            len(catalog.nodes),
            len(catalog.procedures),
        )
        self._leader = leader
        self._in_office.set()

    def _extended(self, until_ns: int | None) -> None:
        if self._leader is not None:
            self._leader.extended(until_ns)

    def _stands_by_after(self, error: BaseException) -> bool:
        """Where machines share the store, a term that ended is nobody's fault; a lock ends with its process."""
        shared = self._leadership is None or self._leadership.deadline_ns() is not None
        stands_by = shared and isinstance(error, LeadershipLost | Indefinite)
        if stands_by:
            log.warning("%s is on standby: %s", self._name, error)
        return stands_by

    # ------------------------------------------------------------ the service

    async def call(self, request: Message) -> Message:
        """Answers one request."""
        if isinstance(request, Initialise):
            return await self._initialise(request)
        return await self._unless_over(self._leading().call(request))

    async def stream(self, request: Message) -> AsyncIterator[Message]:
        """Answers one request in several messages."""
        # Closed with this one: what it holds while it runs is free at once.
        async with contextlib.aclosing(self._leading().stream(request)) as messages:
            async for message in messages:
                yield message

    async def session(self, duplex: Duplex) -> None:
        """Serves one node's stream."""
        await self._unless_over(self._leading().session(duplex))

    async def _unless_over(self, answer: Coroutine[Any, Any, T]) -> T:
        """What a leader answers; raises `Indefinite` as soon as it leads no more, whatever it still waits for."""
        try:
            async with asyncio.timeout(None) as term:
                self._answering[term] = None
                try:
                    return await answer
                finally:
                    self._answering.pop(term, None)
        except TimeoutError as error:
            raise Indefinite(
                "the leadership ended before it answered", hint="ask another coordinator, with the same id"
            ) from error

    def _end_answers(self) -> None:
        """Whoever still waits for the leader that was here waits no more."""
        ended, self._answering = self._answering, {}
        for term in ended:
            term.reschedule(asyncio.get_running_loop().time())

    def _leading(self) -> Leader:
        leadership = self._leadership
        ends_ns = None if leadership is None else leadership.deadline_ns()
        # The clock is read after the request came in: what an old leader knows may not be true any more.
        if leadership is None or (ends_ns is not None and self._clock.now_ns() >= ends_ns):
            raise self._does_not_lead()
        if self._leader is not None:
            return self._leader
        if self._lacks_cluster:
            raise NotInitialised(
                f"the meta storage of coordinator {self._name} has no cluster yet", hint="run `leasehold init`"
            )
        # Not `NotInitialised`, which says that no statement has ever been committed here.
        raise NotLeader(f"{self._name} is still reading its meta storage", hint="ask again in a moment")

    def _does_not_lead(self) -> NotLeader:
        return NotLeader(f"{self._name} does not lead", hint="ask another coordinator, or try again in a moment")

    async def _initialise(self, request: Initialise) -> ClusterFacts:
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
                self._initialised.set()  # an earlier request whose answer was lost
                text = "this meta storage already belongs to a cluster"
                raise Refused(text, code=ErrorCode.INITIALISED, hint="use another directory for a second cluster")
        in_office = self._in_office
        self._initialised.set()
        await in_office.wait()  # whoever asked goes on to ask more
        return ClusterFacts(cluster_id=request.cluster_id, generation=Generation(1), term=leadership.term, leader=True)


class _HandOver(Exception):
    """We were told to end in order."""


def first_records(cluster_id: ClusterId, settings: SettingsRecord) -> tuple[Change, ...]:
    """What initialisation writes, lineage included."""
    records: dict[bytes, AnyRecord] = {
        keys.CLUSTER: ClusterRecord(cluster_id=cluster_id, generation=Generation(1), format_version=FORMAT_VERSION),
        keys.SETTINGS: settings,
        keys.COUNTERS: CountersRecord(
            next_node=NodeId(1), next_object=ObjectId(1), next_procedure=1, next_transaction=1
        ),
        keys.LARGEST_LEASE: LargestLeaseRecord(duration_ns=settings.lease_duration_ns),
    }
    changes = tuple(Change(key, encode(record)) for key, record in sorted(records.items()))
    return (*changes, Change(keys.LINEAGE, next_lineage(GENESIS, changes)))


async def read_catalog(storage: MetaStorage) -> Catalog:
    """The catalog at LM, read page by page at one revision: a large one lets others of this loop go on meanwhile.

    Its segments are read, and decoded when they are asked for (`core.catalog.shelf`)."""
    catalog, held = Catalog(), Holding()
    lineage, latest = GENESIS, Revision(0)
    start, revision = keys.WATCH_START, None
    while True:
        page = await storage.range(start, keys.WATCH_END, revision=revision, limit=RANGE_PAGE_MAX)
        revision = page.revision
        for item in page.items:
            if item.key == keys.LINEAGE:
                lineage, latest = LineageHash(item.value), item.modified
        catalog = catalog.changed(held.taking(page.items))
        if page.next_start is None:
            break
        start = page.next_start
    catalog = catalog.holding(held.segments, held.replaced)
    catalog = msgspec.structs.replace(catalog, revision=latest, lineage=lineage)
    if catalog.cluster is not None and catalog.cluster.format_version > FORMAT_VERSION:
        raise Corrupt(
            f"the meta storage is of format {catalog.cluster.format_version}, this program reads {FORMAT_VERSION}",
            code=ErrorCode.NEWER_VERSION,
            hint="run the newer version of leasehold",
        )
    return catalog
