"""The Flight server over plain gRPC, with pyarrow's own client before it."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pyarrow as pa
import pytest
from pyarrow import flight
from tests.e2e.waiting import wait_until
from tests.few import few
from tests.unit.wire.served_flight import KINDS, Served, Service, call, rows, serving, status

from leasehold.errors import BadSettings, Fenced, Refused, Unreachable
from leasehold.limits.flight import FLIGHT_STRANGERS_OPENING_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.wire import flight_server
from leasehold.wire.call_gate import CallGate
from leasehold.wire.flight import within
from leasehold.wire.flight_server import SERVICE, FlightServer
from leasehold.wire.http2 import patience


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as made:
        yield made


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


@pytest.mark.parametrize("count", few(5, [1, 10, 100, 1_000, 30_000, 200_000]))
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


def test_a_call_beyond_the_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight_server, "FLIGHT_CALLS_MAX", 2)
    asked, released = threading.Semaphore(0), threading.Event()

    def waits() -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
        asked.release()
        released.wait(30)
        yield rows(0, 1), None

    with serving() as served, ThreadPoolExecutor(2) as pool, served.raw() as channel:
        served.service.script = waits
        under_way = [pool.submit(call, channel, "DoGet", b"") for _ in range(2)]
        for _ in under_way:
            assert asked.acquire(timeout=30)
        assert status(lambda: call(channel, "DoGet", b"")) is grpc.StatusCode.RESOURCE_EXHAUSTED
        released.set()
        assert [len(one.result()) for one in under_way] == [2, 2]
        wait_until(lambda: served.server._places._value == 2)
        assert len(call(channel, "DoGet", b"")) == 2


def test_a_call_for_which_no_thread_begins_keeps_no_place(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    places = served.server._places._value
    with monkeypatch.context() as patched, served.raw() as channel:
        patched.setattr(served.server._threads, "submit", none)
        assert status(lambda: call(channel, "DoAction", b"")) is grpc.StatusCode.UNKNOWN
    assert served.server._places._value == places
    assert [str(one) for one in served.faults] == ["can't start new thread"]
    served.faults.clear()


def test_streams_under_way_may_end_when_a_server_closes() -> None:
    made, begun = Served(), threading.Event()

    def some() -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
        yield rows(0, 1), None
        begun.set()
        wait_until(lambda: not made.server._server._doors)
        yield rows(1, 1), None

    made.service.script = some
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(lambda: made.client.do_get(flight.Ticket(b"")).read_all().num_rows)
        assert begun.wait(30)
        made.server.close()
        assert found.result() == 2
    made.client.close()


def test_streams_that_last_are_cut_off_when_a_server_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight_server, "FLIGHT_SHUTDOWN_NS", SECOND_NS // 10)
    made, released = Served(), threading.Event()

    def lasts() -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
        while not released.wait(0.001):
            yield rows(0, 1_000), None

    made.service.script = lasts
    reader = made.client.do_get(flight.Ticket(b""))
    reader.read_chunk()
    made.server.close()
    assert made.service.ended.wait(30)
    assert isinstance(made.refusal(reader.read_all), Unreachable)
    released.set()
    made.client.close()


def test_a_port_that_is_taken_is_told_at_once(served: Served) -> None:
    with pytest.raises(BadSettings) as caught:
        FlightServer(served.service, listen=served.server.address, on_fault=served.faults.append)
    assert caught.value.code == "PORT_IN_USE"


def test_a_client_whose_connection_was_closed_as_idle_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "KEEPALIVE_TIMEOUT_NS", SECOND_NS // 10)
    with serving(idle_ns=1) as served:
        for _ in range(3):
            assert len(list(served.client.list_actions())) == 2
            wait_until(lambda: not served.server._server._connections)


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


def test_calls_that_wait_for_their_turn_leave_nothing_and_have_no_thread(served: Served) -> None:
    watch = served.server._watch
    gates = [look.__self__ for look in watch._looks]  # type: ignore[attr-defined]
    [callers, strangers] = [one for one in gates if isinstance(one, CallGate)]
    assert len(gates) == 4, "of both gates, of scans, and of large rows"
    places = served.server._places._value
    never = threading.Event()

    def silent(channel: grpc.Channel) -> Any:
        return channel.stream_stream(SERVICE + "DoPut")(iter(never.wait, True))

    with served.raw() as channel:
        strangers._patience_ns = 600 * SECOND_NS
        inside = [silent(channel) for _ in range(FLIGHT_STRANGERS_OPENING_MAX)]
        wait_until(lambda: len(strangers._inside) == len(inside))
        waiting = [silent(channel) for _ in range(20)]
        wait_until(lambda: len(strangers._waits_as) == len(waiting))
        assert len(served.server._threads._threads) == len(inside)
        for one in waiting:
            one.cancel()
        wait_until(lambda: not strangers._waits_as)
        wait_until(lambda: len(watch._calls) == len(inside))
        for one in inside:
            one.cancel()
        wait_until(lambda: served.server._places._value == places)
        assert [len(one) for one in (strangers._inside, watch._calls, callers._inside)] == [0, 0, 0]
        never.set()
