"""Ports on the loopback interface for processes that come back to them."""

import contextlib
import secrets
import socket
from typing import Final

LOOPBACK: Final = "127.0.0.1"
LASTING: Final = range(20_000, 32_000)
"""Below the ports that systems give to connections."""


def lasting_ports(count: int) -> list[int]:
    """So many that nobody listens on now, and that no connection gets while the process at one of them is away."""
    found: list[int] = []
    with contextlib.ExitStack() as probes:
        while len(found) < count:
            probe = probes.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind((LOOPBACK, secrets.choice(LASTING)))
                found.append(int(probe.getsockname()[1]))
    return found
