"""A copy of a vault that is open here: whole, in one synced file that only its owner can read."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from leasehold.durable import sync_file
from leasehold.errors import BadDirectory
from leasehold.vault.causes import SQLITE_ERRORS, explain
from leasehold.vault.format import FILE_NAME, OWNER_ONLY


def copy_vault(directory: Path, folder: Path) -> None:
    """Copies the vault of `directory`, its log too, to a vault in `folder`, where there is none. Raises `BadDirectory`
    for an error of SQLite, and `OSError`; the vault itself never changes.

    SQLite copies the pages: opening and closing its file in the same process would end the locks that it holds on it.
    """
    path, copy = directory / FILE_NAME, folder / FILE_NAME
    try:
        os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY))
        with (
            closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
        sync_file(copy)
    except SQLITE_ERRORS as error:
        found = explain(path, error)
        hint = "check the disk, its space and the permissions there, then run the same command again"
        raise BadDirectory(f"{found.text}; no copy of it was made", code=found.code, hint=hint) from error
