"""Breaks of leadership and of what a leader writes: terms, elections, the writer, statements, settings."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

SHORTCUTS = "tests/scenarios/test_lease_shortcuts.py"
QUEUE = "tests/unit/coordinator/test_writer_deadline.py"
FAULTS = "tests/sim/test_cluster_faults.py"
STATEMENT_CALLS = "tests/unit/core/data/test_statement_calls.py"


def _without_a_barrier(step: str) -> tuple[Edit, ...]:
    """Statements go on at once where the step of their procedure `step`."""
    wait = "await asyncio.wait((barrier.verdict, running.taken_back), return_when=asyncio.FIRST_COMPLETED)"
    proceeds = f"""
from leasehold.core.lease.barrier import Proceed
from leasehold.core.words.records import BarrierReceipt, Step
procedure = self._writer.catalog.procedures.get(running.run.number)
if running.run.state == "awaiting barrier" and procedure is not None and procedure.step {step}:
    receipt = BarrierReceipt(revision=effect.revision, term=1, sequence=0, settled=())
    return events.BarrierEnded(verdict=Proceed(receipt=receipt))
...
"""
    return (Edit("RunEffects._await_barrier", wait, proceeds),)


MUTANTS = (
    # ------------------------------------------------------------ leadership
    Mutant(
        name="leadership without drift and margin",
        invariant="INV-LEASE-3",
        rule="a challenger outlasts the reign on the fastest clock against the slowest, plus a margin",
        fact="leadership deadline without drift",
        edits=(
            Edit(
                "Challenger.due_ns",
                "outlast_ns(standing.record.duration_ns, self._timing.drift_ppm) + self._timing.margin_ns",
                "standing.record.duration_ns",
            ),
        ),
        hunters=("tests/unit/core/log/test_leadership.py", "tests/sim/test_leaders.py"),
    ),
    Mutant(
        name="a beat counts from its answer",
        invariant="INV-LEASE-3",
        rule="a reign lasts from when its last successful beat was sent",
        edits=(
            Edit(
                "Reign.beaten",
                "self._sent.first_ns + standing.record.duration_ns",
                "now_ns + standing.record.duration_ns",
            ),
        ),
        hunters=("tests/unit/core/log/test_leadership.py",),
    ),
    Mutant(
        name="LM read before winning",
        invariant="INV-LEASE-2",
        rule="the catalog that a leader starts from is read after it has won",
        fact="LM read before winning",
        edits=(
            Edit(
                "Coordinator._caught_up",
                "catalog = await follower.reached((await self._storage.status()).latest)",
                "catalog = await follower.reached(0)",
            ),
        ),
        hunters=(f"{SHORTCUTS}::test_what_a_new_leader_starts_from_is_read_after_it_has_won",),
    ),
    Mutant(
        name="a follower that answers unconfirmed",
        invariant="INV-READ-2",
        rule="a follower answers as of a revision that was read from the store after the request came",
        edits=(Edit("Follower._confirmed", "await self._storage.confirm()", "0"),),
        hunters=("tests/sim/test_followers.py",),
    ),
    Mutant(
        name="a leader that answers beside its own append",
        invariant="INV-READ-2",
        rule="a leader answers a client once it knows how its append under way ended: followers may show it already",
        edits=(Edit("Writer.settled", "await self._known.wait()", "return"),),
        hunters=("tests/sim/test_followers.py",),
    ),
    Mutant(
        name="a leader's transaction without its term",
        invariant="INV-REC-1",
        rule="every transaction of a leader compares its term, and the lineage that it was decided on",
        fact="a leader's transaction without its term",
        edits=(Edit("coordinator.Writer._commit", "compares=(*self._leadership.fence(), previous)", "compares=()"),),
        hunters=("tests/unit/coordinator/test_writer.py::test_a_leader_that_was_overtaken_writes_nothing_and_says_so",),
    ),
    Mutant(
        name="leadership checked before the queue",
        invariant="INV-DDL-1",
        rule="a leader reads the clock after it has taken a request from its queue",
        fact="leadership checked before the request is taken from the queue",
        edits=(Edit("Writer._write", "ends_ns is not None and self._now_ns() >= ends_ns", "False"),),
        hunters=(f"{QUEUE}::test_the_clock_is_read_after_a_command_is_taken_from_the_queue",),
    ),
    Mutant(
        name="an old leader answers",
        invariant="INV-DDL-1",
        rule="a leader answers only inside its own leadership deadline",
        edits=(Edit("Coordinator._leading", "ends_ns is not None and self._clock.now_ns() >= ends_ns", "False"),),
        hunters=(
            "tests/sim/test_leaders.py::test_a_leader_that_was_paused_past_its_end_answers_nothing_and_stands_by",
        ),
    ),
    # ------------------------------------------------------------ statements
    Mutant(
        name="a statement without an answer told as not done",
        invariant="INV-DDL-1",
        rule="what may have been taken is unknown: a client says that nothing happened only if no coordinator took it",
        edits=(
            Edit(
                "coordinator_client.Deadline.failed",
                "self.may_be_taken = self.may_be_taken or not isinstance(error, Unreachable) or error.was_sent",
                "pass",
            ),
        ),
        hunters=(
            f"{STATEMENT_CALLS}::test_a_statement_that_was_never_sent_is_definite_and_one_that_was_is_unknown",
            "tests/sim/test_leader_ends.py",
        ),
    ),
    Mutant(
        name="a silence that is forgotten",
        invariant="INV-DDL-1",
        rule="a request may have been taken by a coordinator that was silent, whatever that coordinator says later",
        edits=(Edit("CoordinatorClient.unless_silent", "deadline.failed(error)", "pass"),),
        hunters=("tests/unit/core/data/test_coordinator_client.py",),
        unseen="no seed of those tried came to it",
    ),
    Mutant(
        name="an earlier call forgotten",
        invariant="INV-DDL-1",
        rule="a statement that an earlier call may have sent is unknown while no coordinator tells its outcome",
        edits=(Edit("CoordinatorClient.until_answered", "deadline.may_be_taken = may_be_taken", ""),),
        hunters=(f"{STATEMENT_CALLS}::test_a_statement_that_an_earlier_call_may_have_sent_stays_unknown",),
        unseen="each statement of a simulated client is one call",
    ),
    Mutant(
        name="a statement returned before its barrier",
        invariant="INV-SERVE-1",
        rule="a statement returns once no older view can be served",
        edits=_without_a_barrier("is not Step.PRE_STATE"),
        hunters=("tests/sim/test_cluster.py::test_a_statement_settles_by_reports_when_every_node_is_up",),
    ),
    Mutant(
        name="the point of no return before the barrier",
        invariant="INV-DROP-1",
        rule="the point of no return follows the barrier of its pre-state",
        edits=_without_a_barrier("is Step.PRE_STATE"),
        hunters=("tests/sim/test_cluster.py::test_a_paused_node_serves_nothing_old_when_it_goes_on",),
    ),
    Mutant(
        name="a drop without its pre-state",
        invariant="INV-DROP-1",
        rule="what is taken away is hidden first, by the procedure that takes it away",
        edits=(
            Edit(
                "drop_table",
                "return dropping(catalog, views=views, tables=(table,))",
                "going = dropping(catalog, views=views, tables=(table,))\n"
                "gone = remove_table(HiddenTable(table=table.id), catalog.changed(going.changes))\n"
                "return Plan(changes=gone, counters=going.counters)",
            ),
        ),
        hunters=("tests/unit/coordinator/statements/test_procedures.py",),
    ),
    Mutant(
        name="PROCEED kept only in memory",
        invariant="INV-DROP-1",
        rule="a procedure that is resumed waits for a barrier of its own leader",
        fact="PROCEED kept only in memory",
        edits=(
            Edit(
                "RunEffects._await_barrier",
                "barrier = running.barrier = self._leasing.ask(effect.revision, give_up_ns=effect.give_up_ns)",
                "from leasehold.core.words.records import BarrierReceipt\n"
                "if running.run.state == 'catching up':\n"
                "    self._leasing._newest = BarrierReceipt(revision=effect.revision, term=1, sequence=0, settled=())\n"
                "...",
            ),
        ),
        hunters=(f"{SHORTCUTS}::test_that_an_earlier_leader_may_have_proceeded_is_no_reason_to_go_on",),
    ),
    Mutant(
        name="a rollback that nobody waits for",
        invariant="INV-DDL-1",
        rule="after a rollback the next statement on the object waits until no node hides it any more",
        edits=(
            Edit("StatementRun._restore", "effects.TouchObjects(claims=self._claims, revision=revision)", ""),
            Edit("StatementRun.step", "effects.TouchObjects(claims=self._claims, revision=revision)", ""),
            Edit("Procedures.cancel", "self._turns.touch(claimed, revision)", ""),
        ),
        hunters=(
            "tests/unit/coordinator/statements/test_procedures.py",
            "tests/unit/coordinator/statements/test_cancel.py",
            "tests/unit/coordinator/statements/test_cascade.py",
        ),
    ),
    Mutant(
        name="a statement that nobody resumes",
        invariant="INV-DDL-1",
        rule="a new leader resumes what it finds exactly where it stands",
        edits=(Edit("Leader.start", "self._procedures.resume()", ""),),
        hunters=(
            "tests/sim/test_cluster.py::test_a_coordinator_that_restarts_resumes_a_statement_and_tells_its_outcome",
        ),
    ),
    Mutant(
        name="an outcome forgotten",
        invariant="INV-DDL-1",
        rule="the outcome of a statement is kept when its procedure goes",
        edits=(Edit("ddl._end", "put(keys.statement(record.id), record)", "Change(keys.statement(record.id), None)"),),
        hunters=("tests/unit/core/ddl/test_ddl_steps.py", "tests/sim/test_cluster.py"),
    ),
    Mutant(
        name="a statement run twice",
        invariant="INV-DDL-1",
        rule="a statement that is asked for again by its id is not run again",
        edits=(
            Edit("Procedures.origin", "if running is not None: ...", ""),
            Edit(
                "Procedures.origin",
                "self._unrecorded.origin(statement) if record is None else Origin.of(record)",
                "None",
            ),
        ),
        hunters=(f"{FAULTS}::test_a_refusal_stays_one_when_a_late_copy_of_the_request_could_be_carried_out",),
    ),
    Mutant(
        name="a late copy run under a later term",
        invariant="INV-DDL-1",
        rule="a statement that is new to a leader was sent to the leader of its term",
        edits=(Edit("ddl.origin.check_term", "asked is not None and asked != term", "False"),),
        hunters=("tests/sim/test_late_copies.py::test_a_copy_that_comes_late_changes_nothing",),
    ),
    # ------------------------------------------------------------ settings
    Mutant(
        name="a longer lease that is not noted first",
        invariant="INV-LEASE-3",
        rule="the largest duration is raised in the transaction that sets it, before the first longer grant",
        edits=(Edit("settings_changes", "after.lease_duration_ns > catalog.largest_lease.duration_ns", "False"),),
        hunters=("tests/sim/test_settings.py::test_l10_a_leader_that_never_heard_of_a_longer_lease_waits_it_out",),
    ),
    Mutant(
        name="the largest lease lowered too early",
        invariant="INV-LEASE-3",
        rule="the largest duration is lowered after the last longer lease has ended",
        edits=(
            Edit("Leasing.lower_largest_lease.decide", "self._clock.now_ns() < self.grantor.older_until_ns", "False"),
        ),
        hunters=(
            "tests/sim/test_settings.py::test_the_largest_lease_is_lowered_only_after_the_last_longer_lease_has_ended",
        ),
    ),
)
