"""INV-REP-1: an acknowledged commit survives the loss of any (min_in_sync - 1) nodes.

At its commit each segment lies durably on the disks of at least `min_in_sync` distinct holders (or `replication`, where
that is less). The table says how many these are, else the cluster. Where neither does, they are two from three replicas
on, else one. From then on, until its table is dropped, it never has fewer durable copies than that; each less the
machines whose disks were lost, and the copies that were damaged, on purpose. A statement that lowers `replication`
lowers the promise to that. Counted on the disks themselves; in a world without segment disks only the holders are
counted.
"""

from collections import Counter
from typing import Final

from leasehold.core.words import keys
from leasehold.core.words.records import SegmentRecord, SettingsRecord, TableRecord
from leasehold.ids import BucketNumber, NodeId, ObjectId, SegmentId
from leasehold.testing.history import Committed
from leasehold.testing.news import Damaged, DisksShrank, Removed
from leasehold.testing.oracle import Oracle, first_wrong

HEARS: Final = frozenset({Committed, Damaged, DisksShrank, Removed})

Spot = tuple[ObjectId, BucketNumber, SegmentId]


class Promised:
    """How many copies each committed segment was promised, and how many were damaged on purpose."""

    def __init__(self) -> None:
        self.copies: dict[Spot, int] = {}
        self.damaged: Counter[SegmentId] = Counter()

    def lower(self, table: ObjectId, most: int) -> None:
        """No segment of the table has to have more copies."""
        self.copies.update({spot: most for spot, count in self.copies.items() if spot[0] == table and count > most})


def check(oracle: Oracle) -> str | None:
    promised = oracle.recall(Promised)
    for damage in oracle.of(Damaged):
        promised.damaged[damage.segment] += 1
    new: list[tuple[SegmentRecord, list[int], int]] = []
    for news in oracle.of(Committed):
        added = (one for key, one in news.wrote.items() if isinstance(one, SegmentRecord) and key not in news.before)
        new.extend((one, _min_in_sync(oracle, news, one.table), _replication(oracle, news, one.table)) for one in added)
        for key, before in news.before.items():
            after = news.wrote[key]
            if isinstance(before, TableRecord) and isinstance(after, TableRecord):
                promised.lower(after.id, after.replication)
        for table in news.deleted(TableRecord):
            promised.copies = {spot: count for spot, count in promised.copies.items() if spot[0] != table.id}
        for gone in news.deleted(SegmentRecord):
            promised.copies.pop((gone.table, gone.bucket, gone.id), None)
    wrong = first_wrong(_at_commit(oracle, promised, *one) for one in new)
    return wrong or _afterwards(oracle, promised)


def _min_in_sync(oracle: Oracle, news: Committed, table: ObjectId) -> list[int]:
    """What a commit of this revision was decided by; where it changed with it, that may have been either."""
    found: list[tuple[object, object]] = [
        (news.before.get(key), oracle.history.record_at(news.revision, key))
        for key in (keys.table(table), keys.SETTINGS)
    ]
    of_table, of_cluster = (
        [one.min_in_sync for one in both if isinstance(one, SettingsRecord | TableRecord)] for both in found
    )
    return [own or one for own in of_table for one in of_cluster]


def _replication(oracle: Oracle, news: Committed, table: ObjectId) -> int:
    """The least that a commit of this revision was decided by, or that was set since; 0 if the table is dropped."""
    key = keys.table(table)
    now = oracle.history.records.get(key)
    found = (news.before.get(key), oracle.history.record_at(news.revision, key), now)
    known = [one.replication for one in found if isinstance(one, TableRecord)]
    return min(known) if isinstance(now, TableRecord) else 0


def _at_commit(
    oracle: Oracle, promised: Promised, segment: SegmentRecord, asked: list[int], replication: int
) -> str | None:
    if not replication or not asked:
        return None  # dropped in the same pass
    spot = (segment.table, segment.bucket, segment.id)
    by_table = 1 if replication <= 2 else 2
    needed = min(replication, *(one or by_table for one in asked))
    holders = set(segment.holders)
    if oracle.disks:
        holders &= _on_disk(oracle, spot)
    # A machine may have lost its disk, or had the file damaged, after it held the segment and before the commit.
    if len(holders) < needed - oracle.disks_lost - promised.damaged[segment.id]:
        return f"segment {segment.id} was committed with {len(holders)} durable copies, {needed} are promised"
    promised.copies[spot] = needed
    return None


def _afterwards(oracle: Oracle, promised: Promised) -> str | None:
    if not oracle.disks:
        return None
    if oracle.of(DisksShrank):
        spots = list(promised.copies)
    else:
        spots = [(one.table, one.bucket, one.segment) for one in oracle.of(Removed)]
    for spot in spots:
        needed = promised.copies.get(spot, 0) - oracle.disks_lost - promised.damaged[spot[2]]
        if needed > 0 and len(_on_disk(oracle, spot)) < needed:
            return f"segment {spot[2]} is left with {len(_on_disk(oracle, spot))} durable copies of {needed}"
    return None


def _on_disk(oracle: Oracle, spot: Spot) -> set[NodeId]:
    return {oracle.nodes.get(host, NodeId(0)) for host, disk in oracle.disks.items() if disk.holds(*spot)}
