"""The states of a statement's run, and what each waits for; the head of `core/ddl/run.py` has the transitions."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from leasehold.core.ddl import events


class RunState(StrEnum):
    """Where a run stands: what it waits for."""

    NEW = "new"
    QUEUED = "queued"
    SETTLING = "settling"
    PREPARING = "preparing"
    DECIDING = "deciding"
    LOCATING = "locating"
    CATCHING_UP = "catching up"
    AWAITING_BARRIER = "awaiting barrier"
    CROSSING = "crossing"
    ROLLING_BACK = "rolling back"
    LEAVING_PENDING = "leaving pending"
    RESTORING = "restoring"
    CLOSING = "closing"
    ENDED = "ended"


LEGAL: Final[Mapping[RunState, tuple[type[events.RunEvent], ...]]] = {
    RunState.NEW: (events.StatementAsked, events.ProcedureFound),
    RunState.QUEUED: (events.TurnReached, events.TurnMissed),
    RunState.SETTLING: (events.ObjectsSettled,),
    RunState.PREPARING: (events.ContextPrepared, events.EffectFailed),
    RunState.DECIDING: (events.Decided, events.EffectFailed),
    RunState.LOCATING: (events.RevisionFound, events.EffectFailed),
    RunState.CATCHING_UP: (events.BarrierEnded, events.TakenBack),
    RunState.AWAITING_BARRIER: (events.BarrierEnded, events.TakenBack),
    RunState.CROSSING: (events.PointCrossed, events.EffectFailed),
    RunState.ROLLING_BACK: (events.RolledBack, events.EffectFailed),
    RunState.LEAVING_PENDING: (events.LeftPending, events.EffectFailed),
    RunState.RESTORING: (events.BarrierEnded,),
    RunState.CLOSING: (events.ReceiptQueued,),
    RunState.ENDED: (),
}
"""The events that each state waits for."""
