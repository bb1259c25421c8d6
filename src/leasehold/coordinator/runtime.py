"""A coordinator process: wins a term, reads what there is, leads until it ends."""

import asyncio
import logging
from collections.abc import AsyncIterator

from leasehold.coordinator.leader import Leader
from leasehold.core import keys
from leasehold.core.catalog import Catalog
from leasehold.core.codec import encode
from leasehold.core.lineage import GENESIS, next_lineage
from leasehold.core.messages import ClusterFacts, Initialise, Message
from leasehold.core.operations import Change, Missing, Txn
from leasehold.core.records import AnyRecord, ClusterRecord, CountersRecord, LargestLeaseRecord, SettingsRecord
from leasehold.errors import Corrupt, NotInitialised, NotLeader, Refused
from leasehold.ids import ClusterId, Generation, LineageHash, NodeId, ObjectId, Revision, is_hex_128
from leasehold.limits import (
    CATCH_UP_DIFFERENCE,
    DRIFT_PPM,
    FORMAT_VERSION,
    LEASE_DURATION_NS,
    LEASE_MARGIN_NS,
    RANGE_PAGE_MAX,
)
from leasehold.metastorage.contract import Leadership, MetaStorage
from leasehold.wire.ports import Clock, Duplex

log = logging.getLogger(__name__)

DEFAULT_SETTINGS = SettingsRecord(
    lease_duration_ns=LEASE_DURATION_NS,
    lease_margin_ns=LEASE_MARGIN_NS,
    drift_ppm=DRIFT_PPM,
    catch_up_difference=CATCH_UP_DIFFERENCE,
    min_in_sync=1,
)


class Coordinator:
    """The service of one coordinator process; `run` is its life."""

    def __init__(
        self, *, name: str, storage: MetaStorage, clock: Clock, settings: SettingsRecord = DEFAULT_SETTINGS
    ) -> None:
        self._name = name
        self._storage = storage
        self._clock = clock
        self._settings = settings
        self._leadership: Leadership | None = None
        self._leader: Leader | None = None
        self._initialised = asyncio.Event()

    async def run(self) -> None:
        """Leads until cancelled. Raises `LeadershipLost` or `Indefinite` when it must start again from the store."""
        leadership = await self._storage.campaign(self._name)
        self._leadership = leadership
        try:
            catalog = await read_catalog(self._storage)
            if catalog.cluster is None:
                await self._initialised.wait()
                catalog = await read_catalog(self._storage)
            async with asyncio.TaskGroup() as group:
                leader = Leader(
                    storage=self._storage,
                    leadership=leadership,
                    catalog=catalog,
                    clock=self._clock,
                    group=group,
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
        finally:
            if self._leader is not None:
                self._leader.stop()
            self._leader = None

    # ------------------------------------------------------------ the service

    async def call(self, request: Message) -> Message:
        """Answers one request."""
        if isinstance(request, Initialise):
            return await self._initialise(request)
        return await self._leading().call(request)

    async def stream(self, request: Message) -> AsyncIterator[Message]:
        """Answers one request in several messages."""
        async for message in self._leading().stream(request):
            yield message

    async def session(self, duplex: Duplex) -> None:
        """Serves one node's stream."""
        await self._leading().session(duplex)

    def _leading(self) -> Leader:
        if self._leader is None:
            raise NotInitialised(
                "this coordinator's meta storage has no cluster yet, or it is still starting",
                hint="run `leasehold init`, or wait a moment if it was initialised before",
            )
        return self._leader

    async def _initialise(self, request: Initialise) -> ClusterFacts:
        if not is_hex_128(request.cluster_id):
            raise Refused("a cluster id is 128 bits in hex", code="BAD_CLUSTER_ID", hint="draw a random one")
        leadership = self._leadership
        if leadership is None:
            raise NotInitialised("this coordinator is still starting", hint="try again in a moment")
        changes = first_records(request.cluster_id, self._settings)
        result = await self._storage.txn(Txn(compares=(*leadership.fence(), Missing(keys.CLUSTER)), then=changes))
        if not result.succeeded:
            standing = (await self._storage.status()).cluster_id
            if standing is None:
                raise NotLeader("another coordinator leads", hint="ask again: the next one may lead")
            if standing != request.cluster_id:
                self._initialised.set()  # an earlier request whose answer was lost
                text = "this meta storage belongs to a cluster already"
                raise Refused(text, code="INITIALISED", hint="use another directory for a second cluster")
        self._initialised.set()
        return ClusterFacts(cluster_id=request.cluster_id, generation=Generation(1), term=leadership.term, leader=True)


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
    """The catalog at LM, read page by page at one revision."""
    items: list[Change] = []
    lineage, latest = GENESIS, Revision(0)
    start, revision = keys.WATCH_START, None
    while True:
        page = await storage.range(start, keys.WATCH_END, revision=revision, limit=RANGE_PAGE_MAX)
        revision = page.revision
        for item in page.items:
            if item.key == keys.LINEAGE:
                lineage, latest = LineageHash(item.value), item.modified
            else:
                items.append(Change(item.key, item.value))
        if page.next_start is None:
            break
        start = page.next_start
    catalog = Catalog.restored(latest, lineage, items)
    if catalog.cluster is not None and catalog.cluster.format_version > FORMAT_VERSION:
        raise Corrupt(
            f"the meta storage is of format {catalog.cluster.format_version}, this program reads {FORMAT_VERSION}",
            code="NEWER_VERSION",
            hint="run the newer version of leasehold",
        )
    return catalog
