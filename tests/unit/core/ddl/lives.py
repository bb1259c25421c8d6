"""Words that the tests of a statement's run share: a run over a catalog, driven step by step to a state."""

from leasehold.core import ddl
from leasehold.core.catalog.plan import Context
from leasehold.core.ddl.claims import claims
from leasehold.core.ddl.decision import Begins, decide_first_transaction
from leasehold.core.ddl.effects import CommitDecision
from leasehold.core.ddl.events import (
    BarrierEnded,
    ContextPrepared,
    Decided,
    ObjectsSettled,
    PointCrossed,
    ProcedureFound,
    ReceiptQueued,
    RevisionFound,
    RolledBack,
    StatementAsked,
    TurnReached,
)
from leasehold.core.ddl.origin import Origin, hash_text
from leasehold.core.ddl.run import StatementRun
from leasehold.core.ddl.states import RunState
from leasehold.core.lease.barrier import Fail, Proceed
from leasehold.core.words.records import BarrierReceipt, SettledHow, SettledNode
from leasehold.ids import Revision, Term
from tests.unit.core.catalog_words import add, drop_table, hex_128
from tests.unit.core.ddl_words import BOTH, ground

ID = hex_128(999)
TEXT = "the text"
ORIGIN = Origin(user=None, login=None, text=TEXT, text_sha256=hash_text(TEXT))
CONTEXT = Context(serving=(1, 2, 3))
TERM = Term(3)
BOUND_NS = 4_000
BEGAN_NS = 1_000
STEP_NS = 10
"""How much later each step is than the one before."""
LAST_CHANGE = Revision(2)
ADD = add("c")
DROP = drop_table()


def barrier(revision, *nodes):
    settled = tuple(SettledNode(node=one, how=SettledHow.APPLIED, after_ns=5) for one in nodes)
    return BarrierReceipt(revision=revision, term=TERM, sequence=7, settled=settled)


def proceeded(revision, *nodes):
    return Proceed(receipt=barrier(revision, *nodes))


def timed_out(revision, *pending):
    return Fail(pending=pending)


class Life:
    """A run of `statement` on a cluster with a table; `base` is what is durable."""

    def __init__(self, statement=ADD, *, give_up_ns=None):
        self.base = ground(*BOTH)
        self.statement = statement
        self.run = StatementRun(ID, ORIGIN, term=TERM, give_up_ns=give_up_ns)
        self.now_ns = BEGAN_NS
        self.effects = ()
        self.procedure = None
        self.revision = Revision(0)
        """Of its first transaction."""

    @property
    def catalog(self):
        return self.base.catalog

    @property
    def record(self):
        return self.catalog.statements[ID]

    @property
    def claims(self):
        return claims(self.statement)

    def step(self, event):
        self.now_ns += STEP_NS
        self.effects = self.run.step(event, self.catalog, self.now_ns)
        return self.effects

    # ------------------------------------------------------------ to a state

    def queued(self):
        self.step(StatementAsked(statement=self.statement, claims=self.claims))
        return self

    def settling(self):
        self.queued().step(TurnReached(at_once=True))
        return self

    def preparing(self):
        self.settling().step(ObjectsSettled(revision=LAST_CHANGE, verdict=None, at_once=True))
        return self

    def deciding(self):
        self.preparing().step(ContextPrepared(context=CONTEXT))
        return self

    def decision(self, last_change=LAST_CHANGE):
        """What it is decided to be now."""
        (effect,) = self.effects
        assert isinstance(effect, CommitDecision)
        return decide_first_transaction(
            effect.undecided, self.catalog, self.now_ns, bound_ns=BOUND_NS, last_change=lambda _: Revision(last_change)
        )

    def begun(self):
        """Its first transaction is durable; what the run has not heard of yet."""
        decision = self.decision()
        assert isinstance(decision, Begins)
        self.procedure = decision.procedure
        self.revision = self.base.commit(decision.changes).revision
        return Decided(decision=decision, revision=self.revision)

    def awaiting(self):
        self.deciding().step(self.begun())
        return self

    def crossing(self):
        self.awaiting().step(BarrierEnded(verdict=proceeded(self.revision, 1, 2, 3)))
        return self

    def crossed(self):
        """Its second transaction is durable."""
        return PointCrossed(revision=self.base.commit(ddl.finish(self.procedure, self.catalog)).revision)

    def rolled_back(self, *pending):
        """Its rollback is durable."""
        changes = ddl.roll_back(self.procedure, self.catalog, elapsed_ns=30, pending=pending)
        return RolledBack(revision=self.base.commit(changes).revision)

    def given_up(self, *pending):
        self.awaiting().step(BarrierEnded(verdict=timed_out(self.revision, *pending)))
        return self

    def restoring(self):
        self.given_up(2).step(self.rolled_back(2))
        return self

    def found(self):
        """It was begun by an earlier leader; what the run of the next one begins with."""
        self.awaiting()
        self.run = StatementRun(ID, ORIGIN, term=Term(TERM + 1), give_up_ns=None)
        return ProcedureFound(procedure=self.procedure, elected=self.catalog.revision)

    def found_queued(self):
        self.step(self.found())
        return self

    def locating(self):
        self.found_queued().step(TurnReached(at_once=True))
        return self

    def catching_up(self):
        self.locating().step(RevisionFound(revision=self.revision, bound_ns=BOUND_NS))
        return self

    def closing(self):
        self.awaiting().step(BarrierEnded(verdict=proceeded(self.revision, 1, 2, 3)))
        return self


def everything(run):
    """All that a run knows."""
    return dict(vars(run))


def in_state(state):
    """A life whose run is in this state."""
    made = {
        RunState.NEW: Life,
        RunState.QUEUED: lambda: Life().queued(),
        RunState.SETTLING: lambda: Life().settling(),
        RunState.PREPARING: lambda: Life().preparing(),
        RunState.DECIDING: lambda: Life().deciding(),
        RunState.LOCATING: lambda: Life().locating(),
        RunState.CATCHING_UP: lambda: Life().catching_up(),
        RunState.AWAITING_BARRIER: lambda: Life().awaiting(),
        RunState.CROSSING: lambda: Life(DROP).crossing(),
        RunState.ROLLING_BACK: lambda: Life(DROP, give_up_ns=9_000).given_up(2),
        RunState.LEAVING_PENDING: lambda: Life(give_up_ns=9_000).given_up(2),
        RunState.RESTORING: lambda: Life(DROP, give_up_ns=9_000).restoring(),
        RunState.CLOSING: lambda: Life().closing(),
        RunState.ENDED: ended,
    }[state]()
    assert made.run.state is state
    return made


def ended():
    life = Life().closing()
    life.step(ReceiptQueued())
    return life
