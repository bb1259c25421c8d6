"""Segments that fewer nodes hold than their tables want, from the commit on.

Theory of operation. A table says how many nodes are to hold each of its segments (`replication`). A commit needs fewer
(`min_in_sync`), and a node that was away fetches later what it lacks. Until then the failure of one more disk may lose
rows. So a leader counts these segments at every revision, by the nodes that hold them: for each changed entry of the
manifest it takes off the old count and adds the new one. Removed nodes hold nothing.

| what happens                 | what is looked at                                                           |
| a commit, a report of a node | the entries that it changes                                                 |
| a leader begins, a node is removed, a table wants more copies | all entries of buckets whose sync-state set |
|                              | is too small, on a thread                                                   |
| a table is dropped           | its buckets that count                                                      |

The manifest keeps the last holder of a segment, even one that reports that it has no file of it: the file may be
brought back. Such a segment counts as lost while that process is the node's newest one. Nodes repeat these reports, so
a new leader hears of them too. Such a segment counts again once that process reports that it holds it: its disk may
have failed for a moment.

While all is counted anew, entries that change are noted, and corrected at the end.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from leasehold.core.catalog.catalog import BucketKey, Catalog
from leasehold.core.catalog.shelf import segment_of
from leasehold.core.replicas.replication import is_present, present_holders
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import BucketRecord, SegmentRecord, UseState
from leasehold.ids import Incarnation, NodeId, ObjectId, SegmentId
from leasehold.limits.membership import COPIES_LACKED_MAX, COPIES_NOTED_MAX

Few: TypeAlias = tuple[NodeId, ...]
"""The nodes that hold a segment, where they are fewer than its table wants; none if it is lost."""
CopyTally: TypeAlias = Counter[Few]
"""How many segments of a bucket are on which few nodes."""


class Shortfall(msgspec.Struct, frozen=True, kw_only=True):
    """How many segments of the tables in use lack copies: in all, by the replicas of their buckets, by the only node
    that holds them. How many nobody holds: by table, and by the node that should and has no file."""

    short: int
    of_node: Mapping[NodeId, int]
    alone: Mapping[NodeId, int]
    lost: Mapping[ObjectId, int]
    lacked: Mapping[NodeId, int]


def holders_if_few(segment: SegmentRecord, catalog: Catalog) -> Few | None:
    """The nodes that hold it, if they are fewer than its table wants."""
    table = catalog.tables.get(segment.table)
    if table is None:
        return None
    present = tuple(sorted(present_holders(segment, catalog)))
    return present if len(present) < table.replication else None


def tallied(catalog: Catalog) -> dict[BucketKey, CopyTally]:
    """Of all buckets that have segments with too few holders. Walks all buckets, and the segments of those that too few
    nodes hold whole."""
    found: dict[BucketKey, CopyTally] = {}
    for key, bucket in catalog.buckets.items():
        if is_full(bucket, catalog):
            continue
        few = (holders_if_few(one, catalog) for one in catalog.segments.passing(key))
        tally = Counter(one for one in few if one is not None)
        if tally:
            found[key] = tally
    return found


def is_full(bucket: BucketRecord, catalog: Catalog) -> bool:
    """Whether enough nodes hold all of its segments."""
    table = catalog.tables.get(bucket.table)
    return table is None or sum(is_present(node, catalog) for node in bucket.in_sync) >= table.replication


class Copies:
    """Of one leader's catalog, from its election on. Nothing is known before the first count has ended."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._tallies: dict[BucketKey, CopyTally] | None = None
        self.is_due = True
        """Whether all is to be counted anew."""
        self._counting: Catalog | None = None
        """As of which that is being done."""
        self._noted: set[tuple[BucketKey, SegmentId]] = set()
        self._lacked: dict[tuple[BucketKey, SegmentId], NodeId] = {}
        """Segments whose only holder has reported that it has no file of them."""
        self._shortfall: Shortfall | None = None

    @property
    def shortfall(self) -> Shortfall | None:
        """As of the newest revision; None while it is not known yet."""
        if self._shortfall is None and self._tallies is not None:
            self._shortfall = _shortfall(self._tallies, self._lacked, self._catalog)
        return self._shortfall

    @property
    def catalog(self) -> Catalog:
        """As of the newest revision that it has heard of."""
        return self._catalog

    def count_anew(self) -> None:
        """A table wants another number of copies."""
        self._counting, self.is_due = None, True

    def lacks(self, node: NodeId, bucket: BucketKey, names: Iterable[SegmentId]) -> None:
        """The newest process of a node says that it has no file of these."""
        for name in names:
            if len(self._lacked) < COPIES_LACKED_MAX and _is_alone(node, bucket, name, self._catalog):
                self._lacked[bucket, name] = node
                self._shortfall = None

    def holds(self, node: NodeId, bucket: BucketKey, names: Iterable[SegmentId]) -> None:
        """The newest process of a node says that it holds these: it can read again what it could not read."""
        for name in names:
            if self._lacked.get((bucket, name)) == node:
                del self._lacked[bucket, name]
                self._shortfall = None

    def committed(self, changes: Iterable[Change], catalog: Catalog) -> None:
        before, self._catalog, self._shortfall = self._catalog, catalog, None
        for change in changes:
            if change.key.startswith(keys.SEGMENTS):
                bucket, name = keys.bucket_of(change.key), segment_of(change.key)
                self._correct(bucket, name, before, catalog)
                self._note(bucket, name)
                lacking = self._lacked.get((bucket, name))
                if lacking is not None and not _is_alone(lacking, bucket, name, catalog):
                    del self._lacked[bucket, name]
            elif change.key.startswith(keys.NODES):
                node = keys.node_of(change.key)
                self.is_due = self.is_due or (is_present(node, before) and not is_present(node, catalog))
                if self._lacked and _incarnation(node, before) != _incarnation(node, catalog):
                    self._lacked = {one: lacking for one, lacking in self._lacked.items() if lacking != node}
            elif change.key.startswith(keys.TABLES) and change.value is None:
                table = keys.table_of(change.key)
                if self._tallies:
                    self._tallies = {key: tally for key, tally in self._tallies.items() if key[0] != table}
                self._lacked = {one: lacking for one, lacking in self._lacked.items() if one[0][0] != table}

    def begin(self) -> Catalog:
        """The catalog to count: `counted` takes its `tallied`."""
        self.is_due = False
        self._counting, self._noted = self._catalog, set()
        return self._catalog

    def counted(self, tallies: dict[BucketKey, CopyTally]) -> None:
        """All has been counted, as of what `begin` gave."""
        counting, self._counting = self._counting, None
        if counting is None:  # too much has changed meanwhile
            return
        self._tallies, self._shortfall = tallies, None
        for bucket, name in self._noted:
            self._correct(bucket, name, counting, self._catalog)
        self._noted = set()

    def _note(self, bucket: BucketKey, name: SegmentId) -> None:
        if self._counting is None:
            return
        self._noted.add((bucket, name))
        if len(self._noted) > COPIES_NOTED_MAX:
            self._counting, self._noted, self.is_due = None, set(), True

    def _correct(self, bucket: BucketKey, name: SegmentId, before: Catalog, after: Catalog) -> None:
        """Replaces the count of a segment in `before` by its count in `after`."""
        if self._tallies is None:
            return
        few_before, few_after = _few(bucket, name, before), _few(bucket, name, after)
        if few_before == few_after:
            return
        tally = self._tallies.setdefault(bucket, Counter())
        if few_before is not None:
            tally[few_before] -= 1
        if few_after is not None:
            tally[few_after] += 1
        tally += Counter()  # without those that count nothing any more
        self._tallies[bucket] = tally
        if not tally:
            del self._tallies[bucket]


