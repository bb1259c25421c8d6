"""A leap on the file: what was staged of a snapshot takes the projection's place (DESIGN section 6, case c; R2).

Pages are staged in a temporary table, which ends with the connection: a process that dies before the leap leaves the
old state and no trace of the new one. The difference is made by SQLite, so that Python sees what differs alone.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

from leasehold.core.digest import digest_bytes
from leasehold.core.operations import Change

_TABLES: Final = (
    """CREATE TEMP TABLE IF NOT EXISTS
       staged (key BLOB PRIMARY KEY, value BLOB NOT NULL, hash BLOB NOT NULL) WITHOUT ROWID""",
    "CREATE TEMP TABLE IF NOT EXISTS differing (key BLOB PRIMARY KEY, value BLOB, hash BLOB) WITHOUT ROWID",
)
_DIFFER: Final = """
INSERT INTO differing
SELECT key, NULL, NULL FROM projection WHERE NOT EXISTS (SELECT 1 FROM staged WHERE staged.key = projection.key)
UNION ALL
SELECT staged.key, staged.value, staged.hash FROM staged LEFT JOIN projection ON projection.key = staged.key
WHERE projection.hash IS NOT staged.hash OR projection.value IS NOT staged.value
"""


def stage(database: sqlite3.Connection, items: Sequence[Change], counted: Sequence[int], *, first: bool) -> None:
    """Adds a page, checked by the caller, who says what its items count for; inside his transaction."""
    for statement in _TABLES:
        database.execute(statement)
    if first:
        forget(database)
    page = ((item.key, item.value, digest_bytes(counts)) for item, counts in zip(items, counted, strict=True))
    database.executemany("INSERT INTO staged VALUES (?, ?, ?)", page)


def differences(database: sqlite3.Connection) -> tuple[Change, ...]:
    """What turns the projection into what was staged, in key order; inside the caller's transaction."""
    for statement in _TABLES:
        database.execute(statement)
    database.execute("DELETE FROM differing")
    database.execute(_DIFFER)
    return tuple(Change(key, value) for key, value in database.execute("SELECT key, value FROM differing ORDER BY key"))


def replace(database: sqlite3.Connection) -> None:
    """Applies what `differences` found, and forgets what was staged."""
    database.execute("DELETE FROM projection WHERE key IN (SELECT key FROM differing WHERE value IS NULL)")
    database.execute("INSERT OR REPLACE INTO projection SELECT * FROM differing WHERE value IS NOT NULL")
    forget(database)


def forget(database: sqlite3.Connection) -> None:
    """Empties both tables."""
    database.execute("DELETE FROM staged")
    database.execute("DELETE FROM differing")
