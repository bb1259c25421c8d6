"""Addresses to listen on: on this machine alone while there is no TLS, and free."""

import errno
import ipaddress
import socket
from typing import Final

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings

LOCALHOST: Final = "127.0.0.1"
"""What `localhost` means to this program."""


def loopback(address: str) -> tuple[str, int]:
    """The host, as a numeric loopback address, and the port of `address`."""
    host, colon, digits = address.rpartition(":")
    if (
        not colon
        or not host
        or not (digits.isascii() and digits.isdigit() and len(digits) <= 5)
        or int(digits) > 65_535
    ):
        raise BadSettings(
            f"{address!r} is not an address to listen on", hint="write host:port, such as 127.0.0.1:7400 or [::1]:7400"
        )
    if host == "localhost":
        return LOCALHOST, int(digits)
    try:
        numeric = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        numeric = None
    if numeric is None or not numeric.is_loopback:
        raise BadSettings(
            f"can't listen on {address}: this version has no TLS, so it serves only this machine",
            hint="use 127.0.0.1, ::1 or localhost",
        )
    return str(numeric), int(digits)


def probe(host: str, port: int, address: str) -> None:
    """Binds and lets go, since gRPC does not say why it can't bind. Raises `BadSettings` with the reason."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as test:
        test.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            test.bind((host, port))
        except OSError as error:
            raise not_bound(address, error) from error


def not_bound(address: str, error: OSError) -> BadSettings:
    """The error for an address that can't be bound."""
    if error.errno == errno.EADDRINUSE:
        return port_in_use(address)
    return BadSettings(f"can't listen on {address}: {error.strerror}", hint="choose another address or port")


def port_in_use(address: str) -> BadSettings:
    """The error for it."""
    return BadSettings(
        f"can't listen on {address}: another process listens there",
        code=ErrorCode.PORT_IN_USE,
        hint="stop that process, or choose another port; port 0 chooses a free port",
    )
