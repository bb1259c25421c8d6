"""The Flight server over plain gRPC, with pyarrow's own client before it."""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pyarrow as pa
import pytest
from pyarrow import flight

from leasehold.errors import Fenced, LeaseholdError, Refused
from leasehold.limits.flight import (
    FLIGHT_MESSAGE_BYTES_MAX,
    FLIGHT_PART_BYTES,
    FLIGHT_RECEIVED_BYTES_MAX,
    FLIGHT_STRANGERS_OPENING_MAX,
    FLIGHT_STRANGERS_WAITING_MAX,
    TICKET_BYTES_MAX,
)
from leasehold.limits.units import SECOND_NS
from leasehold.wire.flight import CALLER_HEADER, from_flight, send, within
from leasehold.wire.flight_codec import write_field
from leasehold.wire.flight_server import SERVICE, FlightServer, Incoming, Outgoing

KNOWN = b"known"
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

    def knows(self, caller: bytes) -> bool:
        return caller == KNOWN

    def get(self, ticket: bytes) -> Outgoing:
        self.tickets.append(ticket)
        if ticket == b"refuse":
            raise Fenced("node 7 is fenced", hint="ask another")
        return Outgoing(KINDS, self._batches())

    def _batches(self) -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
        try:
            yield from self.script()
        finally:
            self.ended.set()

    def put(self, command: bytes, incoming: Incoming) -> Iterator[bytes]:
        try:
            self.tickets.append(command)
            self.schema = incoming.schema
            for one in incoming:
                self.sent.append((one.batch, one.metadata))
            yield b"%d" % len(self.sent)
        finally:
            self.ended.set()

    def act(self, action: str) -> bytes:
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


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as made:
        yield made


# ---------------------------------------------------------------- what pyarrow's client sees


@pytest.mark.parametrize("count", [0, 1, 7, 1_000, 60_000])
def test_batches_of_all_types_arrive_with_their_messages_as_they_were(served: Served, count: int) -> None:
    whole = rows(0, 2 * count + 3)
    batches = [rows(0, count), whole.slice(1, count), whole.slice(count)]
    served.service.script = lambda: iter([(batches[0], b"first"), (batches[1], None), (batches[2], b"x" * 300)])
    found = list(served.client.do_get(flight.Ticket(b"t" * 200), within(30 * SECOND_NS)))
    assert served.service.tickets == [b"t" * 200]
    assert [one.app_metadata and one.app_metadata.to_pybytes() for one in found] == [b"first", None, b"x" * 300]
    for one, batch in zip(found, batches, strict=True):
        assert one.data.schema.equals(KINDS, check_metadata=True)
        one.data.validate(full=True)
        assert one.data.equals(batch)


@pytest.mark.parametrize("count", [1, 10, 100, 1_000, 30_000, 200_000])
def test_a_client_gets_aligned_buffers(served: Served, count: int) -> None:
    """Arrow's own engine warns of each buffer that is not."""
    served.service.script = lambda: iter([(rows(0, count + 1), b"x" * size) for size in range(9)])
    value_bytes = {"k": 8, "s": 4, "d": 8, "at": 8, "raw": 4, "f": 4}
    for one in served.client.do_get(flight.Ticket(b""), within(30 * SECOND_NS)):
        for name, size in value_bytes.items():
            assert one.data.column(name).buffers()[1].address % size == 0


def test_large_batches_are_sent_so_that_the_client_copies_nothing(served: Served) -> None:
    served.service.script = lambda: iter([(rows(0, 100_000), b"x" * size) for size in range(9)])
    for one in served.client.do_get(flight.Ticket(b"")):
        addresses = [buffer.address for column in one.data.columns for buffer in column.buffers() if buffer]
        assert [address % 8 for address in addresses] == [0] * len(addresses)


