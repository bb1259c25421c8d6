"""Breaks of users and rights: who is heard, what counts, what goes with a user."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

UNIT = "tests/unit/core/access/test_rights.py"
REQUESTS = "tests/unit/core/access/test_request_rights.py"
PLANS = "tests/unit/core/ddl/test_plans_principals.py"
NODE = "tests/unit/node/serving/test_authorised.py"
INSERTED = "tests/sim/test_users.py::test_the_id_of_an_insert_is_of_one_user_and_one_text_and_of_no_other_statement"

MUTANTS = (
    Mutant(
        name="a password sent without a proof",
        invariant="INV-RIGHT-1",
        rule="a client with the cluster key sends a password only to a coordinator that proves itself",
        edits=(Edit("_is_secret", "AnyLogin | RenewLogins | LogOut | Execute", "Execute"),),
        hunters=(
            "tests/unit/client/test_login.py::test_nothing_secret_goes_to_a_coordinator_that_does_not_prove_itself",
        ),
        unseen="a random cluster has no impostor",
    ),
    Mutant(
        name="a proof for an address of another process",
        invariant="INV-RIGHT-1",
        rule="a coordinator proves no address but its own",
        edits=(Edit("prove_coordinator", "challenge.address not in addresses", "False"),),
        hunters=("tests/unit/core/membership/test_proofs.py",),
        unseen="a random cluster has no impostor",
    ),
    Mutant(
        name="rights not checked at the node",
        invariant="INV-RIGHT-1",
        rule="each batch is decided on the rights of the view that its guard has passed",
        edits=(Edit("authorise", "check_read(ticket.login, ticket.table, ticket.through, view)", ""),),
        hunters=(f"{NODE}::test_a_scan_needs_select",),
    ),
    Mutant(
        name="rights checked once a scan",
        invariant="INV-RIGHT-1",
        rule="a revoked right ends a running scan at the next batch",
        edits=(
            Edit(
                "authorise",
                "check_read(ticket.login, ticket.table, ticket.through, view)",
                "if authorised is None: ...",
            ),
        ),
        hunters=(f"{NODE}::test_a_running_scan_ends_at_the_next_batch",),
    ),
    Mutant(
        name="rights on views not checked at the node",
        invariant="INV-RIGHT-1",
        rule="each batch that is read through views needs a right on each of them",
        edits=(Edit("check_read", "_check_through(asker.user, through, catalog)", ""),),
        hunters=(f"{NODE}::test_a_view_that_the_rows_are_read_through_needs_select_too",),
    ),
    Mutant(
        name="a dropped view still read through",
        invariant="INV-RIGHT-1",
        rule="a scan ends at the next batch when a view that it reads through is dropped",
        edits=(Edit("authorise", "check_through(ticket.through, view)", ""),),
        hunters=(f"{NODE}::test_a_view_that_goes_ends_the_scans_through_it",),
    ),
    Mutant(
        name="a plan through a view without a right on its tables",
        invariant="INV-RIGHT-1",
        rule="a SELECT is planned with SELECT on all that its views read, down to the tables",
        edits=(
            Edit(
                "check_request",
                "walked(filter(None, found), catalog)",
                "(one for one in walked(filter(None, found), catalog) if one.id in catalog.views)",
            ),
        ),
        hunters=(f"{REQUESTS}::test_a_request_needs_exactly_these_rights",),
        unseen="the invariant is about batches of scans, which nodes decide for themselves",
    ),
    Mutant(
        name="a question that outlives its right in a queue",
        invariant="INV-RIGHT-1",
        rule="a question that waited for a turn is decided by the rights of the moment in which it is answered",
        edits=(Edit("Plans._checking", "check_request(request, catalog)", ""),),
        hunters=(
            "tests/sim/test_questions_in_turn.py::test_who_was_dropped_meanwhile_gets_no_answer",
            "tests/sim/test_questions_in_turn.py::test_a_right_that_is_gone_meanwhile_does_not_count",
        ),
        unseen="the invariant is about batches of scans, which nodes decide for themselves",
    ),
    Mutant(
        name="appends without a right",
        invariant="INV-RIGHT-1",
        rule="an append is decided on INSERT, at its beginning and at its end",
        edits=(Edit("admit_write", "check_append(ticket.login, ticket.table, ticket.transaction, view)", "None"),),
        hunters=(f"{NODE}::test_an_append_needs_a_login_and_insert",),
        unseen="the invariant is about batches of scans",
    ),
    Mutant(
        name="a right that is leaving counts",
        invariant="INV-RIGHT-1",
        rule="a right that is being revoked counts no more from its first transaction on",
        edits=(Edit("holds", "right not in record.leaving", "True"),),
        hunters=(f"{UNIT}::test_a_right_that_is_being_revoked_counts_no_more",),
    ),
    Mutant(
        name="a role that is leaving counts",
        invariant="INV-RIGHT-1",
        rule="a role that is being taken away counts no more from its first transaction on",
        edits=(Edit("_counting", "role not in user.leaving", "True"),),
        hunters=(f"{UNIT}::test_a_role_that_is_being_taken_away_counts_no_more",),
    ),
    Mutant(
        name="a role kept after it was revoked",
        invariant="INV-VIEW-1",
        rule="past the point of no return the user does not have the role",
        edits=(Edit("remove_membership", "roles=_without(user.roles, hidden.role)", ""),),
        hunters=(f"{PLANS}::test_a_role_is_given_once_and_taken_once",),
    ),
    Mutant(
        name="rights back after they were revoked",
        invariant="INV-VIEW-1",
        rule="past the point of no return the rights are gone",
        edits=(
            Edit("remove_rights", "tuple(one for one in record.rights if one not in hidden.rights)", "record.rights"),
        ),
        hunters=(f"{PLANS}::test_rights_are_revoked_as_far_as_they_are_held",),
    ),
    Mutant(
        name="a user who is being dropped is heard",
        invariant="INV-RIGHT-1",
        rule="neither the logins nor the name of a user who is being dropped count",
        edits=(Edit("_asker_by", "user.state is not UseState.IN_USE", "False"),),
        hunters=(UNIT, PLANS, NODE),
    ),
    Mutant(
        name="logins left after DROP USER",
        invariant="INV-RIGHT-1",
        rule="whoever is dropped is logged out",
        edits=(Edit("remove_principal", "*end_logins(found.id, catalog)", ""),),
        hunters=(f"{PLANS}::test_a_dropped_user_is_hidden_and_logged_out_and_then_gone_with_his_rights",),
        unseen="a login of a user who is not there is refused for that: his number is nobody's again",
    ),
    Mutant(
        name="a DROP USER rolled back that has ended logins",
        invariant="INV-DDL-1",
        rule="a user who was about to be dropped is logged in as before once that is rolled back",
        edits=(Edit("plans.drop_principal", "changes=(hidden,)", "changes=(hidden, *end_logins(found.id, catalog))"),),
        hunters=(f"{PLANS}::test_a_login_counts_for_nothing_while_its_user_is_being_dropped_and_lives_again",),
        unseen="the clients of the simulator log in again",
    ),
    Mutant(
        name="logins left after another password",
        invariant="INV-RIGHT-1",
        rule="a new password ends the logins that were made with the old one",
        edits=(Edit("set_password", "*end_logins(user.id, catalog)", ""),),
        hunters=(f"{PLANS}::test_another_password_ends_what_he_has_logged_in",),
    ),
    Mutant(
        name="nobody left who may grant",
        invariant="INV-RIGHT-1",
        rule="the last user with ALTER ON CLUSTER keeps it",
        edits=(
            Edit(
                "keeps_administrator",
                "any(one != dropped for one in catalog.users) and not _has_administrator(catalog)",
                "False",
            ),
        ),
        hunters=(f"{PLANS}::test_the_last_administrator_stays",),
        unseen="the administrator of a random cluster is asked to give up nothing",
    ),
    Mutant(
        name="a login checked on another password",
        invariant="INV-RIGHT-1",
        rule="a password that has changed while it was checked opens nothing",
        edits=(
            Edit(
                "record_login", "(standing.state, standing.password_hash) != (user.state, user.password_hash)", "False"
            ),
        ),
        hunters=(
            "tests/unit/coordinator/people/test_logins.py::test_a_password_that_changes_while_it_is_checked_counts_no_more",
        ),
        unseen="no two of a random cluster's people change and try one password at once",
    ),
    Mutant(
        name="strangers in the places of users",
        invariant="INV-RIGHT-1",
        rule="names without a user do not wait in the places of users",
        edits=(Edit("WrongPasswords.lane", "Lane.STRANGER", "Lane.USER"),),
        hunters=("tests/unit/core/access/test_password_queue.py", "tests/unit/coordinator/people/test_logins.py"),
        unseen="no strangers ask a random cluster for logins",
    ),
    Mutant(
        name="names that failed in the places of users",
        invariant="INV-RIGHT-1",
        rule="a user's name with a recent wrong password waits in another lane",
        edits=(Edit("WrongPasswords.lane", "Lane.FAILED if is_recent else Lane.USER", "Lane.USER"),),
        hunters=("tests/unit/core/access/test_password_queue.py",),
        unseen="nobody tries wrong passwords at a random cluster",
    ),
    Mutant(
        name="many checks of one name at once",
        invariant="INV-RIGHT-1",
        rule="of each name one password is checked at a time",
        edits=(Edit("PasswordQueue.next_ticket", "(one for one in waiting if one.name not in busy)", "iter(waiting)"),),
        hunters=("tests/unit/core/access/test_password_queue.py", "tests/unit/coordinator/people/test_logins.py"),
        unseen="no user of a random cluster tries passwords at once",
    ),
    Mutant(
        name="a statement id that another user has used",
        invariant="INV-RIGHT-1",
        rule="a statement asked for again by another user is refused",
        edits=(Edit("check_same_asker", "not origin.is_of(login, catalog)", "False"),),
        hunters=("tests/unit/core/ddl/test_origin.py", "tests/sim/test_users.py"),
        unseen="no two of a random cluster's people use one statement id",
    ),
    Mutant(
        name="another statement under a used id",
        invariant="INV-DDL-1",
        rule="a statement id stands for one text: the receipt of another one is not told",
        edits=(
            Edit("Origin.has_text", "hash_text(text) == self.text_sha256", "True"),
            Edit("Origin.has_text", "text[:STATEMENT_TEXT_COMPARED] == self.text", "True"),
        ),
        hunters=("tests/unit/core/ddl/test_origin.py", "tests/sim/test_users.py"),
        unseen="each statement of a random cluster has an id of its own",
    ),
    Mutant(
        name="other rows under a used id",
        invariant="INV-WRITE-2",
        rule="the id of an INSERT stands for one text: other values are not told that they are written",
        edits=(Edit("check_same_insert", "text_sha256 != origin.text_sha256", "False"),),
        hunters=(
            "tests/unit/core/data/test_commit.py::test_an_insert_asked_for_again_is_the_same_to_its_last_character",
            INSERTED,
        ),
        unseen="the appends of a random cluster have no text",
    ),
    Mutant(
        name="an INSERT under the id of another statement",
        invariant="INV-WRITE-2",
        rule="an id stands for one statement: an INSERT under the id of a definition is refused",
        edits=(Edit("open_transaction", "statement is not None", "False"),),
        hunters=(
            "tests/unit/core/data/test_commit.py::test_an_id_of_another_statement_opens_nothing_unless_it_was_opened_before",
            INSERTED,
        ),
        unseen="each statement of a random cluster has an id of its own",
    ),
    Mutant(
        name="a definition under the id of an INSERT",
        invariant="INV-DDL-1",
        rule="an id stands for one statement: a definition under the id of an INSERT is refused",
        edits=(Edit("ddl.begin", "TransactionId(request.id) in catalog.transactions", "False"),),
        hunters=(
            "tests/unit/core/ddl/test_ddl.py::test_a_definition_under_the_id_of_a_write_transaction_changes_nothing",
            INSERTED,
        ),
        unseen="each statement of a random cluster has an id of its own",
    ),
    Mutant(
        name="an outcome told to anybody",
        invariant="INV-RIGHT-1",
        rule="the outcome of a statement is told to the user who ran it and to administrators",
        edits=(Edit("hears_text", "check_administrator(catalog, login)", ""),),
        hunters=("tests/unit/core/ddl/test_origin.py", "tests/sim/test_users.py"),
        unseen="nobody in a random cluster asks for the outcome of what another one ran",
    ),
    Mutant(
        name="large statements parsed in order of arrival",
        invariant="INV-DDL-1",
        rule="users take turns at the parser, and few statements of each wait",
        edits=(
            Edit(
                "FairQueue.next_ticket",
                "min(self._waiting, key=self._used_up_to_ns)",
                "min(self._waiting, key=lambda one: self._waiting[one][0])",
            ),
        ),
        hunters=("tests/unit/core/access/test_fair_queue.py", "tests/unit/coordinator/test_user_turns.py"),
        unseen="a random cluster asks for no statement that takes long to parse",
    ),
    Mutant(
        name="turns that count for nothing",
        invariant="INV-DDL-1",
        rule="next is the turn of the user whose turns have taken least time",
        edits=(Edit("UserTurns._has_worked", "self._queue.used(user, self._now_ns() - began_ns)", "pass"),),
        hunters=("tests/unit/coordinator/test_turns_by_use.py",),
        unseen="a computation takes no time in a random cluster",
    ),
    Mutant(
        name="large statements of users without rights parsed",
        invariant="INV-RIGHT-1",
        rule="a large statement of a user without any right is refused before it is parsed",
        edits=(Edit("Execution._understood", "check_large_statement(asking, self._catalog())", "pass"),),
        hunters=("tests/unit/coordinator/test_user_turns.py",),
        unseen="a random cluster asks for no statement that takes long to parse",
    ),
    Mutant(
        name="values told to those who may replace rows",
        invariant="INV-RIGHT-1",
        rule="to replace rows by a condition needs SELECT: which segments may have them tells of values",
        edits=(Edit("_check_replaced", "[Right.SELECT] if where else []", "[]"),),
        hunters=(f"{REQUESTS}::test_a_request_needs_exactly_these_rights",),
        unseen="the invariant is about batches of scans",
    ),
)
