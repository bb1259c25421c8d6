"""Breaks of the replicated log: what an append compares, when it is known, whose transactions it takes."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

FAULTS = "tests/scenarios/test_replicated_log.py"
REPLICAS = "tests/scenarios/test_replicas_of_a_log.py"
GENERATION = "tests/unit/coordinator/test_generation_in_log.py"
ETCD_CLIENT = "tests/unit/metastorage/etcd/test_etcd_client.py"
DECLINED = "tests/unit/coordinator/test_declined.py"
LEADERS = "tests/sim/test_leaders.py"
LEADERSHIP = "tests/unit/core/log/test_leadership.py"

MUTANTS = (
    Mutant(
        name="no term in the append",
        invariant="INV-LOG-3",
        rule="an append happens only in the term in which it was decided",
        edits=(Edit("Log.append", "if fence is not None: ...", ""),),
        hunters=(f"{FAULTS}::test_a_late_append_changes_nothing_once_another_term_has_begun",),
    ),
    Mutant(
        name="no head in the append",
        invariant="INV-LOG-2",
        rule="an append happens only at the head on which it was decided",
        edits=(Edit("Log.append", "{HEAD: after.version, entry_key(entry.number): MISSING}", "{}"),),
        hunters=(f"{FAULTS}::test_an_append_without_an_answer_happens_once_and_is_answered_with_its_revision",),
    ),
    Mutant(
        name="a stale head believed after the election",
        invariant="INV-READ-1",
        rule="an answer that is older than one before it, also that of a write, is asked for elsewhere",
        edits=(Edit("SeenRevision.take", "0 < revision < asked_at", "False"),),
        hunters=(
            f"{ETCD_CLIENT}::test_what_was_read_before_a_write_of_ours_is_not_believed_after_it",
            "tests/conformance/test_log_store.py",
        ),
    ),
    Mutant(
        name="a read of a release that reads stale, without a write before it",
        invariant="INV-READ-1",
        rule="where reads may be old, a client first sees the revision of a write of its own",
        edits=(Edit("EtcdClient._try", "isinstance(request, RangeRequest) and can_read_stale(release)", "False"),),
        hunters=(f"{ETCD_CLIENT}::test_a_release_that_reads_stale_writes_before_it_reads",),
        unseen="the client of the simulated store writes before it reads by itself",
    ),
    Mutant(
        name="an answer before the append is known",
        invariant="INV-LOG-2",
        rule="a transaction is answered once its append is known to have happened",
        edits=(Edit("append_surely", "append.unanswered()", "return AppendOutcome(True, None)"),),
        hunters=(f"{FAULTS}::test_an_append_without_an_answer_happens_once_and_is_answered_with_its_revision",),
    ),
    Mutant(
        name="a retry under a new id",
        invariant="INV-LOG-2",
        rule="an append without an answer is sent again under its own id, and decided anew only if it never happens",
        edits=(Edit("append_surely", "append.unanswered()", "return AppendOutcome(False, None)"),),
        hunters=(f"{FAULTS}::test_an_append_without_an_answer_happens_once_and_is_answered_with_its_revision",),
    ),
    Mutant(
        name="a beat counted from its second sending",
        invariant="INV-LEASE-3",
        rule="any try of a beat may be the one that happened: its time counts from the first",
        edits=(Edit("Reign.next_beat", "if self._sent is None: ...", "if True: ..."),),
        hunters=(f"{FAULTS}::test_a_beat_without_an_answer_counts_from_its_first_sending", LEADERSHIP),
        unseen="the answers have to be cut off for longer than a challenger's margin, and come back before the end",
    ),
    Mutant(
        name="an old leader that resumes",
        invariant="INV-LOG-3",
        rule="a leader's transaction is decided only while its own term is the newest",
        edits=(Edit("_holds", "return compare.term == term", "return True"),),
        hunters=(f"{FAULTS}::test_a_transaction_of_a_leader_that_resumes_under_a_later_term_is_not_done",),
        unseen="a second lock: each of its transactions compares the lineage too",
    ),
    Mutant(
        name="an entry applied that does not follow",
        invariant="INV-LOG-1",
        rule="a replica applies an entry only if it names the chain of all that the replica has applied",
        edits=(
            Edit("entry.follow", "entry.number != position.number + 1 or entry.before != position.chain", "False"),
            Edit("entry.follow", "(entry.revision, entry.log_bytes) != (revision, log_bytes)", "False"),
        ),
        hunters=(f"{REPLICAS}::test_a_coordinator_that_knows_more_than_the_store_refuses_and_keeps_its_replica",),
        unseen="a simulated log never goes another way",
    ),
    Mutant(
        name="a replica that knows more is built anew once the log is trimmed",
        invariant="INV-LOG-2",
        rule="a replica beyond where the history in the store left its own is kept, and its coordinator refused",
        edits=(
            Edit("Followed.check_within", "left is None or self.position.revision > left.revision", "left is None"),
        ),
        hunters=(f"{GENERATION}::test_the_log_goes_on_in_a_new_generation_and_those_within_it_follow",),
        unseen="a simulated log is never set back",
    ),
    Mutant(
        name="a store that was set back is followed",
        invariant="INV-LOG-2",
        rule="a coordinator that knows more than the store refuses, and keeps its replica",
        edits=(Edit("check_reached", "not await shared.went_through(position)", "False"),),
        hunters=(f"{REPLICAS}::test_a_coordinator_that_knows_more_than_the_store_refuses_and_keeps_its_replica",),
        unseen="a simulated log is never set back",
    ),
    Mutant(
        name="a leader that steps aside while its nodes wait",
        invariant="INV-DDL-1",
        rule="a leader gives nodes as long as they have to wait for the end of older leases",
        edits=(
            Edit(
                "Coordinator._while_heard",
                "max(settings.lease_duration_ns, largest.duration_ns)",
                "settings.lease_duration_ns",
            ),
        ),
        hunters=(f"{LEADERS}::test_a_leader_does_not_step_aside_while_its_nodes_wait_for_the_end_of_longer_leases",),
        unseen="all nodes have to be gone at once, soon after leases were made shorter",
    ),
    Mutant(
        name="a leader that nobody reaches leads on",
        invariant="INV-DDL-1",
        rule="a leader to which nobody speaks lets others go first",
        edits=(Edit("Isolation.due_ns", "2**self._steps_aside", "10**9"),),
        hunters=(f"{LEADERS}::test_a_leader_that_nobody_reaches_steps_aside_for_one_that_is_reached",),
        unseen="random faults seldom cut a leader off from everybody but the store for long enough",
    ),
    Mutant(
        name="a coordinator that serves ends when its store denies it",
        invariant="INV-DDL-1",
        rule="what a store declines makes a coordinator that serves stand by until it is let in again",
        edits=(Edit("ReplicatedMetaStorage.open", "shared.store.stand_by()", "pass"),),
        hunters=(f"{DECLINED}::test_a_coordinator_that_serves_stands_by_until_it_is_let_in_again",),
        unseen="a simulated store denies nobody",
    ),
)
