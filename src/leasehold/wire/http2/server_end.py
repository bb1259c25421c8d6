"""The server's end of a connection of HTTP/2 (RFC 9113) without I/O: bytes in, events out.

From the first byte on, whatever the peer has acknowledged:

- a header block, with its CONTINUATION frames, has at most HEADER_BLOCK_BYTES_MAX, and a frame that says that it is
  longer ends the connection before it is taken in;
- of a call come at most the bytes that were granted; before the peer has acknowledged that, of all calls together the
  65,535 that it may send then;
- a call beyond `streams_max` is refused, and counts until both sides have ended it;
- what a peer says besides its calls is paid for (`Allowance`).

DATA is handed out in pieces as it comes, and never gathered here.
"""

from leasehold.limits.http2 import (
    CALLS_AT_ONCE,
    CONNECTION_WINDOW_BYTES,
    DATA_FRAME_BYTES_MAX,
    HEADER_BLOCK_BYTES_MAX,
    HEADER_LIST_BYTES_MAX,
)
from leasehold.wire.http2 import frames
from leasehold.wire.http2.frames import (
    ACK,
    CANCEL,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    FRAME_BYTES_MIN,
    FRAME_SIZE_ERROR,
    GOAWAY,
    HAS_PRIORITY,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    MAX_HEADER_LIST_SIZE,
    NO_ERROR,
    PADDED,
    PING,
    PING_BYTES,
    PREFACE,
    PREFIX,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    RST_STREAM,
    SETTING,
    SETTINGS,
    STREAM_CLOSED,
    STREAM_MAX,
    WINDOW_DEFAULT,
    WINDOW_MAX,
    WORD,
    ConnectionFailed,
    frame,
    word,
)
from leasehold.wire.http2.headers import HeaderDecoder
from leasehold.wire.http2.outgoing import OutgoingFrames
from leasehold.wire.http2.streams import (
    Allowance,
    CallBegun,
    CallReset,
    CallStream,
    Event,
    Http2Limits,
    PieceCame,
)

_DATA_SMALL_BYTES = 64
_SETTINGS_MAX = 32
"""Of one frame; there are six."""
_STREAMS_PER_COST = 16
_EARNED_BY_CALL = 8
_EARNED_BY_FRAME = 4
"""For data that is sent: the peer says that it has room again, for the call and for all."""
_PADDING = 1
_PRIORITY = 5


