"""The data side of a simulated node: what `node/serving.py` is over Flight, over the simulated network.

Every decision is production code: the guard, admission, authorisation, the reconciler. What is here is the order of
the steps that `node/appends.py`, `node/forwarding.py` and `node/scans.py` document, with tasks in place of threads. A
write is a session (ticket, `Rows` .. , `RowsEnd` or `BytesEnd`, then the answer), a scan or a copy is a stream of
`Rows`, of a scan with its marks. Rows don't expire here: the simulator's have no time.

All waiting is on the node's own clock, so a paused process does nothing. What a thread would do to its end, whoever
has gone meanwhile, is done by a task of the process.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import lru_cache
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Any, Final, NoReturn, TypeVar

import msgspec
import pyarrow as pa

from leasehold.core.catalog import Catalog, live_fields
from leasehold.core.cutoff import check_decided, rows_taken_away
from leasehold.core.data.read_access import authorise, is_replaceable
from leasehold.core.data.requests import behind, busy, check_cluster, check_node, guarded, missing
from leasehold.core.data.write_access import (
    Admitted,
    admit_forward,
    admit_write,
    described,
    forward_ticket,
    sealed_here,
    stored,
)
from leasehold.core.lease import Pass
from leasehold.core.messages import (
    BatchMark,
    BytesEnd,
    FetchTicket,
    ForwardAdmitted,
    ForwardTicket,
    Message,
    ReadTicket,
    Rows,
    RowsEnd,
    SegmentStored,
    StagedSegment,
    WhoAreYou,
    WriteTicket,
)
from leasehold.core.reconcile import OnDisk
from leasehold.core.records import ColumnStatistics, Field, TableRecord
from leasehold.core.rewrite import hiding
from leasehold.errors import Corrupt, LeaseholdError, Refused
from leasehold.ids import Revision
from leasehold.limits.flight import FLIGHT_READS_MAX, FLIGHT_WRITES_MAX
from leasehold.limits.segments import SCHEMA_WAIT_NS
from leasehold.limits.units import MILLISECOND_NS
from leasehold.node.agent import Agent
from leasehold.node.published import Published
from leasehold.node.reconciler import Following, Reconciler
from leasehold.storage.conforming import conform
from leasehold.testing.disk import MemoryDisk, SegmentDisk, by_bucket
from leasehold.testing.forwarding import Forwarding, Peers
from leasehold.testing.hosts import Host
from leasehold.testing.rows import Content, RowId, batch_message, fulfils, rows_in, rows_message
from leasehold.testing.threads import NoThreads
from leasehold.wire.ports import Clock, Duplex, Vault
from leasehold.wire.tasks import gravest_here

T = TypeVar("T")

OnReleased = Callable[[Pass[Catalog], ReadTicket, tuple[RowId, ...]], None]
"""Told of each batch at the instant its guard has passed: the guard's pass, the scan, the rows."""

FETCH_CHUNK_ROWS: Final = 16
SHOWN_POLL_NS: Final = 5 * MILLISECOND_NS


