"""Breaks of local opens: which files a reader beside a node may open, and until when."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

_NODE = "tests/unit/node/serving/test_local_opens.py::"

MUTANTS = (
    Mutant(
        name="a sub-lease counted from the answer",
        invariant="INV-OPEN-1",
        rule="a sub-lease counts from the instant at which its request was sent",
        edits=(
            Edit("sent_and_answer", "sent_ns = now_ns()", ""),
            Edit("sent_and_answer", "answer = await call()", "answer = await call(); sent_ns = now_ns()"),
        ),
        hunters=("tests/unit/core/local/test_sub_lease.py",),
    ),
    Mutant(
        name="links removed after the report",
        invariant="INV-OPEN-1",
        rule="a node takes links away before it reports the view that forbids them",
        edits=(
            Edit("LocalReads.viewed", "self._take_away(lambda: self._opens.viewed(view))", "self._opens.viewed(view)"),
        ),
        hunters=(f"{_NODE}test_what_a_statement_takes_away_can_not_be_opened_once_it_is_shown",),
    ),
    Mutant(
        name="no second guard of an open",
        invariant="INV-OPEN-1",
        rule="an open is granted on the view of a guard that runs once its links are made",
        edits=(
            Edit("LocalReads._made", "passed = self._requests.guarded(_NOWHERE)", ""),
            Edit(
                "LocalReads._made",
                "files: list[list[OnDisk]] = [[file_of(one) for one in group] for group in kept]",
                "files = [[file_of(one) for one in group] for group in kept];"
                " passed = self._requests.guarded(_NOWHERE)",
            ),
        ),
        hunters=(f"{_NODE}test_a_node_that_is_fenced_between_both_guards_hands_out_nothing",),
    ),
)
