"""What a leader does for the store that keeps the log: checkpoints, trimming, orphans, its quota (`core.log.space`).

A checkpoint is the state at MM, written in chunks, then swapped in under the fence of the term; only then is the log
below it deleted. A crash, a lost request or another term at any step leaves the old checkpoint and the whole log, or
the new one. Compactions wait meanwhile, so that the state stays readable. After each chunk the leader rests for as long
as the chunk took, so appends beside it take at most about twice as long.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Final, NoReturn, TypeVar

from leasehold.core.log.entry import BEGINNING
from leasehold.core.log.space import Room, checkpoint_fits, is_checkpoint_due, room_of
from leasehold.core.words.codec import encode
from leasehold.core.words.records import CheckpointChunk, LogCheckpoint, LogPosition
from leasehold.errors import Corrupt, Definite, Indefinite
from leasehold.ids import Revision, Term
from leasehold.limits.log import CHECKPOINT_LOG_BYTES_MIN, CHECKPOINT_SCARCE_PART, LOG_UPKEEP_NS
from leasehold.metastorage.log.log import Log, LogFence, StoredCheckpoint
from leasehold.metastorage.log.patience import until_answered
from leasehold.metastorage.log.replica import Replica
from leasehold.metastorage.log.store import StoreSize
from leasehold.wire.ports import Clock

log = logging.getLogger(__name__)

T = TypeVar("T")
_UNKNOWN: Final = StoreSize(used_bytes=0, quota_bytes=None, is_full=False)
_SAID: Final = {
    Room.AMPLE: "the store of the log has room again: %s of %s bytes are used",
    Room.SCARCE: "the store of the log fills up: %s of %s bytes are used, the log is trimmed now",
    Room.NEARLY_FULL: (
        "the store of the log is nearly full: %s of %s bytes are used, so what needs more is refused;"
        " drop tables, shorten retention, or raise the quota of the store"
    ),
}


class Upkeep:
    """Of one coordinator; works while it leads. `turn` is held while an append is under way. `log_bytes_min` may be
    exchanged at any time."""

    def __init__(
        self,
        shared: Log,
        turn: asyncio.Lock,
        clock: Clock,
        *,
        fence: Callable[[], LogFence | None],
        replica: Callable[[], Replica],
    ) -> None:
        self.log_bytes_min = CHECKPOINT_LOG_BYTES_MIN
        self.room = Room.AMPLE
        self.warnings: tuple[str, ...] = ()
        """What is wrong with members of the store, a sentence each."""
        self.reading: Final = asyncio.Lock()
        """Held while the state at MM is read: a compaction waits for it."""
        self._log = shared
        self._turn = turn
        self._clock = clock
        self._fence = fence
        self._replica = replica
        self._term = Term(0)
        self._tidied = BEGINNING.number
        """In this term, all parts of entries up to this one have been looked at."""
        self._trimmed: StoredCheckpoint | None = None
        """The newest checkpoint, if it is known, and that the log is trimmed below it."""
        self._measured, self._measured_bytes = BEGINNING, 0
        """How many bytes the state had after some entry."""
        self._size = _UNKNOWN
        self._looked_ns = 0

    async def run(self) -> NoReturn:
        """A round each LOG_UPKEEP_NS. Raises `Corrupt`."""
        while True:
            await self._look_at_members()
            await self._clock.sleep_until(self._clock.now_ns() + LOG_UPKEEP_NS)
            fence = self._fence()
            if fence is None:
                self.room = Room.AMPLE
                continue
            try:
                await self.tidy(fence)
            except Corrupt:
                raise
            except (Definite, Indefinite) as error:
                log.warning("the log could not be tidied, which is tried again: %s", error)

    async def tidy(self, fence: LogFence) -> None:
        """One round."""
        if self._term != fence.term:
            self._term, self._tidied, self._trimmed = fence.term, BEGINNING.number, None
        await self._look()
        await self._delete_orphans(fence)
        await self._trim()
        await self._checkpoint(fence)

    async def _look_at_members(self) -> None:
        """Notes what is wrong with them. Every coordinator does, so that each one that begins to lead knows it."""
        with contextlib.suppress(Definite, Indefinite):
            found = tuple(one.warning for one in await self._log.store.members() if one.warning)
            for warning in found:
                if warning not in self.warnings:
                    log.warning("%s", warning)
            self.warnings = found

    # ------------------------------------------------------------ the quota

    async def _look(self) -> None:
        """Notes how full the store is."""
        self._size = size = await self._log.store.size()
        self._looked_ns = self._clock.now_ns()
        before = self.room
        self.room = room_of(used_bytes=size.used_bytes, quota_bytes=size.quota_bytes, is_full=size.is_full)
        if self.room is not before:
            level = logging.INFO if self.room is Room.AMPLE else logging.WARNING
            log.log(level, _SAID[self.room], size.used_bytes, size.quota_bytes)
        if self.room is not Room.AMPLE:
            await self._log.store.free_history()

    # ------------------------------------------------------------ checkpoints

    async def _checkpoint(self, fence: LogFence) -> None:
        """Writes one if it is due."""
        last = self._trimmed
        after = BEGINNING if last is None else last.checkpoint.position
        last_bytes = 0 if last is None else _bytes_of(last.checkpoint)

        def is_due(upto: LogPosition) -> bool:
            return is_checkpoint_due(
                below_bytes=upto.log_bytes - after.log_bytes,
                last_bytes=last_bytes,
                room=self.room,
                log_bytes_min=self.log_bytes_min,
            )

        replica = self._replica()
        head = replica.position
        if not is_due(head):
            return
        async with self.reading:
            minimum = (await replica.status()).minimum
            position = await self._log.last_until(minimum, after, head)
            if not is_due(position) or not await self._fits(replica, position, minimum):
                return
            async with contextlib.aclosing(self._paced(replica, minimum)) as states:
                written = [await self._surely(partial(self._log.write_chunk, position, one)) async for one in states]
        checkpoint = LogCheckpoint(position=position, minimum=minimum, chunks=tuple(written))
        if await self._surely(lambda: self._swapped(checkpoint, last, fence)):
            log.info("wrote a checkpoint of revision %d, after entry %d of the log", minimum, position.number)
            await self._trim()

    async def _fits(self, replica: Replica, position: LogPosition, minimum: Revision) -> bool:
        """Whether the state at MM has space beside the last checkpoint. It has at most the bytes that it had when it
        was measured last, and those of the log since; where that is too much, it is measured."""

        def fits() -> bool:
            return checkpoint_fits(
                bytes_max=self._measured_bytes + position.log_bytes - self._measured.log_bytes,
                used_bytes=self._size.used_bytes,
                quota_bytes=self._size.quota_bytes,
            )

        grown_bytes = position.log_bytes - self._measured.log_bytes
        if not fits() and grown_bytes > self._measured_bytes // CHECKPOINT_SCARCE_PART:
            async with contextlib.aclosing(self._paced(replica, minimum)) as states:
                sizes = [len(encode(one)) async for one in states]
            self._measured, self._measured_bytes = position, sum(sizes)
        return fits()

    async def _paced(self, replica: Replica, minimum: Revision) -> AsyncGenerator[CheckpointChunk, None]:
        """The state at MM, with a rest after each chunk."""
        async with contextlib.aclosing(replica.chunks(minimum)) as chunks:
            began_ns = self._clock.now_ns()
            async for chunk in chunks:
                yield chunk
                now_ns = self._clock.now_ns()
                await self._clock.sleep_until(now_ns + (now_ns - began_ns))
                if now_ns - self._looked_ns >= LOG_UPKEEP_NS:
                    await self._look()
                began_ns = self._clock.now_ns()

    async def _swapped(self, checkpoint: LogCheckpoint, last: StoredCheckpoint | None, fence: LogFence) -> bool:
        """Whether the checkpoint is the newest; False once another term has begun."""
        if await self._log.swap_checkpoint(checkpoint, last, fence) is not None:
            return True
        newest = await self._log.checkpoint()  # an earlier try may have happened
        return newest is not None and newest.checkpoint == checkpoint

    async def _trim(self) -> None:
        """Trims the log below the newest checkpoint. The leader that wrote it may have ended before it did."""
        newest = await self._log.checkpoint()
        if newest is not None and newest != self._trimmed:
            await self._log.trim(newest.checkpoint)
            self._measured, self._measured_bytes = newest.checkpoint.position, _bytes_of(newest.checkpoint)
        self._trimmed = newest

    async def _delete_orphans(self, fence: LogFence) -> None:
        """A late request of an earlier leader may leave parts behind that no entry names."""
        async with self._turn:
            if self._fence() != fence:
                return  # an append of the term that has ended may still happen, and needs its parts
            # Not the position of the replica, which may lack an entry that is in the log.
            number = (await self._log.head()).position.number
            await self._log.delete_orphans(fence, number + 1)
        # Appends go on meanwhile: none has one of these numbers any more.
        await self._log.delete_orphans(fence, self._tidied + 1, number + 1)
        self._tidied = number

    async def _surely(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Asks until there is an answer. Raises `Indefinite` once the leadership has ended."""
        return await until_answered(ask, lasts=lambda: self._fence() is not None, clock=self._clock)


def _bytes_of(checkpoint: LogCheckpoint) -> int:
    return sum(one.size_bytes for one in checkpoint.chunks)
