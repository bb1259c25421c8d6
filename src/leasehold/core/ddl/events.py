"""What happens to a statement on its way (`core/ddl/run.py`): past facts."""

from typing import TypeAlias

import msgspec

from leasehold.core.catalog.plan import Context
from leasehold.core.ddl.decision import Decision
from leasehold.core.lease.barrier import Fail, Proceed
from leasehold.core.words.records import Claim, ProcedureRecord
from leasehold.core.words.statements import Definition
from leasehold.errors import LeaseholdError
from leasehold.ids import Revision


class StatementAsked(msgspec.Struct, frozen=True, kw_only=True):
    """A client asked for a new statement, which was admitted."""

    statement: Definition
    claims: dict[str, Claim]


class ProcedureFound(msgspec.Struct, frozen=True, kw_only=True):
    """A leader that was elected at the revision `elected` found the procedure of an earlier one."""

    procedure: ProcedureRecord
    elected: Revision


class TurnReached(msgspec.Struct, frozen=True, kw_only=True):
    """No statement is ahead of it on its objects; `at_once` if none was when it came."""

    at_once: bool


class TurnMissed(msgspec.Struct, frozen=True, kw_only=True):
    """Its timeout was over while other statements were ahead of it."""


class ObjectsSettled(msgspec.Struct, frozen=True, kw_only=True):
    """The barrier of the last change of its objects, at `revision`, has ended; `verdict` None where there was none to
    wait for. `at_once` if it had proceeded already when it was asked for."""

    revision: Revision
    verdict: Proceed | Fail | None
    at_once: bool


class ContextPrepared(msgspec.Struct, frozen=True, kw_only=True):
    """What its plan needs besides the catalog is known."""

    context: Context


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """What its first transaction writes was decided, and is durable at `revision`."""

    decision: Decision
    revision: Revision


class RevisionFound(msgspec.Struct, frozen=True, kw_only=True):
    """The first transaction of an earlier leader's statement was committed at `revision`; `bound_ns` is what this
    leader published when it took the statement up."""

    revision: Revision
    bound_ns: int


class BarrierEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The barrier that it waited for has ended."""

    verdict: Proceed | Fail


class TakenBack(msgspec.Struct, frozen=True, kw_only=True):
    """CANCEL has rolled it back, durably."""


class PointCrossed(msgspec.Struct, frozen=True, kw_only=True):
    """Its second transaction is durable at `revision`: what it hid is gone for good."""

    revision: Revision


class RolledBack(msgspec.Struct, frozen=True, kw_only=True):
    """Its rollback is durable at `revision`."""

    revision: Revision


class LeftPending(msgspec.Struct, frozen=True, kw_only=True):
    """That it was left pending is durable."""


class ReceiptQueued(msgspec.Struct, frozen=True, kw_only=True):
    """Its receipt will be written behind its answer."""


class EffectFailed(msgspec.Struct, frozen=True, kw_only=True):
    """What it asked for last ended with an error."""

    error: LeaseholdError


_BeforeDecision: TypeAlias = (
    StatementAsked | ProcedureFound | TurnReached | TurnMissed | ObjectsSettled | ContextPrepared
)
_AfterDecision: TypeAlias = Decided | RevisionFound | BarrierEnded | TakenBack | PointCrossed | RolledBack
RunEvent: TypeAlias = _BeforeDecision | _AfterDecision | LeftPending | ReceiptQueued | EffectFailed
