"""Waits for a step of a statement, or of a node that joins, so that the leader can be killed at that step.

A step is seen at its commit, before the leader hears that it is durable. That is the hardest case for the leader that
continues the statement.
"""

import asyncio
from enum import StrEnum
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Final

from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import NodeRecord, ProcedureRecord, Step
from leasehold.ids import Revision
from leasehold.testing.metastorage import MemoryStore

BARRIER_MAX_S: Final = 1.0
"""How far into its barrier a statement is struck, at most."""


class StatementPlace(StrEnum):
    """The step that a statement, or a node, has reached."""

    BEGUN = "begin"
    BARRIER = "barrier"
    PAST_RETURN = "point of no return"
    CLOSED = "close"
    JOINED = "join"
    ENTERED = "entrance"
    LEFT = "departure"


OF_NODES: Final = frozenset({StatementPlace.JOINED, StatementPlace.ENTERED, StatementPlace.LEFT})


async def reached(store: MemoryStore, place: StatementPlace, random: Random, *, patience_s: float) -> bool:
    """Waits until a statement, or a node, reaches `place`; False if none did in time."""
    arrived = asyncio.Event()

    def hear(batch: RevisionChanges) -> None:
        if any(_is_there(change, place, store) for change in batch.changes):
            arrived.set()

    store.on_commit.append(hear)
    try:
        async with asyncio.timeout(patience_s):
            await arrived.wait()
    except TimeoutError:
        return False
    finally:
        store.on_commit.remove(hear)
    if place is StatementPlace.BARRIER:
        await asyncio.sleep(random.random() * BARRIER_MAX_S)
    return True


def _is_there(change: Change, place: StatementPlace, store: MemoryStore) -> bool:
    if place not in OF_NODES:
        return change.key.startswith(keys.PROCEDURES) and _is_at(change, place)
    if not change.key.startswith(keys.NODES) or change.value is None or store.minimum == store.newest:
        return False
    before = store.get(change.key, Revision(store.newest - 1))
    return before is not None and _went(before.value, change.value, place)


def _is_at(change: Change, place: StatementPlace) -> bool:
    if change.value is None:
        return place is StatementPlace.CLOSED
    step = decode_record(ProcedureRecord, change.value).step
    return (
        place is StatementPlace.PAST_RETURN
        if step is Step.FINISHED
        else place in {StatementPlace.BEGUN, StatementPlace.BARRIER}
    )


def _went(old: bytes, new: bytes, place: StatementPlace) -> bool:
    """Whether a node's record reached `place` from one revision to the next."""
    before, after = decode_record(NodeRecord, old), decode_record(NodeRecord, new)
    match place:
        case StatementPlace.JOINED:
            return after.incarnation > before.incarnation
        case StatementPlace.ENTERED:
            return after.member and not before.member
        case _:
            return before.member and not after.member
