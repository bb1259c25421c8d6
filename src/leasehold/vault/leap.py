"""A leap on the file: what was staged of a snapshot takes the projection's place (docs/recovery.md, case c; R2).

Each page is compared with its part of the projection, and only the differences are staged: a node that was away lacks
little of a large catalog. They go into a temporary table, which ends with the connection. So a process that dies before
the leap leaves the old state and no trace of the new one.

Revisions may be applied between a page and the leap. An item that they change in a part already compared was equal to
the snapshot's, or is staged. So its old value is staged, unless one is; an item that no longer differs is removed.

All functions run inside the caller's transaction.
"""

import sqlite3
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from leasehold.core.words.digest import digest_bytes
from leasehold.core.words.operations import Change

_Row = tuple[bytes, bytes | None, bytes | None]
"""Key, value and hash; None for both where the projection is to lose the key."""

_TABLE: Final = "CREATE TEMP TABLE IF NOT EXISTS staged (key BLOB PRIMARY KEY, value BLOB, hash BLOB) WITHOUT ROWID"
_PART: Final = "SELECT key, value, hash FROM projection WHERE key >= ? AND key <= ? ORDER BY key"
_REST: Final = "INSERT INTO staged SELECT key, NULL, NULL FROM projection WHERE key >= ?"
_KEEP: Final = """
INSERT OR IGNORE INTO staged
SELECT ?1, projection.value, projection.hash FROM (SELECT 1) LEFT JOIN projection ON projection.key = ?1
"""
_LEAVE_OUT: Final = """
DELETE FROM staged WHERE key = ?1
AND value IS (SELECT value FROM projection WHERE key = ?1) AND hash IS (SELECT hash FROM projection WHERE key = ?1)
"""


def stage(
    database: sqlite3.Connection, after: bytes | None, items: Sequence[Change], counted: Sequence[int], *, first: bool
) -> None:
    """Adds a page whose order has been checked: `counted` are its items' digests, the page before it ended at
    `after`."""
    if first:
        forget(database)
    database.execute(_TABLE)
    if items:
        held = database.execute(_PART, (_behind(after), items[-1].key))
        page = ((item.key, item.value, digest_bytes(counts)) for item, counts in zip(items, counted, strict=True))
        database.executemany("INSERT INTO staged VALUES (?, ?, ?)", _differing(held, page))


@contextmanager
def following(database: sqlite3.Connection, after: bytes | None, changed: Iterable[bytes]) -> Generator[None]:
    """Around a change of these keys of the projection: keeps what is staged equal to the differences. The last page
    ended at `after`, None if there was none."""
    compared = [] if after is None else [(key,) for key in changed if key <= after]
    if compared:
        database.executemany(_KEEP, compared)
    yield
    if compared:
        database.executemany(_LEAVE_OUT, compared)


def differences(database: sqlite3.Connection, after: bytes | None) -> tuple[Change, ...]:
    """The changes that turn the projection into the snapshot, in key order; the last page ended at `after`."""
    database.execute(_TABLE)
    database.execute(_REST, (_behind(after),))
    return tuple(Change(key, value) for key, value in database.execute("SELECT key, value FROM staged ORDER BY key"))


def replace(database: sqlite3.Connection) -> None:
    """Applies what `differences` found, and forgets what was staged."""
    database.execute("DELETE FROM projection WHERE key IN (SELECT key FROM staged WHERE value IS NULL)")
    database.execute("INSERT OR REPLACE INTO projection SELECT * FROM staged WHERE value IS NOT NULL")
    forget(database)


def forget(database: sqlite3.Connection) -> None:
    """Drops what is staged."""
    database.execute("DROP TABLE IF EXISTS temp.staged")


def _behind(key: bytes | None) -> bytes:
    return b"" if key is None else key + b"\x00"


def _differing(held: Iterator[_Row], page: Iterable[_Row]) -> Iterator[_Row]:
    """The changes that turn a part of the projection into a page; both in key order."""
    row = next(held, None)
    for item in page:
        while row is not None and row[0] < item[0]:
            yield row[0], None, None
            row = next(held, None)
        if row != item:
            yield item
        if row is not None and row[0] == item[0]:
            row = next(held, None)
    assert row is None, "the part ends with the page"
