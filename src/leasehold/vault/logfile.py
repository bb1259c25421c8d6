"""The write-ahead log beside a vault, as SQLite lays it out: how much of it can be read.

A header of 32 bytes, then frames of 24 bytes and one page each. SQLite takes a log up to its last whole transaction and
says nothing of the rest, which is right after a crash and hides damage. A frame of this log carries the two salts of
the header; those of an earlier one, which may lie behind, have other salts.
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
    """What of the log is not read, None if it is read to its end. `database` has a copy of the file and its log, and
    nothing else to do: this moves the log into that copy."""
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
    """While a vault is closed: whoever closes the file last moves its log into it. Of one that is damaged nothing
    changes: a reader, who can't do that, is the last one there."""
    if not damaged:
        yield
        return
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as reader:
        with suppress(*SQLITE_ERRORS):
            reader.execute("SELECT 1 FROM sqlite_schema").fetchone()
        yield
