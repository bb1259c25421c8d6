"""What a meta storage asks of SQLite."""

AT = (
    "SELECT key, value, created, revision, version FROM kv WHERE key = ? AND revision <= ?"
    " ORDER BY revision DESC LIMIT 1"
)


INSERT = "INSERT INTO kv (key, revision, value, created, version) VALUES (?, ?, ?, ?, ?)"


VERSIONS = (
    "SELECT key, value, created, revision, version FROM kv WHERE key >= ? AND key < ? ORDER BY key, revision LIMIT ?"
)


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
