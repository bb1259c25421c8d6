"""The catalog in a meta storage: its first records, how all of it is read, and how it is followed."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import Holding
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.lineage import GENESIS, next_lineage
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import AnyRecord, ClusterRecord, CountersRecord, LargestLeaseRecord, SettingsRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt
from leasehold.ids import ClusterId, Generation, LineageHash, NodeId, ObjectId, Revision
from leasehold.limits.lease import DRIFT_PPM, LEASE_DURATION_NS, LEASE_MARGIN_NS
from leasehold.limits.messages import FORMAT_VERSION
from leasehold.limits.metastorage import RANGE_PAGE_MAX
from leasehold.limits.recovery import CATCH_UP_DIFFERENCE
from leasehold.metastorage.contract import Compacted, MetaStorage

DEFAULT_SETTINGS = SettingsRecord(
    lease_duration_ns=LEASE_DURATION_NS,
    lease_margin_ns=LEASE_MARGIN_NS,
    drift_ppm=DRIFT_PPM,
    catch_up_difference=CATCH_UP_DIFFERENCE,
    min_in_sync=0,
)


def first_records(cluster_id: ClusterId, settings: SettingsRecord) -> tuple[Change, ...]:
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
    """The catalog at LM, read page by page at one revision, so that other tasks run meanwhile. Its segments are decoded
    when they are asked for (`core.catalog.shelf`)."""
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
    check_format(catalog)
    return catalog


def check_format(catalog: Catalog) -> None:
    """Raises `Corrupt` (NEWER_VERSION) for a catalog that this program does not understand."""
    if catalog.cluster is not None and catalog.cluster.format_version > FORMAT_VERSION:
        raise Corrupt(
            f"the meta storage is of format {catalog.cluster.format_version}, this program reads {FORMAT_VERSION}",
            code=ErrorCode.NEWER_VERSION,
            hint="run the newer version of leasehold",
        )


async def same_as(storage: MetaStorage, revision: Revision, compacted: Compacted) -> Revision:
    """The oldest readable revision with the same watched range as `revision`. Raises `Compacted` if there is none. In a
    file an election takes a revision too, so MM may pass LM."""
    while True:
        try:
            found = await storage.get(keys.LINEAGE, compacted.minimum)
        except Compacted as error:
            compacted = error
            continue
        if found is None or found.modified > revision:
            raise compacted
        return compacted.minimum


async def watched(storage: MetaStorage, from_revision: Revision) -> AsyncGenerator[RevisionChanges]:
    """The changes of the watched range from `from_revision` on, without an end. Raises `Compacted` if one of them is
    compacted, not where only revisions beside the watched range are."""
    while True:
        try:
            async with aclosing(storage.watch(keys.WATCH_START, keys.WATCH_END, from_revision)) as batches:
                async for batch in batches:
                    yield batch
                    from_revision = Revision(batch.revision + 1)
        except Compacted as compacted:
            from_revision = await same_as(storage, Revision(from_revision - 1), compacted)
