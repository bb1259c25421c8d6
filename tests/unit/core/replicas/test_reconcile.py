"""What a node does with its files: every row of the plan's table."""

import msgspec
import pytest

from leasehold.core.catalog.plan import put
from leasehold.core.replicas.reconcile import (
    BucketPlan,
    OnDisk,
    assigned,
    compare,
    in_turn,
    outdated,
    to_clean,
    waits,
)
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import (
    BucketRecord,
    DroppedRecord,
    ReplacedRecord,
    TransactionRecord,
    TransactionState,
)
from leasehold.limits.replication import RECONCILE_ROUNDS_WHOLE
from leasehold.testing.filled import CatalogManifest
from leasehold.testing.on_disk import by_bucket
from tests.unit.core.catalog_words import Ground, hex_128
from tests.unit.core.replicas.test_replication import segment

ME, TABLE = 1, 2
HERE = (TABLE, 0)
NOTHING = BucketPlan()


def on_disk(number, *, table=TABLE, bucket=0):
    return OnDisk(table, bucket, segment(number).id)


def ground(*, segments=(), state=None, dropped=(), replicas=(1, 3)):
    """Bucket 0 of the table on `replicas`; transaction 1 in `state`."""
    base = Ground(nodes=(1, 2, 3))
    base.put(keys.bucket(TABLE, 0), BucketRecord(table=TABLE, bucket=0, replicas=replicas, in_sync=replicas))
    for one in segments:
        base.put(keys.segment(TABLE, 0, one.id), one)
    if state is not None:
        record = TransactionRecord(id=hex_128(1), order=1, table=TABLE, schema_version=1, state=state, rows=0)
        base.put(keys.transaction(record.id), record)
    for table, pending in dropped:
        base.put(keys.dropped(table), DroppedRecord(table=table, name="db.t", pending=pending))
    return base.catalog


def stored(durable, key):
    return CatalogManifest(lambda: durable).bucket(key)


def planned(durable, *files, known=(), verified=None, damaged=()):
    """Of all buckets at once; `known` are files that lay here when the process started."""
    on_disk, since_start = by_bucket(files), by_bucket(known)
    read = None if verified is None else {HERE: verified}
    whole = {name: [] for name in BucketPlan.__struct_fields__}
    for key in sorted({*assigned(durable, ME), *on_disk}):
        one = compare(
            durable,
            ME,
            key,
            stored(durable, key),
            on_disk.get(key, frozenset()),
            None,
            since_start=since_start.get(key, frozenset()),
            verified=read,
            damaged={HERE: frozenset(damaged)},
        )
        made = one.plan
        assert made.idle == (msgspec.structs.replace(made, kept=()) == NOTHING)
        for name, found in msgspec.structs.asdict(made).items():
            whole[name].extend(found)
    return BucketPlan(**{name: tuple(found) for name, found in whole.items()})


def only(**lists):
    return msgspec.structs.replace(NOTHING, **lists)


def compared(durable, files=(), before=None, **options):
    names, verified = frozenset(one.segment for one in files), options.get("verified")
    there = None if waits(durable, ME, HERE, names, before, verified=verified) else stored(durable, HERE)
    return compare(durable, ME, HERE, there, names, before, **options)


def test_files_of_a_dropped_table_are_cleaned_table_by_table_until_the_leader_has_heard():
    durable = ground(dropped=[(7, (1, 3)), (5, (1,)), (6, (3,))], state=TransactionState.COMMITTED)
    assert to_clean(durable, ME) == (5, 7)
    assert planned(durable, on_disk(1, table=5), on_disk(1, table=7)) == NOTHING, "they go with their tables"
    # A table that was cleaned here once is not reported again, and what turns up of it goes like any other file.
    assert planned(durable, on_disk(1, table=6)) == only(trash=(on_disk(1, table=6),))


def test_a_file_in_the_manifest_that_names_this_node_stays():
    held = segment(1, 1, 3)
    assert planned(ground(segments=[held]), on_disk(1)) == only(kept=(held,))


def test_a_retired_node_keeps_what_it_is_named_for_fetches_nothing_and_says_what_it_lacks():
    base = ground(segments=[segment(1, 1, 3), segment(2, 2, 3), segment(3, 1, 2), segment(4, 2, 3)], replicas=(2, 3))
    retired = msgspec.structs.replace(base.buckets[HERE], retired=(1,))
    durable = base.changed([put(keys.bucket(*HERE), retired)])
    assert assigned(durable, ME) == {HERE}
    assert planned(durable, on_disk(1), on_disk(2)) == only(
        kept=(segment(1, 1, 3),), trash=(on_disk(2),), lost=(segment(3, 1, 2),)
    )


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


