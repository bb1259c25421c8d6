"""Options of gRPC: how clients connect, and how servers bound the number of connections and the silence of a peer."""

import resource
from typing import Final

from leasehold.limits.requests import CONNECTION_IDLE_NS, CONNECTIONS_MAX, HANDSHAKE_NS
from leasehold.limits.sessions import CONNECT_ATTEMPT_NS, RECONNECT_BACKOFF_MAX_NS, RECONNECT_BACKOFF_MIN_NS
from leasehold.limits.units import MILLISECOND_NS
from leasehold.wire.accepted_calls import COUNTED

CLIENT_CONNECTION_OPTIONS: Final = (
    ("grpc.initial_reconnect_backoff_ms", RECONNECT_BACKOFF_MIN_NS // MILLISECOND_NS),
    ("grpc.max_reconnect_backoff_ms", RECONNECT_BACKOFF_MAX_NS // MILLISECOND_NS),
    # Despite its name this bounds one attempt to connect, as by a lost SYN.
    ("grpc.min_reconnect_backoff_ms", CONNECT_ATTEMPT_NS // MILLISECOND_NS),
    # Each connection has its own socket and its own backoff; a proxy in the environment is not for us.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


def server_connection_options(idle_ns: int = CONNECTION_IDLE_NS, *, doors: int = 1) -> tuple[tuple[str, int], ...]:
    """Options for a server that starts now, with so many ports; it closes a connection without a call after `idle_ns`.
    A soft limit of open files that is too low for CONNECTIONS_MAX at each port is raised."""
    return (
        # A second server on one port must fail, not share it.
        ("grpc.so_reuseport", 0),
        # Of each port: gRPC closes further connections before it reads anything of them.
        ("grpc.max_allowed_incoming_connections", connections_of_door(doors)),
        # A peer that connects and says nothing, or nothing of HTTP/2.
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_NS // MILLISECOND_NS),
        # A peer that has not said yes to our settings: until then gRPC's bound on headers does not hold for it.
        ("grpc.http2.settings_timeout", HANDSHAKE_NS // MILLISECOND_NS),
        # A peer that has no call under way. gRPC's clients connect again by themselves.
        ("grpc.max_connection_idle_ms", idle_ns // MILLISECOND_NS),
        # gRPC ends a connection with too many pings, but computes on at full speed while the peer leaves it open. How
        # many bytes may come is bounded elsewhere (`wire/connection_bytes.py`).
        ("grpc.http2.max_ping_strikes", 0),
        # Bit 0 is "as it is". A compressed message is refused by its header, before it is decompressed.
        ("grpc.compression_enabled_algorithms_bitset", 1),
        COUNTED,
    )


def connections_of_door(doors: int) -> int:
    """How many connections a server that starts now takes at each of so many doors. A soft limit of open files that is
    too low for CONNECTIONS_MAX is raised."""
    return connections_max(_raise_open_files(doors), doors)


def connections_max(open_files: int, doors: int) -> int:
    """How many connections a server takes at each door if its process may have so many files open: at most half of the
    files are connections."""
    return min(CONNECTIONS_MAX, open_files // 2 // doors)


def _raise_open_files(doors: int) -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * doors * CONNECTIONS_MAX
    wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
