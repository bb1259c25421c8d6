"""Histories that break one invariant each, made by hand: what proves that the invariants of the store, the vaults, the
disks and the statements would fire. (Those of the lease are proven by `broken.py`.)
"""

from collections import Counter

import msgspec

from leasehold.core.lineage import GENESIS
from leasehold.core.records import Allocated, Claiming, Joining, Outcome, Step, TransactionState
from leasehold.errors import NotFound, Refused
from leasehold.testing.news import LetIn
from leasehold.testing.vault import VaultStep
from tests.sim.histories import (
    PRE_DELETE,
    SECOND_NS,
    counters,
    field,
    hex_128,
    node,
    procedure,
    receipt,
    segment,
    statement,
    table,
    transaction,
)

BROKEN = {}
"""Invariant -> histories that break it."""


def breaks(*invariants):
    """The first is what the history is about; the others say the same thing in their own words."""

    def register(history):
        BROKEN.setdefault(invariants[0], []).append((history, invariants))
        return history

    return register


# ---------------------------------------------------------------- identity


@breaks("INV-ID-1")
def an_id_with_a_second_token(told):
    told.commit(counters(), node(1, token=1))
    told.commit(node(1, token=2))


@breaks("INV-ID-1")
def a_token_with_a_second_id(told):
    told.commit(counters(), node(1, token=1))
    told.commit(node(2, token=1))


@breaks("INV-ID-1")
def an_id_used_again_after_its_record_went(told):
    told.commit(counters(), node(1, token=1))
    told.commit(gone=[node(1)])
    told.commit(node(1, token=2))


@breaks("INV-ID-1")
def a_counter_that_goes_back(told):
    told.commit(counters(9))
    told.commit(counters(8))


@breaks("INV-ID-1")
def a_vault_that_claims_an_id_of_another(told):
    told.commit(counters(), node(1, token=1))
    told.identity(allocated(0, token=2))


def allocated(incarnation, *, number=1, token=1):
    return Allocated(token=hex_128(token), node=number, cluster_id=hex_128(0), incarnation=incarnation)


def joining(previous, *, number=1, token=1):
    return Joining(token=hex_128(token), node=number, cluster_id=hex_128(0), previous=previous, nonce=hex_128(9))


def entered(told):
    """Node 1 as incarnation 1, by the book."""
    told.identity(Claiming(token=hex_128(1)))
    told.commit(counters(), node(1))
    for record in (allocated(0), joining(0), allocated(1)):
        told.identity(record)


@breaks("INV-ID-3")
def a_token_forgotten_in_a_crash(told):
    entered(told)
    told.identity(None, step=VaultStep.CRASHED)


@breaks("INV-ID-3")
def a_second_token_drawn_by_a_directory_that_has_an_id(told):
    told.identity(Claiming(token=hex_128(1)))
    told.commit(counters(), node(1))
    told.identity(Claiming(token=hex_128(2)))


@breaks("INV-ID-3")
def an_incarnation_that_went_back(told):
    entered(told)
    told.identity(allocated(0))


@breaks("INV-ID-3")
def an_incarnation_used_before_it_is_durable(told):
    entered(told)
    told.identity(joining(1))
    told.go_on(2)


# ---------------------------------------------------------------- statements and drops


def hidden(told):
    """A table whose drop stands at its pre-state; answers that revision."""
    told.commit(counters(), table())
    return told.commit(table(state=PRE_DELETE), procedure(), statement())


@breaks("INV-DDL-1")
def two_receipts_that_differ(told):
    told.answer(receipt(revision=3))
    told.answer(receipt(revision=4))


@breaks("INV-DDL-1")
def a_refusal_that_was_a_commit(told):
    told.answer(Refused("no", code="NOT_EMPTY"))
    told.answer(receipt())


@breaks("INV-DDL-1")
def a_refused_statement_that_runs(told):
    told.answer(Refused("no", code="NOT_EMPTY"))
    hidden(told)


@breaks("INV-DDL-1")
def a_store_that_says_otherwise_than_the_receipt(told):
    at = hidden(told)
    told.answer(receipt(revision=at))
    told.commit(statement(Outcome.ROLLED_BACK), table(), gone=[procedure()])


@breaks("INV-DDL-1")
def a_recorded_statement_forgotten(told):
    at = hidden(told)
    told.answer(receipt(revision=at))
    told.answer(NotFound("what statement?", code="NO_STATEMENT"))


@breaks("INV-DDL-1")
def a_procedure_that_goes_without_an_end(told):
    told.commit(counters(), table(), procedure(kind="additive", step=Step.PUBLISHED), statement())
    told.commit(gone=[procedure()])


@breaks("INV-DDL-1")
def a_statement_above_its_bound(told):
    told.answer(receipt(elapsed_ns=5 * SECOND_NS))


@breaks("INV-DROP-1")
def a_table_dropped_before_its_barrier(told):
    hidden(told)
    told.process(revision=1, leased_s=3)
    told.commit(procedure(Step.FINISHED), gone=[table()])


