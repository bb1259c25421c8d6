"""INV-WRITE-1: a committed row was written with a schema compatible with the table at its commit revision.

Judged from the oracle's own record of every schema of every table. A segment's columns (those its statistics name)
belong to the schema version it was written with; at the commit each of them is alive with the same type or one that
was widened from it, and no column that must not be null is missing. The table is in use, and the version that the
writer named is not newer than the table's.
"""

from typing import Final

from leasehold.core.words import keys
from leasehold.core.words.records import (
    Field,
    SegmentRecord,
    TableRecord,
    TransactionRecord,
    TransactionState,
    UseState,
)
from leasehold.testing.history import Committed
from leasehold.testing.oracle import Oracle

HEARS: Final = frozenset({Committed})

WIDENED: Final = {
    "TINYINT": {"SMALLINT", "INT", "BIGINT"},
    "SMALLINT": {"INT", "BIGINT"},
    "INT": {"BIGINT"},
    "FLOAT": {"DOUBLE"},
}
"""What each type may have become."""


def check(oracle: Oracle) -> str | None:
    for news in oracle.of(Committed):
        for record in news.written(TransactionRecord):
            before = news.before.get(keys.transaction(record.id))
            was_committed = isinstance(before, TransactionRecord) and before.state is TransactionState.COMMITTED
            if record.state is TransactionState.COMMITTED and not was_committed:
                wrong = _commit(oracle, news, record)
                if wrong is not None:
                    return f"write transaction {record.id} at revision {news.revision}: {wrong}"
    return None


def _commit(oracle: Oracle, news: Committed, record: TransactionRecord) -> str | None:
    table = oracle.history.record_at(news.revision, keys.table(record.table))
    if not isinstance(table, TableRecord) or table.state is not UseState.IN_USE:
        return f"table {record.table} was not in use"
    if not 1 <= record.schema_version <= table.schema_version:
        return f"written with schema {record.schema_version}, the table is at {table.schema_version}"
    for key, one in news.wrote.items():
        if isinstance(one, SegmentRecord) and one.table == record.table and key not in news.before:
            wrong = _segment(oracle, one, table)
            if wrong is not None:
                return f"segment {one.id}: {wrong}"
    return None


def _segment(oracle: Oracle, segment: SegmentRecord, table: TableRecord) -> str | None:
    written = oracle.history.versions.get((table.id, segment.schema_version))
    if written is None or segment.schema_version > table.schema_version:
        return f"schema {segment.schema_version} of {table.name} has never been"
    then = {field.id: field for field in written.fields}
    now = {field.id: field for field in table.fields if field.state is UseState.IN_USE}
    columns = [one.field for one in segment.statistics]
    for column in columns:
        if column not in then:
            return f"column {column} is not in schema {segment.schema_version}"
        if column not in now:
            return f"column {then[column].name} was not alive"
        if not _fits(then[column], now[column]):
            return f"column {then[column].name} was {then[column].type}, it is {now[column].type}"
    missing = [one.name for one in now.values() if not one.nullable and one.initial is None and one.id not in columns]
    return f"column {missing[0]} must not be null and was not written" if missing else None


def _fits(then: Field, now: Field) -> bool:
    return now.type == then.type or now.type in WIDENED.get(then.type, ())
