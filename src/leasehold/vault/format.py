"""The vault's file: its tables, and its making.

| table        | holds                                                                                       |
| ------------ | ------------------------------------------------------------------------------------------- |
| identity     | the identity record and a SHA-256 of it and of the table's name                             |
| coordinators | the last known coordinator addresses, likewise                                              |
| projection   | each key with its value and the hash of both (`core.words.digest.item_digest`)                    |
| applied      | the applied revision, how far it was durable last, its lineage, the XOR of the items'       |
|              | hashes, that of the items every start reads, the hash of the identity that was written      |
|              | last, and a hash of all these                                                               |
"""

import hashlib
import logging
import os
import sqlite3
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import msgspec

from leasehold.core.words.codec import decode_record
from leasehold.core.words.digest import digest_bytes
from leasehold.core.words.lineage import GENESIS
from leasehold.core.words.records import Allocated, Claiming, IdentityRecord, Joining, Record
from leasehold.durable import sync_file, sync_folder
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory
from leasehold.ids import LineageHash, Revision
from leasehold.limits.vault import VAULT_FORMAT_VERSION
from leasehold.vault.causes import corrupt

log = logging.getLogger(__name__)

FILE_NAME: Final = "vault.db"
APPLICATION_ID: Final = 0x4C484F4C
"""`LHOL` in the file's header: it is ours."""

_TABLES: Final = (
    "CREATE TABLE projection (key BLOB PRIMARY KEY, value BLOB NOT NULL, hash BLOB NOT NULL) WITHOUT ROWID",
    """CREATE TABLE applied (id INTEGER PRIMARY KEY CHECK (id = 1), revision INTEGER NOT NULL, durable INTEGER NOT NULL,
                             lineage BLOB NOT NULL, digest BLOB NOT NULL, eager BLOB NOT NULL, identity BLOB NOT NULL,
                             seal BLOB NOT NULL)""",
)
_APPLIED: Final = "revision, durable, lineage, digest, eager, identity, seal"
_CONTENT: Final = "id INTEGER PRIMARY KEY CHECK (id = 1), content BLOB NOT NULL, sha256 BLOB NOT NULL"
Single = Literal["identity", "coordinators"]
_SINGLE: Final[tuple[Single, ...]] = ("identity", "coordinators")
OWNER_ONLY: Final = 0o600
"""The mode of the file, and so of its log: it holds the token."""


def content_hash(table: Single, content: bytes) -> bytes:
    """The hash of a single record and its table, so that one record does not pass for the other."""
    return hashlib.sha256(b"%s\0%s" % (table.encode(), content)).digest()


class AppliedMark(msgspec.Struct, frozen=True, kw_only=True):
    """The `applied` row as it stands in the file."""

    revision: Revision = Revision(0)
    lineage: LineageHash = GENESIS
    digest: int = 0
    """Of all items."""
    eager: int = 0
    """Of those that are not read on demand (`core.catalog.shelf`)."""
    identity: bytes = content_hash("identity", b"")
    """The hash of the identity that was written last, so that an older one does not pass for it."""

    def row(self) -> tuple[int, bytes, bytes, bytes, bytes, bytes]:
        """The columns but `durable`, the seal last."""
        digests = digest_bytes(self.digest), digest_bytes(self.eager)
        seal = hashlib.sha256(b"".join((self.revision.to_bytes(8), self.lineage, *digests, self.identity))).digest()
        return self.revision, self.lineage, *digests, self.identity, seal

    def write(self, database: sqlite3.Connection) -> None:
        database.execute(
            "UPDATE applied SET revision = ?, lineage = ?, digest = ?, eager = ?, identity = ?, seal = ?", self.row()
        )


def is_there(path: Path) -> bool:
    """Whether there is a vault. Raises `BadDirectory` with code NO_ACCESS for anything of that name but a file,
    `Corrupt` for an empty file and for a log without its file.

    A link is refused too. SQLite keeps the log beside the file that a link points to, where nobody else looks for it.
    And a link to nothing, as to a disk that is not mounted, must not pass for a first start.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        if any(path.parent.glob(f"{path.name}-*")):
            raise corrupt(path, "its log exists, but the file does not") from None
        return False
    if not stat.S_ISREG(mode):
        what = "a symbolic link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "no file"
        raise BadDirectory(
            f"the vault {path} can't be opened: it is {what}",
            code=ErrorCode.NO_ACCESS,
            hint=f"put the vault itself there, with its log {path.name}-wal; the whole directory may be a link",
        )
    if path.stat().st_size == 0:
        raise corrupt(path, "it is empty")
    return True


def create(path: Path) -> None:
    """Makes an empty vault, under another name first, synced and renamed: it is there whole or not at all."""
    for rest in path.parent.glob(f"{path.name}.new*"):
        rest.unlink()
    new = path.with_name(f"{path.name}.new")
    # SQLite would make it readable for everybody; its log takes the mode of the file.
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY))
    database = sqlite3.connect(new, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {VAULT_FORMAT_VERSION}")
        for table in _SINGLE:
            database.execute(f"CREATE TABLE {table} ({_CONTENT})")
            database.execute(f"INSERT INTO {table} VALUES (1, ?, ?)", (b"", content_hash(table, b"")))  # noqa: S608 literals
        for statement in _TABLES:
            database.execute(statement)
        revision, *rest = AppliedMark().row()
        database.execute("INSERT INTO applied VALUES (1, ?, 0, ?, ?, ?, ?, ?)", (revision, *rest))
    finally:
        # The last connection to close moves the log into the file and removes it.
        database.close()
    sync_file(new)
    new.rename(path)
    sync_folder(path.parent)


def keep_to_owner(path: Path) -> None:
    """Takes rights of other users on the file and its log, as a copy or an earlier version may have left them, away."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        one = path.with_name(name)
        with suppress(FileNotFoundError):
            mode = one.stat().st_mode
            if mode & 0o077:
                try:
                    one.chmod(mode & 0o700)
                except PermissionError:
                    log.warning(
                        "other users can access %s, which may hold this node's token: its owner should run chmod on it",
                        one,
                    )


