"""A call as the protocol sees it, what is borne of a connection, and the events of one."""

from collections import deque
from typing import Final, NamedTuple, Protocol

import msgspec

from leasehold.limits.http2 import ALLOWANCE, ALLOWANCE_OF_SECOND
from leasehold.wire.http2.frames import (
    CONTINUATION,
    ENHANCE_YOUR_CALM,
    HEADERS,
    RST_STREAM,
    SETTINGS,
    ConnectionFailed,
)
from leasehold.wire.http2.headers import Headers

COST: Final = {SETTINGS: 4, RST_STREAM: 2, HEADERS: 0, CONTINUATION: 0}
"""Of a frame that a peer says besides its calls; 1 for all others."""


class Http2Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Those in which servers differ; all others are in `limits/http2.py`."""

    streams_max: int
    """Calls of a connection at a time."""
    stream_window: int
    """What a call may send before anybody reads it."""


class Receives(Protocol):
    """Who takes what comes on a stream."""

    def came(self, piece: memoryview, *, ended: bool) -> None:
        """`piece` is valid during this call."""
        ...

    def reset(self) -> None:
        """Nothing more comes or goes."""
        ...

    def has_room(self) -> None:
        """No more than SEND_AHEAD_BYTES of it are queued."""
        ...

    def gone(self) -> None:
        """All of it has gone out."""
        ...

    def waits_for_peer(self) -> bool:
        """Whether the peer has to send or to take something."""
        ...

    def cut_off(self) -> None:
        """Takes the call back."""
        ...


class CallStream:
    """Both directions of one call."""

    __slots__ = (
        "id",
        "is_over",
        "is_ready",
        "pending",
        "pending_bytes",
        "receive_window",
        "receiver",
        "remote_ended",
        "send_window",
        "trailers",
    )

    def __init__(self, number: int, send_window: int, receive_window: int) -> None:
        self.id = number
        self.send_window = send_window
        self.receive_window = receive_window
        self.pending: deque[memoryview] = deque()
        """Data to send."""
        self.pending_bytes = 0
        self.trailers: bytes | None = None
        """The header block that ends the call once all data has gone."""
        self.remote_ended = False
        self.is_ready = False
        """Whether it waits for its turn to send."""
        self.is_over = False
        """Whether nothing of it is sent any more."""
        self.receiver: Receives | None = None

    def forget(self) -> None:
        """It is over, and what is queued is dropped."""
        self.is_over = True
        self.pending.clear()
        self.pending_bytes = 0
        self.trailers = None


class CallBegun(NamedTuple):
    """The peer has begun a call."""

    stream: CallStream
    headers: Headers


class PieceCame(NamedTuple):
    """Data of a call has come, or its end."""

    stream: CallStream
    piece: memoryview
    """Valid until the next bytes are received."""
    ended: bool


class CallReset(NamedTuple):
    """The peer has taken the call back."""

    stream: CallStream


Event = CallBegun | PieceCame | CallReset


class Allowance:
    """What a peer may still say besides its calls."""

    def __init__(self) -> None:
        self.left = ALLOWANCE

    def spend(self, kind: int, more: int = 0) -> None:
        """Raises `ConnectionFailed`."""
        self.left -= COST.get(kind, 1) + more
        if self.left < 0:
            raise ConnectionFailed(ENHANCE_YOUR_CALM, "too much besides calls")

    def earn(self, more: int) -> None:
        self.left = min(ALLOWANCE, self.left + more)

    def rested(self, seconds: float) -> None:
        self.earn(int(seconds * ALLOWANCE_OF_SECOND))