def _few(bucket: BucketKey, name: SegmentId, catalog: Catalog) -> Few | None:
    segment = catalog.segments.one(bucket, name)
    return None if segment is None else holders_if_few(segment, catalog)


def _is_alone(node: NodeId, bucket: BucketKey, name: SegmentId, catalog: Catalog) -> bool:
    """Whether it is the only holder of a segment that the cluster has."""
    segment = catalog.segments.one(bucket, name)
    return segment is not None and present_holders(segment, catalog) == (node,)


def _incarnation(node: NodeId, catalog: Catalog) -> Incarnation | None:
    """Of the newest process; None once the node is removed."""
    return catalog.nodes[node].incarnation if is_present(node, catalog) else None


def _shortfall(
    tallies: Mapping[BucketKey, CopyTally], lacked: Mapping[tuple[BucketKey, SegmentId], NodeId], catalog: Catalog
) -> Shortfall:
    of_node, alone = Counter[NodeId](), Counter[NodeId]()
    lost, lacking = Counter[ObjectId](), Counter[NodeId]()
    short = 0
    for key, tally in tallies.items():
        table, bucket = catalog.tables.get(key[0]), catalog.buckets.get(key)
        if table is None or table.state is not UseState.IN_USE or bucket is None:
            continue
        count = tally.total()
        short += count
        of_node.update(dict.fromkeys(bucket.replicas, count))
        alone.update({few[0]: count for few, count in tally.items() if len(few) == 1})
        lost.update({key[0]: tally[()]} if tally[()] else {})
    for (key, _), node in lacked.items():
        table, bucket = catalog.tables.get(key[0]), catalog.buckets.get(key)
        if table is None or table.state is not UseState.IN_USE or bucket is None:
            continue
        lost[key[0]] += 1
        lacking[node] += 1
        if table.replication > 1:
            alone[node] -= 1
        else:  # one holder is enough there, so it is not among those that were tallied
            short += 1
            of_node.update(bucket.replicas)
    return Shortfall(short=short, of_node=of_node, alone=alone, lost=lost, lacked=lacking)
