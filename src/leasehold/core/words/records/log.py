"""What the engine under a replicated log stores: entries, their head, checkpoints (`core.log`)."""

import msgspec

from leasehold.core.words.operations import Change
from leasehold.core.words.records.base import Record
from leasehold.ids import ChainHash, ClusterId, EntryId, Revision, Term


class LogPosition(Record, frozen=True, kw_only=True, tag="log-position/1"):
    """After which entry something stands: the head of the log, a replica, a checkpoint. Number 0 is the beginning."""

    number: int
    id: EntryId
    chain: ChainHash
    """Of this entry and all before it (`core.log.entry.next_chain`)."""
    revision: Revision
    """The newest one of the log up to here."""
    log_bytes: int
    """Of the bodies of all entries up to here, since the log was made."""


class LogTransaction(msgspec.Struct, frozen=True, gc=False):
    """What one transaction changes, in key order."""

    revision: Revision
    changes: tuple[Change, ...]


class LogBody(Record, frozen=True, kw_only=True, tag="log-body/1"):
    """What one entry does to a replica: first the transactions, in order, then the compaction."""

    transactions: tuple[LogTransaction, ...] = ()
    minimum: Revision | None = None
    """MM from here on."""


class LogEntry(Record, frozen=True, kw_only=True, tag="log-entry/1"):
    """One append. Its body is here, or in parts, which were written before it."""

    number: int
    id: EntryId
    term: Term
    before: ChainHash
    """The chain of the entry before."""
    body_hash: bytes
    """SHA-256 of the whole body."""
    revision: Revision
    """The newest one of the log up to this entry."""
    log_bytes: int
    """Of the bodies up to this one, since the log was made."""
    body: bytes = b""
    """A `LogBody`, encoded; empty if it lies in parts."""
    parts: int = 0


class StoredChunk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A chunk of a checkpoint, by which it is found."""

    hash: bytes
    """SHA-256."""
    size_bytes: int


class LogCheckpoint(Record, frozen=True, kw_only=True, tag="log-checkpoint/1"):
    """The state at MM, from which a new replica begins; the log holds all entries after `position`."""

    position: LogPosition
    minimum: Revision
    """MM: what this holds is the state at this revision. The entry after `position` may hold it and some before it."""
    chunks: tuple[StoredChunk, ...]
    """In order."""


class CheckpointRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One key as it stands at MM. A delete at MM itself is a row without a value."""

    key: bytes
    value: bytes | None
    created: Revision
    modified: Revision
    version: int


class CheckpointChunk(Record, frozen=True, kw_only=True, tag="checkpoint-chunk/1"):
    """Some rows of a checkpoint, in key order."""

    rows: tuple[CheckpointRow, ...]


class LogFormatRecord(Record, frozen=True, kw_only=True, tag="log-format/1"):
    """Marks a prefix as ours; written once, before anything else."""

    format_version: int
    log_id: EntryId
    """Drawn when the log is made: a replica of another log begins anew."""


class MetaMoveRecord(Record, frozen=True, kw_only=True, tag="meta-move/1"):
    """Marks a meta storage that goes on elsewhere: nobody leads on it any more. It takes the place of the head of a
    log."""

    id: EntryId
    """Of this move, and of the log that it makes."""
    to: str
    """The location of a shared store, or the directory of a coordinator with a file of its own."""
    is_finished: bool = False
    """Whether the new place can be led. If not, the move has to be run again."""
    position: LogPosition | None = None
    """The head of the log that was moved; None for a file."""


class LogFillingRecord(Record, frozen=True, kw_only=True, tag="log-filling/1"):
    """In place of the head of a log that a move is filling: no coordinator may use it yet."""

    cluster_id: ClusterId
    """Of the cluster that moves here."""
    run: EntryId
    """Drawn by each try, which so knows its own."""
