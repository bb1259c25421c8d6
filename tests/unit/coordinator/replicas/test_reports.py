"""Reports of nodes at a leader."""

import asyncio

from leasehold.coordinator.replicas.reports import NodeReports
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words.messages import SegmentsHeld
from leasehold.limits.replication import REPORTED_SEGMENTS_AT_ONCE_MAX


async def test_only_so_many_reported_segments_can_meet_in_one_transaction():
    class Slow:
        def __init__(self):
            self.catalog = Catalog()
            self.waiting = []

        async def submit(self, _decide):
            answer = asyncio.get_running_loop().create_future()
            self.waiting.append(answer)
            await answer

    writer = Slow()
    asked = NodeReports(writer, None)
    per = REPORTED_SEGMENTS_AT_ONCE_MAX // 4
    report = SegmentsHeld(node=1, incarnation=1, session="5" * 32, table=2, bucket=0, segments=("s",) * per)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        reports = [group.create_task(asked.acknowledge(report)) for _ in range(11)]
        met = []
        while not all(one.done() for one in reports):
            for _ in range(20):
                await asyncio.sleep(0)
            met.append(len(writer.waiting))
            while writer.waiting:
                writer.waiting.pop().set_result(None)
            for _ in range(5):
                await asyncio.sleep(0)
    assert [one for one in met if one] == [4, 4, 3]
