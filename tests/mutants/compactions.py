"""Breaks of compactions, whose rows nodes read and write."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

COMPACTIONS = "tests/unit/node/serving/test_compactions.py"
AUTO = "tests/unit/core/data/test_auto_compaction.py"
REPLACEMENT = "tests/unit/core/data/test_replacement.py"

MUTANTS = (
    Mutant(
        name="a compaction that leaves a segment out",
        invariant="INV-WRITE-2",
        rule="a node writes the rows of all segments that a ticket names",
        edits=(Edit("_Work._old_rows", "self._ticket.joined", "self._ticket.joined[:-1]"),),
        hunters=(f"{COMPACTIONS}::test_the_rows_that_are_left_are_in_the_new_segment_on_both_nodes",),
    ),
    Mutant(
        name="a compaction that outlives its client",
        invariant="INV-WRITE-2",
        rule="a node stops to write a segment whose client is gone",
        edits=(Edit("_Work._old_rows", "not self.is_wanted", "False"),),
        hunters=(f"{COMPACTIONS}::test_whose_client_is_gone_ends_and_leaves_nothing",),
        unseen="what it stages is committed by nobody",
    ),
    Mutant(
        name="a bucket compacted twice at once",
        invariant="INV-WRITE-2",
        rule="a bucket that another node may still compact is not due",
        edits=(Edit("DueBuckets.next_of", "key not in others", "True"),),
        hunters=(f"{AUTO}::test_a_bucket_is_compacted_once_at_a_time",),
        unseen="the second commit finds the segments gone, and is refused",
    ),
    Mutant(
        name="a client that commits what a node compacts",
        invariant="INV-WRITE-2",
        rule="only its compactor commits in the transaction of a compaction",
        edits=(Edit("commit_transaction", "record.compactor != compactor", "False"),),
        hunters=(f"{AUTO}::test_no_client_commits_or_writes_in_it_and_no_node_in_that_of_a_client",),
        unseen="no client of a random cluster knows such a transaction",
    ),
    Mutant(
        name="a client that writes where a node compacts",
        invariant="INV-WRITE-2",
        rule="only its compactor writes in the transaction of a compaction",
        edits=(Edit("admit_write", "record.compactor != (node if by_itself else None)", "False"),),
        hunters=(f"{AUTO}::test_no_client_commits_or_writes_in_it_and_no_node_in_that_of_a_client",),
        unseen="no client of a random cluster knows such a transaction",
    ),
    Mutant(
        name="a compaction that another node ends",
        invariant="INV-WRITE-2",
        rule="a node ends only a compaction that it was given",
        edits=(Edit("compacted_bucket", "record.compactor != request.node", "False"),),
        hunters=(f"{AUTO}::test_no_other_node_aborts_it",),
        unseen="no node of a random cluster lies",
    ),
    Mutant(
        name="rows lost that were compacted with those of a merge",
        invariant="INV-WRITE-2",
        rule="a write that has read whole segments replaces these segments and no others",
        edits=(Edit("check_same_segments", "found != begun.seen", "False"),),
        hunters=(f"{REPLACEMENT}::test_who_has_read_whole_segments_needs_them_as_they_were",),
        unseen="no client of a random cluster merges",
    ),
    Mutant(
        name="rows added and compacted that are replaced unseen",
        invariant="INV-WRITE-2",
        rule="rows that a write has not seen are a conflict for it, in whatever segments they are by then",
        edits=(Edit("rows_stayed", "newest_of(one) < since.number", "True"),),
        hunters=(f"{REPLACEMENT}::test_rows_that_were_added_and_compacted_are_a_conflict",),
        unseen="an overwrite and a compaction seldom meet in a random cluster",
    ),
    Mutant(
        name="rows replaced and compacted that come back",
        invariant="INV-WRITE-2",
        rule="rows that a commit has taken since a write began are a conflict for it",
        edits=(Edit("rows_stayed", "table.taken >= since.number", "False"),),
        hunters=(f"{REPLACEMENT}::test_rows_that_were_replaced_and_compacted_are_a_conflict",),
        unseen="an overwrite and a compaction seldom meet in a random cluster",
    ),
)
