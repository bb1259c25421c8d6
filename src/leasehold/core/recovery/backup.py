"""A backup: the meta storage at one revision, as a coordinator sends it, and as a file (docs/formats.md).

A coordinator sends `SnapshotBegin`, `BackupPage`s and `SnapshotEnd`. The file holds these messages as they came:

| part | bytes |
| --- | --- |
| first line | `leasehold backup 1`: the version of the format |
| a frame for each message | its length in 4 bytes, then the message |
| end | the SHA-256 of all bytes before |

The rows are those of a checkpoint of the log: the watched range with the revisions of each key, and the deletes of the
revision itself, so that a node just below it can replay it. The leader record lies outside of that range and is the
last row; its own revisions say nothing. Count and digest are those of a snapshot of the revision for a node.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from leasehold.core.words import keys
from leasehold.core.words.codec import decode_message, decode_record, encode
from leasehold.core.words.digest import digest_bytes, item_digest
from leasehold.core.words.messages import BackupPage, Message, SnapshotBegin, SnapshotEnd
from leasehold.core.words.records import CheckpointRow, ClusterRecord, LeaderRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt, Refused
from leasehold.ids import LineageHash
from leasehold.limits.messages import KEY_BYTES_MAX, MESSAGE_BYTES_MAX, VALUE_BYTES_MAX

FIRST_LINE: Final = b"leasehold backup 1\n"
_ANY_VERSION: Final = b"leasehold backup "
_LENGTH_BYTES: Final = 4
_DIGEST_BYTES: Final = hashlib.sha256().digest_size


class BackupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a whole backup holds. `end` has its revision and the history hash there."""

    cluster: ClusterRecord
    leader: LeaderRecord
    end: SnapshotEnd


class BackupCheck:
    """Checks the messages of one backup, one after the other."""

    def __init__(self) -> None:
        self.begun: SnapshotBegin | None = None
        self.keys = 0
        """Of the watched range, so far."""
        self._end: SnapshotEnd | None = None
        self._digest = 0
        self._last = b""
        self._lineage: CheckpointRow | None = None
        self._cluster: ClusterRecord | None = None
        self._leader: LeaderRecord | None = None

    @property
    def about_keys(self) -> int:
        """How many keys there are in all, as the coordinator said at the beginning."""
        return 0 if self.begun is None else self.begun.keys

    @property
    def is_whole(self) -> bool:
        """Whether the last message has come."""
        return self._end is not None

    def take(self, message: Message) -> None:
        """Takes the next message. Raises `Corrupt` if it can't be that."""
        match message:
            case SnapshotBegin() if self.begun is None:
                self.begun = message
            case BackupPage() if self.begun is not None and self._end is None:
                for row in message.rows:
                    self._take_row(row, self.begun)
            case SnapshotEnd() if self.begun is not None and self._end is None:
                self._check_end(message, self.begun)
                self._end = message
            case _:
                raise damaged(f"{type(message).__name__} does not belong there")

    def facts(self) -> BackupFacts:
        """Of a backup that is whole. Raises `Corrupt` if it is not."""
        if self._end is None:
            raise damaged("its end is missing")
        if self._cluster is None or self._leader is None:
            raise damaged("it holds no cluster, or no leader record")
        return BackupFacts(cluster=self._cluster, leader=self._leader, end=self._end)

    def _take_row(self, row: CheckpointRow, begun: SnapshotBegin) -> None:
        if not self._last < row.key or len(row.key) > KEY_BYTES_MAX or len(row.value or b"") > VALUE_BYTES_MAX:
            raise damaged("a key is out of order, or too large")
        self._last = row.key
        if row.value is None:
            is_sound = (row.created, row.modified, row.version) == (0, begun.revision, 0) and is_watched(row.key)
        else:
            is_sound = 1 <= row.created <= row.modified <= begun.revision and row.version >= 1
        if not is_sound:
            raise damaged("the revisions of a key are wrong")
        if row.key == keys.LEADER and row.value is not None:
            self._leader = decode_record(LeaderRecord, row.value)
        elif not is_watched(row.key):
            raise damaged("a key lies outside of the meta storage")
        elif row.value is not None:
            self.keys += 1
            self._digest ^= item_digest(row.key, row.value)
            if row.key == keys.LINEAGE:
                self._lineage = row
            elif row.key == keys.CLUSTER:
                self._cluster = decode_record(ClusterRecord, row.value)

    def _check_end(self, end: SnapshotEnd, begun: SnapshotBegin) -> None:
        found = self._lineage
        if found is None or (found.modified, end.revision) != (begun.revision, begun.revision):
            raise damaged("it is not of one revision")
        if end.lineage != LineageHash(found.value or b""):
            raise damaged("its history hash is another one")
        if (end.keys, end.digest) != (self.keys, digest_bytes(self._digest)):
            raise damaged("its keys do not match their digest")


