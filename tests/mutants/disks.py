"""Breaks of what lies on disks: segment files, vaults, views from them."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

FILES = "tests/scenarios/test_durable_first.py"

MUTANTS = (
    # ------------------------------------------------------------ disks that fail
    Mutant(
        name="a failing disk that is waited for",
        invariant="INV-REP-1",
        rule="the buckets of a node whose disk fails get other replicas at once",
        edits=(Edit("Repair._look", "bad = away | self._failing()", "bad = away"),),
        hunters=("tests/sim/test_failing_disks.py",),
        unseen="another holder of each segment is left, so no row is lost",
    ),
    Mutant(
        name="a disk believed again because one write succeeds",
        invariant="INV-REP-1",
        rule="a disk that failed is believed again only of a new process",
        edits=(
            Edit(
                "watch_space",
                "published.disk_full = is_told = False",
                "published.disk_full = published.disk_failing = is_told = False",
            ),
        ),
        hunters=("tests/unit/node/disk/test_space.py",),
        unseen="no simulated node makes trial writes",
    ),
    # ------------------------------------------------------------ files
    Mutant(
        name="a bucket compared by two catalogs",
        invariant="INV-REC-1",
        rule="a bucket that has changed since its disk was listed is compared by a new listing",
        edits=(Edit("Comparing._stored", "newest.segments.mark(key) is durable.segments.mark(key)", "True"),),
        hunters=(
            "tests/unit/node/disk/test_reconciler_rounds.py::test_a_change_in_the_middle_of_a_round_is_seen_by_the_next_one",
        ),
        unseen="a file that is fetched for nothing is there already",
    ),
    Mutant(
        name="a reconciler that deletes what is not decided",
        invariant="INV-DROP-1",
        rule="a file of an open write stays",
        edits=(Edit("_superfluous", "transaction.state is not TransactionState.OPEN", "True"),),
        hunters=("tests/unit/core/replicas/test_reconcile.py",),
    ),
    Mutant(
        name="files deleted before the vault is durable",
        invariant="INV-REC-1",
        rule="the revision that lets a file go, or the leap, is durable on the machine before the file goes (R1, R9)",
        edits=(Edit("Reconciler._delete", "await self._vault.sync()", ""),),
        hunters=(
            f"{FILES}::test_R9_no_file_goes_before_the_revision_that_lets_it_go_is_durable",
            "tests/scenarios/test_leaps.py::test_R9_no_file_goes_by_a_leap_before_the_leap_survives_the_machine",
        ),
    ),
    Mutant(
        name="files deleted on the view that is served",
        invariant="INV-REC-1",
        rule="plans for the disk are made on the durable catalog, which may be behind the view",
        edits=(
            Edit("Reconciler._tidy", "durable = self._agent.durable", "durable = self._published.view"),
            Edit("Reconciler._delete", "await self._vault.sync()", ""),
        ),
        hunters=(f"{FILES}::test_R9_no_file_goes_before_the_revision_that_lets_it_go_is_durable",),
    ),
    Mutant(
        name="a damaged copy counted as held",
        invariant="INV-REP-1",
        rule="a file that was found damaged is reported as missing, so that it is fetched again",
        edits=(Edit("_against_manifest", "damaged.append(entry)", "kept.append(entry)"),),
        hunters=(
            "tests/unit/core/replicas/test_reconcile.py::test_a_damaged_file_goes_once_this_node_is_not_named_as_a_holder",
            "tests/sim/test_replicas.py::test_damage_is_found_and_healed_though_nobody_reads",
        ),
        unseen="the checks leave out copies that were damaged on purpose",
    ),
    Mutant(
        name="a scrub that deletes the last copy",
        invariant="INV-REP-1",
        rule="a damaged file goes only once the leader has struck this node as a holder",
        edits=(Edit("_against_manifest", "damaged.append(entry)", "trash.append(OnDisk(*key, one))"),),
        hunters=(
            "tests/unit/core/replicas/test_reconcile.py::test_a_damaged_file_goes_once_this_node_is_not_named_as_a_holder",
            "tests/sim/test_replicas.py::test_the_last_copy_stays_however_damaged",
        ),
        unseen="the checks leave out copies that were damaged on purpose",
    ),
    # ------------------------------------------------------------ vaults and views
    Mutant(
        name="a vault that loses revisions",
        invariant="INV-REC-1",
        rule="every revision goes into the vault, in order",
        edits=(Edit("Projection.save", "[batch for batch, _ in batches]", "...[-1:]"),),
        hunters=(f"{FILES}::test_a_vault_holds_every_revision_up_to_its_own",),
    ),
    Mutant(
        name="a vault whose hash is behind",
        invariant="INV-REC-1",
        rule="projection, applied revision and hash change together",
        edits=(Edit("Projection.save", "durable.lineage", "batches[0][1].lineage"),),
        hunters=(f"{FILES}::test_a_vault_holds_every_revision_up_to_its_own",),
    ),
    Mutant(
        name="a revision skipped",
        invariant="INV-REC-2",
        rule="revisions are applied in order, each once, and the history hash proves it",
        edits=(
            Edit("Agent._opened", "view.revision + 1", "view.revision + 2"),
            Edit("Catalog.applying", "claimed != lineage", "False"),
            Edit("Catalog.applying", "lineage=lineage", "lineage=claimed or lineage"),
        ),
        hunters=("tests/sim/test_cluster.py", "tests/unit/core/catalog/test_catalog.py"),
    ),
    Mutant(
        name="a lost event that nobody notices",
        invariant="INV-REC-2",
        rule="a revision whose hash does not follow is refused",
        edits=(Edit("Catalog.applying", "claimed != lineage", "False"),),
        hunters=("tests/unit/core/catalog/test_catalog.py",),
        unseen="the simulated watch loses nothing: the hash is the second lock on that door",
    ),
    Mutant(
        name="bounds as a client tells them",
        invariant="INV-WRITE-2",
        rule="the bounds of a segment are of the types of its columns",
        edits=(
            Edit(
                "_check_statistics",
                "not all(alive[one.field](one, segment.rows) for one in segment.statistics)",
                "False",
            ),
        ),
        hunters=("tests/unit/core/words/test_bounds.py",),
        unseen="writers of the simulator tell no bounds",
    ),
    Mutant(
        name="a drop that a view does not show",
        invariant="INV-REC-2",
        rule="replay ends in the state that the store has",
        edits=(Edit("apply._table", 'draft.drop("tables", key)', ""),),
        hunters=("tests/unit/core/catalog/test_catalog.py",),
    ),
)
