"""More histories that break one invariant each: what views show, who may read, what goes from the catalog, what a
DELETE takes."""

from collections import Counter

import msgspec

from leasehold.core.words.records import (
    HiddenDatabase,
    HiddenMembership,
    HiddenPrincipal,
    HiddenRights,
    HiddenRows,
    HiddenTable,
    HiddenView,
    Outcome,
    PrincipalKind,
    Right,
    Step,
)
from leasehold.testing.catalog_operations import CatalogAnswer, operations
from leasehold.testing.clients import ClientStatement
from leasehold.testing.news import ClientHistory
from tests.sim.broken_histories import BROKEN, breaks
from tests.sim.record_words import (
    IN_USE,
    PRE_DELETE,
    TOKEN_HASH,
    counters,
    database,
    delete,
    grant,
    hex_128,
    login,
    principal,
    procedure,
    segment,
    statement,
    table,
    view,
)

__all__ = ["BROKEN"]

ROLE = PrincipalKind.ROLE
DROP_DATABASE = (database(state=PRE_DELETE),), (HiddenDatabase(database=4),)

# ---------------------------------------------------------------- what views show


@breaks("INV-VIEW-1")
def a_statement_that_nothing_shows(told):
    told.said("CREATE DATABASE d")
    told.shows()


@breaks("INV-VIEW-1")
def a_database_that_no_statement_made(told):
    told.commit(database())
    told.shows()


@breaks("INV-VIEW-1")
def a_statement_whose_effect_came_twice(told):
    told.said("CREATE DATABASE d", database(), database(5, "d2"))
    told.shows()


@breaks("INV-VIEW-1")
def a_statement_that_was_not_possible(told):
    told.said("DROP DATABASE d")


@breaks("INV-VIEW-1")
def a_rollback_that_restores_nothing(told):
    told.said("CREATE DATABASE d", database())
    hiding, hides = DROP_DATABASE
    number = told.said("DROP DATABASE d", *hiding, hides=hides)
    told.commit(statement(Outcome.ROLLED_BACK, text="DROP DATABASE d", number=number), gone=[procedure(number=number)])
    told.shows()


@breaks("INV-VIEW-1")
def a_rename_that_left_the_old_name(told):
    told.said("CREATE USER u PASSWORD '***'", principal(), grant())
    told.said("CREATE ROLE r", principal(2, "r", ROLE))
    told.said("ALTER ROLE r RENAME TO s")
    told.shows()


# ---------------------------------------------------------------- what coordinators answer


@breaks("INV-READ-1")
def an_answer_that_is_older_than_what_was_told(told):
    told.said("CREATE DATABASE d", database())
    told.answers(told.revision - 1, floor=told.revision)


@breaks("INV-READ-1")
def an_answer_without_a_table_of_its_revision(told):
    told.said("CREATE DATABASE d", database())
    told.said("CREATE TABLE d.t (a INT)", table())
    told.answers(told.revision, floor=told.revision)


@breaks("INV-READ-1")
def an_answer_with_a_table_of_a_later_revision(told):
    told.said("CREATE DATABASE d", database())
    before = told.revision
    told.said("CREATE TABLE d.t (a INT)", table())
    told.answers(before, ("d", "t"), floor=before)


@breaks("INV-READ-2")
def a_table_that_one_coordinator_shows_and_the_next_one_does_not(told):
    """The statement has no answer: it may have happened, and been rolled back. But nothing shows the table again."""
    created = ClientStatement(id=hex_128(1), text="CREATE TABLE d.t (a INT)", asked_ns=1)
    answers = [
        CatalogAnswer(what="SHOW TABLES", asked_ns=at, answered_ns=at + 1, revision=7, shown=frozenset(tables))
        for at, tables in ((2, [("d", "t")]), (4, []), (6, [("d", "t")]))
    ]
    told.oracle.saw(ClientHistory(operations=tuple(operations([created], answers))))
    told.step()


# ---------------------------------------------------------------- who may read


def a_reader(told):
    """User `u`, who may do everything, has logged in; the cluster has a table."""
    told.said("CREATE DATABASE d", database())
    told.commit(counters(), table())
    told.said("CREATE USER u PASSWORD '***'", principal(), grant(), login())


@breaks("INV-RIGHT-1")
def a_batch_for_nobody(told):
    a_reader(told)
    told.release()


