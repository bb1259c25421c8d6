"""Rows that tests of the path of rows write, and what they look up of them."""

import pyarrow as pa

from leasehold.client.append import stage
from leasehold.core.words.messages import StagedSegment
from tests.unit.node.cluster import Cluster


def append(made: Cluster, *batches: pa.RecordBatch) -> tuple[StagedSegment, ...]:
    transaction = made.open()
    staged = stage(made.facts(), transaction, batches, made.catalog.revision)
    made.commit(transaction, staged)
    return staged


def keys_of(table: pa.Table) -> list[int]:
    return table.column("k").to_pylist()


def first_holder(made: Cluster) -> int:
    """The node that a reader of the first segment asks first."""
    segment = made.plan().segments[0]
    return segment.holders[int(segment.id[-8:], 16) % len(segment.holders)]
