"""Replication: where buckets live, and who is known to hold all of one (docs/design.md, "Data").

A bucket is **assigned** to its replica set; the **sync-state set** is the part of it that holds every visible segment.
Holders count by node id, never by address (I17). `core/replicas/placement.py` decides what follows when nodes come and
go.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words.records import BucketRecord, SegmentRecord, SettingsRecord, TableRecord, UseState
from leasehold.core.words.statements import TableName
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import BucketNumber, NodeId, ObjectId, SegmentId
from leasehold.limits.statements import REPLICATION_FOR_TWO


def place(
    catalog: Catalog,
    *,
    table: ObjectId,
    buckets: int,
    replication: int,
    serving: Iterable[NodeId],
    leaving: Collection[NodeId] = (),
) -> list[BucketRecord]:
    """Assigns each bucket of a new table to `replication` nodes: those that serve first, then others of the logical
    topology, then the rest; of each in different racks, then the least loaded, and none that is `leaving`.

    Deterministic. Raises `Refused` (TOO_FEW_NODES) when the cluster has fewer nodes than that.
    """
    members = staying(catalog, leaving)
    check_nodes(replication, len(members))
    load = {node: catalog.loads.get(node, 0) for node in members}
    up = set(serving)
    entered = {node.id for node in catalog.nodes.values() if node.member}
    racks = racks_of(catalog)
    placed: list[BucketRecord] = []
    for number in range(buckets):
        free, chosen, crowd = set(members), list[NodeId](), Counter[str]()
        for _ in range(replication):
            node = min(free, key=lambda one: (one not in up, one not in entered, crowd[racks[one]], load[one], one))
            free.remove(node)
            chosen.append(node)
            crowd[racks[node]] += 1
            load[node] += 1
        # Rotated, so that writers, who try the first replica first, spread over the nodes.
        turn = number % replication
        replicas = tuple(chosen[turn:] + chosen[:turn])
        placed.append(BucketRecord(table=table, bucket=BucketNumber(number), replicas=replicas, in_sync=replicas))
    return placed


def check_nodes(replication: int, nodes: int) -> None:
    """Raises `Refused` (TOO_FEW_NODES) if a table can't have so many replicas on so many nodes."""
    if nodes < replication:
        raise Refused(
            f"replication {replication} needs {replication} nodes, the cluster has {nodes}",
            code=ErrorCode.TOO_FEW_NODES,
            hint="start more nodes, or ask for fewer replicas: TBLPROPERTIES ('replication' = 'n')",
        )


def staying(catalog: Catalog, leaving: Collection[NodeId]) -> list[NodeId]:
    """The nodes that new tables may be placed on, running or not."""
    joined = (one for one in catalog.nodes.values() if not one.removed and one.incarnation > 0)
    return [one.id for one in joined if not one.draining and one.id not in leaving]


def is_short(table: ObjectId, nodes: int, catalog: Catalog) -> bool:
    """Whether a table in use wants more replicas than there are nodes for buckets."""
    record = catalog.tables.get(table)
    return record is not None and record.state is UseState.IN_USE and record.replication > nodes


def racks_of(catalog: Catalog) -> dict[NodeId, str]:
    """The rack of each node; one that did not name any is a rack of its own."""
    return {node.id: node.rack or f"node {node.id}" for node in catalog.nodes.values()}


def holders_needed(settings: SettingsRecord, table: TableRecord) -> int:
    """How many nodes must hold a segment for its commit (INV-REP-1): what the table says, else the cluster.

    By default two, if a table has three replicas or more: one node may be away while rows are written, and another one
    may then be lost. Two of two would refuse writes while one is away.
    """
    wanted = table.min_in_sync or settings.min_in_sync or (2 if table.replication >= REPLICATION_FOR_TWO else 1)
    return min(wanted, table.replication)


def check_min_in_sync(table: TableRecord, name: TableName) -> None:
    """Raises `Refused` (BAD_PROPERTY) if writes of a table would need more holders than it has replicas."""
    if table.min_in_sync > table.replication:
        raise Refused(
            f"'min_in_sync' {table.min_in_sync} of {name} is more than its 'replication' {table.replication}:"
            " no write could be committed",
            code=ErrorCode.BAD_PROPERTY,
            hint=f"set both: TBLPROPERTIES ('replication' = '{table.replication}', 'min_in_sync' ="
            f" '{table.replication}')",
        )


