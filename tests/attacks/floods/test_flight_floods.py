"""Floods of a node's Flight port: bombs, large first messages, silent calls, tickets made to cost much."""

import base64
import contextlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from leasehold.core.membership.identity import node_login
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import FlightCaller
from leasehold.errors import LeaseholdError
from leasehold.ids import SegmentId
from leasehold.limits.flight import (
    FLIGHT_CALLERS_OPENING_MAX,
    FLIGHT_CALLERS_WAITING_MAX,
    FLIGHT_OPENING_NS,
    FLIGHT_RECEIVED_BYTES_MAX,
    FLIGHT_STRANGERS_OPENING_MAX,
    FLIGHT_STRANGERS_WAITING_MAX,
)
from leasehold.limits.requests import CALLS_PER_PEER_MAX
from leasehold.limits.statements import COLUMNS_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.storage.schema import FIELD_ID_KEY
from leasehold.wire.flight import CALLER_HEADER, calling, descriptor, ticket, writer_to
from leasehold.wire.flight_codec import write_field, write_schema
from leasehold.wire.rpc import CALL
from tests.attacks.floods.tickets import logged_in, reading, writing
from tests.attacks.ground import HONEST, NOBODY, READER, TABLE, WRITER, Ground
from tests.attacks.unfinished import unfinished_calls

pytestmark = pytest.mark.processes

SERVICE = "/arrow.flight.protocol.FlightService/"
MIB = 1024 * 1024
BOMB_BYTES = 400 * MIB
HUGE_BYTES = 600 * MIB
ON_EACH = 12
"""Calls on one connection."""
THREADS = 8
DIGITS = 5_000


@contextlib.contextmanager
def channels(ground: Ground) -> Generator[list[grpc.Channel]]:
    """A connection to each node."""
    with contextlib.ExitStack() as opened:
        yield [opened.enter_context(ground.channel(one)) for one in ground.nodes()]


