"""More histories that break one invariant each: writes, replicas and recovery."""

from collections import Counter

import msgspec

from leasehold.core.words.lineage import GENESIS
from leasehold.core.words.records import Step, TransactionState
from leasehold.testing.leases.ground import SETTINGS
from leasehold.testing.news import LetIn
from leasehold.testing.vault import VaultStep
from tests.sim.broken_histories import BROKEN, breaks
from tests.sim.record_words import PRE_DELETE, counters, field, procedure, segment, statement, table, transaction

__all__ = ["BROKEN"]

TWO_IN_SYNC = msgspec.structs.replace(SETTINGS, min_in_sync=2)

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


@breaks("INV-SCAN-1")
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
def a_commit_with_fewer_copies_than_the_settings_ask_for(told):
    told.written(settings=TWO_IN_SYNC, hosts=("n1",))


@breaks("INV-REP-1")
def a_commit_with_fewer_copies_than_its_table_asks_for(told):
    told.written(hosts=("n1",))
    told.commit(msgspec.structs.replace(table(), min_in_sync=2))
    late = segment(8)
    told.keep(late, "n1")
    told.commit(transaction(number=8), late)


@breaks("INV-REP-1")
def one_of_two_promised_copies_lost_in_a_crash(told):
    told.written(settings=TWO_IN_SYNC)
    told.commit(SETTINGS)
    told.disks["n1"].files.clear()
    told.oracle.machine_crashed("n1")
    told.step()


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
def a_leap_that_kept_a_deleted_key(told):
    told.written()
    image = told.image(told.revision)
    image.items[b"c/node/0000000009"] = b""
    told.hold(image, step=VaultStep.LEAPT)


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