def after_commit(bucket: BucketRecord, added: Iterable[SegmentRecord]) -> BucketRecord:
    """The sync-state set once these segments are visible: a member that lacks one leaves it."""
    in_sync = set(bucket.in_sync)
    for segment in added:
        in_sync &= set(segment.holders)
    return msgspec.structs.replace(bucket, in_sync=tuple(node for node in bucket.in_sync if node in in_sync))


def after_replacement(bucket: BucketRecord, segments: Iterable[SegmentRecord]) -> BucketRecord:
    """The sync-state set once these are all its segments: a node that lacked only what was taken out is in it again."""
    in_sync = set(bucket.replicas)
    for segment in segments:
        in_sync &= set(segment.holders)
    return msgspec.structs.replace(bucket, in_sync=tuple(node for node in bucket.replicas if node in in_sync))


def after_fetch(
    bucket: BucketRecord, segments: Mapping[SegmentId, SegmentRecord], node: NodeId, fetched: Iterable[SegmentId]
) -> tuple[BucketRecord, list[SegmentRecord]]:
    """What changes once `node` holds `fetched`: their manifest entries, and the set if it lacks nothing now."""
    if node not in bucket.replicas:
        return bucket, []
    changed: list[SegmentRecord] = []
    reported = set(fetched)
    for segment_id in sorted(reported):
        segment = segments.get(segment_id)
        if segment is not None and node not in segment.holders:
            changed.append(msgspec.structs.replace(segment, holders=(*segment.holders, node)))
    # Seldom a look at all of them: it ends with the first one that the node lacks.
    if node not in bucket.in_sync and all(node in one.holders or one.id in reported for one in segments.values()):
        members = {*bucket.in_sync, node}
        bucket = msgspec.structs.replace(bucket, in_sync=tuple(one for one in bucket.replicas if one in members))
    return bucket, changed


def after_loss(
    bucket: BucketRecord,
    segments: Mapping[SegmentId, SegmentRecord],
    node: NodeId,
    lost: Iterable[SegmentId],
    *,
    catalog: Catalog,
) -> tuple[BucketRecord, list[SegmentRecord], list[SegmentId]]:
    """What changes once `node` reports segments as `lost` that the manifest says it holds (I7): the sync-state set, the
    entries without it, and the segments of which it stays the holder, since nobody else is."""
    changed: list[SegmentRecord] = []
    alone: list[SegmentId] = []
    for segment_id in sorted(set(lost)):
        segment = segments.get(segment_id)
        if segment is None or node not in segment.holders:
            continue
        if has_other_holder(segment, node, catalog):
            changed.append(msgspec.structs.replace(segment, holders=without(segment.holders, node)))
        else:
            alone.append(segment_id)
    if changed and node in bucket.in_sync:
        bucket = msgspec.structs.replace(bucket, in_sync=without(bucket.in_sync, node))
    return bucket, changed, alone


def has_other_holder(segment: SegmentRecord, node: NodeId, catalog: Catalog) -> bool:
    """Whether a node that was not removed is known to hold it besides `node`."""
    return any(one != node and is_present(one, catalog) for one in segment.holders)


def present_holders(segment: SegmentRecord, catalog: Catalog) -> tuple[NodeId, ...]:
    """The nodes that hold it and were not removed."""
    return tuple(node for node in segment.holders if is_present(node, catalog))


def lies_on(bucket: BucketRecord, node: NodeId) -> bool:
    """Whether the node is a replica of a bucket, or was one and may still be named as a holder."""
    return node in bucket.replicas or node in bucket.retired


def is_present(node: NodeId, catalog: Catalog) -> bool:
    record = catalog.nodes.get(node)
    return record is not None and not record.removed


def without(nodes: tuple[NodeId, ...], node: NodeId) -> tuple[NodeId, ...]:
    return tuple(one for one in nodes if one != node)
