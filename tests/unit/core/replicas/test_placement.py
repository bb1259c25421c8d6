"""Which nodes buckets are placed on as nodes come and go, and what is left of removed ones."""

import msgspec
import pytest

from leasehold.core.catalog.plan import put
from leasehold.core.replicas import placement
from leasehold.core.replicas.replication import place
from leasehold.core.replicas.retired import cleaned_by_removed, cleaning_by_removed, held_by_removed, struck
from leasehold.core.words import keys
from leasehold.core.words.records import BucketRecord, DroppedRecord, TableRecord, UseState
from tests.unit.core.catalog_words import Ground, node
from tests.unit.core.replicas.test_replication import segment

TABLE = 2
MANY = 2**20


def table(number=TABLE, *, replication=2, state=UseState.IN_USE):
    return TableRecord(
        id=number,
        database=1,
        name=f"t{number}",
        state=state,
        schema_version=1,
        fields=(),
        next_field=1,
        cluster_by=None,
        buckets=1,
        replication=replication,
        ttl_ns=None,
        time_column=None,
        properties={},
    )


def ground(*, members=(1, 2, 3), removed=(), others=(), tables=(), buckets=(), segments=()):
    """Nodes of each kind; `others` have joined and are no members."""
    base = Ground(nodes=())
    for number in members:
        base.put(keys.node(number), node(number, member=True))
    for number in others:
        base.put(keys.node(number), node(number))
    for number in removed:
        base.put(keys.node(number), node(number, removed=True))
    for one in tables or (table(),):
        base.put(keys.table(one.id), one)
    for one in buckets:
        base.put(keys.bucket(one.table, one.bucket), one)
    for one in segments:
        base.put(keys.segment(one.table, one.bucket, one.id), one)
    return base.catalog


def bucket(number, *replicas, in_sync=None, of=TABLE):
    return BucketRecord(table=of, bucket=number, replicas=replicas, in_sync=replicas if in_sync is None else in_sync)


def due_buckets(catalog, **nodes):
    return placement.due_buckets(catalog, placement.fleet(catalog, **nodes))


def placed(due, catalog, **nodes):
    return placement.placed(due, catalog, placement.fleet(catalog, **nodes))


def after(catalog, due=None):
    """The replicas and sync-state sets of all buckets once those that are due were placed."""
    catalog = catalog.changed(placed(due_buckets(catalog) if due is None else due, catalog))
    assert due_buckets(catalog) == [] or due is not None or placed(due_buckets(catalog), catalog) == ()
    return {key[1]: (one.replicas, one.in_sync) for key, one in catalog.buckets.items()}


def test_a_bucket_whose_replicas_are_all_there_is_left_alone():
    catalog = ground(buckets=[bucket(0, 1, 2), bucket(1, 2, 3, in_sync=(3,))])
    assert due_buckets(catalog) == []
    assert placed([(TABLE, 0), (TABLE, 1), (TABLE, 7)], catalog) == ()


def test_a_removed_replica_is_replaced_by_the_least_loaded_member():
    buckets = [bucket(0, 9, 1), bucket(1, 1, 2), bucket(2, 2, 1)]
    catalog = ground(removed=(9,), buckets=buckets, segments=[segment(1, 1, 9)])
    assert due_buckets(catalog) == [(TABLE, 0)]
    assert after(catalog)[0] == ((1, 3), (1,)), "it lacks a segment, and is not in sync before it holds that"


def test_an_empty_bucket_lacks_nothing():
    assert after(ground(removed=(9,), buckets=[bucket(0, 1, 9)]))[0] == ((1, 2), (1, 2))


def test_buckets_of_a_removed_node_spread_over_those_that_are_left():
    catalog = ground(members=(1, 2, 3, 4), removed=(9,), buckets=[bucket(number, 1, 9) for number in range(6)])
    chosen = [replicas[1] for replicas, _ in after(catalog).values()]
    assert sorted(chosen) == [2, 2, 3, 3, 4, 4]


def test_only_members_of_the_logical_topology_are_chosen():
    catalog = ground(members=(1,), others=(2,), removed=(9,), buckets=[bucket(0, 1, 9)])
    assert after(catalog)[0] == ((1,), (1,)), "with fewer replicas rather than with one that can't serve"
    assert due_buckets(catalog.changed(placed([(TABLE, 0)], catalog))) == []


def test_an_under_replicated_bucket_is_due_once_there_is_a_member_for_it():
    buckets = [bucket(0, 1), bucket(1, 2, 1)]
    assert due_buckets(ground(members=(1,), others=(2,), buckets=buckets)) == []
    catalog = ground(members=(1, 2), buckets=buckets, segments=[segment(1, 1)])
    assert due_buckets(catalog) == [(TABLE, 0)]
    assert after(catalog)[0] == ((1, 2), (1,))


