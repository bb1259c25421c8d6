"""Breaks of recovery, of the logical topology and of what is kept of the history."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

RECOVERY = "tests/sim/test_recovery.py"
TOPOLOGY = "tests/sim/test_topology.py"
NODES = "tests/scenarios/test_recovery.py"
LEAPS = "tests/scenarios/test_leaps.py"
SNAPSHOTS = "tests/scenarios/test_snapshots.py"
COMPACTIONS = "tests/scenarios/test_compactions.py"
ADMISSION = "tests/scenarios/test_admission.py"
GONE = "tests/scenarios/test_nodes_gone.py"
RECOVERED = "tests/scenarios/test_recovered.py"
TERMS = "tests/scenarios/test_bad_terms.py"
LEAPING = "tests/unit/node/agent/test_agent_leaps.py"
REPORTS = "tests/unit/node/agent/test_agent_reports.py"

MUTANTS = (
    Mutant(
        name="a lease before what was required",
        invariant="INV-REC-3",
        rule="a member is granted a lease once it has applied what was required of it when it entered",
        edits=(Edit("Grantor._not_yet", "renewal.applied < held.required", "False"),),
        hunters=(
            f"{ADMISSION}::test_R4_a_node_that_is_nearly_there_gets_its_lease_only_with_the_revision_that_let_it_in",
            f"{NODES}::test_R4_a_node_that_is_let_in_many_revisions_behind_serves_nothing_before_it_has_them",
        ),
        unseen="a node of a random cluster has what is required before its next renewal: few revisions are made there",
    ),
    Mutant(
        name="a lease before recovery is finished",
        invariant="INV-REC-3",
        rule="only a member of the logical topology is granted a lease",
        edits=(
            Edit("Grantor._not_yet", "held.required is None", "False"),
            Edit("Grantor._not_yet", "renewal.applied < held.required", "held.required is not None and ..."),
        ),
        hunters=(
            f"{ADMISSION}::test_R4_a_node_that_is_nearly_there_gets_its_lease_only_with_the_revision_that_let_it_in",
            "tests/unit/core/lease/test_grantor.py",
        ),
    ),
    Mutant(
        name="a member that left goes on with its leases",
        invariant="INV-REC-3",
        rule="a node that leaves the logical topology gets no more lease, even if the write has no known outcome",
        edits=(
            Edit(
                "Topology._leave.decide",
                "self._leasing.step(MemberLeft(node=node.id, incarnation=node.incarnation))",
                "",
            ),
        ),
        hunters=(
            f"{GONE}::test_R14_who_leaves_is_granted_nothing_any_more_even_if_that_can_not_be_written",
            f"{GONE}::test_R14_a_node_that_was_cut_off_loses_its_place_and_gets_it_back_only_by_recovering",
        ),
    ),
    Mutant(
        name="a node that is connected taken out of the topology",
        invariant="INV-REC-3",
        rule="a member leaves when its lease has ended and no session of it has been open for the grace time (R15)",
        edits=(
            Edit(
                "has_to_leave",
                "if absent_since_ns is None or now_ns < held.bound_ns: ...",
                "if now_ns < held.bound_ns: ...\nabsent_since_ns = absent_since_ns or 0",
            ),
        ),
        hunters=(f"{GONE}::test_R15_a_node_that_is_connected_stays_however_long_it_is_fenced",),
        unseen="the node comes back by itself: nothing is wrong but that it had to",
    ),
    Mutant(
        name="compaction without regard to holds",
        invariant="INV-REC-3",
        rule="what follows a snapshot is held for the node that takes it (R3; liveness)",
        edits=(Edit("Retention.allowed", "min([oldest, *(one.revision for one in self._holds.values())])", "oldest"),),
        hunters=(f"{COMPACTIONS}::test_R3_what_follows_a_snapshot_is_held_until_the_next_session_has_delivered_it",),
        unseen="in a random cluster the history is compacted by others too, who know of no holds",
    ),
    Mutant(
        name="holds of an older leader forgotten",
        invariant="INV-REC-3",
        rule="a new leader lets nothing be forgotten before holds that it does not know of have ended (R3; liveness)",
        edits=(Edit("Retention.allowed", "now_ns < self._nothing_until_ns", "False"),),
        hunters=(f"{COMPACTIONS}::test_R3_a_new_leader_keeps_what_the_old_one_held",),
        unseen="in a random cluster the history is compacted by others too, who know of no holds",
    ),
    Mutant(
        name="a leap without deletes",
        invariant="INV-REC-2",
        rule="a leap deletes what the snapshot lacks (R2)",
        edits=(
            Edit(
                "Projection._carry_out",
                "held.leaping(end.revision, end.lineage, changes)",
                "held.leaping(end.revision, end.lineage, tuple(one for one in changes if one.value))",
            ),
        ),
        hunters=(f"{NODES}::test_R2_what_was_deleted_while_a_node_was_away_is_deleted_by_its_leap",),
    ),
    Mutant(
        name="a leap of the file without deletes",
        invariant="INV-REC-1",
        rule="the vault deletes what a snapshot lacks, in the transaction of the leap (R2)",
        edits=(
            Edit(
                "replace",
                '"DELETE FROM projection WHERE key IN (SELECT key FROM staged WHERE value IS NULL)"',
                '"DELETE FROM projection WHERE FALSE"',
            ),
        ),
        hunters=("tests/conformance/test_vault_leap.py",),
        unseen="a simulated vault lies in memory",
    ),
    Mutant(
        name="a snapshot believed uncounted",
        invariant="INV-REC-2",
        rule="a leap is made of exactly the items that were sent: the digest is compared",
        edits=(Edit("Staged.check_leap", "digest_bytes(self.digest) != digest", "False"),),
        hunters=(
            "tests/conformance/test_vault_leap.py",
            f"{LEAPING}::test_a_snapshot_that_is_not_whole_is_taken_again",
        ),
        unseen="no simulated network loses part of a message",
    ),
    Mutant(
        name="pages that go on behind the wrong key",
        invariant="INV-REC-2",
        rule="the next page begins behind the last key (R11)",
        edits=(Edit("range_at", "page.next_start", 'page.next_start and page.next_start[:-1] + b"0"'),),
        hunters=(f"{SNAPSHOTS}::test_R11_pages_go_on_behind_the_last_key_and_skip_none_that_begins_with_it",),
        unseen="all that a random cluster holds is one page",
    ),
    Mutant(
        name="pages of several revisions",
        invariant="INV-REC-2",
        rule="all pages of a snapshot are of one revision, while writes go on",
        edits=(Edit("_part_at", "revision=at", ""),),
        hunters=(f"{SNAPSHOTS}::test_a_snapshot_is_all_of_the_watched_range_at_one_revision_while_writes_go_on",),
        unseen="all that a random cluster holds is one page",
    ),
    Mutant(
        name="a leap shown before the vault has made it",
        invariant="INV-REC-1",
        rule="the vault leaps first, then the view and what follows it",
        edits=(
            Edit(
                "Projection._carry_out",
                "changes = await self._vault.leap(end.revision, end.lineage, end.digest)",
                "self.durable = held.leaping(end.revision, end.lineage, ()) if end.revision > held.revision else held\n"
                "self._published.publish(self.durable)\n"
                "...",
            ),
        ),
        hunters=(f"{RECOVERY}::test_a_leap_ends_in_the_state_that_replay_gives",),
    ),
    Mutant(
        name="a node that ends because it recovers",
        invariant="INV-ID-2",
        rule="a refusal of a node that recovers is no end: it goes on, and asks again",
        edits=(Edit("agent.FINAL", "ErrorCode.SUPERSEDED", "*(ErrorCode.RECOVERING, ErrorCode.SUPERSEDED)"),),
        hunters=(f"{TOPOLOGY}::test_a_node_that_is_cut_off_for_long_leaves_and_enters_again_without_a_join",),
    ),
    Mutant(
        name="a history that nobody knows believed",
        invariant="INV-REC-2",
        rule="a node whose hash can't be compared any more takes a snapshot",
        edits=(Edit("case.decide", "not history_known and applied > 0", "False"),),
        hunters=(
            "tests/unit/core/recovery/test_case.py",
            f"{REPORTS}::test_a_directory_with_an_unknown_history_is_believed_once_it_was_verified",
        ),
        unseen="in a random cluster every directory has the history of its cluster",
    ),
    Mutant(
        name="a lost history believed",
        invariant="INV-REC-2",
        rule="a directory that went beyond what a recovered cluster keeps is refused",
        edits=(Edit("is_beyond", "applied > end.revision", "False"),),
        hunters=(
            "tests/unit/core/membership/test_generations.py",
            f"{RECOVERED}::test_R6_nodes_within_the_backup_come_back_and_nodes_beyond_it_once_they_are_adopted",
        ),
        unseen="no random cluster loses its meta storage",
    ),
    Mutant(
        name="a lost lease forgotten",
        invariant="INV-DDL-1",
        rule="leases that were granted after the backup are waited for",
        edits=(Edit("raised", "longest_lease_ns", ""),),
        hunters=(
            f"{RECOVERED}::test_R6_no_statement_returns_while_a_lease_of_the_lost_state_may_serve",
            "tests/unit/core/membership/test_generations.py",
        ),
        unseen="no random cluster loses its meta storage",
    ),
    Mutant(
        name="strangers forgotten",
        invariant="INV-SERVE-1",
        rule="leases of nodes that the backup does not know are waited for too",
        edits=(Edit("Grantor._on_barrier", "now_ns < self._strangers_until_ns", "False"),),
        hunters=(
            f"{RECOVERED}::test_R6_a_node_that_the_backup_does_not_know_is_waited_for_and_told_though_it_runs_on",
        ),
        unseen="no random cluster loses its meta storage",
    ),
    Mutant(
        name="a process of a lost history heard",
        invariant="INV-ID-2",
        rule="a process that has run through a recovery, and can't follow it, is told to end",
        edits=(
            Edit(
                "check_speaker",
                "isinstance(speaker, OpenSession) and _left_behind(speaker, catalog.cluster, node)",
                "False",
            ),
        ),
        hunters=(
            f"{RECOVERED}::test_R6_a_node_that_the_backup_does_not_know_is_waited_for_and_told_though_it_runs_on",
        ),
        unseen="no random cluster loses its meta storage",
    ),
    Mutant(
        name="incarnations given out again",
        invariant="INV-ID-2",
        rule="what was numbered since the backup is never given out again",
        edits=(Edit("_closed", "node.incarnation + jump", "node.incarnation"),),
        hunters=("tests/unit/core/membership/test_generations.py",),
        unseen="no random cluster loses its meta storage",
    ),
    Mutant(
        name="a term of a lost history led again",
        invariant="INV-LEASE-3",
        rule="the term of a restored backup jumps, also if it is the newest state",
        edits=(Edit("restored_leader", "raised_leader(record, before, Generation(wall_s)).term", "record.term"),),
        hunters=("tests/unit/core/membership/test_generations.py",),
        unseen="no random cluster loses its meta storage",
    ),
    Mutant(
        name="a term that is not known counted from the last jump",
        invariant="INV-LEASE-3",
        rule="a state without its leader record goes on in a term above all that can have been given out",
        edits=(
            Edit(
                "restored_leader",
                "raised_leader(record, before, Generation(wall_s)).term if record.term else _term_above_all(wall_s)",
                "raised_leader(record, before, Generation(wall_s)).term",
            ),
        ),
        hunters=("tests/unit/core/membership/test_generations.py",),
        unseen="no random cluster loses its meta storage",
    ),
    Mutant(
        name="the last revision of a vault replayed",
        invariant="INV-REC-2",
        rule="a state that does not say what its revision has changed is restored as of the next revision",
        edits=(Edit("coordinator.recover", "taken.source.kind is not SourceKind.NODE", "True"),),
        hunters=("tests/unit/coordinator/test_sources.py",),
        unseen="no random cluster loses its meta storage",
    ),
    Mutant(
        name="the first of several places taken",
        invariant="INV-REC-2",
        rule="a cluster goes on from the newest place that is whole",
        edits=(Edit("newest", "max(states, key=age)", "first"),),
        hunters=("tests/unit/core/recovery/test_sources.py",),
        unseen="no random cluster loses its meta storage",
    ),
    Mutant(
        name="a generation begun beside a leader",
        invariant="INV-LOG-1",
        rule="a generation begins in a log only while nobody leads there",
        edits=(Edit("raise_term", "await unled(shared, client)", "await client.surely(shared.leader)"),),
        hunters=("tests/unit/coordinator/test_generation_in_log.py",),
        unseen="no random cluster loses its meta storage",
    ),
    Mutant(
        name="a backup without the deletes of its revision",
        invariant="INV-REC-2",
        rule="a restored meta storage replays the revision of its backup whole",
        edits=(Edit("Backups._deleted_at", "change.value is None", "False"),),
        hunters=("tests/unit/coordinator/test_backups.py",),
        unseen="no random cluster loses its meta storage",
    ),
    Mutant(
        name="an altered backup restored",
        invariant="INV-REC-2",
        rule="each byte of a backup is covered by its checksum",
        edits=(Edit("BackupReader.rows", "self._whole(_DIGEST_BYTES) != expected", "not self._whole(_DIGEST_BYTES)"),),
        hunters=("tests/unit/core/recovery/test_backup.py::test_every_flipped_bit_is_noticed",),
        unseen="no random cluster loses its meta storage",
    ),
    Mutant(
        name="a backup restored over a log",
        invariant="INV-LOG-1",
        rule="a restored log begins only where there is none",
        edits=(Edit("Log.begin", "dict.fromkeys(puts, MISSING)", "{}"),),
        hunters=("tests/unit/metastorage/test_log_begin.py::test_a_log_that_is_there_stays_as_it_is",),
        unseen="no random cluster loses its meta storage",
    ),
    Mutant(
        name="an adopted directory that keeps a lost history",
        invariant="INV-REC-2",
        rule="what was applied in a generation that is lost is forgotten when its directory is adopted",
        edits=(Edit("Adopting.adopt", "view.revision > 0 and generation_of(view) != generation", "False"),),
        hunters=(
            "tests/unit/node/directory/test_adoption.py",
            f"{RECOVERED}::test_R6_nodes_within_the_backup_come_back_and_nodes_beyond_it_once_they_are_adopted",
        ),
        unseen="no random cluster loses its meta storage",
    ),
    Mutant(
        name="a revision delivered again applied again",
        invariant="INV-REC-2",
        rule="revisions at or below the view are dropped (R10)",
        edits=(Edit("Projection.take", "if batch.revision <= view.revision: ...", ""),),
        hunters=(f"{LEAPS}::test_R10_a_revision_that_is_delivered_again_changes_nothing",),
        unseen="a watch delivers a revision once on each stream, and a stream begins behind the view",
    ),
    Mutant(
        name="a recovery finished without its disk",
        invariant="INV-REC-3",
        rule="the leader hears of segments that the disk lacks before a node enters the topology (I7)",
        edits=(Edit("Recovery._on_opened", "not self._compares_disk", "True"),),
        hunters=(f"{REPORTS}::test_the_disk_is_compared_on_the_stream_that_says_so",),
        unseen="a random cluster loses no disk",
    ),
    Mutant(
        name="a topology without a version",
        invariant="INV-REC-3",
        rule="each entrance and each departure is a version of the logical topology",
        edits=(Edit("counted", "catalog.counters.topology + 1", "catalog.counters.topology"),),
        hunters=(f"{TOPOLOGY}::test_the_version_of_the_topology_counts_who_comes_and_goes_and_outlives_its_leaders",),
        unseen="nobody in a random cluster asks for it",
    ),
    Mutant(
        name="a renewal of another history",
        invariant="INV-REC-1",
        rule="a renewal whose hash is not the cluster's at that revision is refused, and settles nothing",
        edits=(Edit("Leasing.renew", "expected is not None and expected != renewal.lineage", "False"),),
        hunters=(f"{TERMS}::test_R9_a_node_that_has_another_history_is_told_so_gets_no_lease_and_settles_nothing",),
        unseen="histories of a random cluster differ only where one was set back, which shows itself at the join",
    ),
    Mutant(
        name="a leader's catalog of several revisions",
        invariant="INV-REC-1",
        rule="a leader reads its catalog page by page as of one revision",
        edits=(
            Edit("read_catalog", "revision=revision", ""),
            Edit("read_catalog", "revision = page.revision", ""),
        ),
        hunters=(f"{SNAPSHOTS}::test_R11_a_leader_reads_all_there_is_page_by_page_as_of_one_revision",),
        unseen="a catalog of a random cluster is one page, and nobody else writes while a leader reads it",
    ),
)
