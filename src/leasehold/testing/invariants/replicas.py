"""Replicas in the end: a bucket has as many as its table wants, on nodes that may have them, in as many racks as there
are, nobody else holds it, and none moves.

As LIVENESS no check of a state: the simulation calls it at the end of a run, when everything is started, connected and
resumed. Buckets of which a segment is on no disk any more are left out: nobody can be in sync with them. A write that
its client gave up stays open for longer than a run lasts. What is retired from its table may have to wait for it.
"""

import asyncio
from collections import defaultdict
from typing import Final

from leasehold.core.words.records import (
    BucketRecord,
    NodeRecord,
    SegmentRecord,
    TableRecord,
    TransactionRecord,
    TransactionState,
    UseState,
)
from leasehold.ids import BucketNumber, NodeId, ObjectId
from leasehold.limits.units import SECOND_NS
from leasehold.testing.invariants.liveness import ID
from leasehold.testing.oracle import Oracle

LIMIT_NS: Final = 180 * SECOND_NS
"""Copies may fail before: then they rest, and everything that follows waits for the next round of housekeeping."""

Bucket = tuple[ObjectId, BucketNumber]


async def settled(oracle: Oracle, *, limit_ns: int = LIMIT_NS) -> int:
    """Waits until all replicas are as they should be; returns how long that took, in simulated ns.

    Raises `InvariantViolated` (LIVENESS), which names what is left after `limit_ns`.
    """
    began_ns = oracle.real_ns
    while True:
        left = unsettled(oracle)
        if left is None:
            return oracle.real_ns - began_ns
        if oracle.real_ns - began_ns >= limit_ns:
            raise oracle.violation(ID, f"{limit_ns / SECOND_NS:g} s after the world healed {left}")
        await asyncio.sleep(1)


def unsettled(oracle: Oracle) -> str | None:
    """The first bucket whose replicas are not as they should be."""
    records = oracle.history.records.values()
    able = (one for one in records if isinstance(one, NodeRecord) and one.member and not one.draining)
    racks = {one.id: one.rack or f"node {one.id}" for one in able}
    tables = {one.id: one for one in records if isinstance(one, TableRecord) and one.state is UseState.IN_USE}
    oldest: dict[ObjectId, int] = {}
    for one in records:
        if isinstance(one, TransactionRecord) and one.state is TransactionState.OPEN:
            oldest[one.table] = min(one.order, oldest.get(one.table, one.order))
    segments: dict[Bucket, list[SegmentRecord]] = defaultdict(list)
    for one in records:
        if isinstance(one, SegmentRecord):
            segments[one.table, one.bucket].append(one)
    for one in records:
        if isinstance(one, BucketRecord) and one.table in tables:
            held = segments[one.table, one.bucket]
            waits = oldest.get(one.table, one.retired_below) < one.retired_below
            wrong = _wrong(one, held, tables[one.table].replication, racks, waits=waits)
            if wrong is not None and all(_is_on_a_disk(oracle, segment) for segment in held):
                return f"bucket {one.bucket} of table {one.table} {wrong}"
    return None


def _wrong(
    bucket: BucketRecord, segments: list[SegmentRecord], wanted: int, racks: dict[NodeId, str], *, waits: bool
) -> str | None:
    replicas = set(bucket.replicas)
    if bucket.moving is not None:
        return f"still moves, from and to {bucket.moving}"
    if len(replicas & racks.keys()) < min(wanted, len(racks)):
        return f"has too few replicas: {sorted(replicas)}, {wanted} are wanted, {sorted(racks)} are there"
    if len(replicas) > wanted and len(racks) >= wanted:  # else a drain counted on a machine that was lost
        return f"has too many replicas: {sorted(replicas)}, {wanted} are wanted"
    spread = {racks[node] for node in replicas if node in racks}
    if len(spread) < min(wanted, len(set(racks.values()))):
        return f"is on {sorted(replicas)}, in fewer racks than it could be: {sorted(spread)}"
    if bucket.retired and not waits:
        return f"still lies on {sorted(bucket.retired)}"
    known = replicas.union(bucket.retired if waits else ())
    # A lost machine stays a replica where there are fewer machines than replicas are wanted.
    there = replicas & racks.keys()
    other = next((one for one in segments if not there <= set(one.holders) <= known), None)
    return None if other is None else f"is on {sorted(replicas)}, its segment {other.id} on {sorted(other.holders)}"


def _is_on_a_disk(oracle: Oracle, one: SegmentRecord) -> bool:
    disks = (disk for host, disk in oracle.disks.items() if oracle.nodes.get(host, NodeId(0)) in one.holders)
    return any(disk.holds(one.table, one.bucket, one.id) for disk in disks)
