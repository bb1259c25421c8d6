"""A leader and its meta storage: one that is gone ends the leader, one that can't answer now does not."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.operations import Change
from leasehold.core.words.records import SegmentRecord
from leasehold.errors import Corrupt, Indefinite, Refused
from leasehold.ids import BucketNumber, NodeId, ObjectId, SchemaVersion, SegmentId
from leasehold.limits.units import SECOND_NS
from leasehold.limits.upkeep import HOUSEKEEPING_INTERVAL_NS
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore, RequestFate
from tests.scenarios.bad_words import until
from tests.unit.coordinator.office import coordinator_over

PASSES_S = 3 * HOUSEKEEPING_INTERVAL_NS / SECOND_NS
"""Long enough for housekeeping to have come by."""

Happening = Callable[[MemoryMetaStorage], None]


def answers_status_with(answer: Callable[[], RequestFate]) -> Happening:
    async def before(request: str) -> RequestFate:
        await asyncio.sleep(0)
        return answer() if request == "status" else RequestFate.ANSWERED

    def happen(storage: MemoryMetaStorage) -> None:
        storage.before = before

    return happen


def busy() -> RequestFate:
    raise Refused("too many requests wait", code="BUSY", hint="ask again later")


def end_of_a_leader(
    happen: Happening, *, shared: bool = False, records: tuple[Change, ...] = ()
) -> BaseException | None:
    """What `Coordinator.run` raised within a few passes of housekeeping after it happened; None if it leads on. Its
    store has these records from before."""

    async def main(_random: Random) -> BaseException | None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock = SimulatedClock(loop)
        storage = MemoryMetaStorage(MemoryStore(), clock=clock if shared else None)
        coordinator = await coordinator_over(storage, clock, records)
        running = asyncio.ensure_future(coordinator.run())
        await until(lambda: coordinator.leader)
        happen(storage)
        await asyncio.wait([running], timeout=PASSES_S)
        if running.done():
            return running.exception()
        assert coordinator.leader is not None, "it neither ended nor leads"
        running.cancel()
        await asyncio.wait([running])
        return None

    return run_virtual(main, 1)


@pytest.mark.parametrize("shared", [False, True], ids=["by a lock", "by the leader record"])
def test_a_store_that_is_closed_ends_the_leader(shared: bool) -> None:
    end = end_of_a_leader(MemoryMetaStorage.sever, shared=shared)
    assert isinstance(end, Refused)
    assert end.code == "CLOSED"


def test_a_store_held_by_a_lock_that_gives_no_answer_ends_the_leader() -> None:
    end = end_of_a_leader(answers_status_with(lambda: RequestFate.LOST_BEFORE))
    assert isinstance(end, Indefinite)


@pytest.mark.parametrize("shared", [False, True], ids=["by a lock", "by the leader record"])
def test_a_store_that_is_busy_ends_no_leader(shared: bool) -> None:
    assert end_of_a_leader(answers_status_with(busy), shared=shared) is None


def test_a_shared_store_that_gives_no_answer_to_a_look_ends_no_leader() -> None:
    assert end_of_a_leader(answers_status_with(lambda: RequestFate.LOST_BEFORE), shared=True) is None


def segment(number: int, *, damaged: bool = False) -> Change:
    record = SegmentRecord(
        id=SegmentId(f"{number:032x}-{number:032x}"),
        table=ObjectId(1),
        bucket=BucketNumber(number % 3),
        schema_version=SchemaVersion(1),
        rows=1,
        size_bytes=1,
        sha256=b"",
        statistics=(),
        holders=(NodeId(1),),
    )
    value = encode(record)
    return Change(keys.segment(record.table, record.bucket, record.id), value[:-1] if damaged else value)


def nothing(_storage: MemoryMetaStorage) -> None: ...


def test_a_leader_whose_segments_can_be_decoded_leads_on() -> None:
    assert end_of_a_leader(nothing, records=tuple(map(segment, range(9)))) is None


def test_a_segment_that_can_t_be_decoded_ends_the_leader_behind_its_start() -> None:
    records = (*map(segment, range(8)), segment(8, damaged=True))
    assert isinstance(end_of_a_leader(nothing, records=records), Corrupt)
