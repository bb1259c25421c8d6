"""More histories that break one invariant each: writes, replicas and recovery."""

from collections import Counter

import msgspec

from leasehold.core.words.lineage import GENESIS
from leasehold.core.words.messages import FieldFilter
from leasehold.core.words.records import Step, TransactionState
from leasehold.testing.leases.ground import SETTINGS
from leasehold.testing.news import LetIn
from leasehold.testing.vault import VaultStep
from leasehold.testing.write_news import WriteEnded
from tests.sim.broken_histories import BROKEN, breaks
from tests.sim.record_words import (
    PRE_DELETE,
    counters,
    delete,
    field,
    hex_128,
    procedure,
    segment,
    segment_id,
    statement,
    table,
    transaction,
)

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


# ---------------------------------------------------------------- writes that replace rows

FROM_5 = (FieldFilter(field=field(1), operator=">=", values=("5",)),)
LEFT = (0, 1, 2, 3, 4)
ADDED = (10, 11)


def numbered(*rows):
    return Counter(map(str, rows))


def ten_rows(told):
    """A table with one segment, which has the rows 0 .. 9."""
    one = told.written()
    told.wrote(**numbered(*range(10)))
    return one


def overwrites(told, *old, rows=(*LEFT, *ADDED), gone=None):
    """A write takes the place of the rows from 5 on, in these segments. Its own one, the answer, has these `rows`."""
    new = msgspec.structs.replace(segment(8, rows=len(rows)), deletes=1)
    told.keep(new, "n1", "n2")
    put = {new.id: numbered(*rows)}
    replaces, kept = frozenset(one.id for one in old), len(rows) - len(ADDED)
    told.writes(8, numbered(*ADDED), put, where=FROM_5, replaces=replaces, kept=kept)
    told.commit(transaction(number=8, rows=len(rows)), new, gone=old if gone is None else gone)
    return new


def a_sound_overwrite(told):
    old = ten_rows(told)
    before = told.revision
    new = overwrites(told, old)
    told.oracle.saw(WriteEnded(transaction=hex_128(8), committed=True))
    told.scan(numbered(*range(10)), revision=before)
    told.scan({old.id: 10}, revision=before)
    told.release(rows=(8, 9))
    told.scan(numbered(*LEFT, *ADDED))
    told.scan({new.id: 7})
    told.release(rows=(4, 10), segment=new.id)
    # Of a scan that was planned before, a DELETE takes rows of the old segment: its cutoff is later.
    told.commit(delete(number=2), table())
    told.scan(numbered(*LEFT, *ADDED) - numbered(3))
    told.scan(numbered(*range(10)) - numbered(3), revision=before, cutoff=told.revision, deletes=2)


@breaks("INV-WRITE-2")
def an_overwrite_that_leaves_the_old_rows(told):
    overwrites(told, ten_rows(told), gone=())


@breaks("INV-WRITE-2")
def an_overwrite_that_loses_a_row_that_it_keeps(told):
    overwrites(told, ten_rows(told), rows=(*LEFT[1:], *ADDED))


@breaks("INV-WRITE-2")
def an_overwrite_that_doubles_a_row_that_it_keeps(told):
    overwrites(told, ten_rows(told), rows=(0, *LEFT, *ADDED))


@breaks("INV-WRITE-2")
def an_overwrite_that_keeps_a_row_that_it_replaces(told):
    overwrites(told, ten_rows(told), rows=(*LEFT, 5, *ADDED))


@breaks("INV-WRITE-2")
def an_overwrite_that_brings_a_deleted_row_back(told):
    old = ten_rows(told)
    told.commit(delete(), table())
    overwrites(told, old)


@breaks("INV-WRITE-2")
def an_overwrite_that_leaves_rows_which_were_added_meanwhile(told):
    old = ten_rows(told)
    late = segment(9, rows=1)
    told.keep(late, "n1", "n2")
    told.writes(9, numbered(12), {late.id: numbered(12)})
    told.commit(transaction(number=9, rows=1), late)
    overwrites(told, old)


@breaks("INV-WRITE-2")
def an_overwrite_that_takes_a_segment_which_it_does_not_name(told):
    old = ten_rows(told)
    late = segment(9, rows=1)
    told.keep(late, "n1", "n2")
    told.writes(9, numbered(12), {late.id: numbered(12)})
    told.commit(transaction(number=9, rows=1), late)
    overwrites(told, old, gone=(old, late))


@breaks("INV-WRITE-2")
def a_segment_that_leaves_the_manifest_by_itself(told):
    told.commit(gone=[told.written()])


@breaks("INV-SCAN-1")
def a_scan_from_before_an_overwrite_that_sees_its_rows(told):
    old = ten_rows(told)
    before = told.revision
    overwrites(told, old)
    told.scan(numbered(*LEFT, *ADDED), revision=before)


@breaks("INV-SCAN-1")
def a_scan_that_sees_old_rows_beside_those_that_replace_them(told):
    overwrites(told, ten_rows(told))
    told.scan(numbered(*range(10), *ADDED))


@breaks("INV-WRITE-2")
def a_batch_of_a_segment_that_is_not_committed(told):
    ten_rows(told)
    told.release(rows=(10,), segment=segment_id(8))


@breaks("INV-WRITE-2")
def a_write_told_as_committed_that_is_not(told):
    ten_rows(told)
    told.oracle.saw(WriteEnded(transaction=hex_128(8), committed=True))
    told.step()


@breaks("INV-WRITE-2")
def a_write_that_is_committed_after_its_client_heard_that_it_is_not(told):
    old = ten_rows(told)
    told.oracle.saw(WriteEnded(transaction=hex_128(8), committed=False))
    overwrites(told, old)


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
