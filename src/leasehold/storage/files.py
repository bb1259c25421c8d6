"""The folder of a data node's segment files: written aside, moved into place whole, deleted by way of a trash.

docs/formats.md, "A node's directory", shows the folders. Outside of `segments` the files are named by table, bucket and
segment id. A file is in `segments` only after its bytes are on the disk, and its name is on the disk before `finish`
returns. Every change is one rename, so several threads may work here at once. A directory belongs to one process.
"""

import os
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from leasehold.core.catalog.shelf import BucketKey
from leasehold.core.replicas.reconcile import Emptied
from leasehold.durable import NO_SPACE, sync_folder
from leasehold.error_codes import ErrorCode
from leasehold.errors import AlreadyExists, Definite, Refused
from leasehold.ids import BucketNumber, ObjectId, SegmentId, is_segment_id
from leasehold.limits.statements import BUCKETS_MAX
from leasehold.storage.mounts import FOLDERS, check_one_mount

SUFFIX: Final = ".parquet"
_FINISH_ATTEMPTS: Final = 3


class SegmentFiles:
    """The segment files of one node under `root`, from any thread. Errors of the disk are `Refused` with code
    DISK_FULL, or `Definite` with code DISK_ERROR. Names that are not a table, bucket and segment id are `Refused` with
    code BAD_SEGMENT_NAME."""

    def __init__(self, root: Path) -> None:
        self.root: Final = root
        self._segments, self._staging, self._trash = (root / name for name in FOLDERS)
        self._choosing = threading.Lock()
        self._emptying = threading.Lock()

    def open(self) -> int:
        """Makes the folders, and removes the files that an earlier process left half written; their number. Syncs the
        folders of finished segments: a process may have been killed between a move and its sync. Raises `BadDirectory`
        with code OTHER_DISK, and removes nothing, if the folders are not all on one mount."""
        stale = 0
        with _naming(self._segments.parent):
            self._segments.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            check_one_mount(self._segments.parent)
            for folder in (self._segments, self._staging, self._trash):
                _make_folder(folder)
            for path in self._staging.iterdir():
                path.unlink()
                stale += 1
            tables = [self._segments / str(table) for table in _numbers_in(self._segments)]
            buckets = [table / str(bucket) for table in tables for bucket in _numbers_in(table)]
            for folder in (self._segments, *tables, *buckets):
                with suppress(NotADirectoryError):
                    sync_folder(folder)
        return stale

    def create(self, table: ObjectId, bucket: BucketNumber, segment: SegmentId) -> "SegmentFile":
        """Opens a new segment file for writing. Raises `AlreadyExists` if it is there or being written."""
        place = self.path(table, bucket, segment)
        staged = self._staging / f"{table}-{bucket}-{segment}{SUFFIX}"
        with _naming(staged):
            try:
                fd = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            except FileExistsError as error:
                raise _exists(segment, "is being written") from error
        file = SegmentFile(fd, staged, place)
        # Only now: another writer of this segment moves it into place before the staged name is free.
        with _naming(place):
            taken = place.exists()
        if taken:
            file.discard()
            raise _exists(segment, "is there already")
        return file

    def path(self, table: ObjectId, bucket: BucketNumber, segment: SegmentId) -> Path:
        """Where a finished segment lies, whether or not it is there. Raises `Refused` with code BAD_SEGMENT_NAME."""
        return Path(self.path_text(table, bucket, segment))

    def path_text(self, table: ObjectId, bucket: BucketNumber, segment: SegmentId) -> str:
        """The same as text, for callers with many: a `Path` takes longer to make than the system call with it."""
        if table < 1 or not 0 <= bucket < BUCKETS_MAX or not is_segment_id(segment):
            raise Refused(
                f"table {table}, bucket {bucket}, segment {segment[:80]!r} name no segment file",
                code=ErrorCode.BAD_SEGMENT_NAME,
                hint="a segment id is 32 hex digits, a hyphen and 32 hex digits",
            )
        return f"{self._segments}/{table}/{bucket}/{segment}{SUFFIX}"

    def exists(self, table: ObjectId, bucket: BucketNumber, segment: SegmentId) -> bool:
        path = self.path(table, bucket, segment)
        with _naming(path):
            return path.exists()

    def sync(self, table: ObjectId, bucket: BucketNumber, segment: SegmentId) -> None:
        """Waits until a finished segment survives a loss of power; harmless if it is not there any more. If that fails,
        the segment goes to the trash: a later sync could succeed without having written anything."""
        path = self.path(table, bucket, segment)
        try:
            with _naming(path), suppress(FileNotFoundError):
                sync_folder(path.parent)
        except Definite:
            with suppress(Definite):
                self.trash(table, bucket, segment)
            raise

    def listing(self) -> Iterator[tuple[ObjectId, BucketNumber, SegmentId]]:
        """The finished segments in order of their names."""
        for (table, bucket), _ in self.folders():
            for segment in sorted(self.segments_in(table, bucket)):
                yield table, bucket, segment

    def folders(self) -> Iterator[tuple[BucketKey, tuple[int, int]]]:
        """The buckets that have a folder, in order; each with the folder's inode and time of change in nanoseconds."""
        with _naming(self._segments):
            for table in _numbers_in(self._segments):
                for number, state in sorted(_numbered(self._segments / str(table))):
                    yield (ObjectId(table), BucketNumber(number)), state

    def segments_in(self, table: ObjectId, bucket: BucketNumber) -> frozenset[SegmentId]:
        """The finished segments of a bucket; anything else in its folder is passed over."""
        folder = self._segments / str(table) / str(bucket)
        with _naming(folder), suppress(FileNotFoundError, NotADirectoryError):
            with os.scandir(folder) as entries:
                found = [entry.name.removesuffix(SUFFIX) for entry in entries if entry.name.endswith(SUFFIX)]
            return frozenset(SegmentId(one) for one in found if is_segment_id(one))
        return frozenset()

    def trash(self, table: ObjectId, bucket: BucketNumber, segment: SegmentId) -> bool:
        """Moves a segment to the trash, durably; False if it was not there. A scan that has it open reads on."""
        path = self.path(table, bucket, segment)
        return self._move(path, self._trash / f"{table}-{bucket}-{segment}{SUFFIX}")

    def put_aside(self, table: ObjectId, bucket: BucketNumber, segment: SegmentId, folder: Path) -> bool:
        """Moves a segment to `folder`, made if need be, durably; False if it was not there."""
        path = self.path(table, bucket, segment)
        with _naming(folder):
            _make_folder(folder)
        return self._move(path, folder / f"{table}-{bucket}-{segment}{SUFFIX}")

    def trash_table(self, table: ObjectId) -> bool:
        """Moves all segments of a table to the trash, durably; False if there were none."""
        if table < 1:
            raise Refused(
                f"table {table} has no folder", code=ErrorCode.BAD_SEGMENT_NAME, hint="table ids count from 1"
            )
        # A write under way may bring a dropped table back for a moment; its second folder needs a name of its own.
        with self._choosing:
            with _naming(self._trash):
                used = {name for name in _names_in(self._trash) if name.startswith(f"{table}.")}
            number = next(one for one in range(len(used) + 1) if f"{table}.{one}" not in used)
            return self._move(self._segments / str(table), self._trash / f"{table}.{number}")

    def empty_trash(self, max_files: int, max_bytes: int) -> Emptied:
        """Deletes up to `max_files` files of the trash, and folders that are empty then. The file with which
        `max_bytes` is reached goes as well, however large it is."""
        budget = _Budget(max_files, max_bytes)
        with self._emptying, _naming(self._trash):
            _delete_in(self._trash, budget)
        return Emptied(files=max_files - budget.files, size_bytes=max_bytes - budget.size_bytes)

    def size_bytes(self, table: ObjectId, bucket: BucketNumber, segment: SegmentId) -> int | None:
        """How large a finished segment is; None if it is not there."""
        path = self.path(table, bucket, segment)
        with _naming(path), suppress(FileNotFoundError):
            return path.stat().st_size
        return None

    def _move(self, path: Path, target: Path) -> bool:
        with _naming(path):
            try:
                path.rename(target)
            except FileNotFoundError:
                return False
            sync_folder(target.parent)
            # Another thread may move the folder itself to the trash.
            with suppress(FileNotFoundError):
                sync_folder(path.parent)
        return True