def test_a_bucket_has_no_more_replicas_than_its_table_wants():
    catalog = ground(members=(1, 2, 3, 4), tables=[table(replication=3)], removed=(9,), buckets=[bucket(0, 9)])
    assert after(catalog)[0][0] == (1, 2, 3)


def test_of_a_table_that_is_being_dropped_no_bucket_is_placed():
    tables = [table(state=UseState.PRE_DELETE)]
    assert due_buckets(ground(tables=tables, buckets=[bucket(0, 1)])) == []
    catalog = ground(tables=tables, removed=(9,), buckets=[bucket(0, 1, 9)])
    assert after(catalog)[0] == ((1,), (1,)), "but nobody waits for the removed node to delete it"


def test_what_was_found_a_while_ago_does_no_harm():
    catalog = ground(removed=(9,), buckets=[bucket(0, 1, 9), bucket(1, 1, 2)])
    due = [(TABLE, 0), (TABLE, 1), (7, 0)]
    once = catalog.changed(placed(due, catalog))
    assert placed(due, once) == ()


# ---------------------------------------------------------------- nodes that drain


def drained(catalog, *, by=1):
    return catalog.changed([put(keys.node(by), node(by, member=True, draining=True))])


def test_a_node_that_drains_gives_up_its_replica_once_another_one_is_in_sync():
    catalog = drained(ground(buckets=[bucket(0, 1, 2)], segments=[segment(1, 1, 2)]))
    catalog = catalog.changed(placed(due_buckets(catalog), catalog))
    found = catalog.buckets[TABLE, 0]
    assert (found.replicas, found.in_sync, found.retired) == ((1, 2, 3), (1, 2), ())
    assert due_buckets(catalog) == [], "it waits for the copy"
    whole = catalog.changed([put(keys.bucket(TABLE, 0), msgspec.structs.replace(found, in_sync=(1, 2, 3)))])
    found = whole.changed(placed(due_buckets(whole), whole)).buckets[TABLE, 0]
    assert (found.replicas, found.in_sync, found.retired) == ((2, 3), (2, 3), (1,))


def test_where_no_other_node_is_there_a_node_that_drains_stays():
    catalog = drained(ground(members=(1, 2), buckets=[bucket(0, 1, 2)]))
    assert due_buckets(catalog) == []


def test_a_node_that_drains_gets_no_bucket():
    catalog = drained(ground(removed=(9,), buckets=[bucket(0, 9, 2)]))
    assert after(catalog)[0][0] == (2, 3)
    (new,) = place(catalog, table=9, buckets=1, replication=2, serving=(1, 2, 3))
    assert set(new.replicas) == {2, 3}


def test_a_node_that_may_have_buckets_again_keeps_what_it_still_has():
    """The copy that was to replace it is not finished: it goes."""
    catalog = ground(buckets=[bucket(0, 1, 2, 3, in_sync=(1, 2))])
    found = catalog.changed(placed(due_buckets(catalog), catalog)).buckets[TABLE, 0]
    assert (found.replicas, found.retired) == ((1, 2), (3,))


# ---------------------------------------------------------------- nodes that are away


def test_a_node_that_is_away_for_too_long_is_replaced_and_given_up_once_the_other_one_is_in_sync():
    catalog = ground(others=(9,), buckets=[bucket(0, 9, 2)], segments=[segment(1, 2, 9)])
    assert due_buckets(catalog) == []
    catalog = catalog.changed(placed(due_buckets(catalog, away={9}), catalog, away={9}))
    found = catalog.buckets[TABLE, 0]
    assert (found.replicas, found.in_sync) == ((9, 2, 1), (9, 2))
    assert due_buckets(catalog, away={9}) == []
    whole = catalog.changed([put(keys.bucket(TABLE, 0), msgspec.structs.replace(found, in_sync=(9, 2, 1)))])
    found = whole.changed(placed(due_buckets(whole, away={9}), whole, away={9})).buckets[TABLE, 0]
    assert (found.replicas, found.retired) == ((2, 1), (9,))


def test_a_node_that_is_away_gets_nothing_and_does_not_count_as_a_copy():
    buckets = [bucket(0, 1, 2, in_sync=(2,)), bucket(1, 1, 2, 3)]
    catalog = ground(members=(1, 2, 3), buckets=buckets)
    assert due_buckets(catalog, away={3}) == [(TABLE, 1)]
    assert catalog.changed(placed([(TABLE, 1)], catalog, away={3})).buckets[TABLE, 1].replicas == (1, 2)
    assert due_buckets(ground(buckets=[bucket(0, 1, 2, 3)]), away={2, 3}) == [], "one of two is too few"