@breaks("INV-RIGHT-1")
def a_batch_of_a_table_that_is_being_dropped(told):
    told.commit(counters(), table())
    told.release()
    told.commit(table(state=PRE_DELETE), procedure(), statement())
    told.release()


@breaks("INV-RIGHT-1")
def a_batch_for_a_login_that_has_ended(told):
    a_reader(told)
    told.commit(gone=[login()])
    told.release(TOKEN_HASH)


@breaks("INV-RIGHT-1")
def a_batch_for_a_login_with_an_older_password(told):
    a_reader(told)
    told.said("ALTER USER u PASSWORD '***'", principal(secret="another"))
    told.release(TOKEN_HASH)


@breaks("INV-RIGHT-1")
def a_batch_for_a_user_who_is_being_dropped(told):
    a_reader(told)
    told.said("DROP USER u", principal(state=PRE_DELETE), hides=(HiddenPrincipal(principal=1),))
    told.said("CREATE USER other PASSWORD '***'", principal(3, "other"), grant(3))
    told.release(TOKEN_HASH)


@breaks("INV-RIGHT-1")
def a_batch_for_a_right_that_is_leaving(told):
    a_reader(told)
    hides = (HiddenRights(principal=1, object=0, rights=(Right.SELECT,)),)
    told.said("REVOKE SELECT ON CLUSTER FROM u", grant(leaving=(Right.SELECT,)), hides=hides)
    told.release(TOKEN_HASH)


@breaks("INV-RIGHT-1")
def a_batch_for_a_role_that_is_leaving(told):
    a_reader(told)
    told.said("CREATE USER v PASSWORD '***'", principal(2, "v"))
    told.said("CREATE ROLE r", principal(3, "r", ROLE))
    told.said("GRANT SELECT ON CLUSTER TO r", grant(3, rights=(Right.SELECT,)))
    told.said("GRANT ROLE r TO v", principal(2, "v", roles=(3,)), login(2))
    told.release(TOKEN_HASH)
    hides = (HiddenMembership(user=2, role=3),)
    told.said("REVOKE ROLE r FROM v", principal(2, "v", roles=(3,), leaving=(3,)), hides=hides)
    told.release(TOKEN_HASH)


@breaks("INV-RIGHT-1")
def a_batch_for_a_right_on_another_object(told):
    a_reader(told)
    told.said("CREATE USER v PASSWORD '***'", principal(2, "v"), login(2))
    told.said("CREATE DATABASE other", database(9, "other"))
    told.said("GRANT SELECT ON DATABASE other TO v", grant(2, on=9, rights=(Right.SELECT,)))
    told.release(TOKEN_HASH)


@breaks("INV-RIGHT-1")
def a_batch_through_a_view_that_is_being_dropped(told):
    told.commit(counters(), table(), view())
    told.release(through=(6,))
    told.commit(view(state=PRE_DELETE), procedure(), statement())
    told.release(through=(6,))


@breaks("INV-RIGHT-1")
def a_batch_through_a_view_that_the_user_may_not_read(told):
    a_reader(told)
    told.said("CREATE DATABASE other", database(9, "other"))
    told.commit(view(database=9))
    told.release(TOKEN_HASH, through=(6,))
    told.said("CREATE USER v PASSWORD '***'", principal(2, "v"), login(2))
    told.said("GRANT SELECT ON DATABASE d TO v", grant(2, on=4, rights=(Right.SELECT,)))
    told.release(TOKEN_HASH)
    told.release(TOKEN_HASH, through=(6,))


# ---------------------------------------------------------------- what goes from the catalog


@breaks("INV-DROP-1")
def a_view_that_went_without_its_pre_state(told):
    told.commit(view())
    told.commit(gone=[view()])


@breaks("INV-DROP-1")
def a_view_that_another_statement_had_hidden(told):
    told.commit(counters(), table(), view())
    told.commit(table(state=PRE_DELETE), view(state=PRE_DELETE), procedure(), statement())
    told.commit(procedure(Step.FINISHED), gone=[table(), view()])


@breaks("INV-DROP-1")
def a_user_who_went_without_his_pre_state(told):
    told.commit(principal())
    told.commit(gone=[principal()])


@breaks("INV-DROP-1")
def a_role_that_went_before_its_barrier(told):
    told.commit(counters(), principal(2, "r", ROLE))
    hides = (HiddenPrincipal(principal=2),)
    told.commit(principal(2, "r", ROLE, state=PRE_DELETE), procedure(hides=hides), statement())
    told.process(revision=1, leased_s=3)
    told.commit(procedure(Step.FINISHED, hides=hides), gone=[principal(2, "r", ROLE)])


