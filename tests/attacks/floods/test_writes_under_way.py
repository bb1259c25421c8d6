"""Writes of one user: streams that take all places for writes, and small messages that unpack to much more."""

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from leasehold.core.membership.identity import node_login
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import FlightCaller, WriteTicket
from leasehold.errors import LeaseholdError
from leasehold.ids import NodeLogin, SegmentId
from leasehold.limits.flight import FLIGHT_BATCH_SMALL_BYTES, FLIGHT_MESSAGE_BYTES_MAX, FLIGHT_WRITES_MAX
from leasehold.wire.flight import CALLER_HEADER, calling, descriptor, writer_to
from leasehold.wire.flight_codec import BatchWriter, write_field, write_schema
from tests.attacks.floods.tickets import writing, writing_everywhere
from tests.attacks.ground import ROOT, WRITER, Ground
from tests.e2e.waiting import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

DO_PUT = "/arrow.flight.protocol.FlightService/DoPut"
WIDE = "shop.wide"
STREAMS = FLIGHT_WRITES_MAX
"""To each node: as many as it has places."""
CONNECTIONS = 4
"""To each node."""
COMPRESSED = 30
"""Streams at the same time, all to one node."""
ATTEMPTS = 5
VALUE_BYTES = 1024
VALUES = FLIGHT_MESSAGE_BYTES_MAX * 3 // 4 // VALUE_BYTES


class Writing:
    """A stream that writes a row, and then says nothing."""

    def __init__(self, channel: grpc.Channel, request: WriteTicket, schema: pa.Schema, login: NodeLogin | None) -> None:
        self.ended = threading.Event()
        self._stopped = threading.Event()
        self._messages = [
            write_field(1, descriptor(request).serialize()) + write_schema(schema),
            BatchWriter(schema).write(pa.RecordBatch.from_pylist([{"a": 1, "b": "x"}], schema=schema), None),
        ]
        said = [(CALLER_HEADER, encode(FlightCaller(login=login)))]
        self._call: Any = channel.stream_stream(DO_PUT)(self._sent(), metadata=said)
        self._call.add_done_callback(lambda _: self.ended.set())

    def _sent(self) -> Iterator[bytes]:
        yield from self._messages
        self._stopped.wait()

    def stop(self) -> None:
        self._stopped.set()
        self._call.cancel()


def numbered(request: WriteTicket, number: int) -> WriteTicket:
    """The same for another segment."""
    return msgspec.structs.replace(request, segment=SegmentId(f"{request.transaction}-{number:032x}"))


def test_streams_of_a_user_leave_places_for_writes_to_others(ground: Ground, scale: int) -> None:
    """The honest client, who is another user, appends meanwhile."""
    with ground.connect(WRITER) as cluster, contextlib.ExitStack() as opened, ground.attacked():
        request, addresses, schema = writing_everywhere(cluster)
        streams: dict[str, list[Writing]] = {}
        for address in addresses:
            channels = [opened.enter_context(ground.channel(address)) for _ in range(CONNECTIONS)]
            streams[address] = [
                Writing(channels[number % CONNECTIONS], numbered(request, number), schema, node_login(cluster.token))
                for number in range(STREAMS * scale)
            ]
            for one in streams[address]:
                opened.callback(one.stop)

        def held(address: str) -> int:
            return sum(not one.ended.is_set() for one in streams[address])

        wait_until(lambda: all(held(one) <= FLIGHT_WRITES_MAX // 2 for one in addresses))
        assert min(map(held, addresses)) > FLIGHT_WRITES_MAX // 4


def written_at_once(
    ground: Ground, address: str, request: WriteTicket, rows: pa.RecordBatch, streams: int
) -> Counter[str]:
    """How so many streams ended that each sent `rows` in one compressed message, and no word that these were all: the
    node has taken all rows before it misses that. A call that gave way to others before it was read is made again, as
    clients do."""
    compressed = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=3))
    options = flight.FlightCallOptions(timeout=120, write_options=compressed)

    def write(number: int) -> str:
        for _ in range(ATTEMPTS):
            try:
                with calling(address):
                    one = numbered(request, number)
                    writer, _ = writer_to(address, ground.tls).do_put(descriptor(one), rows.schema, options)
                    with writer:
                        writer.write_batch(rows)
                        writer.done_writing()
                return "OK"
            except LeaseholdError as error:
                if error.code != "UNREACHABLE":
                    return error.code
                told = error.text
        return told

    with ThreadPoolExecutor(COMPRESSED) as pool:
        return Counter(pool.map(write, range(streams)))


def test_compressed_rows_on_many_streams_at_once(ground: Ground, scale: int) -> None:
    """By a user who may insert. Each message is some kilobytes of zstd, which unpack to as much as a node takes."""
    with ground.connect(WRITER) as cluster, ground.attacked():
        request, address, schema = writing(cluster)
        values = [pa.array(range(VALUES), pa.int64()), pa.array(["x" * VALUE_BYTES] * VALUES, pa.string())]
        rows = pa.RecordBatch.from_arrays(values, schema=schema)

        ended = written_at_once(ground, address, request, rows, COMPRESSED * scale)
    assert set(ended) == {"BROKEN_STREAM"}, ended


def test_small_numbers_that_become_large_ones_on_many_streams_at_once(ground: Ground, scale: int) -> None:
    """By a user who may insert into a table that a column was widened in: each value takes 16 times as much in it."""
    with ground.connect(ROOT) as root:
        root.sql(f"CREATE TABLE IF NOT EXISTS {WIDE} (d DECIMAL(38,0)) CLUSTERED BY (d) INTO 1 BUCKETS")
        root.sql(f"GRANT INSERT ON TABLE {WIDE} TO {WRITER[0]}")
    with ground.connect(WRITER) as cluster, ground.attacked():
        request, (address, *_), schema = writing_everywhere(cluster, WIDE)
        small = pa.schema([schema.field(0).with_type(pa.int8())])
        count = FLIGHT_BATCH_SMALL_BYTES  # the node reads larger batches one at a time
        values = pa.Array.from_buffers(pa.int8(), count, [None, pa.py_buffer(bytes(count))])
        rows = pa.RecordBatch.from_arrays([values], schema=small)

        ended = written_at_once(ground, address, request, rows, COMPRESSED * scale)
    assert set(ended) == {"BROKEN_STREAM"}, ended
