"""A store that takes a restored state as the checkpoint of a new log.

The chunks are written first. Then one swap, which succeeds only if there is no log, makes them one: with its head, its
leader record, and the entry that begins the next generation. A crash before that leaves chunks that nothing names. They
are not deleted here, since another restore may have written them; the first checkpoint of the log deletes them.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final, TypeVar

from leasehold.core.log.entry import BEGINNING, draft
from leasehold.core.log.space import Room, room_of
from leasehold.core.words.records import (
    CheckpointChunk,
    CheckpointRow,
    LogBody,
    LogCheckpoint,
    LogPosition,
    LogTransaction,
    StoredChunk,
)
from leasehold.errors import Indefinite, Unreachable
from leasehold.ids import ChainHash, EntryId, Revision
from leasehold.limits.clients import CLIENT_PATIENCE_NS
from leasehold.metastorage.log.log import Log
from leasehold.metastorage.log.patience import until_answered
from leasehold.metastorage.log.store import StoreFull
from leasehold.metastorage.restore_target import MetaStorageExists, RestoredState
from leasehold.wire.ports import Clock, Entropy

T = TypeVar("T")


class LogTarget:
    """Implements `RestoreTarget`. Each request is asked again for `patience_ns`; then it raises `Unreachable`."""

    def __init__(self, shared: Log, clock: Clock, entropy: Entropy, *, patience_ns: int = CLIENT_PATIENCE_NS) -> None:
        self._log: Final = shared
        self._patience_ns = patience_ns
        self._clock = clock
        self._entropy = entropy

    async def check(self, size_bytes: int) -> None:
        if not await self.surely(self._log.is_empty):
            raise _exists()
        size = await self.surely(self._log.store.size)
        used_bytes = size.used_bytes + size_bytes
        if room_of(used_bytes=used_bytes, quota_bytes=size.quota_bytes, is_full=size.is_full) is Room.NEARLY_FULL:
            raise StoreFull(
                f"the store holds {size.used_bytes} of {size.quota_bytes} bytes, and the backup has {size_bytes}",
                hint="make room in the store, or raise its quota",
            )

    async def write(self, state: RestoredState, pages: Iterable[tuple[CheckpointRow, ...]]) -> None:
        entry_id = EntryId(self._entropy.hex_128())
        # As if one entry had made all of it, and had been trimmed.
        position = LogPosition(
            number=BEGINNING.number + 1,
            id=entry_id,
            chain=ChainHash(hashlib.sha256(entry_id.encode()).digest()),
            revision=state.revision,
            log_bytes=0,
        )
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
            raise _exists()

    async def surely(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer of the store to what is harmless to repeat. Raises `Unreachable`."""
        until_ns = self._clock.now_ns() + self._patience_ns
        try:
            return await until_answered(ask, lasts=lambda: self._clock.now_ns() < until_ns, clock=self._clock)
        except Indefinite as error:
            raise Unreachable(
                f"the store does not answer: {error.text}",
                hint="check the addresses in --meta, and that most members run; then run the command again",
            ) from error


def _exists() -> MetaStorageExists:
    return MetaStorageExists(
        "the store holds a log of that name already",
        hint="choose another name in --meta; if that log is not needed, stop its coordinators and delete its keys",
    )
