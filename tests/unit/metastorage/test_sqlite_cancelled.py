"""Reads of the embedded meta storage whose callers are gone before their turn."""

import asyncio
import threading
from pathlib import Path

from leasehold.metastorage.database import Database
from leasehold.metastorage.sqlite import SqliteMetaStorage

CALLERS = 20


async def test_a_read_whose_caller_is_gone_is_not_run(tmp_path: Path) -> None:
    """Callers that begin a snapshot and cut it at once would fill the queue with reads, and logins would wait."""
    storage = await SqliteMetaStorage.open(tmp_path / "meta.db")
    gate, ran = threading.Event(), list[str]()

    def wait(_: Database) -> None:
        gate.wait()

    def run(_: Database) -> None:
        ran.append("read")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(storage.ask(wait))
        gone = [tasks.create_task(storage.ask(run)) for _ in range(CALLERS)]
        await asyncio.sleep(0)
        for one in gone:
            one.cancel()
        await asyncio.sleep(0)
        last = tasks.create_task(storage.ask(run))
        await asyncio.sleep(0)
        gate.set()
        await last
    assert ran == ["read"]
    await storage.ask(run)
    await storage.close()


async def test_reads_of_callers_that_are_gone_leave_room_in_the_queue(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("leasehold.metastorage.sqlite.COMMAND_QUEUE_MAX", CALLERS)
    storage = await SqliteMetaStorage.open(tmp_path / "meta.db")
    for _ in range(3):
        async with asyncio.TaskGroup() as tasks:
            gone = [tasks.create_task(storage.ask(lambda _: None)) for _ in range(CALLERS - 1)]
            await asyncio.sleep(0)
            for one in gone:
                one.cancel()
        await storage.status()
    await storage.close()
