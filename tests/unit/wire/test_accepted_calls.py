"""How many calls gRPC has accepted, by its own counters."""

import asyncio
import contextlib
import socket

import grpc
import grpc.aio
from tests.attacks.unfinished import ACK, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, frame, header_block
from tests.e2e.waiting import wait_until

from leasehold.wire.accepted_calls import COUNTED, AcceptedCalls
from leasehold.wire.own_sockets import FarEnd

CONNECTIONS = 120
"""More than gRPC tells of at once."""
CALLS = 3


class _Method(grpc.GenericRpcHandler):
    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        async def handler(_frames: object, _context: object) -> bytes:
            return b""

        return grpc.stream_unary_rpc_method_handler(handler)


def calls() -> bytes:
    block = header_block("/a/b", "x", "http")
    begun = [frame(HEADERS, END_HEADERS | END_STREAM, 1 + 2 * one, block) for one in range(CALLS)]
    return PREFACE + frame(SETTINGS, 0, 0, b"") + frame(SETTINGS, ACK, 0, b"") + b"".join(begun)


async def test_calls_count_before_they_are_begun_until_they_have_ended() -> None:
    async with contextlib.AsyncExitStack() as stack:
        servers = [grpc.aio.server(options=[COUNTED]) for _ in range(2)]
        for one in servers:
            one.add_generic_rpc_handlers((_Method(),))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        servers[0].add_insecure_port("127.0.0.1:0")
        servers[1].add_insecure_port(f"127.0.0.1:{port}")
        for one in servers:
            await one.start()
            stack.push_async_callback(one.stop, None)
        accepted = AcceptedCalls(port)
        assert accepted.of_all() == 0
        made = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(CONNECTIONS)]
        for one in made:
            one.sendall(calls())
        # The loop stands still, so that no handler begins.
        wait_until(lambda: accepted.of_all() == CONNECTIONS * CALLS)
        assert accepted.of_connections() == {FarEnd(*one.getsockname()): (CALLS, CALLS) for one in made}
        await asyncio.to_thread(wait_until, lambda: not any(one.open for one in accepted.of_connections().values()))
        assert {one.in_all for one in accepted.of_connections().values()} == {CALLS}
