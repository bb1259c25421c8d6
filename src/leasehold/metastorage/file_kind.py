"""Whether a file of SQLite is the meta storage that somebody wants to open."""

import sqlite3
from pathlib import Path

from leasehold.core.words.codec import decode_record
from leasehold.core.words.records import MetaMoveRecord
from leasehold.errors import BadDirectory
from leasehold.limits.messages import FORMAT_VERSION
from leasehold.metastorage.causes import corrupt
from leasehold.metastorage.moved import moved
from leasehold.metastorage.schema import MARK, MOVED_APPLICATION_ID, OTHER_FILES, STRANGE_FILE


def is_empty(connection: sqlite3.Connection, path: Path, application_ids: tuple[int, ...]) -> bool:
    """Whether the file is new. Raises `BadDirectory` for one of another kind or of a newer version, and `MetaMoved` for
    one that was moved."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if application not in application_ids and not (empty and version == 0 and application == 0):
        if application == MOVED_APPLICATION_ID:
            raise moved(f"the meta storage in {path.parent}", read_mark(connection, path))
        text, hint = OTHER_FILES.get(application, STRANGE_FILE)
        raise BadDirectory(f"{path} {text}", hint=hint)
    if version > FORMAT_VERSION:
        raise BadDirectory(
            f"{path} has format version {version}, this program knows up to {FORMAT_VERSION}",
            hint=f"run the version of leasehold that wrote it, or a newer one: it must know format {version}",
        )
    return empty


def read_mark(connection: sqlite3.Connection, path: Path) -> MetaMoveRecord:
    """The mark of a file that was moved. Raises `Corrupt`."""
    row = connection.execute(MARK).fetchone()
    if row is None:
        raise corrupt(path, "it was moved, and does not say where to")
    return decode_record(MetaMoveRecord, row[0])
