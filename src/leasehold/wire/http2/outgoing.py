"""What a connection has to send. It is pulled (`take`), so a driver that can't write takes nothing. Control frames go
first; data goes in turns of its calls, as the windows of the peer allow."""

from collections import deque
from collections.abc import Iterable

from leasehold.limits.http2 import SEND_AHEAD_BYTES
from leasehold.wire.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    FLOW_CONTROL_ERROR,
    FRAME_BYTES_MIN,
    HEADERS,
    NO_ERROR,
    RST_STREAM,
    WINDOW_DEFAULT,
    WINDOW_MAX,
    WINDOW_UPDATE,
    WORD,
    ConnectionFailed,
    frame,
    prefix,
)
from leasehold.wire.http2.streams import CallStream


class OutgoingFrames:
    """Of one connection."""

    def __init__(self) -> None:
        self.peer_window = WINDOW_DEFAULT
        """What the peer takes of a call before it says more."""
        self.peer_frame_max = FRAME_BYTES_MIN
        self.ended: list[CallStream] = []
        """Calls that have gone out whole."""
        self.drained: list[CallStream] = []
        """Calls that have moved, and have little queued."""
        self.sent_frames = 0
        """Of data, when something was taken last."""
        self.control_bytes = 0
        """That wait to be taken."""
        self._window = WINDOW_DEFAULT
        self._control: list[bytes | memoryview] = []
        self._ready: deque[CallStream] = deque()
        """Calls with data, and room for it."""
        self._ending: deque[CallStream] = deque()
        """Calls whose data has gone: a status needs no window."""

    def control(self, content: bytes) -> None:
        self._control.append(content)
        self.control_bytes += len(content)

    def grant(self, number: int, size: int) -> None:
        """Lets so many more bytes come on a stream, or on all together where `number` is 0."""
        if size > 0:
            self.control(frame(WINDOW_UPDATE, 0, number, WORD.pack(size)))

    def headers(self, stream: CallStream, block: bytes) -> None:
        self.control(frame(HEADERS, END_HEADERS, stream.id, block))

    def data(self, stream: CallStream, *parts: memoryview) -> None:
        """Queues data; the parts must not change until they have been taken and sent."""
        stream.pending.extend(parts)
        stream.pending_bytes += sum(map(len, parts))
        self._ready_if(stream)

    def trailers(self, stream: CallStream, block: bytes) -> None:
        """Ends a stream, after what is queued. Without headers before it, this is the whole answer."""
        stream.trailers = block
        self._ready_if(stream)

    def peer_window_is(self, size: int, streams: Iterable[CallStream]) -> None:
        """Of all calls, also of those that have begun. Raises `ConnectionFailed`."""
        if size > WINDOW_MAX:
            raise ConnectionFailed(FLOW_CONTROL_ERROR, "a window over its bound")
        for stream in streams:
            stream.send_window += size - self.peer_window
            self._ready_if(stream)
        self.peer_window = size

    def may_send(self, more: int) -> None:
        """On all calls together. Raises `ConnectionFailed`."""
        self._window += more
        if not more or self._window > WINDOW_MAX:
            raise ConnectionFailed(FLOW_CONTROL_ERROR, "a window over its bound")

    def may_send_on(self, stream: CallStream, more: int) -> bool:
        """Whether its window is one."""
        stream.send_window += more
        self._ready_if(stream)
        return stream.send_window <= WINDOW_MAX

    def has_any(self) -> bool:
        return bool(self._control or self._ending) or (bool(self._ready) and self._window > 0)

    def take(self, most: int) -> list[bytes | memoryview]:
        """Buffers to send in order, with about `most` bytes of data."""
        taken, self._control = self._control, []
        self.sent_frames = self.control_bytes = sent = 0
        while self._ready and self._window > 0 and sent < most:
            stream = self._ready.popleft()
            stream.is_ready = False
            size = min(stream.pending_bytes, stream.send_window, self._window, self.peer_frame_max, most - sent)
            if size <= 0:
                continue  # the peer has made its window smaller
            taken.append(prefix(size, DATA, 0, stream.id))
            self._move(stream, size, taken)
            sent += size
            self.sent_frames += 1
            self._ready_if(stream)
            if stream.pending_bytes <= SEND_AHEAD_BYTES:
                self.drained.append(stream)
        while self._ending:
            stream = self._ending.popleft()
            assert stream.trailers is not None, "so it is among them"
            taken.append(_last(stream, stream.trailers))
            stream.is_over = True
            self.ended.append(stream)
        return taken

    def _move(self, stream: CallStream, size: int, taken: list[bytes | memoryview]) -> None:
        stream.pending_bytes -= size
        stream.send_window -= size
        self._window -= size
        while size:
            part = stream.pending[0]
            if len(part) <= size:
                taken.append(stream.pending.popleft())
                size -= len(part)
            else:
                taken.append(part[:size])
                stream.pending[0] = part[size:]
                size = 0

    def forget(self, stream: CallStream) -> None:
        if stream.is_ready:
            (self._ready if stream.pending_bytes else self._ending).remove(stream)
            stream.is_ready = False
        stream.forget()

    def _ready_if(self, stream: CallStream) -> None:
        has_any = stream.send_window > 0 if stream.pending_bytes else stream.trailers is not None
        if has_any and not stream.is_ready and not stream.is_over:
            stream.is_ready = True
            (self._ready if stream.pending_bytes else self._ending).append(stream)


def _last(stream: CallStream, trailers: bytes) -> bytes:
    last = frame(HEADERS, END_HEADERS | END_STREAM, stream.id, trailers)
    if stream.remote_ended:
        return last
    return last + frame(RST_STREAM, 0, stream.id, WORD.pack(NO_ERROR))  # the rest need not come (RFC 9113, 8.1)