@breaks("INV-DROP-1")
def a_table_dropped_without_its_pre_state(told):
    told.commit(counters(), table())
    told.commit(gone=[table()])


@breaks("INV-DROP-1")
def a_column_dropped_without_its_pre_state(told):
    told.commit(counters(), table())
    told.commit(table(version=2, fields=(field(1),)))


@breaks("INV-DROP-1", "INV-REC-1")
def a_file_deleted_before_the_point_of_no_return(told):
    one = told.written()
    told.keep(one, "n3")
    told.remove(one)


# ---------------------------------------------------------------- writes


@breaks("INV-WRITE-1")
def rows_with_a_column_that_was_dropped(told):
    told.written()
    told.commit(table(version=2, fields=(field(1), field(2, state=PRE_DELETE))))
    late = segment(8)
    told.keep(late, "n1", "n2")
    told.commit(transaction(number=8), late)


@breaks("INV-WRITE-1")
def rows_of_another_type(told):
    told.written()
    told.commit(table(version=2, fields=(field(1), field(2, "STRING"))))
    late = segment(8)
    told.keep(late, "n1", "n2")
    told.commit(transaction(number=8), late)


@breaks("INV-WRITE-1")
def rows_for_a_hidden_table(told):
    told.written()
    told.commit(table(state=PRE_DELETE), procedure(), statement())
    late = segment(8)
    told.keep(late, "n1", "n2")
    told.commit(transaction(number=8), late)


@breaks("INV-WRITE-2")
def a_segment_that_comes_after_its_commit(told):
    told.written()
    late = segment(7, 2, rows=5)
    told.keep(late, "n1", "n2")
    told.commit(late)


@breaks("INV-WRITE-2")
def half_a_write(told):
    told.written()
    half = segment(8, rows=4)
    told.keep(half, "n1", "n2")
    told.commit(transaction(number=8), half)


@breaks("INV-WRITE-2")
def an_aborted_write_that_commits(told):
    told.written()
    told.commit(transaction(TransactionState.ABORTED, 8, rows=0))
    told.commit(transaction(number=8, rows=0))


@breaks("INV-WRITE-2")
def a_write_that_commits_twice(told):
    told.written()
    again = segment(7, 2)
    told.keep(again, "n1", "n2")
    told.commit(gone=[transaction()])
    told.commit(transaction(), again)


@breaks("INV-WRITE-2")
def a_scan_that_lacks_a_segment(told):
    told.written()
    told.scan({})


@breaks("INV-WRITE-2")
def a_scan_that_doubles_a_row(told):
    told.written()
    told.wrote(a=9, b=1)
    told.scan(Counter(a=9, b=2))


@breaks("INV-WRITE-2")
def a_scan_that_sees_the_future(told):
    one = told.written()
    told.scan({one.id: one.rows}, revision=told.revision - 1)


# ---------------------------------------------------------------- replicas and recovery


@breaks("INV-REP-1")
def a_commit_whose_file_is_nowhere(told):
    told.written(hosts=())


@breaks("INV-REP-1")
def the_last_copy_lost_in_a_crash(told):
    told.written(hosts=("n1",))
    told.disks["n1"].files.clear()
    told.oracle.machine_crashed("n1")
    told.step()


@breaks("INV-REC-1")
def a_projection_of_another_history(told):
    told.written()
    told.hold(told.image(told.revision, lineage=GENESIS))


@breaks("INV-REC-1")
def a_projection_that_lost_a_key(told):
    told.written()
    image = told.image(told.revision)
    image.items.pop(min(image.items))
    told.hold(image, step=VaultStep.CRASHED)


@breaks("INV-REC-1")
def a_revision_that_never_was(told):
    told.written()
    told.hold(told.image(told.revision, applied=99))


@breaks("INV-REC-1")
def a_file_deleted_ahead_of_the_vault(told):
    one = told.written()
    told.commit(table(state=PRE_DELETE), procedure(), statement())
    told.commit(procedure(Step.FINISHED), gone=[table(), one])
    told.remove(one)


@breaks("INV-REC-1")
def a_lineage_that_does_not_follow(told):
    told.commit(counters(), lineage=bytes(range(32)))


@breaks("INV-REC-2")
def a_view_of_another_history(told):
    told.written()
    process = told.process(revision=told.revision)
    told.publish(process, msgspec.structs.replace(process.view, lineage=GENESIS))


@breaks("INV-REC-2")
def a_leap_that_kept_a_deleted_table(told):
    told.written()
    before = told.catalog(told.revision)
    told.commit(table(state=PRE_DELETE), procedure(), statement())
    process = told.process(revision=told.revision)
    told.publish(process, msgspec.structs.replace(process.view, tables=before.tables))


@breaks("INV-REC-3")
def a_first_lease_below_what_was_required(told):
    told.written()
    process = told.process(revision=1)
    told.oracle.saw(LetIn(node=1, incarnation=1, required=told.revision))
    told.lease(process)
