"""The rows of the projection: written, read and checked, each with its hash; inside the caller's transaction."""

import sqlite3
from collections.abc import Iterable, Iterator
from functools import reduce
from hashlib import sha256
from itertools import islice
from operator import xor
from pathlib import Path
from struct import Struct
from typing import Final

import msgspec

from leasehold.core.catalog.shelf import REPLACED, SEGMENTS
from leasehold.core.words.digest import item_digest
from leasehold.core.words.operations import Change
from leasehold.limits.vault import VAULT_SCRUB_ROWS
from leasehold.vault.causes import corrupt
from leasehold.vault.format import AppliedMark

_SELECT: Final = "SELECT key, value, hash FROM projection "
_DELETE: Final = "DELETE FROM projection WHERE key = ? RETURNING hash"
_PUT: Final = """
INSERT INTO projection VALUES (?, ?, ?) ON CONFLICT DO UPDATE
SET value = excluded.value, hash = displaced(key, hash, excluded.hash)
"""
_ON_DEMAND: Final = (SEGMENTS.prefix, REPLACED.prefix)
_length: Final = Struct(">I").pack

assert REPLACED.prefix < SEGMENTS.prefix
_EAGER: Final = (
    ("WHERE key < ? ORDER BY key", (REPLACED.prefix,)),
    ("WHERE key >= ? AND key < ? ORDER BY key", (REPLACED.prefix[:-1] + b"0", SEGMENTS.prefix)),
    ("WHERE key >= ? ORDER BY key", (SEGMENTS.prefix[:-1] + b"0",)),
)
"""The ranges around what is read on demand: `0` is what follows `/`."""


class Scrub(msgspec.Struct):
    """The progress of a check in the background: the digest of the items up to `last`, kept up to date by `put`."""

    last: bytes | None = None
    digest: int = 0


def put(
    database: sqlite3.Connection, applied: AppliedMark, changes: dict[bytes, bytes | None], scrub: Scrub
) -> AppliedMark:
    """Writes these changes in key order, so that pages are touched once; answers `applied` with the digests after them.
    Rows are not read first: SQLite calls `displaced` with the hash that a row had, if there was a row."""
    ordered = sorted(changes.items())
    puts = [
        (key, value, sha256(b"".join((_length(len(key)), key, value))).digest())
        for key, value in ordered
        if value is not None
    ]
    moved = [(key, hashed) for key, _, hashed in puts]

    def displaced(key: bytes, before: object, after: bytes) -> bytes:
        if not isinstance(before, bytes):
            raise sqlite3.DatabaseError(f"the hash of {key!r} can't be read")
        moved.append((key, before))
        return after

    for key, value in ordered:
        if value is None:
            for (before,) in database.execute(_DELETE, (key,)).fetchall():
                displaced(key, before, b"")
    database.create_function("displaced", 3, displaced)
    database.executemany(_PUT, puts)
    if scrub.last is not None:
        scrub.digest ^= _xor(hashed for key, hashed in moved if key <= scrub.last)
    return msgspec.structs.replace(
        applied,
        digest=applied.digest ^ _xor(hashed for _, hashed in moved),
        eager=applied.eager ^ _xor(hashed for key, hashed in moved if not key.startswith(_ON_DEMAND)),
    )


def _xor(hashes: Iterable[bytes]) -> int:
    return reduce(xor, map(int.from_bytes, hashes), 0)


def verified(rows: Iterable[tuple[object, object, object]], path: Path) -> Iterator[tuple[bytes, bytes, int]]:
    """Keys, values and item digests. Raises `Corrupt` where a row does not match its hash."""
    for key, value, hashed in rows:
        if not isinstance(key, bytes) or not isinstance(value, bytes):
            raise corrupt(path, "an item of the projection can't be read")
        counted = item_digest(key, value)
        if not isinstance(hashed, bytes) or int.from_bytes(hashed) != counted:
            raise corrupt(path, f"the item {key!r} does not match its checksum")
        yield key, value, counted


def read_each(database: sqlite3.Connection, path: Path, applied: AppliedMark) -> Iterator[Change]:
    """Every item in key order, verified one by one, and at the end as a whole."""
    return _read(database, path, (("ORDER BY key", ()),), applied.digest)


def read_all(database: sqlite3.Connection, path: Path, applied: AppliedMark) -> tuple[Change, ...]:
    """As `read_each`, all at once."""
    return tuple(read_each(database, path, applied))


def read_eager(database: sqlite3.Connection, path: Path, applied: AppliedMark) -> tuple[Change, ...]:
    """The items that every start reads, verified likewise."""
    return tuple(_read(database, path, _EAGER, applied.eager))


def _read(
    database: sqlite3.Connection, path: Path, ranges: Iterable[tuple[str, tuple[bytes, ...]]], expected: int
) -> Iterator[Change]:
    digest = 0
    for where, bounds in ranges:
        for key, value, counted in verified(database.execute(_SELECT + where, bounds), path):
            yield Change(key, value)
            digest ^= counted
    if digest != expected:
        raise corrupt(path, "the projection does not match its checksum")


def check_all(database: sqlite3.Connection, path: Path, applied: AppliedMark) -> None:
    """As `read_all`, without keeping anything."""
    scrub = Scrub()
    while not check_some(database, path, applied, scrub, VAULT_SCRUB_ROWS):
        pass


def check_some(database: sqlite3.Connection, path: Path, applied: AppliedMark, scrub: Scrub, rows_max: int) -> bool:
    """Checks the next `rows_max` items; True at the end, once the whole has been compared."""
    where, bounds = ("ORDER BY key", ()) if scrub.last is None else ("WHERE key > ? ORDER BY key", (scrub.last,))
    rows = database.execute(_SELECT + where, bounds)
    count = 0
    for key, _value, counted in verified(islice(rows, rows_max), path):
        scrub.digest ^= counted
        scrub.last = key
        count += 1
    rows.close()
    if count == rows_max:
        return False
    if scrub.digest != applied.digest:
        raise corrupt(path, "the projection does not match its checksum")
    scrub.last, scrub.digest = None, 0
    return True
