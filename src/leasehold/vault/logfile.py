"""The write-ahead log beside a vault: how much of it SQLite can read.

A log is a header of 32 bytes, then frames of 24 bytes and one page each. SQLite reads it up to its last whole
transaction and ignores the rest, which is right after a crash but hides damage. A frame of this log carries the two
salts of the header. Frames of an earlier log may follow; they have other salts.
"""

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from struct import Struct
from typing import Final

from leasehold.vault.causes import SQLITE_ERRORS

_HEADER: Final = Struct(">IIIIIIII")
_FRAME: Final = Struct(">IIIIII")
_MAGIC: Final = (0x377F0682, 0x377F0683)


def ends_early(database: sqlite3.Connection, log: Path) -> str | None:
    """The part of the log that is not read, None if it is read to its end. `database` is a copy of the file and its
    log; this moves the log into that copy."""
    (_busy, read, _moved) = database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    with log.open("rb") as file:
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return "it ends in its header"
        magic, _version, page_bytes, _number, *salts = _HEADER.unpack(header)[:6]
        if magic not in _MAGIC or not page_bytes:
            return "its header can't be read"
        frame_bytes = _FRAME.size + page_bytes
        frames, rest = divmod(log.stat().st_size - _HEADER.size, frame_bytes)
        if read < frames:
            file.seek(_HEADER.size + read * frame_bytes)
            if _FRAME.unpack(file.read(_FRAME.size))[2:4] == tuple(salts):
                return f"{read} of its {frames} pages are read"
            return None if read else "none of its pages is read"
    return f"it ends in its page {frames + 1}" if rest else None


@contextmanager
def log_kept(path: Path, *, damaged: bool) -> Generator[None]:
    """Around the closing of a vault. The last connection to close moves the log into the file. A damaged vault must not
    change, so there a connection that can only read is the last one."""
    if not damaged:
        yield
        return
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as reader:
        with suppress(*SQLITE_ERRORS):
            reader.execute("SELECT 1 FROM sqlite_schema").fetchone()
        yield
