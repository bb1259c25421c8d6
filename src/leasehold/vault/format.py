"""The vault's file: its tables, its making, and the way from format 1 to format 2.

| table        | holds                                                                                       |
| ------------ | ------------------------------------------------------------------------------------------- |
| identity     | the identity record and a SHA-256 of it and of the table's name                             |
| coordinators | the last known coordinator addresses, likewise                                              |
| projection   | each key with its value and, since format 2, the hash of both (`core.digest.item_digest`)   |
| applied      | the applied revision, how far it was durable last, its lineage, the XOR of the items'       |
|              | hashes, since format 2 also that of the items every start reads and the hash of the         |
|              | identity that was written last, and a hash of all these                                     |
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

from leasehold.core.codec import decode_record
from leasehold.core.digest import digest_bytes, item_digest
from leasehold.core.lineage import GENESIS
from leasehold.core.records import Allocated, Claiming, IdentityRecord, Joining, Record
from leasehold.core.shelf import on_demand
from leasehold.durable import sync_file, sync_folder
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


def content_hash(table: Single, content: bytes, version: int = VAULT_FORMAT_VERSION) -> bytes:
    """Of a single record; since format 2 with its place, so that one does not pass for the other."""
    return hashlib.sha256(content if version == 1 else b"%s\0%s" % (table.encode(), content)).digest()


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """The `applied` row as it stands in the file."""

    revision: Revision = Revision(0)
    lineage: LineageHash = GENESIS
    digest: int = 0
    """Of all items."""
    eager: int = 0
    """Of those that are not read on demand (`core.shelf`)."""
    identity: bytes = content_hash("identity", b"")
    """The hash of the identity that was written last, so that an older one does not pass for it."""

    def row(self) -> tuple[int, bytes, bytes, bytes, bytes, bytes]:
        """Its columns, the seal last, without what is durable."""
        digests = digest_bytes(self.digest), digest_bytes(self.eager)
        seal = hashlib.sha256(b"".join((self.revision.to_bytes(8), self.lineage, *digests, self.identity))).digest()
        return self.revision, self.lineage, *digests, self.identity, seal

    def write(self, database: sqlite3.Connection) -> None:
        """Puts it in the row's place."""
        database.execute(
            "UPDATE applied SET revision = ?, lineage = ?, digest = ?, eager = ?, identity = ?, seal = ?", self.row()
        )


def is_there(path: Path) -> bool:
    """Whether there is a vault. Raises `BadDirectory` with code NO_ACCESS for a thing of that name that is no file.

    Nor is a link one: SQLite keeps the log beside what it points to, where nobody else looks for it, and a link to
    nothing, as to a disk that is not mounted, must not pass for a first start.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(mode):
        what = "a symbolic link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "no file"
        raise BadDirectory(
            f"the vault {path} can't be opened: it is {what}",
            code="NO_ACCESS",
            hint=f"Put the vault itself there, with its log {path.name}-wal; the directory as a whole may be a link.",
        )
    return True


def create(path: Path, version: int = VAULT_FORMAT_VERSION) -> None:
    """Makes an empty vault; under another name first, synced and renamed, so that it is there whole or not at all."""
    new = path.with_name(f"{path.name}.new")
    # SQLite would make it readable for everybody; its log takes the mode of the file.
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY))
    database = sqlite3.connect(new, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {version}")
        for table in _SINGLE:
            database.execute(f"CREATE TABLE {table} ({_CONTENT})")
            database.execute(f"INSERT INTO {table} VALUES (1, ?, ?)", (b"", content_hash(table, b"", version)))  # noqa: S608 literals
        for statement in _TABLES:
            database.execute(statement)
        revision, *rest = Applied().row()
        database.execute("INSERT INTO applied VALUES (1, ?, 0, ?, ?, ?, ?, ?)", (revision, *rest))
    finally:
        # The last connection to close moves the log into the file and removes it.
        database.close()
    sync_file(new)
    new.rename(path)
    sync_folder(path.parent)


def keep_to_owner(path: Path) -> None:
    """Takes the file and its log from others who can use them, as a version before or a copy may have left them."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        one = path.with_name(name)
        with suppress(FileNotFoundError):
            mode = one.stat().st_mode
            if mode & 0o077:
                try:
                    one.chmod(mode & 0o700)
                except PermissionError:
                    log.warning("others can use %s, which may hold this node's token: its owner can chmod it", one)


def pragma(database: sqlite3.Connection, name: str) -> int:
    """The value of a setting that is a number."""
    (value,) = database.execute(f"PRAGMA {name}").fetchone()
    return value


