"""Censuses of a node: its buckets, and the segments that nobody else holds.

A census walks all tables and buckets, which takes long. So the changes since are noted (`ChangesSince`) and counted at
the decision (`recounted`). The removal of another node may change any count, and so may one that begins to drain: after
that there is a new census.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from leasehold.core.catalog.catalog import BucketKey, Catalog, SegmentMap
from leasehold.core.catalog.shelf import segment_of
from leasehold.core.replicas.replication import has_other_holder, is_short, lies_on, staying
from leasehold.core.words import keys
from leasehold.core.words.records import SegmentRecord
from leasehold.ids import NodeId, ObjectId, SegmentId

COUNTED = (keys.TABLES, keys.BUCKETS, keys.SEGMENTS)
"""The records that a census goes through."""


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """The buckets of a node as of one catalog, and what its removal would cost."""

    node: NodeId
    buckets: Mapping[BucketKey, "SegmentMap | None"]
    """The segments of those that lie on it."""
    alone: Mapping[BucketKey, int]
    """How many of their segments nobody else holds, where there are any."""
    left: int
    """How many nodes there are besides that may have buckets."""
    short: frozenset[ObjectId]
    """The tables that want more replicas than that."""

    @property
    def lost(self) -> int:
        """Segments that nobody else is known to hold."""
        return sum(self.alone.values())

    def lost_tables(self) -> Counter[ObjectId]:
        """The same by table, in order."""
        found = Counter[ObjectId]()
        for (table, _), alone in sorted(self.alone.items()):
            found[table] += alone
        return found


class ChangesSince:
    """The keys that have changed since a census. After more than `most`, or once a node was removed or drains, that is
    too much."""

    def __init__(self, most: int, touched: Iterable[bytes] = (), *, is_too_much: bool = False) -> None:
        self._most = most
        self.touched = set(touched)
        self.is_too_much = is_too_much

    def hear(self, changed: Iterable[bytes], catalog: Catalog) -> None:
        for key in changed:
            if key.startswith(COUNTED):
                self.touched.add(key)
            elif key.startswith(keys.NODES):
                node = catalog.nodes[keys.node_of(key)]
                self.is_too_much = self.is_too_much or node.removed or node.draining
        if self.is_too_much or len(self.touched) > self._most:
            self.is_too_much = True
            self.touched.clear()

    def with_more(self, changed: Iterable[bytes], catalog: Catalog) -> "ChangesSince":
        """The same with keys whose change is not durable yet."""
        more = ChangesSince(self._most, self.touched, is_too_much=self.is_too_much)
        more.hear(changed, catalog)
        return more


def census(node: NodeId, catalog: Catalog) -> Census:
    """Walks all tables and buckets, and the segments of those that lie on the node."""
    keyed = (key for key, bucket in catalog.buckets.items() if lies_on(bucket, node))
    buckets: dict[BucketKey, SegmentMap | None] = {key: catalog.segments.get(key) for key in keyed}
    counted = ((key, _count_alone(node, segments, catalog)) for key, segments in buckets.items())
    alone = {key: count for key, count in counted if count}
    left = _left(node, catalog)
    short = frozenset(table for table in catalog.tables if is_short(table, left, catalog))
    return Census(node=node, buckets=buckets, alone=alone, left=left, short=short)


def recounted(old: Census, touched: Iterable[bytes], catalog: Catalog) -> Census:
    """The same as of a later catalog. Of the records in `COUNTED` only `touched` have changed since, and no node was
    removed."""
    buckets, alone = dict(old.buckets), dict(old.alone)
    left = _left(old.node, catalog)
    assert left >= old.left, "once a node was removed or drains there is a census anew"
    short = {table for table in old.short if is_short(table, left, catalog)}
    for key in sorted(touched):  # so a bucket comes before its segments
        if key.startswith(keys.BUCKETS):
            bucket = keys.bucket_of(key)
            record = catalog.buckets.get(bucket)
            buckets.pop(bucket, None)
            if record is not None and lies_on(record, old.node):
                buckets[bucket] = catalog.segments.get(bucket)
                if bucket not in old.buckets:
                    alone[bucket] = _count_alone(old.node, buckets[bucket], catalog)
            else:
                alone.pop(bucket, None)
        elif key.startswith(keys.SEGMENTS):
            bucket, name = keys.bucket_of(key), segment_of(key)
            if bucket in buckets and bucket in old.buckets:
                buckets[bucket] = catalog.segments.get(bucket)
                before, after = _entry(old.buckets[bucket], name), _entry(buckets[bucket], name)
                changed = _is_alone(old.node, after, catalog) - _is_alone(old.node, before, catalog)
                alone[bucket] = alone.get(bucket, 0) + changed
        elif is_short(keys.table_of(key), left, catalog):
            short.add(keys.table_of(key))
    alone = {key: count for key, count in alone.items() if count}
    return msgspec.structs.replace(old, buckets=buckets, alone=alone, left=left, short=frozenset(short))


def _entry(segments: "SegmentMap | None", name: SegmentId) -> SegmentRecord | None:
    return None if segments is None else segments.get(name)


def _count_alone(node: NodeId, segments: "SegmentMap | None", catalog: Catalog) -> int:
    return 0 if segments is None else sum(_is_alone(node, one, catalog) for one in segments.values())


def _is_alone(node: NodeId, segment: SegmentRecord | None, catalog: Catalog) -> bool:
    return segment is not None and node in segment.holders and not has_other_holder(segment, node, catalog)


def _left(node: NodeId, catalog: Catalog) -> int:
    return sum(one != node for one in staying(catalog, ()))
