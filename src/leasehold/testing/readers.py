"""A reader: plans a scan, then reads each segment from whichever replica can serve it.

What to do next is decided by `core.scan` and `client.places`; the loop is that of `client/scan.py`, whose own one
blocks threads and reads Arrow.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Final, NoReturn, TypeAlias, assert_never

import msgspec

from leasehold.client.places import Places, silent
from leasehold.client.scan import FINAL, reading_order
from leasehold.core.hedging import Ask, GiveUp, Pause, Wait
from leasehold.core.messages import AgreeCutoff, BatchMark, Cutoff, PlanScan, ReadTicket, Receipt, ScanPlan
from leasehold.core.records import SegmentRecord
from leasehold.core.scan import Done, SegmentReading
from leasehold.errors import LeaseholdError, Refused, Unreachable
from leasehold.ids import LoginToken, NodeId, ObjectId, Revision
from leasehold.limits.clients import SCAN_BATCH_TIMEOUT_NS, SCAN_GIVE_UP_NS, SCAN_PLANS_MAX
from leasehold.limits.units import MILLISECOND_NS
from leasehold.testing.asking import Account, Asking, Lookup
from leasehold.testing.rows import RowId, batch_in, closing
from leasehold.wire.ports import Clock, Entropy, Transport

TAKE_CHANCE: Final = 0.1
"""After each batch, of a reader that takes away what it reads."""

Take: TypeAlias = Callable[[str], Awaitable[Receipt | None]]
"""Runs a statement on a table; its receipt, None if it was not heard of."""


class Scanned(msgspec.Struct, frozen=True, kw_only=True):
    """A scan that came to its end: every row that it was given. Planned at `revision`, without what was gone by
    `cutoff`."""

    table: ObjectId
    name: str
    revision: Revision
    cutoff: Cutoff
    rows: tuple[RowId, ...]


class Reader:
    """One client that reads, and thinks for `think_ns` after each batch.

    After some batches it runs a statement on the table that it reads: `take` does that, and answers what has returned.
    With `tasks` each scan is a query of several tasks, as in Spark: each task asks for the query's cutoff and reads one
    segment.
    `on_handed_out` is told for each batch on which revision it was released and which one had returned to this client,
    `on_scanned` of each scan that came to its end, `on_failed` of the others.
    """

    def __init__(
        self,
        *,
        transport: Transport,
        coordinators: Sequence[str],
        clock: Clock,
        entropy: Entropy,
        random: Random,
        pause_max_ns: int = 500 * MILLISECOND_NS,
        think_ns: int = 0,
        tasks: bool = False,
        account: Account | None = None,
        on_scanned: Callable[[Scanned], None] = lambda _: None,
        on_failed: Callable[[str, LeaseholdError], None] = lambda *_: None,
    ) -> None:
        self._transport = transport
        self.asking = Asking(transport, coordinators, clock, account)
        self._clock = clock
        self._entropy = entropy
        self._random = random
        self._pause_max_ns = pause_max_ns
        self._think_ns = think_ns
        self._tasks = tasks
        self.take: Take | None = None
        self._returned = Revision(0)
        self.on_handed_out: Callable[[Revision, Revision], None] = lambda *_: None
        self._on_scanned = on_scanned
        self._on_failed = on_failed

    async def run(self, tables: Sequence[str]) -> NoReturn:
        """Reads one of `tables` that are there after the other, as luck has it, until cancelled."""
        while True:
            await self._clock.sleep_until(self._clock.now_ns() + self._random.randint(0, self._pause_max_ns))
            for name in self._random.sample(tables, len(tables)):
                try:
                    await self.scan(name)
                except LeaseholdError as error:
                    self._on_failed(name, error)
                    if error.code == "NOT_FOUND":
                        continue  # on to one that is there
                break

    async def scan(self, name: str, columns: tuple[str, ...] | None = None) -> Scanned:
        """All rows of a table, planned anew as in `client.scan.read_again`. Raises what that raises."""
        for left in reversed(range(SCAN_PLANS_MAX)):
            plan = await self.asking.ask(PlanScan(cluster_id=None, name=name, columns=columns), ScanPlan)
            rows: list[RowId] = []
            try:
                return await self._read(plan, name, rows)
            except Refused as error:
                if error.code != "ROWS_TAKEN_AWAY" or rows or not left:
                    raise
        raise AssertionError("the last plan is read or raises")

    async def _read(self, plan: ScanPlan, name: str, rows: list[RowId]) -> Scanned:
        """Hands what comes to `rows`, also where it ends with an error."""
        assert plan.cutoff is not None
        first: Cutoff | None = None
        query = self._entropy.hex_128() if self._tasks else None
        lookup = Lookup(self.asking, name)
        places = Places(plan.facts, lookup, now_ns=self._clock.now_ns, known=self.asking.known)
        for segment in plan.segments:
            cutoff = plan.cutoff if query is None else await self._agreed(plan, query)
            first = first or cutoff
            reading = _SegmentReader(
                msgspec.structs.replace(plan, cutoff=cutoff),
                segment,
                places,
                lookup,
                login=self.asking.login,
                transport=self._transport,
                clock=self._clock,
                entropy=self._entropy,
                think_ns=self._think_ns,
            )
            async with aclosing(reading.batches()) as batches:
                async for batch, released in batches:
                    rows.extend(batch)
                    self.on_handed_out(released, self._returned)
                    if self.take is not None and self._random.random() < TAKE_CHANCE:
                        await self._run(self.take, name)
        scanned = Scanned(
            table=plan.facts.table,
            name=name,
            revision=plan.facts.revision,
            cutoff=first or plan.cutoff,
            rows=tuple(rows),
        )
        self._on_scanned(scanned)
        return scanned

    async def _agreed(self, plan: ScanPlan, query: str) -> Cutoff:
        """The query's cutoff on the plan's table, as a task of the query gets it."""
        request = AgreeCutoff(cluster_id=plan.facts.cluster_id, table=plan.facts.table, query=query)
        return await self.asking.ask(request, Cutoff)

    async def _run(self, take: Take, name: str) -> None:
        receipt = await take(name)
        if receipt is not None:
            self.asking.known.heard(receipt)
            self._returned = max(self._returned, receipt.revision or self._returned)


class _Attempt:
    """One request for a segment's rows from `row` on, by a task of its own."""

    def __init__(self, node: NodeId, row: int, revision: Revision, began_ns: int) -> None:
        self.node = node
        self.row = row
        self.revision = revision
        self.began_ns = began_ns
        self.has_answered = False
        self.task: asyncio.Task[None] | None = None