def check_version(database: sqlite3.Connection, path: Path) -> int:
    """The file's format. Raises `BadDirectory` with code NEWER_VERSION, and `Corrupt` if it is no vault."""
    version = pragma(database, "user_version")
    if version > VAULT_FORMAT_VERSION:
        raise BadDirectory(
            f"the vault {path} has format {version}, newer than {VAULT_FORMAT_VERSION}",
            code="NEWER_VERSION",
            hint="Start this node with the newer version of the program that wrote it.",
        )
    if pragma(database, "application_id") != APPLICATION_ID or version < 1:
        raise corrupt(path, "it is a database, but not a vault")
    return version


def check_structure(database: sqlite3.Connection, path: Path, how: Literal["quick_check", "integrity_check"]) -> None:
    """Whether SQLite finds its file sound; raises `Corrupt`."""
    finding = database.execute(f"PRAGMA {how}(1)").fetchone()
    if finding != ("ok",):
        raise corrupt(path, str(finding))


def read_content(database: sqlite3.Connection, path: Path, table: Single, version: int = VAULT_FORMAT_VERSION) -> bytes:
    """The content of a table of one row; empty until it is first written. A missing row is damage too."""
    row = database.execute(f"SELECT content, sha256 FROM {table}").fetchone()  # noqa: S608 one of two literals
    if row is None or not isinstance(row[0], bytes) or content_hash(table, row[0], version) != row[1]:
        raise corrupt(path, f"the {table} record does not match its checksum")
    return row[0]


def read_identity(database: sqlite3.Connection, path: Path, applied: Applied, version: int) -> IdentityRecord | None:
    """The identity, the one that was written last. Without one there is nothing else in a vault either: a node has its
    identity before it knows anything of a cluster."""
    content = read_content(database, path, "identity", version)
    if not content and (applied.revision or read_content(database, path, "coordinators", version)):
        raise corrupt(path, "the identity record is lost, while what it has learned of a cluster is there")
    if version > 1 and content_hash("identity", content) != applied.identity:
        raise corrupt(path, "the identity record is not the one that was written last")
    if not content:
        return None
    record = decode_record(Record, content)
    if not isinstance(record, Claiming | Allocated | Joining):
        raise corrupt(path, f"a {type(record).__name__} stands where the identity belongs")
    return record


def stored_applied(database: sqlite3.Connection, path: Path, version: int) -> tuple[Applied, Revision]:
    """The applied row, verified, and the revision that was durable last. Format 1 has no `eager` and no
    `identity`."""
    columns = "revision, durable, lineage, digest, X'', X'', seal" if version == 1 else _APPLIED
    row = database.execute(f"SELECT {columns} FROM applied").fetchone()  # noqa: S608 one of two literals
    if row is None or tuple(type(column) for column in row) != (int, int, *(bytes,) * 5):
        raise corrupt(path, "its applied revision can't be read")
    revision, durable, lineage, digest, eager, identity, seal = row
    sealed = (lineage, digest, eager, identity)
    if revision < 0 or hashlib.sha256(b"".join((revision.to_bytes(8), *sealed))).digest() != seal:
        raise corrupt(path, "its applied revision does not match its checksum")
    applied = Applied(
        revision=Revision(revision),
        lineage=LineageHash(lineage),
        digest=int.from_bytes(digest),
        eager=int.from_bytes(eager),
        identity=identity,
    )
    return applied, Revision(min(durable, revision))


def migrate(database: sqlite3.Connection, path: Path) -> None:
    """From format 1, checked whole, to format 2 in one transaction of the caller's: after a crash it is the one or the
    other."""
    held, durable = stored_applied(database, path, 1)
    whole = eager = 0

    def hashed(key: object, value: object) -> bytes:
        nonlocal whole, eager
        if not isinstance(key, bytes) or not isinstance(value, bytes):
            raise TypeError("a key and a value are bytes")
        found = item_digest(key, value)
        whole ^= found
        eager ^= 0 if on_demand(key) else found
        return digest_bytes(found)

    database.create_function("item_hash", 2, hashed)
    database.execute("ALTER TABLE projection RENAME TO old_projection")
    database.execute("DROP TABLE applied")
    for statement in _TABLES:
        database.execute(statement)
    database.execute("INSERT INTO projection SELECT key, value, item_hash(key, value) FROM old_projection ORDER BY key")
    database.execute("DROP TABLE old_projection")
    if whole != held.digest:
        raise corrupt(path, "the projection does not match its checksum")
    hashes = {table: content_hash(table, read_content(database, path, table, 1)) for table in _SINGLE}
    for table, hashed_anew in hashes.items():
        database.execute(f"UPDATE {table} SET sha256 = ?", (hashed_anew,))  # noqa: S608 literals
    revision, *rest = msgspec.structs.replace(held, eager=eager, identity=hashes["identity"]).row()
    database.execute("INSERT INTO applied VALUES (1, ?, ?, ?, ?, ?, ?, ?)", (revision, durable, *rest))
    database.execute(f"PRAGMA user_version = {VAULT_FORMAT_VERSION}")
    log.info("the vault %s is of format %d now, it was of format 1", path, VAULT_FORMAT_VERSION)
