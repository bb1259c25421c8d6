"""A Flight server with a scripted service behind it, and calls to it by hand."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import grpc
import pyarrow as pa
import pytest
from pyarrow import flight

from leasehold.core.access.callers import Caller
from leasehold.errors import Fenced, LeaseholdError
from leasehold.wire.flight import from_flight
from leasehold.wire.flight_calls import Incoming
from leasehold.wire.flight_server import SERVICE, FlightServer, Outgoing

KNOWN = b"known"
OTHER = b"other"
KINDS = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False, metadata={b"PARQUET:field_id": b"1"}),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("d", pa.decimal128(38, 3)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("raw", pa.binary()),
        ("f", pa.float32()),
    ]
)


def rows(start: int, count: int) -> pa.RecordBatch:
    numbers = range(start, start + count)
    return pa.RecordBatch.from_pydict(
        {
            "k": list(numbers),
            "s": [f"row {n}" if n % 3 else None for n in numbers],
            "b": [n % 2 == 0 for n in numbers],
            "d": [None if n % 5 == 0 else n for n in numbers],
            "at": list(numbers),
            "raw": [bytes([n % 256]) * (n % 7) for n in numbers],
            "f": [n / 2 for n in numbers],
        },
        KINDS,
    )


class Service:
    """Answers a ticket with what `script` says; keeps what a client sends."""

    actions: Mapping[str, str] = {"one": "the first", "two": "the second"}

    def __init__(self) -> None:
        self.script: Callable[[], Iterator[tuple[pa.RecordBatch, bytes | None]]] = lambda: iter([])
        self.tickets: list[bytes] = []
        self.sent: list[tuple[pa.RecordBatch | None, bytes | None]] = []
        self.schema: pa.Schema | None = None
        self.ended = threading.Event()

    def check_counts(self, caller: Caller | None, /) -> None:
        pass

    def who_calls(self, said: bytes, caller: Caller | None) -> str | None:
        return {KNOWN: "somebody", OTHER: "somebody else"}.get(said)

    def get(self, ticket: bytes, caller: Caller | None) -> Outgoing:
        self.tickets.append(ticket)
        if ticket == b"refuse":
            raise Fenced("node 7 is fenced", hint="ask another")
        return Outgoing(KINDS, self._batches())

    def _batches(self) -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
        try:
            yield from self.script()
        finally:
            self.ended.set()

    def put(self, command: bytes, incoming: Incoming, caller: Caller | None) -> Iterator[bytes]:
        try:
            self.tickets.append(command)
            self.schema = incoming.schema
            for one in incoming:
                self.sent.append((one.batch, one.metadata))
            yield b"%d" % len(self.sent)
        finally:
            self.ended.set()

    def act(self, action: str, body: bytes, caller: Caller | None) -> bytes:
        return action.upper().encode()


class Served:
    def __init__(self, **limits: int) -> None:
        self.service = Service()
        self.faults: list[BaseException] = []
        self.server = FlightServer(self.service, listen="127.0.0.1:0", on_fault=self.faults.append, **limits)
        self.client = flight.FlightClient(f"grpc://{self.server.address}")

    def raw(self) -> grpc.Channel:
        return grpc.insecure_channel(self.server.address, options=[("grpc.max_send_message_length", -1)])

    def refusal(self, call: Callable[[], object]) -> LeaseholdError:
        with pytest.raises((flight.FlightError, pa.ArrowException, OSError)) as caught:
            call()
        return from_flight(caught.value, self.server.address)


@contextmanager
def serving(**limits: int) -> Iterator[Served]:
    made = Served(**limits)
    yield made
    made.client.close()
    made.server.close()
    assert made.faults == []


def status(call: Callable[[], Any]) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code()


def call(channel: grpc.Channel, method: str, *messages: bytes, **more: Any) -> list[bytes]:
    return list(channel.stream_stream(SERVICE + method)(iter(messages), timeout=30, **more))


def failure_of(make: Callable[[], Any]) -> str:
    with pytest.raises(grpc.RpcError) as caught:
        make()
    details = caught.value.details()
    assert details is not None
    return details
