"""What a leader knows of the statements that have not ended, and of those that ended and wrote nothing."""

import asyncio
from collections import OrderedDict

import msgspec

from leasehold.coordinator.nodes.leases import Leasing, RunningBarrier, Waiting
from leasehold.coordinator.statements.preparation import ParsedStatement
from leasehold.coordinator.statements.turns import Turn
from leasehold.core.ddl.origin import Origin
from leasehold.core.ddl.run import StatementRun
from leasehold.core.words.messages import Receipt
from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite, LeaseholdError, Unauthenticated
from leasehold.ids import StatementId
from leasehold.limits.statements import STATEMENTS_KEPT


class LiveStatement(msgspec.Struct, kw_only=True, eq=False):
    """A statement that has not ended: its run, and what the run is driven by."""

    id: StatementId
    origin: Origin
    run: StatementRun
    asked: ParsedStatement | None
    """None for a statement of an earlier leader."""
    answer: "asyncio.Future[Receipt]"
    """What all who asked for it wait for."""
    taken_back: "asyncio.Future[None]"
    """Done once CANCEL has rolled it back, durably."""
    turn: Turn | None = None
    barrier: RunningBarrier | None = None
    """The one that it waits for now, or waited for last."""

    @property
    def text(self) -> str:
        """The beginning of its text, without a secret."""
        return self.origin.text

    @property
    def user(self) -> str | None:
        """Who asked for it."""
        return self.origin.user

    def waiting(self, leasing: Leasing) -> Waiting | None:
        """Whom it waits for now, if for anybody."""
        return None if self.barrier is None else leasing.waiting(self.barrier.number)

    def tell(self, end: Receipt | LeaseholdError) -> None:
        """All who wait for it get `end`."""
        if isinstance(end, Receipt):
            self.answer.set_result(end)
            return
        self.answer.set_exception(end)
        self.answer.exception()  # the client may be gone: nobody else needs it


class Refusal(msgspec.Struct, frozen=True):
    """A refusal without the frames that an exception keeps alive."""

    kind: type[Definite]
    text: str
    code: ErrorCode
    hint: str

    @classmethod
    def of(cls, error: Definite) -> "Refusal":
        """What `error` says."""
        return cls(type(error), error.text, error.code, error.hint)

    def error(self) -> Definite:
        """The error again."""
        return self.kind(self.text, code=self.code, hint=self.hint)


class Unrecorded:
    """The newest ends that wrote nothing: a late copy of such a request must not run it after all."""

    def __init__(self) -> None:
        self._ends: OrderedDict[StatementId, tuple[Origin, Receipt | Refusal]] = OrderedDict()

    def origin(self, statement: StatementId) -> Origin | None:
        """Whose it was; None if nothing is known of it."""
        found = self._ends.get(statement)
        return None if found is None else found[0]

    def note(self, statement: StatementId, origin: Origin, end: Receipt | Refusal) -> None:
        """Remembers an end, and forgets the oldest."""
        self._ends[statement] = (origin, end)
        if len(self._ends) > STATEMENTS_KEPT:
            self._ends.popitem(last=False)

    def refused(self, statement: StatementId, origin: Origin, error: Definite) -> None:
        """Remembers a refusal, but not of a login that has ended: nothing that comes with it runs any more, and the
        statement may be asked for again with another one."""
        if not isinstance(error, Unauthenticated):
            self.note(statement, origin, Refusal.of(error))

    def told(self, statement: StatementId) -> Receipt | None:
        """What was answered then, None if nothing is known; raises the refusal that it was."""
        _, end = self._ends.get(statement, (None, None))
        if isinstance(end, Refusal):
            raise end.error()
        return end
