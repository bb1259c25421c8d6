"""Peers of a server: an address of IPv4, or the first half of one of IPv6, whose second half is free to choose."""

import ipaddress
from functools import lru_cache
from urllib.parse import unquote

from leasehold.limits.requests import PEERS_CACHED_MAX


@lru_cache(maxsize=PEERS_CACHED_MAX)
def peer_of(host: str) -> str:
    """The peer with this numeric address. Each call asks for it."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((int(address), 64), strict=False))


def calling_peer(said: str) -> str:
    """The peer of a call, from the name of its connection: `ipv4:192.0.2.1:50051` or `ipv6:%5B2001:db8::1%5D:50051`.
    Empty if that is none."""
    try:
        return peer_of(unquote(said).partition(":")[2].rpartition(":")[0].strip("[]"))
    except ValueError:
        return ""


def connection_name(host: str, port: int) -> str:
    """As gRPC calls the peer of a connection. One of IPv4 as itself, also where it was said in IPv6."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    if isinstance(address, ipaddress.IPv6Address) and mapped is None:
        return f"ipv6:%5B{address}%5D:{port}"
    return f"ipv4:{mapped or address}:{port}"
