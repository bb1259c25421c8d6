"""When the scrub reads which file."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec
import pytest

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.replicas.reconcile import OnDisk
from leasehold.core.words import keys
from leasehold.core.words.records import BucketRecord, SegmentRecord
from leasehold.errors import Definite
from leasehold.ids import Incarnation, NodeId, SegmentId, Session
from leasehold.limits.scrub import SCRUB_BYTES_PER_SECOND, SCRUB_COUNT_NS, SCRUB_POLL_NS
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.published import Published
from leasehold.node.disk.scrub import SegmentScrub
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.filled import CatalogManifest
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.threads import NoThreads
from tests.unit.core.catalog_words import Ground as Base
from tests.unit.core.replicas.test_replication import segment

ME, TABLE = NodeId(1), 2
HOUR_NS = 3_600 * SECOND_NS
SLACK_NS = 2 * SCRUB_POLL_NS


class Agent:
    def __init__(self, durable: Catalog) -> None:
        self.durable = durable
        self.recovered = True


class Disk:
    """Each file takes as long as its bytes at the rate of the scrub; `wrong` ones differ."""

    def __init__(self, clock: SimulatedClock) -> None:
        self._clock = clock
        self.read: list[tuple[int, SegmentId]] = []
        self.wrong: set[SegmentId] = set()
        self.fails: set[SegmentId] = set()

    async def is_damaged(self, record: SegmentRecord, rest: Callable[[int], Awaitable[None]]) -> bool:
        self.read.append((self._clock.now_ns(), record.id))
        await rest(record.size_bytes)
        if record.id in self.fails:
            raise Definite("no file handle is left", code="DISK_ERROR")
        return record.id in self.wrong


class Ground:
    """Three buckets with four segments each, all of them held here."""

    def __init__(self, *, every_ns: int = HOUR_NS, session: int = 1 << 127, segments: int = 4) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = SimulatedClock(loop)
        base = Base(nodes=(1, 3))
        self.names: list[SegmentId] = []
        for bucket in range(3):
            base.put(
                keys.bucket(TABLE, bucket), BucketRecord(table=TABLE, bucket=bucket, replicas=(1, 3), in_sync=(1, 3))
            )
            for number in range(segments):
                one = segment(10 * bucket + number, 1, 3, bucket=bucket)
                base.put(keys.segment(TABLE, bucket, one.id), one)
                self.names.append(one.id)
        assert base.catalog.settings is not None
        self.agent = Agent(base.catalog)
        self.set(every_ns)
        self.published = Published()
        self.published.session = Session(f"{session:032x}")
        self.published.joined("c", ME, Incarnation(1))
        self.disk = Disk(self.clock)
        self.whole: list[SegmentId] = []
        self.kept = 3 * segments
        scrub: Any = SegmentScrub(
            agent=self.agent,
            published=self.published,
            disk=self.disk,
            manifest=CatalogManifest(lambda: self.agent.durable),
            clock=self.clock,
            threads=NoThreads(),
            kept=lambda: self.kept,
            on_whole=lambda one: self.whole.append(one.id),
        )
        self.task = loop.create_task(scrub.run())

    def set(self, every_ns: int) -> None:
        settings = self.agent.durable.settings
        assert settings is not None
        self.change(keys.SETTINGS, msgspec.structs.replace(settings, scrub_every_ns=every_ns))

    def change(self, key: bytes, record: Any) -> None:
        self.agent.durable = self.agent.durable.changed([put(key, record)])

    async def after(self, pause_ns: int) -> list[SegmentId]:
        """What was read in this time."""
        before = len(self.disk.read)
        await self.clock.sleep_until(self.clock.now_ns() + pause_ns)
        return [name for _, name in self.disk.read[before:]]


def simulated(scenario: Callable[[Random], Awaitable[None]]) -> None:
    run_virtual(scenario, 1)


@pytest.mark.parametrize("session", [0, 1 << 127, 2**128 - 1, 12345678901234567890])
def test_each_file_is_read_once_in_the_time_that_is_set_in_even_intervals(session: int) -> None:
    async def main(_random: Random) -> None:
        ground = Ground(session=session)
        assert Counter(await ground.after(HOUR_NS + SLACK_NS)).keys() == set(ground.names)
        assert len(ground.disk.read) == len(ground.names)
        await ground.after(3 * HOUR_NS)
        for name in ground.names:
            times = [at for at, read in ground.disk.read if read == name]
            assert len(times) == 4
            assert all(abs(b - a - HOUR_NS) < SLACK_NS for a, b in itertools.pairwise(times))
        instants = [at for at, _ in ground.disk.read]
        step_ns = HOUR_NS // (len(ground.names) + 3)
        assert all(step_ns - SLACK_NS < b - a < 2 * step_ns + SLACK_NS for a, b in itertools.pairwise(instants))

    simulated(main)


def test_processes_begin_at_different_files() -> None:
    """A node that is restarted each day would read the same files again and again, and others never."""
    firsts: set[SegmentId] = set()

    async def main(random: Random) -> None:
        ground = Ground(session=random.getrandbits(128))
        firsts.add((await ground.after(HOUR_NS))[0])
        ground.task.cancel()

    for seed in range(12):
        run_virtual(main, seed)
    assert len(firsts) >= 4


def test_none_is_read_if_that_is_set_and_again_once_it_is_not() -> None:
    async def main(_random: Random) -> None:
        ground = Ground(every_ns=0)
        assert await ground.after(3 * HOUR_NS) == []
        ground.set(HOUR_NS)
        assert set(await ground.after(HOUR_NS + SLACK_NS)) == set(ground.names)

    simulated(main)


def test_nothing_is_read_before_the_recovery_has_ended() -> None:
    async def main(_random: Random) -> None:
        ground = Ground()
        ground.agent.recovered = False
        assert await ground.after(10 * HOUR_NS) == []
        ground.agent.recovered = True
        assert len(await ground.after(HOUR_NS + SLACK_NS)) == len(ground.names)

    simulated(main)


def test_a_suspected_file_is_read_at_once_and_no_other() -> None:
    async def main(_random: Random) -> None:
        ground = Ground(every_ns=100 * HOUR_NS)
        await ground.after(SLACK_NS)
        for name in (ground.names[5], ground.names[2]):
            ground.published.suspects.suspect(OnDisk(TABLE, int(name == ground.names[5]), name))
        ground.published.suspects.suspect(OnDisk(TABLE, 0, segment(77).id))
        assert await ground.after(SLACK_NS) == [ground.names[5], ground.names[2]]

    simulated(main)


def test_a_suspected_file_is_read_also_where_no_file_is_read_in_turn() -> None:
    async def main(_random: Random) -> None:
        ground = Ground(every_ns=0)
        ground.published.suspects.suspect(OnDisk(TABLE, 0, ground.names[0]))
        assert await ground.after(SLACK_NS) == [ground.names[0]]

    simulated(main)


def test_more_files_are_read_faster_though_the_next_one_was_due_late() -> None:
    async def main(_random: Random) -> None:
        ground = Ground(every_ns=3 * HOUR_NS, segments=1)
        await ground.after(SCRUB_COUNT_NS // 2)
        for number in range(100, 1_100):
            one = segment(number, 1, 3, bucket=1)
            ground.change(keys.segment(TABLE, 1, one.id), one)
        ground.kept = 1_003
        assert len(await ground.after(3 * HOUR_NS)) > 900

    simulated(main)


def test_a_long_sleep_is_not_made_up_for() -> None:
    async def main(_random: Random) -> None:
        ground = Ground()
        await ground.after(HOUR_NS)
        before = len(ground.disk.read)
        ground.clock.jump(50 * HOUR_NS)
        await ground.after(SLACK_NS)
        assert len(ground.disk.read) - before <= 2

    simulated(main)


def test_damage_is_noted_and_told_and_ends_when_the_file_can_be_read_again(caplog: pytest.LogCaptureFixture) -> None:
    async def main(_random: Random) -> None:
        ground = Ground()
        alone = segment(0, 1)
        ground.change(keys.segment(TABLE, 0, alone.id), alone)
        ground.disk.wrong = {ground.names[0], ground.names[1]}
        ground.disk.fails = {ground.names[2]}
        await ground.after(2 * HOUR_NS + SLACK_NS)
        assert ground.published.suspects.damaged == {(TABLE, 0): ground.disk.wrong}
        errors = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
        assert len(errors) == 2, "once in each pass"
        assert f"segment {alone.id}" in errors[0]
        assert f"its {alone.rows} rows can't be read" in errors[0]
        ground.disk.wrong.clear()
        await ground.after(HOUR_NS)
        assert ground.published.suspects.damaged == {}
        assert sorted(ground.whole) == ground.names[:2]

    simulated(main)


def test_once_the_disk_fails_to_read_a_file_all_files_are_read_at_once() -> None:
    async def main(_random: Random) -> None:
        ground = Ground(every_ns=1_000 * HOUR_NS)
        await ground.after(SLACK_NS)
        ground.published.suspects.suspect(OnDisk(TABLE, 0, ground.names[0]))
        ground.disk.wrong = {ground.names[0]}
        ground.published.disk_failing = True
        read = await ground.after(SLACK_NS)
        assert set(read) >= set(ground.names)
        assert len(read) <= len(ground.names) + 1
        assert await ground.after(HOUR_NS) == [], "once"
        ground.disk.wrong = {ground.names[0], ground.names[1]}
        ground.published.disk_failing = False
        ground.published.suspects.suspect(OnDisk(TABLE, 0, ground.names[1]))
        assert await ground.after(HOUR_NS) == [ground.names[1]], "that file differs, and the disk can read"

    simulated(main)


def test_a_file_is_read_no_faster_than_the_rate() -> None:
    async def main(_random: Random) -> None:
        ground = Ground(every_ns=60 * SECOND_NS)
        large = msgspec.structs.replace(segment(0, 1, 3), size_bytes=100 * SCRUB_BYTES_PER_SECOND)
        ground.change(keys.segment(TABLE, 0, large.id), large)
        await ground.after(HOUR_NS)
        places = [place for place, (_, name) in enumerate(ground.disk.read[:-1]) if name == large.id]
        assert places
        assert all(ground.disk.read[one + 1][0] - ground.disk.read[one][0] >= 100 * SECOND_NS for one in places)

    simulated(main)
