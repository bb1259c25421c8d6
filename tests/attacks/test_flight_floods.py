"""Floods of a node's Flight port: bombs, calls and connections that say nothing, tickets made to cost much."""

import contextlib
import socket
import threading
import zlib
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from leasehold.client.cluster import Cluster
from leasehold.core.messages import ReadTicket, WriteTicket
from leasehold.errors import LeaseholdError
from leasehold.ids import SegmentId
from leasehold.limits import COLUMNS_MAX, FLIGHT_OPENING_NS, HANDSHAKE_NS, SECOND_NS
from leasehold.storage.schema import arrow_schema
from leasehold.wire.flight import calling, descriptor, ticket
from tests.attacks.ground import HONEST, TABLE, WRITER, Ground

pytestmark = pytest.mark.processes

SERVICE = "/arrow.flight.protocol.FlightService/"
MIB = 1024 * 1024
BOMB_BYTES = 400 * MIB
THREADS = 8


@contextlib.contextmanager
def channels(ground: Ground) -> Generator[list[grpc.Channel]]:
    """A connection to each node."""
    options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    with contextlib.ExitStack() as opened:
        yield [opened.enter_context(grpc.insecure_channel(one, options=options)) for one in ground.nodes()]


def refused(channel: grpc.Channel, method: str, message: bytes, **more: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as caught:
        list(channel.stream_stream(SERVICE + method)(iter([message]), timeout=60, **more))
    return caught.value.code()


def at_once(count: int, act: Callable[[int], object]) -> None:
    """Calls `act` so often, on several threads; raises what it raises."""
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(act, range(count)):
            pass


def test_tickets_that_decompress_to_hundreds_of_megabytes(ground: Ground, scale: int) -> None:
    bomb = bytes(BOMB_BYTES // 4 if scale == 1 else BOMB_BYTES)
    with ground.attacked(), channels(ground) as nodes:
        for channel in nodes * scale:
            assert refused(channel, "DoGet", bomb, compression=grpc.Compression.Gzip) is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("method", ["DoGet", "DoPut"])
def test_first_messages_of_many_megabytes(ground: Ground, scale: int, method: str) -> None:
    """Each could be rows, by its length; a stranger may send no rows. Only THREADS come at once: their sum has no bound
    yet (decision 16)."""
    message = b"\x0a\x80\x80\x80\x02" + bytes(4 * MIB)  # a field of 4 MiB, the ticket or the descriptor
    with ground.attacked(), channels(ground) as nodes:

        def send(number: int) -> None:
            refused(nodes[number % len(nodes)], method, message)

        at_once(40 * scale, send)


def test_half_open_puts(ground: Ground, scale: int) -> None:
    """The oldest give way, at the latest after FLIGHT_OPENING_NS: none stands for as long as its client likes."""
    released, ended = threading.Event(), threading.Semaphore(0)

    def nothing() -> Iterator[bytes]:
        released.wait(120)
        yield from ()

    with ground.attacked(), channels(ground) as nodes:
        # One node bears them all.
        calls = [nodes[0].stream_stream(SERVICE + "DoPut")(nothing()) for _ in range(300 * scale)]
        for call in calls:
            call.add_done_callback(lambda _: ended.release())
        in_time = [ended.acquire(timeout=5 * FLIGHT_OPENING_NS / SECOND_NS) for _ in calls]
        released.set()
    assert all(in_time)


def _writing(cluster: Cluster) -> tuple[WriteTicket, str, pa.Schema]:
    facts = cluster.facts(TABLE)
    transaction = cluster.new_transaction()
    opened = cluster.open_transaction(facts, transaction)
    bucket = facts.buckets[0]
    address = next(one.address for one in facts.places if one.node == bucket.replicas[0])
    request = WriteTicket(
        cluster_id=facts.cluster_id,
        transaction=transaction,
        segment=SegmentId(f"{transaction}-{'0' * 32}"),
        table=facts.table,
        bucket=bucket.bucket,
        schema_version=facts.schema_version,
        revision=opened.revision,
        login=cluster.token,
    )
    return request, address, arrow_schema(facts.fields)


def test_rows_that_decompress_to_a_gigabyte(ground: Ground, scale: int) -> None:
    """By a user who may insert: some megabytes of zstd."""
    options = flight.FlightCallOptions(
        timeout=60, write_options=pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=3))
    )
    values = [pa.array([1, 2], pa.int64()), pa.array(["x" * (256 * MIB)] * 2, pa.string())]
    with ground.connect(WRITER) as cluster, ground.attacked():
        for number in range(3 * scale):
            request, address, schema = _writing(cluster)
            request = msgspec.structs.replace(request, segment=SegmentId(f"{request.transaction}-{number:032x}"))
            rows = pa.RecordBatch.from_arrays(values, schema=schema)
            with pytest.raises(LeaseholdError) as caught, calling(address):
                writer, _ = flight.FlightClient(f"grpc://{address}").do_put(descriptor(request), schema, options)
                with writer:
                    writer.write_batch(rows)
                    writer.done_writing()
            assert caught.value.code == "ROWS_DO_NOT_FIT"


def test_tickets_that_name_a_column_as_often_as_a_table_has_columns(ground: Ground, scale: int) -> None:
    with ground.connect(HONEST) as cluster, ground.attacked():
        plan = cluster.plan(TABLE, None)
        segment = plan.segments[0]
        address = next(one.address for one in plan.facts.places if one.node == segment.holders[0])
        request = ReadTicket(
            cluster_id=plan.facts.cluster_id,
            request="r",
            table=segment.table,
            bucket=segment.bucket,
            segment=segment.id,
            sha256=segment.sha256,
            row_offset=0,
            fields=plan.fields[:1] * COLUMNS_MAX,
            revision=plan.facts.revision,
            login=cluster.token,
            generation=plan.facts.generation,
        )
        client = flight.FlightClient(f"grpc://{address}")

        def read(_: int) -> None:
            with pytest.raises(LeaseholdError) as caught, calling(address):
                client.do_get(ticket(request)).read_all()
            assert caught.value.code == "BAD_TICKET"

        at_once(20 * scale, read)


SILENCES: dict[str, bytes] = {
    "nothing at all": b"",
    "half of a preface": b"PRI * HTTP/2.0\r\n",
    "no protocol of ours": zlib.compress(b"hello"),
}


def test_connections_that_say_nothing(ground: Ground, scale: int) -> None:
    with contextlib.ExitStack() as opened, ground.attacked():
        silent: list[socket.socket] = []
        for number, address in enumerate(ground.nodes() * (50 * scale)):
            host, port = address.rsplit(":", 1)
            connection = opened.enter_context(socket.create_connection((host, int(port))))
            connection.sendall(list(SILENCES.values())[number % len(SILENCES)])
            silent.append(connection)
        for connection in silent:
            connection.settimeout(10 * HANDSHAKE_NS / SECOND_NS)
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(4096):
                    pass
