"""The host in an address, `host:port`: a number or a name."""

import ipaddress
from typing import Final, TypeAlias

NumericHost: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

LOCALHOST: Final = "127.0.0.1"
"""What `localhost` means to this program."""


def host_of(address: str) -> str:
    """Without the brackets of IPv6."""
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    return LOCALHOST if host == "localhost" else host


def numeric(host: str) -> NumericHost | None:
    """None for a name. An IPv4 address that is written as IPv6 is an IPv4 address."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


def is_loopback(address: str) -> bool:
    """Whether only the machine itself reaches that address."""
    found = numeric(host_of(address))
    return found is not None and found.is_loopback


def is_everywhere(address: str) -> bool:
    """Whether it stands for all addresses of a machine, for a process that listens there."""
    found = numeric(host_of(address))
    return found is not None and found.is_unspecified
