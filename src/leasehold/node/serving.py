"""A node's Flight server: dispatches tickets to scans, appends and fetches, on threads of Flight's own."""

import threading
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
import pyarrow as pa
from pyarrow import flight

from leasehold.core.messages import FetchTicket, ForwardTicket, NodeStatus, ReadTicket, WriteTicket
from leasehold.errors import Refused
from leasehold.limits import BATCH_ROWS, FLIGHT_SHUTDOWN_NS, SECOND_NS
from leasehold.node.appends import Appends
from leasehold.node.fetch import Fetches
from leasehold.node.guarding import check_cluster
from leasehold.node.published import Published
from leasehold.node.scans import Scans
from leasehold.storage.files import SegmentFiles
from leasehold.storage.servelog import ServeLog
from leasehold.wire.addresses import loopback, port_in_use, probe
from leasehold.wire.flight import answering, as_flight, read_ticket, report

HEALTH: Final = "health"
"""The action that answers a node's `NodeStatus` as JSON, fenced or not."""

SERVED: Final = frozenset(
    {
        flight.FlightMethod.DO_GET,
        flight.FlightMethod.DO_PUT,
        flight.FlightMethod.DO_ACTION,
        flight.FlightMethod.LIST_ACTIONS,
    }
)


class NodeFlight(flight.FlightServerBase):  # pyright: ignore[reportUntypedBaseClass] pyarrow declares it without types
    """Serves from the moment it is made until `shutdown`.

    `listen` is `host:port` on the loopback interface; port 0 picks a free one, `address` tells which. Raises
    `BadSettings`: code PORT_IN_USE where another process listens there. `on_fault` gets every error of a handler that
    is not ours; the peer learns of it only that it happened.
    """

    def __init__(
        self,
        *,
        published: Published,
        files: SegmentFiles,
        serve_log: ServeLog,
        now_ns: Callable[[], int],
        listen: str = "127.0.0.1:0",
        on_fault: Callable[[BaseException], None] = report,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        self._published = published
        self._now_ns = now_ns
        self._on_fault = on_fault
        self._scans = Scans(
            published=published,
            files=files,
            serve_log=serve_log,
            now_ns=now_ns,
            on_fault=on_fault,
            batch_rows=batch_rows,
        )
        self._appends = Appends(published=published, files=files, now_ns=now_ns)
        self._fetches = Fetches(published=published, files=files, on_fault=on_fault)
        host, port = loopback(listen)
        probe(host, port, listen)
        self._host = f"[{host}]" if ":" in host else host
        try:
            super().__init__(f"grpc://{self._host}:{port}", middleware={"served": _OnlyServed()})
        except pa.ArrowException as error:
            # Another process took the port between the probe and here.
            raise port_in_use(listen) from error

    @property
    def address(self) -> str:
        """The `host:port` it listens on, with the port that was picked."""
        return f"{self._host}:{self.port}"

    def shutdown(self) -> None:
        """Stops listening; streams under way have FLIGHT_SHUTDOWN_NS to end, then they end with the process."""
        # Flight waits for the slowest client.
        waiting = threading.Thread(target=super().shutdown, name="flight shutdown", daemon=True)
        waiting.start()
        waiting.join(FLIGHT_SHUTDOWN_NS / SECOND_NS)

    # ------------------------------------------------------------ what is served

    def do_get(self, _context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        """A scan of one segment, or a copy of it for another node."""
        with answering(self._on_fault):
            request = read_ticket(ticket.ticket)
            match request:
                case ReadTicket():
                    check_cluster(self._published, request.cluster_id)
                    return self._scans.open(request)
                case FetchTicket():
                    check_cluster(self._published, request.cluster_id)
                    return self._fetches.open(request)
                case _:
                    raise _no_ticket("read")

    def do_put(
        self,
        _context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        """Rows from a client, or a segment's bytes from another node."""
        with answering(self._on_fault):
            request = read_ticket(descriptor.command)
            match request:
                case WriteTicket():
                    check_cluster(self._published, request.cluster_id)
                    self._appends.write(request, reader, writer)
                case ForwardTicket():
                    check_cluster(self._published, request.cluster_id)
                    self._appends.accept(request, reader, writer)
                case _:
                    raise _no_ticket("write")

    def do_action(self, _context: flight.ServerCallContext, action: flight.Action) -> Iterator[bytes]:
        """The action `health`."""
        with answering(self._on_fault):
            if action.type != HEALTH:
                raise Refused(f"no action {action.type[:64]!r}", code="BAD_ACTION", hint=f"The one action is {HEALTH}.")
            return iter([msgspec.json.encode(self.health())])

    def health(self) -> NodeStatus:
        """How this node sees itself."""
        lease, now_ns = self._published.lease, self._now_ns()
        view, node = self._published.view, self._published.node
        left_ns = max(0, lease.deadline_ns - now_ns)
        never = "RECOVERING" if lease.deadline_ns < 0 else "FENCED"
        return NodeStatus(
            id=node,
            name=view.nodes[node].name if node in view.nodes else "",
            address=self.address,
            incarnation=self._published.incarnation,
            state="ACTIVE" if left_ns else never,
            applied_revision=view.revision,
            lease_remaining_ns=left_ns,
            segments_given=self._fetches.segments_given,
            bytes_given=self._fetches.bytes_given,
        )

    def list_actions(self, _context: flight.ServerCallContext) -> list[tuple[str, str]]:
        """What `do_action` knows."""
        return [(HEALTH, "the node's own state, as JSON")]


class _OnlyServed(flight.ServerMiddlewareFactory):  # pyright: ignore[reportUntypedBaseClass] as above
    """Turns away what no handler is there for: Flight's own answer to it shows a traceback."""

    def start_call(self, info: flight.CallInfo, _headers: object) -> None:
        if info.method not in SERVED:
            raise _unserved()


def _unserved() -> flight.FlightServerError:
    return as_flight(Refused("a node does not serve this call", code="BAD_CALL", hint="Ask a coordinator."))


def _no_ticket(way: str) -> Refused:
    return Refused(f"that message is not a ticket to {way}", code="BAD_TICKET", hint="upgrade the client")
