"""The segment files of one simulated host, with the crashes of real ones (`storage/files.py`).

A file's content is the ids of its rows. Names move in one order: a crash of the machine keeps a prefix of the moves
since the last sync, as a journalling file system does, and a file is never torn, since its bytes are synced before it
is moved into place.

| what happens   | finished, synced | finished, not synced | trashed, not synced | half written           |
| -------------- | ---------------- | -------------------- | ------------------- | ---------------------- |
| `kill`         | stays            | stays                | stays trashed       | stays until `open`     |
| `crash`        | stays            | may be gone          | may be back         | gone                   |
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Self

import msgspec

from leasehold.core.data.fetches import OnAsked, check_record, fetch_segment
from leasehold.core.data.peers import Chunk
from leasehold.core.data.segment_files import Stamp
from leasehold.core.data.write_access import Peer
from leasehold.core.replicas.reconcile import Emptied, Listing, OnDisk
from leasehold.core.words.records import SegmentRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import AlreadyExists, Definite, OutcomeUnknown, Refused
from leasehold.ids import BucketNumber, ClusterId, ObjectId, SegmentId
from leasehold.node.agent.published import Published
from leasehold.testing.duplexes import SimulatedCopies
from leasehold.testing.on_disk import by_bucket, check_name, file_of_record
from leasehold.testing.rows import Content, RowId, content_in
from leasehold.wire.ports import Clock, Transport

OnRemoved = Callable[[ObjectId, BucketNumber, SegmentId], None]
_Files = dict[OnDisk, Content]


class SegmentDisk:
    """The disk, which outlives the process. Each move of a name takes `latency_ns`, half before and half after it.

    If it is `full`, nothing more can be written; if it is `failing`, no bytes can be written or read. `on_removed` gets
    each whole finished file that a process moves to the trash, but no damaged file, none while the disk fails, and none
    that a crash removes.
    """

    def __init__(self, latency_ns: Callable[[], int] = lambda: 0) -> None:
        self.latency_ns = latency_ns
        self.full = False
        self.failing = False
        self.on_removed: OnRemoved = lambda _table, _bucket, _segment: None
        self._files: _Files = {}
        self._durable: _Files = {}
        self._moves: list[dict[OnDisk, Content | None]] = []
        self._staging: dict[OnDisk, None] = {}
        self._trash: dict[OnDisk, int] = {}
        """And how large each is."""
        self._damaged: set[OnDisk] = set()
        self._placed = 0
        self._stamps: dict[OnDisk, Stamp] = {}
        self._holder: MemoryDisk | None = None

    # ------------------------------------------------------------ the process and the machine

    def open(self, *, clock: Clock, transport: Transport, published: Published) -> "MemoryDisk":
        """For a new process; removes what an earlier one left half written, and syncs what it moved."""
        assert self._holder is None, "a directory belongs to one process"
        self._staging.clear()
        self.sync()
        self._holder = MemoryDisk(self, clock, transport, published)
        return self._holder

    def kill(self) -> None:
        """The process is gone, and nothing it wrote is lost."""
        if self._holder is not None:
            self._holder.detach()
            self._holder = None

    def crash(self, random: Random) -> None:
        """The machine crashes: of the moves since the last sync a random prefix is left."""
        self.kill()
        for move in self._moves[: random.randint(0, len(self._moves))]:
            _apply(self._durable, move)
        self._moves.clear()
        self._staging.clear()
        self._files = dict(self._durable)
        self._trash = {one: size for one, size in self._trash.items() if one not in self._files}

    def damage(self, one: OnDisk) -> None:
        """Changes the bytes of a finished file, but not their number; only a reader sees that."""
        content = self._files[one]
        spoiled = tuple(RowId(~row) for row in content.rows)
        wrong = msgspec.structs.replace(content, rows=spoiled, sha256=hashlib.sha256(content.sha256).digest())
        self._damaged.add(one)
        self._files[one] = wrong
        for files in (self._durable, *self._moves):
            if files.get(one) == content:
                files[one] = wrong

    # ------------------------------------------------------------ for observers

    def holds(self, table: ObjectId, bucket: BucketNumber, segment: SegmentId) -> bool:
        """Whether the segment is here whole, and would be after a crash."""
        one = OnDisk(table, bucket, segment)
        if one in self._damaged or one not in self._files or self._files[one] != self._durable.get(one):
            return False
        return all(one not in move for move in self._moves)

    def listing(self) -> frozenset[OnDisk]:
        """The finished files, as a process sees them."""
        return frozenset(self._files)

    def half_written(self) -> frozenset[OnDisk]:
        """The files that are being written, or were when their process ended."""
        return frozenset(self._staging)

    def trashed(self) -> frozenset[OnDisk]:
        """The files that wait to be deleted for good."""
        return frozenset(self._trash)

    # ------------------------------------------------------------ for the process

    def content(self, one: OnDisk) -> Content | None:
        """What a finished file holds now."""
        return self._files.get(one)

    def is_damaged(self, one: OnDisk) -> bool:
        """Whether the bytes of a finished file were changed."""
        return one in self._damaged

    def stamp(self, one: OnDisk) -> Stamp | None:
        """Distinguishes a finished file from another one with its name; None if there is none."""
        return self._stamps[one] if one in self._files else None

    def stage(self, one: OnDisk) -> None:
        """Begins a file. Raises `AlreadyExists` if it is there or being written."""
        if one in self._staging or one in self._files:
            how = "is being written" if one in self._staging else "is there already"
            raise AlreadyExists(f"segment {one.segment} {how}", hint="write the rows again as a segment with a new id")
        self._staging[one] = None

    def unstage(self, one: OnDisk) -> None:
        """Removes a half written file."""
        self._staging.pop(one, None)

    def place(self, one: OnDisk, content: Content) -> None:
        """Moves a file whose bytes are synced into place."""
        del self._staging[one]
        self._damaged.discard(one)
        self._placed += 1
        self._stamps[one] = (self._placed,)
        self._move({one: content})

    def remove(self, which: Iterable[OnDisk]) -> bool:
        """Moves finished files to the trash, all at once; whether there were any."""
        gone = sorted(one for one in which if one in self._files)
        if not gone:
            return False
        self._trash.update((one, self._files[one].size_bytes) for one in gone)
        self._move(dict.fromkeys(gone))
        for one in gone:
            if one not in self._damaged and not self.failing:
                self.on_removed(one.table, one.bucket, one.segment)
        self._damaged.difference_update(gone)
        return True

    def sync(self) -> None:
        """All moves so far survive the machine."""
        for move in self._moves:
            _apply(self._durable, move)
        self._moves.clear()

    def delete_trash(self, max_files: int, max_bytes: int) -> Emptied:
        """Deletes what was trashed first."""
        files = size_bytes = 0
        for one, length in list(self._trash.items())[:max_files]:
            if size_bytes >= max_bytes:
                break
            del self._trash[one]
            files += 1
            size_bytes += length
        return Emptied(files=files, size_bytes=size_bytes)

    def release(self, holder: "MemoryDisk") -> None:
        """The process has ended in order."""
        if self._holder is holder:
            self.kill()

    def _move(self, move: dict[OnDisk, Content | None]) -> None:
        _apply(self._files, move)
        self._moves.append(move)


def _apply(files: _Files, move: dict[OnDisk, Content | None]) -> None:
    for one, content in move.items():
        if content is None:
            files.pop(one, None)
        else:
            files[one] = content


class MemoryDisk:
    """Implements `wire.ports.Disk` on a `SegmentDisk` for one process, and what a node's writes and scans need.

    It waits on the node's clock, so that a paused process does nothing here.
    """

    def __init__(self, disk: SegmentDisk, clock: Clock, transport: Transport, published: Published) -> None:
        self.disk = disk
        self.published = published
        self._clock = clock
        self._transport = transport
        self._gone = False

    # ------------------------------------------------------------ the port

    async def listing(self) -> Listing:
        await self.wait()
        return by_bucket(self.disk.listing())

    async def trash(self, one: OnDisk) -> bool:
        check_name(one)
        return await self._remove(lambda: (one,))

    async def trash_table(self, table: ObjectId) -> bool:
        if table < 1:
            raise Refused(
                f"table {table} has no folder", code=ErrorCode.BAD_SEGMENT_NAME, hint="table ids count from 1"
            )
        return await self._remove(lambda: [one for one in self.disk.listing() if one.table == table])

    async def empty_trash(self, max_files: int, max_bytes: int) -> Emptied:
        if not self.disk.trashed():
            return Emptied(files=0, size_bytes=0)
        await self.wait()
        return self.disk.delete_trash(max_files, max_bytes)

    async def check_sizes(self, records: Sequence[SegmentRecord]) -> tuple[SegmentRecord, ...]:
        await self.wait()
        wrong: list[SegmentRecord] = []
        for one in records:
            content = self.disk.content(file_of_record(one))
            if content is not None and content.size_bytes != one.size_bytes:
                wrong.append(one)
        if wrong:
            await self._remove(lambda: map(file_of_record, wrong))
        return tuple(wrong)

    async def verify(self, record: SegmentRecord) -> bool:
        check_record(record)
        await self.wait()
        one = file_of_record(record)
        if self.disk.content(one) is None:
            return False
        if not self._is_whole(record):
            await self.trash(one)
            return False
        self.disk.sync()
        return True

    async def is_damaged(self, record: SegmentRecord, rest: Callable[[int], Awaitable[None]]) -> bool:
        check_record(record)
        await self.wait()
        content = self.disk.content(file_of_record(record))
        if content is None:
            return False
        await rest(content.size_bytes)
        if self.disk.failing:
            self.published.disk_failing = True
        return self.disk.content(file_of_record(record)) is not None and not self._is_whole(record)

    async def fetch(
        self,
        record: SegmentRecord,
        places: Sequence[Peer],
        cluster_id: ClusterId,
        on_asked: OnAsked,
    ) -> bool:
        return await fetch_segment(
            self,
            SimulatedCopies(self._transport),
            record,
            places,
            cluster_id=cluster_id,
            asking=self.published,
            on_asked=on_asked,
        )

    # ------------------------------------------------------------ files

    def create(self, one: OnDisk) -> "MemoryFile":
        """Opens a new segment file for writing. Raises `AlreadyExists` if it is there or being written."""
        self.check()
        check_name(one)
        self.disk.stage(one)
        return MemoryFile(self, one)

    def exists(self, one: OnDisk) -> bool:
        """Whether a segment is there, finished."""
        self.check()
        check_name(one)
        return self.disk.content(one) is not None

    def suspect(self, one: OnDisk) -> None:
        """Has a file read whole soon."""
        self.published.suspects.suspect(one)

    async def is_whole(self, record: SegmentRecord) -> bool:
        """Whether a finished file is what the manifest says; it survives a loss of power then."""
        if not self._is_whole(record):
            return False
        self.disk.sync()
        return True

    def close(self) -> None:
        """The process ends in order; idempotent."""
        self.disk.release(self)

    def detach(self) -> None:
        """The process is gone."""
        self._gone = True

    @property
    def gone(self) -> bool:
        """Whether its process is."""
        return self._gone

    def check(self) -> None:
        """Raises `OutcomeUnknown` once the process is gone."""
        if self._gone:
            raise OutcomeUnknown("the process that held this disk is gone", code=ErrorCode.DISK)

    async def wait(self) -> None:
        """Waits for half the time of a move, and while the process is paused."""
        await self._clock.sleep_until(self._clock.now_ns() + self.disk.latency_ns() // 2)
        self.check()

    async def _remove(self, which: Callable[[], Iterable[OnDisk]]) -> bool:
        await self.wait()
        if not self.disk.remove(which()):
            return False
        await self.wait()
        self.disk.sync()
        return True

    def _is_whole(self, record: SegmentRecord) -> bool:
        content = self.disk.content(file_of_record(record))
        if content is None or self.disk.failing:
            return False
        return (content.size_bytes, content.sha256) == (record.size_bytes, record.sha256)


class MemoryFile:
    """One segment being written, as `storage.files.SegmentFile`; discarded at the end unless finished."""

    def __init__(self, disk: MemoryDisk, one: OnDisk) -> None:
        self._disk = disk
        self._one = one
        self._bytes = bytearray()
        self._is_open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    @property
    def size_bytes(self) -> int:
        """What has been written."""
        return len(self._bytes)

    def write(self, chunk: Chunk) -> None:
        """Appends bytes. Raises `Refused` with code DISK_FULL or `Definite` with code DISK_ERROR, and then nothing of
        the file is left."""
        assert self._is_open, "a finished or discarded file takes no bytes"
        self._disk.check()
        if self._disk.disk.failing:
            self.discard()
            self._disk.published.disk_failing = True
            raise Definite("the disk fails at a write", code=ErrorCode.DISK_ERROR, hint="check the disk")
        if self._disk.disk.full:
            self.discard()
            raise Refused("no space is left", code=ErrorCode.DISK_FULL, hint="free space on this disk, then try again")
        self._bytes += chunk

    async def finish(self) -> None:
        """Makes the segment visible: once this returns it survives a loss of power."""
        assert self._is_open, "a file is finished once"
        await self._disk.wait()
        self._is_open = False
        self._disk.disk.place(self._one, content_in(bytes(self._bytes)))
        await self._disk.wait()
        self._disk.disk.sync()

    def discard(self) -> None:
        """Removes what was written. Idempotent; does nothing to a finished segment, or after the process has ended."""
        if self._is_open and not self._disk.gone:
            self._disk.disk.unstage(self._one)
        self._is_open = False