def a_sound_cascade(told):
    hides = (HiddenView(view=6), HiddenTable(table=5))
    told.commit(counters(), table(), view())
    told.commit(table(state=PRE_DELETE), view(state=PRE_DELETE), procedure(hides=hides), statement())
    told.commit(procedure(Step.FINISHED, hides=hides), gone=[table(), view()])


# ---------------------------------------------------------------- what a DELETE takes

ROWS = {str(row): 1 for row in range(10)}
WITHOUT_3 = Counter({name: 1 for name in ROWS if name != "3"})


@breaks("INV-SCAN-1")
def a_deleted_row_that_is_returned(told):
    told.written()
    told.wrote(**ROWS)
    told.commit(delete(state=PRE_DELETE), table())
    told.scan(Counter(ROWS))


@breaks("INV-SCAN-1")
def a_row_hidden_that_no_delete_takes(told):
    told.written()
    told.wrote(**ROWS)
    told.commit(delete(value="4"), table())
    told.scan(WITHOUT_3)


@breaks("INV-SCAN-1")
def a_row_hidden_that_was_written_after_the_delete(told):
    told.commit(delete(), table())
    told.written(msgspec.structs.replace(segment(), deletes=1))
    told.wrote(**ROWS)
    told.scan(WITHOUT_3)


@breaks("INV-SCAN-1")
def a_row_that_a_rollback_did_not_bring_back(told):
    told.written()
    told.wrote(**ROWS)
    told.commit(delete(state=PRE_DELETE), table())
    told.commit(gone=[delete()])
    told.scan(WITHOUT_3)


@breaks("INV-WRITE-2")
def a_delete_that_was_rolled_back_and_hides_on(told):
    told.written()
    told.wrote(**ROWS)
    hides = (HiddenRows(table=5, number=1),)
    told.commit(delete(state=PRE_DELETE), table(), procedure(hides=hides), statement())
    told.commit(statement(Outcome.ROLLED_BACK), gone=[procedure()])
    told.scan(WITHOUT_3)


@breaks("INV-SCAN-1")
def a_delete_that_takes_rows_from_a_query_that_was_planned_before_it(told):
    told.written()
    told.wrote(**ROWS)
    told.commit(delete(), table())
    told.scan(WITHOUT_3, revision=told.revision - 1)


@breaks("INV-SCAN-1")
def half_of_a_delete(told):
    told.written()
    told.wrote(**ROWS)
    both = delete(value="3"), delete(number=2, value="4")
    told.commit(both[0], both[1], table())
    told.scan(WITHOUT_3)


@breaks("INV-SCAN-1")
def a_delete_with_a_number_beyond_the_cutoff_of_a_query(told):
    told.written()
    told.wrote(**ROWS)
    told.commit(delete(), table())
    told.scan(WITHOUT_3, revision=told.revision - 1, cutoff=told.revision, deletes=0)


@breaks("INV-WRITE-2")
def a_batch_with_a_row_that_had_been_deleted_since_its_scan_began(told):
    told.written()
    told.wrote(**ROWS)
    told.commit(delete(state=PRE_DELETE), table())
    told.release(rows=(1, 2, 3))


@breaks("INV-SCAN-1")
def a_later_row_that_an_older_delete_hides_since_its_segment_forgot(told):
    told.commit(delete(), table())
    told.written(segment())
    told.wrote(**ROWS)
    told.scan(WITHOUT_3)


def a_sound_delete(told):
    told.written()
    told.wrote(**ROWS)
    told.scan(Counter(ROWS))
    told.release(rows=(1, 2, 3))
    told.commit(delete(state=PRE_DELETE), table())
    told.release(rows=(1, 2, 4))
    told.scan(WITHOUT_3)
    # Planned before it: nothing of it is missing, or all of it by a later cutoff.
    told.scan(Counter(ROWS), revision=told.revision - 1)
    told.scan(WITHOUT_3, revision=told.revision - 1, cutoff=told.revision)
    told.scan(Counter(ROWS), revision=told.revision - 1, cutoff=told.revision, deletes=0)
    told.commit(delete(state=IN_USE))
    told.scan(WITHOUT_3)
