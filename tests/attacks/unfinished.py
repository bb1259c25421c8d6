"""Calls whose first message never comes whole: its last byte is not sent. gRPC's own client can't do that.

A little of HTTP/2, of which a connection has one stream; what the server allows is respected.
"""

import contextlib
import selectors
import socket
import struct
from collections.abc import Callable, Generator
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
ACK, END_HEADERS, END_STREAM = 1, 4, 1
INITIAL_WINDOW_SIZE: Final = 4
STREAM: Final = 1
FRAME_BYTES: Final = 16_384
WINDOW_BYTES: Final = 65_535
HEADER_BYTES: Final = 9


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name: str, value: str) -> bytes:
    """A header that needs no table."""
    return bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


class Unfinished:
    """One call on a connection of its own."""

    def __init__(self, address: str, method: str, size: int) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.socket.setblocking(False)
        self.is_over = False
        headers = {":method": "POST", ":scheme": "http", ":path": method, ":authority": address}
        headers |= {"content-type": "application/grpc", "te": "trailers"}
        block = b"".join(literal(*one) for one in headers.items())
        first = PREFACE + frame(SETTINGS, 0, 0, b"") + frame(HEADERS, END_HEADERS, STREAM, block)
        self._outgoing = bytearray(first)
        self._incoming = bytearray()
        self._prefix = b"\0" + size.to_bytes(4, "big")
        self._left = len(self._prefix) + size - 1
        self._connection_window = self._stream_window = WINDOW_BYTES
        self._stream_at_first = WINDOW_BYTES

    def move(self) -> None:
        """Reads and writes what can be, without waiting."""
        try:
            with contextlib.suppress(BlockingIOError):
                self._incoming += self.socket.recv(1 << 16) or self._ended()
            self._read_frames()
            self._write()
        except ConnectionError:
            self.is_over = True

    @property
    def wants_to_write(self) -> bool:
        return bool(self._outgoing) or self._allowed_bytes() > 0

    def _ended(self) -> bytes:
        self.is_over = True
        return b""

    def _read_frames(self) -> None:
        while len(self._incoming) >= HEADER_BYTES:
            size = int.from_bytes(self._incoming[:3], "big")
            kind, flags, stream = struct.unpack_from(">BBI", self._incoming, 3)
            if len(self._incoming) < HEADER_BYTES + size:
                return
            payload = bytes(self._incoming[HEADER_BYTES : HEADER_BYTES + size])
            del self._incoming[: HEADER_BYTES + size]
            self._hear(kind, flags, stream, payload)

    def _hear(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == SETTINGS and not flags & ACK:
            for name, value in struct.iter_unpack(">HI", payload):
                if name == INITIAL_WINDOW_SIZE:
                    self._stream_window += value - self._stream_at_first
                    self._stream_at_first = value
            self._outgoing += frame(SETTINGS, ACK, 0, b"")
        elif kind == PING and not flags & ACK:
            self._outgoing += frame(PING, ACK, 0, payload)
        elif kind == WINDOW_UPDATE:
            (more,) = struct.unpack(">I", payload)
            if stream:
                self._stream_window += more
            else:
                self._connection_window += more
        elif kind in {RESET, GOAWAY} or (kind == HEADERS and flags & END_STREAM):
            self.is_over = True

    def _allowed_bytes(self) -> int:
        return min(self._left, self._connection_window, self._stream_window, FRAME_BYTES)

    def _write(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while not self.is_over and self.wants_to_write:
                if not self._outgoing:
                    allowed = self._allowed_bytes()
                    content = self._prefix + bytes(allowed - len(self._prefix)) if self._prefix else bytes(allowed)
                    self._prefix = b""
                    self._outgoing += frame(DATA, 0, STREAM, content)
                    self._left -= allowed
                    self._connection_window -= allowed
                    self._stream_window -= allowed
                del self._outgoing[: self.socket.send(self._outgoing)]


@contextlib.contextmanager
def unfinished_calls(address: str, method: str, size: int, count: int) -> Generator[Callable[[int], None]]:
    """Begins so many calls; yields what keeps them going until at most so many stand."""
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as opened:
        calls = {Unfinished(address, method, size) for _ in range(count)}
        for one in calls:
            opened.enter_context(one.socket)
            selector.register(one.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, one)

        def keep_going(left: int) -> None:
            while len(calls) > left:
                for key, _ in selector.select(60):
                    one: Unfinished = key.data
                    one.move()
                    if one.is_over:
                        selector.unregister(one.socket)
                        calls.discard(one)
                    else:
                        writing = selectors.EVENT_WRITE if one.wants_to_write else 0
                        selector.modify(one.socket, selectors.EVENT_READ | writing, one)

        yield keep_going
