"""A `Session` call on a bare socket: gRPC's framing by hand, as much of HTTP/2 as one call needs.

A thousand clients of the gRPC library would cost more than the coordinator they load. What travels is the same: one
HTTP/2 connection per node, one call on it, production messages in it.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import cast

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import Message
from leasehold.wire.rpc import SESSION

WINDOW = 16 * 1024 * 1024
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _text(value: str) -> bytes:
    assert len(value) < 127
    return bytes([len(value)]) + value.encode()


def _opening(authority: str, *, secure: bool) -> bytes:
    """Preface, settings, a wide window, and the headers of the call: no compression, no table."""
    headers = (
        (b"\x83\x87" if secure else b"\x83\x86")  # :method POST, :scheme https or http
        + (b"\x04" + _text(SESSION))
        + (b"\x01" + _text(authority))
        + (b"\x0f\x10" + _text("application/grpc"))
        + (b"\x00" + _text("te") + _text("trailers"))
    )
    return (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + _frame(SETTINGS, 0, 0, struct.pack(">HIHI", 4, WINDOW, 5, WINDOW - 1))
        + _frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW))
        + _frame(HEADERS, 4, 1, headers)
    )


class Stream(asyncio.Protocol):
    """One connection with one call on it; `take` gets each message's bytes."""

    def __init__(self, authority: str, take: Callable[[bytes], None]) -> None:
        self._authority = authority
        self._take = take
        self._frames = bytearray()
        self._messages = bytearray()
        self._unacknowledged = 0
        self._window = 65_535
        self.broken: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        secure = transport.get_extra_info("sslcontext") is not None
        self._transport.write(_opening(self._authority, secure=secure))

    def connection_lost(self, exc: Exception | None) -> None:
        self.broken = self.broken or f"the connection ended: {exc}"

    def send(self, message: Message) -> None:
        """Raises `ConnectionError` once the coordinator has closed it: so it ends what is silent for too long."""
        if self.broken is not None or self._transport.is_closing():
            raise ConnectionError(self.broken or "the connection is being closed")
        blob = encode(message)
        size = len(blob)
        self._window -= size + 5
        assert self._window >= 0, "the coordinator does not read"
        self._transport.write(struct.pack(">IBIBI", (size + 5) << 8 | DATA, 0, 1, 0, size) + blob)

    def close(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._frames:
            self._frames += data
            data = bytes(self._frames)
            self._frames.clear()
        at, end = 0, len(data)
        while end - at >= 9:
            head, flags, stream = struct.unpack_from(">IBI", data, at)
            after = at + 9 + (head >> 8)
            if after > end:
                break
            self._on_frame(head & 255, flags, stream, data[at + 9 : after])
            at = after
        if at < end:
            self._frames += data[at:]

    def _on_frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == DATA:
            self._on_data(payload)
        elif kind == WINDOW_UPDATE and stream == 0:
            self._window += struct.unpack(">I", payload)[0]
        elif kind == PING and not flags & 1:
            self._transport.write(_frame(PING, 1, 0, payload))
        elif kind == SETTINGS and not flags & 1:
            self._transport.write(_frame(SETTINGS, 1, 0, b""))
        elif kind in {RESET, GOAWAY} or (kind == HEADERS and flags & 1):
            self.broken = self.broken or f"the coordinator ended the call: {payload!r}"

    def _on_data(self, payload: bytes) -> None:
        self._unacknowledged += len(payload)
        if self._unacknowledged > WINDOW // 2:
            more = struct.pack(">I", self._unacknowledged)
            self._transport.write(_frame(WINDOW_UPDATE, 0, 0, more) + _frame(WINDOW_UPDATE, 0, 1, more))
            self._unacknowledged = 0
        if self._messages:
            self._messages += payload
            payload = bytes(self._messages)
            self._messages.clear()
        at, end = 0, len(payload)
        while end - at >= 5:
            after = at + 5 + struct.unpack_from(">I", payload, at + 1)[0]
            if after > end:
                break
            if after > at + 5:  # an empty one is the orderly end
                self._take(payload[at + 5 : after])
            at = after
        if at < end:
            self._messages += payload[at:]
