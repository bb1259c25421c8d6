"""Breaks of the run of a statement: its second transaction, how it ends, what is told of it."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

STEPS = "tests/unit/core/ddl/test_plans_steps.py"
RUNNING = "tests/unit/coordinator/statements/test_procedures.py"
CANCEL = "tests/unit/coordinator/statements/test_cancel.py"
CASCADE = "tests/unit/coordinator/statements/test_cascade.py"
ASKED = "tests/scenarios/test_admission.py"
WAITED = (
    "tests/unit/coordinator/statements/test_waits_in_sequence.py"
    "::test_a_receipt_tells_what_the_statement_waited_for_before_its_time_counts"
)
SEQUENCE = (
    "tests/sim/test_waits_in_sequence.py"
    "::test_what_adds_up_where_machines_die_one_after_the_other_is_told_in_the_receipt"
)
PROCEEDED = """
from leasehold.core.words.records import BarrierReceipt
self._barrier = BarrierReceipt(revision=self._revision, term=1, sequence=0, settled=())
""".strip()
"""A run takes its barrier for proceeded."""

MUTANTS = (
    Mutant(
        name="a rollback that restores nothing",
        invariant="INV-VIEW-1",
        rule="what a statement had hidden is back once it is rolled back",
        edits=(Edit("roll_back", "*restored(standing.hides, catalog)", ""),),
        hunters=(f"{STEPS}::test_what_is_rolled_back_is_as_it_was",),
    ),
    Mutant(
        name="a rollback past the point of no return",
        invariant="INV-DROP-1",
        rule="past the point of no return nothing is rolled back",
        edits=(
            Edit("roll_back", "standing.step is not Step.PRE_STATE", "False"),
            Edit("roll_back", "*restored(standing.hides, catalog)", ""),
        ),
        hunters=(f"{STEPS}::test_past_the_point_of_no_return_nothing_is_rolled_back",),
        unseen="CANCEL and the timeout each look for themselves: this is the second lock on that door",
    ),
    Mutant(
        name="a statement cancelled past its point of no return",
        invariant="INV-VIEW-1",
        rule="what is committed is not cancelled",
        edits=(
            Edit("procedure_to_cancel", "procedure.step is not Step.PRE_STATE", "False"),
            Edit("roll_back", "standing.step is not Step.PRE_STATE", "False"),
        ),
        hunters=(
            f"{CANCEL}::test_what_is_committed_can_not_be_cancelled",
            f"{STEPS}::test_past_the_point_of_no_return_nothing_is_rolled_back",
        ),
    ),
    Mutant(
        name="a timeout told before it is durable",
        invariant="INV-DDL-1",
        rule="a rollback or a pending end is durable before its client hears of it: the next leader can't know of it",
        edits=(
            Edit(
                "StatementRun._on_barrier",
                "return self._give_up(self._procedure, verdict.pending, now_ns)",
                "import msgspec\n"
                "from leasehold.core.words.records import Outcome\n"
                "(effect,) = self._give_up(self._procedure, verdict.pending, now_ns)\n"
                "outcome = Outcome.ROLLED_BACK if isinstance(effect, effects.RollBack) else Outcome.COMMITTED_PENDING\n"
                "revision = None if isinstance(effect, effects.RollBack) else self._revision\n"
                "record = msgspec.structs.replace(\n"
                "    catalog.statements[self._id],\n"
                "    outcome=outcome,\n"
                "    revision=revision,\n"
                "    elapsed_ns=effect.elapsed_ns,\n"
                "    pending=effect.pending,\n"
                ")\n"
                "return (effects.Answer(end=receipt(record, catalog)), effect)",
            ),
            Edit("LiveStatement.tell", "self.answer.set_result(end)", "if not self.answer.done(): ..."),
        ),
        hunters=(f"{RUNNING}::test_a_destructive_statement_whose_timeout_comes_first_is_rolled_back",),
    ),
    Mutant(
        name="a pending statement that a later leader finishes",
        invariant="INV-DDL-1",
        rule="a statement that was answered COMMITTED_PENDING stays so: its procedure ends with that answer",
        edits=(
            Edit(
                "leave_pending", "_end(ended, procedure, forget)", "(put(keys.statement(procedure.statement), ended),)"
            ),
        ),
        hunters=(f"{STEPS}::test_an_additive_statement_is_not_rolled_back_but_left_pending",),
    ),
    Mutant(
        name="a rollback told while nodes hide its object",
        invariant="INV-DDL-1",
        rule="a client hears ROLLED_BACK once no node hides what the statement had hidden",
        edits=(
            Edit(
                "RunEffects._await_barrier",
                "await asyncio.wait((barrier.verdict,)); return events.BarrierEnded(verdict=barrier.verdict.result())",
                "return events.BarrierEnded(verdict=None)",
            ),
        ),
        hunters=(f"{RUNNING}::test_a_rollback_is_told_and_followed_once_no_node_hides_its_object",),
    ),
    Mutant(
        name="a DROP that goes through after its timeout",
        invariant="INV-DROP-1",
        rule="a destructive statement whose timeout comes before the end of its barrier is rolled back",
        edits=(
            Edit(
                "StatementRun._give_up",
                "self._state = RunState.ROLLING_BACK\n"
                "return (effects.RollBack(procedure=procedure, elapsed_ns=elapsed_ns, pending=pending),)",
                f"{PROCEEDED}\nself._state = RunState.CROSSING\nreturn (effects.CrossPoint(procedure=procedure),)",
            ),
        ),
        hunters=(f"{RUNNING}::test_a_destructive_statement_whose_timeout_comes_first_is_rolled_back",),
    ),
    Mutant(
        name="a cancelled statement told as committed",
        invariant="INV-DDL-1",
        rule="a run whose statement CANCEL has rolled back ends so as well",
        edits=(
            Edit(
                "StatementRun.step",
                "return self._restore(catalog.revision)",
                f"{PROCEEDED}\nreturn self._close(catalog, now_ns)",
            ),
        ),
        hunters=(f"{CANCEL}::test_cancel_rolls_a_statement_back_and_both_hear_of_it",),
    ),
    Mutant(
        name="another revision under each leader",
        invariant="INV-DDL-1",
        rule="the receipt of a statement has the revision of its first transaction, whichever leader ends it",
        edits=(Edit("StatementRun._on_revision", "event.revision, event.bound_ns", "self._elected, event.bound_ns"),),
        hunters=("tests/unit/coordinator/statements/test_procedure_steps.py",),
    ),
    Mutant(
        name="an error after the first transaction told as a refusal",
        invariant="INV-DDL-1",
        rule="once a procedure is durable no answer says that nothing happened",
        edits=(Edit("StatementRun._fail", "self._procedure is None", "True"),),
        hunters=(f"{CASCADE}::test_what_could_not_go_on_is_cancelled",),
        unseen="in a random cluster a statement that has begun meets no error but the end of its leader",
    ),
    Mutant(
        name="a CASCADE that does not wait for what it takes along",
        invariant="INV-DDL-1",
        rule="what a CASCADE takes along is settled before it is hidden, as what the statement names",
        edits=(Edit("decide_first_transaction", "last_change(begun.procedure.claims) > undecided.settled", "False"),),
        hunters=(f"{CASCADE}::test_what_goes_with_cascade_and_was_changed_a_moment_ago_is_settled_first",),
    ),
    # ------------------------------------------------------------ what is told of it
    Mutant(
        name="an outcome forgotten while it is asked for",
        invariant="INV-DDL-1",
        rule="the outcome of a statement is kept for longer than its client asks for it, however many others end",
        edits=(Edit("Ended._old", "now_ns < ended_ns + STATEMENT_REMEMBERED_NS", "False"),),
        hunters=(
            "tests/unit/core/ddl/test_outcomes.py::test_R12_what_ended_lately_is_kept_however_many_end",
            f"{ASKED}::test_R12_a_statement_that_is_asked_again_while_many_others_end_is_not_run_twice",
        ),
        unseen="as many statements as are kept do not end within a run",
    ),
    Mutant(
        name="run again while it waits for its turn",
        invariant="INV-DDL-1",
        rule="a statement that is asked again by its id is the one that waits already",
        edits=(Edit("Procedures.origin", "if running is not None: ...", ""),),
        hunters=(f"{RUNNING}::test_R12_a_statement_that_is_asked_again_while_it_waits_for_its_turn_happens_once",),
    ),
    Mutant(
        name="a wait in the queue that no receipt tells",
        invariant="INV-DDL-1",
        rule="what a statement waited for before its bound counts is in its receipt",
        edits=(Edit("StatementRun._on_turn", "self._waited = Waited(queued_ns=now_ns - self._since_ns)", ""),),
        hunters=(WAITED, SEQUENCE),
        unseen="no invariant of the cluster looks at what is shown",
    ),
    Mutant(
        name="a wait for the last change that no receipt tells",
        invariant="INV-DDL-1",
        rule="what a statement waited for before its bound counts is in its receipt",
        edits=(Edit("StatementRun._on_settled", "if verdict is not None and not event.at_once: ...", ""),),
        hunters=(WAITED, SEQUENCE),
        unseen="no invariant of the cluster looks at what is shown",
    ),
)
