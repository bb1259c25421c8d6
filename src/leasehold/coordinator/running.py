"""What a leader knows of the statements that have not ended, and of those that ended and wrote nothing."""

import asyncio
from collections import OrderedDict

import msgspec

from leasehold.coordinator.leasing import Barrier, Leasing, Waiting
from leasehold.core.catalog import Catalog
from leasehold.core.ddl import cleaning, leader_changes
from leasehold.core.messages import Receipt
from leasehold.core.origin import Origin
from leasehold.core.records import Outcome, StatementRecord, Waited
from leasehold.errors import Definite, LeaseholdError, NotFound, OutcomeUnknown, Refused, Unauthenticated
from leasehold.ids import Revision, StatementId
from leasehold.limits.statements import STATEMENTS_KEPT
from leasehold.limits.units import MILLISECOND_NS


class Running(msgspec.Struct, kw_only=True, eq=False):
    """A statement that has not ended. No secret is left in `text`."""

    id: StatementId
    origin: Origin
    answer: "asyncio.Future[Receipt]"
    """What all who asked for it wait for."""
    taken_back: "asyncio.Future[None]"
    """Done once CANCEL has rolled it back, durably."""
    give_up_ns: int | None
    """When its own timeout is over; None for one that another leader began: it goes all the way."""
    began_ns: int | None = None
    """When it was at the head of its objects' queues, and their last change was settled."""
    waited: Waited | None = None
    """What it waited for before that."""
    published_after_ns: int = 0
    """How long after `began_ns` its first transaction was durable."""
    settled_after_ns: int = 0
    """How long after `began_ns` its barrier had proceeded."""
    number: int | None = None
    """Its procedure, once its first transaction is durable: from then on no refusal may say that nothing happened."""
    barrier: Barrier | None = None
    past_return: bool = False
    closing: bool = False
    """Answered, while its receipt is not durable yet: until then the answer is repeated from here."""

    @property
    def text(self) -> str:
        """The beginning of its text."""
        return self.origin.text

    @property
    def user(self) -> str | None:
        """Who asked for it."""
        return self.origin.user

    @property
    def published(self) -> bool:
        """Its first transaction is durable."""
        return self.number is not None

    def waiting(self, leasing: Leasing) -> Waiting | None:
        """Whom it waits for now, if for anybody."""
        return None if self.barrier is None else leasing.waiting(self.barrier.number)

    def overrun(self, bound_ns: int) -> str:
        """Where the time went of one that took longer than its bound: the bound counts on a meta storage that stores in
        a moment, and on a processor."""
        return (
            f"over its bound of {bound_ns // MILLISECOND_NS} ms: "
            f"its change was durable after {self.published_after_ns // MILLISECOND_NS} ms, "
            f"its barrier had proceeded after {self.settled_after_ns // MILLISECOND_NS} ms"
        )

    def fail(self, error: LeaseholdError) -> None:
        """All who wait for it get `error`."""
        if self.published and isinstance(error, Definite):
            # The procedure is durable and goes on under this leader's successor, if not under this one.
            text = f"the statement has begun and can't be ended now: {error.text}"
            error = OutcomeUnknown(text, hint="ask again with the same statement id")
        self.answer.set_exception(error)
        self.answer.exception()  # the client may be gone: nobody else needs it


class Refusal(msgspec.Struct, frozen=True):
    """A refusal without the frames that an exception keeps alive."""

    kind: type[Definite]
    text: str
    code: str
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


def record_of(number: int, catalog: Catalog) -> StatementRecord:
    """The statement of a procedure, running or ended. Raises `NotFound` (NO_PROCEDURE)."""
    for record in catalog.statements.values():
        if record.order == number:
            return record
    raise NotFound(f"no procedure {number}", code="NO_PROCEDURE", hint="SHOW PROCEDURES lists those that run")


def receipt(record: StatementRecord, catalog: Catalog) -> Receipt:
    """How a statement ended, as its record says; what nodes still have to delete, as of now."""
    return Receipt(
        statement_id=record.id,
        text=record.text,
        revision=record.revision,
        outcome=record.outcome,
        elapsed_ns=record.elapsed_ns,
        bound_ns=record.bound_ns,
        settled=record.barriers[-1].settled if record.barriers else (),
        pending=record.pending,
        cleaning=cleaning(record, catalog) if record.outcome is Outcome.COMMITTED else (),
        notes=record.notes if record.outcome is not Outcome.ROLLED_BACK else (),
        leader_changes=leader_changes(record),
        waited=record.waited,
    )


def nothing_to_do(running: Running, *, revision: Revision, elapsed_ns: int, bound_ns: int) -> Receipt:
    """The receipt of a statement that changed nothing, since all is as it asks for."""
    return Receipt(
        statement_id=running.id,
        text=running.text,
        revision=revision,
        outcome=Outcome.COMMITTED,
        elapsed_ns=elapsed_ns,
        bound_ns=bound_ns,
        settled=(),
        pending=(),
        cleaning=(),
        waited=running.waited,
    )


def timed_out(because: str) -> Refused:
    """The refusal of a statement whose timeout came first."""
    return Refused(
        f"its timeout was over before it began: {because}",
        code="TIMED_OUT",
        hint="nothing changed; run it again with a longer timeout, SHOW PROCEDURES tells what runs",
    )
