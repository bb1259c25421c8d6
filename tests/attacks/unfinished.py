"""Calls whose first message never comes whole: its last byte is not sent. gRPC's own client can't do that.

A little of HTTP/2. The client respects what the server allows.
"""

import contextlib
import selectors
import socket
import ssl
import struct
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
ACK, END_HEADERS, END_STREAM = 1, 4, 1
INITIAL_WINDOW_SIZE: Final = 4
FRAME_BYTES: Final = 16_384
WINDOW_BYTES: Final = 65_535
HEADER_BYTES: Final = 9
NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name: str, value: str) -> bytes:
    """A header that needs no table."""
    return bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def header_block(path: str, authority: str, scheme: str = "https", said: Mapping[str, str] | None = None) -> bytes:
    """The headers of a call of gRPC, with more that are `said`."""
    headers = {":method": "POST", ":scheme": scheme, ":path": path, ":authority": authority}
    headers |= {"content-type": "application/grpc", "te": "trailers", **(said or {})}
    return b"".join(literal(*one) for one in headers.items())


def in_message(content: bytes) -> bytes:
    """As gRPC sends it."""
    return b"\0" + len(content).to_bytes(4, "big") + content


def whole_frames(came: bytearray) -> Iterator[tuple[int, int, bytes]]:
    """Kind, flags and content of each frame that is whole; it goes from `came`."""
    while len(came) >= HEADER_BYTES and len(came) >= (end := HEADER_BYTES + int.from_bytes(came[:3], "big")):
        one = came[3], came[4], bytes(came[HEADER_BYTES:end])
        del came[:end]
        yield one


def no_windows() -> bytes:
    """What begins a connection on which no answer is taken: the windows of its calls stay at 0."""
    return PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, 0)) + frame(SETTINGS, ACK, 0, b"")


def untaken_calls(path: str, authority: str, asked: bytes, calls: int) -> bytes:
    """What begins a connection with so many calls of one message, whose windows stay at 0: no answer is taken."""
    block, message = header_block(path, authority), in_message(asked)
    each = (
        frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, END_STREAM, stream, message)
        for stream in range(1, 2 * calls, 2)
    )
    return no_windows() + b"".join(each)


def pongs(came: bytearray) -> bytes:
    """The answers to the pings in `came`, which show a server that the connection is alive; whole frames go from it."""
    return b"".join(
        frame(PING, ACK, 0, content) for kind, flags, content in whole_frames(came) if kind == PING and not flags & ACK
    )


class Unfinished:
    """Calls on a connection of their own."""

    def __init__(
        self, connection: socket.socket, address: str, method: str, size: int, count: int, said: Mapping[str, str]
    ) -> None:
        self.socket = connection
        self.socket.setblocking(False)
        block = header_block(method, address, "http", said)
        streams = range(1, 2 * count, 2)
        first = PREFACE + frame(SETTINGS, 0, 0, b"")
        first += b"".join(frame(HEADERS, END_HEADERS, stream, block) for stream in streams)
        self._outgoing = bytearray(first)
        self._incoming = bytearray()
        self._prefix = b"\0" + size.to_bytes(4, "big")
        self._size = len(self._prefix) + size - 1
        self._left = dict.fromkeys(streams, self._size)
        """Of each call that stands: how many bytes are still to send."""
        self._windows = dict.fromkeys(streams, WINDOW_BYTES)
        self._window_at_first = self._connection_window = WINDOW_BYTES

    def __len__(self) -> int:
        """How many calls stand."""
        return len(self._left)

    def move(self) -> None:
        """Reads and writes what can be, without waiting."""
        try:
            with contextlib.suppress(*NOT_NOW):
                while self:  # over TLS a selector does not see what has been decrypted
                    self._incoming += self.socket.recv(1 << 16) or self._ended()
            self._read_frames()
            self._write()
        except (ConnectionError, ssl.SSLError):
            self._ended()

    @property
    def wants_to_write(self) -> bool:
        return bool(self._outgoing) or self._next_allowed() is not None

    def _ended(self) -> bytes:
        self._left.clear()
        return b""

    def _read_frames(self) -> None:
        at = 0
        while len(self._incoming) >= at + HEADER_BYTES:
            size = int.from_bytes(self._incoming[at : at + 3], "big")
            kind, flags, stream = struct.unpack_from(">BBI", self._incoming, at + 3)
            end = at + HEADER_BYTES + size
            if len(self._incoming) < end:
                break
            self._hear(kind, flags, stream, bytes(self._incoming[at + HEADER_BYTES : end]))
            at = end
        del self._incoming[:at]

    def _hear(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == SETTINGS and not flags & ACK:
            for name, value in struct.iter_unpack(">HI", payload):
                if name == INITIAL_WINDOW_SIZE:
                    more = value - self._window_at_first
                    self._windows = {one: window + more for one, window in self._windows.items()}
                    self._window_at_first = value
            self._outgoing += frame(SETTINGS, ACK, 0, b"")
        elif kind == PING and not flags & ACK:
            self._outgoing += frame(PING, ACK, 0, payload)
        elif kind == WINDOW_UPDATE:
            (more,) = struct.unpack(">I", payload)
            if stream:
                self._windows[stream] += more
            else:
                self._connection_window += more
        elif kind == GOAWAY:
            self._ended()
        elif kind == RESET or (kind == HEADERS and flags & END_STREAM):
            self._left.pop(stream, None)

    def _next_allowed(self) -> tuple[int, int] | None:
        """A call that may send, and how many bytes."""
        for stream, left in self._left.items():
            if (allowed := min(left, self._connection_window, self._windows[stream], FRAME_BYTES)) > 0:
                return stream, allowed
        return None

    def _write(self) -> None:
        with contextlib.suppress(*NOT_NOW):
            while self._left and self.wants_to_write:
                if not self._outgoing and (found := self._next_allowed()) is not None:
                    stream, allowed = found
                    sent = self._size - self._left[stream]
                    self._outgoing += frame(DATA, 0, stream, self._prefix[sent:][:allowed].ljust(allowed, b"\0"))
                    self._left[stream] -= allowed
                    self._windows[stream] -= allowed
                    self._connection_window -= allowed
                del self._outgoing[: self.socket.send(self._outgoing)]


@contextlib.contextmanager
def unfinished_calls(
    connect: Callable[[str], socket.socket],
    address: str,
    method: str,
    size: int,
    count: int,
    on_each: int = 1,
    said: Mapping[str, str] | None = None,
) -> Generator[Callable[[int], None]]:
    """Begins so many calls with the headers `said`, `on_each` connection so many; yields what keeps them going until
    at most so many stand."""
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as opened:
        connections = {
            Unfinished(connect(address), address, method, size, on_each, said or {}) for _ in range(count // on_each)
        }
        for one in connections:
            opened.enter_context(one.socket)
            selector.register(one.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, one)

        def keep_going(left: int) -> None:
            while sum(map(len, connections)) > left:
                for key, _ in selector.select(60):
                    one: Unfinished = key.data
                    one.move()
                    if one:
                        writing = selectors.EVENT_WRITE if one.wants_to_write else 0
                        selector.modify(one.socket, selectors.EVENT_READ | writing, one)
                    else:
                        selector.unregister(one.socket)
                        connections.discard(one)

        yield keep_going
