"""Placement: which nodes should hold each bucket, against which are its replicas.

A bucket is due if its replicas are not what they should be:

| its replicas                         | what follows                                                             |
| a node that was removed              | it is no replica any more                                                |
| fewer good ones than its table wants | the least loaded able nodes are added, and fetch what they lack          |
| more than its table wants            | one after the other is retired, while enough others are able and in sync |
| one that is to move to another node  | that one is added, and then this one goes first                          |

A **good** replica is one that stays: its node does not drain (`core/membership/drain.py`), has not been away for too
long (`core/replicas/absence.py`), and has a disk that works (`coordinator/replicas/repair.py`). An **able** node may
get buckets: a member of the logical topology whose replicas are good, and that is not about to be removed (`leaving`).
Of surplus replicas those go first that are not good, then those that are not in sync, then those that are not able,
then those on the most loaded nodes. So the last nodes that hold a bucket are never given up, and of two replicas of
which one is not needed, the one that holds less goes: a node that comes back before its replacement is whole keeps its
replica. A statement may change what a table wants (`core/ddl/plans/properties.py`). Which replicas move from one good
node to another is in `core/replicas/spread.py`.

This happens in slices, behind the statement or the removal that made it due. Each slice is decided on the catalog of
its moment, so an old slice does no harm. What a retired node still holds is in `core/replicas/retired.py`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec

from leasehold.core.catalog.catalog import BucketKey, Catalog
from leasehold.core.catalog.plan import counters, put
from leasehold.core.replicas.replication import is_present, racks_of
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import BucketRecord, UseState
from leasehold.ids import NodeId


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes, by what they are good for."""

    good: frozenset[NodeId]
    """Replicas there stay."""
    able: frozenset[NodeId]
    """Those of them that may get buckets."""
    racks: Mapping[NodeId, str]


def fleet(catalog: Catalog, *, leaving: Collection[NodeId] = (), away: Collection[NodeId] = ()) -> Fleet:
    """The nodes of a catalog; those that are `leaving` are about to be removed, and those that are `away` are to be
    replaced, as are those whose disk fails."""
    staying = (node.id for node in catalog.nodes.values() if not node.removed and not node.draining)
    good = frozenset(node for node in staying if node not in away)
    able = frozenset(node for node in good if catalog.nodes[node].member and node not in leaving)
    return Fleet(good=good, able=able, racks=racks_of(catalog))


def wants_other_replicas(changes: Iterable[Change], before: Catalog, after: Catalog) -> bool:
    """Whether a table that was there before wants another number of replicas now."""
    for change in changes:
        if change.key.startswith(keys.TABLES) and change.value is not None:
            table = keys.table_of(change.key)
            known = before.tables.get(table)
            if known is not None and known.replication != after.tables[table].replication:
                return True
    return False


def has_surplus(key: BucketKey, catalog: Catalog) -> bool:
    """Whether a bucket has more replicas than its table wants."""
    bucket = catalog.buckets.get(key)
    return bucket is not None and len(bucket.replicas) > wanted_replicas(bucket, catalog) > 0


def due_buckets(catalog: Catalog, nodes: Fleet) -> list[BucketKey]:
    """The buckets that should have other replicas, in order. Walks all buckets."""
    return sorted(key for key, bucket in catalog.buckets.items() if _is_due(bucket, nodes, catalog))


def placed(due: Iterable[BucketKey], catalog: Catalog, nodes: Fleet) -> tuple[Change, ...]:
    """What brings the replicas of these buckets closer to what they should be, as far as that can be done now."""
    loads = Counter(dict(catalog.loads.items()))
    changes: list[Change] = []
    for key in due:
        bucket = catalog.buckets.get(key)
        if bucket is not None and _is_due(bucket, nodes, catalog):
            changes.append(put(keys.bucket(*key), _corrected(bucket, nodes, loads, catalog)))
    return tuple(changes)


def begin_move(bucket: BucketRecord, source: NodeId, target: NodeId, catalog: Catalog, nodes: Fleet) -> Change:
    """The bucket with a move that begins: the target is a replica."""
    marked = msgspec.structs.replace(bucket, moving=(source, target))
    return put(keys.bucket(bucket.table, bucket.bucket), _corrected(marked, nodes, Counter(), catalog))


def _is_due(bucket: BucketRecord, nodes: Fleet, catalog: Catalog) -> bool:
    wanted = wanted_replicas(bucket, catalog)
    if nodes.good.issuperset(bucket.replicas) and len(bucket.replicas) == wanted and bucket.moving is None:
        crowd = Counter(nodes.racks[node] for node in bucket.replicas)
        if max(crowd.values()) == 1:
            return False
    return _corrected(bucket, nodes, Counter(), catalog) != bucket