def is_watched(key: bytes) -> bool:
    """Whether nodes follow the key."""
    return keys.WATCH_START <= key < keys.WATCH_END


class BackupWriter:
    """Makes the bytes of a file, and hands them to `write`."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self.check: Final = BackupCheck()
        self._write = write
        self._digest = hashlib.sha256()
        self._put(FIRST_LINE)

    def take(self, message: Message) -> None:
        """Writes the next message. Raises `Corrupt` as `BackupCheck`."""
        self.check.take(message)
        blob = encode(message)
        self._put(len(blob).to_bytes(_LENGTH_BYTES) + blob)

    def finish(self) -> BackupFacts:
        """Writes the end. Raises `Corrupt` as `BackupCheck`."""
        facts = self.check.facts()
        self._write(self._digest.digest())
        return facts

    def _put(self, blob: bytes) -> None:
        self._digest.update(blob)
        self._write(blob)


class BackupReader:
    """Reads the bytes of one file with `read`, which answers fewer than asked for at the end only."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self.check: Final = BackupCheck()
        self._read = read
        self._digest = hashlib.sha256()
        self.size_bytes = 0
        """Read so far."""

    def rows(self) -> Iterator[tuple[CheckpointRow, ...]]:
        """All rows, page by page. They count only once the last one has been taken, and nothing was raised: `Corrupt`
        for a file that is cut or altered, code NEWER_VERSION for one of a newer format, NOT_A_BACKUP for another one.
        """
        first = self._take(len(FIRST_LINE))
        if first != FIRST_LINE:
            raise _other_file(first)
        while not self.check.is_whole:
            size = int.from_bytes(self._whole(_LENGTH_BYTES))
            if size > MESSAGE_BYTES_MAX:
                raise damaged("a part of it is too large")
            try:
                message = decode_message(self._whole(size))
            except Refused as error:
                raise damaged("a part of it can't be read") from error
            self.check.take(message)
            if isinstance(message, BackupPage):
                yield message.rows
        self.check.facts()
        expected = self._digest.digest()
        if self._whole(_DIGEST_BYTES) != expected:
            raise damaged("it does not match its checksum")
        if self._read(1):
            raise damaged("something follows its end")

    def _take(self, size: int) -> bytes:
        blob = self._read(size)
        self._digest.update(blob)
        self.size_bytes += len(blob)
        return blob

    def _whole(self, size: int) -> bytes:
        blob = self._take(size)
        if len(blob) < size:
            raise damaged("its end is missing")
        return blob


def damaged(why: str) -> Corrupt:
    """The error for what is no whole backup."""
    return Corrupt(f"the backup is cut or altered: {why}", hint="take another copy of it, or another backup")


def _other_file(first: bytes) -> Refused:
    version = first.removeprefix(_ANY_VERSION).partition(b"\n")[0]
    if first.startswith(_ANY_VERSION) and version.isdigit() and int(version) > 1:
        return Refused(
            f"the backup is of format {int(version)} or later, this program reads format 1",
            code=ErrorCode.NEWER_VERSION,
            hint="run the newer version of leasehold",
        )
    return Refused("the file is not a backup", code=ErrorCode.NOT_A_BACKUP, hint="name a file of `leasehold backup`")