def refused(channel: grpc.Channel, method: str, message: bytes, **more: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as caught:
        list(channel.stream_stream(SERVICE + method)(iter([message]), timeout=60, **more))
    return caught.value.code()


def several(count: int, act: Callable[[int], object], threads: int) -> None:
    """Calls `act` so often, on several threads; raises what it raises."""
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(act, range(count)):
            pass


def test_tickets_that_decompress_to_hundreds_of_megabytes(ground: Ground, scale: int) -> None:
    bomb = bytes(BOMB_BYTES // 4 if scale == 1 else BOMB_BYTES)
    with ground.attacked(), channels(ground) as nodes:
        for channel in nodes * scale:
            assert refused(channel, "DoGet", bomb, compression=grpc.Compression.Gzip) is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("port", ["node", pytest.param("coordinator", marks=pytest.mark.long)])
def test_small_compressed_calls(ground: Ground, scale: int, port: str) -> None:
    """gRPC has a line to say about each."""
    address = ground.nodes()[0] if port == "node" else ground.coordinator
    path = SERVICE + "DoGet" if port == "node" else CALL

    codes: set[grpc.StatusCode] = set()

    with ground.attacked(), ground.channel(address) as made:

        def call(_: int) -> None:
            with pytest.raises(grpc.RpcError) as caught:
                list(made.stream_stream(path)(iter([bytes(1_000)]), timeout=60, compression=grpc.Compression.Gzip))
            codes.add(caught.value.code())

        several(1_000 * scale, call, THREADS)
    # A connection with many is shut down as one that asks nothing; a call whose message is late gives way to others.
    assert grpc.StatusCode.UNIMPLEMENTED in codes
    assert codes <= {grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}


LARGE = [(FLIGHT_RECEIVED_BYTES_MAX, 64), (15 * MIB, 16)]
"""The largest message that a node takes, and one that it does not, and how many come at once: as many as the memory of
the sender bears."""


@pytest.mark.parametrize(("size", "at_once"), LARGE, ids=["taken", "too large"])
@pytest.mark.parametrize("method", [pytest.param("DoGet", marks=pytest.mark.long), "DoPut"])
def test_large_first_messages(ground: Ground, scale: int, method: str, size: int, at_once: int) -> None:
    message = write_field(1, bytes(size - 16))
    with ground.attacked(), contextlib.ExitStack() as opened:
        # One node bears them all.
        made = [opened.enter_context(ground.channel(ground.nodes()[0])) for _ in range(at_once)]

        def send(number: int) -> None:
            refused(made[number % at_once], method, message)

        several(at_once * scale, send, at_once)


@pytest.mark.parametrize("has_right", [False, True], ids=["without a right", "with a right"])
def test_first_messages_of_hundreds_of_megabytes(ground: Ground, scale: int, has_right: bool) -> None:
    message = write_field(1, bytes(HUGE_BYTES))
    with ground.connect(WRITER if has_right else NOBODY) as cluster, ground.channel(ground.nodes()[0]) as channel:
        said = [(CALLER_HEADER, encode(FlightCaller(login=node_login(logged_in(cluster)))))]
        with ground.attacked():
            for _ in range(scale):
                assert refused(channel, "DoPut", message, metadata=said) is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_silent_calls_of_a_user_at_another_address(ground: Ground, scale: int) -> None:
    """More than one peer may have at each node."""
    if ground.tls is None:
        pytest.skip("NO OTHER ADDRESS: without TLS all peers are on this machine")
    with ground.connect(READER) as cluster, ground.attacked():
        said = {CALLER_HEADER: base64.b64encode(encode(FlightCaller(login=node_login(logged_in(cluster))))).decode()}
        count = CALLS_PER_PEER_MAX + 200
        for _ in range(scale):
            with contextlib.ExitStack() as opened:
                floods = [
                    unfinished_calls(ground.connection, one, SERVICE + "DoGet", 100, count, ON_EACH, said)
                    for one in ground.nodes()
                ]
                for keep_going in map(opened.enter_context, floods):
                    keep_going(FLIGHT_CALLERS_WAITING_MAX - 2 * FLIGHT_CALLERS_OPENING_MAX)


@pytest.mark.parametrize("method", ["DoGet", pytest.param("DoPut", marks=pytest.mark.long)])
def test_first_messages_that_never_come_whole(ground: Ground, scale: int, method: str) -> None:
    """Each lacks its last byte. One node bears them all, on no more connections than one address may have."""
    size, count = FLIGHT_RECEIVED_BYTES_MAX, 120 * scale
    with (
        ground.attacked(),
        unfinished_calls(ground.connection, ground.nodes()[0], SERVICE + method, size, count, scale) as keep_going,
    ):
        keep_going(count // 2 if scale == 1 else 0)


class Silent:
    """A call that sends its headers and no message."""

    def __init__(self, channel: grpc.Channel, method: str) -> None:
        self._stopped, self._ended = threading.Event(), threading.Event()
        self._call: Any = channel.stream_stream(SERVICE + method)(self._nothing())
        self._call.add_done_callback(lambda _: self._ended.set())

    def _nothing(self) -> Iterator[bytes]:
        self._stopped.wait()
        yield from ()

    def ends(self) -> bool:
        """Whether the node ends it."""
        return self._ended.wait(5 * FLIGHT_OPENING_NS / SECOND_NS)

    def stop(self) -> None:
        self._stopped.set()
        self._call.cancel()


def test_half_open_calls(ground: Ground, scale: int) -> None:
    """None stands for as long as its client likes: they give way to each other, the last after FLIGHT_OPENING_NS."""
    with ground.attacked(), channels(ground) as nodes:
        # One node bears them all.
        calls = [Silent(nodes[0], "DoPut") for _ in range(300 * scale)]
        stand = FLIGHT_STRANGERS_OPENING_MAX + FLIGHT_STRANGERS_WAITING_MAX if scale == 1 else 0
        assert all(one.ends() for one in calls[: len(calls) - stand])
        for one in calls:
            one.stop()


@pytest.mark.long
def test_half_open_calls_without_end(ground: Ground, scale: int) -> None:
    """More and more of them, at all nodes."""
    with ground.attacked(), channels(ground) as nodes:
        calls: deque[Silent] = deque()
        for number in range(1_000 * scale):
            calls.append(Silent(nodes[number % len(nodes)], "DoGet"))
            if len(calls) > 600:
                calls.popleft().stop()
        for one in calls:
            one.stop()


def test_rows_that_decompress_to_hundreds_of_megabytes(ground: Ground, scale: int) -> None:
    """By a user who may insert: some megabytes of zstd."""
    options = flight.FlightCallOptions(
        timeout=60, write_options=pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=3))
    )
    values = [pa.array([1, 2], pa.int64()), pa.array(["x" * (160 * MIB if scale == 1 else 512 * MIB)] * 2, pa.string())]
    with ground.connect(WRITER) as cluster, ground.attacked():
        for number in range(scale):
            request, address, schema = writing(cluster)
            request = msgspec.structs.replace(request, segment=SegmentId(f"{request.transaction}-{number:032x}"))
            rows = pa.RecordBatch.from_arrays(values, schema=schema)
            with pytest.raises(LeaseholdError) as caught, calling(address):
                writer, _ = writer_to(address, ground.tls).do_put(descriptor(request), schema, options)
                with writer:
                    writer.write_batch(rows)
                    writer.done_writing()
            assert caught.value.code == "ROWS_DO_NOT_FIT"


def test_tickets_that_name_a_column_as_often_as_a_table_has_columns(ground: Ground, scale: int) -> None:
    with ground.connect(HONEST) as cluster, ground.attacked():
        address, sound = reading(cluster, TABLE)[0]
        request = msgspec.structs.replace(sound, fields=sound.fields[:1] * COLUMNS_MAX)
        client = writer_to(address, ground.tls)
        check_each_refused(20 * scale, address, lambda: client.do_get(ticket(request)).read_all(), "BAD_TICKET")


def test_schemas_with_field_ids_of_thousands_of_digits(ground: Ground, scale: int) -> None:
    """By a user who may insert. Python turns no text of so many digits into a number."""
    with ground.connect(WRITER) as cluster, ground.attacked():
        request, address, schema = writing(cluster)
        named = pa.schema([field.with_metadata({FIELD_ID_KEY: b"9" * DIGITS}) for field in schema])
        client = writer_to(address, ground.tls)

        def write() -> None:
            writer, _reader = client.do_put(descriptor(request), named)
            with writer:
                writer.write_batch(pa.RecordBatch.from_pylist([{"a": 1, "b": "x"}], schema=named))
                writer.done_writing()

        check_each_refused(100 * scale, address, write, "ROWS_DO_NOT_FIT")


SCALES = (-1, -40, -1_000, -25_165_822, 11, 10**9)


@pytest.mark.parametrize("kind", [pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256])
def test_decimals_of_odd_scales(ground: Ground, scale: int, kind: Callable[[int, int], pa.DataType]) -> None:
    """By a user who may insert. Arrow takes a power of ten from memory that is none of its table's."""
    with ground.connect(WRITER) as cluster, ground.attacked():
        request, address, schema = writing(cluster)
        client = writer_to(address, ground.tls)
        for tens in SCALES * scale:
            odd = kind(9, tens)
            values = pa.Array.from_buffers(odd, 1, [None, pa.py_buffer(bytes(odd.byte_width))])
            named = pa.schema([schema.field(0).with_type(odd), schema.field(1)])
            rows = pa.RecordBatch.from_arrays([values, pa.array(["x"])], schema=named)

            def write(named: pa.Schema = named, rows: pa.RecordBatch = rows) -> None:
                writer, _reader = client.do_put(descriptor(request), named)
                with writer:
                    writer.write_batch(rows)
                    writer.done_writing()

            check_each_refused(1, address, write, "ROWS_DO_NOT_FIT")


def test_large_batches_whose_texts_end_before_they_begin(ground: Ground, scale: int) -> None:
    """By a user who may insert. They are refused before they are cut into parts."""
    count, size = 60_000, 9_900_000
    places = [size * one // count for one in range(count + 1)]
    places[count // 2] = -2_000_000_000
    texts = pa.Array.from_buffers(
        pa.string(), count, [None, pa.array(places, pa.int32()).buffers()[1], pa.py_buffer(b"x" * size)]
    )
    compressed = flight.FlightCallOptions(write_options=pa.ipc.IpcWriteOptions(compression="zstd"))
    with ground.connect(WRITER) as cluster, ground.attacked():
        request, address, schema = writing(cluster)
        client = writer_to(address, ground.tls)
        rows = pa.RecordBatch.from_arrays([pa.array(range(count), pa.int64()), texts], schema=schema)

        def write() -> None:
            writer, _reader = client.do_put(descriptor(request), schema, compressed)
            with writer:
                writer.write_batch(rows)
                writer.done_writing()

        # One at a time: they are all of one segment.
        check_each_refused(10 * scale, address, write, "ROWS_DO_NOT_FIT", threads=1)


def test_schemas_with_names_that_are_no_text(ground: Ground, scale: int) -> None:
    """By a user who may insert."""
    with ground.connect(WRITER) as cluster, ground.attacked(), channels(ground) as nodes:
        request, _address, schema = writing(cluster)
        said = encode(FlightCaller(login=node_login(logged_in(cluster))))
        begin = write_schema(schema.set(1, schema.field(1).with_name("bbbb"))).replace(b"bbbb", b"b\xff\xffb")
        message = write_field(1, descriptor(request).serialize()) + begin
        for _ in range(100 * scale):
            assert refused(nodes[0], "DoPut", message, metadata=[(CALLER_HEADER, said)]) is not grpc.StatusCode.INTERNAL


def check_each_refused(count: int, address: str, act: Callable[[], object], code: str, threads: int = THREADS) -> None:
    """On several threads. A call whose first message comes late on a busy machine gives way to those of others, and is
    unreachable; most are refused with `code`."""

    def ended(_: int) -> str:
        with pytest.raises(LeaseholdError) as caught, calling(address):
            act()
        return caught.value.code

    with ThreadPoolExecutor(threads) as pool:
        codes = Counter(pool.map(ended, range(count)))
    assert codes.keys() <= {code, "UNREACHABLE"}
    assert codes[code] > count / 2, codes
