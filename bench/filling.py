"""Filling a meta storage that no coordinator uses, through the leader's own writer."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from leasehold.coordinator.writer import Writer
from leasehold.core.catalog.catalog import Catalog
from leasehold.metastorage.contract import MetaStorage
from leasehold.wire.clock import BoottimeClock

Storage = TypeVar("Storage", bound=MetaStorage)


@asynccontextmanager
async def writing(
    opening: Awaitable[Storage], read: Callable[[Storage], Awaitable[Catalog]]
) -> AsyncGenerator[tuple[Storage, Writer]]:
    """The store and a writer of a term of its own, which begins with what `read` answers.

    If the writer fails, so does the block.
    """
    storage = await opening
    try:
        leadership = await storage.campaign("bench")
        clock = BoottimeClock()
        writer = Writer(storage, leadership, await read(storage), lambda *_: None, clock.now_ns, clock.wall_us)
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one) for one in (writer.run(), leadership.hold(lambda _: None))]
            yield storage, writer
            for one in running:
                one.cancel()
    finally:
        await storage.close()