class DataNode:
    """What of a node's data side outlives its processes: the disk, the knobs, and who watches."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.disk = SegmentDisk()
        self.batch_rows = 4
        self.batch_delay_ns: Callable[[], int] = lambda: MILLISECOND_NS
        """Drawn before each batch of a scan is guarded."""
        self.on_released: OnReleased = lambda _passed, _ticket, _rows: None

    async def run_beside(
        self,
        agent: Agent,
        *,
        address: str,
        published: Published,
        vault: Vault,
        clock: Clock,
        on_fault: Callable[[BaseException], None],
    ) -> NoReturn:
        """One process: `agent.run()` and its data side, until it is cancelled. Raises what ends the agent."""
        try:
            async with asyncio.TaskGroup() as group:
                data = group.create_task(
                    self._run(
                        agent=agent,
                        address=address,
                        published=published,
                        vault=vault,
                        clock=clock,
                        on_fault=on_fault,
                    )
                )
                # In this task, so that a kill reaches it at once.
                await agent.run()
                data.cancel()
        except BaseExceptionGroup as errors:
            raise gravest_here(errors) from errors
        raise AssertionError("an agent runs until it is cancelled")

    def kill(self) -> None:
        """The process is gone, and nothing it wrote is lost."""
        self.disk.kill()

    def crash(self, random: Random) -> None:
        """The machine is gone, and with it what was not synced."""
        self.disk.crash(random)

    async def _run(
        self,
        *,
        agent: Following,
        address: str,
        published: Published,
        vault: Vault,
        clock: Clock,
        on_fault: Callable[[BaseException], None],
    ) -> None:
        disk = self.disk.open(clock=clock, transport=self.host, published=published)
        try:
            reconciler = Reconciler(
                agent=agent,
                published=published,
                disk=disk,
                since_start=by_bucket(self.disk.listing()),
                vault=vault,
                clock=clock,
                threads=NoThreads(),
            )
            async with asyncio.TaskGroup() as group:
                service = DataService(self, address=address, disk=disk, published=published, clock=clock, group=group)
                server = await self.host.serve(address, service, on_fault=on_fault)
                try:
                    await reconciler.run()
                finally:
                    await server.close()
        finally:
            disk.close()


class DataService:
    """Implements `wire.ports.Service` for one process."""

    def __init__(
        self,
        node: DataNode,
        *,
        address: str,
        disk: MemoryDisk,
        published: Published,
        clock: Clock,
        group: asyncio.TaskGroup,
    ) -> None:
        self._node = node
        self._address = address
        self._disk = disk
        self._published = published
        self._clock = clock
        self._group = group
        self._peers = Peers(node.host, clock, group)
        self._writing = self._accepting = self._reading = 0

    async def call(self, request: Message) -> Message:
        """How this node sees itself, as the action `health` answers."""
        if not isinstance(request, WhoAreYou):
            raise _no_ticket(request)
        return self._published.status(self._clock.now_ns(), self._address)

    def stream(self, request: Message) -> AsyncIterator[Message]:
        """A scan of one segment, or a copy of it for another node."""
        match request:
            case ReadTicket():
                return self._scan(request)
            case FetchTicket():
                return self._give(request)
            case _:
                raise _no_ticket(request)

    async def session(self, duplex: Duplex) -> None:
        """Rows from a client, or a segment from another node."""
        ticket = await duplex.receive()
        match ticket:
            case WriteTicket():
                answer: Message = await self._to_its_end(self._write(ticket, duplex))
            case ForwardTicket():
                answer = await self._to_its_end(self._accept(ticket, duplex))
            case _:
                raise _no_ticket(ticket)
        await duplex.send(answer)

    # ------------------------------------------------------------ writes

    async def _write(self, ticket: WriteTicket, duplex: Duplex) -> StagedSegment:
        check_cluster(self._published, ticket.cluster_id)
        if self._writing >= FLIGHT_WRITES_MAX:
            raise busy("writes", FLIGHT_WRITES_MAX)
        self._writing += 1
        try:
            return await self._stage(ticket, duplex)
        finally:
            self._writing -= 1

    async def _stage(self, ticket: WriteTicket, duplex: Duplex) -> StagedSegment:
        await self._until_shown(ticket.revision)
        admitted = self._admit(ticket)
        fields = live_fields(admitted.table)
        forward = forward_ticket(ticket, admitted, self._published)
        with self._disk.create(OnDisk(ticket.table, ticket.bucket, ticket.segment)) as file:
            async with Forwarding(
                admitted.peers,
                forward,
                self._peers,
                self._node.host,
                self._clock,
                min_in_sync=admitted.min_in_sync,
            ) as forwarding:
                rows = 0
                while not isinstance(message := await self._received(duplex), RowsEnd):
                    part = rows_in(message)
                    assert isinstance(message, Rows)
                    _fit(message.columns, fields)
                    rows += len(part)
                    await forwarding.send(message)
                    file.write(part)
                if message.rows != rows:
                    raise _cut_off()
                self._admit(ticket)
                content = file.content
                segment = StagedSegment(
                    id=ticket.segment,
                    table=ticket.table,
                    bucket=ticket.bucket,
                    schema_version=admitted.table.schema_version,
                    rows=rows,
                    size_bytes=content.size_bytes,
                    sha256=content.sha256,
                    statistics=tuple(
                        ColumnStatistics(field=one.id, nulls=0, minimum=None, maximum=None) for one in fields
                    ),
                    holders=(),
                )
                end = BytesEnd(size_bytes=content.size_bytes, sha256=content.sha256, segment=segment)
                await forwarding.send(end)
                await file.finish()
                myself = sealed_here(self._published, segment, admitted.order)
                holders = (myself, *await forwarding.holders(end))
        # I12: what took long may have outlived the lease. Without an answer the file goes when the transaction ends.
        self._admit(ticket)
        return msgspec.structs.replace(segment, holders=holders)

    def _admit(self, ticket: WriteTicket) -> Admitted:
        return admit_write(ticket, guarded(self._published, self._clock.now_ns).view, self._published.node)

    async def _accept(self, ticket: ForwardTicket, duplex: Duplex) -> SegmentStored:
        check_cluster(self._published, ticket.cluster_id)
        if self._accepting >= FLIGHT_WRITES_MAX:
            raise busy("forwarded writes", FLIGHT_WRITES_MAX)
        self._accepting += 1
        try:
            return await self._store(ticket, duplex)
        finally:
            self._accepting -= 1

    async def _store(self, ticket: ForwardTicket, duplex: Duplex) -> SegmentStored:
        await self._until_shown(ticket.revision)
        self._admit_forward(ticket)
        await duplex.send(ForwardAdmitted())
        with self._disk.create(OnDisk(ticket.table, ticket.bucket, ticket.segment)) as file:
            while not isinstance(end := await self._received(duplex), BytesEnd):
                file.write(rows_in(end))
            content = file.content
            if (content.size_bytes, content.sha256) != (end.size_bytes, end.sha256):
                raise Refused("the bytes are not those that were sent", code="BROKEN_STREAM", hint="send them again")
            segment = described(ticket, end)
            self._admit_forward(ticket)
            await file.finish()
        return stored(segment, self._published, self._admit_forward(ticket))

    def _admit_forward(self, ticket: ForwardTicket) -> int:
        return admit_forward(ticket, guarded(self._published, self._clock.now_ns).view, self._published.node)

    async def _received(self, duplex: Duplex) -> Message:
        message = await duplex.receive()
        await self._awake()
        if message is None:
            raise _cut_off()
        return message

    # ------------------------------------------------------------ scans and copies

    async def _scan(self, ticket: ReadTicket) -> AsyncIterator[Message]:
        check_cluster(self._published, ticket.cluster_id)
        await self._until_shown(ticket.revision)
        authorise(ticket, guarded(self._published, self._clock.now_ns).view)
        if self._reading >= FLIGHT_READS_MAX:
            raise busy("scans", FLIGHT_READS_MAX)
        self._reading += 1
        try:
            content = await self._verified(ticket)
            row = ticket.row_offset
            columns = tuple(field.name for field in ticket.fields)
            table: TableRecord | None = None
            while row < len(content.rows):
                await self._pass(self._node.batch_delay_ns())
                part = content.rows[row : row + self._node.batch_rows]
                passed = guarded(self._published, self._clock.now_ns)
                table = authorise(ticket, passed.view, table)
                row += len(part)
                part = _shown(part, ticket, table, passed.view)
                revision, lease = passed.view.revision, passed.lease
                self._node.on_released(passed, ticket, part)
                mark = BatchMark(next_row=row, view_revision=revision, term=lease.term, sequence=lease.sequence)
                yield batch_message(part, columns, mark)
        finally:
            self._reading -= 1

    async def _verified(self, ticket: ReadTicket) -> Content:
        one = OnDisk(ticket.table, ticket.bucket, ticket.segment)
        content = self._disk.content(one)
        if content is None:
            raise missing(self._published, ticket.segment)
        if content.sha256 != ticket.sha256:
            view = guarded(self._published, self._clock.now_ns).view
            if is_replaceable(ticket, view, self._published.node):
                await self._to_its_end(self._disk.trash(one))
            raise Corrupt(f"segment {ticket.segment} is not what the manifest says")
        return content

    async def _give(self, ticket: FetchTicket) -> AsyncIterator[Message]:
        check_cluster(self._published, ticket.cluster_id)
        check_node(ticket.node, ticket.session, self._published.view)
        content = self._disk.content(OnDisk(ticket.table, ticket.bucket, ticket.segment))
        if content is None:
            raise missing(self._published, ticket.segment)
        for start in range(0, len(content.rows), FETCH_CHUNK_ROWS):
            await self._pass(self._node.batch_delay_ns())
            yield rows_message(content.rows[start : start + FETCH_CHUNK_ROWS])

    # ------------------------------------------------------------ time and tasks

    async def _until_shown(self, revision: Revision) -> None:
        """As `node.guarding.wait_until_shown`, which blocks its thread."""
        give_up_ns = self._clock.now_ns() + SCHEMA_WAIT_NS
        while self._published.view.revision < revision:
            passed = guarded(self._published, self._clock.now_ns)
            if passed.released_ns >= give_up_ns:
                raise behind(self._published, revision, SCHEMA_WAIT_NS)
            await self._pass(SHOWN_POLL_NS)

    async def _pass(self, duration_ns: int) -> None:
        await self._clock.sleep_until(self._clock.now_ns() + duration_ns)

    async def _awake(self) -> None:
        """Returns at once, unless this process is paused."""
        await self._pass(0)

    async def _to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Does `work` as a thread would: it ends with the process, not with who asked for it."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._group.create_task(_settle(work, done))
        return await done


def _shown(part: tuple[RowId, ...], ticket: ReadTicket, table: TableRecord, view: Catalog) -> tuple[RowId, ...]:
    """The rows that no DELETE has taken: what `node/hiding.py` does with Arrow's values. Raises ROWS_TAKEN_AWAY."""
    segment = view.readable_segment(ticket.table, ticket.bucket, ticket.segment)
    assert segment is not None, "the view was authorised"
    assert ticket.cutoff is not None, "every reader sends one"
    check_decided(ticket.cutoff, view.deletes.get(table.id, {}), table.name)
    deletes, newest = hiding(table.id, segment, view), ticket.cutoff.deletes
    if not deletes:
        return part
    left: list[RowId] = []
    for row in part:
        taking = [one.number for one in deletes if fulfils(row, one, segment, table.fields)]
        if taking and min(taking) > newest:
            raise rows_taken_away(table.name, "rows were deleted")
        if not taking:
            left.append(row)
    return tuple(left)


async def _settle(work: Coroutine[Any, Any, T], done: "asyncio.Future[T]") -> None:
    try:
        result = await work
    except LeaseholdError as error:
        if not done.done():
            done.set_exception(error)
    else:
        if not done.done():
            done.set_result(result)


@lru_cache(maxsize=1_024)
def _fit(columns: tuple[str, ...], fields: tuple[Field, ...]) -> None:
    """Whether rows of these columns can be written; raises `Refused` with code ROWS_DO_NOT_FIT."""
    if columns:
        nothing = pa.record_batch([pa.nulls(0) for _ in columns], names=list(columns))
        conform(nothing, fields)


def _cut_off() -> Refused:
    return Refused("the stream broke off before its end", code="BROKEN_STREAM", hint="Write the segment again.")


def _no_ticket(request: Message | None) -> Refused:
    return Refused(f"a {type(request).__name__} is no ticket", code="BAD_TICKET", hint="upgrade the client")
