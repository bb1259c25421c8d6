"""A store that takes a restored state as the checkpoint of a new log.

The chunks are written first. Then one swap, which succeeds only if there is no log, makes them one: with its head, its
leader record, and the entry that begins the next generation. A crash before that leaves chunks that nothing names. They
are not deleted here, since another restore may have written them; the first checkpoint of the log deletes them.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

from leasehold.core.log.entry import draft, made_position
from leasehold.core.log.space import Room, room_of
from leasehold.core.words.records import (
    CheckpointChunk,
    CheckpointRow,
    LogBody,
    LogCheckpoint,
    LogTransaction,
    StoredChunk,
)
from leasehold.ids import EntryId, Revision
from leasehold.limits.clients import CLIENT_PATIENCE_NS
from leasehold.metastorage.log.log import Log
from leasehold.metastorage.log.patience import PatientClient
from leasehold.metastorage.log.store import StoreFull, StoreSize
from leasehold.metastorage.restore_target import MetaStorageExists, RestoredState
from leasehold.wire.ports import Clock, Entropy


class LogTarget(PatientClient):
    """Implements `RestoreTarget`. Each request is asked again for `patience_ns`; then it raises `Unreachable`."""

    def __init__(self, shared: Log, clock: Clock, entropy: Entropy, *, patience_ns: int = CLIENT_PATIENCE_NS) -> None:
        super().__init__(clock, patience_ns)
        self._log: Final = shared
        self._entropy = entropy

    async def check(self, size_bytes: int) -> None:
        if not await self.surely(self._log.is_empty):
            raise log_exists()
        check_room(await self.surely(self._log.store.size), size_bytes)

    async def write(self, state: RestoredState, pages: Iterable[tuple[CheckpointRow, ...]]) -> None:
        position = made_position(EntryId(self._entropy.hex_128()), state.revision)
        chunks: list[StoredChunk] = []
        for rows in pages:
            chunk = CheckpointChunk(rows=rows)
            chunks.append(await self.surely(partial(self._log.write_chunk, position, chunk)))
        checkpoint = LogCheckpoint(position=position, minimum=state.revision, chunks=tuple(chunks))
        first = None
        if state.changes:
            changes = tuple(sorted(state.changes, key=lambda change: change.key))
            body = LogBody(transactions=(LogTransaction(Revision(state.revision + 1), changes),))
            first = draft(position, EntryId(self._entropy.hex_128()), state.leader.term, body)
        log_id = EntryId(self._entropy.hex_128())
        if not await self.surely(lambda: self._log.begin(log_id, checkpoint, state.leader, first)):
            raise log_exists()


def check_room(size: StoreSize, size_bytes: int) -> None:
    """Raises `StoreFull` if a new log of about so many bytes would leave its leader no room."""
    used_bytes = size.used_bytes + size_bytes
    if room_of(used_bytes=used_bytes, quota_bytes=size.quota_bytes, is_full=size.is_full) is Room.NEARLY_FULL:
        raise StoreFull(
            f"the store holds {size.used_bytes} of {size.quota_bytes} bytes, and {size_bytes} are to be added",
            hint="make room in the store, or raise its quota",
        )


def log_exists() -> MetaStorageExists:
    return MetaStorageExists(
        "the store holds a log of that name already",
        hint="choose another name in --meta; if that log is not needed, stop its coordinators and delete its keys",
    )
