"""A server of the Arrow Flight protocol over plain gRPC, made for peers that may mean harm; clients are pyarrow's.

Everything that a peer may do is bounded: docs/decisions/0016-flight-over-plain-grpc.md has the list. Bytes come and go
on one event loop (`wire/http2`), and each call has a thread. The server looks at a message's length before it takes its
bytes, so nothing is allocated for one that is too large. Of a call that is not read it takes STREAM_WINDOW_BYTES.
"""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias

import grpc
import pyarrow as pa

from leasehold.core.access.callers import Caller
from leasehold.core.data.held import held_bytes
from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, LeaseholdError, Refused
from leasehold.limits.flight import (
    FLIGHT_CALLERS_OPENING_MAX,
    FLIGHT_CALLERS_PATIENCE_NS,
    FLIGHT_CALLERS_TURN_NS,
    FLIGHT_CALLERS_WAITING_MAX,
    FLIGHT_CALLS_MAX,
    FLIGHT_FIRST_BYTES_MAX,
    FLIGHT_FIRST_OF_ONE_MAX,
    FLIGHT_FIRST_SMALL_BYTES,
    FLIGHT_HEADER_BYTES_MAX,
    FLIGHT_IDLE_NS,
    FLIGHT_OPENING_NS,
    FLIGHT_PIECES_BYTES_MAX,
    FLIGHT_QUIET_NS,
    FLIGHT_READS_MAX,
    FLIGHT_RECEIVED_BYTES_MAX,
    FLIGHT_SCANS_BYTES_MAX,
    FLIGHT_SCANS_PATIENCE_NS,
    FLIGHT_SCANS_TURN_NS,
    FLIGHT_SHUTDOWN_NS,
    FLIGHT_STRANGERS_CALLS_MAX,
    FLIGHT_STRANGERS_OPENING_MAX,
    FLIGHT_STRANGERS_PATIENCE_NS,
    FLIGHT_STRANGERS_WAITING_MAX,
    FLIGHT_WRITES_MAX,
    TICKET_BYTES_MAX,
)
from leasehold.limits.requests import (
    CALLS_PER_PEER_MAX,
    CONNECTION_IDLE_NS,
    STREAM_WINDOW_BYTES,
)
from leasehold.wire.call_gate import CallGate
from leasehold.wire.call_watch import CallWatch, WatchedCall
from leasehold.wire.coding_turns import CODING_TURNS
from leasehold.wire.doors import open_doors
from leasehold.wire.flight import CALLER_HEADER
from leasehold.wire.flight_calls import FlightCall, Incoming, too_many
from leasehold.wire.flight_codec import (
    BatchWriter,
    read_data,
    read_fields,
    write_field,
    write_schema,
)
from leasehold.wire.flight_failures import fail, told
from leasehold.wire.http2.calls import CallEnded, IncomingCall
from leasehold.wire.http2.door_server import CallHandler, DoorServer
from leasehold.wire.http2.grpc_messages import binary
from leasehold.wire.http2.streams import Http2Limits
from leasehold.wire.http2.thread_calls import ThreadCall
from leasehold.wire.known_peers import KnownPeers
from leasehold.wire.loop_thread import LoopThread
from leasehold.wire.memory import give_back_memory
from leasehold.wire.message_room import MessageRoom
from leasehold.wire.open_file import OpenFile
from leasehold.wire.peer_calls import CallsPerPeer
from leasehold.wire.peers import calling_peer
from leasehold.wire.scan_room import ScanRoom
from leasehold.wire.threads import ServingThreads
from leasehold.wire.tls import CallerNames, TlsSource

SERVICE: Final = "/arrow.flight.protocol.FlightService/"


class Outgoing(NamedTuple):
    """The answer to a DoGet. Each batch may come with a message; `batches` is closed when the client goes away.
    `first_bytes_max` is what the first batch may take in memory while it is decoded; 0 for what is not decoded. `file`
    is what the batches come from."""

    schema: pa.Schema
    batches: Iterator[tuple[pa.RecordBatch, bytes | None]]
    first_bytes_max: int = 0
    file: OpenFile | None = None


_Serve: TypeAlias = Callable[[FlightCall], Generator[bytes]]


