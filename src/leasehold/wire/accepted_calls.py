"""How many calls gRPC has accepted, by its own counters (channelz), whether or not a handler has begun them."""

import base64
import ipaddress
import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from grpc._cython import cygrpc  # the package grpcio-channelz asks the same functions and parses the answers once more

from leasehold.wire.backlog import CallsOfConnection, calls_of_far_ends
from leasehold.wire.own_sockets import FarEnd, plain

COUNTED: Final = ("grpc.enable_channelz", 1)
"""The option of a server whose calls are counted."""


class AcceptedCalls:
    """Of the server that was made last to listen at this port. gRPC does not say which of its servers is which."""

    def __init__(self, port: int) -> None:
        found = [one for one in _pages(cygrpc.channelz_get_servers, "server") if f"{port}" in _ports(one)]
        self._server = max(int(one["ref"]["serverId"]) for one in found)

    def of_all(self) -> int:
        """Since the server was made."""
        answer = json.loads(cygrpc.channelz_get_server(self._server))
        return int(answer["server"]["data"].get("callsStarted", 0))

    def of_connections(self) -> dict[FarEnd, CallsOfConnection]:
        """Those of each connection that is open. It takes some 0.2 ms for each."""
        found = _pages(lambda start: cygrpc.channelz_get_server_sockets(self._server, start, 0), "socketRef")
        return calls_of_far_ends(filter(None, (_of_socket(int(one["socketId"])) for one in found)))


def _pages(ask: Callable[[int], bytes], key: str) -> Iterator[dict[str, Any]]:
    """All of a list that gRPC tells in pages, each from a number on."""
    start, is_last = 0, False
    while not is_last:
        page = json.loads(ask(start))
        found = page.get(key, [])
        yield from found
        is_last = page.get("end", False) or not found
        start = 1 + max((int(one.get("socketId") or one["ref"]["serverId"]) for one in found), default=0)


def _ports(server: dict[str, Any]) -> list[str]:
    return [one.get("name", "").rpartition(":")[2] for one in server.get("listenSocket", [])]


def _of_socket(number: int) -> tuple[FarEnd, CallsOfConnection] | None:
    """None for one that has been closed meanwhile."""
    try:
        told = json.loads(cygrpc.channelz_get_socket(number))["socket"]
        far = told["remote"]["tcpipAddress"]
        address = ipaddress.ip_address(base64.b64decode(far["ipAddress"]))
    except (KeyError, ValueError):
        return None
    accepted, well, badly = (int(told["data"].get(f"streams{one}", 0)) for one in ("Started", "Succeeded", "Failed"))
    return FarEnd(plain(address), int(far["port"])), CallsOfConnection(accepted, accepted - well - badly)
