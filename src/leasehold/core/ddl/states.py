"""The states of a statement's run, and what each waits for; the head of `core/ddl/run.py` has the transitions."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from leasehold.core.ddl.events import (
    BarrierEnded,
    ContextPrepared,
    Decided,
    EffectFailed,
    LeftPending,
    ObjectsSettled,
    PointCrossed,
    ProcedureFound,
    ReceiptQueued,
    RevisionFound,
    RolledBack,
    RunEvent,
    StatementAsked,
    TakenBack,
    TurnMissed,
    TurnReached,
)


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


LEGAL: Final[Mapping[RunState, tuple[type[RunEvent], ...]]] = {
    RunState.NEW: (StatementAsked, ProcedureFound),
    RunState.QUEUED: (TurnReached, TurnMissed),
    RunState.SETTLING: (ObjectsSettled,),
    RunState.PREPARING: (ContextPrepared, EffectFailed),
    RunState.DECIDING: (Decided, EffectFailed),
    RunState.LOCATING: (RevisionFound, EffectFailed),
    RunState.CATCHING_UP: (BarrierEnded, TakenBack),
    RunState.AWAITING_BARRIER: (BarrierEnded, TakenBack),
    RunState.CROSSING: (PointCrossed, EffectFailed),
    RunState.ROLLING_BACK: (RolledBack, EffectFailed),
    RunState.LEAVING_PENDING: (LeftPending, EffectFailed),
    RunState.RESTORING: (BarrierEnded,),
    RunState.CLOSING: (ReceiptQueued,),
    RunState.ENDED: (),
}
"""The events that each state waits for."""
