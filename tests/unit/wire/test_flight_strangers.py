"""What others than pyarrow's client send to the Flight server: large, garbled and silent calls."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pyarrow as pa
import pytest
from pyarrow import flight
from tests.unit.wire.served_flight import KINDS, KNOWN, OTHER, Served, call, failure_of, rows, serving, status

from leasehold.core.access.callers import Caller
from leasehold.limits.flight import (
    FLIGHT_CALLERS_OPENING_MAX,
    FLIGHT_MESSAGE_BYTES_MAX,
    FLIGHT_PART_BYTES,
    FLIGHT_RECEIVED_BYTES_MAX,
    FLIGHT_STRANGERS_OPENING_MAX,
    FLIGHT_STRANGERS_WAITING_MAX,
    TICKET_BYTES_MAX,
)
from leasehold.limits.requests import CALL_HEADERS_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.wire.flight import CALLER_HEADER, send
from leasehold.wire.flight_codec import write_field
from leasehold.wire.flight_server import SERVICE, Outgoing


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as made:
        yield made


def test_a_compressed_call_is_refused_before_it_is_decompressed(served: Served) -> None:
    bomb = write_field(1, bytes(TICKET_BYTES_MAX // 2))
    with served.raw() as channel:
        for method in ("DoGet", "DoPut", "DoAction"):
            for kind in (grpc.Compression.Gzip, grpc.Compression.Deflate):
                code = status(lambda method=method, kind=kind: call(channel, method, bomb, compression=kind))
                assert code is grpc.StatusCode.UNIMPLEMENTED
    assert served.service.tickets == []


def test_a_call_with_too_many_headers_ends_its_connection(served: Served) -> None:
    def sent(headers: int) -> str:
        said = [(f"h{number}", "") for number in range(headers)]
        return failure_of(lambda: call(channel, "DoAction", b"\xff", metadata=said))

    with served.raw() as channel:
        assert "too many headers" in sent(CALL_HEADERS_MAX + 1)
        assert sent(CALL_HEADERS_MAX // 2) == "BAD_MESSAGE"
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
        assert failure_of(lambda: list(channel.stream_stream("/other/Method")(nothing()))) == "BAD_CALL"
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


def test_the_tickets_of_a_user_keep_another_one_waiting_for_one_place_alone(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, decided, called = threading.Semaphore(0), threading.Semaphore(0), threading.Event()
    get, who_calls = served.service.get, served.service.who_calls

    def who_is_heard(said: bytes, caller: Caller | None) -> str | None:
        found = who_calls(said, caller)
        if said == OTHER:
            called.set()
        return found

    def get_in_turn(ticket: bytes, caller: Caller | None) -> Outgoing:
        found = get(ticket, caller)
        begun.release()
        assert decided.acquire(timeout=60)
        return found

    monkeypatch.setattr(served.service, "get", get_in_turn)
    monkeypatch.setattr(served.service, "who_calls", who_is_heard)
    many = 3 * FLIGHT_CALLERS_OPENING_MAX
    with served.raw() as channel, ThreadPoolExecutor(many + 1) as pool:

        def ask(said: bytes, ticket: bytes) -> list[bytes]:
            return call(channel, "DoGet", write_field(1, ticket), metadata=[(CALLER_HEADER, said)])

        asked = [pool.submit(ask, KNOWN, b"of many") for _ in range(many)]
        for _ in range(FLIGHT_CALLERS_OPENING_MAX):
            assert begun.acquire(timeout=30)
        asked.append(pool.submit(ask, OTHER, b"of one"))
        assert called.wait(30)
        while b"of one" not in served.service.tickets:  # once it waits, the next place is its own
            decided.release()
            assert begun.acquire(timeout=30)
        before = served.service.tickets.index(b"of one")
        for _ in asked:
            decided.release()
        assert all(len(one.result()) == 1 for one in asked)
    assert before < many, "others of the first user still waited"


def test_no_bytes_are_taken_of_calls_that_wait(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call whose ticket the service decides on keeps its place, if a stranger made it."""
    decided = threading.Event()
    begun = threading.Semaphore(0)
    answer = served.service.get

    def get(ticket: bytes, caller: Caller | None) -> Outgoing:
        begun.release()
        decided.wait(30)
        return answer(ticket, caller)

    monkeypatch.setattr(served.service, "get", get)
    message = write_field(1, bytes(TICKET_BYTES_MAX))
    with served.raw() as channel, ThreadPoolExecutor(FLIGHT_STRANGERS_OPENING_MAX) as pool:
        inside = [pool.submit(call, channel, "DoGet", message) for _ in range(FLIGHT_STRANGERS_OPENING_MAX)]
        for _ in inside:
            assert begun.acquire(timeout=30)
        # Only once all are decided on may another wait: it would hurry those that still send.
        waits = channel.stream_stream(SERVICE + "DoGet")(iter([message]), timeout=1)
        assert status(lambda: list(waits)) is grpc.StatusCode.DEADLINE_EXCEEDED
        assert not begun.acquire(blocking=False), "it waits outside"
        decided.set()
        for one in inside:
            assert len(one.result()) == 1
        assert len(call(channel, "DoGet", message)) == 1


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