# ---------------------------------------------------------------- racks


def in_racks(catalog, **racks):
    """The node n1 is in the rack that `n1` says, and so on."""
    for name, rack in racks.items():
        record = catalog.nodes[int(name[1:])]
        catalog = catalog.changed([put(keys.node(record.id), msgspec.structs.replace(record, rack=rack))])
    return catalog


def test_a_new_bucket_is_placed_in_different_racks_where_there_are_enough():
    catalog = in_racks(ground(members=(1, 2, 3, 4)), n1="a", n2="a", n3="a", n4="b")
    options = {"table": 9, "buckets": 3, "serving": (1, 2, 3, 4)}
    pairs = [set(one.replicas) for one in place(catalog, replication=2, **options)]
    assert pairs == [{1, 4}, {2, 4}, {3, 4}]
    assert all(4 in one.replicas for one in place(catalog, replication=3, **options))


def test_a_replica_is_added_in_another_rack_though_its_node_is_more_loaded():
    buckets = [bucket(0, 1), bucket(1, 4, 1), bucket(2, 4, 1)]
    catalog = in_racks(ground(members=(1, 2, 4), buckets=buckets, segments=[segment(1, 1)]), n1="a", n2="a", n4="b")
    assert after(catalog)[0][0] == (1, 4)


def test_a_bucket_that_lies_in_one_rack_moves_to_another_one():
    buckets = [bucket(0, 1, 2)]
    catalog = in_racks(ground(members=(1, 2, 4), buckets=buckets, segments=[segment(1, 1, 2)]), n1="a", n2="a", n4="b")
    assert due_buckets(catalog) == [(TABLE, 0)]
    catalog = catalog.changed(placed([(TABLE, 0)], catalog))
    found = catalog.buckets[TABLE, 0]
    assert (found.replicas, found.in_sync) == ((1, 2, 4), (1, 2))
    assert due_buckets(catalog) == [], "it waits for the copy"
    whole = catalog.changed([put(keys.bucket(TABLE, 0), msgspec.structs.replace(found, in_sync=(1, 2, 4)))])
    found = whole.changed(placed(due_buckets(whole), whole)).buckets[TABLE, 0]
    assert (found.replicas, found.retired) == ((1, 4), (2,))


@pytest.mark.parametrize(
    "racks", [{"n1": "a", "n2": "a", "n3": "a"}, {"n1": "a", "n2": "a", "n3": "b"}, {"n1": "a", "n2": "b", "n3": "b"}]
)
def test_a_bucket_that_no_move_would_spread_better_stays(racks):
    catalog = in_racks(
        ground(tables=[table(replication=3)], buckets=[bucket(0, 1, 2, 3)], members=(1, 2, 3, 4)), **racks
    )
    assert due_buckets(in_racks(catalog, n4="a")) == []
    assert due_buckets(catalog) == ([(TABLE, 0)]), "a node without a rack is one of its own"


# ---------------------------------------------------------------- more replicas than a table wants


def lowered(*buckets, replication=1, **nodes):
    """The buckets of a table that wants fewer replicas than they have, once they were placed: replicas, retired."""
    catalog = ground(tables=[table(replication=replication)], buckets=buckets, **nodes)
    catalog = catalog.changed(placed(due_buckets(catalog), catalog))
    assert due_buckets(catalog) == []
    return [(one.replicas, one.retired) for _, one in sorted(catalog.buckets.items())]


def test_surplus_replicas_on_the_most_loaded_nodes_are_retired():
    assert lowered(bucket(0, 1, 2), bucket(1, 2, 1), bucket(2, 1, 3), bucket(3, 3, 1)) == [
        ((2,), (1,)),
        ((2,), (1,)),
        ((1,), (3,)),
        ((3,), (1,)),
    ]


def test_of_surplus_replicas_what_is_not_in_sync_goes_first_and_then_what_is_away():
    assert lowered(bucket(0, 1, 2, 3, in_sync=(2, 3)), replication=2) == [((2, 3), (1,))]
    assert lowered(bucket(0, 1, 2, 3), replication=2, members=(2, 3), others=(1,)) == [((2, 3), (1,))]


def test_no_replica_goes_while_too_few_others_are_in_sync_and_there():
    assert lowered(bucket(0, 1, 2, 3, in_sync=(1,)), replication=2) == [((1, 2, 3), ())]
    assert lowered(bucket(0, 1, 2), members=(), others=(1, 2)) == [((1, 2), ())], "nobody can read what it holds"
    assert lowered(bucket(0, 1, 2, in_sync=())) == [((1, 2), ())]
    leaving = ground(tables=[table(replication=1)], buckets=[bucket(0, 1, 2)])
    assert due_buckets(leaving, leaving={1, 2}) == []


