"""What a node's disk should hold, against what it holds (DESIGN section 6): planned purely, done one step at a time.

Plans are made on a **durable** catalog only, so that no effect on disk is ahead of the vault (INV-REC-1), and every
step is harmless when it is done twice.

| a file on disk                                                | step   |
| of a dropped table                                            | trash, then tell the leader |
| in the manifest, this node not named as a holder              | verify, then tell the leader |
| replaced by a rewrite, not yet released                       | keep: scans under way read it |
| not in the manifest, its write transaction ABORTED            | trash  |
| not in the manifest, COMMITTED: a losing attempt              | trash  |
| not in the manifest, OPEN                                     | keep   |
| the catalog knows nothing of it any more                      | trash: it was released, or its write ended long ago |
| the catalog has never known of it, here since the start       | trash: its write ended long ago |
| the catalog has never known of it, written since              | keep: its OPEN is on the way |
and for each segment of the manifest in an assigned bucket that is not on disk: fetch, verify, tell the leader.
"""

from collections.abc import Collection

import msgspec

from leasehold.core.catalog import Catalog
from leasehold.core.records import SegmentRecord, TransactionState
from leasehold.core.replication import missing
from leasehold.ids import BucketNumber, NodeId, ObjectId, SegmentId, segment_transaction


class OnDisk(msgspec.Struct, frozen=True, order=True):
    """A finished segment file."""

    table: ObjectId
    bucket: BucketNumber
    segment: SegmentId


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do now, each list in a fixed order."""

    clean: tuple[ObjectId, ...]
    """Dropped tables whose files this node must delete and report."""
    trash: tuple[OnDisk, ...]
    report: tuple[SegmentRecord, ...]
    """On disk already, to be verified and reported as held."""
    fetch: tuple[SegmentRecord, ...]

    @property
    def idle(self) -> bool:
        """Nothing to do."""
        return not (self.clean or self.trash or self.report or self.fetch)


def plan(durable: Catalog, node: NodeId, on_disk: Collection[OnDisk], known: Collection[OnDisk]) -> Plan:
    """Compares `on_disk`, listed **before** `durable` was read, with what the catalog says.

    `known`: files that an earlier catalog knew of (`is_known`), and those that lay there when the process started, once
    it has caught up.
    """
    clean = sorted(table for table, dropped in durable.dropped.items() if node in dropped.pending)
    trash: list[OnDisk] = []
    report: list[SegmentRecord] = []
    for one in sorted(on_disk):
        if one.table in clean:
            continue
        entry = durable.segments.get((one.table, one.bucket), {}).get(one.segment)
        if entry is None:
            if one.segment in durable.replaced.get((one.table, one.bucket), {}):
                continue
            if _superfluous(durable, one, known):
                trash.append(one)
        elif node not in entry.holders and _assigned(durable, one, node):
            report.append(entry)
    fetch = missing(durable, node, {one.segment for one in on_disk})
    return Plan(clean=tuple(clean), trash=tuple(trash), report=tuple(report), fetch=tuple(fetch))


def is_known(durable: Catalog, one: OnDisk) -> bool:
    """Whether the catalog says anything of a file: nothing any more is then as good as that it goes."""
    bucket = (one.table, one.bucket)
    return (
        one.segment in durable.segments.get(bucket, {})
        or one.segment in durable.replaced.get(bucket, {})
        or segment_transaction(one.segment) in durable.transactions
    )


def _superfluous(durable: Catalog, one: OnDisk, known: Collection[OnDisk]) -> bool:
    transaction = durable.transactions.get(segment_transaction(one.segment))
    if transaction is None:
        return one in known
    return transaction.state is not TransactionState.OPEN


def _assigned(durable: Catalog, one: OnDisk, node: NodeId) -> bool:
    bucket = durable.buckets.get((one.table, one.bucket))
    return bucket is not None and node in bucket.replicas
