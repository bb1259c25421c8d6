"""The tables of a meta storage in SQLite (`docs/formats.md`), and the queries on them."""

from leasehold.limits.messages import FORMAT_VERSION

APPLICATION_ID = 0x4C485344
"""Marks the file as a Leasehold meta storage ("LHSD")."""
REPLICA_APPLICATION_ID = 0x4C485352
"""Marks the file as a replica of one that is kept as a log ("LHSR")."""
MOVED_APPLICATION_ID = 0x4C48534D
"""Marks the file as a meta storage that goes on elsewhere ("LHSM")."""
OTHER_FILES = {
    APPLICATION_ID: (
        "is a meta storage of its own, not a replica of a shared one",
        "leave out --meta, or choose an empty directory for a coordinator with --meta",
    ),
    REPLICA_APPLICATION_ID: (
        "is a replica of a shared meta storage",
        "start the coordinator with --meta, or choose an empty directory; `leasehold recover --from` recovers from it",
    ),
}
"""What is wrong with a file that is of the other kind, and what to do."""
STRANGE_FILE = "is not a meta storage", "point it at the coordinator's own directory"

# - `kv`: without rowid, so the newest version of a key, or the one at a revision, is a single seek. NULL is a delete.
# - `kv_revision`: SQLite appends the key, so this is the order in which a watch replays.
# - `state`: MM, and how far compaction has deleted.
_KV = (
    "CREATE TABLE kv (key BLOB NOT NULL, revision INTEGER NOT NULL, value BLOB, created INTEGER NOT NULL,"
    " version INTEGER NOT NULL,{} PRIMARY KEY (key, revision)) WITHOUT ROWID"
)
_TABLES = (
    "CREATE INDEX kv_revision ON kv (revision)",
    "CREATE TABLE state (minimum INTEGER NOT NULL, swept INTEGER NOT NULL)",
    "INSERT INTO state VALUES (1, 1)",
    f"PRAGMA user_version = {FORMAT_VERSION}",
)
SCHEMA = (_KV.format(""), *_TABLES, f"PRAGMA application_id = {APPLICATION_ID}")
# - `replica`: the log that this is a copy of, and the position of the last entry that was applied.
# - `sum`: of a row of `kv`, and of a replica's place with its MM. SQLite does not notice a wrong bit in a value.
# - `content`: how many rows `kv` has, and the sum of their sums. SQLite does not notice a row that is gone with a bit.
REPLICA_SCHEMA = (
    _KV.format(" sum INTEGER NOT NULL,"),
    *_TABLES,
    "CREATE TABLE replica (log_id TEXT NOT NULL, position BLOB NOT NULL, sum INTEGER NOT NULL)",
    "CREATE TABLE content (count INTEGER NOT NULL, total INTEGER NOT NULL)",
    f"PRAGMA application_id = {REPLICA_APPLICATION_ID}",
)

# Of a file that goes on elsewhere: the mark has one row.
MARKED = ("CREATE TABLE IF NOT EXISTS moved (mark BLOB NOT NULL)", "DELETE FROM moved")
MARK_INSERT = "INSERT INTO moved VALUES (?)"
MARK = "SELECT mark FROM moved"
MARK_KIND = f"PRAGMA application_id = {MOVED_APPLICATION_ID}"

# Of a replica that is complete: from then on its content is counted. What is added is counted once for an entry; files
# of an earlier version have a trigger for it.
COUNTED = (
    "INSERT INTO content SELECT count(*), coalesce(sum(sum), 0) FROM kv",
    (
        "CREATE TRIGGER kv_deleted AFTER DELETE ON kv"
        " BEGIN UPDATE content SET count = count - 1, total = total - OLD.sum; END"
    ),
)

REPLICA_OBJECTS = frozenset(one for one in (*REPLICA_SCHEMA, *COUNTED) if one.startswith("CREATE"))
OBJECTS = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL"
"""What SQLite keeps of the statements that made the tables: it runs what stands there, wrong bits and all."""

AT = (
    "SELECT key, value, created, revision, version FROM kv WHERE key = ? AND revision <= ?"
    " ORDER BY revision DESC LIMIT 1"
)
INSERT = "INSERT INTO kv (key, revision, value, created, version) VALUES (?, ?, ?, ?, ?)"
REPLICA_INSERT = "INSERT INTO kv (key, revision, value, created, version, sum) VALUES (?, ?, ?, ?, ?, ?)"
COUNT_ADDED = "UPDATE content SET count = count + ?, total = total + ?"
COUNT_NO_MORE_BY_ROW = "DROP TRIGGER IF EXISTS kv_added"
IS_WHOLE = (
    "SELECT count = (SELECT count(*) FROM kv) AND total ="
    " (SELECT coalesce(sum(row_sum(key, revision, value, created, version)), 0) FROM kv) FROM content"
)
VERSIONS = (
    "SELECT key, value, created, revision, version FROM kv WHERE key >= ? AND key < ? ORDER BY key, revision LIMIT ?"
)
# Steps from key to key, so that a long history of a key costs a range nothing.
RANGE = (
    "WITH RECURSIVE step (key) AS (SELECT min(key) FROM kv WHERE key >= ?1 AND key < ?2"
    " UNION ALL SELECT (SELECT min(key) FROM kv WHERE key > step.key AND key < ?2) FROM step WHERE key IS NOT NULL)"
    " SELECT kv.key, value, created, revision, version FROM step CROSS JOIN kv ON kv.key = step.key"
    " AND kv.revision = (SELECT max(revision) FROM kv WHERE key = step.key AND revision <= ?3)"
    " WHERE value IS NOT NULL"
)
REPLAY = (
    "SELECT revision, key, value FROM kv WHERE revision >= ? AND revision <= ? AND key >= ? AND key < ?"
    " ORDER BY revision, key"
)
HISTORY_ROWS = "SELECT count(*) FROM kv WHERE revision > ?"
NEWEST_BYTES = (
    "SELECT count(*), sum(length(key) + coalesce(length(value), 0))"
    " FROM (SELECT key, value FROM kv WHERE revision > ? ORDER BY revision DESC LIMIT ?)"
)
# The state at a revision, for a checkpoint. A delete at that revision itself belongs to it.
STATE_AT = (
    "SELECT key, value, created, revision, version FROM kv AS one WHERE key > ?1"
    " AND revision = (SELECT max(revision) FROM kv WHERE key = one.key AND revision <= ?2)"
    " AND (value IS NOT NULL OR revision = ?2) ORDER BY key LIMIT ?3"
)
ROWS_AFTER = (
    "SELECT key, value, created, revision, version FROM kv WHERE revision > ? AND revision <= ? ORDER BY revision, key"
)
COUNT = "SELECT count(*) FROM kv"
