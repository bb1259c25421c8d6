"""Entries of the log: how they are made, and what follows a position.

Each entry names the chain hash of all entries before it. So a replica that has taken a wrong entry, or whose log was
set back and went another way, notices at the next one.
"""

import hashlib
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from leasehold.core.words.codec import decode_record, encode
from leasehold.core.words.records import LogBody, LogEntry, LogPosition
from leasehold.errors import Definite
from leasehold.ids import ChainHash, EntryId, Revision, Term

BEGINNING = LogPosition(number=0, id=EntryId("0" * 32), chain=ChainHash(bytes(32)), revision=Revision(0), log_bytes=0)
"""The position of an empty replica, and the head of an empty log."""

_numbers = Struct(">QQ")


class DoesNotFollow(Definite):
    """The entry is not the one that comes after this position."""


class DraftEntry(NamedTuple):
    """An entry that can be appended, and the position after it."""

    entry: LogEntry
    body: bytes
    """The whole body, which lies in parts if it is larger than `LOG_ENTRY_INLINE_BYTES_MAX`."""
    position: LogPosition


def next_chain(entry: LogEntry) -> ChainHash:
    """The hash of the entry and, by the hash that it names, of all before it."""
    numbers = _numbers.pack(entry.number, entry.term)
    return ChainHash(hashlib.sha256(entry.before + numbers + entry.id.encode() + entry.body_hash).digest())


def position_of(entry: LogEntry) -> LogPosition:
    """The position after an entry."""
    return LogPosition(
        number=entry.number,
        id=entry.id,
        chain=next_chain(entry),
        revision=entry.revision,
        log_bytes=entry.log_bytes,
    )


def made_position(entry_id: EntryId, revision: Revision) -> LogPosition:
    """Where a log begins that takes the state at `revision` from elsewhere: as if one entry had made all of it, and had
    been trimmed."""
    return LogPosition(
        number=BEGINNING.number + 1,
        id=entry_id,
        chain=ChainHash(hashlib.sha256(entry_id.encode()).digest()),
        revision=revision,
        log_bytes=0,
    )


def draft(after: LogPosition, entry_id: EntryId, term: Term, body: LogBody) -> DraftEntry:
    """The entry that does `body` after that position."""
    blob = encode(body)
    entry = LogEntry(
        number=after.number + 1,
        id=entry_id,
        term=term,
        before=after.chain,
        body_hash=hashlib.sha256(blob).digest(),
        revision=Revision(after.revision + len(body.transactions)),
        log_bytes=after.log_bytes + len(blob),
    )
    return DraftEntry(entry, blob, position_of(entry))


def follow(position: LogPosition, entry: LogEntry, blob: bytes) -> tuple[LogPosition, LogBody]:
    """The position after an entry, and what it does. `blob` is its whole body. Raises `DoesNotFollow`, `Corrupt`."""
    if entry.number != position.number + 1 or entry.before != position.chain:
        raise DoesNotFollow(
            f"entry {entry.number} of the log does not follow entry {position.number} of this replica",
            hint="the replica is built anew from the log",
        )
    if hashlib.sha256(blob).digest() != entry.body_hash:
        raise DoesNotFollow(
            f"entry {entry.number} of the log is damaged", hint="check the store that keeps the log, then restore it"
        )
    body = decode_record(LogBody, blob)
    revision, log_bytes = position.revision + len(body.transactions), position.log_bytes + len(blob)
    expected = list(range(position.revision + 1, revision + 1))
    if [one.revision for one in body.transactions] != expected or (entry.revision, entry.log_bytes) != (
        revision,
        log_bytes,
    ):
        raise DoesNotFollow(
            f"entry {entry.number} of the log does not go on from revision {position.revision}",
            hint="the replica is built anew from the log",
        )
    return position_of(entry), body


def parts_of(body: bytes, part_bytes: int) -> Sequence[bytes]:
    """The parts of a body, in order."""
    return [body[start : start + part_bytes] for start in range(0, len(body), part_bytes)]
