"""SHOW REPAIRS: the copies that are being made, by the node that gets them, and the buckets that leave nodes."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.questions.nodes import buckets_left
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
    retired = {node for key in catalog.retired for node in catalog.buckets[key].retired}
    for record in sorted(catalog.nodes.values(), key=lambda one: one.id):
        if not record.removed and (record.draining or record.id in retired):
            count = buckets_left(record, catalog) if record.draining else _retired_from(record.id, catalog)
            if count:
                rows.append((record.name, LEAVES, count, None, None, None, None))
    return rows_of(COLUMNS, rows, catalog)


def _retired_from(node: NodeId, catalog: Catalog) -> int:
    return sum(node in catalog.buckets[key].retired for key in catalog.retired)
