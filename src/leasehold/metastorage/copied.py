"""The meta storage in a coordinator's directory, read while no coordinator runs there; the directory never changes.

The lock is taken, not written. The file and its log are copied to a temporary directory, since SQLite would write
beside them. All of the copy is checked when it is opened.
"""

import os
import shutil
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from leasehold.durable import NO_SPACE, no_room
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, Corrupt
from leasehold.metastorage.causes import result_code
from leasehold.metastorage.database import ALL_CHECKED, Database
from leasehold.metastorage.file_move import MovableDatabase
from leasehold.metastorage.lock import unused
from leasehold.metastorage.log.sqlite_replica import ReplicaDatabase
from leasehold.metastorage.schema import REPLICA_APPLICATION_ID
from leasehold.metastorage.sqlite import FILE_NAME, SqliteMetaStorage

_FULL: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})
"""What SQLite says of a copy that was just written, and finds no room for its log or the index of that."""


@asynccontextmanager
async def opened_copy(directory: Path) -> AsyncGenerator[SqliteMetaStorage]:
    """The meta storage in `directory`, also one that was moved, or the replica of a log there. Raises `BadDirectory`,
    code LOCKED while a coordinator runs there, and `Corrupt`."""
    path = directory / FILE_NAME
    with unused(path), TemporaryDirectory(prefix="leasehold-meta-") as scratch:
        copy = Path(scratch) / FILE_NAME
        _copy(path, copy)
        try:
            storage = await SqliteMetaStorage.open(copy, limits=ALL_CHECKED, kind=_kind(path, copy))
            try:
                yield storage
            finally:
                await storage.close()
        except BadDirectory as error:
            text = error.text.replace(str(copy), str(path))
            raise type(error)(text, code=error.code, hint=error.hint) from error


def _copy(path: Path, copy: Path) -> None:
    if not os.path.lexists(path):
        raise Corrupt(
            f"{path} is damaged: its log exists, but the file does not", hint="name another directory or backup"
        )
    try:
        # SQLite keeps the log beside the file that a link points to.
        file = path.resolve()
        log = file.with_name(f"{file.name}-wal")
        shutil.copyfile(file, copy)
        if log.exists():
            shutil.copyfile(log, copy.with_name(f"{copy.name}-wal"))
    except OSError as error:
        if error.errno in NO_SPACE:
            raise no_room(path) from error
        raise BadDirectory(
            f"{path} can't be read: {error.strerror}",
            code=ErrorCode.NO_ACCESS,
            hint="check its owner and mode, and the disk",
        ) from error


def _kind(path: Path, copy: Path) -> type[Database]:
    try:
        with closing(sqlite3.connect(copy)) as database:
            (application,) = database.execute("PRAGMA application_id").fetchone()
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if isinstance(error, sqlite3.Error) and result_code(error) in _FULL:
            raise no_room(path) from error
        raise Corrupt(f"{path} is damaged: {error}", hint="name another directory or backup") from error
    return ReplicaDatabase if application == REPLICA_APPLICATION_ID else MovableDatabase
