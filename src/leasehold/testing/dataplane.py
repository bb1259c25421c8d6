"""The data side of a simulated node: the steps of `core/data`, as tasks over the simulated network.

It stands for `node/serving/flight_service.py`, which uses Flight and threads. A write is a session: ticket, `Rows` .. ,
`RowsEnd` or `BytesEnd`, then the answer. A scan or a copy is a stream of `Rows`; those of a scan have marks.

All waiting is on the node's own clock, so a paused process does nothing. A thread goes on after its caller is gone, and
so does a task of the process here.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Any, NoReturn, TypeVar

from leasehold.core.data.appends import Appends
from leasehold.core.data.fetches import Fetches
from leasehold.core.data.manifest import Manifest
from leasehold.core.data.peers import Peers
from leasehold.core.data.requests import Requests
from leasehold.core.data.scans import Scans
from leasehold.core.replicas.reconcile import OnDisk
from leasehold.core.words.messages import FetchTicket, ForwardTicket, Message, ReadTicket, WhoAreYou, WriteTicket
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, Refused
from leasehold.limits.units import MILLISECOND_NS
from leasehold.node.agent.agent import Agent
from leasehold.node.agent.published import Published
from leasehold.node.disk.reconciler import Reconciler
from leasehold.testing.disk import MemoryDisk, SegmentDisk
from leasehold.testing.duplexes import RowEncoder, RowsOfDuplex, SimulatedPeers, bytes_of_duplex
from leasehold.testing.hosts import Host
from leasehold.testing.on_disk import by_bucket
from leasehold.testing.rows import batch_message, bytes_message
from leasehold.testing.segments import MemorySegments, OnReleased
from leasehold.testing.steps import TaskRuntime
from leasehold.testing.threads import NoThreads
from leasehold.wire.ports import Clock, Duplex, Vault
from leasehold.wire.tasks import gravest_here

T = TypeVar("T")


class DataNode:
    """The part of a node's data side that outlives its processes: the disk, the knobs, and the observers."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.disk = SegmentDisk()
        self.batch_rows = 4
        self.batch_delay_ns: Callable[[], int] = lambda: MILLISECOND_NS
        """Drawn before each batch or chunk comes from the disk."""
        self.on_released: OnReleased = lambda _passed, _ticket, _rows: None
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
        self._fetches = Fetches(requests, segments, manifest)
        self._appends = Appends(requests, disk, RowEncoder, Peers(runtime, SimulatedPeers(node.host)))

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

    async def _scan(self, ticket: ReadTicket) -> AsyncIterator[Message]:
        columns = tuple(field.name for field in ticket.fields)
        async with aclosing(self._scans.stream(await self._scans.open(ticket))) as batches:
            async for batch, mark in batches:
                yield batch_message(batch.rows, columns, mark)

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
