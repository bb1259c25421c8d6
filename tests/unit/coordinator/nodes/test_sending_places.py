"""Places for streams that read the whole meta storage: one read at a time for each taker."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from leasehold.coordinator.nodes.snapshots import SendingPlaces
from leasehold.core.words.messages import Message, SnapshotPage
from leasehold.errors import Refused

PAGE = SnapshotPage(items=())


class Reading:
    """A store whose reads wait until `gate` is set."""

    def __init__(self) -> None:
        self.under_way = self.most = self.begun = 0
        self.gate = asyncio.Event()

    async def pages(self, count: int = 2) -> AsyncGenerator[Message, None]:
        for _ in range(count):
            self.begun += 1
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            try:
                await self.gate.wait()
            finally:
                self.under_way -= 1
            yield PAGE


async def taken(stream: AsyncGenerator[Message, None]) -> int | str:
    """How many messages came, or why no more came."""
    try:
        return len([message async for message in stream])
    except Refused as error:
        return error.code


async def settled() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_taker_that_asks_again_and_again_has_one_read_under_way() -> None:
    places, reading = SendingPlaces(4, "snapshots are taken", lambda: 0), Reading()
    tasks = list[asyncio.Task[int | str]]()
    for _ in range(10):
        tasks.append(asyncio.create_task(taken(places.send("n1", reading.pages()))))
        await settled()
    other = asyncio.create_task(taken(places.send("n2", reading.pages())))
    await settled()
    assert reading.under_way == 2, "one of each taker"
    reading.gate.set()
    assert await asyncio.gather(*tasks) == ["BUSY"] * 9 + [2]
    assert await other == 2
    assert reading.begun == 1 + 2 + 2, "an older stream reads no further page"


async def test_a_stream_does_not_wait_for_an_older_one_whose_message_is_not_taken() -> None:
    places, reading = SendingPlaces(4, "snapshots are taken", lambda: 0), Reading()
    reading.gate.set()
    async with aclosing(places.send("n1", reading.pages())) as older:
        assert await anext(older) is PAGE
        assert await taken(places.send("n1", reading.pages())) == 2
        with pytest.raises(Refused, match="has been asked for again"):
            await anext(older)


async def test_a_stream_that_is_cut_while_it_waits_holds_up_nobody() -> None:
    places, reading = SendingPlaces(4, "snapshots are taken", lambda: 0), Reading()
    for _ in range(10):
        task = asyncio.create_task(taken(places.send("n1", reading.pages())))
        await settled()
        task.cancel()
        await settled()
    reading.gate.set()
    assert await taken(places.send("n1", reading.pages())) == 2