class SegmentFile:
    """One segment being written; one thread at a time uses it. As a context manager it discards what was not finished.
    After any error nothing of it is left."""

    def __init__(self, fd: int, staged: Path, place: Path) -> None:
        self._fd: int | None = fd
        self._staged = staged
        self.path = place
        self.size_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def write(self, chunk: bytes | bytearray | memoryview) -> None:
        """Appends `chunk`. Raises `Refused` with code DISK_FULL, `Definite` with code DISK_ERROR."""
        assert self._fd is not None, "a finished or discarded file takes no bytes"
        rest = memoryview(chunk).cast("B")
        with self._or_nothing():
            while rest:
                written = os.write(self._fd, rest)
                self.size_bytes += written
                rest = rest[written:]

    def finish(self) -> None:
        """Makes the segment visible under `path`: once this returns it survives a loss of power."""
        fd = self._fd
        assert fd is not None, "a file is finished once"
        with self._or_nothing():
            os.fsync(fd)
            self._fd = None
            os.close(fd)
            self._into_place()
            sync_folder(self.path.parent)

    def discard(self) -> None:
        """Removes what was written. Idempotent, and without effect on a finished segment."""
        fd, self._fd = self._fd, None
        if fd is not None:
            with _naming(self._staged):
                os.close(fd)
                self._staged.unlink(missing_ok=True)

    def _into_place(self) -> None:
        # Between its making and the rename a folder may go to the trash with its table.
        for attempt in range(_FINISH_ATTEMPTS):
            try:
                _make_folder(self.path.parent.parent)
                _make_folder(self.path.parent)
                self._staged.rename(self.path)
            except FileNotFoundError:
                if attempt + 1 == _FINISH_ATTEMPTS or not self._staged.exists():
                    raise
            else:
                return

    @contextmanager
    def _or_nothing(self) -> Generator[None]:
        try:
            with _naming(self._staged):
                yield
        except Definite:
            fd, self._fd = self._fd, None
            with suppress(OSError):
                if fd is not None:
                    os.close(fd)
            # The first error is the one to raise; what can't be removed now is removed at the next start.
            for path in (self._staged, self.path) if fd is None else (self._staged,):
                with suppress(OSError):
                    path.unlink(missing_ok=True)
            raise


