"""The folder of a data node's segment files: written aside, moved into place whole, deleted by way of a trash.

    root/segments/<table id>/<bucket>/<segment id>.parquet    finished, whole and synced
    root/staging/<table id>-<bucket>-<segment id>.parquet     being written; whatever is left is removed at start
    root/trash/..                                             to be deleted, at the caller's pace

A file is in `segments` only after its bytes are on the disk, and its name is on the disk before `finish` returns.
Every change is one rename, so several threads may work here at once; a directory belongs to one process.
"""

import errno
import os
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from leasehold.errors import AlreadyExists, Definite, Refused
from leasehold.ids import BucketNumber, ObjectId, SegmentId, is_segment_id
from leasehold.limits import BUCKETS_MAX

SUFFIX: Final = ".parquet"
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FINISH_ATTEMPTS: Final = 3


class SegmentFiles:
    """The segment files of one node under `root`. All methods may be called from any thread.

    Errors of the disk are `Refused` with code DISK_FULL, or `Definite` with code DISK_ERROR that names the path.
    Names that are not a table, bucket and segment id are `Refused` with code BAD_SEGMENT_NAME.
    """

    def __init__(self, root: Path) -> None:
        self._segments = root / "segments"
        self._staging = root / "staging"
        self._trash = root / "trash"
        self._choosing = threading.Lock()
        self._emptying = threading.Lock()

    def open(self) -> int:
        """Makes the folders, removes what an earlier process left half written; how many files that were.

        What is finished survives a loss of power from now on: a process may be killed between a move and its sync.
        """
        stale = 0
        with _naming(self._segments.parent):
            self._segments.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self._segments, self._staging, self._trash):
                _make_folder(folder)
            for path in self._staging.iterdir():
                path.unlink()
                stale += 1
            tables = [self._segments / str(table) for table in _numbers_in(self._segments)]
            buckets = [table / str(bucket) for table in tables for bucket in _numbers_in(table)]
            for folder in (self._segments, *tables, *buckets):
                with suppress(NotADirectoryError):
                    _sync_folder(folder)
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
        # Only now: whoever else wrote this segment had moved it into place before its staged name was free.
        with _naming(place):
            taken = place.exists()
        if taken:
            file.discard()
            raise _exists(segment, "is there already")
        return file

    def path(self, table: ObjectId, bucket: BucketNumber, segment: SegmentId) -> Path:
        """Where a finished segment lies, whether or not it is there."""
        if table < 1 or not 0 <= bucket < BUCKETS_MAX or not is_segment_id(segment):
            raise Refused(
                f"table {table}, bucket {bucket}, segment {segment[:80]!r} name no segment file",
                code="BAD_SEGMENT_NAME",
                hint="a segment id is 32 hex digits, a hyphen and 32 hex digits",
            )
        return self._segments / str(table) / str(bucket) / f"{segment}{SUFFIX}"

    def exists(self, table: ObjectId, bucket: BucketNumber, segment: SegmentId) -> bool:
        """Whether a segment is there, finished."""
        path = self.path(table, bucket, segment)
        with _naming(path):
            return path.exists()

    def sync(self, table: ObjectId, bucket: BucketNumber, segment: SegmentId) -> None:
        """Waits until a finished segment survives a loss of power; harmless if it is not there any more."""
        path = self.path(table, bucket, segment)
        with _naming(path), suppress(FileNotFoundError):
            _sync_folder(path.parent)

    def listing(self) -> Iterator[tuple[ObjectId, BucketNumber, SegmentId]]:
        """The finished segments in order of their names; anything else in the folders is passed over."""
        with _naming(self._segments):
            for table in _numbers_in(self._segments):
                for bucket in _numbers_in(self._segments / str(table)):
                    for name in _names_in(self._segments / str(table) / str(bucket)):
                        segment = name.removesuffix(SUFFIX)
                        if name.endswith(SUFFIX) and is_segment_id(segment):
                            yield ObjectId(table), BucketNumber(bucket), SegmentId(segment)

    def trash(self, table: ObjectId, bucket: BucketNumber, segment: SegmentId) -> bool:
        """Moves a segment to the trash, durably; False if it was not there. A scan that has it open reads on."""
        path = self.path(table, bucket, segment)
        return self._move_to_trash(path, f"{table}-{bucket}-{segment}{SUFFIX}")

    def trash_table(self, table: ObjectId) -> bool:
        """Moves all segments of a table to the trash, durably; False if there was nothing of it."""
        if table < 1:
            raise Refused(f"table {table} has no folder", code="BAD_SEGMENT_NAME", hint="table ids count from 1")
        # A dropped table may come back for a moment, by a write that was under way; its second folder needs a name.
        with self._choosing:
            with _naming(self._trash):
                used = {name for name in _names_in(self._trash) if name.startswith(f"{table}.")}
            number = next(one for one in range(len(used) + 1) if f"{table}.{one}" not in used)
            return self._move_to_trash(self._segments / str(table), f"{table}.{number}")

    def empty_trash(self, max_files: int) -> int:
        """Deletes up to `max_files` files of the trash for good, and folders that got empty; how many files."""
        with self._emptying, _naming(self._trash):
            return max_files - _delete_in(self._trash, max_files)

    def _move_to_trash(self, path: Path, name: str) -> bool:
        with _naming(path):
            try:
                path.rename(self._trash / name)
            except FileNotFoundError:
                return False
            _sync_folder(self._trash)
            # The folder may be on its way to the trash itself, with all that is in it.
            with suppress(FileNotFoundError):
                _sync_folder(path.parent)
        return True