Marked: TypeAlias = tuple[tuple[RowId, ...], BatchMark]
Handed: TypeAlias = tuple[tuple[RowId, ...], Revision]
"""Rows, and on which revision they were released."""


class _SegmentReader:
    """Carries out what `SegmentReading` decides, as the class of that name in `client/scan.py`."""

    def __init__(
        self,
        plan: ScanPlan,
        segment: SegmentRecord,
        places: Places,
        lookup: Lookup,
        *,
        login: LoginToken | None,
        transport: Transport,
        clock: Clock,
        entropy: Entropy,
        think_ns: int,
    ) -> None:
        self._login = login
        self._plan = plan
        self._segment = segment
        self._places = places
        self._known = places.known
        self._lookup = lookup
        self._transport = transport
        self._clock = clock
        self._think_ns = think_ns
        self._request = entropy.hex_128()
        self._timeout_ns = SCAN_BATCH_TIMEOUT_NS
        self._was_late = False
        self._reasons: dict[NodeId, LeaseholdError] = {}
        self._attempts: dict[NodeId, _Attempt] = {}
        self._inbox: deque[tuple[_Attempt, Marked | LeaseholdError | None]] = deque()
        self._arrival = asyncio.Event()
        self._group = asyncio.TaskGroup()
        holders = places.in_turn(reading_order(segment))
        self._reading = SegmentReading(msgspec.structs.replace(segment, holders=holders))

    async def batches(self) -> AsyncGenerator[Handed, None]:
        """Every row of the segment, once, and on which revision it was released."""
        await self._group.__aenter__()
        try:
            while True:
                if not self._inbox:
                    wait_until_ns = await self._step()
                    if wait_until_ns is None:
                        return
                    await self._wait(wait_until_ns)
                taken = self._take(*self._inbox.popleft()) if self._inbox else None
                if taken is not None and taken[0]:
                    yield taken
                    await self._clock.sleep_until(self._clock.now_ns() + self._think_ns)
        finally:
            for attempt in tuple(self._attempts.values()):
                self._leave(attempt)
            # The group would turn an error of the scan into a group of it.
            await self._group.__aexit__(None, None, None)

    async def _wait(self, until_ns: int) -> None:
        self._arrival.clear()
        timer = self._clock.call_at(until_ns, self._arrival.set)
        try:
            await self._arrival.wait()
        finally:
            timer.cancel()

    async def _step(self) -> int | None:
        """Does what is to be done next; until when to wait for an answer then, None once all rows were read."""
        now_ns, reads = self._clock.now_ns(), self._known.reads
        move = self._reading.move(now_ns, delay_ns=reads.delay_ns(), may_hedge=reads.may_hedge)
        match move:
            case Ask(node=node, also=also):
                reads.asked(also=also)
                self._ask(node)
            case Wait(until_ns=until_ns):
                return until_ns
            case Pause(until_ns=until_ns):
                await self._clock.sleep_until(until_ns)
                if self._was_late:
                    self._timeout_ns = min(2 * self._timeout_ns, SCAN_GIVE_UP_NS)
                self._was_late = False
                await self._look_again()
            case Done():
                return None
            case GiveUp():
                raise self._places.nobody(f"no replica serves segment {self._segment.id}", self._reasons)
            case _:
                assert_never(move)
        return now_ns

    def _ask(self, node: NodeId) -> None:
        address = self._places.address(node)
        if address is None:
            self._failed(node, Unreachable("nobody knows its address", code="NO_ADDRESS"))
            return
        attempt = _Attempt(node, self._reading.row, self._places.revision, self._clock.now_ns())
        self._attempts[node] = attempt
        attempt.task = self._group.create_task(self._carry_out(attempt, address))

    async def _carry_out(self, attempt: _Attempt, address: str) -> None:
        request = ReadTicket(
            cluster_id=self._plan.facts.cluster_id,
            request=self._request,
            table=self._segment.table,
            bucket=self._segment.bucket,
            segment=self._segment.id,
            sha256=self._segment.sha256,
            row_offset=attempt.row,
            fields=self._plan.fields,
            revision=attempt.revision,
            login=self._login,
            generation=self._plan.facts.generation,
            cutoff=self._plan.cutoff,
        )
        ended_by: LeaseholdError | None = None
        connection = self._transport.connect(address)
        try:
            async with closing(connection.stream(request, timeout_ns=self._timeout_ns)) as answers:
                async for message in answers:
                    self._places.served(attempt.node)
                    self._arrived(attempt, batch_in(message))
        except LeaseholdError as error:
            ended_by = error
        finally:
            await connection.close()
        self._arrived(attempt, ended_by)

    def _arrived(self, attempt: _Attempt, what: Marked | LeaseholdError | None) -> None:
        self._inbox.append((attempt, what))
        self._arrival.set()

    def _take(self, attempt: _Attempt, what: Marked | LeaseholdError | None) -> Handed | None:
        node = attempt.node
        if self._attempts.get(node) is not attempt:
            return None
        if isinstance(what, tuple):
            return self._received(attempt, *what)
        del self._attempts[node]
        row, rows = self._reading.row, self._segment.rows
        # The call is timed by the loop, and this client's clock drifts against it.
        waited_ns = self._clock.now_ns() - attempt.began_ns
        is_late = isinstance(what, Unreachable) and waited_ns >= self._timeout_ns * 95 // 100
        match what:
            case None if row < rows:
                self._failed(node, Unreachable(f"the stream ended at row {row} of {rows}", code="BROKEN_STREAM"))
            case None:
                self._reading.ended(node)
            case LeaseholdError() if is_late and row > attempt.row:
                self._reading.ended(node)
            case LeaseholdError() if what.code not in FINAL:
                self._was_late = self._was_late or is_late
                self._failed(node, what)
            case _:
                raise what
        return None

    def _received(self, attempt: _Attempt, batch: tuple[RowId, ...], mark: BatchMark) -> Handed | None:
        node, row, now_ns = attempt.node, self._reading.row, self._clock.now_ns()
        if not row < mark.next_row <= self._segment.rows or len(batch) > mark.next_row - row:
            self._leave(attempt)
            self._failed(node, Refused(f"a batch up to row {mark.next_row} came at row {row}", code="BAD_BATCH"))
            return None
        needed = self._known.needed(attempt.revision)
        overtaken = self._reading.received(node, mark, len(batch), now_ns, needed)
        if overtaken is None:
            self._leave(attempt)
            if mark.view_revision < attempt.revision:
                text = f"a batch was released on revision {mark.view_revision}, an older one"
                self._failed(node, Refused(text, code="BEHIND"))
            return None
        for other in overtaken:
            late = self._attempts[other]
            self._leave(late)
            self._reasons[other] = error = silent(now_ns - late.began_ns)
            self._places.failed(other, error)
        if not attempt.has_answered:
            attempt.has_answered = True
            self._known.reads.answered(now_ns - attempt.began_ns)
        return batch, mark.view_revision

    def _leave(self, attempt: _Attempt) -> None:
        del self._attempts[attempt.node]
        if attempt.task is not None:
            attempt.task.cancel()

    def _failed(self, node: NodeId, error: LeaseholdError) -> None:
        self._reasons[node] = error
        self._places.failed(node, error)
        self._reading.failed(node)

    async def _look_again(self) -> None:
        await self._lookup.ask()
        self._places.look_again()
        first = reading_order(self._segment)
        later = [node for node in self._places.replicas(self._segment.bucket) if node not in first]
        self._reading.moved(self._places.in_turn((*first, *later)))
