"""What nodes hold of buckets that they are no replicas of: removed nodes, and retired ones.

Theory of operation. A node that is retired from a bucket (`core/replicas/placement.py`) takes no more rows of it. Its
files stay until the manifest names it no more: scans read them, other replicas fetch them, and a write that was staged
there before may still be committed. It is struck off an entry

- once no write transaction is open that may have staged segments on it, and
- while as many replicas as the table wants are known to hold the segment.

Once no entry names it, the bucket forgets it. The node itself then deletes the files, as all files that it should not
have (`core/replicas/reconcile.py`). A node that becomes a replica again is not retired any more. A removed node is
struck off at once: its files can't come back.
"""

from collections.abc import Iterable, Sequence

import msgspec

from leasehold.core.catalog.catalog import BucketKey, Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.replicas.dropped import cleaned
from leasehold.core.replicas.replication import is_present, present_holders
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import SegmentRecord, TransactionState
from leasehold.ids import BucketNumber, NodeId, ObjectId, SegmentId

SegmentKey = tuple[ObjectId, BucketNumber, SegmentId]


def held_by_retired(catalog: Catalog) -> tuple[list[SegmentKey], list[BucketKey]]:
    """The manifest entries that retired nodes are to be struck off, and the buckets in which none is named any more, in
    order. Walks the segments of all buckets with retired nodes that no open write may have staged segments on."""
    still_open = _oldest_open(catalog)
    entries: list[SegmentKey] = []
    done: list[BucketKey] = []
    for key in sorted(catalog.retired):
        bucket = catalog.buckets[key]
        if still_open.get(bucket.table, bucket.retired_below) < bucket.retired_below:
            continue
        named = [one for one in catalog.segments.passing(key) if not set(bucket.retired).isdisjoint(one.holders)]
        if not named:
            done.append(key)
        entries.extend(
            (*key, one.id)
            for one in sorted(named, key=lambda one: one.id)
            if _holders_kept(one, catalog) != one.holders
        )
    return entries, done


def _oldest_open(catalog: Catalog) -> dict[ObjectId, int]:
    """The smallest number of an open write transaction of each table that has one."""
    oldest: dict[ObjectId, int] = {}
    for one in catalog.transactions.values():
        if one.state is TransactionState.OPEN:
            oldest[one.table] = min(one.order, oldest.get(one.table, one.order))
    return oldest


def forgotten(done: Iterable[BucketKey], seen: Catalog, catalog: Catalog) -> tuple[Change, ...]:
    """These buckets without retired nodes, unless they have changed since `seen`."""
    changes: list[Change] = []
    for key in done:
        bucket = catalog.buckets.get(key)
        same = bucket is seen.buckets[key] and catalog.segments.mark(key) is seen.segments.mark(key)
        if bucket is not None and same:
            after = msgspec.structs.replace(bucket, retired=(), retired_below=0)
            changes.append(put(keys.bucket(*key), after))
    return tuple(changes)


def held_by_removed(catalog: Catalog) -> list[SegmentKey]:
    """The manifest entries that name a removed node as a holder, in order. Walks the manifest."""
    return sorted(
        (*bucket, segment.id)
        for bucket in catalog.segments
        for segment in catalog.segments.passing(bucket)
        if any(not is_present(node, catalog) for node in segment.holders)
    )


def struck(due: Sequence[SegmentKey], catalog: Catalog, max_bytes: int) -> tuple[tuple[Change, ...], int]:
    """These entries without removed and retired nodes, until they take `max_bytes`; and how many of `due` that was.

    An entry may be left without any holder, if all were removed: its rows are lost, and every reader gets an error.
    """
    changes: list[Change] = []
    size_bytes = taken = 0
    for table, bucket, name in due:
        entry = catalog.segments.get((table, bucket), {}).get(name)
        holders = () if entry is None else _holders_kept(entry, catalog)
        if entry is not None and holders != entry.holders:
            change = put(keys.segment(table, bucket, name), msgspec.structs.replace(entry, holders=holders))
            size_bytes += len(change.value or b"")
            if changes and size_bytes > max_bytes:
                break
            changes.append(change)
        taken += 1
    return tuple(changes), taken


def _holders_kept(entry: SegmentRecord, catalog: Catalog) -> tuple[NodeId, ...]:
    """The holders of a segment without removed nodes, and without retired ones if enough replicas hold it."""
    present = present_holders(entry, catalog)
    bucket, table = catalog.buckets.get((entry.table, entry.bucket)), catalog.tables.get(entry.table)
    if bucket is None or table is None:
        return present
    staying = tuple(node for node in present if node not in bucket.retired)
    return staying if len(staying) >= table.replication else present


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
