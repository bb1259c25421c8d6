"""A small world of leaders that run one statement, and die at any effect of it.

What is durable is a `Ground`: a catalog that transactions are decided on. All else dies with its leader. The client
asks again by the statement's id until it has an answer, and so does whoever cancels.
"""

from enum import Enum

import msgspec

from leasehold.core import ddl
from leasehold.core.ddl.claims import claims
from leasehold.core.ddl.decision import Begins, decide_first_transaction
from leasehold.core.ddl.effects import (
    Answer,
    AwaitBarrier,
    Awaited,
    AwaitTurn,
    CommitDecision,
    CrossPoint,
    FindRevision,
    LeavePending,
    PrepareContext,
    QueueReceipt,
    RollBack,
    SettleObjects,
)
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
    StatementAsked,
    TakenBack,
    TurnReached,
)
from leasehold.core.ddl.origin import Origin
from leasehold.core.ddl.receipts import receipt
from leasehold.core.ddl.run import StatementRun
from leasehold.core.lease.barrier import Fail, Proceed
from leasehold.core.words import keys
from leasehold.core.words.records import BarrierReceipt, Outcome
from leasehold.errors import Refused
from leasehold.ids import Term
from tests.unit.core.ddl.lives import BOUND_NS, CONTEXT, ID, ORIGIN

EFFECTS_MAX = 200


class Cut(Enum):
    """What goes wrong at an effect."""

    BEFORE = "the leader dies before it is done"
    AFTER = "the leader dies once it is done"
    TWICE = "it is done twice"


class LeaderDied(Exception):
    """All that it knew is lost."""


class World:
    """`cuts`: what goes wrong, by the number of the effect, counted over all leaders. CANCEL comes before the effect
    `cancel_at`. While `is_silent`, no node is heard of before a timeout."""

    def __init__(self, base, statement, *, timeout_ns=None, is_silent=False, cuts=None, cancel_at=None):
        self.base = base
        self.statement = statement
        self.timeout_ns = timeout_ns
        self.is_silent = is_silent
        self.cuts = cuts or {}
        self.cancel_at = cancel_at
        self.now_ns = 1_000
        self.term = 0
        self.effects = 0
        self.told = []
        self.is_cancelled = False

    @property
    def catalog(self):
        return self.base.catalog

    @property
    def record(self):
        return self.catalog.statements.get(ID)

    def live(self):
        """One leader after the other, until the statement has ended and its client knows how."""
        while not self.told or self.catalog.procedures:
            self.term += 1
            assert self.term < 10
            try:
                Leader(self).lead()
            except LeaderDied:
                continue
        return self

    def commit(self, decide):
        """One transaction, decided on what is durable; nothing is written where nothing changes."""
        changes = decide(self.catalog)
        if changes:
            self.base.commit(changes)
        return self.catalog.revision

    def revision_of(self, key):
        """When it was written last."""
        return max(batch.revision for batch in self.base.batches if any(one.key == key for one in batch.changes))


