"""Frames of HTTP/2 (RFC 9113, 4.1 and 6)."""

from struct import Struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
ACK: Final = 0x1
END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
HAS_PRIORITY: Final = 0x20
MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = range(3, 7)
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, _, STREAM_CLOSED, FRAME_SIZE_ERROR = range(7)
REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, _, ENHANCE_YOUR_CALM = range(7, 12)
WINDOW_MAX: Final = 2**31 - 1
STREAM_MAX: Final = 2**31 - 1
WINDOW_DEFAULT: Final = 65_535
FRAME_BYTES_MIN: Final = 16_384
PING_BYTES: Final = 8

PREFIX: Final = Struct(">HBBBL")
"""The length in two parts (its high 16 bits, its low 8), the kind, flags and the stream."""
WORD: Final = Struct(">L")
SETTING: Final = Struct(">HL")


class ConnectionFailed(Exception):
    """The connection has to end; `code` tells the peer why."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


def prefix(length: int, kind: int, flags: int, stream: int) -> bytes:
    return PREFIX.pack(length >> 8, length & 0xFF, kind, flags, stream)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return prefix(len(payload), kind, flags, stream) + payload


def word(payload: memoryview) -> int:
    """Raises `ConnectionFailed` if there is none."""
    if len(payload) < WORD.size:
        raise ConnectionFailed(FRAME_SIZE_ERROR, "a frame that is too short")
    return WORD.unpack_from(payload)[0]