def test_what_a_client_puts_arrives_and_is_answered(served: Served) -> None:
    writer, answers = served.client.do_put(flight.FlightDescriptor.for_command(b"command"), KINDS)
    writer.write_batch(rows(0, 5_000))
    writer.write_with_metadata(rows(5_000, 1), b"beside")
    writer.write_batch(rows(0, 0))
    writer.write_metadata(b"alone")
    writer.done_writing()
    assert answers.read().to_pybytes() == b"4"
    writer.close()
    assert served.service.tickets == [b"command"]
    assert served.service.schema is not None
    assert served.service.schema.equals(KINDS, check_metadata=True)
    assert served.service.sent == [
        (rows(0, 5_000), None),
        (rows(5_000, 1), b"beside"),
        (rows(0, 0), None),
        (None, b"alone"),
    ]
    for batch, _ in served.service.sent:
        for column in batch.columns if batch is not None else ():
            assert all(buffer.address % 16 % 8 == 0 for buffer in column.buffers() if buffer)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed_rows_within_the_bound_are_read(served: Served, codec: str) -> None:
    options = flight.FlightCallOptions(write_options=pa.ipc.IpcWriteOptions(compression=codec))
    writer, answers = served.client.do_put(flight.FlightDescriptor.for_command(b""), KINDS, options)
    writer.write_batch(rows(0, 5_000))
    writer.done_writing()
    assert answers.read().to_pybytes() == b"1"
    writer.close()
    assert served.service.sent == [(rows(0, 5_000), None)]


def test_actions_are_listed_and_answered(served: Served) -> None:
    assert [(one.type, one.description) for one in served.client.list_actions()] == [*Service.actions.items()]
    (answer,) = served.client.do_action(flight.Action("one", b"a body"))
    assert answer.body.to_pybytes() == b"ONE"


def test_a_refusal_arrives_whole_before_and_after_batches(served: Served) -> None:
    def breaks() -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
        yield rows(0, 3), None
        raise Refused("in the middle", code="SOME_CODE", hint="a hint")

    served.service.script = breaks
    early = served.refusal(lambda: served.client.do_get(flight.Ticket(b"refuse")).read_all())
    assert isinstance(early, Fenced)
    assert (early.text, early.hint) == ("node 7 is fenced", "ask another")
    reader = served.client.do_get(flight.Ticket(b""))
    assert reader.read_chunk().data.num_rows == 3
    late = served.refusal(reader.read_chunk)
    assert (late.code, late.text, late.hint) == ("SOME_CODE", "in the middle", "a hint")


