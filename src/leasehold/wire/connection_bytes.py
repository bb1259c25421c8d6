"""How many bytes came on a connection beyond those of its calls.

gRPC takes in what is part of no call: handshakes with large certificates, pings, settings, frames of HTTP/2 that mean
nothing. It has no bound for these, and some take twenty times their bytes in memory while they wait.

| of a connection | counts |
| --- | --- |
| what the kernel says has come | all of it |
| a call that has begun, its headers, and what gRPC takes in before anybody reads | less CONNECTION_CALL_BYTES |
| a message that was read, its frames, and what the client's gRPC says meanwhile | less twice its size and 1 KiB |
| each look, once a call has begun | less CONNECTION_LOOK_BYTES: a client may say that it is there |

What is left may be CONNECTION_UNASKED_BYTES_MAX before the first call. Above that at CONNECTION_UNASKED_LOOKS, it is
too much, and at two looks if there are many such connections. Later it may be CONNECTION_UNREAD_BYTES_MAX, since
messages may be on their way, and more if rows are written. Above that at two looks, it is too much, and above twice as
much at one.
"""

from typing import Final

import msgspec

from leasehold.limits.requests import (
    CONNECTION_LOOK_BYTES,
    CONNECTION_UNASKED_BYTES_MAX,
    CONNECTION_UNASKED_LOOKS,
    CONNECTION_UNREAD_BYTES_MAX,
)

_MESSAGE_BYTES: Final = 1024
_LOOKS: Final = 2


def bytes_of_message(size: int) -> int:
    """What a message of `size` bytes accounts for."""
    return 2 * size + _MESSAGE_BYTES


class ConnectionBytes(msgspec.Struct):
    """Of one connection."""

    received: int = 0
    """At the last look."""
    unread: int = 0
    """Those that nothing accounts for."""
    has_asked: bool = False
    heavy_looks: int = 0
    """At so many looks in a row more was left than may be."""

    def account(self, size: int) -> None:
        """A call or a message accounts for so many of the bytes that have come."""
        self.unread -= size
        self.has_asked = True

    @property
    def is_heavy_unasked(self) -> bool:
        return self.heavy_looks > 0 and not self.has_asked

    def is_too_much(self, received: int, looks: int, expected: int, *, crowded: bool = False) -> bool:
        """Looks again, once in so many looks: `received` bytes have come in all. Messages of `expected` bytes may be on
        their way, besides those that any call may have. `crowded`: many connections are heavy before their first
        call."""
        self.unread += received - self.received
        self.received = received
        if self.has_asked:
            self.unread -= looks * CONNECTION_LOOK_BYTES
        self.unread = max(0, self.unread)
        most = CONNECTION_UNREAD_BYTES_MAX + expected if self.has_asked else CONNECTION_UNASKED_BYTES_MAX
        self.heavy_looks = self.heavy_looks + 1 if self.unread > most else 0
        if self.has_asked:
            return self.heavy_looks >= _LOOKS or self.unread > 2 * most
        return self.heavy_looks >= (_LOOKS if crowded else CONNECTION_UNASKED_LOOKS)
