"""One end of a session: what came and was not looked at is bounded by its bytes."""

import asyncio

from leasehold.core.codec import encode
from leasehold.core.messages import AskStatus
from leasehold.wire import duplex
from leasehold.wire.duplex import END_FRAME, QueuedDuplex


async def test_who_sends_large_messages_waits_until_they_are_looked_at(monkeypatch):
    blob = encode(AskStatus())
    monkeypatch.setattr(duplex, "SESSION_RECEIVE_BYTES_MAX", 2 * len(blob))
    here, came = QueuedDuplex("peer"), 0

    async def read():
        nonlocal came
        came += 1
        return blob if came <= 6 else END_FRAME

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(here.read_all(read))
        for taken in range(6):
            for _ in range(10):
                await asyncio.sleep(0)
            assert came == min(taken + 3, 7), "two wait, and one was read"
            assert await here.receive() == AskStatus()
        assert await here.receive() is None
