"""Removal of a node: its id and token become tombstones for ever, its name is free again (I10, INV-ID-1).

Theory of operation. Nothing is granted to the node from the first step on, so its lease runs out whatever it does; a
node that has surrendered has none. Only then, in one step, its incarnation is closed and the tombstone is decided, so
that no commit that follows can count on it (`core/commit.py`), and no process of it is let in again
(`core/admission.py`). Its buckets get other replicas behind that (`core/placement.py`).

What stands in the way is counted in a census of all tables and segments, which takes long, and the tombstone is decided
on the catalog of a later moment. So the changes between the two are looked through as it is decided (`recounted`).
The removal of another node changes what any segment depends on: after one, there is a census anew. Told first is what
is worst to give up, since force gives up all of it.

| what stands in the way                                   | without force   | with force                            |
| -------------------------------------------------------- | --------------- | ------------------------------------- |
| segments that only this node is known to hold            | ONLY_HOLDER     | they are lost: SEGMENTS_LOST          |
| no other node has ever joined                            | LAST_NODE       | removed                               |
| a table wants more replicas than nodes are left          | TOO_FEW_NODES   | its buckets have fewer replicas       |
"""

from collections.abc import Iterable, Mapping

import msgspec

from leasehold.core import keys
from leasehold.core.catalog import BucketKey, Catalog, SegmentMap
from leasehold.core.operations import Change
from leasehold.core.plan import put
from leasehold.core.records import NodeRecord, SegmentRecord, UseState
from leasehold.core.replication import has_other_holder
from leasehold.errors import NotFound, Refused
from leasehold.ids import BucketNumber, NodeId, ObjectId, SegmentId
from leasehold.limits.membership import LOST_TABLES_NAMED_MAX

_DIGITS_MAX = len(str(2**63))
"""Of a number that a node may have: a recovery makes them jump."""

COUNTED = (keys.TABLES, keys.BUCKETS, keys.SEGMENTS)
"""The records that a census goes through."""


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """What a node has to do with, bucket by bucket, as of one catalog."""

    node: NodeId
    buckets: Mapping[BucketKey, "SegmentMap | None"]
    """Those that it is a replica of."""
    alone: Mapping[BucketKey, int]
    """How many of their segments nobody else holds, where there are any."""
    left: int
    """How many nodes there are besides."""
    short: frozenset[ObjectId]
    """The tables that want more replicas than that."""

    @property
    def lost(self) -> int:
        """Segments that nobody else is known to hold."""
        return sum(self.alone.values())

    def lost_tables(self) -> dict[ObjectId, int]:
        """The same by table, in order."""
        found: dict[ObjectId, int] = {}
        for (table, _), alone in sorted(self.alone.items()):
            found[table] = found.get(table, 0) + alone
        return found


def find_node(name: str, node: NodeId | None, catalog: Catalog) -> NodeRecord:
    """The node that a person means: by its number if that was learned before, else the one in the cluster that has the
    name, else by number, else the newest of that name that was removed. Raises `NotFound`."""
    if node is not None and node in catalog.nodes:
        return catalog.nodes[node]
    newest_first = sorted(catalog.nodes.values(), key=lambda one: (one.removed, -one.id))
    named = next((one for one in newest_first if one.name == name), None)
    is_number = name.isascii() and name.isdigit() and len(name) <= _DIGITS_MAX
    numbered = catalog.nodes.get(NodeId(int(name))) if is_number else None
    found = numbered if named is None or (named.removed and numbered is not None) else named
    if found is None:
        raise NotFound(f"no node {name[:80]!r} is or was in this cluster", hint="`leasehold status` lists them")
    return found


def census(node: NodeId, catalog: Catalog) -> Census:
    """Walks all tables and buckets, and the segments of those that the node is a replica of."""
    keyed = (key for key, bucket in catalog.buckets.items() if node in bucket.replicas)
    buckets: dict[BucketKey, SegmentMap | None] = {key: catalog.segments.get(key) for key in keyed}
    counted = ((key, _count_alone(node, segments, catalog)) for key, segments in buckets.items())
    alone = {key: count for key, count in counted if count}
    left = _left(node, catalog)
    short = frozenset(table for table in catalog.tables if _is_short(table, left, catalog))
    return Census(node=node, buckets=buckets, alone=alone, left=left, short=short)


