"""What a segment is written into: it hands the bytes of the file on."""

import hashlib
from collections.abc import Callable

from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.replication import FORWARD_CHUNK_BYTES


class ChunkSink:
    """What the Parquet writer takes for a file: counts and hashes the bytes and hands them on in bounded chunks."""

    def __init__(self, write: Callable[[bytes], object], bytes_max: int) -> None:
        self._write = write
        self._bytes_max = bytes_max
        self.sha256 = hashlib.sha256()
        self.size_bytes = 0
        self.closed = False

    def write(self, piece: bytes) -> int:
        if self.closed:
            return len(piece)  # an abandoned writer still closes itself when it is collected
        try:
            for start in range(0, len(piece), FORWARD_CHUNK_BYTES):
                self._hand_on(piece[start : start + FORWARD_CHUNK_BYTES])
        except BaseException:
            self.closed = True
            raise
        return len(piece)

    def flush(self) -> None:
        """Every piece is handed on at once."""

    def close(self) -> None:
        self.closed = True

    def _hand_on(self, chunk: bytes) -> None:
        self.size_bytes += len(chunk)
        if self.size_bytes > self._bytes_max:
            raise Refused(
                f"a segment would grow over {self._bytes_max} bytes",
                code=ErrorCode.SEGMENT_TOO_LARGE,
                hint="write the rows in several segments",
            )
        self.sha256.update(chunk)
        self._write(chunk)
