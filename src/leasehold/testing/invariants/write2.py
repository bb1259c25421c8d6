"""INV-WRITE-2: a write transaction is visible whole or not at all, and once per idempotency key.

In the store, a transaction's segments come into the manifest all in the one revision that says COMMITTED, their rows
add up to what it says, and it says so once: not after ABORTED, and not a second time however often it is asked. What
a segment's entry says stays so, but for who holds it. A scan pinned at a revision returned exactly what the commits
up to there made visible.
"""

from collections import Counter
from typing import Final

import msgspec

from leasehold.core import keys
from leasehold.core.records import SegmentRecord, TransactionRecord, TransactionState
from leasehold.ids import Revision, SegmentId, TransactionId, segment_transaction
from leasehold.testing.history import Committed
from leasehold.testing.news import Scanned, Wrote
from leasehold.testing.oracle import Oracle

HEARS: Final = frozenset({Committed, Scanned, Wrote})


class Visible:
    """What has become visible when, and what clients meant to write."""

    def __init__(self) -> None:
        self.committed: dict[TransactionId, Revision] = {}
        self.aborted: set[TransactionId] = set()
        self.segments: set[SegmentId] = set()
        self.meant: dict[TransactionId, Wrote] = {}


def check(oracle: Oracle) -> str | None:
    """Each revision, then each scan."""
    visible = oracle.recall(Visible)
    for news in oracle.of(Committed):
        wrong = _ends(visible, news) or _segments(visible, news)
        if wrong is not None:
            return f"revision {news.revision}: {wrong}"
    for wrote in oracle.of(Wrote):
        visible.meant[wrote.transaction] = wrote
    for scan in oracle.of(Scanned):
        wrong = _scan(oracle, visible, scan)
        if wrong is not None:
            return f"a scan of table {scan.table} at revision {scan.revision} {wrong}"
    return None


def _ends(visible: Visible, news: Committed) -> str | None:
    for record in news.written(TransactionRecord):
        known = visible.committed.get(record.id)
        if record.state is not TransactionState.COMMITTED:
            if known is not None:
                return f"write transaction {record.id} was committed at {known} and is {record.state}"
            if record.state is TransactionState.ABORTED:
                visible.aborted.add(record.id)
            continue
        if known is not None and news.before.get(keys.transaction(record.id)) != record:
            return f"write transaction {record.id} was committed at {known} already"
        if record.id in visible.aborted:
            return f"write transaction {record.id} was aborted and is committed"
        visible.committed.setdefault(record.id, news.revision)
    return None


def _segments(visible: Visible, news: Committed) -> str | None:
    rows: Counter[TransactionId] = Counter()
    for key, record in news.wrote.items():
        if not isinstance(record, SegmentRecord):
            continue
        before = news.before.get(key)
        if isinstance(before, SegmentRecord):
            if msgspec.structs.replace(before, holders=record.holders) != record:
                return f"what the manifest says of segment {record.id} has changed"
            continue
        transaction = segment_transaction(record.id)
        if record.id in visible.segments:
            return f"segment {record.id} is visible a second time"
        if visible.committed.get(transaction) != news.revision:
            return f"segment {record.id} is visible, its write is committed at {visible.committed.get(transaction)}"
        visible.segments.add(record.id)
        rows[transaction] += record.rows
    for record in news.written(TransactionRecord):
        ends_here = visible.committed.get(record.id) == news.revision
        if ends_here and record.rows != rows[record.id]:
            return f"write transaction {record.id} says {record.rows} rows, its segments have {rows[record.id]}"
    return None


def _scan(oracle: Oracle, visible: Visible, scan: Scanned) -> str | None:
    at = oracle.history.at_most(scan.revision)
    if scan.by_segment:
        expected: dict[str, int] = {one.id: one.rows for one in oracle.history.segments_at(at, scan.table) if one.rows}
    else:
        sums: Counter[str] = Counter()
        for transaction, wrote in visible.meant.items():
            if wrote.table == scan.table and visible.committed.get(transaction, at + 1) <= at:
                sums += wrote.rows
        expected = dict(sums)
    returned = {name: count for name, count in scan.rows.items() if count}
    if returned == expected:
        return None
    over = {name: count - expected.get(name, 0) for name, count in returned.items() if count != expected.get(name, 0)}
    short = sorted(name for name in expected if name not in returned)
    return f"returned {sum(returned.values())} rows for {sum(expected.values())}: missing {short[:3]}, off by {over}"
