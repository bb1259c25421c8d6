"""A node's Flight service: dispatches tickets to scans, appends and fetches, on the threads of its server."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple, NoReturn

import msgspec
import pyarrow as pa

from leasehold.core.access.callers import Caller, check_caller, check_counts, check_person, check_sender
from leasehold.core.access.rights import asker_of
from leasehold.core.data.appends import Appends
from leasehold.core.data.compactions import Compactions
from leasehold.core.data.fetches import Fetches
from leasehold.core.data.forwarding import FORWARD_LIMITS, ForwardLimits
from leasehold.core.data.manifest import Manifest
from leasehold.core.data.peers import Peers
from leasehold.core.data.requests import Requests, check_node
from leasehold.core.data.scans import Scans
from leasehold.core.local.reads import LocalReads
from leasehold.core.words import messages
from leasehold.core.words.codec import decode_message, encode
from leasehold.core.words.records import PrincipalRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Forbidden, Refused, Unauthenticated
from leasehold.limits.flight import FLIGHT_WAITS_MAX, FLIGHT_WRITES_MAX
from leasehold.limits.local import LOCAL_SWEEP_NS
from leasehold.limits.segments import BATCH_ROWS, ROW_GROUP_BYTES, SCAN_FIRST_BYTES_MAX, SCHEMA_WAIT_NS
from leasehold.node.agent.published import Published
from leasehold.node.disk.segment_files import LocalFiles, LocalSegments
from leasehold.node.disk.space import noting
from leasehold.node.serving.peers import FlightPeers
from leasehold.node.serving.scrubs import Scrubs
from leasehold.node.serving.streams import IncomingRows, ParquetEncoder, incoming_bytes
from leasehold.storage.files import SegmentFiles
from leasehold.storage.local_links import LocalLinks
from leasehold.storage.row_room import RowRoom
from leasehold.storage.schema import arrow_schema
from leasehold.storage.servelog import ServeLog
from leasehold.storage.sorted_rows import SortedRows
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.flight import BYTES_SCHEMA, HEALTH, LOCAL, bytes_batch, read_ticket, report
from leasehold.wire.flight_calls import Incoming
from leasehold.wire.flight_server import FlightServer, Outgoing
from leasehold.wire.open_file import OpenFile
from leasehold.wire.ports import Clock
from leasehold.wire.steps import ThreadRuntime, iterate, run
from leasehold.wire.tls import TlsSource


class ServingLimits(NamedTuple):
    """Bounds of a node's Flight service."""

    batch_rows: int = BATCH_ROWS
    writes_max: int = FLIGHT_WRITES_MAX
    schema_wait_ns: int = SCHEMA_WAIT_NS
    waits_max: int = FLIGHT_WAITS_MAX
    forward: ForwardLimits = FORWARD_LIMITS


SERVING_LIMITS: Final = ServingLimits()