class FlightService(Protocol):
    """What a server serves; any thread may call it. A `LeaseholdError` travels to the client."""

    actions: Mapping[str, str]
    """What `act` knows, each with a description."""

    def who_calls(self, said: bytes, caller: Caller | None, /) -> str | None:
        """The user or node that a CALLER_HEADER names; None if it may ask nothing here at all. `caller` is whom TLS has
        authenticated, here and below."""
        ...

    def check_counts(self, caller: Caller | None, /) -> None:
        """Called with each message of a call. Raises `Forbidden` once the certificate of the caller counts no more."""
        ...

    def get(self, ticket: bytes, caller: Caller | None, /) -> Outgoing: ...

    def put(self, command: bytes, incoming: Incoming, caller: Caller | None, /) -> Iterator[bytes]:
        """Takes a stream; the answers, while it comes and at its end."""
        ...

    def act(self, action: str, body: bytes, caller: Caller | None, /) -> bytes: ...


class FlightServer:
    """Serves from the moment it is made until `close`.

    It listens at the doors of `listen` (`open_doors`), and `address` has the port. `on_fault` gets every error of
    a handler that is not ours; the peer learns only that it happened. A connection without a call is closed after
    `idle_ns`; a call is cancelled whose first message takes longer than `call_opening_ns`, or a later one than
    `call_idle_ns`.
    """

    def __init__(
        self,
        service: FlightService,
        *,
        listen: str,
        on_fault: Callable[[BaseException], None],
        tls: TlsSource | None = None,
        idle_ns: int = CONNECTION_IDLE_NS,
        call_opening_ns: int = FLIGHT_OPENING_NS,
        call_idle_ns: int = FLIGHT_IDLE_NS,
        calls_per_peer_max: int = CALLS_PER_PEER_MAX,
    ) -> None:
        doors = open_doors(listen, tls)
        self.address = doors.address
        self._threads = ServingThreads()
        self._places = threading.Semaphore(FLIGHT_CALLS_MAX)
        self._watch = CallWatch(on_fault, opening_ns=call_opening_ns, idle_ns=call_idle_ns)
        self._server = DoorServer(
            limits=Http2Limits(streams_max=CALLS_PER_PEER_MAX, stream_window=STREAM_WINDOW_BYTES),
            message_bytes_max=FLIGHT_RECEIVED_BYTES_MAX,
            idle_ns=idle_ns,
            connections_max=doors.connections_max,
            connections_per_peer_max=doors.per_peer_max,
            on_fault=on_fault,
            standing=doors.names.standings(service.check_counts),
            kept_header=CALLER_HEADER.encode(),
            quiet_ns=FLIGHT_QUIET_NS,
            answer_ns=FLIGHT_QUIET_NS,
        )
        peers = CallsPerPeer(are_counted=tls is not None, per_peer_max=calls_per_peer_max)
        self.known = self._server.known
        methods = _Methods(service, self._watch, on_fault, peers, self.known)
        on_thread = partial(self._on_thread, doors.names, methods)
        served = {SERVICE + name: on_thread(one) for name, one in methods.served.items()}
        self._loop = LoopThread("flight doors")
        self._loop.run(self._server.serve(doors.sockets, served, _unserved))

    def close(self) -> None:
        """Stops listening; streams under way have FLIGHT_SHUTDOWN_NS to end, then they are cut off."""
        self._watch.close()
        self._loop.run(self._server.close(grace_ns=FLIGHT_SHUTDOWN_NS))
        self._loop.close()
        self._threads.close()

    def _on_thread(self, names: CallerNames, methods: "_Methods", served: _Serve) -> CallHandler:
        """A call waits for its turn on the loop, and then has a thread."""

        def run(of_thread: ThreadCall, begun: FlightCall, end: ExitStack) -> None:
            of_thread.begin()
            try:
                with end:
                    methods.answer(served, of_thread, begun)
            finally:
                of_thread.finish()

        async def handle(call: IncomingCall) -> None:
            if not self._places.acquire(blocking=False):
                await call.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls are under way at this node")
            with ExitStack() as end:
                end.callback(self._places.release)
                of_thread = ThreadCall(call)
                begun = await methods.begin(of_thread, names.caller(call.auth_context()), end)
                if begun is None:
                    return
                of_run = end.pop_all()
                try:
                    self._threads.submit(run, of_thread, begun, of_run)
                except BaseException:
                    of_run.close()
                    raise
            await of_thread.serve()

        return handle


