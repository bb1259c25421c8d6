"""A client that compacts tables, in the steps of `client/compaction.py`: the nodes write new segments with the rows of
old ones. Unlike a real client it sees what is in them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NoReturn

import msgspec

from leasehold.core.data.asking import Asking
from leasehold.core.data.compactions import OldSegment, compact_ticket, shares
from leasehold.core.data.places import Places
from leasehold.core.data.row_sender import RowSender, SenderPorts
from leasehold.core.membership.identity import node_login
from leasehold.core.words.messages import (
    CommitTransaction,
    Place,
    PlanScan,
    Replaced,
    ScanPlan,
    StagedSegment,
    TransactionFacts,
    WriteTicket,
)
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, Refused, Unreachable
from leasehold.ids import Generation
from leasehold.limits.units import SECOND_NS
from leasehold.testing.rows import closing
from leasehold.testing.write_news import Wrote
from leasehold.testing.writers import SimulatedWriter, WriteFate, Written
from leasehold.wire.ports import Transport

SEGMENTS_MAX: Final = 6


class SimulatedCompactor(SimulatedWriter):
    """Compacts one table after the other, whether that is worth it or not. `contents` reads what a staged segment holds
    off a disk."""

    contents: Callable[[StagedSegment], Counter[str]]

    async def run(self, tables: Sequence[str]) -> NoReturn:
        """Compacts random `tables`, until cancelled."""
        while True:
            await self.pause()
            with suppress(LeaseholdError):
                await self.compact(self._random.choice(tables))

    async def compact(self, name: str) -> Written | None:
        """Compacts some segments, in one transaction; None if there are none. Raises what prevents the commit."""
        asked = [PlanScan(cluster_id=None, name=name, columns=None, rewrite=rewrite) for rewrite in (True, False)]
        worth_it, plan = [await self._client.look_up(one, ScanPlan, Asking()) for one in asked]
        if not plan.segments or worth_it.facts.table != plan.facts.table:
            return None
        most = self._random.randint(1, SEGMENTS_MAX)
        plan = msgspec.structs.replace(plan, segments=plan.segments[:most], deletes=worth_it.deletes)
        facts = plan.facts
        opened = await self._opened(facts)
        transaction = opened.transaction
        written = Written(transaction=transaction, table=facts.table, name=name, rows=(), fate=WriteFate.ABORTED)
        try:
            staged = tuple(one for one in await self._compacted(plan, opened) if one.rows)
            found = {one.id: self.contents(one) for one in staged}
            if any(found[one.id].total() != one.rows for one in staged):
                raise Unreachable("the machine that wrote it was lost")
        except LeaseholdError:
            await self._abort(facts, transaction, Asking(SECOND_NS))
            raise
        wrote = Wrote(
            transaction=transaction,
            table=facts.table,
            rows=Counter(),
            segments=found,
            replaces=frozenset(one.id for one in plan.segments),
            kept=sum(one.rows for one in staged),
        )
        self._on_commit(wrote)
        commit = CommitTransaction(
            cluster_id=facts.cluster_id,
            transaction=transaction,
            segments=staged,
            replaces=tuple(Replaced(bucket=one.bucket, segment=one.id) for one in plan.segments),
            deletes=plan.deletes,
            kept=len(staged),
            keeps_rows=True,
        )
        written = await self._commit(facts, written, commit)
        self._on_written(written)
        return written

    async def _compacted(self, plan: ScanPlan, opened: TransactionFacts) -> tuple[StagedSegment, ...]:
        look_up = partial(self._client.look_again, plan.facts)
        replicas = _CompactingReplicas(self._transport, plan.facts.generation)
        sender = RowSender(
            plan.facts,
            opened.transaction,
            opened.revision,
            Places(plan.facts, look_up, runtime=self._runtime, known=self._client.known),
            SenderPorts(self._runtime, replicas, self._entropy.hex_128, leaves_out=True),
            login=node_login(self._client.calls.token),
            asking=Asking(),
        )
        try:
            sender.start(shares(plan.segments))
            await sender.sent()
        finally:
            sender.stop()
        return sender.staged


class _CompactingReplicas:
    """Implements `core.data.row_sender.StagesRows`."""

    def __init__(self, transport: Transport, generation: Generation) -> None:
        self._transport = transport
        self._generation = generation

    async def stage(
        self,
        place: Place,
        ticket: WriteTicket,
        share: Sequence[OldSegment],
        timeout_ns: int,
        on_progress: Callable[[], None],
    ) -> StagedSegment:
        """Names old segments to a replica, and waits for the new one."""
        request = compact_ticket(ticket, share, self._generation)
        connection = self._transport.connect(place.address)
        try:
            async with (
                asyncio.timeout(timeout_ns / SECOND_NS),
                closing(connection.stream(request, timeout_ns=timeout_ns)) as answers,
            ):
                async for answer in answers:
                    if isinstance(answer, StagedSegment):
                        return answer
                    on_progress()
        except TimeoutError as error:
            raise Unreachable(f"{place.address}: no answer in time", code=ErrorCode.TIMED_OUT) from error
        finally:
            await connection.close()
        raise Refused(f"{place.address}: the stream ended without an answer", code=ErrorCode.BROKEN_STREAM)
