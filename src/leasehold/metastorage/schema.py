"""The tables of a meta storage in SQLite: `docs/formats.md` says what they hold."""

from leasehold.limits.messages import FORMAT_VERSION

APPLICATION_ID = 0x4C485344
"""Marks the file as a Leasehold meta storage ("LHSD")."""

SCHEMA = (
    (
        "CREATE TABLE kv (key BLOB NOT NULL, revision INTEGER NOT NULL, value BLOB, created INTEGER NOT NULL,"
        " version INTEGER NOT NULL, PRIMARY KEY (key, revision)) WITHOUT ROWID"
    ),
    "CREATE INDEX kv_revision ON kv (revision)",
    "CREATE TABLE state (minimum INTEGER NOT NULL, swept INTEGER NOT NULL)",
    "INSERT INTO state VALUES (1, 1)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT_VERSION}",
)
