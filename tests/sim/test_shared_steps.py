"""What the simulator's own copies of the steps of a node had left out, before the shipped ones ran here."""

from collections import Counter
from collections.abc import AsyncGenerator

import pytest

from leasehold.core.data.segment_files import Opening
from leasehold.core.membership.generations import generation_of
from leasehold.core.replicas.reconcile import OnDisk
from leasehold.core.words.messages import ReadTicket
from leasehold.core.words.records import Field, SegmentRecord
from leasehold.errors import Corrupt, LeaseholdError
from leasehold.ids import Generation, Revision
from leasehold.limits.segments import SCHEMA_WAIT_NS
from leasehold.limits.units import SECOND_NS
from leasehold.testing.cluster import CLIENT, SimulatedNode
from leasehold.testing.rows import Part, batch_in
from leasehold.testing.segments import MemorySegments
from tests.sim.data_words import Ground, on_disk, simulate


def holder(ground: Ground, record: SegmentRecord) -> SimulatedNode:
    return ground.node(record.holders[0])


def read_ticket(node: SimulatedNode, record: SegmentRecord, *, ahead: int = 0, generations_back: int = 0) -> ReadTicket:
    view = node.published.view
    return ReadTicket(
        cluster_id=node.published.cluster_id,
        request="0" * 32,
        generation=Generation(generation_of(view) - generations_back),
        table=record.table,
        bucket=record.bucket,
        segment=record.id,
        sha256=record.sha256,
        row_offset=0,
        fields=view.tables[record.table].fields,
        revision=Revision(view.revision + ahead),
    )


async def rows_of(ground: Ground, node: SimulatedNode, ticket: ReadTicket) -> int:
    """How many rows the node gives."""
    connection = ground.cluster.network.host(CLIENT).connect(f"{node.name}:9000")
    try:
        return sum([len(batch_in(one)[0]) async for one in connection.stream(ticket, timeout_ns=60 * SECOND_NS)])
    finally:
        await connection.close()


async def refusal(ground: Ground, node: SimulatedNode, ticket: ReadTicket) -> str:
    with pytest.raises(LeaseholdError) as refused:
        await rows_of(ground, node, ticket)
    return refused.value.code


def test_a_reader_of_a_lost_generation_does_not_wait_for_a_revision_of_it() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create()
        await ground.write(8)
        (record,) = ground.manifest()
        node, began_ns = holder(ground, record), ground.clock.now_ns()
        lost = read_ticket(node, record, ahead=100, generations_back=1)
        assert await refusal(ground, node, lost) == "GENERATION_CHANGED"
        assert ground.clock.now_ns() - began_ns < SCHEMA_WAIT_NS // 2
        assert await refusal(ground, node, read_ticket(node, record, ahead=100)) == "BEHIND"
        assert ground.clock.now_ns() - began_ns > SCHEMA_WAIT_NS // 2, "a revision of its own generation may come"

    simulate(scenario)


def test_a_file_is_held_against_its_hash_once_in_a_process() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create()
        await ground.write(8)
        (record,) = ground.manifest()
        node, verified = holder(ground, record), Counter[OnDisk]()
        node.data.on_verified = lambda one: verified.update([one])
        for _ in range(3):
            assert await rows_of(ground, node, read_ticket(node, record)) == 8
        assert verified == {on_disk(record): 1}
        await node.kill()
        node.start(ground.group)
        await ground.wait_for(lambda: node.published.lease.deadline_ns > 0)
        verified.clear()
        assert await rows_of(ground, node, read_ticket(node, record)) == 8
        assert verified[on_disk(record)] == 1

    simulate(scenario)


def test_a_file_that_is_damaged_after_it_was_found_right_is_replaced() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create()
        await ground.write(8)
        (record,) = ground.manifest()
        node = holder(ground, record)
        assert await rows_of(ground, node, read_ticket(node, record)) == 8
        node.data.disk.damage(on_disk(record))
        assert await refusal(ground, node, read_ticket(node, record)) == "CORRUPT"
        await ground.wait_for(lambda: ground.holds(node, record))
        assert await rows_of(ground, node, read_ticket(node, record)) == 8

    simulate(scenario)


def test_a_sound_file_stays_whatever_fails_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(
        _self: MemorySegments,
        _ticket: ReadTicket,
        _telling: tuple[Field, ...],
        _row: int,
        _rows: int,
        _opening: Opening,
    ) -> AsyncGenerator[tuple[Part, int]]:
        raise Corrupt("nobody knows why")
        yield Part(()), 0

    async def scenario(ground: Ground) -> None:
        await ground.create()
        await ground.write(8)
        (record,) = ground.manifest()
        node = holder(ground, record)
        with monkeypatch.context() as broken:
            broken.setattr(MemorySegments, "batches", fail)
            assert await refusal(ground, node, read_ticket(node, record)) == "CORRUPT"
        assert ground.holds(node, record)
        assert node.data.disk.trashed() == frozenset()

    simulate(scenario)
