"""Clients that remove what a reader reads, while it reads."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from enum import IntEnum
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Any, Final, NoReturn, assert_never

from leasehold.core.words.messages import Receipt
from leasehold.errors import LeaseholdError
from leasehold.testing.clients import TIMEOUTS_NS, Client
from leasehold.testing.readers import SimulatedReader
from leasehold.testing.rows import RowId
from leasehold.testing.statements import KEPT, KEPT_MADE, KEPT_VIEW_MADE, reading_through, taking, taking_kept

PATIENCE_S: Final = 60.0
CROSSING_MAX_S: Final = 0.5
"""The longest wait before a scan, and before the DELETE that crosses it."""
SCAN_PAUSE_MAX_S: Final = 2.0
GIVEN_BACK_MAX_S: Final = 4.0


class TakerTurn(IntEnum):
    """What is removed while a reader reads; each seed has one turn."""

    TAKING = 0
    """Whatever it reads, by the reader itself."""
    DELETING = 1
    """Rows of the table that it reads slowly."""
    VIEWING = 2
    """The view through which it reads a table slowly, or the right on that view."""


def kept(turn: TakerTurn, viewer: str | None) -> tuple[str, ...]:
    """The statements that make the kept table, and the view through which `viewer` reads it; `viewer` is None without
    users."""
    table = f"CREATE DATABASE {KEPT.partition('.')[0]}", KEPT_MADE
    match turn:
        case TakerTurn.TAKING:
            return ()
        case TakerTurn.DELETING:
            return table
        case TakerTurn.VIEWING:
            return (*table, KEPT_VIEW_MADE, *(() if viewer is None else reading_through(viewer)))
        case _:
            assert_never(turn)


def taking_itself(
    reader: SimulatedReader, tables: Sequence[str], client: Client, random: Random, user: str | None
) -> list[Coroutine[Any, Any, None]]:
    """A reader of `tables` that removes what it reads, and a task that restores it some time later.

    `user` is the reader, if it has a right of its own.
    """
    giving: list[str] = []

    async def take(name: str) -> Receipt | None:
        taken, *given = taking(random, name, user)
        receipt = await client.ask(taken, patience_s=PATIENCE_S)
        giving.extend(given)
        return receipt

    async def give_back() -> None:
        while True:
            await asyncio.sleep(random.random() * GIVEN_BACK_MAX_S)
            while giving:
                await client.ask(giving.pop(), patience_s=PATIENCE_S)

    reader.take = take
    return [reader.run(tables), give_back()]


async def scan_and_delete(reader: SimulatedReader, client: Client, random: Random) -> NoReturn:
    """Scans the kept table again and again. During each scan the client deletes some rows of the previous scan."""
    rows: tuple[RowId, ...] = ()

    async def take() -> None:
        await asyncio.sleep(random.random() * CROSSING_MAX_S)
        timeout_ns: int | None = random.choice(TIMEOUTS_NS)
        for text in taking_kept(random, rows):
            await client.ask(text, patience_s=PATIENCE_S, timeout_ns=timeout_ns)
            timeout_ns = None  # what creates the table again has all the time

    while True:
        async with asyncio.TaskGroup() as both:
            both.create_task(take())
            await asyncio.sleep(random.random() * CROSSING_MAX_S)
            with suppress(LeaseholdError):
                rows = (await reader.scan(KEPT)).rows
        await asyncio.sleep(random.random() * SCAN_PAUSE_MAX_S)
