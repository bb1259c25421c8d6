"""The log as keys of a store. All rules about keys are here; what they mean is in `core.log`.

| key | holds |
| --- | --- |
| `log/format` | that this prefix is a log, and which one |
| `log/head` | the position of the newest entry |
| `log/leader` | the leader record: elections and beats write it |
| `log/term` | the same record as the election wrote it: each append compares its version |
| `log/checkpoint` | the newest checkpoint |
| `entry/NUMBER` | an entry |
| `part/NUMBER-ID-PART` | a part of the body of an entry that is too large for one value |
| `chunk/NUMBER-HASH-PIECE` | a piece of a chunk of the checkpoint after that entry |

Parts and chunks are written before what names them. Once a checkpoint is there, anybody may delete at any time what
lies below it: entries up to its position, their parts after them, and the chunks of earlier checkpoints, finished or
not. A chunk is named by its content, so a second try of the same checkpoint writes the same. Parts of entries that were
never appended are deleted under the fence only.
"""

import hashlib
from typing import Final, NamedTuple

import msgspec

from leasehold.core.log.entry import BEGINNING, DraftEntry, parts_of, position_of
from leasehold.core.log.leadership import Standing
from leasehold.core.words.codec import decode_record, encode
from leasehold.core.words.records import (
    CheckpointChunk,
    LeaderRecord,
    LogCheckpoint,
    LogEntry,
    LogFormatRecord,
    LogPosition,
    StoredChunk,
)
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt, Definite, Indefinite
from leasehold.ids import EntryId, Revision, Term
from leasehold.limits.log import (
    LOG_ENTRY_INLINE_BYTES_MAX,
    LOG_FORMAT_VERSION,
    LOG_READ_ENTRIES_MAX,
    LOG_READ_PARTS_MAX,
    STORE_SWAP_KEYS_MAX,
)
from leasehold.metastorage.log.head import position_in
from leasehold.metastorage.log.store import MISSING, LogStore, Swap

LOG: Final = "log"
FORMAT: Final = "log/format"
HEAD: Final = "log/head"
LEADER: Final = "log/leader"
TERM: Final = "log/term"
CHECKPOINT: Final = "log/checkpoint"
ENTRIES: Final = "entry"
PARTS: Final = "part"
CHUNKS: Final = "chunk"


class OldHead(Indefinite):
    """The store answered with less than it had before: a read that is not linearizable, or a store that was set
    back."""


class Trimmed(Definite):
    """The entry is not in the log any more: a replica has to begin from the checkpoint."""

    default_code = ErrorCode.COMPACTED


class LogHead(NamedTuple):
    """The newest position, and the version of its key."""

    position: LogPosition
    version: int


class LogFence(NamedTuple):
    """What each append of a term compares."""

    term: Term
    version: int


class StoredCheckpoint(NamedTuple):
    """A checkpoint, and the version of its key."""

    checkpoint: LogCheckpoint
    version: int


