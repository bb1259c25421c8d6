"""Replication: where buckets live, and who is known to hold all of one (DESIGN section 9).

A bucket is **assigned** to its replica set; the **sync-state set** is the part of it that holds every visible
segment. Only members with a segment on a synced disk ever count, by node id, never by address (I17).
"""

from collections.abc import Iterable, Mapping

import msgspec

from leasehold.core.catalog import Catalog
from leasehold.core.records import BucketRecord, SegmentRecord
from leasehold.errors import Refused
from leasehold.ids import BucketNumber, NodeId, ObjectId, SegmentId


def place(
    catalog: Catalog, *, table: ObjectId, buckets: int, replication: int, serving: Iterable[NodeId]
) -> list[BucketRecord]:
    """Assigns each bucket of a new table to `replication` nodes: those that serve first, then the least loaded.

    Deterministic. Raises `Refused` (TOO_FEW_NODES) when the cluster has fewer nodes than that.
    """
    members = [node.id for node in catalog.nodes.values() if not node.removed and node.incarnation > 0]
    if len(members) < replication:
        raise Refused(
            f"replication {replication} needs {replication} nodes, the cluster has {len(members)}",
            code="TOO_FEW_NODES",
            hint="start more nodes, or set TBLPROPERTIES ('replication' = '1')",
        )
    load = {node: catalog.loads.get(node, 0) for node in members}
    up = set(serving)
    placed: list[BucketRecord] = []
    for number in range(buckets):
        chosen = sorted(members, key=lambda node: (node not in up, load[node], node))[:replication]
        for node in chosen:
            load[node] += 1
        # Rotated, so that writers, who try the first replica first, spread over the nodes.
        turn = number % replication
        replicas = tuple(chosen[turn:] + chosen[:turn])
        placed.append(BucketRecord(table=table, bucket=BucketNumber(number), replicas=replicas, in_sync=replicas))
    return placed


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
    held = {segment.id for segment in segments.values() if node in segment.holders}
    for segment_id in sorted(set(fetched)):
        segment = segments.get(segment_id)
        if segment is not None and node not in segment.holders:
            changed.append(msgspec.structs.replace(segment, holders=(*segment.holders, node)))
            held.add(segment_id)
    if held == set(segments) and node not in bucket.in_sync:
        members = {*bucket.in_sync, node}
        bucket = msgspec.structs.replace(bucket, in_sync=tuple(one for one in bucket.replicas if one in members))
    return bucket, changed


def missing(catalog: Catalog, node: NodeId, held: Iterable[SegmentId]) -> list[SegmentRecord]:
    """The visible segments of this node's buckets that it does not hold, in the order of their ids."""
    have = set(held)
    wanted: list[SegmentRecord] = []
    for key, segments in catalog.segments.items():
        bucket = catalog.buckets.get(key)
        if bucket is not None and node in bucket.replicas:
            wanted.extend(one for one in segments.values() if one.id not in have)
    return sorted(wanted, key=lambda one: one.id)
