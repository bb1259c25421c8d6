"""What a statement needs done on its way (`core/ddl/run.py`): imperatives.

`Action`s are done at once. An `Awaited` one takes a while and ends with an event; it is the last one of its step.
"""

from typing import TypeAlias

import msgspec

from leasehold.core.ddl.decision import Undecided
from leasehold.core.words.messages import Receipt
from leasehold.core.words.records import BarrierReceipt, Claim, ProcedureRecord
from leasehold.errors import Definite, LeaseholdError
from leasehold.ids import NodeId, Revision

# ---------------------------------------------------------------- done at once


class EnterQueue(msgspec.Struct, frozen=True, kw_only=True):
    """Take a place in the queues of these objects."""

    claims: dict[str, Claim]


class WidenTurn(msgspec.Struct, frozen=True, kw_only=True):
    """Take a place in the queues of these objects as well, if it has none there."""

    claims: dict[str, Claim]


class TouchObjects(msgspec.Struct, frozen=True, kw_only=True):
    """Note that `revision` changed the exclusive claims: the next statement on them waits until that is settled."""

    claims: dict[str, Claim]
    revision: Revision


class BeginBarrier(msgspec.Struct, frozen=True, kw_only=True):
    """Begin to settle `revision`, so that the next statement on the objects waits less."""

    revision: Revision


class Remember(msgspec.Struct, frozen=True, kw_only=True):
    """Remember an end that is not durable: a late copy of the request must not run the statement."""

    end: Receipt | Definite


class WriteLog(msgspec.Struct, frozen=True, kw_only=True):
    """Write a line to the log."""

    text: str
    is_warning: bool = False


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer all requests that wait for its end."""

    end: Receipt | LeaseholdError


Action: TypeAlias = EnterQueue | WidenTurn | TouchObjects | BeginBarrier | Remember | WriteLog | Answer

# ---------------------------------------------------------------- awaited


class AwaitTurn(msgspec.Struct, frozen=True, kw_only=True):
    """Wait until no statement is ahead of it: `TurnReached`, or `TurnMissed` at `give_up_ns`."""

    give_up_ns: int | None


class SettleObjects(msgspec.Struct, frozen=True, kw_only=True):
    """Wait for the barrier of the last change of these objects: `ObjectsSettled`."""

    claims: dict[str, Claim]
    give_up_ns: int | None


class PrepareContext(msgspec.Struct, frozen=True, kw_only=True):
    """Find out what its plan needs besides the catalog: `ContextPrepared`."""


class CommitDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Commit what `decide_first_transaction` says: `Decided`."""

    undecided: Undecided


class FindRevision(msgspec.Struct, frozen=True, kw_only=True):
    """Look up the revision of its first transaction: `RevisionFound`."""

    procedure: ProcedureRecord


class AwaitBarrier(msgspec.Struct, frozen=True, kw_only=True):
    """Wait until nothing older than `revision` can be served: `BarrierEnded`. With `or_taken_back` CANCEL ends the wait
    as well: `TakenBack`, which comes first where both are there."""

    revision: Revision
    give_up_ns: int | None = None
    or_taken_back: bool = False


class CrossPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Commit its point of no return: `PointCrossed`."""

    procedure: ProcedureRecord


class RollBack(msgspec.Struct, frozen=True, kw_only=True):
    """Commit that it is rolled back, with the nodes that it waited for: `RolledBack`."""

    procedure: ProcedureRecord
    elapsed_ns: int
    pending: tuple[NodeId, ...]


class LeavePending(msgspec.Struct, frozen=True, kw_only=True):
    """Commit that it ends while `pending` may serve what was before: `LeftPending`."""

    procedure: ProcedureRecord
    revision: Revision
    elapsed_ns: int
    pending: tuple[NodeId, ...]


class QueueReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """Have its receipt written behind its answer: `ReceiptQueued`."""

    procedure: ProcedureRecord
    barrier: BarrierReceipt
    elapsed_ns: int
    bound_ns: int


_Waits: TypeAlias = AwaitTurn | SettleObjects | PrepareContext | FindRevision | AwaitBarrier
_Commits: TypeAlias = CommitDecision | CrossPoint | RollBack | LeavePending | QueueReceipt
Awaited: TypeAlias = _Waits | _Commits
RunEffect: TypeAlias = Action | Awaited