def test_a_file_in_the_manifest_that_is_neither_assigned_nor_held_here_goes():
    durable = ground(segments=[segment(1, 3), segment(2, 1, 3)], replicas=(2, 3))
    assert planned(durable, on_disk(1), on_disk(2)) == only(trash=(on_disk(1),), kept=(segment(2, 1, 3),))


def test_no_file_is_kept_by_its_name_alone_where_none_is_believed():
    """But for what nobody else holds: the leader would not strike this node from it, and each read looks."""
    doubted, read, alone = segment(1, 1, 3), segment(2, 1, 3), segment(3, 1, 7)
    files = (on_disk(1), on_disk(2), on_disk(3))
    durable = ground(segments=[doubted, read, alone])
    assert planned(durable, *files, verified={read.id}) == only(doubted=(doubted,), kept=(read, alone))
    assert planned(durable, *files) == only(kept=(doubted, read, alone))


@pytest.mark.parametrize("replicas", [(1, 3), (2, 3)], ids=["assigned", "not assigned"])
@pytest.mark.parametrize("verified", [None, {segment(1).id, segment(2).id}])
def test_a_damaged_file_goes_once_this_node_is_not_named_as_a_holder(replicas, verified):
    """Until then it may be the last copy, however damaged: only the leader knows."""
    held, struck = segment(1, 1, 3), segment(2, 3)
    durable = ground(segments=[held, struck], replicas=replicas)
    plan = planned(durable, on_disk(1), on_disk(2), verified=verified, damaged={held.id, struck.id})
    assert plan == only(damaged=(held,), trash=(on_disk(2),))


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


@pytest.mark.parametrize("step", ["open", "visible", "replaced"])
def test_a_file_is_known_from_its_write_until_it_is_released(step):
    """What the catalog has said anything of, and says nothing of any more, goes."""
    seen = segment(1, 1, 3)
    replaced = put(keys.replaced(TABLE, 0, seen.id), ReplacedRecord(segment=seen))
    before = {
        "open": ground(state=TransactionState.OPEN),
        "visible": ground(segments=[seen]),
        "replaced": ground().changed([replaced]),
    }[step]
    state = compared(before, [on_disk(1)])
    assert state.plan.trash == ()
    assert compared(ground(), [on_disk(1), on_disk(2)], state).plan == only(trash=(on_disk(1),))


def test_a_file_that_came_after_the_last_comparison_waits_for_its_write():
    state = compared(ground(), [on_disk(1)])
    for _ in range(3):
        state = compared(ground(), [on_disk(1)], state)
        assert state.plan == NOTHING
    assert compared(ground(state=TransactionState.ABORTED), [on_disk(1)], state).plan == only(trash=(on_disk(1),))


def test_a_file_in_the_manifest_stays_whatever_became_of_the_record_of_its_write():
    seen = segment(1, 1, 3)
    for state in (None, TransactionState.ABORTED, TransactionState.COMMITTED):
        assert planned(ground(segments=[seen], state=state), on_disk(1), known=(on_disk(1),)) == only(kept=(seen,))


def test_a_segment_lies_where_the_manifest_says_or_it_is_another_file():
    seen = segment(1, 1, 3)
    durable = ground(segments=[seen], state=TransactionState.COMMITTED)
    elsewhere = on_disk(1, bucket=1)
    assert planned(durable, on_disk(1), elsewhere) == only(trash=(elsewhere,), kept=(seen,))


def test_I7_what_is_missing_on_disk_is_told_and_fetched_where_the_manifest_says_it_is_here():
    wiped, lacking = segment(2, 1, 3), segment(1, 3)
    assert planned(ground(segments=[wiped, lacking])) == only(fetch=(lacking, wiped), lost=(wiped,))


def test_everything_at_once_in_a_fixed_order():
    lacking, missed = segment(8, 3), segment(9, 3)
    durable = ground(segments=[missed, lacking], state=TransactionState.ABORTED, dropped=[(7, (1,))])
    files = (on_disk(9), on_disk(1), on_disk(4), on_disk(5, table=7))
    assert to_clean(durable, ME) == (7,)
    assert planned(durable, *files, known=(on_disk(4),)) == only(
        trash=(on_disk(1), on_disk(4)), report=(missed,), fetch=(lacking,)
    )


def test_what_is_missing_is_what_is_visible_in_assigned_buckets_and_not_on_disk():
    others = [segment(4, 3, bucket=1), segment(3, 3)]
    durable = ground(segments=others[1:])
    durable = durable.changed([put(keys.segment(TABLE, 1, others[0].id), others[0])])
    assert assigned(durable, ME) == {HERE}
    assert planned(durable) == only(fetch=(others[1],))
    assert planned(durable, on_disk(3)) == only(report=(others[1],))


# ---------------------------------------------------------------- bucket by bucket


