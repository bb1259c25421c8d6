"""Keys of segments, and vaults that hold them."""

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import Claiming, SegmentRecord
from leasehold.ids import BucketNumber, LineageHash, NodeId, ObjectId, Revision, SchemaVersion, SegmentId, Token

CLAIMING = Claiming(token=Token("ab" * 16))
HASH = LineageHash(b"h" * 32)


def segment_id(number: int) -> SegmentId:
    digits = hashlib.sha256(b"%d" % number).hexdigest()
    return SegmentId(f"{digits[:32]}-{digits[32:]}")


def segment(table: int, bucket: int, number: int, *, rows: int = 1) -> Change:
    record = SegmentRecord(
        id=segment_id(number),
        table=ObjectId(table),
        bucket=BucketNumber(bucket),
        schema_version=SchemaVersion(1),
        rows=rows,
        size_bytes=1,
        sha256=b"",
        statistics=(),
        holders=(NodeId(1),),
    )
    return Change(keys.segment(record.table, record.bucket, record.id), encode(record))


def gone(change: Change) -> Change:
    return Change(change.key, None)


def revision(number: int, *changes: Change) -> RevisionChanges:
    return RevisionChanges(Revision(number), tuple(sorted(changes, key=lambda one: one.key)))


def sql(path: Path, statement: str, *values: bytes) -> None:
    """Changes a vault's file behind its back."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(statement, values)
