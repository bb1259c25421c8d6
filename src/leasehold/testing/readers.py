"""A reader: plans a scan, then reads each segment from whichever replica can serve it.

What to do next is decided by `core.scan` and `client.places`; the loop is that of `client/scan.py`, whose own one
blocks threads and reads Arrow.
"""

from collections.abc import Callable, Sequence
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import NoReturn, assert_never

import msgspec

from leasehold.client.places import Places
from leasehold.client.scan import FINAL, reading_order
from leasehold.core.messages import BatchMark, PlanScan, ReadTicket, ScanPlan
from leasehold.core.records import SegmentRecord
from leasehold.core.scan import Ask, Done, GiveUp, Pause, SegmentReading
from leasehold.errors import LeaseholdError, Refused, Unreachable
from leasehold.ids import LoginToken, NodeId, ObjectId, Revision
from leasehold.limits import MILLISECOND_NS, SCAN_BATCH_TIMEOUT_NS, SCAN_GIVE_UP_NS, SCAN_PLANS_MAX
from leasehold.testing.asking import Account, Asking, Lookup
from leasehold.testing.rows import RowId, batch_in, closing
from leasehold.wire.ports import Clock, Entropy, Transport


class Scanned(msgspec.Struct, frozen=True, kw_only=True):
    """A scan that came to its end: every row that it was given. Planned at `revision`, without what was gone at
    `cutoff`."""

    table: ObjectId
    name: str
    revision: Revision
    cutoff: Revision
    rows: tuple[RowId, ...]


class Reader:
    """One client that reads. `on_scanned` is told of each scan that came to its end, `on_failed` of the others."""

    def __init__(
        self,
        *,
        transport: Transport,
        coordinators: Sequence[str],
        clock: Clock,
        entropy: Entropy,
        random: Random,
        pause_max_ns: int = 500 * MILLISECOND_NS,
        account: Account | None = None,
        on_scanned: Callable[[Scanned], None] = lambda _: None,
        on_failed: Callable[[str, LeaseholdError], None] = lambda *_: None,
    ) -> None:
        self._transport = transport
        self._asking = Asking(transport, coordinators, clock, account)
        self._clock = clock
        self._entropy = entropy
        self._random = random
        self._pause_max_ns = pause_max_ns
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
            plan = await self._asking.ask(PlanScan(cluster_id=None, name=name, columns=columns), ScanPlan)
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
        lookup = Lookup(self._asking, name)
        places = Places(plan.facts, lookup, now_ns=self._clock.now_ns)
        for segment in plan.segments:
            reading = _SegmentReader(
                plan,
                segment,
                places,
                lookup,
                rows,
                login=self._asking.login,
                transport=self._transport,
                clock=self._clock,
                entropy=self._entropy,
            )
            await reading.read()
        revision, cutoff = plan.facts.revision, plan.cutoff.revision
        scanned = Scanned(table=plan.facts.table, name=name, revision=revision, cutoff=cutoff, rows=tuple(rows))
        self._on_scanned(scanned)
        return scanned


class _SegmentReader:
    """Carries out what `SegmentReading` decides, as the class of that name in `client/scan.py`."""

    def __init__(
        self,
        plan: ScanPlan,
        segment: SegmentRecord,
        places: Places,
        lookup: Lookup,
        rows: list[RowId],
        *,
        login: LoginToken | None,
        transport: Transport,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._login = login
        self._plan = plan
        self._segment = segment
        self._places = places
        self._lookup = lookup
        self._transport = transport
        self._clock = clock
        self._request = entropy.hex_128()
        self._timeout_ns = SCAN_BATCH_TIMEOUT_NS
        self._was_late = False
        self._reasons: dict[NodeId, LeaseholdError] = {}
        holders = places.in_turn(reading_order(segment))
        self._reading = SegmentReading(
            msgspec.structs.replace(segment, holders=holders), seen=plan.facts.revision, now_ns=clock.now_ns()
        )
        self._row = 0
        self._rows = rows

    async def read(self) -> None:
        """Hands out every row of the segment, once."""
        while True:
            move = self._reading.move(self._clock.now_ns())
            match move:
                case Ask(node=node, row=row):
                    await self._ask(node, row)
                case Pause(until_ns=until_ns):
                    await self._clock.sleep_until(until_ns)
                    if self._was_late:
                        self._timeout_ns = min(2 * self._timeout_ns, SCAN_GIVE_UP_NS)
                    self._was_late = False
                    await self._look_again()
                case Done():
                    return
                case GiveUp():
                    raise self._places.nobody(f"no replica serves segment {self._segment.id}", self._reasons)
                case _:
                    assert_never(move)

    async def _ask(self, node: NodeId, row: int) -> None:
        address = self._places.address(node)
        if address is None:
            self._failed(node, Unreachable("nobody knows its address", code="NO_ADDRESS"))
            return
        self._row = row
        began_ns = self._clock.now_ns()
        try:
            await self._from(node, address)
        except LeaseholdError as error:
            if error.code in FINAL:
                raise
            # The call is timed by the loop, and this client's clock drifts against it.
            if isinstance(error, Unreachable) and self._clock.now_ns() - began_ns >= self._timeout_ns * 95 // 100:
                if self._row > row:
                    return
                self._was_late = True
            self._failed(node, error)
        else:
            if self._row < self._segment.rows:
                text = f"the stream ended at row {self._row} of {self._segment.rows}"
                self._failed(node, Unreachable(text, code="BROKEN_STREAM"))

    def _failed(self, node: NodeId, error: LeaseholdError) -> None:
        self._reasons[node] = error
        self._places.failed(node, error)
        self._reading.failed(node, error.text)

    async def _from(self, node: NodeId, address: str) -> None:
        request = ReadTicket(
            cluster_id=self._plan.facts.cluster_id,
            request=self._request,
            table=self._segment.table,
            bucket=self._segment.bucket,
            segment=self._segment.id,
            sha256=self._segment.sha256,
            row_offset=self._row,
            fields=self._plan.fields,
            revision=self._places.revision,
            login=self._login,
            generation=self._plan.facts.generation,
            cutoff=self._plan.cutoff,
        )
        connection = self._transport.connect(address)
        try:
            async with closing(connection.stream(request, timeout_ns=self._timeout_ns)) as answers:
                async for message in answers:
                    self._accept(*batch_in(message))
                    self._places.served(node)
        finally:
            await connection.close()

    def _accept(self, batch: tuple[RowId, ...], mark: BatchMark) -> None:
        if not self._row < mark.next_row <= self._segment.rows or len(batch) > mark.next_row - self._row:
            raise Refused(f"a batch up to row {mark.next_row} came at row {self._row}", code="BAD_BATCH")
        if not self._reading.received(mark, len(batch), self._clock.now_ns()):
            raise Refused(f"a batch was released on revision {mark.view_revision}, an older one", code="BEHIND")
        self._row = mark.next_row
        self._rows.extend(batch)

    async def _look_again(self) -> None:
        await self._lookup.ask()
        self._places.look_again()
        first = reading_order(self._segment)
        later = [node for node in self._places.replicas(self._segment.bucket) if node not in first]
        self._reading.moved(self._places.in_turn((*first, *later)), seen=self._places.revision)