class NodeFlight:
    """Implements `wire.flight_server.FlightService`; serves from its creation until `shutdown`.

    `listen` and `tls` are as in `FlightServer`, and `address` has the port that was picked for 0. `on_fault` gets every
    unexpected error of a handler; the peer learns only that there was one. Raises `BadSettings` (PORT_IN_USE).
    """

    actions: Mapping[str, str] = {
        HEALTH: "the node's own state, as JSON",
        LOCAL: "links to segment files, for a reader on this machine",
    }

    def __init__(
        self,
        *,
        published: Published,
        files: SegmentFiles,
        manifest: Manifest,
        serve_log: ServeLog,
        now_ns: Callable[[], int],
        listen: str = "127.0.0.1:0",
        tls: TlsSource | None = None,
        on_fault: Callable[[BaseException], None] = report,
        limits: ServingLimits = SERVING_LIMITS,
    ) -> None:
        self._published = published
        self._now_ns = now_ns
        runtime = ThreadRuntime(now_ns)
        requests = Requests(published, runtime, wait_ns=limits.schema_wait_ns, waits_max=limits.waits_max)
        local = LocalFiles(files, published.suspects)
        self._scans = Scans(
            requests, manifest, LocalSegments(files, published, serve_log, batch_rows=limits.batch_rows)
        )
        self._local = LocalReads(requests, self._scans, LocalLinks(files, SystemEntropy().hex_128()))
        published.on_view, published.on_surrender = self._local.viewed, self._local.end_all
        self._appends = Appends(
            requests,
            local,
            partial(ParquetEncoder, room=RowRoom(ROW_GROUP_BYTES)),
            Peers(runtime, FlightPeers(tls)),
            writes_max=limits.writes_max,
            forward_limits=limits.forward,
        )
        self._compactions = Compactions(requests, self._scans, self._appends, SortedRows)
        self._fetches = Fetches(requests, local, manifest)
        self._scrubs = Scrubs(requests, manifest, files, published)
        self._server = FlightServer(self, listen=listen, on_fault=on_fault, tls=tls)
        self.address: Final = self._server.address
        """The `host:port` it listens on."""
        self.known: Final = self._server.known

    def shutdown(self) -> None:
        """Stops listening; running streams have FLIGHT_SHUTDOWN_NS to end, then they are cut off."""
        self._server.close()

    def who_calls(self, said: bytes, caller: Caller | None) -> str | None:
        """A node, or a user who has logged in; whoever may ask at all, if the cluster has no users."""
        view = self._published.view
        try:
            match decode_message(said):
                case messages.FlightCaller(session=None, login=login):
                    check_person(caller, view)
                    asker = asker_of(login, view)
                    return f"user {asker.user.name}" if asker is not None else str(caller or "")
                case messages.FlightCaller(node=node, session=session):
                    check_sender(node, caller, view)
                    check_node(node, session, view)
                    return f"node {node}"
                case _:
                    return None
        except (Refused, Forbidden, Unauthenticated):
            return None

    def check_counts(self, caller: Caller | None) -> None:
        check_counts(caller, self._published.view)

    def get(self, ticket: bytes, caller: Caller | None) -> Outgoing:
        """A scan of segments, a copy of it for another node, a compaction, or a scrub."""
        request = read_ticket(ticket)
        check_caller(request, caller, self._published.view)
        match request:
            case messages.ReadTicket() | messages.ReadTogether():
                scan = run(self._scans.open(request))
                opened = OpenFile()
                rows = _released(self._scans.stream(scan, opened.opening))
                return Outgoing(arrow_schema(scan.ticket.fields), rows, SCAN_FIRST_BYTES_MAX, opened)
            case messages.FetchTicket():
                self._fetches.open(request)
                return Outgoing(BYTES_SCHEMA, _given(self._fetches.give(request)))
            case messages.CompactTicket():
                user = run(self._compactions.open(request))
                return Outgoing(BYTES_SCHEMA, self._compacted(request, user))
            case messages.ScrubTicket():
                view = run(self._scrubs.open(request))
                found = self._scrubs.stream(request, view)
                return Outgoing(BYTES_SCHEMA, ((bytes_batch(encode(one)), None) for one in found))
            case _:
                raise _no_ticket("read")

    def _compacted(
        self, request: messages.CompactTicket, user: PrincipalRecord | None
    ) -> Iterator[tuple[pa.RecordBatch, None]]:
        with noting(self._published):
            for one in iterate(self._compactions.compact(request, user)):
                yield bytes_batch(encode(one)), None

    async def compact_by_itself(self, ticket: messages.CompactTicket) -> messages.StagedSegment:
        """The new segment of a bucket that this node compacts by itself, on a thread."""

        def compact() -> messages.StagedSegment:
            with noting(self._published):
                return run(self._compactions.compact_by_itself(ticket))

        return await asyncio.to_thread(compact)

    def put(self, command: bytes, incoming: Incoming, caller: Caller | None) -> Iterator[bytes]:
        """Rows from a client, or a segment's bytes from another node."""
        request = read_ticket(command)
        check_caller(request, caller, self._published.view)
        match request:
            case messages.WriteTicket():
                with noting(self._published):
                    answer = run(self._appends.write(request, IncomingRows(incoming)))
                yield encode(answer)
            case messages.ForwardTicket():
                with noting(self._published):
                    for one in iterate(self._appends.accept(request, incoming_bytes(incoming))):
                        yield encode(one)
            case _:
                raise _no_ticket("write")

    def act(self, action: str, body: bytes, caller: Caller | None) -> bytes:
        if action == HEALTH:
            return msgspec.json.encode(self.health())
        if action == LOCAL:
            return encode(self._act_locally(read_ticket(body), caller))
        known = " and ".join(self.actions)
        raise Refused(f"no action {action[:64]!r}", code=ErrorCode.BAD_ACTION, hint=f"there are {known}")

    def _act_locally(self, request: messages.Message, caller: Caller | None) -> messages.Message:
        check_caller(request, caller, self._published.view)
        match request:
            case messages.AskLocalProof():
                return run(self._local.prove(request))
            case messages.OpenLocal():
                return run(self._local.open(request))
            case messages.RenewLocal():
                return run(self._local.renew(request))
            case _:
                raise _no_ticket("open files locally")

    async def sweep_local(self, clock: Clock) -> NoReturn:
        """Removes links whose sub-lease has ended, until it is cancelled."""
        while True:
            await clock.sleep_until(clock.now_ns() + LOCAL_SWEEP_NS)
            await asyncio.to_thread(run, self._local.sweep())

    def health(self) -> messages.NodeStatus:
        """This node's own state."""
        return msgspec.structs.replace(
            self._published.status(self._now_ns(), self.address),
            segments_given=self._fetches.segments_given,
            bytes_given=self._fetches.bytes_given,
        )


def _released(
    steps: AsyncGenerator[tuple[pa.RecordBatch, messages.BatchMark], None],
) -> Iterator[tuple[pa.RecordBatch, bytes]]:
    for batch, mark in iterate(steps):
        yield batch, encode(mark)


def _given(steps: AsyncGenerator[bytes, None]) -> Iterator[tuple[pa.RecordBatch, None]]:
    for chunk in iterate(steps):
        yield bytes_batch(chunk), None


def _no_ticket(way: str) -> Refused:
    return Refused(f"the message is not a ticket to {way}", code=ErrorCode.BAD_TICKET, hint="upgrade the client")
