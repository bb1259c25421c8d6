"""Queues of connections that wait to be accepted: known peers (`wire/known_peers.py`) have others than strangers.

The kernel queues the connections of a socket in order, and drops what comes to a full queue. It is full of connections
that have gone already where strangers connect faster than a server accepts. So more sockets listen at each door. For
each new connection the kernel runs a small program (classic BPF), which tells by the sender's address to which of them
it goes (`SO_ATTACH_REUSEPORT_CBPF`, socket(7)).

| socket | who comes there |
| --- | --- |
| 0, the door's own | strangers |
| 1 | members |
| 2 to KNOWN_QUEUES | users, all addresses of a user to the same one |

Known peers that connect for nothing come where strangers come (`wire/hasty_peers.py`).

Other programs of the same user that ask for it (SO_REUSEPORT) can listen at such a door too; they get no connection.
"""

import contextlib
import ctypes
import ipaddress
import logging
import socket
import struct
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from leasehold.limits.http2 import KNOWN_QUEUES, LISTEN_BACKLOG, QUEUED_PEERS_MAX

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


class KnownQueues:
    """Beside a socket that listens at a door. Without it, where the kernel can't, all share the door's own queue."""

    def __init__(self, door: socket.socket) -> None:
        self.sockets: Sequence[socket.socket] = ()
        """All but the door's own."""
        with contextlib.ExitStack() as stack:
            try:
                with socket.socket(door.family) as trial:
                    trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                    _choose(trial, {})
                made = [stack.enter_context(_beside(door)) for _ in range(KNOWN_QUEUES)]
                _choose(door, {})
            except OSError as error:
                log.warning("known hosts wait in one queue with strangers: %s", error.strerror)
                return
            stack.pop_all()
            self.sockets = made

    def sort(self, queues: Mapping[str, int]) -> None:
        """From now on new connections of these peers go to the sockets with these numbers, or of as many of the first
        ones as the kernel has room for (`net.core.optmem_max`)."""
        most = min(len(queues), QUEUED_PEERS_MAX)
        while self.sockets:
            try:
                _choose(self.sockets[0], dict(islice(queues.items(), most)))
            except OSError:
                if not most:
                    return
                most //= 2
            else:
                return


def _beside(door: socket.socket) -> socket.socket:
    """A socket that listens where this one does. Raises `OSError`."""
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made = socket.socket(door.family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an earlier process may linger
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if door.family == socket.AF_INET6:
            alone = door.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, alone)
        made.bind(door.getsockname())
        made.listen(LISTEN_BACKLOG)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


def _choose(one: socket.socket, queues: Mapping[str, int]) -> None:
    """Of the sockets that listen where this one does. Raises `OSError`."""
    steps = program(queues)
    content = ctypes.create_string_buffer(steps, len(steps))
    said = _PROGRAM.pack(len(steps) // _STEP.size, ctypes.addressof(content))
    one.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_REUSEPORT_CBPF, said)


def program(queues: Mapping[str, int]) -> bytes:
    """Answers the number of the socket for each of these peers, and 0 for all others. Sockets are counted in the order
    in which they began to listen."""
    networks = [(ipaddress.ip_network(peer), number) for peer, number in queues.items()]
    of_v6 = b"".join(_of_v6(one, number) for one, number in networks if isinstance(one, ipaddress.IPv6Network))
    of_v4 = b"".join(
        _STEP.pack(_IS, 0, 1, int(one.network_address)) + _go_to(number)
        for one, number in networks
        if isinstance(one, ipaddress.IPv4Network)
    )
    of_v6 += _go_to(0)
    version = _STEP.pack(_LOAD_BYTE, 0, 0, _PACKET) + _STEP.pack(_SHIFT_RIGHT, 0, 0, 4) + _STEP.pack(_IS, 1, 0, 6)
    over_v6 = _STEP.pack(_SKIP, 0, 0, len(of_v6) // _STEP.size)
    return version + over_v6 + of_v6 + _STEP.pack(_LOAD_WORD, 0, 0, _SENDER_V4) + of_v4 + _go_to(0)


def _of_v6(one: ipaddress.IPv6Network, number: int) -> bytes:
    high, low = struct.unpack_from("!II", one.network_address.packed)
    return (
        _STEP.pack(_LOAD_WORD, 0, 0, _SENDER_V6)
        + _STEP.pack(_IS, 0, 3, high)
        + _STEP.pack(_LOAD_WORD, 0, 0, _SENDER_V6 + 4)
        + _STEP.pack(_IS, 0, 1, low)
        + _go_to(number)
    )


def _go_to(number: int) -> bytes:
    return _STEP.pack(_RETURN, 0, 0, number)
