"""Rows over Arrow Flight from memory to memory: a node's server beside pyarrow's own, in turn, with one client.

Each server is a process of its own and holds one batch. A DoGet sends it again and again, each time with a short
message; a DoPut takes it again and again and counts its rows. Our client divides it into messages that a node
takes. The node's server is measured over TLS too, with certificates of both sides, beside itself without.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import flight

from bench.figures import Figure, Table, median, ratios, spread
from leasehold.certificates.names import CertificateRole
from leasehold.client.trust import CLIENT_FOLDER, TLS_FOLDER
from leasehold.core.access.callers import Caller
from leasehold.local.certificates import LocalCertificates
from leasehold.wire.flight import reader_to, report, send
from leasehold.wire.flight_server import FlightServer, Incoming, Outgoing
from leasehold.wire.tls import own_tls, read_tls

ROUNDS: Final = 15
STREAM_BYTES: Final = 256 * 1024 * 1024
BATCHES: Final = {"256 KiB": 8_192, "2 MiB": 65_536, "8 MiB": 262_144}
"""Rows of a batch, by about what it takes."""
AIM: Final = 0.9
SERVER: Final = "node"
MARK: Final = b"a message beside each batch, as long as a mark"
OURS, PLAIN, SECURE = "ours", "pyarrow", "ours over TLS"
PAIRS: Final = ((OURS, PLAIN, AIM), (SECURE, OURS, None))
"""What is measured beside what, and its aim."""


def batch(rows: int) -> pa.RecordBatch:
    numbers = np.arange(rows)
    tags = pa.array([f"sensor-{number % 1000}" for number in range(rows)])
    return pa.record_batch({"reading": numbers, "measure": np.sin(numbers), "tag": tags})


class FromMemory:
    """What a node's server serves here; the ticket says how often to send the batch of so many rows."""

    actions: Mapping[str, str] = {}

    def __init__(self) -> None:
        self._batches = {rows: batch(rows) for rows in BATCHES.values()}

    def check_counts(self, caller: Caller | None, /) -> None:
        pass

    def who_calls(self, said: bytes, _caller: Caller | None) -> str | None:
        return "" if said == b"" else None

    def get(self, ticket: bytes, _caller: Caller | None) -> Outgoing:
        rows, times = map(int, ticket.split())
        return Outgoing(self._batches[rows].schema, self._again(rows, times))

    def _again(self, rows: int, times: int) -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
        for _ in range(times):
            yield self._batches[rows], MARK

    def put(self, command: bytes, incoming: Incoming, _caller: Caller | None) -> Iterator[bytes]:
        assert command
        yield b"%d" % sum(one.batch.num_rows for one in incoming if one.batch is not None)

    def act(self, action: str, _body: bytes, _caller: Caller | None) -> bytes:
        return action.encode()


class Plain(flight.FlightServerBase):  # pyright: ignore[reportUntypedBaseClass] pyarrow declares it without types
    """pyarrow's server doing the same."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._service = FromMemory()

    def do_get(self, _context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        outgoing = self._service.get(ticket.ticket, None)
        return flight.GeneratorStream(outgoing.schema, outgoing.batches)

    def do_put(
        self,
        _context: flight.ServerCallContext,
        _descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        rows = 0
        while True:
            try:
                rows += reader.read_chunk().data.num_rows
            except StopIteration:
                break
        writer.write(b"%d" % rows)


def serve(kind: str, bundle: str) -> None:
    """One of the servers, until it is killed."""
    if kind != PLAIN:
        tls = own_tls(Path(bundle), CertificateRole.NODE) if kind == SECURE else None
        server = FlightServer(FromMemory(), listen="127.0.0.1:0", on_fault=report, tls=tls)
        print(server.address, flush=True)
    else:
        plain = Plain()
        print(f"127.0.0.1:{plain.port}", flush=True)
    threading.Event().wait()


@contextmanager
def client_of(kind: str, bundles: Path) -> Generator[flight.FlightClient]:
    command = [sys.executable, "-m", "bench.flight", kind, str(bundles / SERVER)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if kind == SECURE:
                yield reader_to(address, read_tls(bundles / CLIENT_FOLDER))
            else:
                with flight.FlightClient(f"grpc://{address}") as client:
                    yield client
        finally:
            process.kill()


Write = Callable[[flight.FlightStreamWriter, pa.RecordBatch], None]


def write_whole(writer: flight.FlightStreamWriter, sent: pa.RecordBatch) -> None:
    writer.write_batch(sent)


WRITES: Final[dict[str, Write]] = {OURS: send, SECURE: send, PLAIN: write_whole}


def get(client: flight.FlightClient, sent: pa.RecordBatch, times: int, _: Write) -> None:
    found = 0
    for chunk in client.do_get(flight.Ticket(b"%d %d" % (sent.num_rows, times))):
        found += chunk.data.num_rows
    assert found == times * sent.num_rows


def put(client: flight.FlightClient, sent: pa.RecordBatch, times: int, write: Write) -> None:
    writer, answers = client.do_put(flight.FlightDescriptor.for_command(b"put"), sent.schema)
    for _ in range(times):
        write(writer, sent)
    writer.done_writing()
    assert int(answers.read().to_pybytes()) == times * sent.num_rows
    writer.close()


def compared(
    what: str,
    move: Callable[[flight.FlightClient, pa.RecordBatch, int, Write], None],
    pair: tuple[str, str, float | None],
    clients: dict[str, flight.FlightClient],
    rows: int,
    rounds: int,
    stream_bytes: int,
) -> Figure:
    *kinds, aim = pair
    sent = batch(rows)
    times = max(2, stream_bytes // sent.nbytes)
    rates: dict[str, list[float]] = {kind: [] for kind in kinds}
    for kind in kinds:
        move(clients[kind], sent, times, WRITES[kind])  # connects, and warms both up
    for number in range(rounds):
        for kind in kinds if number % 2 else kinds[::-1]:
            began = time.perf_counter()
            move(clients[kind], sent, times, WRITES[kind])
            rates[kind].append(times * sent.nbytes / 1e6 / (time.perf_counter() - began))
    pairs = ratios(rates[kinds[0]], rates[kinds[1]])
    return Figure(
        what=what,
        value=spread(rates[kinds[0]], "MB/s", 0),
        peer=spread(rates[kinds[1]], "MB/s", 0),
        ratio=spread(pairs, "", 2),
        aim="" if aim is None else f"{aim}",
        holds=None if aim is None else median(pairs) >= aim,
    )


def run(smallest: bool) -> list[Table]:
    rounds, stream_bytes = (1, 1) if smallest else (ROUNDS, STREAM_BYTES)
    with ExitStack() as opened, TemporaryDirectory() as scratch:
        certificates = LocalCertificates(Path(scratch))
        certificates.settle(tls=True, is_new=True)
        certificates.issue([SERVER], [])
        bundles = Path(scratch, TLS_FOLDER)
        clients = {kind: opened.enter_context(client_of(kind, bundles)) for kind in WRITES}
        found = [
            [
                compared(f"{name} of {size}", move, pair, clients, rows, rounds, stream_bytes)
                for name, move in (("DoGet", get), ("DoPut", put))
                for size, rows in BATCHES.items()
            ]
            for pair in PAIRS
        ]
    beside_pyarrow, over_tls = found
    return [
        Table(title="Flight: a node's server beside pyarrow's, from memory to memory", figures=beside_pyarrow),
        Table(title="Flight: a node's server over TLS beside itself without, from memory to memory", figures=over_tls),
    ]


if __name__ == "__main__":
    serve(*sys.argv[1:])
