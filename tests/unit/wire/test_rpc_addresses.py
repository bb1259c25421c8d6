"""A server listens on this machine alone, on a port that is free, and says what else is wrong."""

import asyncio
import socket
from typing import cast

import grpc.aio
import pytest

from leasehold.core.words.messages import WhoAreYou
from leasehold.errors import BadSettings, Unreachable
from leasehold.ids import is_hex_128
from leasehold.limits.units import SECOND_NS
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.ports import Service
from leasehold.wire.rpc import serve
from leasehold.wire.rpc_client import GrpcTransport

NO_SERVICE = cast("Service", None)


def refuse(fault: BaseException) -> None:
    raise AssertionError from fault


@pytest.mark.parametrize(
    "address", ["0.0.0.0:0", "10.0.0.1:7400", "[::]:0", "example.org:80", "128.0.0.1:0", "[::2]:1"]
)
async def test_other_machines_may_not_connect_without_tls(address: str) -> None:
    with pytest.raises(BadSettings, match="without TLS") as caught:
        await serve(address, NO_SERVICE, on_fault=refuse)
    assert address in caught.value.text
    assert caught.value.hint


@pytest.mark.parametrize("address", ["", "7400", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", ":80"])
async def test_what_is_no_address_is_named(address: str) -> None:
    with pytest.raises(BadSettings, match="not an address"):
        await serve(address, NO_SERVICE, on_fault=refuse)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "localhost", "[::1]"])
async def test_loopback_addresses_are_served_and_connectable(host: str) -> None:
    server = await serve(f"{host}:0", NO_SERVICE, on_fault=refuse)
    shown, _colon, port = server.address.rpartition(":")
    assert int(port) > 0
    _reader, writer = await asyncio.open_connection(shown.strip("[]"), int(port))
    writer.close()
    await writer.wait_closed()
    await server.close()


async def test_a_port_that_another_process_listens_on_is_named() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(BadSettings) as caught:
            await serve(address, NO_SERVICE, on_fault=refuse)
    assert caught.value.code == "PORT_IN_USE"
    assert address in caught.value.text
    assert caught.value.hint


async def test_a_server_of_something_else_is_told_from_one_that_does_not_answer() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    connection = GrpcTransport().connect(f"127.0.0.1:{port}")
    try:
        with pytest.raises(Unreachable, match="the process that listens there is not a coordinator"):
            await connection.call(WhoAreYou(), timeout_ns=SECOND_NS * 10)
    finally:
        await connection.close()
        await server.stop(None)


def test_entropy_draws_128_bits() -> None:
    drawn = {SystemEntropy().hex_128() for _ in range(1000)}
    assert len(drawn) == 1000
    assert all(is_hex_128(one) for one in drawn)
