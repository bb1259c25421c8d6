"""Placement as nodes come and go: buckets get another replica, and removed nodes are struck off what they held.

A bucket is due if a node of its replica set was removed, or if it has fewer replicas than its table wants and a member
of the logical topology could take it, one that is not about to be removed (`leaving`). The least loaded of them gets
it, fetches what it lacks, and is in the sync-state set once it holds all of it (`core/replicas/replication.py`). A
statement may raise what a table wants (`core/ddl/plans/properties.py`).

This happens in slices, behind the statement or the removal that made it due. Each slice is decided on the catalog of
its moment, so an old slice does no harm.
"""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from leasehold.core.catalog.catalog import BucketKey, Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.replicas.dropped import cleaned
from leasehold.core.replicas.replication import is_present, present_holders
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import BucketRecord, UseState
from leasehold.ids import BucketNumber, NodeId, ObjectId, SegmentId

SegmentKey = tuple[ObjectId, BucketNumber, SegmentId]


def wants_other_replicas(changes: Iterable[Change], before: Catalog, after: Catalog) -> bool:
    """Whether a table that was there before wants another number of replicas now."""
    for change in changes:
        if change.key.startswith(keys.TABLES) and change.value is not None:
            table = keys.table_of(change.key)
            known = before.tables.get(table)
            if known is not None and known.replication != after.tables[table].replication:
                return True
    return False


def due_buckets(catalog: Catalog, *, leaving: Collection[NodeId] = ()) -> list[BucketKey]:
    """The buckets that should have other replicas, in order. Walks all buckets."""
    able = _able(catalog, leaving)
    return sorted(key for key, bucket in catalog.buckets.items() if _is_due(bucket, able, catalog))


def placed(due: Iterable[BucketKey], catalog: Catalog, *, leaving: Collection[NodeId] = ()) -> tuple[Change, ...]:
    """What gives these buckets their replicas, as far as there are members for it."""
    able = _able(catalog, leaving)
    loads = {node: catalog.loads.get(node, 0) for node in able}
    changes: list[Change] = []
    for key in due:
        bucket = catalog.buckets.get(key)
        if bucket is not None and _is_due(bucket, able, catalog):
            changes.append(put(keys.bucket(*key), _placed(bucket, loads, catalog)))
    return tuple(changes)


def _placed(bucket: BucketRecord, loads: dict[NodeId, int], catalog: Catalog) -> BucketRecord:
    """The bucket with the replicas that are present, and with more if its table wants them; adds to `loads`."""
    replicas = [node for node in bucket.replicas if is_present(node, catalog)]
    free = sorted((node for node in loads if node not in replicas), key=lambda node: (loads[node], node))
    added = free[: max(0, _wanted(bucket, catalog) - len(replicas))]
    for node in added:
        loads[node] += 1
    in_sync = {node for node in bucket.in_sync if is_present(node, catalog)}
    if (bucket.table, bucket.bucket) not in catalog.segments:
        in_sync.update(added)  # there is nothing that they could lack
    replicas += added
    return msgspec.structs.replace(
        bucket, replicas=tuple(replicas), in_sync=tuple(node for node in replicas if node in in_sync)
    )


def _is_due(bucket: BucketRecord, able: frozenset[NodeId], catalog: Catalog) -> bool:
    if any(not is_present(node, catalog) for node in bucket.replicas):
        return True
    return len(bucket.replicas) < _wanted(bucket, catalog) and not able.issubset(bucket.replicas)


def _wanted(bucket: BucketRecord, catalog: Catalog) -> int:
    """Of a table that is being dropped nothing more is wanted."""
    table = catalog.tables.get(bucket.table)
    return 0 if table is None or table.state is not UseState.IN_USE else table.replication


def _able(catalog: Catalog, leaving: Collection[NodeId]) -> frozenset[NodeId]:
    members = (node.id for node in catalog.nodes.values() if node.member and not node.removed)
    return frozenset(node for node in members if node not in leaving)


# ---------------------------------------------------------------- what removed nodes held


def held_by_removed(catalog: Catalog) -> list[SegmentKey]:
    """The manifest entries that name a removed node as a holder, in order. Walks the manifest."""
    return sorted(
        (*bucket, segment.id)
        for bucket in catalog.segments
        for segment in catalog.segments.passing(bucket)
        if any(not is_present(node, catalog) for node in segment.holders)
    )


def struck(due: Sequence[SegmentKey], catalog: Catalog, max_bytes: int) -> tuple[tuple[Change, ...], int]:
    """These entries without removed nodes, until they take `max_bytes`; and how many of `due` that was.

    An entry may be left without any holder: its rows are lost, and every reader gets an error.
    """
    changes: list[Change] = []
    size_bytes = taken = 0
    for table, bucket, name in due:
        entry = catalog.segments.get((table, bucket), {}).get(name)
        holders = () if entry is None else present_holders(entry, catalog)
        if entry is not None and holders != entry.holders:
            change = put(keys.segment(table, bucket, name), msgspec.structs.replace(entry, holders=holders))
            size_bytes += len(change.value or b"")
            if changes and size_bytes > max_bytes:
                break
            changes.append(change)
        taken += 1
    return tuple(changes), taken


def cleaning_by_removed(catalog: Catalog) -> list[ObjectId]:
    """The dropped tables whose files a removed node was to delete, in order."""
    return sorted(
        table
        for table, dropped in catalog.dropped.items()
        if any(not is_present(node, catalog) for node in dropped.pending)
    )


def cleaned_by_removed(tables: Iterable[ObjectId], catalog: Catalog) -> tuple[Change, ...]:
    """Strikes removed nodes off the nodes that have to delete files."""
    changes: list[Change] = []
    for table in tables:
        pending = catalog.dropped[table].pending if table in catalog.dropped else ()
        changes.extend(cleaned(catalog, table, [node for node in pending if not is_present(node, catalog)]))
    return tuple(changes)
