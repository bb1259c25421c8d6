"""The serve log: the batches that a node released, for `leasehold verify` to check against the receipts.

A record is in the kernel before `append` returns, so the death of the process loses nothing. Nothing is synced: a loss
of power ends all leases too.

A log consists of files `serve-<number>.log`, each a sequence of frames: the mark `LSV1`, the length of the payload and
its CRC-32 (both little-endian, 32 bits), the payload. A killed process can leave a torn frame at the end of its file.
So a new process begins a new file, and a reader accepts a torn frame only at the end of a file.
"""

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

import msgspec

from leasehold.core.lease.audit import ServeRecord
from leasehold.durable import NO_SPACE
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt, Definite, Refused
from leasehold.limits.node_disk import (
    SERVE_LOG_FILE_BYTES_MAX,
    SERVE_LOG_FILES_MAX,
    SERVE_LOG_PIECES_MAX,
    SERVE_RECORD_BYTES_MAX,
)

MARK: Final = b"LSV1"
_FREE: Final = "free space on this disk: a node must not serve without its log, but another replica may"
_HEAD: Final = Struct("<4sII")
_FILE_NAME: Final = re.compile(r"serve-(\d{10})\.log")

assert SERVE_RECORD_BYTES_MAX + _HEAD.size < SERVE_LOG_FILE_BYTES_MAX


class ServeLog:
    """Appends serve records to files in `directory`, from any thread. Keeps `files_max` x `file_bytes_max` bytes, the
    newest; files count by their bytes, so a node that is often killed keeps up to SERVE_LOG_PIECES_MAX."""

    def __init__(
        self,
        directory: Path,
        *,
        file_bytes_max: int = SERVE_LOG_FILE_BYTES_MAX,
        files_max: int = SERVE_LOG_FILES_MAX,
    ) -> None:
        assert files_max >= 1
        assert file_bytes_max > 0
        self._directory = directory
        self._file_bytes_max = file_bytes_max
        self._older_bytes_max = (files_max - 1) * file_bytes_max
        self._encode = msgspec.msgpack.Encoder().encode
        self._lock = threading.Lock()
        self._fd: int | None = None
        self._written_bytes = 0
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._number = max((number for number, _ in _log_files(directory)), default=0)
        except OSError as error:
            raise _disk_error(directory, error) from error

    def append(self, record: ServeRecord) -> None:
        """Hands `record` to the kernel. Raises `Refused` with code DISK_FULL or SERVE_RECORD_TOO_LARGE, `Definite` with
        code DISK_ERROR; then the batch must not be released."""
        payload = self._encode(record)
        if len(payload) > SERVE_RECORD_BYTES_MAX:
            raise Refused(
                f"a serve record of {len(payload)} bytes, over {SERVE_RECORD_BYTES_MAX}",
                code=ErrorCode.SERVE_RECORD_TOO_LARGE,
                hint="choose a shorter request id",
            )
        frame = _HEAD.pack(MARK, len(payload), crc32(payload)) + payload
        with self._lock:
            try:
                if self._fd is None or self._written_bytes + len(frame) > self._file_bytes_max:
                    self._begin_file()
                assert self._fd is not None
                written = os.write(self._fd, frame)
            except OSError as error:
                self._end_file()
                raise _disk_error(self._directory, error) from error
            self._written_bytes += written
            if written < len(frame):
                self._end_file()  # nothing may follow a torn frame
                raise Refused(
                    f"no space is left for the serve log {self._directory}: {written} of {len(frame)} bytes fit",
                    code=ErrorCode.DISK_FULL,
                    hint=_FREE,
                )

    def close(self) -> None:
        """Ends the file; a later append begins a new one. Idempotent."""
        with self._lock:
            self._end_file()

    def _begin_file(self) -> None:
        """Only for a first record: restarts that serve nothing must not push out files with records."""
        self._end_file()
        self._prune()
        self._number += 1
        path = self._directory / f"serve-{self._number:010}.log"
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._written_bytes = 0

    def _end_file(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _prune(self) -> None:
        older = _log_files(self._directory)
        sizes = [path.stat().st_size for _, path in older]
        for place, (_, path) in enumerate(older):
            if sum(sizes[place:]) <= self._older_bytes_max and len(older) - place < SERVE_LOG_PIECES_MAX:
                break
            path.unlink()


def read_serve_log(directory: Path) -> Iterator[ServeRecord]:
    """The records in `directory`, oldest first; none if there is no log. Files that are deleted meanwhile are left out.
    Raises `Corrupt` where a frame is damaged and whole ones follow, and where a file is missing between others."""
    decode = msgspec.msgpack.Decoder(ServeRecord).decode
    try:
        files = _log_files(directory)
    except FileNotFoundError:
        return
    for place, (number, path) in enumerate(files):
        if number != files[0][0] + place:
            raise _corrupt(path, "a file before it is missing")
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _disk_error(path, error) from error
        for start, payload in _payloads(path, content):
            try:
                yield decode(payload)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise _corrupt(path, f"no serve record at byte {start}: {error}") from error


def _payloads(path: Path, content: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    while start < len(content):
        payload = _payload_at(content, start)
        if payload is None:
            later = content.find(MARK, start + 1)
            while later >= 0:
                if _payload_at(content, later) is not None:
                    raise _corrupt(path, f"the frame at byte {start} is damaged and others follow")
                later = content.find(MARK, later + 1)
            return
        yield start, payload
        start += _HEAD.size + len(payload)


def _payload_at(content: bytes, start: int) -> bytes | None:
    """The payload of the frame at `start`, None if there is no whole and sound one."""
    body = start + _HEAD.size
    if body > len(content):
        return None
    mark, length, checksum = _HEAD.unpack_from(content, start)
    payload = content[body : body + length] if mark == MARK and length <= SERVE_RECORD_BYTES_MAX else b""
    return payload if payload and len(payload) == length and crc32(payload) == checksum else None


def _log_files(directory: Path) -> list[tuple[int, Path]]:
    """The files of a log with their numbers, oldest first."""
    named = [(_FILE_NAME.fullmatch(path.name), path) for path in directory.iterdir()]
    return sorted((int(match[1]), path) for match, path in named if match is not None)


def _corrupt(path: Path, why: str) -> Corrupt:
    return Corrupt(f"serve log {path} is damaged: {why}", hint="move the file aside and check the disk")


def _disk_error(path: Path, error: OSError) -> Definite:
    if error.errno in NO_SPACE:
        text = f"no space is left for the serve log {error.filename or path}: {error.strerror}"
        return Refused(text, code=ErrorCode.DISK_FULL, hint=_FREE)
    return Definite(
        f"serve log {error.filename or path}: {error.strerror}",
        code=ErrorCode.DISK_ERROR,
        hint="check the disk: a node must not serve without its log",
    )
