"""Arrow Flight as both sides use it: tickets, errors, connections, and batches of a bounded size.

Tickets, marks and errors are messages of `core.words.messages`. An error travels as an encoded `Failure` in the extra
information of a Flight error, so its code survives and no traceback leaves the process. A stream of rows or bytes ends
with a message that says so, since gRPC shows the death of a peer as an orderly end.
"""

import logging
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import Final, TypeVar

import pyarrow as pa
from pyarrow import flight

from leasehold.certificates.names import CertificateRole
from leasehold.core.words.codec import decode_as, decode_message, decode_ticket, encode
from leasehold.core.words.messages import (
    AskLocalProof,
    CompactTicket,
    Failure,
    FetchTicket,
    FlightCaller,
    ForwardTicket,
    Message,
    OpenLocal,
    ReadTicket,
    ReadTogether,
    RenewLocal,
    ScrubTicket,
    Ticket,
    WriteTicket,
)
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadMessage, Definite, LeaseholdError, Refused, Unreachable
from leasehold.limits.flight import (
    FLIGHT_CLIENTS_MAX,
    FLIGHT_KEEPALIVE_INTERVAL_NS,
    FLIGHT_KEEPALIVE_TIMEOUT_NS,
    FLIGHT_MESSAGE_BYTES_MAX,
    FLIGHT_PART_BYTES,
    FLIGHT_SENT_BYTES_MAX,
    TICKET_BYTES_MAX,
)
from leasehold.limits.requests import REQUEST_FRAME_BYTES_MAX
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.wire.connections import CLIENT_CONNECTION_OPTIONS
from leasehold.wire.failures import from_failure, plainly
from leasehold.wire.flight_codec import BatchWriter, pieces
from leasehold.wire.tls import Tls, TlsSource

M = TypeVar("M", bound=Message)
T = TypeVar("T")

HEALTH: Final = "health"
"""The action that answers a node's `NodeStatus` as JSON, fenced or not."""
LOCAL: Final = "local"
"""The action of local opens: its body is a message, and so is its answer."""
log = logging.getLogger(__name__)
_LARGE_TICKETS: Final = threading.Lock()
"""Held while one is read."""

CALLER_HEADER: Final = "leasehold-caller-bin"
"""Names the caller before the first message: an encoded `FlightCaller`."""
BYTES_SCHEMA: Final = pa.schema([pa.field("bytes", pa.binary(), nullable=False)])
"""The schema of a segment's bytes as they travel between nodes: one row per chunk."""

_CLIENT_OPTIONS: Final[list[tuple[str, str | int]]] = [
    # Twice, with room for all that surrounds the values of the largest row.
    ("grpc.max_receive_message_length", 2 * FLIGHT_SENT_BYTES_MAX),
    *CLIENT_CONNECTION_OPTIONS,
]

# A node sends large batches aligned. In others pyarrow copies unaligned buffers: Arrow's own engine warns of those.
_ALIGNED: Final = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.DataTypeSpecific)

