"""Which shares of a write are sent when and to whom, over replicas that are a few lines here."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import pytest

from leasehold.core.data.asking import Asking
from leasehold.core.data.places import Places
from leasehold.core.data.row_sender import RowSender, SenderPorts
from leasehold.core.words.messages import BucketPlaces, Place, SegmentHolder, StagedSegment, TableFacts, WriteTicket
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, Refused, Unreachable
from leasehold.ids import (
    BucketNumber,
    ClusterId,
    Incarnation,
    NodeId,
    ObjectId,
    Revision,
    SchemaVersion,
    TransactionId,
)
from leasehold.limits.clients import APPEND_STREAMS, HEDGE_BYTES_PER_SECOND, HEDGE_DELAY_MAX_NS
from leasehold.limits.units import SECOND_NS
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.replicas import ReplicaBatch
from leasehold.testing.rows import RowId
from leasehold.testing.steps import TaskRuntime

BUCKETS = 3 * APPEND_STREAMS
ONE, TWO = NodeId(1), NodeId(2)
INCARNATION = Incarnation(1)
FACTS = TableFacts(
    cluster_id=ClusterId("0" * 32),
    revision=Revision(7),
    table=ObjectId(3),
    name="d.t",
    schema_version=SchemaVersion(1),
    fields=(),
    cluster_by=None,
    buckets=tuple(BucketPlaces(bucket=BucketNumber(number), replicas=(ONE, TWO)) for number in range(BUCKETS)),
    places=tuple(
        Place(node=node, name=f"n{node}", address=f"node {node}", incarnation=INCARNATION) for node in (ONE, TWO)
    ),
)
ROW = ReplicaBatch((RowId(1),))
TWO_SHARES = [(BucketNumber(0), [ROW]), (BucketNumber(1), [ROW])]


async def silence() -> None:
    await asyncio.Event().wait()


def answer(ticket: WriteTicket, share: Sequence[ReplicaBatch]) -> StagedSegment:
    return StagedSegment(
        id=ticket.segment,
        table=ticket.table,
        bucket=ticket.bucket,
        schema_version=ticket.schema_version,
        rows=sum(batch.num_rows for batch in share),
        size_bytes=1,
        sha256=b"",
        statistics=(),
        holders=(SegmentHolder(node=ONE, incarnation=INCARNATION),),
    )


Act = Callable[[str, StagedSegment], Awaitable[StagedSegment]]
"""What a replica does: its address, and what it should answer."""


class Replicas:
    def __init__(self, runtime: TaskRuntime, act: Act) -> None:
        self._runtime = runtime
        self._act = act
        self.asked: list[tuple[str, BucketNumber, int]] = []
        """Who was asked for which bucket, and when."""
        self.at_once = self.at_once_max = 0

    async def stage(
        self,
        place: Place,
        ticket: WriteTicket,
        share: Sequence[ReplicaBatch],
        timeout_ns: int,
        on_progress: Callable[[], None],
    ) -> StagedSegment:
        assert timeout_ns > 0
        self.asked.append((place.address, ticket.bucket, self._runtime.now_ns()))
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        try:
            return await self._act(place.address, answer(ticket, share))
        finally:
            self.at_once -= 1


class Over(Exception):
    pass


def simulate(act: Act, steps: Callable[[RowSender[ReplicaBatch], Replicas], Awaitable[None]]) -> None:
    async def main(_random: object) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        try:
            async with asyncio.TaskGroup() as group:
                runtime = TaskRuntime(SimulatedClock(loop), group)
                replicas, numbers = Replicas(runtime, act), iter(range(1_000))
                sender = RowSender(
                    FACTS,
                    TransactionId("t"),
                    FACTS.revision,
                    Places(FACTS, runtime=runtime),
                    SenderPorts(runtime, replicas, lambda: str(next(numbers))),
                    login=None,
                    asking=Asking(),
                )
                await steps(sender, replicas)
                raise Over
        except* Over:
            pass

    run_virtual(main, 1)


def test_several_shares_are_sent_at_once_and_their_segments_told_in_their_order() -> None:
    async def act(_address: str, staged: StagedSegment) -> StagedSegment:
        await asyncio.sleep((BUCKETS - staged.bucket) / 1_000)  # the last ones are the fastest
        return staged

    async def steps(sender: RowSender[ReplicaBatch], replicas: Replicas) -> None:
        for _ in range(2):
            sender.start([(BucketNumber(number), [ROW]) for number in range(BUCKETS)])
            await sender.sent()
        assert replicas.at_once_max == APPEND_STREAMS
        assert [one.bucket for one in sender.staged] == [*range(BUCKETS)] * 2

    simulate(act, steps)


@pytest.mark.parametrize("rows", [1, 1_000])
def test_another_replica_is_asked_as_well_the_later_the_larger_the_share_is(rows: int) -> None:
    share = [ROW] * rows

    async def act(address: str, staged: StagedSegment) -> StagedSegment:
        if address == "node 1":
            await silence()
        return staged

    async def steps(sender: RowSender[ReplicaBatch], replicas: Replicas) -> None:
        sender.start([(BucketNumber(0), share)])
        await sender.sent()
        (first, _, began_ns), (second, _, later_ns) = replicas.asked
        assert (first, second) == ("node 1", "node 2")
        size_bytes = sum(one.nbytes for one in share)
        assert later_ns - began_ns == HEDGE_DELAY_MAX_NS + size_bytes * SECOND_NS // HEDGE_BYTES_PER_SECOND

    simulate(act, steps)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Refused("no such column", code=ErrorCode.ROWS_DO_NOT_FIT), Refused),
        (ArithmeticError("a defect of a port"), ArithmeticError),
    ],
)
def test_what_stands_against_one_share_is_raised_though_another_one_still_waits(
    error: Exception, kind: type[Exception]
) -> None:
    async def act(_address: str, staged: StagedSegment) -> StagedSegment:
        if staged.bucket == 0:
            await silence()
        raise error

    async def steps(sender: RowSender[ReplicaBatch], replicas: Replicas) -> None:
        sender.start(TWO_SHARES)
        with pytest.raises(kind):
            await sender.sent()
        assert [bucket for _, bucket, _ in replicas.asked] == [0, 1], "no other replica would say anything else"

    simulate(act, steps)


def test_a_sender_that_is_stopped_asks_nobody_any_more() -> None:
    async def act(_address: str, staged: StagedSegment) -> StagedSegment:
        await silence()
        return staged

    async def steps(sender: RowSender[ReplicaBatch], replicas: Replicas) -> None:
        sender.start([(BucketNumber(number), [ROW]) for number in range(BUCKETS)])
        await asyncio.sleep(HEDGE_DELAY_MAX_NS / SECOND_NS / 2)
        sender.stop()
        await asyncio.sleep(60)
        assert [one[:2] for one in replicas.asked] == [("node 1", number) for number in range(APPEND_STREAMS)]

    simulate(act, steps)


BAD_ANSWERS = {
    "another segment": {"id": "other"},
    "another bucket": {"bucket": BucketNumber(1)},
    "fewer rows": {"rows": 0},
    "held by nobody": {"holders": ()},
}


@pytest.mark.parametrize("bad", BAD_ANSWERS)
def test_an_answer_for_other_rows_is_none_and_another_replica_is_asked(bad: str) -> None:
    async def act(address: str, staged: StagedSegment) -> StagedSegment:
        return msgspec.structs.replace(staged, **BAD_ANSWERS[bad]) if address == "node 1" else staged

    async def steps(sender: RowSender[ReplicaBatch], replicas: Replicas) -> None:
        sender.start([(BucketNumber(0), [ROW])])
        await sender.sent()
        (staged,) = sender.staged
        assert [address for address, *_ in replicas.asked] == ["node 1", "node 2"]
        assert (staged.bucket, staged.rows, len(staged.holders)) == (0, 1, 1)

    simulate(act, steps)


def test_silent_replicas_are_named_by_who_gives_up() -> None:
    async def act(_address: str, staged: StagedSegment) -> StagedSegment:
        await silence()
        return staged

    async def steps(sender: RowSender[ReplicaBatch], _replicas: Replicas) -> None:
        sender.start([(BucketNumber(0), [ROW])])
        with pytest.raises(LeaseholdError) as caught:
            await sender.sent()
        assert isinstance(caught.value, Unreachable)
        assert caught.value.code == ErrorCode.NO_REPLICA
        for node in ("node 1 (n1): no answer for", "node 2 (n2): no answer for"):
            assert node in caught.value.text

    simulate(act, steps)
