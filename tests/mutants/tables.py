"""Breaks of data: commits, copies, seals, scans."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

UNIT = "tests/unit/core/data/test_commit.py"
SEALS = "tests/unit/core/data/test_commit_seals.py"
REPLACEMENT = "tests/unit/core/data/test_replacement.py"
OVERWRITES = "tests/sim/test_overwrites.py::test_every_invariant_holds_while_clients_replace_the_rows_of_each_other"
SEGMENTS = "tests/unit/core/catalog/test_table_segments.py"

MUTANTS = (
    # ------------------------------------------------------------ writes
    Mutant(
        name="no schema check at commit",
        invariant="INV-WRITE-1",
        rule="a commit compares the columns that were written with those that are alive",
        edits=(Edit("_check_statistics", "if gone: ...", ""),),
        hunters=(f"{UNIT}::test_a_column_dropped_meanwhile_refuses_the_rows_that_have_it",),
    ),
    Mutant(
        name="a commit to a dropped table",
        invariant="INV-WRITE-1",
        rule="a commit compares that the table is in use",
        edits=(
            Edit(
                "commit_transaction",
                "_writable(record.table, record.schema_version, catalog)",
                "catalog.tables.get(record.table) or ...",
            ),
        ),
        hunters=(f"{UNIT}::test_a_dropped_table_takes_no_rows",),
    ),
    Mutant(
        name="an aborted write committed",
        invariant="INV-WRITE-2",
        rule="a write transaction ends once",
        edits=(Edit("commit_transaction", "record.state is TransactionState.ABORTED", "False"),),
        hunters=(f"{UNIT}::test_a_transaction_ends_once",),
    ),
    Mutant(
        name="a commit told to be another",
        invariant="INV-WRITE-2",
        rule="a transaction that is opened again by its id stays what it is",
        edits=(Edit("open_transaction", "known is not None", "False"),),
        hunters=(f"{UNIT}::test_opening_again_changes_nothing_whatever_became_of_it",),
    ),
    Mutant(
        name="half a write visible",
        invariant="INV-WRITE-2",
        rule="a commit makes all segments visible in one revision",
        edits=(Edit("commit_transaction", "sorted({*buckets, *(one.bucket for one in request.replaces)})", "...[:1]"),),
        hunters=(f"{UNIT}::test_a_commit_shows_all_segments_and_ends_the_transaction_at_once",),
    ),
    Mutant(
        name="rows that were added meanwhile beside those that replace them",
        invariant="INV-WRITE-2",
        rule="a commit that replaces rows by conditions takes all rows that fulfil them by then",
        edits=(Edit("commit_transaction", "check_covered(request, table, catalog)", ""),),
        hunters=(
            f"{REPLACEMENT}::test_rows_that_were_added_meanwhile_are_a_conflict_where_they_are_covered",
            OVERWRITES,
        ),
    ),
    Mutant(
        name="old rows beside those that replace them",
        invariant="INV-WRITE-2",
        rule="a commit takes what it replaces out of the manifest in the revision that adds the new rows",
        edits=(Edit("commit_transaction", "[*taken_out]", "[]"),),
        hunters=(f"{REPLACEMENT}::test_old_rows_go_and_new_rows_come_in_one_transaction", OVERWRITES),
    ),
    Mutant(
        name="deleted rows back with those that are kept",
        invariant="INV-WRITE-2",
        rule="a commit that replaces rows compares that none was deleted since they were read",
        edits=(
            Edit(
                "commit_transaction",
                "replacing(request, table, catalog)",
                "replacing(msgspec.structs.replace(request, deletes=table.deletes), table, catalog)",
            ),
        ),
        hunters=(f"{REPLACEMENT}::test_rows_that_were_taken_meanwhile_are_found", OVERWRITES),
    ),
    Mutant(
        name="conditions on another column since a rename",
        invariant="INV-WRITE-2",
        rule="a write replaces rows by the columns that its new rows were held against",
        edits=(Edit("still_there", "[one.field.id for one in plan.where] != chosen", "False"),),
        hunters=(f"{REPLACEMENT}::test_conditions_that_are_about_another_column_since_a_rename_are_a_conflict",),
        unseen="two columns of a random cluster have the same values",
    ),
    Mutant(
        name="a write by the facts of a lost state",
        invariant="INV-WRITE-1",
        rule="a write is opened by facts of the generation that the cluster is in",
        edits=(Edit("open_transaction", "check_generation(request.generation, catalog)", ""),),
        hunters=(f"{UNIT}::test_R6_a_write_by_the_facts_of_another_generation_is_not_opened",),
        unseen="no random cluster loses its meta storage",
    ),
    # ------------------------------------------------------------ copies
    Mutant(
        name="too few holders",
        invariant="INV-REP-1",
        rule="a commit counts enough distinct holders of each segment",
        edits=(Edit("_checked_holders", "len(holders) < needed", "False"),),
        hunters=(f"{SEALS}::test_only_distinct_living_assigned_incarnations_count",),
    ),
    Mutant(
        name="both answers of a hedged append committed",
        invariant="INV-WRITE-2",
        rule="of the answers for the same rows one is named in the commit",
        edits=(
            Edit(
                "RowSender._attempt",
                "sending.put((node, began_ns, what))",
                "...; self.answers.extend([what] if isinstance(what, StagedSegment) else [])",
            ),
            Edit("RowSender.__init__", "", "self.answers = []"),
            Edit(
                "RowSender.staged",
                "tuple(self._staged[number] for number in sorted(self._staged))",
                "tuple(self.answers)",
            ),
        ),
        hunters=(
            "tests/sim/test_hedged_appends.py::test_every_invariant_holds_of_appends_that_are_hedged_again_and_again",
            "tests/sim/test_hedged_appends.py::test_of_a_hedged_append_one_answer_is_committed_and_the_other_copies_go",
        ),
        unseen="where two replicas live in a random cluster, answers that come late are rare",
    ),
    Mutant(
        name="a table with more segments than a plan can name",
        invariant="INV-WRITE-2",
        rule="a commit leaves a table that can be read: a plan names all of its segments",
        edits=(
            Edit(
                "commit_transaction", "_check_room(len(request.segments) - len(request.replaces), table, catalog)", ""
            ),
        ),
        hunters=(f"{SEGMENTS}::test_a_commit_that_makes_a_table_too_large_to_be_planned_is_refused",),
        unseen="tables of a random cluster have few segments",
    ),
    Mutant(
        name="copies that lack counted late",
        invariant="INV-REP-1",
        rule="what is on fewer nodes than its table wants is counted from the commit on",
        edits=(
            Edit(
                "Copies.committed",
                "self._correct(bucket, name, before, catalog)",
                "self._correct(bucket, name, before, before)",
            ),
        ),
        hunters=("tests/sim/test_copies.py",),
        unseen="no invariant of the cluster looks at what is shown",
    ),
    Mutant(
        name="a segment without a file counted as held",
        invariant="INV-REP-1",
        rule="what only one node should hold counts as lost once that node has said that it has no file of it",
        edits=(
            Edit("NodeReports.acknowledge", "self.on_lacked(message.node, (message.table, message.bucket), alone)", ""),
        ),
        hunters=(
            "tests/sim/test_lacked.py::test_what_another_node_would_hold_too_counts_once_and_is_lost_by_a_removal_as_well",
        ),
        unseen="no invariant of the cluster looks at what is shown",
    ),
    Mutant(
        name="a removed node counted as a copy",
        invariant="INV-REP-1",
        rule="what only removed nodes held is counted as lost",
        edits=(Edit("holders_if_few", "present_holders(segment, catalog)", "segment.holders"),),
        hunters=("tests/sim/test_copies.py::test_what_a_removed_node_held_alone_counts_as_lost",),
        unseen="no invariant of the cluster looks at what is shown",
    ),
    Mutant(
        name="the last copy in sync given up",
        invariant="INV-REP-1",
        rule="a surplus replica goes only while as many others as the table wants hold all of the bucket",
        edits=(
            Edit(
                "_corrected",
                "sum(one != node and one in in_sync and one in nodes.able for one in replicas) < wanted",
                "False",
            ),
            Edit("_holders_kept", "len(staying) >= table.replication", "True"),
        ),
        hunters=("tests/unit/core/replicas/test_placement.py", "tests/unit/core/replicas/test_retired.py"),
    ),
    Mutant(
        name="the source of a move given up before its target is whole",
        invariant="INV-REP-1",
        rule="a replica that moves goes only once its target and enough others hold all of the bucket",
        edits=(
            Edit(
                "_corrected",
                "sum(one != node and one in in_sync and one in nodes.able for one in replicas) < wanted",
                "node != source and ...",
            ),
        ),
        hunters=("tests/unit/core/replicas/test_spread.py", "tests/sim/test_rebalance.py"),
    ),
    Mutant(
        name="a stop that keeps a move",
        invariant="INV-REP-1",
        rule="a stop ends all moves, also those that are under way",
        edits=(Edit("stopped", "msgspec.structs.replace(catalog.buckets[key], moving=None)", "catalog.buckets[key]"),),
        hunters=("tests/unit/core/replicas/test_spread.py", "tests/sim/test_rebalance.py"),
        unseen="a move that goes on loses no row",
    ),
    Mutant(
        name="a move that outlives its target",
        invariant="INV-REP-1",
        rule="a move ends with its nodes: the copy on a node that drains or is to be replaced goes",
        edits=(Edit("_move_left", "stays and source in replicas and source in nodes.good", "source in replicas"),),
        hunters=("tests/unit/core/replicas/test_spread.py",),
        unseen="in a random cluster the target is seldom lost for good while it copies",
    ),
    Mutant(
        name="a plan carried out after a stop",
        invariant="INV-REP-1",
        rule="after a stop nothing begins to move, whatever was planned before",
        edits=(Edit("continued", "not is_under_way(catalog)", "False"),),
        hunters=("tests/unit/core/replicas/test_spread.py",),
        unseen="a move that begins loses no row",
    ),
    Mutant(
        name="two replicas moved into one rack",
        invariant="INV-REP-1",
        rule="no bucket moves into a rack with more of its replicas than there are in its own",
        edits=(Edit("_may_go", "racks.count(nodes.racks[target]) <= racks.count(nodes.racks[source])", "True"),),
        hunters=("tests/unit/core/replicas/test_spread.py",),
        unseen="placement takes a replica out of a crowded rack again",
    ),
    Mutant(
        name="a node that drains given buckets",
        invariant="INV-REP-1",
        rule="a node that drains gets no bucket, and its replicas don't count for what a table wants",
        edits=(Edit("fleet", "not node.removed and not node.draining", "not node.removed"),),
        hunters=("tests/unit/core/replicas/test_placement.py",),
        unseen="a drain that never ends loses no row",
    ),
    Mutant(
        name="a repair that goes on after the node came back",
        invariant="INV-REP-1",
        rule="a node that comes back before its replacement is whole keeps its replica, and the copy goes",
        edits=(Edit("Repair._look", "self._bad = bad", "self._bad |= bad"),),
        hunters=(
            "tests/sim/test_replaced.py::test_a_node_that_is_back_before_its_replacement_is_whole_keeps_its_buckets_and_the_copy_goes",
        ),
        unseen="copies are made for nothing, and no row is lost",
    ),
    Mutant(
        name="a copy counted before it is verified",
        invariant="INV-REP-1",
        rule="a node reports a segment as held once its bytes lie on its disk and were compared with the hash",
        edits=(Edit("Reconciler._attempt", "here = await step(entry)", "here = True"),),
        hunters=("tests/sim/test_replaced.py", "tests/sim/test_copies.py"),
    ),
    Mutant(
        name="all replicas in one rack",
        invariant="INV-REP-1",
        rule="the replicas of a bucket lie in as many racks as there are",
        edits=(Edit("racks_of", "node.rack or f'node {node.id}'", "f'node {node.id}'"),),
        hunters=("tests/unit/core/replicas/test_placement.py", "tests/sim/test_racks.py"),
    ),
    Mutant(
        name="a retired node forgotten that may still write",
        invariant="INV-WRITE-2",
        rule="a bucket remembers a retired node while a write is open that may have staged segments on it",
        edits=(
            Edit(
                "held_by_retired", "still_open.get(bucket.table, bucket.retired_below) < bucket.retired_below", "False"
            ),
        ),
        hunters=(
            "tests/unit/core/replicas/test_retired.py",
            "tests/sim/test_copies.py::test_a_write_that_was_staged_on_a_copy_that_goes_is_committed_and_copied_from_there",
        ),
        unseen="the commit refuses a segment with too few holders, so no row is lost: the write fails",
    ),
    Mutant(
        name="rows forgotten that are held",
        invariant="INV-REP-1",
        rule="who forgets lost segments gives up only what no node holds",
        edits=(Edit("_forgetting", "any(is_present(node, catalog) for node in entry.holders)", "False"),),
        hunters=("tests/unit/core/replicas/test_rewrite.py",),
        unseen="nobody forgets segments in a random cluster",
    ),
    Mutant(
        name="one holder for three replicas",
        invariant="INV-REP-1",
        rule="where nobody says how many, a table of three replicas is written with two holders",
        edits=(Edit("holders_needed", "2 if table.replication >= REPLICATION_FOR_TWO else 1", "1"),),
        hunters=(f"{SEALS}::test_where_nobody_says_how_many_holders_a_table_of_three_replicas_wants_two",),
        unseen="random clusters set min_in_sync",
    ),
    Mutant(
        name="the number of a table ignored at its commit",
        invariant="INV-REP-1",
        rule="as many holders are needed as the table says, else the cluster",
        edits=(Edit("holders_needed", "table.min_in_sync", "0"),),
        hunters=(f"{SEALS}::test_what_a_table_says_comes_before_the_setting_of_the_cluster",),
        unseen="no seed of those tried came to it",
    ),
    Mutant(
        name="a forged seal taken",
        invariant="INV-REP-1",
        rule="what is said of a segment counts under the seals of its holders",
        edits=(Edit("_proven_holders", "not is_sealed(named[node], seal_keys[node], segment, record.order)", "False"),),
        hunters=(f"{SEALS}::test_what_no_holder_has_sealed_is_not_committed",),
        unseen="no client of a random cluster lies",
    ),
    Mutant(
        name="a seal without its transaction",
        invariant="INV-REP-1",
        rule="a seal counts in the write transaction that it was made in, by its number",
        edits=(Edit("sealed", 'b"%d:%b" % (order, said)', 'b"%b" % said'),),
        hunters=(
            f"{SEALS}::test_a_seal_counts_in_the_transaction_that_it_was_made_in_and_not_in_a_later_one_of_the_same_id",
        ),
        unseen="no client of a random cluster lies",
    ),
    Mutant(
        name="holders that no seal could be checked of",
        invariant="INV-REP-1",
        rule="a holder counts once this leader has heard of it and checked its seal",
        edits=(Edit("_proven_holders", "tuple(heard)", "tuple(named)"),),
        hunters=(
            f"{SEALS}::test_a_leader_that_has_not_heard_of_enough_holders_yet_neither_commits_nor_refuses_for_good",
        ),
        unseen="no client of a random cluster lies",
    ),
    Mutant(
        name="holders of older incarnations counted",
        invariant="INV-ID-2",
        rule="a holder counts while its incarnation is the one that wrote",
        edits=(Edit("_living_holders", "incarnations.get(holder.node) == holder.incarnation", "True"),),
        hunters=(
            f"{SEALS}::test_only_distinct_living_assigned_incarnations_count",
            "tests/sim/test_dataplane.py::test_I15_a_commit_of_a_node_that_started_anew_since_is_refused",
        ),
    ),
    Mutant(
        name="an answer before the file is durable",
        invariant="INV-REP-1",
        rule="a holder is named after its file and folder are synced",
        edits=(Edit("Appends._write", "await file.finish()", ""),),
        hunters=("tests/unit/node/serving/test_appends.py::test_an_answer_describes_the_file_on_both_disks",),
    ),
    Mutant(
        name="a file that is not synced",
        invariant="INV-REP-1",
        rule="a finished segment survives a loss of power: the file is synced before it is renamed",
        edits=(Edit("SegmentFile.finish", "os.fsync(fd)", ""),),
        hunters=("tests/unit/storage/test_files_sync.py",),
        unseen="the files of the real disk are outside the simulation",
    ),
    Mutant(
        name="an ack of a copy that is not durable",
        invariant="INV-REP-1",
        rule="a peer answers for a copy after its file is finished",
        edits=(Edit("Appends._accept", "await file.finish()", ""),),
        hunters=("tests/unit/node/serving/test_appends.py::test_an_answer_describes_the_file_on_both_disks",),
    ),
    Mutant(
        name="a peer left out that min_in_sync needs",
        invariant="INV-REP-1",
        rule="a write waits for a late peer where fewer holders than min_in_sync would remain",
        edits=(Edit("judge", "others < min_in_sync", "False"),),
        hunters=("tests/unit/core/data/test_forwarding.py",),
        unseen="the commit refuses a segment with too few holders, so no row is lost: the write fails",
    ),
    Mutant(
        name="a peer left out that can take the file",
        invariant="INV-REP-1",
        rule="a late peer whose probe shows a lease and the ticket's revision is waited for",
        edits=(Edit("judge_probed", "_can_take(probed.status, revision)", "False"),),
        hunters=("tests/sim/test_late_peers.py::test_a_peer_that_can_take_the_file_is_waited_for",),
        unseen="the peer fetches the segment after the commit: no row is lost",
    ),
    Mutant(
        name="a peer waited for that is behind",
        invariant="INV-REP-1",
        rule="a late peer that shows an older revision than the ticket's is left out",
        edits=(Edit("_can_take", "status.applied_revision >= revision", "True"),),
        hunters=("tests/sim/test_late_peers.py::test_a_peer_that_is_behind_is_left_out_as_soon_as_it_says_so",),
        unseen="the write takes longer and is sound",
    ),
)
