"""How many bytes came on a connection beyond those of its calls.

A server takes in what is part of no call: handshakes with large certificates, pings, settings, frames of HTTP/2 that
mean nothing.

| of a connection | counts |
| --- | --- |
| what the kernel says has come | all of it |
| a call that has begun, its headers, and what the server takes in before anybody reads | less CONNECTION_CALL_BYTES |
| a message that was read, its frames, and what the client's gRPC says meanwhile | less twice its size and 1 KiB |
| each look, once a call has begun | less CONNECTION_LOOK_BYTES: a client may say that it is there |

What is left may be CONNECTION_UNASKED_BYTES_MAX before the first call. Above that at CONNECTION_UNASKED_LOOKS, or above
CONNECTION_FLOOD_BYTES, it is too much. All such connections together may have CONNECTIONS_UNASKED_BYTES_MAX. Later it
may be CONNECTION_UNREAD_BYTES_MAX, since messages may be on their way, and more if rows are written. Above that at two
looks, it is too much, and above twice as much at one.

It also takes time for calls that it refuses by itself, which nobody here sees. So what comes without end is a fault
of its peer (`wire/bans.py`): the bytes of a connection that has more than CONNECTION_THIN_BYTES_MAX, once this has
grown at more than CONNECTION_GROWING_LOOKS. Before the first call that is CONNECTION_UNASKED_SMALL_BYTES, and
CONNECTION_UNASKED_GROWING_LOOKS. Here a call counts as CONNECTION_THIN_CALL_BYTES alone, and a client may say a little
for all that it is sent.
"""

from typing import Final, NamedTuple

import msgspec

from leasehold.limits.requests import (
    CONNECTION_CALL_BYTES,
    CONNECTION_FLOOD_BYTES,
    CONNECTION_GROWING_LOOKS,
    CONNECTION_LOOK_BYTES,
    CONNECTION_SENT_SHARE,
    CONNECTION_THIN_BYTES_MAX,
    CONNECTION_THIN_CALL_BYTES,
    CONNECTION_THIN_LOOK_BYTES,
    CONNECTION_UNASKED_BYTES_MAX,
    CONNECTION_UNASKED_GROWING_LOOKS,
    CONNECTION_UNASKED_LOOKS,
    CONNECTION_UNASKED_SMALL_BYTES,
    CONNECTION_UNREAD_BYTES_MAX,
)

_MESSAGE_BYTES: Final = 1024
_LOOKS: Final = 2


class Accounted(NamedTuple):
    """The bytes that calls and messages account for; `thin` is without what comes of a call unasked."""

    size: int
    thin: int

    def __add__(self, other: object) -> "Accounted":
        assert isinstance(other, Accounted)
        return Accounted(self.size + other.size, self.thin + other.thin)


A_CALL: Final = Accounted(CONNECTION_CALL_BYTES, CONNECTION_THIN_CALL_BYTES)
NOTHING: Final = Accounted(0, 0)


def of_message(size: int) -> Accounted:
    """What a message of `size` bytes accounts for."""
    return Accounted(2 * size + _MESSAGE_BYTES, 2 * size + _MESSAGE_BYTES)


class ConnectionBytes(msgspec.Struct):
    """Of one connection."""

    received: int = 0
    """At the last look."""
    unread: int = 0
    """Those that nothing accounts for."""
    has_asked: bool = False
    heavy_looks: int = 0
    """At so many looks in a row more was left than may be."""
    sent: int = 0
    """At the last look."""
    thin: int = 0
    """As `unread`, if a call counts little."""
    growing_looks: int = 0
    """At so many looks `thin` grew while it was more than it may be."""

    def account(self, said: Accounted) -> None:
        self.unread -= said.size
        self.thin -= said.thin
        self.has_asked = True

    def without_end(self, received: int, sent: int, looks: int, expected: int) -> int:
        """The bytes since the last look that are a fault; looks again before `is_too_much` does."""
        before = max(0, self.thin)
        self.thin += received - self.received - looks * CONNECTION_THIN_LOOK_BYTES
        self.thin = max(0, self.thin - max(0, sent - self.sent) // CONNECTION_SENT_SHARE)  # 0 once it is shut down
        self.sent = sent
        grown = self.thin - before
        most = CONNECTION_THIN_BYTES_MAX + expected if self.has_asked else CONNECTION_UNASKED_SMALL_BYTES
        looks_max = CONNECTION_GROWING_LOOKS if self.has_asked else CONNECTION_UNASKED_GROWING_LOOKS
        self.growing_looks = 0 if self.thin <= most else self.growing_looks + (grown > 0)
        return grown if self.growing_looks > looks_max else 0

    @property
    def unasked(self) -> int:
        """Bytes before the first call, unless they are few."""
        return 0 if self.has_asked or self.unread <= CONNECTION_UNASKED_SMALL_BYTES else self.unread

    @property
    def is_flood(self) -> bool:
        """Whether it is more than a client can send before its first call has begun."""
        return self.unasked > CONNECTION_FLOOD_BYTES

    def is_too_much(self, received: int, looks: int, expected: int) -> bool:
        """Looks again, once in so many looks: `received` bytes have come in all. Messages of `expected` bytes may be on
        their way, besides those that any call may have."""
        self.unread += received - self.received
        self.received = received
        if self.has_asked:
            self.unread -= looks * CONNECTION_LOOK_BYTES
        self.unread = max(0, self.unread)
        most = CONNECTION_UNREAD_BYTES_MAX + expected if self.has_asked else CONNECTION_UNASKED_BYTES_MAX
        self.heavy_looks = self.heavy_looks + 1 if self.unread > most else 0
        if self.has_asked:
            return self.heavy_looks >= _LOOKS or self.unread > 2 * most
        return self.heavy_looks >= CONNECTION_UNASKED_LOOKS or self.is_flood
