"""A service learns which address calls."""

from collections.abc import AsyncIterator

import pytest

from leasehold.core.words.messages import Message, WhoAreYou
from leasehold.errors import Refused
from leasehold.limits.units import SECOND_NS
from leasehold.wire.ports import PEER, Duplex
from leasehold.wire.rpc import serve
from leasehold.wire.rpc_client import GrpcTransport


class Notes:
    def __init__(self) -> None:
        self.peers: list[str] = []

    async def call(self, request: Message) -> Message:
        self.peers.append(PEER.get())
        return request

    def stream(self, request: Message) -> AsyncIterator[Message]:
        raise Refused(f"no streams of {request}")

    async def session(self, duplex: Duplex) -> None:
        raise Refused(f"no sessions, {duplex}")


@pytest.mark.parametrize(
    ("address", "peer"), [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::/64")], ids=["IPv4", "IPv6"]
)
async def test_connections_of_one_address_are_one_peer(address: str, peer: str) -> None:
    notes = Notes()
    server = await serve(address, notes, on_fault=lambda _fault: None)
    connections = [GrpcTransport().connect(server.address) for _ in range(2)]
    try:
        for one in connections:
            await one.call(WhoAreYou(), timeout_ns=10 * SECOND_NS)
    finally:
        for one in connections:
            await one.close()
        await server.close()
    assert notes.peers == [peer, peer]
    assert PEER.get() == ""