def _corrected(bucket: BucketRecord, nodes: Fleet, loads: Counter[NodeId], catalog: Catalog) -> BucketRecord:
    """The bucket with the replicas that it should have, as far as there are nodes for it; counts them in `loads`."""
    replicas = [node for node in bucket.replicas if is_present(node, catalog)]
    in_sync = {node for node in bucket.in_sync if is_present(node, catalog)}
    wanted = wanted_replicas(bucket, catalog)
    gone: list[NodeId] = []
    bucket = msgspec.structs.replace(bucket, moving=_move_left(bucket, replicas, nodes) if wanted else None)
    source = None if bucket.moving is None else bucket.moving[0]
    if wanted:
        kept = _kept([one for one in replicas if one != source], in_sync, wanted, nodes, loads)
        added = _added(kept, replicas, bucket, wanted, nodes, loads)
        loads.update(added)
        replicas += added
        in_sync.update(node for node in added if _holds_all(bucket, node, catalog))
        kept += added
        while len(replicas) > wanted:
            node = min(replicas, key=lambda one: (one in kept, one in in_sync, one in nodes.able, -loads[one], -one))
            if sum(one != node and one in in_sync and one in nodes.able for one in replicas) < wanted:
                break
            replicas.remove(node)
            loads[node] -= 1
            gone.append(node)
    retired = tuple(node for node in (*bucket.retired, *gone) if node not in replicas)
    return msgspec.structs.replace(
        bucket,
        replicas=tuple(replicas),
        in_sync=tuple(node for node in replicas if node in in_sync),
        retired=retired,
        retired_below=counters(catalog).next_transaction if gone else bucket.retired_below,
        moving=bucket.moving if source in replicas else None,
    )


def _move_left(bucket: BucketRecord, replicas: Collection[NodeId], nodes: Fleet) -> tuple[NodeId, NodeId] | None:
    """The move of a bucket, unless it is over or one of its nodes is not good any more: then the bucket is placed as
    any other. A target that restarts stays one."""
    if bucket.moving is None:
        return None
    source, target = bucket.moving
    stays = target in (nodes.good if target in replicas else nodes.able)
    return bucket.moving if stays and source in replicas and source in nodes.good else None


def _kept(
    replicas: Collection[NodeId], in_sync: Collection[NodeId], wanted: int, nodes: Fleet, loads: Counter[NodeId]
) -> list[NodeId]:
    """The good replicas that stay, as many as are wanted: in different racks, in sync, able, on the least loaded."""
    kept: list[NodeId] = []
    crowd = Counter[str]()
    left = [node for node in replicas if node in nodes.good]
    while left and len(kept) < wanted:
        node = min(
            left,
            key=lambda one: (crowd[nodes.racks[one]], one not in in_sync, one not in nodes.able, loads[one], one),
        )
        left.remove(node)
        kept.append(node)
        crowd[nodes.racks[node]] += 1
    return kept


def _added(
    kept: list[NodeId],
    replicas: Collection[NodeId],
    bucket: BucketRecord,
    wanted: int,
    nodes: Fleet,
    loads: Counter[NodeId],
) -> list[NodeId]:
    """The nodes that become replicas: the target of a move, then those in the emptiest racks, retired ones that still
    hold most of it, the least loaded.

    Where a rack has two replicas more than another one could have, the last of `kept` there is taken out of it.
    """
    free = [node for node in nodes.able if node not in replicas]
    crowd = Counter(nodes.racks[node] for node in kept)
    target = None if bucket.moving is None else bucket.moving[1]
    added: list[NodeId] = []

    def next_one() -> NodeId:
        return min(
            free, key=lambda one: (one != target, crowd[nodes.racks[one]], one not in bucket.retired, loads[one], one)
        )

    while free and len(kept) + len(added) < wanted:
        node = next_one()
        free.remove(node)
        added.append(node)
        crowd[nodes.racks[node]] += 1
    if free and not added and kept:
        node = next_one()
        worst = max(crowd.values())
        if crowd[nodes.racks[node]] + 1 < worst:
            kept.remove(next(one for one in reversed(kept) if crowd[nodes.racks[one]] == worst))
            added.append(node)
    return added


def _holds_all(bucket: BucketRecord, node: NodeId, catalog: Catalog) -> bool:
    """Whether there is nothing in the bucket that a node lacks; seldom looks at more than one segment."""
    return all(node in one.holders for one in catalog.segments.passing((bucket.table, bucket.bucket)))


def wanted_replicas(bucket: BucketRecord, catalog: Catalog) -> int:
    """How many its table wants; of one that is being dropped nothing more is wanted."""
    table = catalog.tables.get(bucket.table)
    return 0 if table is None or table.state is not UseState.IN_USE else table.replication
