"""What an oracle gets from a simulated log, its replicas, and the meta storages over them."""

from typing import NamedTuple

import msgspec

from leasehold.core.words import keys
from leasehold.core.words.operations import Txn, TxnResult
from leasehold.core.words.records import LogBody, LogEntry, LogPosition
from leasehold.ids import Revision, Term
from leasehold.testing.metastorage import MemoryStore


class LogState(NamedTuple):
    """What a store holds after an entry."""

    position: LogPosition
    digest: int
    lineage: bytes
    minimum: Revision

    @classmethod
    def of(cls, position: LogPosition, store: MemoryStore) -> "LogState":
        lineage = store.get(keys.LINEAGE, None)
        return cls(position, store.digest, b"" if lineage is None else lineage.value, store.minimum)


class EntryAppended(msgspec.Struct, frozen=True, kw_only=True):
    """An entry at the instant at which it was appended."""

    entry: LogEntry
    body: LogBody
    newest_term: Term
    """The newest one that had begun by then."""
    follows: bool
    """Whether it is the one that comes after all before it."""
    state: LogState
    """After it, of a store that applies each entry."""


class ReplicaMoved(msgspec.Struct, frozen=True, kw_only=True):
    """A coordinator's replica has applied an entry."""

    name: str
    state: LogState


class LeftUnknown(msgspec.Struct, frozen=True, kw_only=True):
    """A coordinator's meta storage told that it does not know what became of a transaction, while it leads."""

    name: str


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """A coordinator's meta storage told what became of a transaction."""

    name: str
    txn: Txn
    result: TxnResult