def pragma(database: sqlite3.Connection, name: str) -> int:
    (value,) = database.execute(f"PRAGMA {name}").fetchone()
    return value


def check_version(database: sqlite3.Connection, path: Path) -> int:
    """The file's format. Raises `BadDirectory` with code NEWER_VERSION or OLDER_VERSION, and `Corrupt` if it is no
    vault."""
    version = pragma(database, "user_version")
    if version > VAULT_FORMAT_VERSION:
        raise BadDirectory(
            f"the vault {path} has format {version}, newer than {VAULT_FORMAT_VERSION}",
            code=ErrorCode.NEWER_VERSION,
            hint="start this node with the newer version of leasehold that wrote it",
        )
    if pragma(database, "application_id") != APPLICATION_ID or version < 1:
        raise corrupt(path, "it is a database, but not a vault")
    if version < VAULT_FORMAT_VERSION:
        raise BadDirectory(
            f"the vault {path} has format {version}, older than {VAULT_FORMAT_VERSION}",
            code=ErrorCode.OLDER_VERSION,
            hint="start this node with the version of leasehold that wrote it, or reset it with `leasehold node reset`",
        )
    return version


def check_structure(database: sqlite3.Connection, path: Path, how: Literal["quick_check", "integrity_check"]) -> None:
    """Whether SQLite finds its file sound; raises `Corrupt`."""
    finding = str(database.execute(f"PRAGMA {how}(1)").fetchone()[0])
    if finding != "ok":
        raise corrupt(path, " ".join(finding.split()))


def read_content(database: sqlite3.Connection, path: Path, table: Single) -> bytes:
    """The content of a table of one row; empty until it is first written. A missing row is damage too."""
    row = database.execute(f"SELECT content, sha256 FROM {table}").fetchone()  # noqa: S608 one of two literals
    if row is None or not isinstance(row[0], bytes) or content_hash(table, row[0]) != row[1]:
        raise corrupt(path, f"the {table} record does not match its checksum")
    return row[0]


def read_identity(database: sqlite3.Connection, path: Path, applied: AppliedMark) -> IdentityRecord | None:
    """The identity that was written last. A vault without one holds nothing else either: a node has its identity before
    it knows anything of a cluster."""
    content = read_content(database, path, "identity")
    if not content and (applied.revision or read_content(database, path, "coordinators")):
        raise corrupt(path, "the identity record is missing, though the vault holds data of a cluster")
    if content_hash("identity", content) != applied.identity:
        raise corrupt(path, "the identity record is not the last one that was written")
    if not content:
        return None
    record = decode_record(Record, content)
    if not isinstance(record, Claiming | Allocated | Joining):
        raise corrupt(path, f"a {type(record).__name__} was found instead of the identity")
    return record


def stored_applied(database: sqlite3.Connection, path: Path) -> tuple[AppliedMark, Revision]:
    """The applied row, verified, and the revision that was durable last."""
    row = database.execute(f"SELECT {_APPLIED} FROM applied").fetchone()  # noqa: S608 a literal
    if row is None or tuple(type(column) for column in row) != (int, int, *(bytes,) * 5):
        raise corrupt(path, "its applied revision can't be read")
    revision, durable, lineage, digest, eager, identity, seal = row
    sealed = (lineage, digest, eager, identity)
    if revision < 0 or hashlib.sha256(b"".join((revision.to_bytes(8), *sealed))).digest() != seal:
        raise corrupt(path, "its applied revision does not match its checksum")
    applied = AppliedMark(
        revision=Revision(revision),
        lineage=LineageHash(lineage),
        digest=int.from_bytes(digest),
        eager=int.from_bytes(eager),
        identity=identity,
    )
    return applied, Revision(min(durable, revision))