# A write that a stopped process does not take ignores the deadline of its call, and the deadline for a whole segment is
# long. So gRPC pings the connection. Not for scans: their deadlines are short.
_WATCHED_OPTIONS: Final[list[tuple[str, str | int]]] = [
    *_CLIENT_OPTIONS,
    ("grpc.keepalive_time_ms", FLIGHT_KEEPALIVE_INTERVAL_NS // MILLISECOND_NS),
    # Where bytes wait to be sent, the kernel cuts the connection after this (TCP_USER_TIMEOUT).
    ("grpc.keepalive_timeout_ms", FLIGHT_KEEPALIVE_TIMEOUT_NS // MILLISECOND_NS),
    # Where none do, as behind a full HTTP/2 window or for an answer, gRPC waits for its ping so long, by default 60 s:
    # its timer for the keepalive's own timeout is never started.
    ("grpc.http2.ping_timeout_ms", FLIGHT_KEEPALIVE_TIMEOUT_NS // MILLISECOND_NS),
    ("grpc.http2.max_pings_without_data", 0),
]


# ---------------------------------------------------------------- tickets and marks


def ticket(message: Message) -> flight.Ticket:
    """What a DoGet presents. Raises `Refused` with code BAD_TICKET over TICKET_BYTES_MAX."""
    return flight.Ticket(_bounded(encode(message)))


def descriptor(message: Message) -> flight.FlightDescriptor:
    """What a DoPut presents. Raises `Refused` with code BAD_TICKET over TICKET_BYTES_MAX."""
    return flight.FlightDescriptor.for_command(_bounded(encode(message)))


def read_ticket(blob: bytes | None) -> Ticket:
    """The message in a ticket or command; raises `Refused` with code BAD_TICKET or BAD_MESSAGE. Large ones are read one
    at a time, since a word of two letters takes 50 bytes in memory."""
    blob = _bounded(blob or b"")
    with _LARGE_TICKETS if len(blob) > REQUEST_FRAME_BYTES_MAX else nullcontext():
        return decode_ticket(blob)


def expect(kind: type[M], blob: bytes | pa.Buffer | None) -> M:
    """The message of `kind` that travels beside a batch; raises `Refused` with code BAD_MESSAGE for anything else."""
    if blob is None:
        raise BadMessage(f"nothing came instead of {kind.__name__}")
    return decode_as(kind, blob if isinstance(blob, bytes) else blob.to_pybytes())


def bytes_of(batch: pa.RecordBatch | None, bytes_max: int = 2 * FLIGHT_MESSAGE_BYTES_MAX) -> Iterator[memoryview]:
    """The chunks of a segment's bytes. The batch comes from another process, so nothing in it is trusted. Raises
    `pa.ArrowInvalid`."""
    if batch is None or not batch.schema.equals(BYTES_SCHEMA):
        raise pa.ArrowInvalid("not a segment's bytes")
    batch.validate(full=True)
    if batch.nbytes > bytes_max:
        raise pa.ArrowInvalid(f"more than {bytes_max} bytes at once")
    for value in batch.column(0):
        content = value.as_buffer()
        if content is None:
            raise pa.ArrowInvalid("a chunk without bytes")
        yield memoryview(content)


def _bounded(blob: bytes) -> bytes:
    if len(blob) > TICKET_BYTES_MAX:
        raise Refused(
            f"a ticket of {len(blob)} bytes, over {TICKET_BYTES_MAX}",
            code=ErrorCode.BAD_TICKET,
            hint="name fewer columns",
        )
    return blob


# ---------------------------------------------------------------- errors


def report(fault: BaseException) -> None:
    """Logs a fault of our own code. One that comes again and again does not fill the log (`wire/repeated_lines.py`)."""
    log.error("unforeseen: %s", type(fault).__name__, exc_info=fault)


@contextmanager
def calling(address: str) -> Generator[None]:
    """Around a client's calls: Flight's errors leave it as ours. After `Unreachable` the next call connects anew."""
    try:
        yield
    # Arrow shows a broken stream as an OSError without an errno, and an end where there is none as StopIteration.
    except (flight.FlightError, pa.ArrowException, OSError) as error:
        ours = from_flight(error, address)
        if isinstance(ours, Unreachable):
            _scanning.forget(address)
            _watched.forget(address)
        raise ours from error


def from_flight(error: Exception, address: str) -> LeaseholdError:
    """The error that a Flight error carries, else `Unreachable` with code TIMED_OUT or UNREACHABLE."""
    extra = getattr(error, "extra_info", None)
    if extra:
        try:
            failure = decode_message(bytes(extra))
        except Refused:
            failure = None  # not one of our servers
        if isinstance(failure, Failure):
            return from_failure(failure)
    late = isinstance(error, flight.FlightTimedOutError)
    said = str(error)
    why = "no answer in time" if late else plainly(said) or said.split("\n", 1)[0].split(". gRPC client", 1)[0][:300]
    return Unreachable(
        f"{address}: {why}",
        code=ErrorCode.TIMED_OUT if late else None,
        hint=f"check that the node at {address} runs and can be reached from here",
    )


# ---------------------------------------------------------------- connections


class _Clients:
    """The connections of this process, one for each address, certificate and name; calls of all threads share them."""

    first_pid: int | None = None
    """The process that first used Flight; this one, or one that it was forked from."""

    def __init__(self, options: list[tuple[str, str | int]]) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._clients: dict[tuple[str, Tls | None, str], flight.FlightClient] = {}

    def to(self, address: str, tls: TlsSource | None, name: str) -> flight.FlightClient:
        if _Clients.first_pid not in {None, os.getpid()}:
            # Flight's gRPC has threads that a fork leaves behind; any call, even of a new client, waits for ever.
            raise Definite(
                "this process was forked from one that had used Flight, so it can't use Flight itself",
                code=ErrorCode.FORKED,
                hint="start worker processes with the start method 'spawn', or fork before the first scan or append",
            )
        _Clients.first_pid = os.getpid()
        present = None if tls is None else tls.now()
        with self._lock:
            client = self._clients.pop((address, present, name), None)
            if client is None:
                with calling(address):
                    client = self._made(address, present, name)
            self._clients[address, present, name] = client
            if len(self._clients) > FLIGHT_CLIENTS_MAX:
                # Calls under way hold it; it is closed after the last of them.
                del self._clients[next(iter(self._clients))]
            return client

    def forget(self, address: str) -> None:
        """The next call connects anew; calls under way keep their connection. One that lost its peer may be silent
        until the kernel sends again, and after each ping too many gRPC has doubled its keepalive interval for good."""
        with self._lock:
            for one in [one for one in self._clients if one[0] == address]:
                del self._clients[one]

    def _made(self, address: str, tls: Tls | None, name: str) -> flight.FlightClient:
        if tls is None:
            return flight.FlightClient(f"grpc://{address}", generic_options=self._options)
        own = {"cert_chain": tls.chain, "private_key": tls.key} if tls.has_certificate else {}
        return flight.FlightClient(
            f"grpc+tls://{tls.door(address)}",
            tls_root_certs=tls.roots,
            override_hostname=tls.server_name(CertificateRole.NODE, name),
            generic_options=self._options,
            **own,
        )


_scanning = _Clients(_CLIENT_OPTIONS)
_watched = _Clients(_WATCHED_OPTIONS)


def reader_to(address: str, tls: TlsSource | None = None, name: str = "") -> flight.FlightClient:
    """The connection to `host:port` for scans, made at its first use and kept; never fails for an address that is down.
    Over TLS, calls fail unless the node of that `name` serves there; without a name, any node. Raises `Definite` with
    code FORKED in a child of a process that had used Flight, which could only hang."""
    return _scanning.to(address, tls, name)


def writer_to(address: str, tls: TlsSource | None = None, name: str = "") -> flight.FlightClient:
    """As `reader_to`, for a DoPut, and for a DoGet whose bytes are taken as they come. Calls end, even if blocked in a
    write, once the process has answered no ping for FLIGHT_KEEPALIVE_INTERVAL_NS + FLIGHT_KEEPALIVE_TIMEOUT_NS."""
    return _watched.to(address, tls, name)


def is_answering(address: str, timeout_ns: int, tls: TlsSource | None = None, name: str = "") -> bool:
    """Whether the process at `host:port` answers anything in time, a refusal too; over TLS, the node of that `name`."""

    def ask(client: flight.FlightClient) -> tuple[()]:
        # No node serves this call, and each refuses it at once. With pyarrow's list_actions, a peer that cancels the
        # call would end this process, as Ctrl-C does.
        client.get_flight_info(flight.FlightDescriptor.for_command(b""), within(timeout_ns))
        return ()

    return _first(address, ask, tls, name) is not None


def ask_health(
    address: str, timeout_ns: int, caller: Message, tls: TlsSource | None = None, name: str = ""
) -> bytes | None:
    """The `NodeStatus` of the node at `host:port`, as JSON; None if its process does not answer in time, empty if it
    refuses. `caller` is a ticket of this process, as for `within`."""
    action = flight.Action(HEALTH, b"")
    found = _first(address, lambda client: client.do_action(action, within(timeout_ns, caller)), tls, name)
    return None if found is None else b"".join(one.body.to_pybytes() for one in found)


def _first(
    address: str, call: Callable[[flight.FlightClient], Iterable[T]], tls: TlsSource | None, name: str
) -> list[T] | None:
    """The first message that answers a call; empty for a refusal, None if the process is silent."""
    try:
        return list(islice(call(writer_to(address, tls, name)), 1))
    except (flight.FlightTimedOutError, flight.FlightUnavailableError, flight.FlightCancelledError):
        _watched.forget(address)
        return None
    except (flight.FlightError, pa.ArrowException, OSError):
        return []


def within(timeout_ns: int, ticket: Message | None = None) -> flight.FlightCallOptions:
    """Bounds a whole call, from its start to its last message. Batches that it brings are aligned. A header says who
    presents the `ticket`: a node takes calls of those it knows before those of strangers."""
    assert timeout_ns > 0
    headers = [] if ticket is None else [(CALLER_HEADER.encode(), encode(_caller(ticket)))]
    return flight.FlightCallOptions(timeout=timeout_ns / SECOND_NS, headers=headers, read_options=_ALIGNED)


def _caller(ticket: Message) -> FlightCaller:
    match ticket:
        case ReadTicket() | WriteTicket() | CompactTicket() | ScrubTicket():
            return FlightCaller(login=ticket.login)
        case ReadTogether(first=first):
            return FlightCaller(login=first.login)
        case AskLocalProof() | OpenLocal() | RenewLocal():
            return FlightCaller(login=ticket.login)
        case FetchTicket():
            return FlightCaller(node=ticket.node, session=ticket.session)
        case ForwardTicket():
            return FlightCaller(node=ticket.sender, session=ticket.session)
        case _:
            return FlightCaller()


# ---------------------------------------------------------------- batches


def send(writer: flight.FlightStreamWriter, batch: pa.RecordBatch) -> None:
    """Sends rows to a node, in messages that it takes. Raises `Refused` as `parts` does."""
    for part in parts(batch, FLIGHT_PART_BYTES):
        if part.nbytes <= FLIGHT_PART_BYTES:
            writer.write_batch(part)
            continue
        for piece in pieces(BatchWriter(part.schema).write(part, None)):
            writer.write_metadata(piece)


def parts(
    batch: pa.RecordBatch, part_bytes: int, row_bytes_max: int = FLIGHT_MESSAGE_BYTES_MAX
) -> Iterator[pa.RecordBatch]:
    """`batch` in parts of at most `part_bytes` or of one row, in order, sharing its memory; at least one. Raises
    `Refused` with code ROWS_DO_NOT_FIT for a row over `row_bytes_max`."""
    if batch.nbytes <= part_bytes:
        yield batch
    elif batch.num_rows > 1:
        half = batch.num_rows // 2
        yield from parts(batch.slice(0, half), part_bytes, row_bytes_max)
        yield from parts(batch.slice(half), part_bytes, row_bytes_max)
    elif batch.nbytes <= row_bytes_max:
        yield batch
    else:
        raise Refused(
            f"a row of {batch.nbytes} bytes, over {row_bytes_max}",
            code=ErrorCode.ROWS_DO_NOT_FIT,
            hint="keep large values in files of their own",
        )


def bytes_batch(chunk: bytes | memoryview) -> pa.RecordBatch:
    offsets = pa.array([0, len(chunk)], pa.int32()).buffers()[1]
    column = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(chunk)])
    return pa.RecordBatch.from_arrays([column], schema=BYTES_SCHEMA)
