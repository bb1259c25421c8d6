"""Addresses to listen on: on this machine alone without TLS, and free."""

import errno
import re
import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Final

from leasehold.core.words.addresses import LOCALHOST, numeric
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings
from leasehold.limits.requests import PORT_PAIRS_TRIED

EVERY_IPV6: Final = "::"
"""All addresses of this machine, for a process that listens there; those of IPv4 too."""
PORT_MAX: Final = 65_535
_ADDRESS: Final = re.compile("(?P<host>.+):(?P<port>[0-9]{1,5})", re.DOTALL)


def split(address: str) -> tuple[str, int]:
    """The host, numeric or a name, and the port of `address`. Raises `BadSettings`."""
    written = _ADDRESS.fullmatch(address)
    if written is None or int(written["port"]) > PORT_MAX:
        raise BadSettings(
            f"{address!r} is not an address to listen on", hint="write host:port, such as 127.0.0.1:7400 or [::1]:7400"
        )
    host = written["host"].removeprefix("[").removesuffix("]")
    return LOCALHOST if host == "localhost" else host, int(written["port"])


def loopback(address: str) -> tuple[str, int]:
    """The host, as a numeric loopback address, and the port of `address`. Raises `BadSettings`."""
    host, port = split(address)
    found = numeric(host)
    if found is None or not found.is_loopback:
        raise BadSettings(
            f"can't listen on {address}: without TLS a process serves only its own machine",
            hint="give it a certificate with --tls; or use 127.0.0.1, ::1 or localhost",
        )
    return str(found), port


def anywhere(address: str) -> tuple[str, int]:
    """As `loopback`, for a server with TLS and for gossip: any numeric address."""
    host, port = split(address)
    found = numeric(host)
    if found is None:
        raise BadSettings(
            f"can't listen on {address}: a name may stand for several addresses",
            hint="write a numeric address of this machine, or 0.0.0.0 or [::] for all",
        )
    return str(found), port


def next_port(address: str) -> str:
    host, port = split(address)
    return host_port(host, port + 1)


def host_port(host: str, port: int) -> str:
    """The two as one text, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextmanager
def held(host: str, port: int) -> Generator[int]:
    """Binds the port, or any for 0, which nobody else gets inside the block; a server of this process can listen there.
    Raises `BadSettings` with the reason."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((host, port))
        except OSError as error:
            raise not_bound(host_port(host, port), error) from error
        yield int(one.getsockname()[1])


@contextmanager
def two_held(host: str, port: int) -> Generator[int]:
    """As `held`, of the port and the next one."""
    if port == PORT_MAX:
        raise BadSettings(f"{host_port(host, port)} has no next port, which TLS needs", hint="choose a lower port")
    with ExitStack() as ports:  # those that were tried stay held, so that none of them is found again
        for left in reversed(range(PORT_PAIRS_TRIED)):
            found = ports.enter_context(held(host, port))
            try:
                ports.enter_context(held(host, found + 1))
            except (BadSettings, OverflowError):
                if port != 0 or left == 0:
                    raise
            else:
                yield found
                return


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