class SegmentFile:
    """One segment being written; one thread at a time uses it.

    As a context manager it discards what was not finished. After any error nothing of it is left.
    """

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
            _sync_folder(self.path.parent)
            _sync_folder(self._staged.parent)

    def discard(self) -> None:
        """Removes what was written. Idempotent, and without effect on a finished segment."""
        fd, self._fd = self._fd, None
        if fd is not None:
            with _naming(self._staged):
                os.close(fd)
                self._staged.unlink(missing_ok=True)

    def _into_place(self) -> None:
        # A folder may go to the trash with its table between its making and the rename.
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
            # The first error is the one to tell; what can't be removed now is removed at the next start.
            for path in (self._staged, self.path) if fd is None else (self._staged,):
                with suppress(OSError):
                    path.unlink(missing_ok=True)
            raise


def _delete_in(folder: Path, budget: int) -> int:
    """Deletes up to `budget` files under `folder`, and the folders in it that it finds empty; what is left of it."""
    with os.scandir(folder) as entries:
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder:
                budget = _delete_in(Path(entry.path), budget)
            if budget == 0:
                break
            if is_folder:
                Path(entry.path).rmdir()
            else:
                Path(entry.path).unlink()
                budget -= 1
    return budget


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _numbers_in(folder: Path) -> list[int]:
    return sorted(
        int(name) for name in _names_in(folder) if name.isascii() and name.isdigit() and name == str(int(name))
    )


def _make_folder(folder: Path) -> None:
    """Makes `folder` under an existing one, durably; nothing to do if it is there."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def _naming(path: Path) -> Generator[None]:
    """Errors of the system as ours."""
    try:
        yield
    except OSError as error:
        named = error.filename or path
        if error.errno in _FULL:
            raise Refused(
                f"no space is left to write {named}: {error.strerror}",
                code="DISK_FULL",
                hint="free space on this disk or give the node a larger one, then try again",
            ) from error
        raise Definite(
            f"{named}: {error.strerror}", code="DISK_ERROR", hint="look at the disk and the rights on this path"
        ) from error


def _exists(segment: SegmentId, how: str) -> AlreadyExists:
    return AlreadyExists(f"segment {segment} {how}", hint="write the rows again as a segment with a new id")
