"""The doors of a server: where it listens, what it shows there, and who may come."""

import socket
from collections.abc import Sequence
from typing import NamedTuple

from leasehold.limits.requests import CONNECTIONS_PER_PEER_MAX
from leasehold.wire.connections import connections_of_door
from leasehold.wire.http2.door_server import ContextNow
from leasehold.wire.http2.listening import listen_at_doors
from leasehold.wire.tls import CallerNames, TlsSource, context_of


class OpenDoors(NamedTuple):
    """Of a server that starts now."""

    address: str
    sockets: Sequence[tuple[socket.socket, ContextNow | None]]
    names: CallerNames
    connections_max: int
    """At each door."""
    per_peer_max: int | None
    """Of one peer. Without TLS all peers are on this machine, and share all."""


def open_doors(listen: str, tls: TlsSource | None) -> OpenDoors:
    """Listens at `host:port`, over TLS at two doors. Raises as `listen_at_doors`."""
    contexts = (None,) if tls is None else (context_of(tls, asks=True), context_of(tls, asks=False))
    address, sockets = listen_at_doors(listen, with_tls=tls is not None)
    return OpenDoors(
        address,
        tuple(zip(sockets, contexts, strict=True)),
        CallerNames(tls, listen),
        connections_of_door(len(sockets)),
        None if tls is None else CONNECTIONS_PER_PEER_MAX,
    )