def recounted(old: Census, touched: Iterable[bytes], catalog: Catalog) -> Census:
    """The same as of a later catalog, where no other record of those in `COUNTED` has changed since than `touched`,
    and no node was removed."""
    buckets, alone = dict(old.buckets), dict(old.alone)
    left = _left(old.node, catalog)
    assert left >= old.left, "after the removal of a node there is a census anew"
    short = {table for table in old.short if _is_short(table, left, catalog)}
    for key in sorted(touched):  # so a bucket comes before its segments
        if key.startswith(keys.BUCKETS):
            bucket = _bucket_key(key)
            buckets.pop(bucket, None)
            if old.node in _replicas(bucket, catalog):
                buckets[bucket] = catalog.segments.get(bucket)
                if bucket not in old.buckets:
                    alone[bucket] = _count_alone(old.node, buckets[bucket], catalog)
            else:
                alone.pop(bucket, None)
        elif key.startswith(keys.SEGMENTS):
            bucket, name = _bucket_key(key), SegmentId(key.split(b"/")[4].decode())
            if bucket in buckets and bucket in old.buckets:
                buckets[bucket] = catalog.segments.get(bucket)
                before, after = _entry(old.buckets[bucket], name), _entry(buckets[bucket], name)
                changed = _is_alone(old.node, after, catalog) - _is_alone(old.node, before, catalog)
                alone[bucket] = alone.get(bucket, 0) + changed
        elif _is_short(keys.table_of(key), left, catalog):
            short.add(keys.table_of(key))
    alone = {key: count for key, count in alone.items() if count}
    return msgspec.structs.replace(old, buckets=buckets, alone=alone, left=left, short=frozenset(short))


def _replicas(key: BucketKey, catalog: Catalog) -> tuple[NodeId, ...]:
    bucket = catalog.buckets.get(key)
    return () if bucket is None else bucket.replicas


def _entry(segments: "SegmentMap | None", name: SegmentId) -> SegmentRecord | None:
    return None if segments is None else segments.get(name)


def _bucket_key(key: bytes) -> BucketKey:
    return keys.table_of(key), BucketNumber(int(key.split(b"/")[3]))


def _count_alone(node: NodeId, segments: "SegmentMap | None", catalog: Catalog) -> int:
    return 0 if segments is None else sum(_is_alone(node, one, catalog) for one in segments.values())


def _is_alone(node: NodeId, segment: SegmentRecord | None, catalog: Catalog) -> bool:
    return segment is not None and node in segment.holders and not has_other_holder(segment, node, catalog)


def _left(node: NodeId, catalog: Catalog) -> int:
    return sum(1 for one in catalog.nodes.values() if one.id != node and _counts(one))


def _is_short(table: ObjectId, left: int, catalog: Catalog) -> bool:
    record = catalog.tables.get(table)
    return record is not None and record.state is UseState.IN_USE and record.replication > left


def check_enough_left(found: Census, catalog: Catalog) -> None:
    """Raises `Refused` (LAST_NODE, TOO_FEW_NODES) if tables want more nodes than are left without it."""
    node = catalog.nodes[found.node]
    if node.incarnation == 0:
        return  # it has never joined: no bucket lies there
    hint = "start another node first, or `--force` if there will be none"
    if found.left == 0:
        raise Refused(f"{node.name} is the last node of the cluster", code="LAST_NODE", hint=hint)
    if found.short:
        short = sorted(found.short)
        names = _names(short, catalog)
        raise Refused(
            f"{found.left} nodes would be left, and {_count(short, 'table')} want more replicas: {names}",
            code="TOO_FEW_NODES",
            hint=hint,
        )


def check_nothing_lost(found: Census, catalog: Catalog) -> None:
    """Raises `Refused` (ONLY_HOLDER) if it is the only one known to hold some segments."""
    lost = found.lost_tables()
    if lost:
        record = catalog.nodes[found.node]
        segments = f"{found.lost} segment{'' if found.lost == 1 else 's'}"
        raise Refused(
            f"{record.name} is the only holder of {segments} of {_count(lost, 'table')}: {_names(lost, catalog)}",
            code="ONLY_HOLDER",
            hint="start it, and wait until other replicas have fetched them; `--force` gives these rows up for ever",
        )


def tombstone(node: NodeRecord, catalog: Catalog) -> tuple[Change, ...]:
    """Its record as it stays. No session and no attempt to join is known of it any more."""
    assert catalog.counters is not None
    gone = msgspec.structs.replace(node, removed=True, member=False, nonce=None, session_hash=None)
    changes = [put(keys.node(node.id), gone)]
    if node.member:
        left = msgspec.structs.replace(catalog.counters, topology=catalog.counters.topology + 1)
        changes.append(put(keys.COUNTERS, left))
    return tuple(changes)


def _counts(node: NodeRecord) -> bool:
    return not node.removed and node.incarnation > 0


def _count(tables: "list[ObjectId] | dict[ObjectId, int]", what: str) -> str:
    return f"{len(tables)} {what}{'' if len(tables) == 1 else 's'}"


def _names(tables: "list[ObjectId] | dict[ObjectId, int]", catalog: Catalog) -> str:
    shown = [_name(one, catalog) for one in list(tables)[:LOST_TABLES_NAMED_MAX]]
    more = "" if len(tables) <= LOST_TABLES_NAMED_MAX else ", .."
    return ", ".join(shown) + more


def _name(table: ObjectId, catalog: Catalog) -> str:
    record = catalog.tables.get(table)
    return f"table {table}" if record is None else str(catalog.table_name(record))
