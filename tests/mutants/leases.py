"""Breaks of the lease itself: the holder, the guard, the grantor, the barrier, the drift of clocks."""

from tests.mutants.model import Edit, Mutant

LEASE = "core/lease.py"
GRANTOR = "core/grantor.py"
BARRIER = "core/barrier.py"
SCENARIOS = "tests/scenarios/test_lease.py"
SHORTCUTS = "tests/scenarios/test_lease_shortcuts.py"
LEADERS = "tests/scenarios/test_lease_leaders.py"
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
            Edit(LEASE, "return self._on_grant(grant)", "return self._on_grant(grant, now_ns)"),
            Edit(LEASE, "def _on_grant(self, grant: Grant)", "def _on_grant(self, grant: Grant, now_ns: int)"),
            Edit(LEASE, "stamp_ns + grant.duration_ns", "now_ns + grant.duration_ns"),
        ),
        hunters=(f"{SCENARIOS}::test_L1_invisible_grant", f"{SCENARIOS}::test_L2_check_then_set_at_the_holder"),
    ),
    Mutant(
        name="grants of older leaders taken",
        invariant="INV-LEASE-1",
        rule="a holder's terms and sequences only rise",
        edits=(
            Edit(
                LEASE,
                "if (grant.term, grant.sequence) <= (self._lease.term, self._lease.sequence) or grant.term <",
                "if False and grant.term <",
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
                LEASE,
                "                self._lease = NO_LEASE\n                return (PublishLease(lease=NO_LEASE),)\n",
                "                return (SendSurrender(surrender=self._surrender()),)\n",
            ),
            Edit(
                LEASE,
                '                assert self._stopping, "drained before the surrender was asked for"\n'
                f"                surrender = {SURRENDER}\n"
                "                return (SendSurrender(surrender=surrender),)\n",
                "                return (PublishLease(lease=NO_LEASE),)\n",
            ),
            Edit(
                LEASE,
                "    def _renew(self, now_ns: int)",
                f"    def _surrender(self):\n        return {SURRENDER}\n\n    def _renew(self, now_ns: int)",
            ),
        ),
        hunters=(
            "tests/unit/core/test_lease.py",
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
            Edit(
                LEASE,
                "    lease = published.lease\n    instant_ns = now_ns()\n",
                "    view = published.view\n    lease = published.lease\n    instant_ns = now_ns()\n",
            ),
            Edit(LEASE, "        return None\n    view = published.view\n", "        return None\n"),
        ),
        hunters=(f"{SCENARIOS}::test_L6_pause_between_check_and_use",),
        unseen=AT_ONCE,
    ),
    Mutant(
        name="guard by a flag",
        invariant="INV-SERVE-1",
        rule="the guard compares the deadline with the clock",
        edits=(Edit(LEASE, "if instant_ns >= lease.deadline_ns:", "if lease is NO_LEASE:"),),
        hunters=(f"{SCENARIOS}::test_L13_the_flag_instead_of_the_clock",),
    ),
    Mutant(
        name="guard that never looks back",
        invariant="INV-BARRIER-1",
        rule="the guard looks again whether the lease was given back meanwhile",
        edits=(Edit(LEASE, "if published.lease is NO_LEASE:", "if lease is NO_LEASE:"),),
        hunters=(f"{LEADERS}::test_L9_a_surrender_waits_until_all_is_drained",),
        unseen=AT_ONCE,
    ),
    # ------------------------------------------------------------ the grantor
    Mutant(
        name="no floor",
        invariant="INV-LEASE-2",
        rule="no grant to a holder behind the floor",
        fact="no floor",
        edits=(Edit(GRANTOR, "if renewal.applied < self._floor:", "if False:"),),
        hunters=(
            f"{SCENARIOS}::test_L5_heartbeat_fine_broadcast_stuck",
            f"{LEADERS}::test_L9_restart_during_a_ddl",
        ),
    ),
    Mutant(
        name="a barrier that doesn't raise the floor",
        invariant="INV-LEASE-2",
        rule="a barrier raises the floor in the step in which it freezes the bounds",
        edits=(
            Edit(
                GRANTOR,
                "not in self._barriers\n        self._floor = max(self._floor, event.revision)\n",
                "not in self._barriers\n",
            ),
        ),
        hunters=(f"{SCENARIOS}::test_L5_heartbeat_fine_broadcast_stuck",),
    ),
    Mutant(
        name="first grant before it has caught up",
        invariant="INV-REC-3",
        rule="a node gets its first lease once it has applied what the leader requires",
        edits=(
            Edit(
                GRANTOR,
                "if renewal.applied < held.required:",
                "if False:",
            ),
        ),
        hunters=(
            "tests/unit/core/test_grantor.py::test_a_member_gets_a_grant_once_it_has_applied_what_was_required_of_it",
        ),
        unseen="a node renews when it shows what was required: hardly ever in between",
    ),
    Mutant(
        name="a lease for one that is not in the logical topology",
        invariant="INV-REC-3",
        rule="only a member of the logical topology gets a lease",
        edits=(
            Edit(
                GRANTOR,
                "        if held.required is None:\n"
                '            return "RECOVERING", f"incarnation {renewal.incarnation} is not in the logical topology"\n'
                "        if renewal.applied < held.required:",
                "        if held.required is not None and renewal.applied < held.required:",
            ),
        ),
        hunters=(
            "tests/unit/core/test_grantor.py::test_a_node_that_is_no_member_gets_no_grant_whatever_it_has_applied",
        ),
    ),
    Mutant(
        name="a new leader that doesn't wait",
        invariant="INV-LEASE-3",
        rule="a new leader counts every registered node as granted at its election",
        fact="a new leader that doesn't wait",
        edits=(
            Edit(
                GRANTOR,
                "bound_ns = now_ns + grant_bound_ns(settings, max(largest_outstanding_ns, settings.lease_duration_ns))",
                "bound_ns = now_ns",
            ),
        ),
        hunters=(f"{LEADERS}::test_L8_new_leader_no_history",),
    ),
    Mutant(
        name="longer leases forgotten by a new leader",
        invariant="INV-LEASE-3",
        rule="a new leader counts the largest outstanding duration, not the one that is set",
        edits=(Edit(GRANTOR, "max(largest_outstanding_ns, settings.lease_duration_ns)", "settings.lease_duration_ns"),),
        hunters=(f"{LEADERS}::test_L10_the_lease_duration_was_changed",),
    ),
    Mutant(
        name="a grant that is not noted",
        invariant="INV-LEASE-1",
        rule="the bound is noted before the grant is answered",
        edits=(Edit(GRANTOR, "bound_ns=max(held.bound_ns, bound_ns))", "bound_ns=held.bound_ns)"),),
        hunters=("tests/unit/core/test_grantor.py",),
    ),
    Mutant(
        name="a leader past its own deadline",
        invariant="INV-LEASE-3",
        rule="a leader grants and proceeds only inside its own leadership deadline",
        edits=(Edit(GRANTOR, "return self._leads_until_ns is None or now_ns < self._leads_until_ns", "return True"),),
        hunters=(f"{LEADERS}::test_L4_the_old_leader",),
    ),
    Mutant(
        name="an old incarnation heard",
        invariant="INV-ID-2",
        rule="only the newest incarnation and its session are heard",
        fact="an old incarnation heard",
        edits=(
            Edit(GRANTOR, "if renewal.incarnation < held.incarnation:", "if False:"),
            Edit(GRANTOR, "if self._hash_session(renewal.session) != held.session_hash:", "if False:"),
        ),
        hunters=(
            f"{LEADERS}::test_L9_join_waits_for_the_older_incarnation",
            "tests/unit/core/test_grantor.py",
        ),
        unseen="the session of an older process has ended, or breaks, before a newer one has joined",
    ),
    Mutant(
        name="a closed incarnation granted again",
        invariant="INV-LEASE-1",
        rule="nothing is granted to a closed incarnation",
        edits=(
            Edit(
                GRANTOR,
                "        if held.closed is not None:\n            return",
                "        if False:\n            return",
            ),
        ),
        hunters=("tests/unit/core/test_grantor.py",),
    ),
    Mutant(
        name="an old or doubled surrender heard",
        invariant="INV-ID-2",
        rule="a surrender counts for its own incarnation and session alone",
        fact="an old or doubled surrender heard",
        edits=(
            Edit(GRANTOR, "if held is None or surrender.incarnation != held.incarnation:", "if held is None:"),
            Edit(GRANTOR, "if self._hash_session(surrender.session) != held.session_hash:", "if False:"),
        ),
        hunters=("tests/unit/core/test_grantor.py",),
        unseen="a session carries nothing twice, and what is left of one ends with it",
    ),
    Mutant(
        name="acks kept across a join",
        invariant="INV-BARRIER-1",
        rule="a join clears what an older incarnation has reported",
        fact="acks kept across a join",
        edits=(
            Edit(
                GRANTOR,
                "            bound_ns=now_ns,\n            applied=None,\n",
                "            bound_ns=now_ns,\n            applied=None if held is None else held.applied,\n",
            ),
        ),
        hunters=(f"{LEADERS}::test_L9_what_an_older_incarnation_reported_does_not_count",),
        unseen="a barrier opens in the instant after its revision is written: a join hardly ever comes between",
    ),
    Mutant(
        name="a leadership that ends is not noticed",
        invariant="INV-LEASE-3",
        rule="a leader that hands over grants nothing from then on",
        edits=(
            Edit("coordinator/leader.py", "        self._leasing.step(LeadershipEnded())\n", ""),
            Edit("coordinator/runtime.py", "                    self._end_answers()\n", ""),
        ),
        hunters=(f"{SHORTCUTS}::test_a_leader_that_has_handed_over_grants_nothing_while_its_process_lives_on",),
    ),
    Mutant(
        name="a longer lease for whoever has not heard of it",
        invariant="INV-DDL-1",
        rule="settings raise the floor to their revision in the step from which they are granted",
        edits=(
            Edit(
                GRANTOR,
                "        self._floor = max(self._floor, event.revision)\n        longest_ns",
                "        longest_ns",
            ),
        ),
        hunters=("tests/unit/core/test_grantor.py", "tests/sim/test_settings.py"),
    ),
    Mutant(
        name="a published bound that forgets longer leases",
        invariant="INV-DDL-1",
        rule="the published bound counts the leases that are out, not only those that are given now",
        edits=(Edit(GRANTOR, "return max(longest_ns, self._older_until_ns - now_ns)", "return longest_ns"),),
        hunters=("tests/sim/test_settings.py::test_the_published_bound_follows_the_leases_that_are_out",),
    ),
    # ------------------------------------------------------------ the barrier
    Mutant(
        name="a barrier that waits for nobody",
        invariant="INV-BARRIER-1",
        rule="a silent node is settled when its frozen bound passes, and not before",
        edits=(
            Edit(
                BARRIER,
                "while (first := self._first()) is not None and now_ns >= first.bound_ns:",
                "while (first := self._first()) is not None:",
            ),
        ),
        hunters=("tests/unit/core/test_barrier.py", f"{LEADERS}::test_L8_new_leader_no_history"),
    ),
    Mutant(
        name="any report settles",
        invariant="INV-BARRIER-1",
        rule="a node is settled by a report of the barrier's revision or a later one",
        edits=(Edit(BARRIER, " and applied >= self._revision:", ":"),),
        hunters=("tests/unit/core/test_barrier.py::test_reports_that_settle_nobody",),
    ),
    # ------------------------------------------------------------ clocks
    Mutant(
        name="no drift factor",
        invariant="INV-LEASE-1",
        rule="every bound allows for the fastest clock against the slowest",
        fact="no drift factor",
        edits=(
            Edit(
                "core/drift.py",
                "return -(-span_ns * (MILLION + drift_ppm) // (MILLION - drift_ppm))",
                "return span_ns",
            ),
        ),
        hunters=(f"{SCENARIOS}::test_L7_clocks",),
    ),
)
