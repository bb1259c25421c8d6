"""A node's Flight service: dispatches tickets to scans, appends and fetches, on the threads of its server."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from leasehold.core.codec import decode_message
from leasehold.core.data.requests import check_cluster, check_node
from leasehold.core.messages import FetchTicket, FlightCaller, ForwardTicket, NodeStatus, ReadTicket, WriteTicket
from leasehold.core.rights import user_of
from leasehold.errors import Forbidden, Refused, Unauthenticated
from leasehold.limits.flight import FLIGHT_WRITES_MAX
from leasehold.limits.segments import BATCH_ROWS, SCHEMA_WAIT_NS
from leasehold.node.appends import Appends
from leasehold.node.fetch import Fetches
from leasehold.node.forwarding import FORWARD_LIMITS, ForwardLimits
from leasehold.node.published import Published
from leasehold.node.scans import Scans
from leasehold.node.space import noting
from leasehold.storage.files import SegmentFiles
from leasehold.storage.servelog import ServeLog
from leasehold.wire.flight import HEALTH, read_ticket, report
from leasehold.wire.flight_server import FlightServer, Incoming, Outgoing


class ServingLimits(NamedTuple):
    """Bounds of a node's Flight service."""

    batch_rows: int = BATCH_ROWS
    writes_max: int = FLIGHT_WRITES_MAX
    schema_wait_ns: int = SCHEMA_WAIT_NS
    forward: ForwardLimits = FORWARD_LIMITS


SERVING_LIMITS: Final = ServingLimits()


class NodeFlight:
    """Implements `wire.flight_server.FlightService`; serves from the moment it is made until `shutdown`.

    `listen` is `host:port` on the loopback interface; port 0 picks a free one, `address` tells which. Raises
    `BadSettings`: code PORT_IN_USE where another process listens there. `on_fault` gets every error of a handler that
    is not ours; the peer learns of it only that it happened.
    """

    actions: Mapping[str, str] = {HEALTH: "the node's own state, as JSON"}

    def __init__(
        self,
        *,
        published: Published,
        files: SegmentFiles,
        serve_log: ServeLog,
        now_ns: Callable[[], int],
        listen: str = "127.0.0.1:0",
        on_fault: Callable[[BaseException], None] = report,
        limits: ServingLimits = SERVING_LIMITS,
    ) -> None:
        self._published = published
        self._now_ns = now_ns
        self._scans = Scans(
            published=published,
            files=files,
            serve_log=serve_log,
            now_ns=now_ns,
            batch_rows=limits.batch_rows,
            schema_wait_ns=limits.schema_wait_ns,
        )
        self._appends = Appends(
            published=published,
            files=files,
            now_ns=now_ns,
            writes_max=limits.writes_max,
            schema_wait_ns=limits.schema_wait_ns,
            forward_limits=limits.forward,
        )
        self._fetches = Fetches(published=published, files=files)
        self._server = FlightServer(self, listen=listen, on_fault=on_fault)

    @property
    def address(self) -> str:
        """The `host:port` it listens on, with the port that was picked."""
        return self._server.address

    def shutdown(self) -> None:
        """Stops listening; streams under way have FLIGHT_SHUTDOWN_NS to end, then they are cut off."""
        self._server.close()

    # ------------------------------------------------------------ what is served

    def knows(self, caller: bytes) -> bool:
        """Whether it is a node, or a user who has logged in; anybody who says so where there are no users."""
        try:
            said = decode_message(caller)
            match said:
                case FlightCaller(session=None):
                    user_of(said.login, self._published.view)
                case FlightCaller():
                    check_node(said.node, said.session, self._published.view)
                case _:
                    return False
        except (Refused, Forbidden, Unauthenticated):
            return False
        return True

    def get(self, ticket: bytes) -> Outgoing:
        """A scan of one segment, or a copy of it for another node."""
        request = read_ticket(ticket)
        match request:
            case ReadTicket():
                check_cluster(self._published, request.cluster_id)
                return self._scans.open(request)
            case FetchTicket():
                check_cluster(self._published, request.cluster_id)
                return self._fetches.open(request)
            case _:
                raise _no_ticket("read")

    def put(self, command: bytes, incoming: Incoming) -> Iterator[bytes]:
        """Rows from a client, or a segment's bytes from another node."""
        request = read_ticket(command)
        match request:
            case WriteTicket():
                check_cluster(self._published, request.cluster_id)
                with noting(self._published):
                    answer = self._appends.write(request, incoming)
                yield answer
            case ForwardTicket():
                check_cluster(self._published, request.cluster_id)
                with noting(self._published):
                    yield from self._appends.accept(request, incoming)
            case _:
                raise _no_ticket("write")

    def act(self, action: str) -> bytes:
        """The action `health`."""
        if action != HEALTH:
            raise Refused(f"no action {action[:64]!r}", code="BAD_ACTION", hint=f"The one action is {HEALTH}.")
        return msgspec.json.encode(self.health())

    def health(self) -> NodeStatus:
        """How this node sees itself."""
        return msgspec.structs.replace(
            self._published.status(self._now_ns(), self.address),
            segments_given=self._fetches.segments_given,
            bytes_given=self._fetches.bytes_given,
        )


def _no_ticket(way: str) -> Refused:
    return Refused(f"that message is not a ticket to {way}", code="BAD_TICKET", hint="upgrade the client")
