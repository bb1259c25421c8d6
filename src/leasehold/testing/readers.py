"""A reader: plans scans and reads them by the steps of `core/data/reader.py`, as tasks.

A row is its id. What is here is which scans it makes, and whom it tells of them.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Final, NoReturn, TypeAlias

import msgspec

from leasehold.core.data.asking import Asking
from leasehold.core.data.coordinator_client import CoordinatorClient
from leasehold.core.data.places import Places
from leasehold.core.data.reader import ReaderPorts, SegmentReader, in_order, plan_until_read, read_again
from leasehold.core.data.scan import Together, together
from leasehold.core.membership.identity import node_login
from leasehold.core.words.messages import (
    AgreeCutoff,
    AskView,
    BatchMark,
    Cutoff,
    PlanScan,
    Receipt,
    ScanPlan,
    ViewFacts,
)
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError
from leasehold.ids import ObjectId, Revision
from leasehold.limits.clients import SCAN_STREAMS
from leasehold.limits.units import MILLISECOND_NS
from leasehold.testing.coordinator_calls import Account, coordinator_client
from leasehold.testing.replicas import ReplicaBatch, SimulatedReplicas
from leasehold.testing.rows import RowId
from leasehold.testing.steps import TaskRuntime
from leasehold.wire.ports import Clock, Entropy, Transport

TAKE_CHANCE: Final = 0.1
"""After each batch, of a reader that takes away what it reads."""

Take: TypeAlias = Callable[[str], Awaitable[Receipt | None]]
"""Runs a statement on a table; its receipt, None if it was not heard of."""


class CompleteScan(msgspec.Struct, frozen=True, kw_only=True):
    """A finished scan with all its rows, planned at `revision`, without rows that were deleted by `cutoff`."""

    table: ObjectId
    name: str
    revision: Revision
    cutoff: Cutoff
    rows: tuple[RowId, ...]


def batches_of(
    plan: ScanPlan, client: CoordinatorClient, ports: ReaderPorts[ReplicaBatch]
) -> AsyncGenerator[tuple[ReplicaBatch, BatchMark], None]:
    """All batches of a plan, for one task."""
    return in_order(plan, _reading(plan, client, ports)(plan), SCAN_STREAMS)


def _reading(
    plan: ScanPlan, client: CoordinatorClient, ports: ReaderPorts[ReplicaBatch]
) -> Callable[[ScanPlan], Callable[[Together], SegmentReader[ReplicaBatch]]]:
    """Reads segments of a plan, by this plan or by the same one with another cutoff."""
    places = Places(plan.facts, partial(client.look_again, plan.facts), runtime=ports.runtime, known=client.known)

    def of(plan: ScanPlan) -> Callable[[Together], SegmentReader[ReplicaBatch]]:
        login = node_login(client.calls.token)
        return lambda one: SegmentReader(plan, one, places, ports, login=login, asking=Asking())

    return of


class SimulatedReader:
    """One client that reads, and waits for `think_ns` after each batch. Requests to replicas run in `group`.

    After some batches `take`, if it is set, runs a statement on the table. With `tasks` each scan is a query of several
    tasks, as in Spark: each task asks for the query's cutoff and makes one call. With `through` each scan reads its
    table through the view with that name.

    `on_handed_out` gets, for each batch, its revision and the newest one that had returned to this client.
    `on_scanned` gets each finished scan, `on_failed` the errors of the others.
    """

    def __init__(
        self,
        *,
        transport: Transport,
        coordinators: Sequence[str],
        clock: Clock,
        entropy: Entropy,
        random: Random,
        group: asyncio.TaskGroup,
        pause_max_ns: int = 500 * MILLISECOND_NS,
        think_ns: int = 0,
        tasks: bool = False,
        through: str | None = None,
        account: Account | None = None,
        on_scanned: Callable[[CompleteScan], None] = lambda _: None,
        on_failed: Callable[[str, LeaseholdError], None] = lambda *_: None,
    ) -> None:
        runtime = TaskRuntime(clock, group)
        self._ports = ReaderPorts(runtime, SimulatedReplicas(transport), entropy.hex_128)
        self.client = coordinator_client(transport, coordinators, runtime, account)
        self._clock = clock
        self._entropy = entropy
        self._random = random
        self._pause_max_ns = pause_max_ns
        self._think_ns = think_ns
        self._tasks = tasks
        self._through = through
        self.take: Take | None = None
        self._returned = Revision(0)
        self.on_handed_out: Callable[[Revision, Revision], None] = lambda *_: None
        self._on_scanned = on_scanned
        self._on_failed = on_failed

    async def run(self, tables: Sequence[str]) -> NoReturn:
        """Reads random `tables` that exist, until cancelled."""
        while True:
            await self._clock.sleep_until(self._clock.now_ns() + self._random.randint(0, self._pause_max_ns))
            for name in self._random.sample(tables, len(tables)):
                try:
                    await self.scan(name)
                except LeaseholdError as error:
                    self._on_failed(name, error)
                    if error.code == ErrorCode.NOT_FOUND:
                        continue  # on to one that is there
                break

    async def scan(self, name: str, columns: tuple[str, ...] | None = None) -> CompleteScan:
        """All rows of a table. Raises what `core.data.reader.read_again` raises."""

        async def plan() -> _Planned:
            request = PlanScan(cluster_id=None, name=name, columns=columns, through=await self._views())
            return _Planned(await self.client.look_up(request, ScanPlan, Asking()))

        first, attempt = await plan_until_read(plan, 1)
        planned, rows = first, list[RowId]()

        async def batches(now: _Planned) -> AsyncGenerator[tuple[ReplicaBatch, BatchMark], None]:
            nonlocal planned
            planned = now
            async with aclosing(self._batches(now)) as found:
                async for batch in found:
                    yield batch

        again = read_again((first, attempt), plan, batches, lambda now: now.columns == first.columns)
        async with aclosing(again) as found:
            async for batch, mark in found:
                rows.extend(batch.rows)
                self.on_handed_out(mark.view_revision, self._returned)
                if self.take is not None and self._random.random() < TAKE_CHANCE:
                    await self._run(self.take, name)
                await self._clock.sleep_until(self._clock.now_ns() + self._think_ns)
        facts, cutoff = planned.plan.facts, planned.cutoff or planned.plan.cutoff
        assert cutoff is not None
        scanned = CompleteScan(table=facts.table, name=name, revision=facts.revision, cutoff=cutoff, rows=tuple(rows))
        self._on_scanned(scanned)
        return scanned

    async def _views(self) -> tuple[ObjectId, ...]:
        """The views that a scan reads its table through, as they are now."""
        if self._through is None:
            return ()
        facts = await self.client.look_up(AskView(cluster_id=None, name=self._through), ViewFacts, Asking())
        return tuple(one.view for one in facts.views)

    async def _batches(self, planned: "_Planned") -> AsyncGenerator[tuple[ReplicaBatch, BatchMark], None]:
        """All batches of a plan; with `tasks` each segment is read alone, by the cutoff of the query."""
        plan = planned.plan
        if not self._tasks:
            async with aclosing(batches_of(plan, self.client, self._ports)) as found:
                async for batch in found:
                    yield batch
            return
        of = _reading(plan, self.client, self._ports)
        query = self._entropy.hex_128()
        for some in together(plan.segments):
            cutoff = await self._agreed(plan, query)
            planned.cutoff = planned.cutoff or cutoff
            async with aclosing(of(msgspec.structs.replace(plan, cutoff=cutoff))(some).batches()) as found:
                async for batch in found:
                    yield batch

    async def _agreed(self, plan: ScanPlan, query: str) -> Cutoff:
        """The query's cutoff on the plan's table, as a task of the query gets it."""
        facts = plan.facts
        request = AgreeCutoff(cluster_id=facts.cluster_id, table=facts.table, query=query, through=plan.through)
        return await self.client.agree_cutoff(request, Asking())

    async def _run(self, take: Take, name: str) -> None:
        receipt = await take(name)
        if receipt is not None:
            self.client.known.heard(receipt)
            self._returned = max(self._returned, receipt.revision or self._returned)


class _Planned:
    """A plan that is read, and the cutoff that the tasks of its query have agreed on."""

    def __init__(self, plan: ScanPlan) -> None:
        self.plan = plan
        self.cutoff: Cutoff | None = None

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        return tuple((field.name, field.type) for field in self.plan.fields)
