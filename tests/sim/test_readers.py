"""What a simulated reader does is what a client does: deadlines by their code, hedges by the size of a segment."""

import asyncio

import pytest

from leasehold.core.data import reader
from leasehold.core.data.hedging import HedgeLimits
from leasehold.core.data.known import Known
from leasehold.core.data.reader import reading_order
from leasehold.core.words.messages import ReadTicket
from leasehold.core.words.records import SegmentRecord
from leasehold.ids import NodeId
from leasehold.limits.clients import (
    HEDGE_BYTES_PER_SECOND,
    HEDGE_DELAY_MAX_NS,
    SCAN_BATCH_TIMEOUT_NS,
    SCAN_BYTES_PER_SECOND_MIN,
)
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.cluster import CLIENT, SimulatedNode
from leasehold.testing.rows import RowId
from leasehold.testing.steps import TaskRuntime
from tests.sim.data_words import Ground, simulate

ROWS = 40
BATCH_NS = 100 * MILLISECOND_NS
"""Slow enough that a scan outlasts the deadline of its call."""


async def one_segment(ground: Ground) -> tuple[SegmentRecord, SimulatedNode, SimulatedNode]:
    """A table of one segment; the replica that a reader asks first, and the other one."""
    await ground.create()
    await ground.write(ROWS)
    (segment,) = ground.manifest()
    first, other = (ground.node(node) for node in reading_order(segment))
    for node in (first, other):
        node.data.batch_rows = 1
    return segment, first, other


def asked(ground: Ground) -> list[tuple[NodeId, int]]:
    """Fills with who has released rows to which request: its first row."""
    seen: list[tuple[NodeId, int]] = []

    def watch(node: SimulatedNode) -> None:
        def released(_passed: object, ticket: ReadTicket, _rows: tuple[RowId, ...]) -> None:
            one = node.published.node, ticket.row_offset
            if one not in seen:
                seen.append(one)

        node.data.on_released = released

    for node in ground.cluster.nodes:
        watch(node)
    return seen


def is_resting(ground: Ground, node: SimulatedNode) -> bool:
    published = node.published
    return ground.reader.client.known.is_resting(published.node, published.incarnation)


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_deadline_that_passes_after_some_rows_is_no_fault_of_the_replica(
    monkeypatch: pytest.MonkeyPatch, is_slow: bool
) -> None:
    """But if these were few, the other one goes on."""
    monkeypatch.setattr(reader, "SCAN_BYTES_PER_SECOND_MIN", SCAN_BYTES_PER_SECOND_MIN if is_slow else 0)

    async def scenario(ground: Ground) -> None:
        _, first, other = await one_segment(ground)
        for node in (first, other):
            node.data.batch_delay_ns = lambda: BATCH_NS
        seen = asked(ground)
        assert sum((await ground.read()).values()) == ROWS
        assert [node for node, _ in seen] == [first.published.node, (other if is_slow else first).published.node]
        assert not is_resting(ground, first)

    simulate(scenario)


def test_a_replica_that_dies_shortly_before_the_deadline_of_its_call_has_failed() -> None:
    """How long the call took says nothing: only the error's code does."""

    async def scenario(ground: Ground) -> None:
        _, first, other = await one_segment(ground)
        for node in (first, other):
            node.data.batch_delay_ns = lambda: BATCH_NS
        seen = asked(ground)
        reading = ground.group.create_task(ground.read())
        await ground.wait_for(lambda: seen)
        await asyncio.sleep((0.97 * SCAN_BATCH_TIMEOUT_NS - BATCH_NS) / SECOND_NS)
        resting = first.published.node, first.published.incarnation
        await first.kill()
        await ground.wait_for(lambda: len(seen) == 2)
        assert seen[1][0] == other.published.node
        assert ground.reader.client.known.is_resting(*resting)
        assert sum((await reading).values()) == ROWS

    simulate(scenario)


@pytest.mark.parametrize("bytes_per_second", [HEDGE_BYTES_PER_SECOND, 200])
def test_another_replica_is_asked_as_well_the_later_the_larger_the_segment_is(bytes_per_second: int) -> None:
    async def scenario(ground: Ground) -> None:
        runtime = TaskRuntime(ground.clock, ground.group)
        ground.reader.client.known = Known(runtime, HedgeLimits(bytes_per_second=bytes_per_second))
        segment, first, other = await one_segment(ground)
        held = ground.cluster.network.hold(first.name, CLIENT)
        seen, began_ns = asked(ground), ground.cluster.loop.now_ns()
        reading = ground.group.create_task(ground.read())
        await ground.wait_for(lambda: any(node == other.published.node for node, _ in seen))
        waited_ns = ground.cluster.loop.now_ns() - began_ns
        delay_ns = HEDGE_DELAY_MAX_NS + segment.size_bytes * SECOND_NS // bytes_per_second
        assert delay_ns <= waited_ns < delay_ns + SECOND_NS
        ground.cluster.network.release(held)
        assert sum((await reading).values()) == ROWS

    simulate(scenario)
