"""What a node does with its files: every row of the plan's table."""

import pytest

from leasehold.core import keys
from leasehold.core.plan import put
from leasehold.core.reconcile import OnDisk, Plan, is_known, plan
from leasehold.core.records import BucketRecord, DroppedRecord, ReplacedRecord, TransactionRecord, TransactionState
from tests.unit.core.catalog_words import Ground, hex_128
from tests.unit.core.test_replication import segment

ME, TABLE = 1, 2
NOTHING = Plan(clean=(), trash=(), report=(), fetch=())


def on_disk(number, *, table=TABLE, bucket=0):
    return OnDisk(table, bucket, segment(number).id)


def ground(*, segments=(), state=None, dropped=(), replicas=(1, 3)):
    """Bucket 0 of the table on `replicas`; transaction 1 in `state`."""
    base = Ground()
    base.put(keys.bucket(TABLE, 0), BucketRecord(table=TABLE, bucket=0, replicas=replicas, in_sync=replicas))
    for one in segments:
        base.put(keys.segment(TABLE, 0, one.id), one)
    if state is not None:
        record = TransactionRecord(id=hex_128(1), order=1, table=TABLE, schema_version=1, state=state, rows=0)
        base.put(keys.transaction(record.id), record)
    for table, pending in dropped:
        base.put(keys.dropped(table), DroppedRecord(table=table, name="db.t", pending=pending))
    return base.catalog


def planned(durable, *files, known=()):
    made = plan(durable, ME, set(files), known)
    assert made.idle == (made == NOTHING)
    assert plan(durable, ME, set(files), known) == made
    return made


def only(**lists):
    return Plan(**{"clean": (), "trash": (), "report": (), "fetch": (), **lists})


def test_files_of_a_dropped_table_are_cleaned_table_by_table_until_the_leader_has_heard():
    durable = ground(dropped=[(7, (1, 3)), (5, (1,)), (6, (3,))], state=TransactionState.COMMITTED)
    assert planned(durable) == only(clean=(5, 7))
    assert planned(durable, on_disk(1, table=5), on_disk(1, table=7)) == only(clean=(5, 7))
    # A table that was cleaned here once is not reported again, and what turns up of it goes like any other file.
    assert planned(durable, on_disk(1, table=6)) == only(clean=(5, 7), trash=(on_disk(1, table=6),))


def test_a_file_in_the_manifest_that_names_this_node_stays():
    assert planned(ground(segments=[segment(1, 1, 3)]), on_disk(1)) == NOTHING


@pytest.mark.parametrize("here", [True, False])
def test_what_a_rewrite_replaced_stays_and_is_not_fetched_until_it_is_released(here):
    """Its write transaction has long ended: the record says that scans may still read it."""
    durable = ground(state=TransactionState.COMMITTED)
    kept = durable.changed([put(keys.replaced(TABLE, 0, segment(1).id), ReplacedRecord(segment=segment(1, 1, 3)))])
    files = [on_disk(1)] if here else []
    assert planned(kept, *files) == NOTHING
    assert planned(durable, *files) == (only(trash=(on_disk(1),)) if here else NOTHING)


def test_a_file_in_the_manifest_that_does_not_name_this_node_is_reported():
    missed = segment(1, 3)
    assert planned(ground(segments=[missed]), on_disk(1)) == only(report=(missed,))


def test_a_file_in_the_manifest_of_a_bucket_that_is_not_ours_is_left_alone():
    assert planned(ground(segments=[segment(1, 3)], replicas=(2, 3)), on_disk(1)) == NOTHING


@pytest.mark.parametrize("known", [(), (on_disk(1),)])
@pytest.mark.parametrize(
    ("state", "goes"),
    [(TransactionState.ABORTED, True), (TransactionState.COMMITTED, True), (TransactionState.OPEN, False)],
)
def test_a_file_that_is_not_in_the_manifest_goes_once_its_write_has_ended(state, goes, known):
    trash = only(trash=(on_disk(1),)) if goes else NOTHING
    assert planned(ground(state=state), on_disk(1), known=known) == trash


def test_a_file_of_an_unknown_write_goes_only_if_it_was_known_before():
    durable = ground()
    assert planned(durable, on_disk(1)) == NOTHING
    assert planned(durable, on_disk(1), known=(on_disk(2),)) == NOTHING
    assert planned(durable, on_disk(1), on_disk(2), known=(on_disk(2),)) == only(trash=(on_disk(2),))


def test_a_file_is_known_from_its_write_until_it_is_released():
    seen = segment(1, 1, 3)
    replaced = put(keys.replaced(TABLE, 0, seen.id), ReplacedRecord(segment=seen))
    steps = (ground(state=TransactionState.OPEN), ground(segments=[seen]), ground().changed([replaced]))
    assert all(is_known(durable, on_disk(1)) for durable in steps)
    assert not any(is_known(durable, on_disk(2)) for durable in steps)
    assert not is_known(ground(), on_disk(1))


def test_a_file_in_the_manifest_stays_whatever_became_of_the_record_of_its_write():
    seen = segment(1, 1, 3)
    for state in (None, TransactionState.ABORTED, TransactionState.COMMITTED):
        assert planned(ground(segments=[seen], state=state), on_disk(1), known=(on_disk(1),)) == NOTHING


def test_a_segment_lies_where_the_manifest_says_or_it_is_another_file():
    seen = segment(1, 1, 3)
    durable = ground(segments=[seen], state=TransactionState.COMMITTED)
    elsewhere = on_disk(1, bucket=1)
    assert planned(durable, on_disk(1), elsewhere) == only(trash=(elsewhere,))


def test_what_is_missing_on_disk_is_fetched_even_if_the_manifest_says_it_is_here():
    wiped, lacking = segment(2, 1, 3), segment(1, 3)
    assert planned(ground(segments=[wiped, lacking])) == only(fetch=(lacking, wiped))


def test_everything_at_once_in_a_fixed_order():
    lacking, missed = segment(8, 3), segment(9, 3)
    durable = ground(segments=[missed, lacking], state=TransactionState.ABORTED, dropped=[(7, (1,))])
    files = (on_disk(9), on_disk(1), on_disk(4), on_disk(5, table=7))
    assert planned(durable, *files, known=(on_disk(4),)) == Plan(
        clean=(7,), trash=(on_disk(1), on_disk(4)), report=(missed,), fetch=(lacking,)
    )
