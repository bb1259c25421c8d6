"""The sockets of a server's doors."""

import socket
from contextlib import suppress
from typing import Final

from leasehold.limits.http2 import LISTEN_BACKLOG
from leasehold.wire.addresses import anywhere, host_port, loopback, not_bound, two_held

_TCP_CLOSE: Final = 7
_TCP_CLOSE_WAIT: Final = 8
"""States of linux/tcp_states.h: the peer has reset the connection, or sends nothing more. The first byte of TCP_INFO
tells it."""


def listen_at_doors(address: str, *, with_tls: bool) -> tuple[str, list[socket.socket]]:
    """Listens at `host:port`, over TLS at the next port too; answers the address with the port that was picked for 0,
    and the sockets. Without TLS it listens on loopback alone.

    Raises `BadSettings`: code PORT_IN_USE where another process listens there, BAD_SETTINGS for an address that is not
    one of this machine.
    """
    if not with_tls:
        host, port = loopback(address)
        one = _listening(host, port)
        return host_port(host, one.getsockname()[1]), [one]
    host, port = anywhere(address)
    with two_held(host, port) as found:
        sockets = [_listening(host, found)]
        try:
            sockets.append(_listening(host, found + 1))
        except BaseException:
            sockets[0].close()
            raise
    return host_port(host, found), sockets


def has_gone(accepted: socket.socket) -> bool:
    """Whether the peer has ended the connection. The loop does not see that while it reads nothing."""
    return accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in (_TCP_CLOSE, _TCP_CLOSE_WAIT)


def _listening(host: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if made.family == socket.AF_INET6:
            with suppress(OSError):
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.bind((host, port))
        made.listen(LISTEN_BACKLOG)
        made.setblocking(False)
    except OSError as error:
        made.close()
        raise not_bound(host_port(host, port), error) from error
    return made
