"""The address that asks: set by the transport for each call, read by whoever gives each address its share."""

from contextvars import ContextVar
from typing import Final

PEER: Final[ContextVar[str]] = ContextVar("PEER", default="")
"""The caller's address without its port, as in `ipv4:127.0.0.1`; empty where the transport does not say."""


def set_peer(address: str) -> None:
    """Notes the caller of the running task, from gRPC's `ipv4:127.0.0.1:53422`."""
    PEER.set(address.rpartition(":")[0])