def states(durable, on_disk, before=None, *, verified=None):
    """All buckets as they are now, and which of them were looked at for it."""
    found = dict(before or {})
    due = outdated(durable, ME, on_disk, assigned(durable, ME), found, verified=verified)
    due += in_turn(found, frozenset(due))
    for key in due:
        files = on_disk.get(key, frozenset())
        last = found.pop(key, None)
        there = None if waits(durable, ME, key, files, last, verified=verified) else stored(durable, key)
        found[key] = compare(durable, ME, key, there, files, last, verified=verified)
    return found, due


def many(count):
    """So many buckets, each with a segment that is here."""
    base = Ground(nodes=(1, 3))
    for number in range(count):
        base.put(keys.bucket(TABLE, number), BucketRecord(table=TABLE, bucket=number, replicas=(1, 3), in_sync=(1, 3)))
        one = segment(number, 1, 3, bucket=number)
        base.put(keys.segment(TABLE, number, one.id), one)
    return base.catalog, by_bucket(on_disk(number, bucket=number) for number in range(count))


def test_a_bucket_is_looked_at_again_once_anything_of_it_has_changed():
    durable, here = many(5)
    first, due = states(durable, here)
    assert due == [(TABLE, number) for number in range(5)]
    turn = 1  # one bucket, the longest not looked at, always has its turn
    second, due = states(durable, here, first)
    assert due == [(TABLE, 0)]

    new = segment(9, 3, bucket=3)
    more = durable.changed([put(keys.segment(TABLE, 3, new.id), new)])
    third, due = states(more, here, second)
    assert due[:-turn] == [(TABLE, 3)]
    assert third[TABLE, 3].plan.fetch == (new,)

    without = {key: files for key, files in here.items() if key != (TABLE, 4)}
    fourth, due = states(more, without, third)
    assert due[:-turn] == [(TABLE, 4)]
    assert len(fourth[TABLE, 4].plan.lost) == 1

    moved = put(keys.bucket(TABLE, 1), BucketRecord(table=TABLE, bucket=1, replicas=(3, 7), in_sync=(3,)))
    struck = put(keys.segment(TABLE, 1, segment(1).id), segment(1, 3, bucket=1))
    fifth, due = states(more.changed([moved, struck]), without, fourth)
    assert due[:-turn] == [(TABLE, 1)]
    assert fifth[TABLE, 1].plan.trash == (on_disk(1, bucket=1),)

    dropped = put(keys.dropped(TABLE), DroppedRecord(table=TABLE, name="db.t", pending=(1,)))
    sixth, due = states(more.changed([dropped]), without, fourth)
    assert len(due) == 5
    assert all(one.plan == NOTHING for one in sixth.values())


def test_a_bucket_is_looked_at_again_once_a_file_of_it_is_found_damaged():
    durable, here = many(3)
    found, _ = states(durable, here)
    damaged = {(TABLE, 2): frozenset({segment(2).id})}
    due = outdated(durable, ME, here, assigned(durable, ME), found, verified=None, damaged=damaged)
    assert due == [(TABLE, 2)]
    assert waits(durable, ME, (TABLE, 2), here[TABLE, 2], found[TABLE, 2], damaged=damaged) is False


def test_every_bucket_has_its_turn_though_nothing_seems_to_change():
    durable, here = many(300)
    found, _ = states(durable, here)
    seen = set()
    for _ in range(RECONCILE_ROUNDS_WHOLE):
        found, due = states(durable, here, found)
        assert len(due) <= 3
        seen.update(due)
    assert seen == set(here)


def test_a_stray_is_looked_at_in_each_round_until_its_write_has_ended():
    durable = ground(segments=[segment(2, 1, 3)], state=TransactionState.OPEN)
    here = by_bucket([on_disk(1), on_disk(2)])
    found, _ = states(durable, here)
    for _ in range(3):
        found, due = states(durable, here, found)
        assert due == [HERE]
        assert found[HERE].plan.trash == ()
    ended = TransactionRecord(
        id=hex_128(1), order=1, table=TABLE, schema_version=1, state=TransactionState.ABORTED, rows=0
    )
    found, _ = states(durable.changed([put(keys.transaction(ended.id), ended)]), here, found)
    assert found[HERE].plan == only(trash=(on_disk(1),), kept=(segment(2, 1, 3),))


def test_where_no_file_is_believed_a_bucket_is_looked_at_again_once_one_was_read_or_a_node_is_gone():
    durable, here = many(3)
    read = {}
    found, _ = states(durable, here, verified=read)
    assert all(len(one.plan.doubted) == 1 for one in found.values())
    read[TABLE, 2] = {segment(2).id}
    found, due = states(durable, here, found, verified=read)
    assert due[0] == (TABLE, 2)
    assert [len(found[TABLE, number].plan.kept) for number in range(3)] == [0, 0, 1]
    alone = durable.changed([Change(keys.node(3), None)])
    found, due = states(alone, here, found, verified=read)
    assert len(due) == 3
    assert all(one.plan.doubted == () for one in found.values())
