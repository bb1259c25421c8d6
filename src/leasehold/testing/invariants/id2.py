"""INV-ID-2: messages of an older incarnation change nothing, and only a process that was superseded ends.

Of leases, "older" is judged by what the leader itself has let in; the same incarnation under another session counts as
older. Of what nodes report of their disks, by the store: a holder, or a member of a sync-state set, that is added, and
a node that is struck off a drop, has reported so in the incarnation that the store says is the newest, or was until
that revision; but for a node that is new to a bucket, for one that was removed, and for one that lacked only segments
that a write replaces. A process that is told to end is told SUPERSEDED, when the store's record of its node has moved
past it, or REMOVED, when that is a tombstone.
"""

from typing import Final

from leasehold.core.lease.grants import AcceptEndReport, AcceptSurrender, SendGrant
from leasehold.core.words import keys
from leasehold.core.words.records import BucketRecord, DroppedRecord, NodeRecord, SegmentRecord
from leasehold.error_codes import ErrorCode
from leasehold.ids import BucketNumber, Incarnation, NodeId, ObjectId, SegmentId
from leasehold.testing.history import Committed
from leasehold.testing.news import Heard, ProcessEnded, Reported
from leasehold.testing.oracle import Oracle, first_wrong

HEARS: Final = frozenset({Committed, Heard, ProcessEnded, Reported})

What = tuple[ObjectId, BucketNumber | None, SegmentId | None]
"""A segment, a whole bucket (no segment), or a table that was cleaned (no bucket either)."""


class DiskReports:
    """What each incarnation has reported of its disk."""

    def __init__(self) -> None:
        self.told: dict[tuple[NodeId, What], set[Incarnation]] = {}


def check(oracle: Oracle) -> str | None:
    reports = oracle.recall(DiskReports)
    for told in oracle.of(Reported):
        whole: What = (told.table, told.bucket, None)
        for what in (whole, *((told.table, told.bucket, segment) for segment in told.segments)):
            reports.told.setdefault((told.node, what), set()).add(told.incarnation)
    return (
        first_wrong(_heard(news) for news in oracle.of(Heard))
        or first_wrong(_reported(oracle, reports, news) for news in oracle.of(Committed))
        or first_wrong(_ended(news) for news in oracle.of(ProcessEnded))
    )


def _heard(news: Heard) -> str | None:
    message, held = news.message, news.before
    if held is None or message.incarnation > held.incarnation:
        return None
    if message.incarnation == held.incarnation and news.same_session:
        return None
    what = f"a {type(message).__name__} of incarnation {message.incarnation} of node {message.node}"
    if news.after != held:
        return f"{what} changed what is known of incarnation {held.incarnation}"
    if any(isinstance(effect, SendGrant | AcceptSurrender | AcceptEndReport) for effect in news.effects):
        return f"{what} was answered as if it were incarnation {held.incarnation}"
    return None


def _reported(oracle: Oracle, reports: DiskReports, news: Committed) -> str | None:
    for node, what in _changed(news):
        if _is_removed(oracle, news, node) or _lacks_nothing(oracle, news, node, what):
            continue
        told = reports.told.get((node, what), set())
        key = keys.node(node)
        records = (news.before.get(key), oracle.history.record_at(news.revision, key))
        newest = {one.incarnation for one in records if isinstance(one, NodeRecord)}
        if not told & newest:
            return (
                f"revision {news.revision} takes what node {node} said of {what}: said by incarnations {sorted(told)}, "
                f"the newest is {max(newest, default=0)}"
            )
    return None


def _is_removed(oracle: Oracle, news: Committed, node: NodeId) -> bool:
    record = oracle.history.record_at(news.revision, keys.node(node))
    return isinstance(record, NodeRecord) and record.removed


def _lacks_nothing(oracle: Oracle, news: Committed, node: NodeId, what: What) -> bool:
    """Whether segments of a bucket are replaced, and the node is a holder of all others."""
    table, bucket, segment = what
    if segment is not None or all((one.table, one.bucket) != (table, bucket) for one in news.deleted(SegmentRecord)):
        return False
    segments = oracle.history.segments_at(news.revision, table)
    return all(node in one.holders for one in segments if one.bucket == bucket)


def _changed(news: Committed) -> list[tuple[NodeId, What]]:
    """The changes that only a node's report can cause."""
    changed: list[tuple[NodeId, What]] = []
    for key, before in news.before.items():
        after = news.wrote[key]
        if isinstance(before, SegmentRecord) and isinstance(after, SegmentRecord):
            what = (before.table, before.bucket, before.id)
            changed.extend((node, what) for node in after.holders if node not in before.holders)
        elif isinstance(before, BucketRecord) and isinstance(after, BucketRecord):
            whole = (before.table, before.bucket, None)
            # What it holds of a bucket that it is new to is for INV-REP-1 to see.
            added = (node for node in after.in_sync if node not in before.in_sync and node in before.replicas)
            changed.extend((node, whole) for node in added)
        elif isinstance(before, DroppedRecord):
            left = after.pending if isinstance(after, DroppedRecord) else ()
            changed.extend((node, (before.table, None, None)) for node in before.pending if node not in left)
    return changed


def _ended(news: ProcessEnded) -> str | None:
    who = f"{news.host} (node {news.node}, incarnation {news.incarnation})"
    if news.code == ErrorCode.REMOVED and news.record is not None and news.record.removed:
        return None
    if news.code != ErrorCode.SUPERSEDED:
        return f"{who} ended: {news.text} ({news.code})"
    record = news.record
    newest = record is not None and not record.removed and record.incarnation == news.incarnation
    if news.node and newest and record is not None and record.session_hash == news.session_hash:
        return f"{who} was told that it is superseded, the store says that it is the newest: {news.text}"
    return None
