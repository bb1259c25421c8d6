"""Histories that break one invariant each, made by hand: what proves that the invariants of the store, the vaults, the
disks and the statements would fire. (Those of the lease are proven by `broken.py`.)
"""

import msgspec

from leasehold.core.words.records import Allocated, Claim, Claiming, Joining, Outcome, Step
from leasehold.errors import NotFound, Refused
from leasehold.testing.leases.ground import SETTINGS
from leasehold.testing.vault import VaultStep
from tests.sim.record_words import (
    PRE_DELETE,
    SECOND_NS,
    bucket,
    counters,
    dropped,
    field,
    hex_128,
    node,
    procedure,
    receipt,
    segment,
    statement,
    table,
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


@breaks("INV-ID-2")
def a_process_ended_that_is_the_newest(told):
    told.commit(counters(), node(incarnation=2, session=b"s"))
    told.ended(2, b"s")


@breaks("INV-ID-2")
def a_process_ended_as_if_its_history_were_another(told):
    told.commit(counters(), node(incarnation=2, session=b"s"))
    told.ended(1, b"r", code="DIVERGED")


@breaks("INV-ID-2")
def a_holder_added_by_an_older_incarnation(told):
    one = told.written(segment(holders=(1,)))
    told.report(one, number=2, incarnation=1)
    told.commit(node(2, incarnation=2))
    told.commit(msgspec.structs.replace(one, holders=(1, 2)))


@breaks("INV-ID-2")
def a_member_of_the_sync_state_set_that_reported_nothing(told):
    told.written()
    told.commit(bucket(1, 2, in_sync=(1,)))
    told.commit(node(2, incarnation=1))
    told.commit(bucket(1, 2))


@breaks("INV-ID-2")
def a_node_struck_off_a_drop_for_an_older_incarnation(told):
    told.report(None, number=1, incarnation=1)
    told.commit(counters(), node(1, incarnation=2), dropped(1, 2))
    told.commit(dropped(2))


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
    told.commit(counters(), table(), procedure(Step.PUBLISHED, hides=()), statement())
    told.commit(gone=[procedure()])


@breaks("INV-DDL-1")
def a_statement_above_its_bound(told):
    told.answer(receipt(elapsed_ns=5 * SECOND_NS))


@breaks("INV-DDL-1")
def a_statement_that_takes_longer_than_it_says(told):
    told.commit(SETTINGS)
    at = hidden(told)
    told.real_ns += 4 * SECOND_NS
    told.commit(procedure(Step.FINISHED), gone=[table()])
    told.answer(receipt(revision=at, elapsed_ns=0))


@breaks("INV-DDL-1")
def a_statement_that_has_not_ended_long_after_its_bound(told):
    told.commit(SETTINGS)
    hidden(told)
    told.real_ns += 13 * SECOND_NS
    told.process(revision=told.revision)
    told.commit(counters(10))


@breaks("INV-DDL-1")
def a_statement_resumed_late(told):
    told.commit(SETTINGS)
    at = hidden(told)
    told.elect(2)
    told.real_ns += 10 * SECOND_NS
    told.commit(procedure(Step.FINISHED), gone=[table()])
    told.answer(receipt(revision=at, elapsed_ns=0))


@breaks("INV-DDL-1")
def a_bound_above_what_the_leases_make_it(told):
    told.commit(SETTINGS)
    told.commit(counters(), table())
    told.commit(table(state=PRE_DELETE), procedure(), statement(bound_ns=4 * SECOND_NS + 1))


@breaks("INV-DDL-1")
def a_longer_bound_told_in_the_end(told):
    told.commit(SETTINGS)
    at = hidden(told)
    told.answer(receipt(revision=at, bound_ns=5 * SECOND_NS))


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


EXCLUSIVE = {"table d.t": Claim.EXCLUSIVE}


@breaks("INV-DDL-1")
def a_statement_begun_before_the_change_before_it_was_settled(told):
    told.commit(procedure(Step.PUBLISHED, hides=(), claims=EXCLUSIVE), statement())
    told.commit(procedure(Step.PUBLISHED, hides=(), claims={"table d.t": Claim.SHARED}, number=2), statement(number=2))


@breaks("INV-DDL-1")
def a_statement_begun_before_the_one_before_it_had_ended(told):
    told.elect(1)
    told.commit(counters(), table())
    told.commit(table(state=PRE_DELETE), procedure(claims=EXCLUSIVE), statement())
    told.proceeded()
    told.commit(procedure(Step.PUBLISHED, hides=(), claims=EXCLUSIVE, number=2), statement(number=2))


@breaks("INV-DDL-1")
def a_statement_begun_before_a_rollback_was_settled(told):
    told.elect(1)
    told.commit(counters(), table())
    told.commit(table(state=PRE_DELETE), procedure(claims=EXCLUSIVE), statement())
    told.proceeded()
    told.commit(table(), statement(Outcome.ROLLED_BACK), gone=[procedure()])
    told.commit(procedure(Step.PUBLISHED, hides=(), claims=EXCLUSIVE, number=2), statement(number=2))


@breaks("INV-DDL-1")
def a_rollback_told_before_it_is_durable(told):
    hidden(told)
    told.answer(receipt(Outcome.ROLLED_BACK, revision=None))


@breaks("INV-DDL-1")
def a_pending_change_told_before_its_end_is_durable(told):
    told.commit(counters(), table(), procedure(Step.PUBLISHED, hides=()), statement())
    told.answer(receipt(Outcome.COMMITTED_PENDING))


@breaks("INV-DDL-1")
def a_pending_change_told_as_committed(told):
    told.commit(counters(), table(), procedure(Step.PUBLISHED, hides=()), statement())
    told.commit(statement(Outcome.COMMITTED_PENDING, told.revision), gone=[procedure()])
    told.answer(receipt(revision=told.revision - 1))


@breaks("INV-DROP-1", "INV-REC-1")
def a_file_deleted_before_the_point_of_no_return(told):
    one = told.written()
    told.keep(one, "n3")
    told.remove(one)
