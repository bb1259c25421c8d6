"""The port of a replica: a coordinator's copy of the meta storage, filled from the log.

What it holds is never ahead of the log, and lost commits at its end do no harm: they are read from the log again. So it
needs no sync to disk.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Protocol

from leasehold.core.words.operations import KeyValue, Page, RevisionChanges, Txn
from leasehold.core.words.records import CheckpointChunk, LogBody, LogCheckpoint, LogPosition
from leasehold.ids import EntryId, Revision, Term
from leasehold.metastorage.contract import StorageStatus
from leasehold.metastorage.transaction import TransactionDraft


class Replica(Protocol):
    """An open replica. One caller at a time drafts and applies; reads may run beside it."""

    log_id: EntryId
    """The log that it is a copy of."""
    position: LogPosition
    """The last entry that was applied."""

    async def draft(self, txns: Sequence[Txn], term: Term) -> TransactionDraft:
        """Decides transactions, one on the other, in `term`; changes nothing."""
        ...

    async def apply(self, position: LogPosition, bodies: Sequence[LogBody]) -> None:
        """Does what the next entries say, all or nothing, and tells the watches. `position` is the one after them."""
        ...

    def chunks(self, minimum: Revision) -> AsyncGenerator[CheckpointChunk, None]:
        """The state at `minimum`, which is at or above MM, for a checkpoint."""
        ...

    async def get(self, key: bytes, revision: Revision | None = None) -> KeyValue | None: ...

    async def range(self, start: bytes, end: bytes, *, revision: Revision | None = None, limit: int) -> Page: ...

    def watch(self, start: bytes, end: bytes, from_revision: Revision) -> AsyncGenerator[RevisionChanges, None]: ...

    async def status(self) -> StorageStatus: ...

    async def close(self) -> None: ...


class ReplicaPlace(Protocol):
    """Where a coordinator keeps its replica."""

    async def open(self) -> Replica | None:
        """The replica that is there, None if there is none or it is damaged. Raises `BadDirectory` if the place holds
        something else."""
        ...

    async def build(
        self, log_id: EntryId, checkpoint: LogCheckpoint | None, chunks: AsyncIterator[CheckpointChunk]
    ) -> Replica:
        """A new replica from a checkpoint, or an empty one, in place of whatever is there. Until it is whole, the old
        one stays."""
        ...
