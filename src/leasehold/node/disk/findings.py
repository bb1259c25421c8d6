"""What the reconciler finds on the disk, reported to the leader by bucket.

A report is lost with the session that it was sent on. So it is repeated after REPORT_REPEAT_NS until the durable
catalog shows it.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

from leasehold.core.words.records import SegmentRecord
from leasehold.ids import BucketNumber, ObjectId, SegmentId
from leasehold.limits.replication import REPORT_GATHER_NS, REPORT_REPEAT_NS, SEGMENTS_PER_REPORT_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.outbox import Reporter
from leasehold.node.agent.turns import Slices
from leasehold.node.disk.rests import Rests
from leasehold.wire.ports import Clock

Gathered = dict[tuple[ObjectId, BucketNumber], dict[SegmentId, None]]


class Findings:
    """The reports of one process."""

    def __init__(
        self,
        agent: Reporter,
        clock: Clock,
        *,
        report_segments_max: int = SEGMENTS_PER_REPORT_MAX,
        repeat_ns: int = REPORT_REPEAT_NS,
    ) -> None:
        self._agent = agent
        self._clock = clock
        self._report_segments_max = report_segments_max
        self.told = Rests(clock.now_ns, min_ns=repeat_ns, max_ns=repeat_ns)
        """Segments reported as held, and tables reported as cleaned, less than `repeat_ns` ago."""
        self._told_missing = Rests(clock.now_ns, min_ns=repeat_ns, max_ns=repeat_ns)
        self._held: Gathered = {}
        self._found = asyncio.Event()
        self._hastened = asyncio.Event()
        self._turns = Slices()

    def held(self, record: SegmentRecord) -> None:
        """A segment is here, verified: it is reported soon, together with others."""
        self.told.begin(record.id)
        self._held.setdefault((record.table, record.bucket), {})[record.id] = None
        self._found.set()
        self._hastened.clear()

    def hasten(self) -> None:
        """No more is found soon: what was found is reported now."""
        self._hastened.set()

    async def run(self) -> None:
        """Reports held segments until cancelled, at most REPORT_GATHER_NS after the first one is found."""
        while True:
            await self._found.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(REPORT_GATHER_NS / SECOND_NS):
                    await self._hastened.wait()
            self._found.clear()
            held, self._held = self._held, {}
            for (table, bucket), segments in _parts(held, self._report_segments_max):
                await self._agent.report_held(table, bucket, segments)

    async def missing(self, records: Sequence[SegmentRecord], most: int | None) -> int:
        """Reports segments that are not here; returns how many. `most` limits that, and leaves out those that were
        reported a moment ago. All reports are queued on return."""
        gathered: Gathered = {}
        told = 0
        for one in records:
            await self._turns.looked_at(1)
            if most is not None and (told == most or one.id in self._told_missing):
                continue
            self._told_missing.begin(one.id)
            self.told.forget(one.id)
            gathered.setdefault((one.table, one.bucket), {})[one.id] = None
            told += 1
        for (table, bucket), segments in _parts(gathered, self._report_segments_max):
            await self._agent.report_missing(table, bucket, segments)
        return told


def _parts(
    gathered: Gathered, segments_max: int
) -> Iterable[tuple[tuple[ObjectId, BucketNumber], tuple[SegmentId, ...]]]:
    for bucket, found in sorted(gathered.items()):
        segments = tuple(found)
        for start in range(0, len(segments), segments_max):
            yield bucket, segments[start : start + segments_max]
