"""A move from or to a log in a store.

| the head of the log | who may use the log |
| --- | --- |
| a position | coordinators |
| `LogFillingRecord`: a move is filling it | nobody but that move |
| `MetaMoveRecord`: it goes on elsewhere | nobody |

Each append compares the head, and a new leader reads it before it leads. So a log changes from one row to another in
one swap, for everybody.

A log is marked in a swap that compares the head and the leader record, after that record has stood unchanged for as
long as a challenger waits (`core.log.leadership`). So the last reign is over before the mark, and none has begun since.

A log that is filled has its format and such a head first, so that no coordinator makes an empty log there meanwhile.
Each write compares the version of that head: a second move, or a late request of an earlier one, changes nothing. The
head stays if the move fails: a store may give a key that is made again the versions of the one that was deleted.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec

from leasehold.core.log.entry import DoesNotFollow, draft, made_position
from leasehold.core.log.leadership import Standing
from leasehold.core.words.codec import decode_record, encode
from leasehold.core.words.operations import Change
from leasehold.core.words.records import (
    CheckpointChunk,
    CheckpointRow,
    LeaderRecord,
    LogBody,
    LogCheckpoint,
    LogFillingRecord,
    LogFormatRecord,
    LogPosition,
    LogTransaction,
    MetaMoveRecord,
    Record,
    StoredChunk,
)
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt, Indefinite, NotFound, Refused
from leasehold.ids import ClusterId, EntryId
from leasehold.limits.clients import CLIENT_PATIENCE_NS
from leasehold.limits.log import LOG_FORMAT_VERSION, STORE_SWAP_KEYS_MAX
from leasehold.metastorage.copyable import StoredContent
from leasehold.metastorage.log.bootstrap import Progress, apply_until, built, chunks_of
from leasehold.metastorage.log.head import position_in
from leasehold.metastorage.log.log import CHECKPOINT, ENTRIES, FORMAT, HEAD, LEADER, PARTS, TERM, Log, Trimmed
from leasehold.metastorage.log.patience import PatientClient
from leasehold.metastorage.log.replica import Replica
from leasehold.metastorage.log.restore_target import check_room, log_exists
from leasehold.metastorage.log.sqlite_replica import ReplicaDatabase, SqliteReplicaPlace
from leasehold.metastorage.log.store import MISSING, Swap
from leasehold.metastorage.log.unled import StillLed, still_led, unled
from leasehold.metastorage.move import MovePlan, MoveStage, TargetState
from leasehold.metastorage.restore_target import MetaStorageExists
from leasehold.metastorage.sqlite import FILE_NAME, SqliteMetaStorage
from leasehold.wire.ports import Clock, Entropy


class LogSource(PatientClient):
    """Implements `MoveSource`. It builds a replica in the directory `scratch`."""

    def __init__(
        self, shared: Log, where: str, scratch: Path, clock: Clock, *, patience_ns: int = CLIENT_PATIENCE_NS
    ) -> None:
        super().__init__(clock, patience_ns)
        self.where: Final = f"the log at {where}"
        self.id: EntryId | None = None
        self._log: Final = shared
        self._place = where
        self._scratch = scratch
        self._head: tuple[LogPosition, int] | None = None
        """The position of the log, and the version of its head."""
        self._standing: Standing | None = None
        self._opened: SqliteMetaStorage | None = None

    async def claim(self) -> MetaMoveRecord | None:
        self.id = await self.surely(self._log.log_id)
        found = await self.surely(lambda: self._log.store.get(HEAD))
        if found is None or self.id is None:
            raise NotFound(
                f"there is no log at {self._place}",
                code=ErrorCode.NO_META_STORAGE,
                hint="check the name of the cluster in --meta",
            )
        move = decode_record(Record, found.value)
        if isinstance(move, MetaMoveRecord):
            assert move.position is not None, "it is the mark of a log"
            self._head = move.position, found.version
            self._standing = await self.surely(self._log.leader)
            return move
        self._head = position_in(found.value), found.version
        self._standing = await unled(self._log, self)
        return None

    async def read(self) -> SqliteMetaStorage:
        if self._opened is None:
            assert self.id is not None
            replica = await self.surely(
                partial(built, self._log, SqliteReplicaPlace(self._scratch), self.clock, self.id)
            )
            position, _ = self._claimed()
            try:
                self._opened = await read_until(self, self._log, replica, position, self._scratch)
            except (DoesNotFollow, Trimmed) as error:
                if await self.surely(self._log.leader) != self._standing:
                    raise await self._led() from error
                raise Corrupt(
                    f"the log is damaged: {error.text}", hint="restore the store, or restore a backup"
                ) from error
        return self._opened

    async def leader(self) -> LeaderRecord | None:
        return None if self._standing is None else self._standing.record

    async def size_bytes(self) -> int:
        return (self._scratch / FILE_NAME).stat().st_size

    async def mark(self, move: MetaMoveRecord) -> None:
        position, version = self._claimed()
        move = msgspec.structs.replace(move, position=position)
        unchanged = {HEAD: version}
        if self._standing is not None and not move.is_finished:
            unchanged[LEADER] = self._standing.version
        swap = Swap(unchanged=unchanged, puts={HEAD: encode(move)})
        versions = await self.surely(lambda: self._log.store.swap(swap))
        if versions is not None:
            self._head = position, versions[HEAD]
            return
        found = await self.surely(lambda: self._log.store.get(HEAD))
        if found is None or found.value != swap.puts[HEAD]:  # else an earlier try has happened
            if found is not None:
                position_in(found.value)  # another move may have marked it
            raise await self._led()
        self._head = position, found.version

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    def _claimed(self) -> tuple[LogPosition, int]:
        assert self._head is not None, "it was claimed"
        return self._head

    async def _led(self) -> StillLed:
        return still_led(await self.surely(self._log.leader))


class LogMoveTarget(PatientClient):
    """Implements `MoveTarget`. It reads back what it wrote into the directory `scratch`."""

    def __init__(
        self,
        shared: Log,
        where: str,
        scratch: Path,
        clock: Clock,
        entropy: Entropy,
        *,
        patience_ns: int = CLIENT_PATIENCE_NS,
    ) -> None:
        super().__init__(clock, patience_ns)
        self.where: Final = where
        self._log: Final = shared
        self._scratch = scratch
        self._entropy = entropy

    async def look(self) -> TargetState:
        log_id = await self.surely(self._log.log_id)
        found = await self.surely(lambda: self._log.store.get(HEAD))
        record = None if found is None else decode_record(Record, found.value)
        if isinstance(record, LogFillingRecord):
            return TargetState(stage=MoveStage.FILLING, id=log_id, cluster_id=record.cluster_id)
        if await self.surely(self._log.is_empty):
            return TargetState(stage=MoveStage.EMPTY)
        return TargetState(stage=MoveStage.WHOLE, id=log_id)

    async def is_of(self, move: EntryId, cluster_id: ClusterId) -> bool:
        del cluster_id  # the id of the move is that of the log
        return await self.surely(self._log.log_id) == move

    async def take(
        self,
        plan: MovePlan,
        content: StoredContent,
        *,
        ready: Callable[[SqliteMetaStorage], Awaitable[None]],
        on_rows: Callable[[int], None],
    ) -> None:
        check_room(await self.surely(self._log.store.size), plan.size_bytes)
        version = await self._reserve(plan)
        checkpoint, position = await self._write(plan, content, version, on_rows)
        storage = await self._read_back(plan.id, checkpoint, position)
        try:
            await ready(storage)
        finally:
            await storage.close()
        leader = encode(plan.leader)
        puts = {HEAD: encode(position), CHECKPOINT: encode(checkpoint), LEADER: leader, TERM: leader}
        if await self.surely(lambda: self._log.store.swap(Swap(unchanged={HEAD: version}, puts=puts))) is None:
            head = await self.surely(lambda: self._log.store.get(HEAD))
            if head is None or head.value != puts[HEAD]:  # else an earlier try has happened
                raise _another()

    def taken(self) -> MetaStorageExists:
        return log_exists()

    async def _reserve(self, plan: MovePlan) -> int:
        """Makes the place one that only this move fills, without entries; answers the version of its head."""
        version = await self._put_filling(plan)
        if await self._delete_entries(version):
            # A deletion that happens late must not find the entries that are written from here on.
            version = await self._put_filling(plan)
        return version

    async def _put_filling(self, plan: MovePlan) -> int:
        filling = encode(LogFillingRecord(cluster_id=plan.cluster_id, run=EntryId(self._entropy.hex_128())))
        log_format = encode(LogFormatRecord(format_version=LOG_FORMAT_VERSION, log_id=plan.id))

        async def put() -> int | None:
            there = {key: await self._log.store.get(key) for key in (FORMAT, HEAD)}
            head = there[HEAD]
            if head is not None and head.value == filling:
                return head.version  # an earlier try has happened
            if head is not None and not isinstance(decode_record(Record, head.value), LogFillingRecord):
                return None
            if head is None and not await self._log.is_empty():
                return None
            unchanged = {key: MISSING if one is None else one.version for key, one in there.items()}
            versions = await self._log.store.swap(Swap(unchanged=unchanged, puts={FORMAT: log_format, HEAD: filling}))
            if versions is None:
                raise Indefinite("the log has changed, perhaps by an earlier try", hint="look again")
            return versions[HEAD]

        version = await self.surely(put)
        if version is None:
            raise self.taken()
        return version

    async def _delete_entries(self, version: int) -> bool:
        """Deletes all entries and their parts while the head has this version; whether there were any."""
        found = False
        for directory in (ENTRIES, PARTS):
            read = partial(self._log.store.page, directory, limit=STORE_SWAP_KEYS_MAX - 1)
            while page := await self.surely(read):
                found, names = True, tuple(f"{directory}/{name}" for name, _ in page)
                swap = Swap(unchanged={HEAD: version}, deletes=names)
                if await self.surely(partial(self._log.store.swap, swap)) is None:
                    raise _another()
        return found

    async def _write(
        self, plan: MovePlan, content: StoredContent, version: int, on_rows: Callable[[int], None]
    ) -> tuple[LogCheckpoint, LogPosition]:
        """Writes the state as chunks, and the revisions after it as entries."""
        position = made_position(EntryId(self._entropy.hex_128()), content.minimum)
        chunks, written = list[StoredChunk](), 0
        async for rows in content.state():
            chunk = CheckpointChunk(rows=rows)
            chunks.append(await self.surely(partial(self._log.write_chunk, position, chunk)))
            on_rows(written := written + len(rows))
        checkpoint = LogCheckpoint(position=position, minimum=content.minimum, chunks=tuple(chunks))
        async for rows in content.history():
            body = LogBody(transactions=_transactions(rows))
            entry = draft(position, EntryId(self._entropy.hex_128()), plan.leader.term, body)
            if not await self.surely(partial(self._log.fill, entry, version)):
                raise _another()
            position = entry.position
            on_rows(written := written + len(rows))
        return checkpoint, position

    async def _read_back(self, log_id: EntryId, checkpoint: LogCheckpoint, head: LogPosition) -> SqliteMetaStorage:
        place = SqliteReplicaPlace(self._scratch)
        replica = await self.surely(
            lambda: place.build(log_id, checkpoint, chunks_of(self._log, checkpoint, self.clock))
        )
        try:
            return await read_until(self, self._log, replica, head, self._scratch)
        except (DoesNotFollow, Trimmed) as error:
            raise Corrupt(
                f"what was written to the store can't be read: {error.text}",
                hint="check the store, then run the command again",
            ) from error


async def read_until(
    client: PatientClient, shared: Log, replica: Replica, head: LogPosition, directory: Path
) -> SqliteMetaStorage:
    """Brings a new replica in `directory` to `head`, and opens its file. Raises `DoesNotFollow` and `Trimmed`."""
    progress = Progress(client.clock, "entries of the log that were read")
    try:
        await client.surely(lambda: apply_until(shared, replica, head, progress))
    finally:
        await replica.close()
    return await SqliteMetaStorage.open(directory / FILE_NAME, kind=ReplicaDatabase)


def _transactions(rows: tuple[CheckpointRow, ...]) -> tuple[LogTransaction, ...]:
    return tuple(
        LogTransaction(revision, tuple(Change(row.key, row.value) for row in changed))
        for revision, changed in groupby(rows, key=lambda row: row.modified)
    )


def _another() -> Refused:
    return Refused(
        "another move fills the log at the same time",
        code=ErrorCode.RUNNING,
        hint="wait until that command has ended, then look whether this one is still needed",
    )