def test_a_bucket_notes_which_writes_may_have_reached_what_it_retires():
    catalog = ground(tables=[table(replication=1)], buckets=[bucket(0, 1, 2)])
    counters = msgspec.structs.replace(catalog.counters, next_transaction=7)
    catalog = catalog.changed([put(keys.COUNTERS, counters)])
    (changed,) = [catalog.changed(placed(due_buckets(catalog), catalog)).buckets[TABLE, 0]]
    assert (changed.replicas, changed.in_sync, changed.retired, changed.retired_below) == ((1,), (1,), (2,), 7)


def test_a_retired_node_is_the_first_to_be_a_replica_again_and_in_sync_if_it_holds_all():
    retired = msgspec.structs.replace(bucket(0, 1), retired=(3, 4), retired_below=7)
    for holders, in_sync in (((1, 3, 4), (1, 3)), ((1,), (1,))):
        catalog = ground(members=(1, 2, 3, 4), buckets=[retired], segments=[segment(1, 1, 3), segment(2, *holders)])
        found = catalog.changed(placed(due_buckets(catalog), catalog)).buckets[TABLE, 0]
        assert (found.replicas, found.in_sync, found.retired) == ((1, 3), in_sync, (4,))


# ---------------------------------------------------------------- what removed nodes held


def test_a_removed_node_is_struck_off_what_it_held():
    entries = [segment(1, 1, 9), segment(2, 1, 2), segment(3, 9)]
    catalog = ground(removed=(9,), buckets=[bucket(0, 1, 2)], segments=entries)
    due = held_by_removed(catalog)
    assert [name for _, _, name in due] == [entries[0].id, entries[2].id]
    changes, taken = struck(due, catalog, MANY)
    found = catalog.changed(changes).segments[TABLE, 0]
    assert (taken, held_by_removed(catalog.changed(changes))) == (2, [])
    assert [found[one.id].holders for one in entries] == [(1,), (1, 2), ()]
    assert found[entries[0].id] == msgspec.structs.replace(entries[0], holders=(1,))


def test_entries_are_struck_in_slices_of_so_many_bytes_and_one_at_least():
    entries = [segment(number, 1, 9) for number in range(1, 5)]
    catalog = ground(removed=(9,), buckets=[bucket(0, 1)], segments=entries)
    due = held_by_removed(catalog)
    sizes = [len(change.value) for change in struck(due, catalog, MANY)[0]]
    assert struck(due, catalog, 1)[1] == 1
    assert struck(due, catalog, sum(sizes[:3]))[1] == 3
    assert struck(due, catalog, sum(sizes[:3]) - 1)[1] == 2
    gone = catalog.changed(struck(due, catalog, 1)[0])
    assert struck(due, gone, 1)[1] == 2, "what needs no change takes no room"
    assert struck([(7, 0, due[0][2])], catalog, 1) == ((), 1)


@pytest.mark.parametrize("left", [(), (2,)])
def test_nobody_waits_for_a_removed_node_to_delete_files(left):
    base = Ground(nodes=())
    for number, is_removed in ((2, False), (8, True), (9, True)):
        base.put(keys.node(number), node(number, removed=is_removed))
    base.put(keys.dropped(5), DroppedRecord(table=5, name="d.t", pending=(*left, 8, 9)))
    base.put(keys.dropped(6), DroppedRecord(table=6, name="d.u", pending=(2,)))
    catalog = base.catalog
    assert cleaning_by_removed(catalog) == [5]
    catalog = catalog.changed(cleaned_by_removed([5, 6, 7], catalog))
    assert cleaning_by_removed(catalog) == []
    assert {table: one.pending for table, one in catalog.dropped.items()} == {6: (2,)} | ({5: left} if left else {})


def test_a_node_that_is_about_to_be_removed_gets_no_bucket():
    catalog = ground(members=(1, 2, 3), removed=(9,), buckets=[bucket(0, 1, 9), bucket(1, 3)])
    assert due_buckets(catalog, leaving={2}) == [(TABLE, 0), (TABLE, 1)]
    chosen = catalog.changed(placed([(TABLE, 0), (TABLE, 1)], catalog, leaving={2})).buckets
    assert (chosen[TABLE, 0].replicas, chosen[TABLE, 1].replicas) == ((1, 3), (3, 1))
    assert due_buckets(ground(members=(1, 2), buckets=[bucket(0, 1)]), leaving={2}) == [], "it waits for another one"
