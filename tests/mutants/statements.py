"""Breaks of statements: their plans, and what DELETE and a TTL hide."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

STEPS = "tests/unit/core/ddl/test_plans_steps.py"
OBJECTS = "tests/unit/core/ddl/test_plans_objects.py"
COLUMNS = "tests/unit/core/ddl/test_plans_columns.py"
REWRITE = "tests/unit/core/replicas/test_rewrite.py"
ROWS = "tests/unit/node/disk/test_masks.py"
WALL = "tests/unit/core/data/test_wallclock.py"
CUTOFF = "tests/unit/node/serving/test_cutoff.py"

MUTANTS = (
    # ------------------------------------------------------------ what a statement does
    Mutant(
        name="a statement that changes nothing",
        invariant="INV-VIEW-1",
        rule="what a statement does is in the transaction that says that it was run",
        edits=(Edit("alter_properties", "changes=(change,)", "changes=()"),),
        hunters=("tests/unit/core/ddl/test_plans_properties.py::test_properties",),
    ),
    Mutant(
        name="columns added twice",
        invariant="INV-VIEW-1",
        rule="a column comes once",
        edits=(Edit("add_columns", "(*table.fields, *added)", "(*table.fields, *added, *added)"),),
        hunters=("tests/unit/core/ddl/test_ddl.py::test_add_columns",),
    ),
    Mutant(
        name="a rename that leaves the old name",
        invariant="INV-VIEW-1",
        rule="a table has the name that it was renamed to, and no other",
        edits=(Edit("rename_table", "name=statement.to.table", "name=table.name"),),
        hunters=(f"{OBJECTS}::test_rename_table",),
    ),
    Mutant(
        name="an old name that still leads to the table",
        invariant="INV-REC-2",
        rule="a view that followed a rename finds the table by its new name alone",
        edits=(Edit("_name_relation", 'draft.drop_inner("relation_names", *before)', ""),),
        hunters=("tests/unit/core/catalog/test_catalog.py",),
    ),
    Mutant(
        name="a widening that narrows",
        invariant="INV-VIEW-1",
        rule="a column becomes a type that holds all of its values, and no other",
        edits=(Edit("_WIDER", '("BIGINT",)', '("BIGINT", "SMALLINT")'),),
        hunters=(f"{COLUMNS}::test_widen_column",),
    ),
    Mutant(
        name="the default of a new column for old rows alone",
        invariant="INV-VIEW-1",
        rule="ADD COLUMN .. DEFAULT is what old rows have, and what later rows get",
        edits=(Edit("numbered", "default=default", "default=None"),),
        hunters=(f"{COLUMNS}::test_rows_that_are_there_have_the_default_of_a_new_column",),
    ),
    # ------------------------------------------------------------ what views need
    Mutant(
        name="a column dropped that a view needs",
        invariant="INV-VIEW-1",
        rule="what a view reads goes only together with the view",
        edits=(Edit("drop_column", "{table.id: field.id}", "{}"),),
        hunters=(f"{COLUMNS}::test_a_column_that_a_view_reads_goes_with_it",),
    ),
    Mutant(
        name="a view as its tables were before",
        invariant="INV-VIEW-1",
        rule="a view that was resolved ahead is resolved again if what it reads has changed since",
        edits=(Edit("PreparedView.is_of", "self.reads == _reads(statement, catalog)", "True"),),
        hunters=("tests/sim/test_statements_beside.py",),
        unseen="the plain dictionary of the invariant takes the columns of a view as they are written",
    ),
    Mutant(
        name="CASCADE leaves a view",
        invariant="INV-VIEW-1",
        rule="with CASCADE all views go that read what goes, directly or through others",
        edits=(Edit("views_that_go", "views_reading(objects, catalog)", "...[1:]"),),
        hunters=(f"{OBJECTS}::test_drop_table_cascade",),
    ),
    Mutant(
        name="a view that reads itself",
        invariant="INV-VIEW-1",
        rule="no view reads itself, through whatever others",
        edits=(Edit("_check_depth", "view.id in below", "False"),),
        hunters=("tests/unit/core/ddl/test_plans_views.py::test_no_view_reads_itself",),
        unseen="the depth of a view that reads itself has no end: that ends the leader and not a check",
    ),
    Mutant(
        name="rights left behind by a table",
        invariant="INV-VIEW-1",
        rule="with an object all rights on it go",
        edits=(Edit("remove_table", "*forget_rights((table.id,), catalog)", ""),),
        hunters=(f"{OBJECTS}::test_with_a_table_goes_all_that_was_kept_of_it",),
        unseen="a table that is made again has another number, so a right left behind is on nothing",
    ),
    # ------------------------------------------------------------ one at a time
    Mutant(
        name="two statements on one object at once",
        invariant="INV-DDL-1",
        rule="a statement begins once all before it on its objects have ended",
        edits=(Edit("_Queue._let_through", "self.through and not (self.shared and claim is Claim.SHARED)", "False"),),
        hunters=("tests/unit/core/ddl/test_queue.py",),
    ),
    Mutant(
        name="the new name of a rename not claimed",
        invariant="INV-DDL-1",
        rule="a rename claims both names",
        edits=(Edit("claims", "_tables(table, to)", "_tables(table)"),),
        hunters=("tests/unit/core/ddl/test_claims.py",),
        unseen="whether the name is free is decided with the change: the claim is for the barrier of who had it before",
    ),
    Mutant(
        name="a view that goes with CASCADE not claimed",
        invariant="INV-DDL-1",
        rule="what goes with CASCADE is claimed from the first transaction on",
        edits=(Edit("StatementRun._on_decided", "effects.WidenTurn(claims=procedure.claims)", ""),),
        hunters=("tests/unit/coordinator/statements/test_cascade.py",),
        unseen="no node serves anything of the name between its hiding and its next owner",
    ),
    # ------------------------------------------------------------ DELETE and TTL
    Mutant(
        name="deleted rows returned",
        invariant="INV-WRITE-2",
        rule="rows that a DELETE takes are in no batch",
        edits=(Edit("Hidings.of", "deletes is None", "True"),),
        hunters=(f"{ROWS}::test_a_delete_hides_from_its_pre_state_on_and_gives_back_what_is_rolled_back",),
    ),
    Mutant(
        name="a DELETE that scans under way don't meet",
        invariant="INV-WRITE-2",
        rule="each batch is filtered by the view that its guard has passed, not by that of the scan's beginning",
        edits=(Edit("Scans._batches", "hidings.of(table, segment, passed.view)", "hidings._hiding"),),
        hunters=(f"{ROWS}::test_a_delete_between_two_batches_concerns_the_second",),
    ),
    Mutant(
        name="a query that a DELETE cuts in two",
        invariant="INV-SCAN-1",
        rule="a query whose rows a DELETE takes away after its cutoff ends",
        edits=(Edit("Hidings.of", "table.deletes if cutoff is None else cutoff.deletes", "table.deletes"),),
        hunters=(f"{CUTOFF}::test_a_delete_between_two_batches_ends_a_planned_scan_at_a_row_that_it_takes",),
    ),
    Mutant(
        name="a rollback that a query meets halfway",
        invariant="INV-SCAN-1",
        rule="a query from which an undecided DELETE took rows ends when that is rolled back",
        edits=(Edit("check_decided", "any(number not in deletes for number in gone.undecided)", "False"),),
        hunters=(f"{CUTOFF}::test_a_scan_planned_under_a_delete_ends_if_that_is_rolled_back_and_only_then",),
    ),
    Mutant(
        name="each task of a query its own cutoff",
        invariant="INV-SCAN-1",
        rule="what is gone for a query of several processes is decided once",
        edits=(Edit("record_cutoff", "keys.query_name(request.table, request.query) in catalog.queries", "False"),),
        hunters=("tests/unit/coordinator/data/test_queries.py::test_all_tasks_of_a_query_get_the_cutoff_of_the_first",),
    ),
    Mutant(
        name="rows that expire during a query",
        invariant="INV-SCAN-1",
        rule="the horizon of a query is that of its plan",
        edits=(Edit("expiry", "gone.earliest_us", "None if horizon is None else horizon.earliest_us"),),
        hunters=(f"{CUTOFF}::test_a_horizon_that_moves_with_time_takes_nothing_from_a_planned_scan",),
        unseen="rows of the simulator have no time",
    ),
    Mutant(
        name="a shorter TTL that a query does not meet",
        invariant="INV-SCAN-1",
        rule="a row that a shorter TTL took since the cutoff ends the query",
        edits=(Edit("expiry", "horizon is not None and horizon.since > gone.deletes", "False"),),
        hunters=(f"{CUTOFF}::test_a_shorter_ttl_ends_a_planned_scan_at_a_row_that_it_takes",),
        unseen="rows of the simulator have no time",
    ),
    Mutant(
        name="rows deleted before they were written",
        invariant="INV-WRITE-2",
        rule="a DELETE concerns the segments that were there when it began",
        edits=(Edit("concern.concerned", "segment.deletes >= delete.number", "False"),),
        hunters=(f"{ROWS}::test_only_rows_that_were_there_before_are_deleted",),
    ),
    Mutant(
        name="a segment that forgets which DELETEs came before it",
        invariant="INV-WRITE-2",
        rule="a segment says which DELETE was the newest when it became visible",
        edits=(Edit("commit_transaction", "table.deletes", "0"),),
        hunters=("tests/unit/core/data/test_commit.py", REWRITE, ROWS),
    ),
    Mutant(
        name="a DELETE rolled back that stays",
        invariant="INV-WRITE-2",
        rule="rows are back once their DELETE is rolled back",
        edits=(Edit("restore_rows", "Change(keys.delete(hidden.table, hidden.number), None)", ""),),
        hunters=(f"{REWRITE}::test_a_delete_hides_first_and_its_number_stays_used_whatever_becomes_of_it",),
    ),
    Mutant(
        name="a wall clock that is believed whatever it says",
        invariant="INV-SCAN-1",
        rule="rows expire by real time, measured by the clock of the leases, and a bounded step",
        edits=(Edit("WallClock.believe", "wall_us > self._anchor_us + drift_us + bound_ns // 1_000", "False"),),
        hunters=(f"{WALL}::test_a_clock_that_jumps_ahead_and_back_moves_nothing",),
        unseen="rows of the simulator have no time",
    ),
    Mutant(
        name="a wall clock that no new leader doubts",
        invariant="INV-SCAN-1",
        rule="a new leader holds its wall clock against the time that the horizons tell",
        edits=(Edit("BelievedClock.__init__", "shown_by_horizons(writer.catalog)", "None"),),
        hunters=("tests/unit/coordinator/upkeep/test_wallclock.py",),
        unseen="rows of the simulator have no time",
    ),
    Mutant(
        name="a wall clock set right that leaves the anchor ahead",
        invariant="INV-SCAN-1",
        rule="the anchor follows a wall clock that is behind it",
        edits=(
            Edit(
                "WallClock.believe",
                "self._anchor_us = min(wall_us, self._anchor_us + drift_us)",
                "self._anchor_us += drift_us",
            ),
        ),
        hunters=(f"{WALL}::test_a_clock_that_was_ahead_at_the_election_is_not_believed_again_once_it_was_set_right",),
        unseen="rows of the simulator have no time",
    ),
    Mutant(
        name="housekeeping by a wall clock without a bound",
        invariant="INV-SCAN-1",
        rule="a leader moves horizons by the wall clock as far as it is believed",
        edits=(
            Edit(
                "Leader.__init__",
                "Housekeeping(self._writer, self._wall, turns.short.threads)",
                "Housekeeping(self._writer, clock, turns.short.threads)",
            ),
        ),
        hunters=("tests/unit/coordinator/upkeep/test_leader_wall_clock.py",),
        unseen="rows of the simulator have no time",
    ),
    Mutant(
        name="a shorter TTL that hides nothing yet",
        invariant="INV-WRITE-2",
        rule="rows past the new TTL are hidden from its first transaction on",
        edits=(
            Edit(
                "HorizonRecord.earliest_us",
                "self.horizon_us if self.hidden_us is None else max(self.horizon_us, self.hidden_us)",
                "self.horizon_us",
            ),
        ),
        hunters=(f"{ROWS}::test_a_horizon_that_is_only_tried_hides_and_gives_back",),
        unseen="rows of the simulator have no time",
    ),
    Mutant(
        name="a TTL rolled back that still hides",
        invariant="INV-WRITE-2",
        rule="rows are back once the shorter TTL is rolled back",
        edits=(
            Edit(
                "restore_expired",
                "put(keys.horizon(hidden.table), msgspec.structs.replace(horizon, hidden_us=None))",
                "",
            ),
        ),
        hunters=("tests/unit/core/ddl/test_plans_properties.py", f"{STEPS}::test_what_is_rolled_back_is_as_it_was"),
        unseen="rows of the simulator have no time",
    ),
    Mutant(
        name="a TTL that is shorter only in the first transaction",
        invariant="INV-VIEW-1",
        rule="the new TTL is the table's past the point of no return",
        edits=(Edit("remove_expired", "ttl_ns=hidden.ttl_ns", ""),),
        hunters=("tests/unit/core/ddl/test_plans_properties.py",),
    ),
)
