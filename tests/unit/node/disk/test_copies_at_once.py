"""Segments that are fetched at the same time: how many, from whom, how fast, and when the leader hears of them."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from leasehold.core.replicas.reconcile import OnDisk
from leasehold.core.words.records import SegmentRecord
from leasehold.errors import Corrupt, Unreachable
from leasehold.ids import NodeId
from leasehold.limits.replication import (
    FETCH_REST_MIN_NS,
    FETCH_ROUND_SEGMENTS_MAX,
    FETCHES_AT_ONCE,
    RECONCILE_INTERVAL_NS,
    REPAIR_RATE,
    REPORT_GATHER_NS,
)
from leasehold.limits.segments import SEGMENT_BYTES_MAX
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from tests.unit.node.disk.test_reconciler_rounds import OTHER, THIRD, Agent, Disk, Ground, segment, simulated

FETCH_NS = 10 * MILLISECOND_NS


class SlowDisk(Disk):
    """Each fetch takes FETCH_NS, or fails after that."""

    def __init__(self, files: set[OnDisk]) -> None:
        super().__init__(files)
        self.asked: list[NodeId] = []
        """Which node each fetch asked first."""
        self.at: list[int] = []
        """When each of them began."""
        self.under_way = self.most = 0
        self.fails = False

    async def fetch(self, record: SegmentRecord, *rest: Any) -> bool:
        places, _, on_asked = rest
        self.asked.append(places[0].node)
        self.at.append(now_ns())
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(FETCH_NS / SECOND_NS)
        self.under_way -= 1
        if record.size_bytes == SEGMENT_BYTES_MAX:
            on_asked(places[0].node, Corrupt("it is small", hint="it claims too much"), 1)
            return False
        on_asked(places[0].node, Unreachable("down", hint="start it") if self.fails else None, record.size_bytes)
        return not self.fails and await super().fetch(record)


class Told(Agent):
    """Notes when it was told of segments that are held."""

    def __init__(self, durable: Any) -> None:
        super().__init__(durable)
        self.held_at: list[int] = []

    async def report_held(self, *_segments: Any) -> None:
        self.held_at.append(now_ns())


def now_ns() -> int:
    """To a tenth of a millisecond: a byte takes some nanoseconds at the default rate."""
    return round(asyncio.get_running_loop().time() * 10_000) * SECOND_NS // 10_000


def fetching(
    count: int, check: Callable[[SlowDisk, Told], object], *, for_ns: int, size_bytes: int = 1, fails: bool = False
) -> None:
    """A node lacks so many segments of one bucket, which two others hold."""

    async def scenario(ground: Ground) -> None:
        ground.disk = disk = SlowDisk(ground.disk.files)
        ground.agent = agent = Told(ground.agent.durable)
        disk.fails = fails
        for number in range(count):
            lacked = segment(1_000 + number, OTHER, THIRD, bucket=2)
            ground.change(msgspec.structs.replace(lacked, size_bytes=size_bytes))
        try:
            async with asyncio.timeout(for_ns / SECOND_NS):
                await ground.reconciler().run()
        except TimeoutError:
            check(disk, agent)

    simulated(scenario)


def test_several_segments_are_fetched_at_once_and_never_more_than_that() -> None:
    def check(disk: SlowDisk, _agent: Told) -> None:
        assert len(disk.fetching) == 3 * FETCHES_AT_ONCE
        assert disk.most == FETCHES_AT_ONCE
        assert len(set(disk.at)) == 3, "all of them again as soon as one of them is here"

    fetching(3 * FETCHES_AT_ONCE, check, for_ns=SECOND_NS)


def test_they_are_asked_of_all_holders_in_equal_parts() -> None:
    def check(disk: SlowDisk, _agent: Told) -> None:
        assert disk.asked.count(OTHER) == disk.asked.count(THIRD) == FETCHES_AT_ONCE

    fetching(2 * FETCHES_AT_ONCE, check, for_ns=SECOND_NS)


def test_what_a_round_leaves_is_fetched_at_once() -> None:
    def check(disk: SlowDisk, _agent: Told) -> None:
        assert len(set(disk.fetching)) == len(disk.fetching) == 3 * FETCH_ROUND_SEGMENTS_MAX + 1
        assert disk.at[-1] - disk.at[0] == 3 * FETCH_ROUND_SEGMENTS_MAX // FETCHES_AT_ONCE * FETCH_NS

    fetching(3 * FETCH_ROUND_SEGMENTS_MAX + 1, check, for_ns=2 * SECOND_NS)


def test_segments_that_are_fetched_at_once_share_the_rate() -> None:
    size_bytes = REPAIR_RATE // 4

    def check(disk: SlowDisk, _agent: Told) -> None:
        began = [at_ns - disk.at[0] for at_ns in disk.at]
        assert began == [number * SECOND_NS // 4 for number in range(2 * FETCHES_AT_ONCE)]

    fetching(2 * FETCHES_AT_ONCE, check, for_ns=3 * SECOND_NS, size_bytes=size_bytes)


def test_a_segment_that_claims_a_size_and_fails_at_once_holds_up_no_other() -> None:
    """A copy of the size that it claims would take a minute."""

    async def scenario(ground: Ground) -> None:
        ground.disk = disk = SlowDisk(ground.disk.files)
        for number in range(4):
            ground.change(
                msgspec.structs.replace(segment(1_000 + number, OTHER, THIRD, bucket=2), size_bytes=SEGMENT_BYTES_MAX)
            )
        for number in range(4, 8):
            ground.change(msgspec.structs.replace(segment(1_000 + number, OTHER, THIRD, bucket=2), size_bytes=1))
        try:
            async with asyncio.timeout(8 * RECONCILE_INTERVAL_NS / SECOND_NS):
                await ground.reconciler().run()
        except TimeoutError:
            assert len(disk.fetching) == 4
            assert len(disk.at) >= 8

    simulated(scenario)


def test_the_leader_hears_of_the_last_segments_at_once() -> None:
    def check(disk: SlowDisk, agent: Told) -> None:
        assert agent.held_at[-1] == disk.at[-1] + FETCH_NS
        assert agent.held_at[-1] - disk.at[0] < REPORT_GATHER_NS

    fetching(FETCHES_AT_ONCE + 1, check, for_ns=SECOND_NS)


def test_a_peer_that_fails_several_at_once_rests_as_after_one_failure() -> None:
    def check(disk: SlowDisk, _agent: Told) -> None:
        later = [at_ns for at_ns in disk.at if at_ns > disk.at[0] + SECOND_NS]
        assert later
        assert later[0] <= disk.at[0] + 2 * FETCH_REST_MIN_NS

    fetching(2 * FETCHES_AT_ONCE, check, for_ns=3 * FETCH_REST_MIN_NS, fails=True)
