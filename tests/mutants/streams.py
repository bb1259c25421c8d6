"""Breaks of streams: batches that are written, rows that are followed."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

STREAMS = "tests/unit/core/data/test_streams.py"
CHANGES = "tests/unit/core/data/test_changes.py"
STAMP = "next_revision(catalog)"
FOLLOWING = "tests/unit/core/data/test_following.py"

MUTANTS = (
    Mutant(
        name="a batch of a stream committed twice",
        invariant="INV-WRITE-2",
        rule="a batch that is the newest of its query is committed already",
        edits=(Edit("committed_batch", "newest.batch == batch.number", "False"),),
        hunters=(f"{STREAMS}::test_a_batch_that_is_committed_is_refused_in_another_transaction",),
    ),
    Mutant(
        name="a batch known by its attempt",
        invariant="INV-WRITE-2",
        rule="the newest batch of a query is written with its rows",
        edits=(Edit("commit_transaction", "changes.extend(batch)", "pass"),),
        hunters=(f"{STREAMS}::test_a_batch_becomes_the_newest_of_its_query_with_its_rows",),
    ),
    Mutant(
        name="a batch that is forgotten for a new query",
        invariant="INV-WRITE-2",
        rule="a query is forgotten early only if its table was dropped",
        edits=(Edit("_room_made", "one.table not in catalog.tables", "True"),),
        hunters=(f"{STREAMS}::test_only_so_many_queries_are_known",),
    ),
    Mutant(
        name="ended transactions that open ones push out",
        invariant="INV-WRITE-2",
        rule="open transactions take no place of those whose end is still known",
        edits=(Edit("_purge", "len(catalog.transactions) - open_count(catalog)", "len(catalog.transactions)"),),
        hunters=(
            "tests/unit/core/data/test_commit.py::test_ended_transactions_are_forgotten_in_batches_the_oldest_first",
        ),
    ),
    Mutant(
        name="rewritten rows that come again",
        invariant="INV-WRITE-2",
        rule="a segment with rows that were there before is not new",
        edits=(Edit("added", "found if segment.joins is None else rewritten", "found"),),
        hunters=(f"{FOLLOWING}::test_what_was_rewritten_comes_as_it_was",),
    ),
    Mutant(
        name="a gap where rows were rewritten",
        invariant="INV-WRITE-2",
        rule="rows that a reader has not read, and that a rewrite has mixed with others, are an error to it",
        edits=(Edit("added", "kept[segment_transaction(segment.id)] < segment.joins.segments", "False"),),
        hunters=(f"{FOLLOWING}::test_what_was_rewritten_and_is_gone_leaves_no_gap",),
    ),
    Mutant(
        name="changes without the rows that went",
        invariant="INV-WRITE-2",
        rule="a segment whose rows were replaced knows the commit that did it",
        edits=(Edit("replacing", f"Revision(0) if request.keeps_rows else {STAMP}", "Revision(0)"),),
        hunters=(f"{CHANGES}::test_a_replaced_row_went_and_the_new_one_came",),
    ),
    Mutant(
        name="a rewrite that looks like a change",
        invariant="INV-WRITE-2",
        rule="segments of a rewrite have no revision of a commit",
        edits=(Edit("commit_transaction", f"Revision(0) if request.keeps_rows else {STAMP}", STAMP),),
        hunters=(f"{CHANGES}::test_a_rewrite_changes_nothing_and_hides_nothing",),
    ),
    Mutant(
        name="a gap where changes are not kept any more",
        invariant="INV-WRITE-2",
        rule="a table notes up to which revision a change may lack a segment that is released",
        edits=(Edit("released", "revision > table.changes_from", "False"),),
        hunters=(f"{CHANGES}::test_what_is_released_leaves_no_gap",),
    ),
)
