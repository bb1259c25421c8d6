"""A leader and its meta storage: one that is gone ends the leader, one that can't answer now does not."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import ClusterFacts, WhoAreYou
from leasehold.core.words.operations import Change, Page
from leasehold.core.words.records import SegmentRecord
from leasehold.errors import Corrupt, Indefinite, LeaseholdError, Refused
from leasehold.ids import BucketNumber, NodeId, ObjectId, Revision, SchemaVersion, SegmentId
from leasehold.limits.units import SECOND_NS
from leasehold.limits.upkeep import HOUSEKEEPING_INTERVAL_NS
from leasehold.metastorage.contract import Compacted
from leasehold.metastorage.log.log import Log
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.log_store import KeptLog, MemoryLogStore
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from leasehold.testing.replica import MemoryReplicaPlace
from leasehold.testing.requests import RequestFate
from leasehold.wire.entropy import SystemEntropy
from tests.scenarios.bad_words import until
from tests.unit.coordinator.office import coordinator_over
from tests.unit.metastorage.log_ground import virtual_clock

PASSES_S = 3 * HOUSEKEEPING_INTERVAL_NS // SECOND_NS
"""Long enough for housekeeping to have come by."""

Client = MemoryMetaStorage | MemoryLogStore
Happening = Callable[[Client], None]


def answers_status_with(answer: Callable[[], RequestFate]) -> Happening:
    async def before(request: str) -> RequestFate:
        await asyncio.sleep(0)
        return answer() if request == "status" else RequestFate.ANSWERED

    def happen(client: Client) -> None:
        client.before = before

    return happen


def loses_every_third_request(client: Client) -> None:
    fates = itertools.cycle((RequestFate.LOST_BEFORE, RequestFate.ANSWERED, RequestFate.ANSWERED))

    async def before(_request: str) -> RequestFate:
        await asyncio.sleep(0)
        return next(fates)

    client.before = before


def busy() -> RequestFate:
    raise Refused("too many requests wait", code="BUSY", hint="ask again later")


async def open_log(client: MemoryLogStore, clock: SimulatedClock) -> ReplicatedMetaStorage:
    return await ReplicatedMetaStorage.open(Log(client), MemoryReplicaPlace(), clock, SystemEntropy())


def end_of_a_leader(
    happen: Happening, *, shared: bool = False, records: tuple[Change, ...] = ()
) -> BaseException | None:
    """What `Coordinator.run` raised within a few passes of housekeeping after it happened to the client of its store;
    None if it leads on. Its store has these records from before, and is `shared` if it is a log."""

    async def main(_random: Random) -> BaseException | None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock = SimulatedClock(loop)
        client = MemoryLogStore(KeptLog()) if shared else MemoryMetaStorage(MemoryStore())
        storage = await open_log(client, clock) if isinstance(client, MemoryLogStore) else client
        coordinator = await coordinator_over(storage, clock, records)
        running = asyncio.ensure_future(coordinator.run())
        await until(lambda: coordinator.leader)
        happen(client)
        for _ in range(PASSES_S):
            await asyncio.wait([running], timeout=1)
            if running.done():
                return running.exception()
            with contextlib.suppress(LeaseholdError):
                await coordinator.call(WhoAreYou())  # a leader that nobody speaks to steps aside
        assert coordinator.leader is not None, "it neither ended nor leads"
        running.cancel()
        await asyncio.wait([running])
        return None

    return run_virtual(main, 1)


@pytest.mark.parametrize("shared", [False, True], ids=["by a lock", "over a log"])
def test_a_store_that_is_closed_ends_the_leader(shared: bool) -> None:
    end = end_of_a_leader(lambda client: client.sever(), shared=shared)
    assert isinstance(end, Refused)
    assert end.code == "CLOSED"


def test_a_store_held_by_a_lock_that_gives_no_answer_ends_the_leader() -> None:
    end = end_of_a_leader(answers_status_with(lambda: RequestFate.LOST_BEFORE))
    assert isinstance(end, Indefinite)


def test_a_store_that_is_busy_ends_no_leader() -> None:
    assert end_of_a_leader(answers_status_with(busy)) is None


def test_a_log_that_loses_every_third_request_ends_no_leader() -> None:
    assert end_of_a_leader(loses_every_third_request, shared=True) is None


def test_a_compaction_while_the_catalog_is_read_only_makes_a_coordinator_read_it_again() -> None:
    async def main(_random: Random) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock = SimulatedClock(loop)
        client = MemoryLogStore(KeptLog())
        storage = CompactedOnce(await open_log(client, clock))
        coordinator = await coordinator_over(storage, clock)
        running = asyncio.ensure_future(coordinator.run())
        await until(lambda: coordinator.leader)
        assert coordinator.leader is not None
        assert coordinator.leader.grantor.term == 1
        assert loop.now_ns() < SECOND_NS
        running.cancel()
        await asyncio.wait([running])

    run_virtual(main, 1)


class CompactedOnce:
    """A meta storage whose first page of a range is compacted while it is read."""

    def __init__(self, storage: ReplicatedMetaStorage) -> None:
        self._storage = storage
        self._pages = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    async def range(self, start: bytes, end: bytes, *, revision: Revision | None = None, limit: int) -> Page:
        self._pages += 1
        if self._pages == 1:
            raise Compacted(Revision(2))
        return await self._storage.range(start, end, revision=revision, limit=limit)


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


def nothing(_client: Client) -> None: ...


def test_a_leader_whose_segments_can_be_decoded_leads_on() -> None:
    assert end_of_a_leader(nothing, records=tuple(map(segment, range(9)))) is None


def test_a_segment_that_can_t_be_decoded_ends_the_leader_behind_its_start() -> None:
    records = (*map(segment, range(8)), segment(8, damaged=True))
    assert isinstance(end_of_a_leader(nothing, records=records), Corrupt)


def test_a_coordinator_says_how_long_it_runs_and_what_its_wall_clock_shows() -> None:
    async def main(_random: Random) -> None:
        clock = virtual_clock()
        await clock.sleep_until(5 * SECOND_NS)
        coordinator = await coordinator_over(MemoryMetaStorage(MemoryStore()), clock)
        began_ns = clock.now_ns()
        running = asyncio.ensure_future(coordinator.run())
        await until(lambda: coordinator.leader)
        await clock.sleep_until(9 * SECOND_NS)
        facts = await coordinator.call(WhoAreYou())
        assert isinstance(facts, ClusterFacts)
        assert facts.running_ns == 9 * SECOND_NS - began_ns
        running.cancel()
        await asyncio.wait([running])

    run_virtual(main, 1)
