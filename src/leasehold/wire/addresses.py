"""Addresses to listen on: on this machine alone while there is no TLS, and free."""

import errno
import ipaddress
import re
import socket
from collections.abc import Callable
from typing import Final

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings

LOCALHOST: Final = "127.0.0.1"
"""What `localhost` means to this program."""
_ADDRESS: Final = re.compile("(?P<host>.+):(?P<port>[0-9]{1,5})", re.DOTALL)


def loopback(address: str) -> tuple[str, int]:
    """The host, as a numeric loopback address, and the port of `address`."""
    written = _ADDRESS.fullmatch(address)
    if written is None or int(written["port"]) > 65_535:
        raise BadSettings(
            f"{address!r} is not an address to listen on", hint="write host:port, such as 127.0.0.1:7400 or [::1]:7400"
        )
    host, port = written["host"], int(written["port"])
    if host == "localhost":
        return LOCALHOST, port
    try:
        numeric = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        numeric = None
    if numeric is None or not numeric.is_loopback:
        raise BadSettings(
            f"can't listen on {address}: this version has no TLS, so it serves only this machine",
            hint="use 127.0.0.1, ::1 or localhost",
        )
    return str(numeric), port


def host_port(host: str, port: int) -> str:
    """The two as one text, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def probe(address: str) -> None:
    """Binds and lets go, since gRPC does not say why it can't bind. Raises `BadSettings` with the reason."""
    host, port = loopback(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as test:
        test.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            test.bind((host, port))
        except OSError as error:
            raise not_bound(address, error) from error


def bind(address: str, add_port: Callable[[str], int]) -> str:
    """Makes a gRPC server listen at `address`; the address with the port that was picked. Raises `BadSettings`."""
    host, port = loopback(address)
    try:
        return host_port(host, add_port(host_port(host, port)))
    except RuntimeError as error:
        # Another process took the port since `probe`.
        raise _port_in_use(address) from error


def not_bound(address: str, error: OSError) -> BadSettings:
    if error.errno == errno.EADDRINUSE:
        return _port_in_use(address)
    return BadSettings(f"can't listen on {address}: {error.strerror}", hint="choose another address or port")


def _port_in_use(address: str) -> BadSettings:
    return BadSettings(
        f"can't listen on {address}: another process listens there",
        code=ErrorCode.PORT_IN_USE,
        hint="stop that process, or choose another port; port 0 chooses a free port",
    )