class _Methods:
    """The methods: bytes in, bytes out."""

    def __init__(
        self,
        service: FlightService,
        watch: CallWatch,
        on_fault: Callable[[BaseException], None],
        peers: CallsPerPeer,
        known: KnownPeers,
    ) -> None:
        self._peers = peers
        self._known = known
        self._users = peers.alike()
        self._unknown = peers.alike(FLIGHT_STRANGERS_CALLS_MAX)
        self._service = service
        self._watch = watch
        self._on_fault = on_fault
        self._callers = CallGate(
            opening_max=FLIGHT_CALLERS_OPENING_MAX,
            waiting_max=FLIGHT_CALLERS_WAITING_MAX,
            patience_ns=FLIGHT_CALLERS_PATIENCE_NS,
            turn_ns=FLIGHT_CALLERS_TURN_NS,
            now_ns=watch.now_ns,
        )
        self._strangers = CallGate(
            opening_max=FLIGHT_STRANGERS_OPENING_MAX,
            waiting_max=FLIGHT_STRANGERS_WAITING_MAX,
            patience_ns=FLIGHT_STRANGERS_PATIENCE_NS,
            turn_ns=FLIGHT_STRANGERS_PATIENCE_NS,
            now_ns=watch.now_ns,
        )
        self._first = MessageRoom(
            bytes_max=FLIGHT_FIRST_BYTES_MAX,
            of_one_max=FLIGHT_FIRST_OF_ONE_MAX,
            small_bytes=FLIGHT_FIRST_SMALL_BYTES,
        )
        self._pieces = ScanRoom(
            bytes_max=FLIGHT_PIECES_BYTES_MAX,
            scans_max=FLIGHT_WRITES_MAX,
            patience_ns=FLIGHT_SCANS_PATIENCE_NS,
            turn_ns=FLIGHT_SCANS_TURN_NS,
            now_ns=watch.now_ns,
        )
        self._room = ScanRoom(
            bytes_max=FLIGHT_SCANS_BYTES_MAX,
            scans_max=FLIGHT_READS_MAX,
            patience_ns=FLIGHT_SCANS_PATIENCE_NS,
            turn_ns=FLIGHT_SCANS_TURN_NS,
            now_ns=watch.now_ns,
        )
        for one in (self._callers, self._strangers, self._pieces, self._room):
            watch.also(one.look)
        served = {"DoGet": self._get, "DoPut": self._put, "DoAction": self._act, "ListActions": self._list_actions}
        self.served: Mapping[str, _Serve] = served
        """By name."""

    async def begin(self, context: ThreadCall, caller: Caller | None, end: ExitStack) -> FlightCall | None:
        """A call whose turn has come, on the loop; None if it was refused. `end` has to be closed once its handler has
        ended."""
        with self._failing(context):
            watched = end.enter_context(self._watch.watching(context))
            begun = end.enter_context(self._begun(context, watched, caller))
            await begun.turn()
            return begun
        context.refuse()
        return None

    def answer(self, served: _Serve, context: ThreadCall, begun: FlightCall) -> None:
        """Of a call that has begun, on a thread."""
        with self._failing(context), suppress(CallEnded), closing(served(begun)) as answers:
            for message in answers:
                begun.check()
                begun.answer(message)
            begun.answered()

    @contextmanager
    def _failing(self, context: ThreadCall) -> Generator[None]:
        """Inside, an error ends the call."""
        try:
            yield
        except LeaseholdError as error:
            fail(context, told(error))
        except Exception as fault:  # noqa: BLE001 the border: what was not foreseen goes to on_fault, not to the peer
            self._on_fault(fault)
            opaque = Indefinite("the node failed on this request", code=ErrorCode.INTERNAL, hint="its log says why")
            fail(context, told(opaque))

    @contextmanager
    def _begun(self, context: ThreadCall, watched: WatchedCall, caller: Caller | None) -> Generator[FlightCall]:
        said = None if context.said is None else binary(context.said)
        user = None if said is None else self._service.who_calls(said, caller)
        gate = self._strangers if user is None else self._callers
        peer = calling_peer(context.peer())
        watched.caller, watched.is_stranger = user or peer, user is None
        if user:
            self._known.add(peer, user)
        check = self._service.check_counts
        call = FlightCall(
            context,
            watched,
            gate,
            peer=peer,
            user=user,
            caller=caller,
            check=check,
            held=self._first,
        )
        with self._peers.counted(peer) as has_room, self._counted(user) as is_one_more:
            try:
                if not has_room or not is_one_more:
                    whose = "from this address" if is_one_more else "of this caller"
                    raise too_many(f"calls {whose} are under way")
                yield call
            finally:
                call.forgotten()

    def _counted(self, user: str | None) -> AbstractContextManager[bool]:
        """Around a call of a user, from any address, or of a stranger; whether there is room for it."""
        return self._unknown.counted("") if user is None else self._users.counted(user)

    def _get(self, call: FlightCall) -> Generator[bytes]:
        ticket = read_fields(call.first(TICKET_BYTES_MAX, is_decided_inside=True)).get(1, b"")
        outgoing = self._service.get(bytes(ticket), call.caller)
        # Inside the gate too: else calls begin faster than they end, and their tickets have no room.
        with CODING_TURNS:
            writer = BatchWriter(outgoing.schema)
        call.taken()
        yield write_schema(outgoing.schema)
        try:
            if outgoing.first_bytes_max:
                self._enter(call, outgoing.first_bytes_max)
            if outgoing.file is not None:
                outgoing.file.make_room = partial(self._enter_again, call, outgoing.first_bytes_max)
            yield from self._rows(call, outgoing, writer)
        finally:
            del outgoing  # frees the batches before another scan gets the room
            if self._room.leave(call.watched):
                give_back_memory()

    def _enter(self, call: FlightCall, size: int) -> None:
        if not self._room.enter(call.watched, call.user or "", size):
            raise Refused(
                "too many scans wait for this node's memory",
                code=ErrorCode.BUSY,
                hint="another replica may serve; or try again with fewer streams at once",
            )

    def _enter_again(self, call: FlightCall, first_bytes_max: int, file_bytes: int) -> None:
        """Makes room for the next file of a scan, with its footer. The file before is closed."""
        self._room.leave(call.watched)
        self._enter(call, first_bytes_max + file_bytes)

    def _rows(self, call: FlightCall, outgoing: Outgoing, writer: BatchWriter) -> Iterator[bytes]:
        for batch, metadata in outgoing.batches:
            with CODING_TURNS:
                message = writer.write(batch, metadata)
            # A batch shares memory with others from the same decoding. The pages of the file that it comes from take
            # about as much again, and over TLS what is encrypted a little.
            batch_bytes = max(batch.get_total_buffer_size(), held_bytes(batch))
            file_bytes = 0 if outgoing.file is None else outgoing.file.bytes
            self._room.hold(call.watched, file_bytes + 2 * batch_bytes + 2 * len(message))
            del batch
            yield message

    def _put(self, call: FlightCall) -> Generator[bytes]:
        begin = read_data(call.first(TICKET_BYTES_MAX + FLIGHT_HEADER_BYTES_MAX))
        incoming = Incoming(begin, call, self._pieces)
        for answer in self._service.put(bytes(begin.command or b""), incoming, call.caller):
            call.taken()
            yield write_field(1, answer)

    def _act(self, call: FlightCall) -> Generator[bytes]:
        asked = read_fields(call.first(TICKET_BYTES_MAX))
        action, body = (bytes(asked.get(number, b"")) for number in (1, 2))
        answer = self._service.act(action.decode(errors="replace"), body, call.caller)
        del asked, body
        call.forgotten()
        yield write_field(1, answer)

    def _list_actions(self, call: FlightCall) -> Generator[bytes]:
        call.first(0)
        call.forgotten()
        for name, description in self._service.actions.items():
            yield write_field(1, name.encode()) + write_field(2, description.encode())


async def _unserved(call: IncomingCall) -> None:
    context = ThreadCall(call)
    error = Refused("a node does not serve this call", code=ErrorCode.BAD_CALL, hint="ask a coordinator")
    fail(context, told(error))
    context.refuse()
