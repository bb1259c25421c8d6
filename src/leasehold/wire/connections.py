"""Options of gRPC: how clients connect. And how many connections a server takes."""

import resource
from typing import Final

from leasehold.limits.requests import CONNECTIONS_MAX
from leasehold.limits.sessions import CONNECT_ATTEMPT_NS, RECONNECT_BACKOFF_MAX_NS, RECONNECT_BACKOFF_MIN_NS
from leasehold.limits.units import MILLISECOND_NS

CLIENT_CONNECTION_OPTIONS: Final = (
    ("grpc.initial_reconnect_backoff_ms", RECONNECT_BACKOFF_MIN_NS // MILLISECOND_NS),
    ("grpc.max_reconnect_backoff_ms", RECONNECT_BACKOFF_MAX_NS // MILLISECOND_NS),
    # Despite its name this bounds one attempt to connect, as by a lost SYN.
    ("grpc.min_reconnect_backoff_ms", CONNECT_ATTEMPT_NS // MILLISECOND_NS),
    # Each connection has its own socket and its own backoff; a proxy in the environment is not for us.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


def connections_of_door(doors: int) -> int:
    """How many connections a server that starts now takes at each of so many doors. A soft limit of open files that is
    too low for CONNECTIONS_MAX is raised."""
    return connections_max(_raise_open_files(doors), doors)


def connections_max(open_files: int, doors: int) -> int:
    """How many connections that are no member's a server takes at each door if its process may have so many files open:
    at most half of the files are such connections."""
    return min(CONNECTIONS_MAX, open_files // 2) // doors


def _raise_open_files(doors: int) -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * doors * CONNECTIONS_MAX
    wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
