"""Breaks of the lease itself: the holder, the guard, the grantor, the barrier, the drift of clocks."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

SCENARIOS = "tests/scenarios/test_lease.py"
SHORTCUTS = "tests/scenarios/test_lease_shortcuts.py"
LEADERS = "tests/scenarios/test_lease_leaders.py"
ENDS = "tests/scenarios/test_reported_ends.py"
OLDER_END = "test_a_late_report_of_the_process_before_leaves_the_one_that_lives_alone"
SURRENDER = "Surrender(node=self._node, incarnation=self._incarnation, session=self._session)"
AT_ONCE = "a simulated guard runs in one instant: only the lease world takes its readings apart"

MUTANTS = (
    # ------------------------------------------------------------ the holder
    Mutant(
        name="deadline from the receive time",
        invariant="INV-LEASE-1",
        rule="the deadline counts from the instant at which the renewal was stamped",
        fact="deadline from the receive time",
        edits=(
            Edit("Holder.step", "self._on_grant(grant)", "self._on_grant(grant, now_ns)"),
            Edit(
                "Holder._on_grant",
                "def _on_grant(self, grant: Grant) -> tuple[HolderEffect, ...]: ...",
                "def _on_grant(self, grant: Grant, now_ns: int) -> tuple[HolderEffect, ...]: ...",
            ),
            Edit("Holder._on_grant", "stamp_ns + grant.duration_ns", "now_ns + grant.duration_ns"),
        ),
        hunters=(f"{SCENARIOS}::test_L1_invisible_grant", f"{SCENARIOS}::test_L2_check_then_set_at_the_holder"),
    ),
    Mutant(
        name="grants of older leaders taken",
        invariant="INV-LEASE-1",
        rule="a holder's terms and sequences only rise",
        edits=(
            Edit(
                "Holder._on_grant",
                "(grant.term, grant.sequence) <= (self._lease.term, self._lease.sequence) or grant.term < self._term",
                "False",
            ),
        ),
        hunters=(f"{SCENARIOS}::test_L11_a_grant_of_an_older_term_comes_after_one_of_a_newer",),
        unseen="a second lock: a newer leader waits out whatever an older one has granted",
    ),
    Mutant(
        name="surrender sent before it stops serving",
        invariant="INV-LEASE-1",
        rule="a surrender is sent after the lease was taken back and all was drained",
        edits=(
            Edit(
                "Holder.step",
                "self._lease = NO_LEASE; return (PublishLease(lease=NO_LEASE),)",
                f"return (SendSurrender(surrender={SURRENDER}),)",
            ),
            Edit(
                "Holder.step",
                'assert self._stopping, "drained before the surrender was asked for"\n'
                f"surrender = {SURRENDER}\n"
                "return (SendSurrender(surrender=surrender),)",
                "return (PublishLease(lease=NO_LEASE),)",
            ),
        ),
        hunters=(
            "tests/unit/core/lease/test_holder.py",
            f"{LEADERS}::test_L9_a_surrender_waits_until_all_is_drained",
        ),
        unseen="an agent takes both steps in one instant, and the simulated data plane serves in none between them",
    ),
    # ------------------------------------------------------------ the guard
    Mutant(
        name="view read before the clock",
        invariant="INV-BARRIER-1",
        rule="the guard reads the deadline, then the clock, then the view",
        fact="view read before the clock",
        edits=(
            Edit("guard", "view = published.view", ""),
            Edit("guard", "lease = published.lease", "view = published.view; ..."),
        ),
        hunters=(f"{SCENARIOS}::test_L6_pause_between_check_and_use",),
        unseen=AT_ONCE,
    ),
    Mutant(
        name="guard by a flag",
        invariant="INV-SERVE-1",
        rule="the guard compares the deadline with the clock",
        edits=(Edit("guard", "instant_ns >= lease.deadline_ns", "lease is NO_LEASE"),),
        hunters=(f"{SCENARIOS}::test_L13_the_flag_instead_of_the_clock",),
    ),
    Mutant(
        name="guard that never looks back",
        invariant="INV-BARRIER-1",
        rule="the guard looks again whether the lease was given back meanwhile",
        edits=(Edit("guard", "published.lease is NO_LEASE", "lease is NO_LEASE"),),
        hunters=(f"{LEADERS}::test_L9_a_surrender_waits_until_all_is_drained",),
        unseen=AT_ONCE,
    ),
    # ------------------------------------------------------------ the grantor
    Mutant(
        name="no floor",
        invariant="INV-LEASE-2",
        rule="no grant to a holder behind the floor",
        fact="no floor",
        edits=(Edit("Grantor._not_yet", "renewal.applied < self._floor", "False"),),
        hunters=(
            f"{SCENARIOS}::test_L5_heartbeat_fine_broadcast_stuck",
            f"{LEADERS}::test_L9_restart_during_a_ddl",
        ),
    ),
    Mutant(
        name="a barrier that doesn't raise the floor",
        invariant="INV-LEASE-2",
        rule="a barrier raises the floor in the step in which it freezes the bounds",
        edits=(Edit("Grantor._on_barrier", "self._floor = max(self._floor, event.revision)", ""),),
        hunters=(f"{SCENARIOS}::test_L5_heartbeat_fine_broadcast_stuck",),
    ),
    Mutant(
        name="first grant before it has caught up",
        invariant="INV-REC-3",
        rule="a node gets its first lease once it has applied what the leader requires",
        edits=(Edit("Grantor._not_yet", "renewal.applied < held.required", "False"),),
        hunters=(
            "tests/unit/core/lease/test_grantor.py::test_a_member_gets_a_grant_once_it_has_applied_what_was_required_of_it",
        ),
        unseen="a node renews when it shows what was required: hardly ever in between",
    ),
    Mutant(
        name="a lease for one that is not in the logical topology",
        invariant="INV-REC-3",
        rule="only a member of the logical topology gets a lease",
        edits=(
            Edit("Grantor._not_yet", "if held.required is None: ...", ""),
            Edit("Grantor._not_yet", "renewal.applied < held.required", "held.required is not None and ..."),
        ),
        hunters=(
            "tests/unit/core/lease/test_grantor.py::test_a_node_that_is_no_member_gets_no_grant_whatever_it_has_applied",
        ),
    ),
    Mutant(
        name="a new leader that doesn't wait",
        invariant="INV-LEASE-3",
        rule="a new leader counts every registered node as granted at its election",
        fact="a new leader that doesn't wait",
        edits=(
            Edit(
                "Grantor.__init__",
                "now_ns + grant_bound_ns(settings, max(largest_outstanding_ns, settings.lease_duration_ns))",
                "now_ns",
            ),
        ),
        hunters=(f"{LEADERS}::test_L8_new_leader_no_history",),
    ),
    Mutant(
        name="longer leases forgotten by a new leader",
        invariant="INV-LEASE-3",
        rule="a new leader counts the largest outstanding duration, not the one that is set",
        edits=(
            Edit(
                "Grantor.__init__",
                "max(largest_outstanding_ns, settings.lease_duration_ns)",
                "settings.lease_duration_ns",
            ),
        ),
        hunters=(f"{LEADERS}::test_L10_the_lease_duration_was_changed",),
    ),
    Mutant(
        name="a grant that is not noted",
        invariant="INV-LEASE-1",
        rule="the bound is noted before the grant is answered",
        edits=(Edit("Grantor._on_renewal", "max(held.bound_ns, bound_ns)", "held.bound_ns"),),
        hunters=("tests/unit/core/lease/test_grantor.py",),
    ),
    Mutant(
        name="a leader past its own deadline",
        invariant="INV-LEASE-3",
        rule="a leader grants and proceeds only inside its own leadership deadline",
        edits=(Edit("Grantor._leads", "self._leads_until_ns is None or now_ns < self._leads_until_ns", "True"),),
        hunters=(f"{LEADERS}::test_L4_the_old_leader",),
    ),
    Mutant(
        name="an old incarnation heard",
        invariant="INV-ID-2",
        rule="only the newest incarnation and its session are heard",
        fact="an old incarnation heard",
        edits=(
            Edit("Grantor._refusal", "renewal.incarnation < held.incarnation", "False"),
            Edit("Grantor._refusal", "self._hash_session(renewal.session) != held.session_hash", "False"),
        ),
        hunters=(
            f"{LEADERS}::test_L9_join_waits_for_the_older_incarnation",
            "tests/unit/core/lease/test_grantor.py",
        ),
        unseen="the session of an older process has ended, or breaks, before a newer one has joined",
    ),
    Mutant(
        name="a closed incarnation granted again",
        invariant="INV-LEASE-1",
        rule="nothing is granted to a closed incarnation",
        edits=(Edit("Grantor._refusal", "held.closed is not None", "False"),),
        hunters=("tests/unit/core/lease/test_grantor.py",),
    ),
    Mutant(
        name="an old or doubled surrender heard",
        invariant="INV-ID-2",
        rule="a surrender counts for its own incarnation and session alone",
        fact="an old or doubled surrender heard",
        edits=(
            Edit("Grantor._on_surrender", "surrender.incarnation != held.incarnation", "False"),
            Edit("Grantor._on_surrender", "self._hash_session(surrender.session) != held.session_hash", "False"),
        ),
        hunters=("tests/unit/core/lease/test_grantor.py",),
        unseen="a session carries nothing twice, and what is left of one ends with it",
    ),
    Mutant(
        name="a report of an older process's end heard",
        invariant="INV-ID-2",
        rule="the report of an end counts for its own incarnation and process alone",
        edits=(
            Edit("Grantor._on_end_reported", "report.incarnation != held.incarnation", "False"),
            Edit("Grantor._on_end_reported", "not proves_end(report.proof, held.end_hash)", "False"),
            Edit("Sessions.process_ended", "report.incarnation < node.incarnation", "False"),
        ),
        hunters=("tests/unit/core/lease/test_grantor.py", f"{ENDS}::{OLDER_END}"),
    ),
    Mutant(
        name="a report of an end believed without its proof",
        invariant="INV-ID-2",
        rule="the report of an end has to prove that it is of this very process",
        edits=(Edit("Grantor._on_end_reported", "not proves_end(report.proof, held.end_hash)", "False"),),
        hunters=("tests/unit/core/lease/test_grantor.py", ENDS),
        unseen="no simulated supervisor reports what is not so",
    ),
    Mutant(
        name="an end reported before all of the process is gone",
        invariant="INV-BARRIER-1",
        rule="a supervisor reports the end of a process once every thread of it is gone",
        edits=(
            Edit("Child.run", "self._pidfd in ready", "True"),
            Edit("Child.run", "os.waitpid(self._pid, 0)", "os.waitpid(self._pid, os.WNOHANG)"),
        ),
        hunters=("tests/unit/cli/test_supervisor.py::test_nothing_is_reported_while_a_thread_of_the_child_runs",),
        unseen="the simulator has no kernel: it sends what a supervisor sends, once the process has ended",
    ),
    Mutant(
        name="acks kept across a join",
        invariant="INV-BARRIER-1",
        rule="a join clears what an older incarnation has reported",
        fact="acks kept across a join",
        edits=(Edit("Grantor._on_joined", "applied=None", "applied=None if held is None else held.applied"),),
        hunters=(f"{LEADERS}::test_L9_what_an_older_incarnation_reported_does_not_count",),
        unseen="a barrier opens in the instant after its revision is written: a join hardly ever comes between",
    ),
    Mutant(
        name="a leadership that ends is not noticed",
        invariant="INV-LEASE-3",
        rule="a leader that hands over grants nothing from then on",
        edits=(
            Edit("Leader.stop", "self._leasing.step(LeadershipEnded())", ""),
            Edit("Coordinator._lead", "self._answering.end()", ""),
        ),
        hunters=(f"{SHORTCUTS}::test_a_leader_that_has_handed_over_grants_nothing_while_its_process_lives_on",),
    ),
    Mutant(
        name="a longer lease for whoever has not heard of it",
        invariant="INV-DDL-1",
        rule="settings raise the floor to their revision in the step from which they are granted",
        edits=(Edit("Grantor._on_settings", "self._floor = max(self._floor, event.revision)", ""),),
        hunters=("tests/unit/core/lease/test_grantor.py", "tests/sim/test_settings.py"),
    ),
    Mutant(
        name="a published bound that forgets longer leases",
        invariant="INV-DDL-1",
        rule="the published bound counts the leases that are out, not only those that are given now",
        edits=(Edit("Grantor.longest_wait_ns", "max(longest_ns, self._older_until_ns - now_ns)", "longest_ns"),),
        hunters=("tests/sim/test_settings.py::test_the_published_bound_follows_the_leases_that_are_out",),
    ),
    # ------------------------------------------------------------ the barrier
    Mutant(
        name="a barrier that waits for nobody",
        invariant="INV-BARRIER-1",
        rule="a silent node is settled when its frozen bound passes, and not before",
        edits=(Edit("Barrier.ended", "now_ns >= first.bound_ns", "True"),),
        hunters=("tests/unit/core/lease/test_barrier.py", f"{LEADERS}::test_L8_new_leader_no_history"),
    ),
    Mutant(
        name="any report settles",
        invariant="INV-BARRIER-1",
        rule="a node is settled by a report of the barrier's revision or a later one",
        edits=(Edit("Barrier.reported", "applied >= self._revision", "True"),),
        hunters=("tests/unit/core/lease/test_barrier.py::test_reports_that_settle_nobody",),
    ),
    # ------------------------------------------------------------ clocks
    Mutant(
        name="no drift factor",
        invariant="INV-LEASE-1",
        rule="every bound allows for the fastest clock against the slowest",
        fact="no drift factor",
        edits=(Edit("outlast_ns", "-(-span_ns * (MILLION + drift_ppm) // (MILLION - drift_ppm))", "span_ns"),),
        hunters=(f"{SCENARIOS}::test_L7_clocks",),
    ),
)
