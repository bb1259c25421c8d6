"""gRPC over HTTP/2: messages with a prefix of 5 bytes, and a status in the last header block."""

import base64
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote

import grpc

from leasehold.wire.http2.headers import header_block

KIND: Final = b"application/grpc"
RESPONSE: Final = header_block(((b":status", b"200"), (b"content-type", KIND), (b"grpc-accept-encoding", b"identity")))
"""The headers of an answer."""
_ONLY: Final = header_block(((b":status", b"200"), (b"content-type", KIND)))
"""What comes before the status of a call without an answer."""
_OK: Final = header_block(((b"grpc-status", b"0"),))
BINARY: Final = b"-bin"
"""The end of the names of headers that carry bytes, as base64."""
_PREFIX_BYTES: Final = 5
COPIED_BYTES_MAX: Final = 4_096
"""A smaller message is joined with what goes out before it."""


class BadCallMessage(Exception):
    """What came is no message, or is too large; the call ends with `status`."""

    def __init__(self, status: grpc.StatusCode, why: str) -> None:
        super().__init__(why)
        self.status = status


def status_block(
    status: grpc.StatusCode, why: str, *, has_headers: bool, trailing: Iterable[tuple[bytes, bytes]] = ()
) -> bytes:
    """What ends a call, with or without headers before it. The names of `trailing` are in lower case; the value of one
    that ends with `-bin` may be any bytes."""
    number: int = status.value[0]
    end = _OK
    if status is not grpc.StatusCode.OK:
        end = header_block(((b"grpc-status", b"%d" % number), (b"grpc-message", quote(why, safe=" ").encode())))
    if trailing:
        end += header_block((name, _as_text(value) if name.endswith(BINARY) else value) for name, value in trailing)
    return end if has_headers else _ONLY + end


def _as_text(value: bytes) -> bytes:
    return base64.b64encode(value).rstrip(b"=")


def binary(text: bytes) -> bytes | None:
    """The value of a header whose name ends with `-bin`, with or without padding; None if it is none."""
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except ValueError:
        return None


def prefixed(message: bytes | bytearray) -> tuple[memoryview, ...]:
    """What goes out for a message; a large one is not copied."""
    head = b"\0" + len(message).to_bytes(_PREFIX_BYTES - 1, "big")
    if len(message) < COPIED_BYTES_MAX:
        return (memoryview(head + message),)
    return memoryview(head), memoryview(message)


class MessageAssembler:
    """Messages from pieces. It holds what has come of one message, never more than `message_bytes_max`."""

    __slots__ = ("_head", "_message", "_most", "missing")

    def __init__(self, message_bytes_max: int) -> None:
        self._most = message_bytes_max
        self._head = b""
        self._message: bytearray | None = None
        self.missing = 0
        """How many bytes the message that has begun still needs."""

    @property
    def is_between(self) -> bool:
        """Whether no message has begun."""
        return not self._head and self._message is None

    def feed(self, piece: memoryview) -> Iterator[bytes | bytearray]:
        """Raises `BadCallMessage`."""
        at, end = 0, len(piece)
        while at < end:
            if self._message is None:
                head = self._head + bytes(piece[at : at + _PREFIX_BYTES - len(self._head)])
                at += len(head) - len(self._head)
                self._head = head
                if len(head) < _PREFIX_BYTES:
                    return
                self._head, size = b"", self._size(head)
                if size <= end - at:
                    yield bytes(piece[at : at + size])
                    at += size
                    continue
                self._message, self.missing = bytearray(), size
            part = piece[at : at + self.missing]
            self._message += part
            self.missing -= len(part)
            at += len(part)
            if not self.missing:
                whole, self._message = self._message, None
                yield whole

    def _size(self, head: bytes) -> int:
        if head[0]:
            raise BadCallMessage(grpc.StatusCode.UNIMPLEMENTED, "messages are not compressed here")
        size = int.from_bytes(head[1:], "big")
        if size > self._most:
            raise BadCallMessage(grpc.StatusCode.RESOURCE_EXHAUSTED, f"a message of {size} bytes, over {self._most}")
        return size
