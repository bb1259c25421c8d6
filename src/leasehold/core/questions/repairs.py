"""SHOW REPAIRS: the copies that are being made, by the node that gets them, and the buckets that leave nodes."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.questions.nodes import buckets_retired
from leasehold.core.questions.rows import Row, rows_of
from leasehold.core.replicas.replication import is_present
from leasehold.core.words.messages import Rows
from leasehold.ids import NodeId

COLUMNS: Final = ("node", "work", "buckets", "segments", "bytes", "bytes_per_s", "seconds_left")
COPIES: Final = "COPIES"
"""Buckets of the node of which it lacks segments."""
LEAVES: Final = "LEAVES"
"""Buckets that are still on the node and are to leave it: it drains, or was retired from them."""


def repairs(catalog: Catalog, rates: Mapping[NodeId, int]) -> Rows:
    """`rates` are bytes per second. Walks all buckets, and the segments of those of which a replica is not in sync."""
    buckets, segments, size_bytes = Counter[NodeId](), Counter[NodeId](), Counter[NodeId]()
    for key, bucket in catalog.buckets.items():
        behind = set(bucket.replicas) - set(bucket.in_sync)
        if not behind:
            continue
        lacking = set[NodeId]()
        for one in catalog.segments.passing(key):
            for node in behind.difference(one.holders):
                lacking.add(node)
                segments[node] += 1
                size_bytes[node] += one.size_bytes
        buckets.update(lacking)
    rows: list[Row] = []
    for node in sorted(buckets):
        if is_present(node, catalog):
            rate, left = rates.get(node, 0), size_bytes[node]
            seconds = -(-left // rate) if rate else None
            rows.append((catalog.nodes[node].name, COPIES, buckets[node], segments[node], left, rate or None, seconds))
    leaves = buckets_retired(catalog)
    leaves.update({one.id: catalog.loads.get(one.id, 0) for one in catalog.nodes.values() if one.draining})
    for node, count in sorted(leaves.items()):
        if count and is_present(node, catalog):
            rows.append((catalog.nodes[node].name, LEAVES, count, None, None, None, None))
    return rows_of(COLUMNS, rows, catalog)
