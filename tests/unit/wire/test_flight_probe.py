"""Asking whether a node answers, of peers that answer oddly."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from leasehold.limits.units import SECOND_NS
from leasehold.wire.clock import sleep_ns
from leasehold.wire.flight import is_answering


class Refusing(grpc.GenericRpcHandler):
    """Ends each call with the status that is set."""

    status = grpc.StatusCode.CANCELLED

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        def refuse(_request: bytes, context: Any) -> Iterator[bytes]:
            context.abort(self.status, "as the test says")
            yield b""

        return grpc.unary_stream_rpc_method_handler(refuse)


@pytest.mark.parametrize(
    ("status", "answers"),
    [
        (grpc.StatusCode.CANCELLED, False),
        (grpc.StatusCode.UNAVAILABLE, False),
        (grpc.StatusCode.UNIMPLEMENTED, True),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, True),
    ],
)
def test_a_peer_that_refuses_or_cancels_ends_no_process(status: grpc.StatusCode, answers: bool) -> None:
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: interrupts.append(number))
    server = grpc.server(ThreadPoolExecutor(2))
    refusing = Refusing()
    refusing.status = status
    server.add_generic_rpc_handlers((refusing,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(is_answering, f"127.0.0.1:{port}", 5 * SECOND_NS).result() is answers
        sleep_ns(1)  # Python runs its handlers between two steps of this thread
        assert interrupts == []
    finally:
        server.stop(None)
        signal.signal(signal.SIGINT, before)
