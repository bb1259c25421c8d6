"""A connection that made its handshake and then makes no call is closed, at both kinds of servers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from inspect import signature
from typing import cast

import pytest
from tests.unit.wire import served_flight
from tests.unit.wire.http2.frames_read import frames_in

from leasehold.limits.requests import CONNECTION_IDLE_NS
from leasehold.limits.units import MILLISECOND_NS
from leasehold.wire.flight_server import FlightServer
from leasehold.wire.ports import Service
from leasehold.wire.rpc import serve

IDLE_NS = 100 * MILLISECOND_NS
SETTINGS, GOAWAY = 4, 7
HANDSHAKE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, SETTINGS, 0, 0, 0, 0, 0])
"""HTTP/2 as a client begins it: its preface and a frame of settings, none of which differs from the default."""


def refuse(fault: BaseException) -> None:
    raise AssertionError from fault


@asynccontextmanager
async def coordinator() -> AsyncIterator[str]:
    server = await serve("127.0.0.1:0", cast("Service", None), on_fault=refuse, idle_ns=IDLE_NS)
    yield server.address
    await server.close()


@asynccontextmanager
async def node() -> AsyncIterator[str]:
    server = FlightServer(served_flight.Service(), listen="127.0.0.1:0", on_fault=refuse, idle_ns=IDLE_NS)
    yield server.address
    await asyncio.to_thread(server.close)


@pytest.mark.parametrize("serving", [coordinator, node])
async def test_a_connection_without_a_call_is_closed(serving: Callable[[], AbstractAsyncContextManager[str]]) -> None:
    async with serving() as address, asyncio.timeout(30):
        host, port = address.rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port))
        with contextlib.closing(writer):
            writer.write(HANDSHAKE)
            frames = [kind for kind, *_ in frames_in(await reader.read())]
        assert frames[0] == SETTINGS, "the server has made the handshake too"
        assert GOAWAY in frames, "the server has told that it closes it"


@pytest.mark.parametrize("make", [FlightServer, serve])
def test_unless_told_otherwise_it_has_its_bound(make: Callable[..., object]) -> None:
    assert signature(make).parameters["idle_ns"].default == CONNECTION_IDLE_NS
