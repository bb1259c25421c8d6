"""Peers whose new connections never reach the server, which takes all that the kernel has for it.

A second socket listens at each door and takes no connection. For each new connection the kernel runs a small program
(classic BPF), which says to which of the two it goes (`SO_ATTACH_REUSEPORT_CBPF`, socket(7)). So a connection of a peer
that is kept out costs this process next to nothing: the first one waits in the kernel, which drops further ones, and is
closed at the next look.
"""

import contextlib
import ctypes
import ipaddress
import logging
import os
import socket
import struct
from collections.abc import Iterable
from itertools import islice
from typing import Final

from leasehold.limits.bans import KEPT_OUT_MAX

log = logging.getLogger(__name__)

_SO_ATTACH_REUSEPORT_CBPF: Final = 51
_STEP: Final = struct.Struct("=HBBI")
"""What to do, how many steps to skip if it holds and if not, and a number (linux/filter.h)."""
_PROGRAM: Final = struct.Struct("HL")
"""How many steps, and where."""
_LOAD_BYTE: Final = 0x30
_LOAD_WORD: Final = 0x20
_SHIFT_RIGHT: Final = 0x74
_SKIP: Final = 0x05
_IS: Final = 0x15
_RETURN: Final = 0x06
_PACKET: Final = -0x100000 & 0xFFFF_FFFF
"""Where its header begins, whose first four bits are the version of IP."""
_SENDER_V4: Final = _PACKET + 12
_SENDER_V6: Final = _PACKET + 8
_TO_GRPC: Final = _STEP.pack(_RETURN, 0, 0, 0)
_TO_NOBODY: Final = _STEP.pack(_RETURN, 0, 0, 1)
"""The sockets by number, in the order in which they listened."""


class KeptOut:
    """At the doors where these sockets listen, by their numbers as files."""

    def __init__(self, listening: Iterable[int]) -> None:
        self._beside: list[socket.socket] = []
        self._peers = frozenset[str]()
        try:
            for number in listening:
                self._beside.append(_beside(number))
        except OSError as error:
            self.close()
            log.warning("new connections of peers that flood this process are closed late: %s", error.strerror)

    def replace(self, peers: frozenset[str]) -> None:
        """From now on these are kept out, or as many of them as the kernel has room for (`net.core.optmem_max`)."""
        for one in self._beside:
            _close_waiting(one)
        if peers == self._peers:
            return
        self._peers, most = peers, KEPT_OUT_MAX
        while most:
            try:
                for one in self._beside:
                    _choose(one, frozenset(islice(peers, most)))
            except OSError:
                most //= 2
            else:
                return

    def close(self) -> None:
        """Idempotent."""
        while self._beside:
            self._beside.pop().close()


def _beside(number: int) -> socket.socket:
    """A socket that listens where this one does, and gets no connection yet. Raises `OSError`."""
    with socket.socket(fileno=os.dup(number)) as there:
        there.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made = socket.socket(there.family, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an earlier process may linger
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if there.family == socket.AF_INET6:
                alone = there.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, alone)
            made.bind(there.getsockname())
            made.listen(0)
            made.setblocking(False)
            _choose(made, frozenset())
        except OSError:
            made.close()
            raise
        return made


def _choose(beside: socket.socket, kept_out: frozenset[str]) -> None:
    steps = program(kept_out)
    content = ctypes.create_string_buffer(steps, len(steps))
    said = _PROGRAM.pack(len(steps) // _STEP.size, ctypes.addressof(content))
    beside.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_REUSEPORT_CBPF, said)


def _close_waiting(beside: socket.socket) -> None:
    """The connection that this socket has."""
    with contextlib.suppress(OSError):
        beside.accept()[0].close()


def program(kept_out: Iterable[str]) -> bytes:
    """Sends connections of these peers to nobody, of IPv6 by the first half of the address."""
    networks = [ipaddress.ip_network(one) for one in kept_out]
    of_v6 = b"".join(_of_v6(one) for one in networks if isinstance(one, ipaddress.IPv6Network)) + _TO_GRPC
    of_v4 = b"".join(
        _STEP.pack(_IS, 0, 1, int(one.network_address)) + _TO_NOBODY
        for one in networks
        if isinstance(one, ipaddress.IPv4Network)
    )
    version = _STEP.pack(_LOAD_BYTE, 0, 0, _PACKET) + _STEP.pack(_SHIFT_RIGHT, 0, 0, 4) + _STEP.pack(_IS, 1, 0, 6)
    over_v6 = _STEP.pack(_SKIP, 0, 0, len(of_v6) // _STEP.size)
    return version + over_v6 + of_v6 + _STEP.pack(_LOAD_WORD, 0, 0, _SENDER_V4) + of_v4 + _TO_GRPC


def _of_v6(one: ipaddress.IPv6Network) -> bytes:
    high, low = struct.unpack_from("!II", one.network_address.packed)
    return (
        _STEP.pack(_LOAD_WORD, 0, 0, _SENDER_V6)
        + _STEP.pack(_IS, 0, 3, high)
        + _STEP.pack(_LOAD_WORD, 0, 0, _SENDER_V6 + 4)
        + _STEP.pack(_IS, 0, 1, low)
        + _TO_NOBODY
    )
