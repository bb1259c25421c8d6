"""Breaks of streams: batches that are written, rows that are followed."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

STREAMS = "tests/unit/core/data/test_streams.py"
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
        edits=(Edit("commit_transaction", "[*taken_out] if batch is None else [*taken_out, batch]", "[*taken_out]"),),
        hunters=(f"{STREAMS}::test_a_batch_becomes_the_newest_of_its_query_with_its_rows",),
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
)
