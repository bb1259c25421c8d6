"""INV-WRITE-2: a write transaction is visible whole or not at all, and once per idempotency key.

In the store, a transaction's segments come into the manifest all in the one revision that says COMMITTED, their rows
add up to what it says and to what its client wrote, of which replicas may have several copies under other names. It
becomes COMMITTED once: not after ABORTED, and not a second time however often it is asked. So does a batch of a
streaming query, in whatever transactions. A client that is told how it
ended is told the truth. What a segment's entry says stays so, but for who holds it. A scan of whole segments returned
those of its revision; the single rows of a scan are for INV-SCAN-1. No batch has a row that a DELETE takes by the view
that it is released on, whenever its scan was planned.

A write that replaces rows takes just the segments that it names out of the manifest, and adds its own, at the revision
that says COMMITTED. The rows that are visible then are those of the revision before, without those that fulfil its
conditions, and the new ones; after a compaction the same rows as before. Nothing else takes a segment of a table out
of the manifest that is still there.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from leasehold.core.words import keys
from leasehold.core.words.messages import StreamBatch
from leasehold.core.words.records import (
    DeleteRecord,
    Field,
    HiddenRows,
    Outcome,
    ProcedureRecord,
    SegmentRecord,
    StatementRecord,
    TableRecord,
    TransactionRecord,
    TransactionState,
)
from leasehold.ids import ObjectId, Revision, SegmentId, TransactionId, segment_transaction
from leasehold.testing.history import Committed
from leasehold.testing.news import Passed, Scanned
from leasehold.testing.oracle import Oracle
from leasehold.testing.rows import RowId, fulfils, is_within
from leasehold.testing.write_news import WriteEnded, Wrote

HEARS: Final = frozenset({Committed, Passed, Scanned, WriteEnded, Wrote})


class Visible:
    """The revision at which each write became visible, and what clients meant to write."""

    def __init__(self) -> None:
        self.committed: dict[TransactionId, Revision] = {}
        self.aborted: set[TransactionId] = set()
        self.segments: dict[SegmentId, SegmentRecord] = {}
        """As they became visible, those too that were replaced since."""
        self.meant: dict[TransactionId, Wrote] = {}
        self.placed: dict[SegmentId, Counter[str]] = {}
        """The rows that clients have put into each segment: a row that is kept goes from one to another."""
        self.batches: dict[StreamBatch, TransactionId] = {}
        self.deletes: dict[bytes, Deleted] = {}
        self.wrong: str | None = None
        self._step = -1

    def follow(self, oracle: Oracle) -> "Visible":
        """Takes the news since the last check, once for all invariants; `wrong` says what is wrong with it."""
        if self._step != oracle.step:
            self._step, self.wrong = oracle.step, None
            for wrote in oracle.of(Wrote):  # before its commit
                self.meant[wrote.transaction] = wrote
                self.placed.update(wrote.segments)
            for news in oracle.of(Committed):
                wrong = _deletes(self, news) or _ends(self, news) or _segments(self, news)
                wrong = wrong or _leaving(oracle, self, news) or _replaced(oracle, self, news)
                if wrong is not None:
                    self.wrong = self.wrong or f"revision {news.revision}: {wrong}"
        return self

    def gone(self, table: ObjectId, at: Revision) -> "list[Deleted]":
        """The DELETEs that take rows at a revision."""
        return [
            one
            for one in self.deletes.values()
            if one.record.table == table and one.began <= at < (one.ended or Revision(at + 1))
        ]

    def taker(
        self, gone: "Iterable[Deleted]", segment: SegmentId, fields: tuple[Field, ...]
    ) -> "Callable[[str], Deleted | None]":
        """Tells which of these DELETEs takes a row of a segment: one that the row was visible to, and that names it."""
        known, committed = self.segments[segment], self.committed[segment_transaction(segment)]
        written = {one.field for one in known.statistics}
        later = [one for one in gone if (one.began, one.record.number) > (committed, known.deletes)]
        return lambda name: next((one for one in later if fulfils(RowId(int(name)), one.record, written, fields)), None)

    def rows(
        self, oracle: Oracle, table: ObjectId, at: Revision, gone: "list[Deleted]", fields: tuple[Field, ...]
    ) -> "Iterator[tuple[str, int, Deleted | None]]":
        """The rows of the segments of a revision: how often each is there, and what has taken it, of what is `gone`."""
        for one in oracle.history.segments_at(at, table):
            taker = self.taker(gone, one.id, fields)
            for name, count in self.placed.get(one.id, {}).items():
                yield name, count, taker(name)


class Deleted(NamedTuple):
    """A DELETE, from the revision that began it to the one that removed its record."""

    record: DeleteRecord
    began: Revision
    ended: Revision | None = None


def check(oracle: Oracle) -> str | None:
    visible = oracle.recall(Visible).follow(oracle)
    if visible.wrong is not None:
        return visible.wrong
    for ended in oracle.of(WriteEnded):
        if ended.committed is not (ended.transaction in visible.committed):
            told, is_so = ("committed", "is not") if ended.committed else ("not committed", "is")
            return f"a client was told that write transaction {ended.transaction} is {told}, and it {is_so}"
        if not ended.committed:
            visible.aborted.add(ended.transaction)
    for news in oracle.of(Passed):
        wrong = _batch(oracle, visible, news)
        if wrong is not None:
            return f"{news.process.name} released row {wrong} at revision {news.outcome.view.revision}"
    for scan in oracle.of(Scanned):
        wrong = _scan(oracle, scan) if scan.by_segment else None
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
        meant = visible.meant.get(record.id)
        if meant is not None and meant.batch is not None:
            first = visible.batches.setdefault(meant.batch, record.id)
            if first != record.id:
                return f"{meant.batch} is committed by write transactions {first} and {record.id}"
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
        visible.segments[record.id] = record
        rows[transaction] += record.rows
    for record in news.written(TransactionRecord):
        ends_here = visible.committed.get(record.id) == news.revision
        if ends_here and record.rows != rows[record.id]:
            return f"write transaction {record.id} says {record.rows} rows, its segments have {rows[record.id]}"
        meant = visible.meant.get(record.id)
        due = record.rows if meant is None else meant.rows.total() + meant.kept
        if ends_here and record.rows != due:
            return f"write transaction {record.id} has {record.rows} rows, its client wrote {due}"
    return None


def _leaving(oracle: Oracle, visible: Visible, news: Committed) -> str | None:
    gone = {one.id: one.table for one in news.deleted(SegmentRecord)}
    for record in news.written(TransactionRecord):
        meant = visible.meant.get(record.id)
        if meant is None or visible.committed.get(record.id) != news.revision:
            continue
        left = meant.replaces - gone.keys()
        if left:
            return f"write transaction {record.id} is committed, {len(left)} segments that it replaces are still there"
        gone = {one: table for one, table in gone.items() if one not in meant.replaces}
    for one, table in gone.items():
        if oracle.history.record_at(news.revision, keys.table(table)) is not None:
            return f"segment {one} of table {table} has left the manifest, and no write replaces it"
    return None


def _replaced(oracle: Oracle, visible: Visible, news: Committed) -> str | None:
    """Compares the rows before and after a write that replaces some."""
    for record in news.written(TransactionRecord):
        meant = visible.meant.get(record.id)
        if meant is None or visible.committed.get(record.id) != news.revision:
            continue
        if meant.where is None and not meant.replaces:
            continue
        due, found = Counter(meant.rows), Counter[str]()
        before = oracle.history.at_most(Revision(news.revision - 1))
        for name, count in _left(oracle, visible, meant.table, before):
            is_replaced = meant.where is not None and is_within(RowId(int(name)), meant.where)
            due[name] += 0 if is_replaced else count
        for name, count in _left(oracle, visible, meant.table, news.revision):
            found[name] += count
        if due != found:
            lost, added = sorted((due - found).elements()), sorted((found - due).elements())
            return f"write transaction {record.id} replaces rows: {lost[:3]} are lost, {added[:3]} too many"
    return None


def _left(oracle: Oracle, visible: Visible, table: ObjectId, at: Revision) -> Iterator[tuple[str, int]]:
    """The rows that are visible at a revision."""
    rows = visible.rows(oracle, table, at, visible.gone(table, at), fields_at(oracle, table, at))
    return ((name, count) for name, count, taken in rows if taken is None)


def _deletes(visible: Visible, news: Committed) -> str | None:
    for key, record in news.wrote.items():
        if isinstance(record, DeleteRecord) and key not in visible.deletes:
            visible.deletes[key] = Deleted(record, news.revision)
        elif record is None and key in visible.deletes:
            visible.deletes[key] = visible.deletes[key]._replace(ended=news.revision)
    for procedure in news.deleted(ProcedureRecord):
        record = news.wrote.get(keys.statement(procedure.statement))
        if isinstance(record, StatementRecord) and record.outcome is Outcome.ROLLED_BACK:
            for one in procedure.hides:
                if isinstance(one, HiddenRows) and visible.deletes[keys.delete(one.table, one.number)].ended is None:
                    return f"DELETE {one.number} of table {one.table} was rolled back and is still there"
    return None


def fields_at(oracle: Oracle, table: ObjectId, at: Revision) -> tuple[Field, ...]:
    """The columns of a table at a revision, for telling which rows a DELETE names."""
    record = oracle.history.record_at(at, keys.table(table))
    return record.fields if isinstance(record, TableRecord) else ()


def _batch(oracle: Oracle, visible: Visible, news: Passed) -> str | None:
    at = news.outcome.view.revision
    if not news.rows:
        return None
    segment = news.segment
    if segment is None or visible.committed.get(segment_transaction(segment), Revision(at + 1)) > at:
        return f"{news.rows[0]} of segment {segment}, which is not committed,"
    gone = visible.gone(news.table, at)
    taker = visible.taker(gone, segment, fields_at(oracle, news.table, at) if gone else ())
    for row in news.rows:
        taking = taker(str(row))
        if taking is not None:
            return f"{row}, which DELETE {taking.record.number} had taken at {taking.began},"
    return None


def _scan(oracle: Oracle, scan: Scanned) -> str | None:
    at = oracle.history.at_most(scan.revision)
    expected: dict[str, int] = {one.id: one.rows for one in oracle.history.segments_at(at, scan.table) if one.rows}
    returned = {name: count for name, count in scan.rows.items() if count}
    if returned == expected:
        return None
    over = {name: count - expected.get(name, 0) for name, count in returned.items() if count != expected.get(name, 0)}
    short = sorted(name for name in expected if name not in returned)
    return f"returned {sum(returned.values())} rows for {sum(expected.values())}: missing {short[:3]}, off by {over}"