class Leader:
    """One term: takes up what it finds, or what the client asks for again."""

    def __init__(self, world):
        self.world = world
        self.elected = world.catalog.revision
        self.is_taken_back = False
        self.closing = None

    def lead(self):
        world = self.world
        record = world.record
        if record is not None and record.outcome is not Outcome.RUNNING:
            self.tell(receipt(record, world.catalog))
            return
        if record is not None:
            procedure = world.catalog.procedures[record.order]
            run = StatementRun(ID, Origin.of(record), term=Term(world.term), give_up_ns=None)
            event = ProcedureFound(procedure=procedure, elected=self.elected)
        else:
            give_up_ns = None if world.timeout_ns is None else world.now_ns + world.timeout_ns
            run = StatementRun(ID, ORIGIN, term=Term(world.term), give_up_ns=give_up_ns)
            event = StatementAsked(statement=world.statement, claims=claims(world.statement))
        while event is not None:
            world.now_ns += 1
            event = self.carry_out(run.step(event, world.catalog, world.now_ns), run)
        if self.closing is not None:
            self.do(self.close)

    def carry_out(self, effects, run):
        for effect in effects[:-1]:
            assert not isinstance(effect, Awaited), "at most the last one is awaited"
        event = None
        for effect in effects:
            event = self.do(lambda one=effect: self.outcome(one, run))
        return event

    def do(self, work):
        """Does one thing, unless this is where something goes wrong."""
        world = self.world
        number = world.effects
        world.effects += 1
        assert number < EFFECTS_MAX
        if number == world.cancel_at:
            self.cancel()
        cut = world.cuts.get(number)
        if cut is Cut.BEFORE:
            raise LeaderDied
        done = work()
        if cut is Cut.TWICE:
            done = work() or done
        if cut is Cut.AFTER:
            raise LeaderDied
        return done

    def outcome(self, effect, run):
        try:
            return self.event_of(effect, run)
        except Refused as error:
            return EffectFailed(error=error)

    def event_of(self, effect, run):
        world = self.world
        match effect:
            case Answer(end=end):
                self.tell(end)
            case AwaitTurn():
                return TurnReached(at_once=True)
            case SettleObjects():
                return ObjectsSettled(revision=self.elected, verdict=None, at_once=True)
            case PrepareContext():
                return ContextPrepared(context=CONTEXT)
            case CommitDecision(undecided=undecided):
                if ID in world.catalog.statements:
                    return self.decided  # a writer may decide twice, and writes once
                return self.decide(undecided)
            case FindRevision(procedure=procedure):
                return RevisionFound(revision=world.revision_of(keys.statement(procedure.statement)), bound_ns=BOUND_NS)
            case AwaitBarrier():
                return self.barrier(effect)
            case CrossPoint(procedure=procedure):
                return PointCrossed(revision=world.commit(lambda catalog: ddl.finish(procedure, catalog)))
            case RollBack(procedure=procedure, elapsed_ns=elapsed_ns, pending=pending):
                return RolledBack(
                    revision=world.commit(
                        lambda catalog: ddl.roll_back(procedure, catalog, elapsed_ns=elapsed_ns, pending=pending)
                    )
                )
            case LeavePending():
                world.commit(lambda catalog: ddl.leave_pending(catalog=catalog, **msgspec.structs.asdict(effect)))
                return LeftPending()
            case QueueReceipt():
                self.closing = effect
                return ReceiptQueued()
        return None

    def decide(self, undecided):
        world = self.world
        decision = decide_first_transaction(
            undecided, world.catalog, world.now_ns, bound_ns=BOUND_NS, last_change=lambda _: self.elected
        )
        assert isinstance(decision, Begins)
        self.decided = Decided(decision=decision, revision=world.commit(lambda _: decision.changes))
        return self.decided

    def barrier(self, effect):
        if effect.or_taken_back and self.is_taken_back:
            return TakenBack()
        proved = BarrierReceipt(revision=effect.revision, term=Term(self.world.term), sequence=0, settled=())
        if effect.give_up_ns is not None and self.world.is_silent:
            self.world.now_ns = max(self.world.now_ns, effect.give_up_ns)
            return BarrierEnded(verdict=Fail(pending=(2,)))
        return BarrierEnded(verdict=Proceed(receipt=proved))

    def cancel(self):
        """CANCEL PROCEDURE: refused where it is too early or too late."""
        world = self.world
        number = 1 if world.record is None else world.record.order

        def decide(catalog):
            procedure = ddl.procedure_to_cancel(number, catalog)
            return () if procedure is None else ddl.roll_back(procedure, catalog, elapsed_ns=1, pending=(3,))

        try:
            world.commit(decide)
        except Refused as error:
            assert error.code in {"PAST_RETURN", "NO_PROCEDURE"}
            return
        world.is_cancelled = self.is_taken_back = True

    def tell(self, end):
        """The client hears of it, unless this is where its leader dies; all that it ever hears is kept."""
        durable = self.world.record
        assert not isinstance(end, Exception), end
        assert durable is not None
        if end.outcome is Outcome.COMMITTED:
            procedure = self.world.catalog.procedures.get(durable.order)
            assert durable.outcome is Outcome.COMMITTED or (procedure is not None and procedure.step != "PRE_STATE")
        else:
            assert durable.outcome is end.outcome, "it is durable before it is told"
        self.world.told.append(end)

    def close(self):
        one = self.closing
        self.world.commit(
            lambda catalog: ddl.close(
                one.procedure, catalog, barrier=one.barrier, elapsed_ns=one.elapsed_ns, bound_ns=one.bound_ns
            )
        )
