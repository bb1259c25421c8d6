"""A replica in memory; what its place keeps outlives the handles, as a file outlives its process."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import NamedTuple

from leasehold.core.log.entry import BEGINNING
from leasehold.core.words.operations import Txn
from leasehold.core.words.records import CheckpointChunk, CheckpointRow, LogBody, LogCheckpoint, LogPosition
from leasehold.ids import EntryId, Revision, Term
from leasehold.metastorage.contract import Compacted
from leasehold.metastorage.transaction import TransactionDraft
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore

CHUNK_ROWS = 7


class KeptReplica(NamedTuple):
    """What a file would hold."""

    log_id: EntryId
    position: LogPosition
    store: MemoryStore


class MemoryReplicaPlace:
    """Implements `ReplicaPlace`."""

    def __init__(self) -> None:
        self.kept: KeptReplica | None = None
        self.on_apply: Callable[[LogPosition, MemoryStore], None] | None = None
        """Called with each entry that was applied."""

    def backup(self) -> KeptReplica | None:
        """A copy of what is there, like a copy of the file."""
        return None if self.kept is None else self.kept._replace(store=self.kept.store.backup())

    async def open(self) -> "MemoryReplica | None":
        return None if self.kept is None else MemoryReplica(self, self.kept)

    async def build(
        self, log_id: EntryId, checkpoint: LogCheckpoint | None, chunks: AsyncIterator[CheckpointChunk]
    ) -> "MemoryReplica":
        rows: list[CheckpointRow] = []
        async for chunk in chunks:
            rows += chunk.rows
        if checkpoint is None:
            self.kept = KeptReplica(log_id, BEGINNING, MemoryStore())
        else:
            store = MemoryStore.of_rows(rows, checkpoint.minimum)
            self.kept = KeptReplica(log_id, checkpoint.position, store)
        return MemoryReplica(self, self.kept)


class MemoryReplica:
    """Implements `Replica`."""

    def __init__(self, place: MemoryReplicaPlace, kept: KeptReplica) -> None:
        self._place = place
        self._store = kept.store
        self.log_id = kept.log_id
        self.position = kept.position
        self._storage = MemoryMetaStorage(kept.store)
        self.get = self._storage.get
        self.range = self._storage.range
        self.watch = self._storage.watch
        self.status = self._storage.status
        self.close = self._storage.close

    async def draft(self, txns: Sequence[Txn], term: Term) -> TransactionDraft:
        return self._store.draft(txns, term)

    async def apply(self, position: LogPosition, bodies: Sequence[LogBody]) -> None:
        for body in bodies:
            self._store.apply(body)
        self.position = position
        self._place.kept = KeptReplica(self.log_id, position, self._store)
        if self._place.on_apply is not None:
            self._place.on_apply(position, self._store)

    async def chunks(self, minimum: Revision) -> AsyncGenerator[CheckpointChunk, None]:
        if self._store.minimum > minimum:
            raise Compacted(self._store.minimum)
        rows = self._store.rows(minimum)
        for start in range(0, len(rows), CHUNK_ROWS):
            yield CheckpointChunk(rows=tuple(rows[start : start + CHUNK_ROWS]))
