"""Begins a new generation in a restored meta storage, before a coordinator leads on it
(`core.membership.generations`)."""

import asyncio
from contextlib import aclosing
from typing import Final

import msgspec

from leasehold.coordinator.stored_catalog import read_catalog
from leasehold.coordinator.upkeep.scrub import decode
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.membership.generations import check_clock, raised, raised_leader, restored_leader, unknown_leader
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record, encode
from leasehold.core.words.lineage import next_lineage
from leasehold.core.words.operations import Change, KeyValue, Txn, ValueIs
from leasehold.core.words.records import ClusterRecord, LeaderRecord
from leasehold.errors import Corrupt, NotInitialised
from leasehold.ids import LineageHash
from leasehold.limits.clients import CLIENT_PATIENCE_NS
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.contract import LeadershipLost, MetaStorage
from leasehold.metastorage.log.log import Log
from leasehold.metastorage.log.patience import PatientClient
from leasehold.metastorage.log.unled import raise_term

CANDIDATE: Final = "recover"
"""The name under which the command leads for a moment."""


class BegunGeneration(msgspec.Struct, frozen=True, kw_only=True):
    """A durable new generation: its nodes by name, and the longest lease that may still be out."""

    cluster: ClusterRecord
    longest_lease_ns: int
    nodes: tuple[str, ...]


async def begin_generation(storage: MetaStorage, *, wall_s: int, longest_lease_ns: int) -> BegunGeneration:
    """Begins it in one transaction. Raises `NotInitialised` without a cluster, `Corrupt` if the store is damaged,
    `Refused` as `raised` does, `LeadershipLost` if another coordinator campaigns."""
    await check_history(storage)
    catalog = await read_catalog(storage)
    if catalog.cluster is None:
        raise NotInitialised("this meta storage holds no cluster", hint="restore a backup of the right directory")
    for shelf in (catalog.segments, catalog.replaced):
        decode(shelf, shelf)  # finds damage now, while another backup can be taken
    begun, changes = next_generation(catalog, wall_s=wall_s, longest_lease_ns=longest_lease_ns)
    # Only now, since nobody beats: what took long was read before. The lineage shows whether it still counts.
    try:
        async with asyncio.timeout(CLIENT_PATIENCE_NS / SECOND_NS):
            leadership = await storage.campaign(CANDIDATE)
    except TimeoutError as error:
        raise _led() from error
    found = await storage.get(keys.LEADER)
    leaders = [] if found is None else [_raised(found, catalog.cluster, begun.cluster)]
    txn = Txn(compares=(*leadership.fence(), ValueIs(keys.LINEAGE, catalog.lineage)), then=(*changes, *leaders))
    if not (await storage.txn(txn)).succeeded:
        raise _led()
    await leadership.resign()
    return begun


async def begin_generation_in_log(
    storage: MetaStorage, shared: Log, client: PatientClient, *, wall_s: int, longest_lease_ns: int
) -> BegunGeneration:
    """As `begin_generation`, in a log that several coordinators share. Raises also `StillLed` and `Unreachable`. The
    term jumps first: if nothing follows, only some terms were left out."""
    found = await storage.get(keys.CLUSTER)
    if found is None:
        raise NotInitialised("this log holds no cluster", hint="check the name of the cluster in --meta")
    cluster = decode_record(ClusterRecord, found.value)
    check_clock(cluster, wall_s)
    before = unknown_leader(cluster)
    await raise_term(shared, client, lambda record: restored_leader(record or before, cluster, cluster, wall_s))
    return await begin_generation(storage, wall_s=wall_s, longest_lease_ns=longest_lease_ns)


def _led() -> LeadershipLost:
    return LeadershipLost("another coordinator leads", hint="stop every coordinator first")


def next_generation(
    catalog: Catalog, *, wall_s: int, longest_lease_ns: int
) -> tuple[BegunGeneration, tuple[Change, ...]]:
    """The generation after that of the catalog, and the changes of the revision that begins it. Raises as `raised`."""
    next_one = raised(catalog, wall_s=wall_s, longest_lease_ns=longest_lease_ns)
    lineage = Change(keys.LINEAGE, next_lineage(catalog.lineage, next_one.changes))
    begun = BegunGeneration(
        cluster=next_one.cluster,
        longest_lease_ns=next_one.longest_lease_ns,
        nodes=tuple(sorted(one.name for one in catalog.nodes.values() if not one.removed)),
    )
    return begun, (*next_one.changes, lineage)


async def check_history(storage: MetaStorage) -> None:
    """Raises `Corrupt` unless each kept revision follows from the one before. A newer log beside a restored file would
    make one store of two, without any damaged page."""
    status = await storage.status()
    if status.minimum >= status.latest:
        return
    before: bytes | None = None
    async with aclosing(storage.watch(keys.WATCH_START, keys.WATCH_END, status.minimum)) as batches:
        async for batch in batches:
            found = next((one.value for one in batch.changes if one.key == keys.LINEAGE), None)
            if before is not None and found != next_lineage(LineageHash(before), batch.changes):
                raise Corrupt(
                    f"revision {batch.revision} of this meta storage does not follow from the one before: it is not a"
                    " copy from one point in time",
                    hint="empty the directory and restore a complete backup: a newer meta.db-wal must not stay there",
                )
            before = found
            if batch.revision >= status.latest:
                return


def _raised(found: KeyValue, before: ClusterRecord, after: ClusterRecord) -> Change:
    record = decode_record(LeaderRecord, found.value)
    return Change(found.key, encode(raised_leader(record, before, after.generation)))