class Log:
    """One client of the log."""

    def __init__(self, store: LogStore) -> None:
        self.store: Final = store
        self._newest = BEGINNING.number
        """The greatest number of a head that this client has seen, or written."""
        self._parts: tuple[EntryId, int] = (BEGINNING.id, 0)
        """The entry that parts were written for last, and how many."""
        self._read_at_once = LOG_READ_ENTRIES_MAX
        """How many entries are asked for at once: fewer where the way to the store is slow."""

    async def make(self, log_id: EntryId) -> EntryId:
        """The id of the log that is there; where there is none, makes an empty one with the id `log_id`. Raises
        `Corrupt` where there is something else: the log would lie among it, and delete some of it when it trims."""
        found = await self.log_id()
        if found is None and await self.is_empty():
            fresh = LogFormatRecord(format_version=LOG_FORMAT_VERSION, log_id=log_id)
            keys = {FORMAT: encode(fresh), HEAD: encode(BEGINNING)}
            await self.store.swap(Swap(unchanged=dict.fromkeys(keys, MISSING), puts=keys))
            found = await self.log_id()
        found = found or await self.log_id()  # another may have made it since
        if found is None:
            raise Corrupt(
                "the store holds a log without its format, or keys of another program",
                hint="choose another name for the cluster",
            )
        return found

    async def is_empty(self) -> bool:
        """Whether there is no log at all. Chunks and parts that nothing names do not count."""
        return not await self.store.page(LOG, limit=1) and not await self.store.page(ENTRIES, limit=1)

    async def begin(
        self, log_id: EntryId, checkpoint: LogCheckpoint, leader: LeaderRecord, first: DraftEntry | None
    ) -> bool:
        """Makes a log that begins with a checkpoint, whose chunks are there, and the entry after it; in one swap, which
        may be tried again. False if another log is there."""
        head = checkpoint.position if first is None else first.position
        fresh = LogFormatRecord(format_version=LOG_FORMAT_VERSION, log_id=log_id)
        puts = {FORMAT: encode(fresh), HEAD: encode(head), CHECKPOINT: encode(checkpoint)}
        puts |= {LEADER: encode(leader), TERM: encode(leader)}
        if first is not None:
            puts[entry_key(first.entry.number)] = encode(await self._stored(first))
        versions = await self.store.swap(Swap(unchanged=dict.fromkeys(puts, MISSING), puts=puts))
        return versions is not None or await self.log_id() == log_id

    async def log_id(self) -> EntryId | None:
        """The id of the log, None if there is none."""
        found = await self.store.get(FORMAT)
        if found is None:
            return None
        record = decode_record(LogFormatRecord, found.value)
        if record.format_version > LOG_FORMAT_VERSION:
            raise Corrupt(
                f"the log is of format {record.format_version}, this program reads {LOG_FORMAT_VERSION}",
                code=ErrorCode.NEWER_VERSION,
                hint="run the newer version of leasehold",
            )
        return record.log_id

    # ------------------------------------------------------------ entries

    async def head(self) -> LogHead:
        """The newest position, as of some instant since the call. Raises `Corrupt` where there is no log."""
        found = await self.store.get(HEAD)
        if found is None:
            raise Corrupt("the store holds no log", hint="check the name of the cluster in --meta")
        position = position_in(found.value)
        if position.number < self._newest:
            raise OldHead(f"the store answered with an old head: {position.number} after {self._newest}")
        self._newest = position.number
        return LogHead(position, found.version)

    async def went_through(self, position: LogPosition) -> bool:
        """Whether the log has had this position. Raises `Trimmed` if it is too old to tell."""
        head = (await self.head()).position
        if position.number == BEGINNING.number or position.number >= head.number:
            return position in {BEGINNING, head}
        newest = await self.checkpoint()
        if newest is not None and newest.checkpoint.position.number == position.number:
            return newest.checkpoint.position == position
        entry = await self.entry(position.number)
        if entry is None:
            raise Trimmed(f"entry {position.number} is not in the log any more", hint="begin from the checkpoint")
        return entry.id == position.id

    async def append(self, draft: DraftEntry, after: LogHead, fence: LogFence | None) -> LogHead | None:
        """One try. None if the head is not `after` any more, or another term has begun: then this try never happens.
        Raises `Indefinite` if it may have happened, or may happen yet."""
        entry, stored = draft.entry, await self._stored(draft)
        unchanged = {HEAD: after.version, entry_key(entry.number): MISSING}
        if fence is not None:
            unchanged[TERM] = fence.version
        puts = {HEAD: encode(draft.position), entry_key(entry.number): encode(stored)}
        versions = await self.store.swap(Swap(unchanged=unchanged, puts=puts))
        if versions is None:
            return None
        self._newest = max(self._newest, entry.number)
        return LogHead(draft.position, versions[HEAD])

    async def fill(self, draft: DraftEntry, head_version: int) -> bool:
        """Puts an entry into a log that is being filled; False if its head does not have this version any more. May be
        tried again."""
        puts = {entry_key(draft.entry.number): encode(await self._stored(draft))}
        return await self.store.swap(Swap(unchanged={HEAD: head_version}, puts=puts)) is not None

    async def _stored(self, draft: DraftEntry) -> LogEntry:
        """The entry as it is stored, once the parts of its body are."""
        if len(draft.body) <= LOG_ENTRY_INLINE_BYTES_MAX:
            return msgspec.structs.replace(draft.entry, body=draft.body)
        return msgspec.structs.replace(draft.entry, parts=await self._write_parts(draft))

    async def entry(self, number: int) -> LogEntry | None:
        """One entry without its parts, None if it is not there."""
        found = await self.store.get(entry_key(number))
        return None if found is None else decode_record(LogEntry, found.value)

    async def entries_after(self, number: int) -> list[tuple[LogEntry, bytes]]:
        """The next entries with their whole bodies, in order, at least one. After a request without an answer the next
        one asks for fewer: the way to the store may be slow. Raises `Trimmed` if the next one is not there; call it
        only below the head."""
        try:
            found = await self.store.page(ENTRIES, entry_name(number + 1), limit=self._read_at_once)
        except Indefinite:  # perhaps they take longer than a try may
            self._read_at_once = max(1, self._read_at_once // 4)
            raise
        self._read_at_once = min(LOG_READ_ENTRIES_MAX, self._read_at_once + 1)
        whole: list[tuple[LogEntry, bytes]] = []
        for name, stored in found:
            if name != entry_name(number + 1 + len(whole)):
                break
            entry = decode_record(LogEntry, stored.value)
            if entry.parts and whole:
                break  # a large one alone
            whole.append((entry, await self._body(entry) if entry.parts else entry.body))
        if not whole:
            raise Trimmed(f"entry {number + 1} is not in the log any more", hint="begin from the checkpoint")
        return whole

    async def _write_parts(self, draft: DraftEntry) -> int:
        entry = draft.entry
        done = self._parts[1] if self._parts[0] == entry.id else 0
        parts = parts_of(draft.body, LOG_ENTRY_INLINE_BYTES_MAX)
        for index in range(done, len(parts)):
            await self.store.swap(Swap(unchanged={}, puts={part_key(entry, index): parts[index]}))
            self._parts = entry.id, index + 1
        return len(parts)

    async def _body(self, entry: LogEntry) -> bytes:
        body = bytearray()
        for index in range(entry.parts):
            found = await self.store.get(part_key(entry, index))
            if found is None:
                raise Trimmed(f"a part of entry {entry.number} is not in the log any more")
            body += found.value
        return bytes(body)

    # ------------------------------------------------------------ leadership

    async def leader(self) -> Standing | None:
        """The leader record as it stands; None before the first election."""
        found = await self.store.get(LEADER)
        return None if found is None else Standing(decode_record(LeaderRecord, found.value), found.version)

    async def beat(self, standing: Standing, record: LeaderRecord) -> Standing | None:
        """Replaces the leader record; None if it is not `standing` any more."""
        versions = await self.store.swap(Swap(unchanged={LEADER: standing.version}, puts={LEADER: encode(record)}))
        return None if versions is None else Standing(record, versions[LEADER])

    async def elect(self, standing: Standing | None, record: LeaderRecord) -> tuple[Standing, LogFence] | None:
        """Begins the term of `record`; None if the leader record is not `standing` any more."""
        seen = MISSING if standing is None else standing.version
        blob = encode(record)
        versions = await self.store.swap(Swap(unchanged={LEADER: seen}, puts={LEADER: blob, TERM: blob}))
        if versions is None:
            return None
        return Standing(record, versions[LEADER]), LogFence(record.term, versions[TERM])

    async def term(self) -> LogFence | None:
        """The fence of the newest term; None before the first election."""
        found = await self.store.get(TERM)
        return None if found is None else LogFence(decode_record(LeaderRecord, found.value).term, found.version)

    # ------------------------------------------------------------ checkpoints

    async def checkpoint(self) -> StoredCheckpoint | None:
        """The newest checkpoint, None before the first."""
        found = await self.store.get(CHECKPOINT)
        return None if found is None else StoredCheckpoint(decode_record(LogCheckpoint, found.value), found.version)

    async def write_chunk(self, position: LogPosition, chunk: CheckpointChunk) -> StoredChunk:
        """Writes a chunk of a checkpoint to be, at that position."""
        blob = encode(chunk)
        stored = StoredChunk(hashlib.sha256(blob).digest(), len(blob))
        for piece, value in enumerate(parts_of(blob, LOG_ENTRY_INLINE_BYTES_MAX)):
            await self.store.swap(Swap(unchanged={}, puts={_piece_key(position, stored, piece): value}))
        return stored

    async def read_chunk(self, checkpoint: LogCheckpoint, index: int) -> CheckpointChunk:
        """A chunk; raises `Trimmed` if a newer checkpoint has taken this one's place, `Corrupt` if it is damaged."""
        stored = checkpoint.chunks[index]
        blob = bytearray()
        piece = 0
        while len(blob) < stored.size_bytes:
            found = await self.store.get(_piece_key(checkpoint.position, stored, piece))
            if found is None:
                raise Trimmed("a newer checkpoint has replaced this one", hint="begin from that one")
            blob += found.value
            piece += 1
        if hashlib.sha256(blob).digest() != stored.hash:
            raise Corrupt("a checkpoint of the log is damaged", hint="restore the store, or recover from a directory")
        return decode_record(CheckpointChunk, bytes(blob))

    async def swap_checkpoint(
        self, checkpoint: LogCheckpoint, before: StoredCheckpoint | None, fence: LogFence
    ) -> StoredCheckpoint | None:
        """Makes a checkpoint the newest; None if another term has begun. All its chunks are there."""
        unchanged = {TERM: fence.version, CHECKPOINT: MISSING if before is None else before.version}
        versions = await self.store.swap(Swap(unchanged=unchanged, puts={CHECKPOINT: encode(checkpoint)}))
        return None if versions is None else StoredCheckpoint(checkpoint, versions[CHECKPOINT])

    async def trim(self, checkpoint: LogCheckpoint) -> None:
        """Deletes what no replica needs that begins from this checkpoint, which is or was the newest."""
        number = checkpoint.position.number
        await self.store.delete_below(ENTRIES, entry_name(number + 1))
        await self.store.delete_below(PARTS, entry_name(number + 1))
        await self.store.delete_below(CHUNKS, entry_name(number))

    async def last_until(self, revision: Revision, after: LogPosition, head: LogPosition) -> LogPosition:
        """The position of the last entry up to `head` whose revisions all lie at or below `revision`; `after` where
        there is none after that. Raises `Trimmed` if another leader has trimmed the log meanwhile."""
        found, end = after, head.number + 1
        while end - found.number > 1:
            middle = (found.number + end) // 2
            entry = await self.entry(middle)
            if entry is None:
                raise Trimmed(f"entry {middle} is not in the log any more")
            if entry.revision <= revision:
                found = position_of(entry)
            else:
                end = middle
        return found

    async def delete_orphans(self, fence: LogFence, first: int, end: int | None = None) -> None:
        """Deletes the parts that no entry names, of numbers from `first` on and below `end`, as long as the term lasts.
        To be called while no append of such a number is under way."""
        ids: dict[int, EntryId | None] = {}
        orphans: list[str] = []
        start, stop = entry_name(first), _AFTER_DIGITS if end is None else entry_name(end)
        while start < stop and (page := await self.store.page(PARTS, start, limit=LOG_READ_PARTS_MAX)):
            for name, _ in page:
                if name >= stop:
                    break
                if not name[:_DIGITS].isdecimal():
                    continue  # of another program
                number = int(name[:_DIGITS])
                if number not in ids:
                    found = await self.entry(number)
                    ids[number] = None if found is None else found.id
                if name[_DIGITS + 1 :][:32] != ids[number]:
                    orphans.append(f"{PARTS}/{name}")
            start = f"{page[-1][0]}."
        for at in range(0, len(orphans), STORE_SWAP_KEYS_MAX - 1):
            some = tuple(orphans[at : at + STORE_SWAP_KEYS_MAX - 1])
            if await self.store.swap(Swap(unchanged={TERM: fence.version}, deletes=some)) is None:
                return


_DIGITS: Final = 16
_AFTER_DIGITS: Final = ":"
"""Follows every name that begins with a number."""


def entry_name(number: int) -> str:
    return f"{number:0{_DIGITS}d}"


def entry_key(number: int) -> str:
    return f"{ENTRIES}/{entry_name(number)}"


def part_key(entry: LogEntry, index: int) -> str:
    return f"{PARTS}/{entry_name(entry.number)}-{entry.id}-{index:04d}"


def _piece_key(position: LogPosition, chunk: StoredChunk, piece: int) -> str:
    return f"{CHUNKS}/{entry_name(position.number)}-{chunk.hash.hex()}-{piece:02d}"
