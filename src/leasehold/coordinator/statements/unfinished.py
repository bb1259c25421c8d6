"""Statements that have not ended, and the ends of those that wrote nothing."""

import asyncio
import copy
from collections import OrderedDict

import msgspec

from leasehold.coordinator.nodes.leases import Leasing, RunningBarrier, Waiting
from leasehold.coordinator.statements.preparation import ParsedStatement
from leasehold.coordinator.statements.turns import Turn
from leasehold.core.ddl.origin import Origin, beginning
from leasehold.core.ddl.run import StatementRun
from leasehold.core.words.messages import Receipt
from leasehold.errors import Definite, LeaseholdError, Unauthenticated
from leasehold.ids import StatementId
from leasehold.limits.statements import STATEMENTS_KEPT, UNRECORDED_TEXT_BYTES_KEPT


class LiveStatement(msgspec.Struct, kw_only=True, eq=False):
    """A statement that has not ended, and the futures that drive it."""

    id: StatementId
    origin: Origin
    run: StatementRun
    asked: ParsedStatement | None
    """None for a statement of an earlier leader."""
    answer: "asyncio.Future[Receipt]"
    """All clients that have sent it wait for this."""
    taken_back: "asyncio.Future[None]"
    """Done once CANCEL has rolled it back, durably."""
    turn: Turn | None = None
    barrier: RunningBarrier | None = None
    """The barrier that it waits for, or waited for last."""

    def waiting(self, leasing: Leasing) -> Waiting | None:
        """The nodes that it waits for now; None if it waits for none."""
        return None if self.barrier is None else leasing.waiting(self.barrier.number)

    def tell(self, end: Receipt | LeaseholdError) -> None:
        if isinstance(end, Receipt):
            self.answer.set_result(end)
            return
        self.answer.set_exception(end)
        self.answer.exception()  # the client may be gone


class Unrecorded:
    """The newest STATEMENTS_KEPT ends that wrote nothing: a late copy of such a request must not run."""

    def __init__(self) -> None:
        self._ends: OrderedDict[StatementId, tuple[Origin, Receipt | Definite]] = OrderedDict()

    def origin(self, statement: StatementId) -> Origin | None:
        """The origin of a statement, if it is one of these."""
        found = self._ends.get(statement)
        return None if found is None else found[0]

    def note(self, statement: StatementId, origin: Origin, end: Receipt | Definite) -> None:
        """Remembers an end, with little of the statement's text."""
        text = beginning(origin.text, UNRECORDED_TEXT_BYTES_KEPT)
        if isinstance(end, Receipt):
            end = msgspec.structs.replace(end, text=text)
        self._ends[statement] = (msgspec.structs.replace(origin, text=text), end)
        if len(self._ends) > STATEMENTS_KEPT:
            self._ends.popitem(last=False)

    def refused(self, statement: StatementId, origin: Origin, error: Definite) -> None:
        """Remembers a refusal, except that of a login that has ended: the client may send the statement again with a
        new one."""
        if not isinstance(error, Unauthenticated):
            self.note(statement, origin, copy.copy(error))  # without the frames that a raised error keeps alive

    def told(self, statement: StatementId) -> Receipt | None:
        """The receipt of a statement, None if it is not one of these; raises its refusal."""
        _, end = self._ends.get(statement, (None, None))
        if isinstance(end, Definite):
            raise copy.copy(end)
        return end
