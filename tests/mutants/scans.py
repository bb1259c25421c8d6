"""Breaks of scans: which rows a reader gets, and what a planned scan keeps."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

MUTANTS = (
    Mutant(
        name="batches from before what the client has heard of",
        invariant="INV-SERVE-1",
        rule="a client hands out nothing that was released before the newest revision that it knows",
        edits=(Edit("SegmentReading.received", "mark.view_revision < least", "False"),),
        hunters=("tests/unit/core/data/test_scan.py",),
    ),
    Mutant(
        name="rows of a query from before what the client has heard of",
        invariant="INV-SERVE-1",
        rule="a query hands out nothing of what a statement of its client has taken away, computed or not",
        edits=(Edit("RunningQuery._judge", "returned == self._judged", "True"),),
        hunters=("tests/unit/client/test_query_judged.py",),
        unseen="a random cluster has no DuckDB",
    ),
    Mutant(
        name="guard only at the start of a scan",
        invariant="INV-SERVE-1",
        rule="the guard runs again before each batch",
        fact="guard only at the start",
        edits=(
            Edit("Looking.passed", "return (passed, self.entry)", "self.first = passed; ..."),
            Edit("Looking.passed", "self._requests.guarded(self._bucket)", "vars(self).get('first') or ..."),
        ),
        hunters=("tests/unit/node/serving/test_scans.py::test_a_fence_ends_a_scan_at_the_batch_whose_guard_it_meets",),
    ),
    Mutant(
        name="a scan authorised once",
        invariant="INV-RIGHT-1",
        rule="a drop ends a running scan within one batch",
        edits=(
            Edit(
                "authorise",
                "authorised is not None and entry is not None and view.tables.get(ticket.table) is authorised",
                "authorised is not None",
            ),
        ),
        hunters=(
            "tests/unit/node/serving/test_scans.py",
            "tests/sim/test_dataplane.py::test_a_drop_ends_a_running_scan_within_a_batch",
        ),
    ),
    Mutant(
        name="marks that begin anew with each segment",
        invariant="INV-WRITE-2",
        rule="rows of a call that reads several segments are counted through all of them",
        edits=(Edit("Scans.stream", "before += scan.rows", ""),),
        hunters=("tests/unit/node/serving/test_scans_together.py",),
        unseen="a reader takes no batch that goes back",
    ),
    Mutant(
        name="rows that are not committed served",
        invariant="INV-WRITE-2",
        rule="only what the manifest names is served",
        edits=(Edit("authorise", "entry is None or entry.sha256 != ticket.sha256", "False"),),
        hunters=("tests/unit/node/serving/test_scans.py::test_rows_that_are_not_committed_are_not_served",),
        unseen="a client asks for what its plan names, and a plan names what is committed",
    ),
    Mutant(
        name="a plan of a lost state served",
        invariant="INV-SERVE-1",
        rule="a scan is served by a view of the generation that its plan is of",
        edits=(Edit("authorise", "check_generation(ticket.generation, view)", ""),),
        hunters=(
            "tests/unit/client/test_recovered.py",
            "tests/unit/node/serving/test_scans.py::test_R6_a_plan_of_a_lost_state_is_refused_whatever_its_revision",
        ),
        unseen="no random cluster loses its meta storage",
    ),
    Mutant(
        name="a segment as a later view has it",
        invariant="INV-REC-2",
        rule="a vault that has applied what a view does not show says nothing for it",
        edits=(
            Edit("Looking.look", "stored.applied <= view.revision", "True"),
            Edit(
                "entry_at",
                "assert stored.applied <= view.revision, 'the vault holds nothing that the view does not show'",
                "",
            ),
        ),
        hunters=(
            "tests/unit/node/serving/test_scans.py::test_a_view_that_does_not_follow_its_vault_in_time_is_behind",
        ),
        unseen="in a random cluster it would have to differ between two steps of one scan",
    ),
    Mutant(
        name="an entry remembered for a whole scan",
        invariant="INV-REC-2",
        rule="what a view says of a segment is read again once its bucket has changed",
        edits=(
            Edit(
                "Looking.knows",
                "self._marks is not None and self._marks[0] is segments and self._marks[1] is replaced",
                "self._marks is not None",
            ),
        ),
        hunters=("tests/unit/node/serving/test_scans.py::test_a_segment_that_leaves_the_manifest_ends_a_running_scan",),
        unseen="what a scan reads is kept for longer than a random cluster runs",
    ),
    Mutant(
        name="a view that forgets what its vault lacks",
        invariant="INV-REC-2",
        rule="a view remembers each change of a segment until it is durable",
        edits=(Edit("StoredShelf.trimmed", "change.number <= durable._number", "True"),),
        hunters=("tests/unit/core/catalog/test_stored_shelf.py",),
    ),
)
