"""Waiting for a step of a statement, whichever comes next, so that its leader can be struck just there.

A step is seen at its commit, before the leader hears that it is durable: to be killed there is the hardest case for
whoever takes the statement up.
"""

import asyncio
from enum import StrEnum
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Final

from leasehold.core import keys
from leasehold.core.codec import decode_record
from leasehold.core.operations import Change, RevisionChanges
from leasehold.core.records import ProcedureRecord, Step
from leasehold.testing.metastorage import MemoryStore

BARRIER_MAX_S: Final = 1.0
"""How far into its barrier a statement is struck, at most."""


class Place(StrEnum):
    """Where in its course a statement is."""

    BEGUN = "begin"
    BARRIER = "barrier"
    PAST_RETURN = "point of no return"
    CLOSED = "close"


async def reached(store: MemoryStore, place: Place, random: Random, *, patience_s: float) -> bool:
    """Waits until some statement is there; False if none came there in time."""
    arrived = asyncio.Event()

    def hear(batch: RevisionChanges) -> None:
        if any(_is_at(change, place) for change in batch.changes if change.key.startswith(keys.PROCEDURES)):
            arrived.set()

    store.on_commit.append(hear)
    try:
        async with asyncio.timeout(patience_s):
            await arrived.wait()
    except TimeoutError:
        return False
    finally:
        store.on_commit.remove(hear)
    if place is Place.BARRIER:
        await asyncio.sleep(random.random() * BARRIER_MAX_S)
    return True


def _is_at(change: Change, place: Place) -> bool:
    if change.value is None:
        return place is Place.CLOSED
    step = decode_record(ProcedureRecord, change.value).step
    return place is Place.PAST_RETURN if step is Step.FINISHED else place in {Place.BEGUN, Place.BARRIER}
