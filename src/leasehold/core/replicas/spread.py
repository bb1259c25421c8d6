"""Rebalance: which replicas move to other nodes, so that all nodes hold about as much.

Theory of operation. A **move** takes one replica of a bucket from a source to a target. The bucket record names the two
(`moving`); placement adds the target, and retires the source once the target and enough others are in sync
(`core/replicas/placement.py`). A bucket has one move at a time, and a move begins only where all its replicas are in
sync on able nodes. So a bucket that is due otherwise waits.

What a bucket weighs: its bytes, or 8 for each row if that is more, and 64 KiB for itself, so that empty buckets are
spread too. A node's load is the weight of its replicas. Moves under way count as if they were over. A plan is made step
by step, each for the loads that the steps before leave behind:

1. Pairs of nodes are tried by load, the most loaded source and the least loaded target first. One of them must differ
   from the mean by more than the tolerance, and so must the two from each other.
2. A bucket fits that takes neither node across the mean. The smallest one is chosen that brings both within the
   tolerance. If there is none, a bucket of the table of which the source has the most buckets more than the target; of
   these the largest. So a new node gets a part of each table.
3. Where no pair has a bucket that fits, one is moved across the mean: that which brings the two closest together, and
   weighs at most three quarters of the difference.

A replica goes to a rack with no more other replicas of its bucket than there are in its own. Each step makes the sum of
the squared loads smaller, so plans end, and no bucket moves to and fro. Step 2 moves no byte that the exact mean does
not ask for.

A rebalance is a mark in the record of the cluster (`rebalancing`). While it is there, the leader plans anew when moves
have ended, and begins the first ones, a bounded number at a time. It takes the mark away when nothing is left to move.
To stop clears the mark and all moves: placement then gives up the copies that are not whole.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from leasehold.core.catalog.catalog import BucketKey, Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.replicas.placement import Fleet, begin_move, wanted_replicas
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import BucketRecord
from leasehold.ids import BucketNumber, NodeId, ObjectId
from leasehold.limits.membership import (
    BUCKET_WEIGHT_BYTES,
    MOVES_AT_ONCE,
    MOVES_OF_NODE_MAX,
    MOVING_BYTES_OF_NODE_MAX,
    PLAN_CHECKS_MAX,
    PLAN_MOVES_MAX,
    REBALANCE_AUTO,
    ROW_WEIGHT_BYTES,
)


class Size(NamedTuple):
    """What the manifest says of a bucket."""

    size_bytes: int = 0
    rows: int = 0

    @property
    def weight(self) -> int:
        return max(self.size_bytes, ROW_WEIGHT_BYTES * self.rows) + BUCKET_WEIGHT_BYTES


class Move(NamedTuple):
    """One replica that goes from a source to a target."""

    table: ObjectId
    bucket: BucketNumber
    source: NodeId
    target: NodeId
    size: Size

    @property
    def key(self) -> BucketKey:
        return self.table, self.bucket


class Sizes:
    """The sizes of all buckets; sums up only those that have changed since it was asked before."""

    def __init__(self) -> None:
        self._known: dict[BucketKey, tuple[object, Size]] = {}

    def of(self, catalog: Catalog) -> Mapping[BucketKey, Size]:
        """Those that have segments. Walks all buckets, and the segments of those that have changed."""
        before, self._known = self._known, {}
        for key in catalog.segments:
            mark = catalog.segments.mark(key)
            known = before.get(key)
            self._known[key] = known if known is not None and known[0] is mark else (mark, _size(key, catalog))
        return {key: size for key, (_, size) in self._known.items()}


def _size(key: BucketKey, catalog: Catalog) -> Size:
    size_bytes = rows = 0
    for one in catalog.segments.passing(key):
        size_bytes += one.size_bytes
        rows += one.rows
    return Size(size_bytes, rows)


# ---------------------------------------------------------------- the plan


def planned(
    catalog: Catalog, nodes: Fleet, sizes: Mapping[BucketKey, Size], *, percent: int, most: int = PLAN_MOVES_MAX
) -> list[Move]:
    """The next moves, in order, at most `most` of them. Walks all buckets; looks at PLAN_CHECKS_MAX buckets or pairs of
    nodes at most, and ends early after that.

    Nodes may differ from the mean by `percent`.
    """
    draft = _Draft(catalog, nodes, sizes, percent)
    moves: list[Move] = []
    while len(moves) < most:
        move = draft.next_move()
        if move is None:
            break
        draft.make(move)
        moves.append(move)
    return moves


class _Draft:
    """The loads of the able nodes while a plan is made."""

    def __init__(self, catalog: Catalog, nodes: Fleet, sizes: Mapping[BucketKey, Size], percent: int) -> None:
        self._nodes = nodes
        self._sizes = sizes
        self._load = dict.fromkeys(sorted(nodes.able), 0)
        self._replicas: dict[BucketKey, frozenset[NodeId]] = {}
        self._movable: dict[NodeId, set[BucketKey]] = defaultdict(set)
        self._count = Counter[tuple[NodeId, ObjectId]]()
        """How many buckets of a table are on a node."""
        self._checks_left = PLAN_CHECKS_MAX
        for key, bucket in catalog.buckets.items():
            if wanted_replicas(bucket, catalog):
                self._take(key, bucket, is_movable=_may_begin(bucket, catalog, nodes))
        self._mean = sum(self._load.values()) // max(1, len(self._load))
        self._tolerance = self._mean * percent // 100

    def _take(self, key: BucketKey, bucket: BucketRecord, *, is_movable: bool) -> None:
        source = None if bucket.moving is None else bucket.moving[0]
        self._replicas[key] = frozenset(one for one in bucket.replicas if one != source)
        for node in self._replicas[key] & self._load.keys():
            self._load[node] += self._size(key).weight
            self._count[node, key[0]] += 1
            if is_movable:
                self._movable[node].add(key)

    def make(self, move: Move) -> None:
        """A replica that has moved does not move again in the same plan."""
        weight = move.size.weight
        for node, by in ((move.source, -1), (move.target, 1)):
            self._load[node] += by * weight
            self._count[node, move.table] += by
        self._movable[move.source].discard(move.key)
        self._replicas[move.key] = self._replicas[move.key] - {move.source} | {move.target}

    def next_move(self) -> Move | None:
        for crosses in (False, True):
            for source, target in self._pairs():
                found = self._across(source, target) if crosses else self._fitting(source, target)
                if found is not None:
                    return Move(*found, source, target, self._size(found))
        return None

    def _pairs(self) -> Iterator[tuple[NodeId, NodeId]]:
        """The pairs that are uneven, by load; ends with the checks."""
        by_load = sorted(self._load, key=lambda one: (self._load[one], one))
        for source in reversed(by_load):
            for target in by_load:
                above, below = self._load[source] - self._mean, self._mean - self._load[target]
                if above + below <= self._tolerance:
                    break  # so are all after it
                if max(above, below) > self._tolerance and self._checks_left > 0:
                    self._checks_left -= 1
                    yield source, target

    def _candidates(self, source: NodeId, target: NodeId) -> Iterator[BucketKey]:
        self._checks_left -= len(self._movable[source])
        for key in self._movable[source]:
            if _may_go(self._replicas[key], source, target, self._nodes):
                yield key

    def _fitting(self, source: NodeId, target: NodeId) -> BucketKey | None:
        above, below = self._load[source] - self._mean, self._mean - self._load[target]
        room, needed = min(above, below), max(above, below) - self._tolerance
        if room <= 0:
            return None

        def order(key: BucketKey) -> tuple[object, ...]:
            weight = self._size(key).weight
            more = self._count[source, key[0]] - self._count[target, key[0]]
            return (0, weight, -more, key) if weight >= needed else (1, -more, -weight, key)

        fitting = (one for one in self._candidates(source, target) if self._size(one).weight <= room)
        return min(fitting, key=order, default=None)

    def _across(self, source: NodeId, target: NodeId) -> BucketKey | None:
        gap = self._load[source] - self._load[target]

        def left(key: BucketKey) -> int:
            return abs(gap - 2 * self._size(key).weight)

        smaller = (one for one in self._candidates(source, target) if 4 * self._size(one).weight <= 3 * gap)
        return min(smaller, key=lambda one: (left(one), one), default=None)

    def _size(self, key: BucketKey) -> Size:
        return self._sizes.get(key, Size())


def _may_go(replicas: Iterable[NodeId], source: NodeId, target: NodeId, nodes: Fleet) -> bool:
    """Whether a bucket may lie on the target instead: that is no replica, and in no worse a rack."""
    staying = [one for one in replicas if one != source]
    racks = [nodes.racks[one] for one in staying]
    return target not in staying and racks.count(nodes.racks[target]) <= racks.count(nodes.racks[source])


def _may_begin(bucket: BucketRecord, catalog: Catalog, nodes: Fleet) -> bool:
    """Whether a replica of a bucket may move now: all are as they should be."""
    return (
        bucket.moving is None
        and len(bucket.replicas) == wanted_replicas(bucket, catalog)
        and set(bucket.replicas) == set(bucket.in_sync)
        and nodes.able.issuperset(bucket.replicas)
    )


# ---------------------------------------------------------------- what is written


def started(catalog: Catalog) -> tuple[Change, ...]:
    """The begin of a rebalance; nothing if it is under way."""
    return () if is_under_way(catalog) else (_marked(catalog, rebalancing=True),)


def stopped(catalog: Catalog) -> tuple[Change, ...]:
    """The end of a rebalance with all its moves; nothing if there is none."""
    unmarked = (msgspec.structs.replace(catalog.buckets[key], moving=None) for key in sorted(catalog.moving))
    moves = tuple(put(keys.bucket(one.table, one.bucket), one) for one in unmarked)
    return (_marked(catalog, rebalancing=False), *moves) if moves or is_under_way(catalog) else ()


def continued(
    moves: Sequence[Move], sizes: Mapping[BucketKey, Size], catalog: Catalog, nodes: Fleet
) -> tuple[Change, ...]:
    """The next step of a rebalance: it begins the first of these moves that may be under way together with those that
    are, or ends if there are none. Nothing once it was stopped: the plan may be older."""
    if not is_under_way(catalog):
        return ()
    if not moves and not catalog.moving:
        return (_marked(catalog, rebalancing=False),)
    count, coming_bytes = Counter[NodeId](), Counter[NodeId]()
    for key in catalog.moving:
        under_way = catalog.buckets[key].moving
        assert under_way is not None, "it is in the index"
        count[under_way[1]] += 1
        coming_bytes[under_way[1]] += sizes.get(key, Size()).size_bytes
    changes: dict[BucketKey, Change] = {}
    for one in moves:
        bucket, target = catalog.buckets.get(one.key), one.target
        if count.total() >= MOVES_AT_ONCE:
            break
        is_busy = count[target] >= MOVES_OF_NODE_MAX or coming_bytes[target] >= MOVING_BYTES_OF_NODE_MAX
        if is_busy or bucket is None or one.key in changes:
            continue
        if _is_right(one, bucket, catalog, nodes):
            changes[one.key] = begin_move(bucket, one.source, target, catalog, nodes)
            count[target] += 1
            coming_bytes[target] += one.size.size_bytes
    return tuple(changes.values())


def _is_right(move: Move, bucket: BucketRecord, catalog: Catalog, nodes: Fleet) -> bool:
    """Whether a move that was planned before may still begin."""
    may_begin = move.source in bucket.replicas and move.target in nodes.able and _may_begin(bucket, catalog, nodes)
    return may_begin and _may_go(bucket.replicas, move.source, move.target, nodes)


def _marked(catalog: Catalog, *, rebalancing: bool) -> Change:
    assert catalog.cluster is not None, "it is initialised"
    return put(keys.CLUSTER, msgspec.structs.replace(catalog.cluster, rebalancing=rebalancing))


def is_automatic(catalog: Catalog) -> bool:
    """Whether a leader begins a rebalance by itself."""
    return catalog.settings is not None and catalog.settings.rebalance == REBALANCE_AUTO


def is_under_way(catalog: Catalog) -> bool:
    return catalog.cluster is not None and catalog.cluster.rebalancing