class _Budget:
    """How much may still be deleted."""

    def __init__(self, files: int, size_bytes: int) -> None:
        self.files = files
        self.size_bytes = size_bytes

    @property
    def is_spent(self) -> bool:
        return self.files <= 0 or self.size_bytes <= 0


def _delete_in(folder: Path, budget: _Budget) -> None:
    """Deletes files under `folder`, and the folders in it that it finds empty, until `budget` is spent."""
    with os.scandir(folder) as entries:
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder:
                _delete_in(Path(entry.path), budget)
            if budget.is_spent:
                break
            if is_folder:
                Path(entry.path).rmdir()
            else:
                budget.size_bytes -= entry.stat(follow_symlinks=False).st_size
                budget.files -= 1
                Path(entry.path).unlink()


def _names_in(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _numbers_in(folder: Path) -> list[int]:
    return sorted(int(name) for name in _names_in(folder) if _is_number(name))


def _numbered(folder: Path) -> list[tuple[int, tuple[int, int]]]:
    """The folders in `folder` that a number names, each with its inode and time of change."""
    found: list[tuple[int, tuple[int, int]]] = []
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if _is_number(entry.name):
                with suppress(FileNotFoundError):
                    status = entry.stat()
                    found.append((int(entry.name), (status.st_ino, status.st_mtime_ns)))
    return found


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and name == str(int(name))


def _make_folder(folder: Path) -> None:
    """Makes `folder` under an existing one, durably; nothing to do if it is there."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return
    sync_folder(folder.parent)


@contextmanager
def _naming(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        named = error.filename or path
        if error.errno in NO_SPACE:
            raise Refused(
                f"no space is left to write {named}: {error.strerror}",
                code=ErrorCode.DISK_FULL,
                hint="free space on this disk or give the node a larger one, then try again",
            ) from error
        raise Definite(
            f"{named}: {error.strerror}",
            code=ErrorCode.DISK_ERROR,
            hint="check the disk and the permissions of this path",
        ) from error


def _exists(segment: SegmentId, how: str) -> AlreadyExists:
    return AlreadyExists(f"segment {segment} {how}", hint="write the rows again as a segment with a new id")
