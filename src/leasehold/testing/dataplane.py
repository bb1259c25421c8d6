"""The data side of a simulated node: the steps of `core/data`, as tasks over the simulated network.

It stands for `node/serving/flight_service.py`, which uses Flight and threads. A write is a session: ticket, `Rows` .. ,
`RowsEnd` or `BytesEnd`, then the answer. A scan or a copy is a stream of `Rows`; those of a scan have marks.

All waiting is on the node's own clock, so a paused process does nothing. A thread goes on after its caller is gone, and
so does a task of the process here.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Any, NamedTuple, NoReturn, TypeVar

from leasehold.core.data.appends import Appends
from leasehold.core.data.compactions import Compactions
from leasehold.core.data.fetches import Fetches
from leasehold.core.data.manifest import Manifest
from leasehold.core.data.peers import Peers
from leasehold.core.data.requests import Requests
from leasehold.core.data.scans import Scans
from leasehold.core.local.reads import LocalReads
from leasehold.core.replicas.reconcile import OnDisk
from leasehold.core.words.messages import (
    AnyReadTicket,
    CompactTicket,
    FetchTicket,
    ForwardTicket,
    LocalOpened,
    LocalRenewed,
    Message,
    OpenLocal,
    ReadTicket,
    ReadTogether,
    RenewLocal,
    StagedSegment,
    WhoAreYou,
    WriteTicket,
)
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, Refused
from leasehold.ids import Revision
from leasehold.limits.local import LOCAL_SWEEP_NS
from leasehold.limits.units import MILLISECOND_NS
from leasehold.node.agent.agent import Agent
from leasehold.node.agent.published import Published
from leasehold.node.disk.reconciler import Reconciler
from leasehold.node.serving.own_compactions import OwnCompactions
from leasehold.testing.disk import MemoryDisk, SegmentDisk
from leasehold.testing.duplexes import RowEncoder, RowsOfDuplex, SimulatedPeers, bytes_of_duplex
from leasehold.testing.hosts import Host
from leasehold.testing.links import MemoryLinks
from leasehold.testing.on_disk import by_bucket
from leasehold.testing.rows import batch_message, bytes_message, named_rows
from leasehold.testing.segments import MemorySegments, OnReleased, ReversedRows
from leasehold.testing.steps import TaskRuntime
from leasehold.testing.threads import NoThreads
from leasehold.testing.write_news import Wrote
from leasehold.wire.ports import Clock, Duplex, Vault
from leasehold.wire.tasks import gravest_here

T = TypeVar("T")


class Lent(NamedTuple):
    """What a local open was last granted on."""

    deadline_ns: int
    """Of the lease."""
    revision: Revision
    returned: Revision
    """The newest change that had returned then."""


class DataNode:
    """The part of a node's data side that outlives its processes: the disk, the knobs, and the observers."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.disk = SegmentDisk()
        self.batch_rows = 4
        self.batch_delay_ns: Callable[[], int] = lambda: MILLISECOND_NS
        """Drawn before each batch or chunk comes from the disk."""
        self.links: dict[str, None] = {}
        """The local opens whose links are there: they outlive a process that is killed."""
        self.lent: dict[str, Lent] = {}
        self.returned: Callable[[], Revision] = lambda: Revision(0)
        """The newest change that has returned to a client."""
        self.on_released: OnReleased = lambda _passed, _ticket, _rows: None
        self.on_compacted: Callable[[Wrote], None] = lambda _: None
        """Told of each segment that the node has written by itself, before it is committed."""
        self.on_verified: Callable[[OnDisk], None] = lambda _one: None
        """Told of each file that is read whole to be held against its hash."""

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
        agent: Agent,
        address: str,
        published: Published,
        vault: Vault,
        clock: Clock,
        on_fault: Callable[[BaseException], None],
    ) -> None:
        disk = self.disk.open(clock=clock, transport=self.host, published=published)
        self.links.clear()
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
                service = DataService(
                    self,
                    address=address,
                    disk=disk,
                    manifest=vault.manifest,
                    published=published,
                    clock=clock,
                    group=group,
                )
                server = await self.host.serve(address, service, on_fault=on_fault)
                group.create_task(service.sweep())
                group.create_task(OwnCompactions(agent, published, clock, service.compact_by_itself).run())
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
        manifest: Manifest,
        published: Published,
        clock: Clock,
        group: asyncio.TaskGroup,
    ) -> None:
        self._address = address
        self._published = published
        self._clock = clock
        self._group = group
        runtime = TaskRuntime(clock, group)
        requests = Requests(published, runtime)
        segments = MemorySegments(disk, node, clock)
        self._scans = Scans(requests, manifest, segments)
        self._node = node
        self._local = LocalReads(requests, self._scans, MemoryLinks(node, disk, clock))
        published.on_view, published.on_surrender = self._local.viewed, self._local.end_all
        self._fetches = Fetches(requests, segments, manifest)
        self._appends = Appends(requests, disk, RowEncoder, Peers(runtime, SimulatedPeers(node.host)))
        self._compactions = Compactions(requests, self._scans, self._appends, ReversedRows)

    async def call(self, request: Message) -> Message:
        """How this node sees itself, as the action `health` answers, or a local open."""
        match request:
            case WhoAreYou():
                return self._published.status(self._clock.now_ns(), self._address)
            case OpenLocal():
                return await self._to_its_end(self._open(request))
            case RenewLocal():
                return await self._renew(request)
            case _:
                raise _no_ticket(request)

    async def sweep(self) -> NoReturn:
        """Removes links whose sub-lease has ended, until it is cancelled."""
        while True:
            await self._clock.sleep_until(self._clock.now_ns() + LOCAL_SWEEP_NS)
            await self._local.sweep()

    async def compact_by_itself(self, ticket: CompactTicket) -> StagedSegment:
        """The new segment of a bucket that the node compacts by itself; `on_compacted` hears what is in it."""
        staged = await self._compactions.compact_by_itself(ticket)
        content = self._node.disk.content(OnDisk(staged.table, staged.bucket, staged.id))
        rows = named_rows(() if content is None else content.rows)
        self._node.on_compacted(
            Wrote(
                transaction=ticket.transaction,
                table=ticket.table,
                rows=Counter(),
                segments={staged.id: rows} if staged.rows else {},
                replaces=frozenset(one for one, _ in ticket.joined),
                kept=staged.rows,
            )
        )
        return staged

    async def _open(self, request: OpenLocal) -> LocalOpened:
        opened = await self._local.open(request)
        self._lend(request.request, opened.revision)
        return opened

    async def _renew(self, request: RenewLocal) -> LocalRenewed:
        renewed = await self._local.renew(request)
        if not renewed.ended:
            for one in request.requests:
                self._lend(one, self._published.view.revision)
        return renewed

    def _lend(self, request: str, revision: Revision) -> None:
        # Nothing was waited for since the guard.
        self._node.lent[request] = Lent(self._published.lease.deadline_ns, revision, self._node.returned())

    def stream(self, request: Message) -> AsyncIterator[Message]:
        """A scan of one segment, a copy of it for another node, or a new segment with the rows of old ones."""
        match request:
            case ReadTicket() | ReadTogether():
                return self._scan(request)
            case CompactTicket():
                return self._compact(request)
            case FetchTicket():
                return self._give(request)
            case _:
                raise _no_ticket(request)

    async def session(self, duplex: Duplex) -> None:
        """Rows from a client, or a segment from another node."""
        ticket = await duplex.receive()
        match ticket:
            case WriteTicket():
                await self._to_its_end(self._write(ticket, duplex))
            case ForwardTicket():
                await self._to_its_end(self._accept(ticket, duplex))
            case _:
                raise _no_ticket(ticket)

    async def _write(self, ticket: WriteTicket, duplex: Duplex) -> None:
        await duplex.send(await self._appends.write(ticket, RowsOfDuplex(duplex, self._clock)))

    async def _accept(self, ticket: ForwardTicket, duplex: Duplex) -> None:
        async with aclosing(self._appends.accept(ticket, bytes_of_duplex(duplex, self._clock))) as answers:
            async for answer in answers:
                await duplex.send(answer)

    async def _scan(self, ticket: AnyReadTicket) -> AsyncIterator[Message]:
        scan = await self._scans.open(ticket)
        columns = tuple(field.name for field in scan.ticket.fields)
        async with aclosing(self._scans.stream(scan)) as batches:
            async for batch, mark in batches:
                yield batch_message(batch.rows, columns, mark)

    async def _compact(self, ticket: CompactTicket) -> AsyncIterator[Message]:
        user = await self._compactions.open(ticket)
        async with aclosing(self._compactions.compact(ticket, user)) as answers:
            async for answer in answers:
                yield answer

    async def _give(self, ticket: FetchTicket) -> AsyncIterator[Message]:
        self._fetches.open(ticket)
        async with aclosing(self._fetches.give(ticket)) as chunks:
            async for chunk in chunks:
                yield bytes_message(chunk)

    async def _to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Does `work` as a thread would: it ends with the process, not with who asked for it."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._group.create_task(_settle(work, done))
        return await done


async def _settle(work: Coroutine[Any, Any, T], done: "asyncio.Future[T]") -> None:
    try:
        result = await work
    except LeaseholdError as error:
        if not done.done():
            done.set_exception(error)
    else:
        if not done.done():
            done.set_result(result)


def _no_ticket(request: Message | None) -> Refused:
    return Refused(f"a {type(request).__name__} is no ticket", code=ErrorCode.BAD_TICKET, hint="upgrade the client")