class ServerEnd:
    """Of one connection."""

    def __init__(self, limits: Http2Limits) -> None:
        self.streams: dict[int, CallStream] = {}
        """Calls that have not ended."""
        self.begun = 0
        """How many calls there have been."""
        self.has_acknowledged = False
        """Whether the peer knows our settings."""
        self.out = OutgoingFrames()
        self.allowance = Allowance()
        self._limits = limits
        self._last = 0
        self._window = WINDOW_DEFAULT
        """Of all calls. Until the peer has acknowledged our settings it believes in this one, for each call too."""
        self._decoder = HeaderDecoder()
        self._has_begun = False
        self._kept = b""
        self.has_more = False
        """Whether it keeps whole frames for the next time."""
        self._block: bytearray | None = None
        self._block_of = self._block_flags = 0
        self._data_left = self._padding_left = 0
        self._data_of: CallStream | None = None
        self._data_ends = False
        self._is_leaving = False
        ours = {
            MAX_CONCURRENT_STREAMS: limits.streams_max,
            INITIAL_WINDOW_SIZE: limits.stream_window,
            MAX_FRAME_SIZE: DATA_FRAME_BYTES_MAX,
            MAX_HEADER_LIST_SIZE: HEADER_LIST_BYTES_MAX,
        }
        self.out.control(frame(SETTINGS, 0, 0, b"".join(SETTING.pack(*one) for one in ours.items())))

    def receive(self, chunk: memoryview) -> list[Event]:
        """What came means this, up to CALLS_AT_ONCE calls: then it `has_more`. Raises `ConnectionFailed`."""
        events: list[Event] = []
        begun_max, self.has_more = self.begun + CALLS_AT_ONCE, False
        if self._kept:
            chunk = memoryview(self._kept + chunk)
            self._kept = b""
        at, end = 0, len(chunk)
        if not self._has_begun:
            at = self._preface(chunk)
            if not at:
                return events
        while at < end:
            if self.begun >= begun_max:
                self._kept, self.has_more = bytes(chunk[at:]), True
                break
            if self._data_left:
                at = self._piece(chunk, at, events)
            elif self._padding_left:
                skipped = min(self._padding_left, end - at)
                self._padding_left -= skipped
                at += skipped
            elif (after := self._begin(chunk, at, events)) == at:
                self._kept = bytes(chunk[at:])
                break
            else:
                at = after
        return events

    def _preface(self, chunk: memoryview) -> int:
        """Where it ends; 0 if it is not whole yet."""
        head = bytes(chunk[: len(PREFACE)])
        if not PREFACE.startswith(head):
            raise ConnectionFailed(PROTOCOL_ERROR, "not HTTP/2")
        if len(head) < len(PREFACE):
            self._kept = head
            return 0
        self._has_begun = True
        return len(PREFACE)

    def _begin(self, chunk: memoryview, at: int, events: list[Event]) -> int:
        """Reads a frame, or the beginning of one of DATA; answers where that ends, or `at` if more has to come."""
        if len(chunk) - at < PREFIX.size:
            return at
        high, low, kind, flags, number = PREFIX.unpack_from(chunk, at)
        length, number = high << 8 | low, number & STREAM_MAX
        begin = at + PREFIX.size
        if kind == DATA:
            if flags & PADDED and len(chunk) == begin:
                return at
            padding = chunk[begin] + _PADDING if flags & PADDED else 0
            self._data(length, padding, flags, number, events)
            return begin + bool(padding)
        if length > HEADER_BLOCK_BYTES_MAX:
            raise ConnectionFailed(ENHANCE_YOUR_CALM, f"a frame of kind {kind} with {length} bytes")
        if len(chunk) - begin < length:
            return at
        self._frame(kind, flags, number, chunk[begin : begin + length], events)
        return begin + length

    def _data(self, length: int, padding: int, flags: int, number: int, events: list[Event]) -> None:
        """A frame of DATA begins, with so much padding, its length included."""
        if self._block is not None or not 0 < number <= self._last:
            raise ConnectionFailed(PROTOCOL_ERROR, "DATA where none belongs")
        if length > DATA_FRAME_BYTES_MAX or padding > length:
            raise ConnectionFailed(FRAME_SIZE_ERROR, "DATA of a size that is none")
        self._window -= length
        if self._window < 0:
            raise ConnectionFailed(FLOW_CONTROL_ERROR, "more than the window of the connection")
        if self.has_acknowledged:
            self._widen()
        stream = self.streams.get(number)
        if stream is not None:
            if stream.remote_ended:
                raise ConnectionFailed(STREAM_CLOSED, "DATA after the end")
            stream.receive_window -= length
            if stream.receive_window < 0:
                raise ConnectionFailed(FLOW_CONTROL_ERROR, "more than the window of the call")
        self._data_of, self._data_ends = stream, bool(flags & END_STREAM)
        self._padding_left = max(0, padding - _PADDING)
        self._data_left = length - padding
        if self._data_left < _DATA_SMALL_BYTES and not self._data_ends:
            self.allowance.spend(DATA)
        if self._data_left == 0 and self._data_ends and stream is not None:
            stream.remote_ended = True
            events.append(PieceCame(stream, memoryview(b""), True))

    def _piece(self, chunk: memoryview, at: int, events: list[Event]) -> int:
        piece = chunk[at : at + self._data_left]
        self._data_left -= len(piece)
        stream = self._data_of
        if stream is not None and not stream.is_over:
            stream.remote_ended = self._data_ends and not self._data_left
            events.append(PieceCame(stream, piece, stream.remote_ended))
        return at + len(piece)

    def _frame(self, kind: int, flags: int, number: int, payload: memoryview, events: list[Event]) -> None:
        is_inside = self._block is not None
        if is_inside != (kind == CONTINUATION) or (is_inside and number != self._block_of):
            raise ConnectionFailed(PROTOCOL_ERROR, "a header block is broken off")
        self.allowance.spend(kind)
        match kind:
            case frames.HEADERS:
                self._headers(flags, number, payload, events)
            case frames.CONTINUATION:
                self._continuation(flags, payload, events)
            case frames.WINDOW_UPDATE:
                self._window_update(number, word(payload) & WINDOW_MAX)
            case frames.SETTINGS:
                self._settings(flags, payload)
            case frames.PING:
                if len(payload) != PING_BYTES:
                    raise ConnectionFailed(FRAME_SIZE_ERROR, "a PING of another size")
                if not flags & ACK:
                    self.out.control(frame(PING, ACK, 0, bytes(payload)))
            case frames.RST_STREAM:
                word(payload)  # whatever the reason
                self._reset(number, events)
            case frames.PUSH_PROMISE:
                raise ConnectionFailed(PROTOCOL_ERROR, "a client can't push")
            case _:  # PRIORITY, GOAWAY, and what nobody knows: they change nothing here
                pass

    def _headers(self, flags: int, number: int, payload: memoryview, events: list[Event]) -> None:
        begin, end = 0, len(payload)
        if flags & PADDED:
            begin, end = _PADDING, end - payload[0] if end else -1
        if flags & HAS_PRIORITY:
            begin += _PRIORITY
        if begin > end or not number & 1:
            raise ConnectionFailed(PROTOCOL_ERROR, "HEADERS that are none")
        self._block, self._block_of, self._block_flags = bytearray(payload[begin:end]), number, flags
        if flags & END_HEADERS:
            self._call(events)

    def _continuation(self, flags: int, payload: memoryview, events: list[Event]) -> None:
        assert self._block is not None, "`_frame` has looked"
        if not payload or len(self._block) + len(payload) > HEADER_BLOCK_BYTES_MAX:
            raise ConnectionFailed(ENHANCE_YOUR_CALM, "a header block over our bound")
        self._block += payload
        if flags & END_HEADERS:
            self._call(events)

    def _call(self, events: list[Event]) -> None:
        """A header block is whole."""
        block, number, ends = bytes(self._block or b""), self._block_of, bool(self._block_flags & END_STREAM)
        self._block = None
        headers = self._decoder.decode(block)  # also of a call that is refused: the next block may refer to it
        stream = self.streams.get(number)
        if stream is not None:
            if not ends or stream.remote_ended:
                raise ConnectionFailed(PROTOCOL_ERROR, "a call has one header block")
            stream.remote_ended = True
            events.append(PieceCame(stream, memoryview(b""), True))
            return
        if number <= self._last:
            self.allowance.spend(RST_STREAM)  # it has ended here
            return
        self._last = number
        self.begun += 1
        if len(self.streams) >= self._limits.streams_max or self._is_leaving:
            self.allowance.spend(RST_STREAM)
            self.out.control(frame(RST_STREAM, 0, number, WORD.pack(REFUSED_STREAM)))
            return
        window = self._limits.stream_window if self.has_acknowledged else WINDOW_DEFAULT
        stream = CallStream(number, self.out.peer_window, window)
        stream.remote_ended = ends
        self.streams[number] = stream
        events.append(CallBegun(stream, headers))

    def _settings(self, flags: int, payload: memoryview) -> None:
        if flags & ACK:
            self._acknowledged()
            return
        if len(payload) % SETTING.size or len(payload) > _SETTINGS_MAX * SETTING.size:
            raise ConnectionFailed(FRAME_SIZE_ERROR, "SETTINGS of a size that is none")
        self.allowance.spend(PING, len(self.streams) // _STREAMS_PER_COST)  # each call may get another window
        for key, value in dict(SETTING.iter_unpack(payload)).items():
            if key == INITIAL_WINDOW_SIZE:
                self.out.peer_window_is(value, self.streams.values())
            elif key == MAX_FRAME_SIZE:
                if not FRAME_BYTES_MIN <= value < 2**24:
                    raise ConnectionFailed(PROTOCOL_ERROR, "a frame size out of bounds")
                self.out.peer_frame_max = value
        self.out.control(frame(SETTINGS, ACK, 0))

    def _acknowledged(self) -> None:
        if not self.has_acknowledged:
            self.has_acknowledged = True
            for stream in self.streams.values():
                stream.receive_window += self._limits.stream_window - WINDOW_DEFAULT
            self._widen()

    def _widen(self) -> None:
        """Keeps the window of all calls at least half open."""
        if self._window < CONNECTION_WINDOW_BYTES // 2:
            self.out.grant(0, CONNECTION_WINDOW_BYTES - self._window)
            self._window = CONNECTION_WINDOW_BYTES

    def _window_update(self, number: int, more: int) -> None:
        stream = self.streams.get(number)
        if number == 0:
            self.out.may_send(more)
        elif stream is not None and not self.out.may_send_on(stream, more):
            raise ConnectionFailed(FLOW_CONTROL_ERROR, "the window of a call over its bound")

    def _reset(self, number: int, events: list[Event]) -> None:
        stream = self.streams.pop(number, None)
        if stream is not None:
            self.out.forget(stream)
            events.append(CallReset(stream))
        elif not 0 < number <= self._last:
            raise ConnectionFailed(PROTOCOL_ERROR, "RST_STREAM of no call")

    # What the server says.

    def grant(self, stream: CallStream, size: int) -> None:
        """Lets so many more bytes of the call come."""
        if not stream.remote_ended and not stream.is_over and size > 0:
            stream.receive_window += size
            self.out.grant(stream.id, size)
            self.allowance.earn(1 + size // 1024)

    def reset(self, stream: CallStream, code: int = CANCEL) -> None:
        if self.streams.pop(stream.id, None) is not None:
            self.out.forget(stream)
            self.out.control(frame(RST_STREAM, 0, stream.id, WORD.pack(code)))

    def refuse(self, stream: CallStream) -> None:
        """It is no call of ours. Raises `ConnectionFailed`."""
        self.allowance.spend(RST_STREAM)
        self.reset(stream, PROTOCOL_ERROR)

    def ping(self) -> None:
        self.out.control(frame(PING, 0, 0, bytes(PING_BYTES)))

    def warn(self) -> None:
        """The peer begins no further calls here; those that are on their way are taken."""
        self.out.control(frame(GOAWAY, 0, 0, WORD.pack(STREAM_MAX) + WORD.pack(NO_ERROR)))

    def leave(self, code: int = NO_ERROR, why: str = "") -> None:
        """Takes no further calls."""
        self._is_leaving = True
        self.out.control(frame(GOAWAY, 0, 0, WORD.pack(self._last) + WORD.pack(code) + why.encode()))

    def take(self, most: int) -> list[bytes | memoryview]:
        """Buffers to send, and which calls have gone is in `out.ended` then."""
        taken = self.out.take(most)
        self.allowance.earn(_EARNED_BY_FRAME * self.out.sent_frames)
        for stream in self.out.ended:
            self.streams.pop(stream.id, None)
            self.allowance.earn(_EARNED_BY_CALL)
        return taken