def test_a_deadline_ends_a_stream_for_both(served: Served) -> None:
    released = threading.Event()

    def waits() -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
        yield rows(0, 1), None
        released.wait(20)
        yield rows(1, 1), None

    served.service.script = waits
    reader = served.client.do_get(flight.Ticket(b""), within(SECOND_NS // 2))
    assert reader.read_chunk().data.num_rows == 1
    assert served.refusal(reader.read_chunk).code == "TIMED_OUT"
    released.set()
    assert served.service.ended.wait(20)


def test_a_client_that_cancels_ends_the_handler(served: Served) -> None:
    def forever() -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
        while True:
            yield rows(0, 10_000), None

    served.service.script = forever
    reader = served.client.do_get(flight.Ticket(b""))
    reader.read_chunk()
    reader.cancel()
    assert served.service.ended.wait(20)


# ---------------------------------------------------------------- what others send


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


def test_a_compressed_call_is_refused_before_it_is_decompressed(served: Served) -> None:
    bomb = write_field(1, bytes(TICKET_BYTES_MAX // 2))
    with served.raw() as channel:
        for method in ("DoGet", "DoPut", "DoAction"):
            for kind in (grpc.Compression.Gzip, grpc.Compression.Deflate):
                code = status(lambda method=method, kind=kind: call(channel, method, bomb, compression=kind))
                assert code is grpc.StatusCode.UNIMPLEMENTED
    assert served.service.tickets == []


def test_a_message_over_its_bound_is_refused(served: Served) -> None:
    with served.raw() as channel:
        over = bytes(TICKET_BYTES_MAX + 2_048)
        for method in ("DoGet", "DoAction"):
            assert failure_of(lambda method=method: call(channel, method, over)) == "BAD_TICKET"
        over = bytes(FLIGHT_RECEIVED_BYTES_MAX + 1)
        for method in ("DoGet", "DoAction", "DoPut"):
            code = status(lambda method=method: call(channel, method, over))
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert served.service.tickets == []


@pytest.mark.parametrize("sizes", [[FLIGHT_PART_BYTES + 1], [3 * FLIGHT_PART_BYTES, 7, 2 * FLIGHT_PART_BYTES]])
def test_a_row_larger_than_a_message_arrives_in_its_place(served: Served, sizes: list[int]) -> None:
    schema = pa.schema([("raw", pa.binary()), ("n", pa.int64())])
    values = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    sent = pa.record_batch({"raw": values, "n": range(len(values))}, schema)
    writer, answers = served.client.do_put(flight.FlightDescriptor.for_command(b""), schema)
    send(writer, sent)
    writer.write_metadata(b"alone")
    writer.done_writing()
    answers.read()
    writer.close()
    *batches, last = served.service.sent
    assert last == (None, b"alone")
    assert pa.Table.from_batches([batch for batch, _ in batches]).combine_chunks().to_batches() == [sent]


def put_raw(served: Served, *metadata: bytes) -> str:
    begin = write_field(1, write_field(2, b"c")) + write_field(2, KINDS.serialize().to_pybytes()[8:])
    with served.raw() as channel:
        return failure_of(lambda: call(channel, "DoPut", begin, *(write_field(3, one) for one in metadata)))


def test_pieces_are_joined_within_a_bound(served: Served) -> None:
    def announced(size: int) -> bytes:
        return b"\xc1" + size.to_bytes(8, "big")

    assert put_raw(served, announced(2 * FLIGHT_MESSAGE_BYTES_MAX), b"x") == "ROWS_DO_NOT_FIT"
    assert put_raw(served, announced(0)) == "BAD_MESSAGE"
    assert put_raw(served, b"\xc1") == "BAD_MESSAGE"
    assert put_raw(served, announced(2), b"abc") == "BAD_MESSAGE"
    assert put_raw(served, announced(2), b"a", b"") == "BAD_MESSAGE"
    assert put_raw(served, announced(3), b"a") == "BROKEN_STREAM"
    assert put_raw(served, announced(3), b"\xff" * 3) == "BAD_MESSAGE"
    assert served.service.sent == []


@pytest.mark.parametrize(
    "garbled",
    [b"\xff", b"\x0a", b"\x0a\x05abc", b"\xff" * 20, b"\x0b", b"\x0d\x01", b"\x08\x01" * 100, b"\x0a\x80\x80\x80"],
)
def test_garbled_messages_are_refused(served: Served, garbled: bytes) -> None:
    with served.raw() as channel:
        for method in ("DoGet", "DoPut", "DoAction"):
            assert failure_of(lambda method=method: call(channel, method, garbled)) == "BAD_MESSAGE"


@pytest.mark.parametrize("header", [b"", b"\x00" * 8, b"\xff" * 64, b"\x10\x00\x00\x00"])
def test_a_garbled_header_is_refused_as_schema_and_as_batch(served: Served, header: bytes) -> None:
    schema = KINDS.serialize().to_pybytes()[8:]
    command = write_field(1, write_field(2, b"c"))
    with served.raw() as channel:
        assert failure_of(lambda: call(channel, "DoPut", command + write_field(2, header))) == "BAD_MESSAGE"
        told = failure_of(lambda: call(channel, "DoPut", command + write_field(2, schema), write_field(2, header)))
        assert told == "BAD_MESSAGE"


def test_unknown_methods_are_refused_without_waiting_for_a_message(served: Served) -> None:
    released = threading.Event()

    def nothing() -> Iterator[bytes]:
        released.wait(20)
        yield from ()

    with served.raw() as channel:
        assert failure_of(lambda: list(channel.stream_stream(SERVICE + "DoExchange")(nothing()))) == "BAD_CALL"
        assert status(lambda: list(channel.stream_stream("/other/Method")(nothing()))) is grpc.StatusCode.UNIMPLEMENTED
    released.set()


class HalfOpen:
    """A call that sends its headers and no message."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._released = threading.Event()
        self.ended = threading.Event()
        self.call: Any = channel.stream_stream(SERVICE + "DoPut")(self._nothing())
        self.call.add_done_callback(lambda _: self.ended.set())

    def _nothing(self) -> Iterator[bytes]:
        self._released.wait(600)
        yield from ()

    def close(self) -> None:
        self._released.set()
        self.call.cancel()


def test_a_call_that_sends_nothing_is_ended() -> None:
    with serving(call_opening_ns=SECOND_NS // 10) as served, served.raw() as channel:
        half = HalfOpen(channel)
        assert half.ended.wait(30)
        assert half.call.code() is grpc.StatusCode.CANCELLED
        half.close()


def test_a_call_that_falls_silent_is_ended() -> None:
    with serving(call_idle_ns=SECOND_NS // 10) as served:
        writer, _ = served.client.do_put(flight.FlightDescriptor.for_command(b""), KINDS)
        writer.write_batch(rows(0, 1))
        assert served.service.ended.wait(30)
        assert len(served.service.sent) == 1
        del writer


def test_silent_calls_of_strangers_keep_nobody_waiting_who_is_known(served: Served) -> None:
    served.service.script = lambda: iter([(rows(0, 1), None)])
    options = flight.FlightCallOptions(headers=[(CALLER_HEADER.encode(), KNOWN)])
    with served.raw() as channel:
        halves = [HalfOpen(channel) for _ in range(2 * FLIGHT_STRANGERS_WAITING_MAX)]
        assert halves[FLIGHT_STRANGERS_OPENING_MAX].ended.wait(30), "of more than may wait the oldest gives way"
        assert served.client.do_get(flight.Ticket(b""), options).read_all().num_rows == 1
        assert served.client.do_get(flight.Ticket(b"")).read_all().num_rows == 1, "and a stranger has his turn"
        for one in halves:
            one.close()


def test_many_calls_that_begin_at_once_are_all_served(served: Served) -> None:
    """As many tasks of Spark do."""
    served.service.script = lambda: iter([(rows(0, 1), None)])
    options = flight.FlightCallOptions(headers=[(CALLER_HEADER.encode(), KNOWN)])
    together = threading.Barrier(200)

    def task(_: int) -> int:
        together.wait(60)
        return served.client.do_get(flight.Ticket(b"t" * 100_000), options).read_all().num_rows

    with ThreadPoolExecutor(200) as pool:
        assert list(pool.map(task, range(200))) == [1] * 200


def test_no_bytes_are_taken_of_calls_that_wait(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call whose ticket the service decides on keeps its place, if a stranger made it."""
    decided = threading.Event()
    begun = threading.Semaphore(0)
    answer = served.service.get

    def get(ticket: bytes) -> Outgoing:
        begun.release()
        decided.wait(30)
        return answer(ticket)

    monkeypatch.setattr(served.service, "get", get)
    with served.raw() as channel, ThreadPoolExecutor(16) as pool:
        message = write_field(1, bytes(TICKET_BYTES_MAX))
        made = [pool.submit(call, channel, "DoGet", message) for _ in range(16)]
        for _ in range(FLIGHT_STRANGERS_OPENING_MAX):
            assert begun.acquire(timeout=30)
        assert not begun.acquire(blocking=False), "others wait outside"
        decided.set()
        for one in made:
            assert len(one.result()) == 1


def test_a_server_stops_at_once_where_calls_have_sent_nothing() -> None:
    made = Served()
    with made.raw() as channel:
        half = HalfOpen(channel)
        made.server.close()
        assert half.ended.wait(30)
        half.close()


def test_a_fault_is_not_told(served: Served) -> None:
    def fails() -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
        raise RuntimeError("a secret")

    served.service.script = fails
    told = served.refusal(lambda: served.client.do_get(flight.Ticket(b"")).read_all())
    assert told.code == "INTERNAL"
    assert "secret" not in str(told)
    assert [str(one) for one in served.faults] == ["a secret"]
    served.faults.clear()
