"""INV-WRITE-2: a write transaction is visible whole or not at all, and once per idempotency key.

In the store, a transaction's segments come into the manifest all in the one revision that says COMMITTED, their rows
add up to what it says and to what its client wrote, of which replicas may have several copies under other names. It
says so once: not after ABORTED, and not a second time however often it is asked. What a segment's entry says stays so,
but for who holds it. A scan of whole segments returned those of its revision; the
single rows of a scan are for INV-SCAN-1. No batch has a row that a DELETE takes by the view that it is released on,
whenever its scan was planned.
"""

from collections import Counter
from typing import Final, NamedTuple

import msgspec

from leasehold.core.words import keys
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
from leasehold.testing.news import Passed, Scanned, Wrote
from leasehold.testing.oracle import Oracle
from leasehold.testing.rows import RowId, fulfils

HEARS: Final = frozenset({Committed, Passed, Scanned, Wrote})


class Visible:
    """The revision at which each write became visible, and what clients meant to write."""

    def __init__(self) -> None:
        self.committed: dict[TransactionId, Revision] = {}
        self.aborted: set[TransactionId] = set()
        self.segments: set[SegmentId] = set()
        self.meant: dict[TransactionId, Wrote] = {}
        self.writes: dict[str, TransactionId] = {}
        """By row."""
        self.samples: dict[TransactionId, SegmentRecord] = {}
        """One segment of each transaction: all of them have the same columns and the same earlier DELETEs."""
        self.deletes: dict[bytes, Deleted] = {}
        self.wrong: str | None = None
        self._step = -1

    def follow(self, oracle: Oracle) -> "Visible":
        """Takes the news since the last check, once for all invariants; `wrong` says what is wrong with it."""
        if self._step != oracle.step:
            self._step, self.wrong = oracle.step, None
            for wrote in oracle.of(Wrote):  # before its commit
                self.meant[wrote.transaction] = wrote
                self.writes.update(dict.fromkeys(wrote.rows, wrote.transaction))
            for news in oracle.of(Committed):
                wrong = _deletes(self, news) or _ends(self, news) or _segments(self, news)
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

    def takes(self, one: "Deleted", name: str, transaction: TransactionId, fields: tuple[Field, ...]) -> bool:
        """Whether a DELETE takes a row of a write: one that was visible when it began, and that it names."""
        sample, committed = self.samples[transaction], self.committed[transaction]
        if one.began < committed or (one.began == committed and sample.deletes >= one.record.number):
            return False
        return fulfils(RowId(int(name)), one.record, sample, fields)


class Deleted(NamedTuple):
    """A DELETE, from the revision that began it to the one that removed its record."""

    record: DeleteRecord
    began: Revision
    ended: Revision | None = None


def check(oracle: Oracle) -> str | None:
    visible = oracle.recall(Visible).follow(oracle)
    if visible.wrong is not None:
        return visible.wrong
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
        visible.samples.setdefault(transaction, record)
        rows[transaction] += record.rows
    for record in news.written(TransactionRecord):
        ends_here = visible.committed.get(record.id) == news.revision
        if ends_here and record.rows != rows[record.id]:
            return f"write transaction {record.id} says {record.rows} rows, its segments have {rows[record.id]}"
        meant = visible.meant.get(record.id)
        if ends_here and meant is not None and record.rows != meant.rows.total():
            return f"write transaction {record.id} has {record.rows} rows, its client wrote {meant.rows.total()}"
    return None


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
    gone = visible.gone(news.table, at)
    if not gone:
        return None
    fields = fields_at(oracle, news.table, at)
    for row in news.rows:
        transaction = visible.writes[str(row)]
        taking = next((one for one in gone if visible.takes(one, str(row), transaction, fields)), None)
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
