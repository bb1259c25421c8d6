"""What a rebalance moves: as little as brings the nodes together, and nothing that is due otherwise."""

import itertools
from collections import Counter

import msgspec

from leasehold.core.catalog.plan import put
from leasehold.core.replicas import placement, spread
from leasehold.core.replicas.spread import Sizes, planned
from leasehold.core.words import keys
from leasehold.core.words.records import UseState
from leasehold.limits.membership import (
    MOVES_AT_ONCE,
    MOVES_OF_NODE_MAX,
    MOVING_BYTES_OF_NODE_MAX,
    ROW_WEIGHT_BYTES,
    SPREAD_PERCENT,
)
from tests.unit.core.catalog_words import node
from tests.unit.core.replicas.test_placement import TABLE, bucket, ground, table
from tests.unit.core.replicas.test_replication import segment

MIB = 2**20


def held(number, size_bytes, *nodes, rows=1, of=TABLE, **fields):
    """A bucket with one segment, of which a node holds all."""
    made = msgspec.structs.replace(bucket(number, *nodes, of=of), **fields)
    entry = segment(1000 * of + number, *made.in_sync, table=of, bucket=number)
    return made, msgspec.structs.replace(entry, size_bytes=size_bytes, rows=rows)


def filled(*pairs, racks=None, **fields):
    catalog = ground(buckets=[one for one, _ in pairs], segments=[one for _, one in pairs], **fields)
    named = [put(keys.node(one), node(one, member=True, rack=rack)) for one, rack in (racks or {}).items()]
    return catalog.changed([*named, put(keys.CLUSTER, msgspec.structs.replace(catalog.cluster, rebalancing=True))])


def plan(catalog, *, percent=SPREAD_PERCENT, **nodes):
    return planned(catalog, placement.fleet(catalog, **nodes), Sizes().of(catalog), percent=percent)


def moves(catalog, **nodes):
    return [(one.bucket, one.source, one.target) for one in plan(catalog, **nodes)]


def step(catalog):
    """The next step of the rebalance."""
    found = plan(catalog)
    return catalog.changed(spread.continued(found, Sizes().of(catalog), catalog, placement.fleet(catalog)))


def copied(catalog):
    """Once all replicas hold all."""
    changes = []
    for key, one in catalog.buckets.items():
        changes.append(put(keys.bucket(*key), msgspec.structs.replace(one, in_sync=one.replicas)))
        changes.extend(
            put(keys.segment(*key, entry.id), msgspec.structs.replace(entry, holders=one.replicas))
            for entry in catalog.segments.passing(key)
        )
    catalog = catalog.changed(changes)
    nodes = placement.fleet(catalog)
    return catalog.changed(placement.placed(placement.due_buckets(catalog, nodes), catalog, nodes))


def carried_out(catalog, *, most=1000):
    """The rebalance to its end; also which bytes it copied."""
    moved = 0
    for _ in range(most):
        if not catalog.cluster.rebalancing:
            return catalog, moved
        after = step(catalog)
        moved += sum(size(after, key) for key in after.moving)
        catalog = copied(after)
        assert not len(catalog.moving)
    raise AssertionError("it does not end")


def size(catalog, key):
    return sum(one.size_bytes for one in catalog.segments.passing(key))


def loads(catalog):
    """The weight on each node."""
    found = dict.fromkeys((one.id for one in catalog.nodes.values() if one.member), 0)
    sizes = Sizes().of(catalog)
    for key, one in catalog.buckets.items():
        for replica in one.replicas:
            found[replica] += sizes.get(key, spread.Size()).weight
    return found


def three_full(count=12, size_bytes=MIB, members=(1, 2, 3, 4)):
    pairs = itertools.cycle([(1, 2), (2, 3), (3, 1)])
    return filled(*(held(number, size_bytes, *next(pairs)) for number in range(count)), members=members)


# ---------------------------------------------------------------- what is planned


def test_an_empty_node_gets_its_share_and_no_byte_more_moves():
    catalog = three_full()
    found = plan(catalog)
    assert [one.target for one in found] == [4] * 6, "24 replicas on 4 nodes"
    assert Counter(one.source for one in found) == {1: 2, 2: 2, 3: 2}
    after, moved = carried_out(catalog)
    assert Counter(node for one in after.buckets.values() for node in one.replicas) == {1: 6, 2: 6, 3: 6, 4: 6}
    assert moved == 6 * MIB
    assert plan(after) == []


def test_nodes_within_the_tolerance_are_left_alone():
    assert moves(three_full(members=(1, 2, 3))) == []
    few = [held(number, MIB, 1 + number % 2) for number in range(40)]
    more = held(40, MIB, 1)
    tables = [table(replication=1)]
    assert moves(filled(*few, more, tables=tables, members=(1, 2))) == []
    assert moves(filled(*few, more, held(41, MIB, 1), tables=tables, members=(1, 2))) == []
    many = [held(42 + number, MIB, 1) for number in range(4)]
    assert [one[1:] for one in moves(filled(*few, more, *many, tables=tables, members=(1, 2)))] == [(1, 2)] * 2


def test_one_bucket_that_is_larger_than_the_difference_stays():
    tables = [table(replication=1)]
    assert moves(filled(held(0, 9 * MIB, 1), members=(1, 2), tables=tables)) == []
    assert moves(filled(held(0, 9 * MIB, 1), held(1, 8 * MIB, 1), members=(1, 2), tables=tables)) == [(1, 1, 2)]
    assert moves(filled(held(0, 9 * MIB, 1), held(1, 8 * MIB, 2), members=(1, 2), tables=tables)) == []


def test_a_bucket_moves_across_the_mean_only_if_that_halves_the_difference():
    tables = [table(replication=1)]
    two = held(0, 6 * MIB, 1), held(1, 6 * MIB, 1)
    assert moves(filled(*two, held(2, 3 * MIB, 2), members=(1, 2), tables=tables)) == [(0, 1, 2)]
    assert moves(filled(*two, held(2, 5 * MIB, 2), members=(1, 2), tables=tables)) == []


def test_rows_count_where_they_take_few_bytes_and_so_do_empty_buckets():
    tables = [table(replication=1)]
    dense = [held(number, 1, 1, rows=10 * MIB) for number in range(2)]
    assert len(moves(filled(*dense, held(2, 40 * MIB, 2), members=(1, 2), tables=tables))) == 1
    assert dense[0][1].rows * ROW_WEIGHT_BYTES == 80 * MIB
    empty = [bucket(number, 1) for number in range(10)]
    assert len(moves(ground(members=(1, 2), tables=tables, buckets=empty))) == 5


def test_a_new_node_gets_a_part_of_each_table():
    tables = [table(number, replication=1) for number in (2, 3, 4)]
    pairs = [held(number, MIB, 1 + number % 3, of=of) for of in (2, 3, 4) for number in range(12)]
    found = plan(filled(*pairs, tables=tables, members=(1, 2, 3, 4)))
    assert Counter(one.table for one in found) == {2: 3, 3: 3, 4: 3}


def test_the_smallest_bucket_is_moved_that_is_enough():
    tables = [table(replication=1)]
    pairs = [held(number, size * MIB, 1) for number, size in enumerate((50, 20, 10, 6, 5))]
    catalog = filled(*pairs, held(9, 75 * MIB, 2), members=(1, 2), tables=tables)
    assert moves(catalog) == [(4, 1, 2)], "91 and 75: the mean is 83, and 5 % of it 4.15"


def test_no_two_replicas_go_into_one_rack_where_they_are_apart():
    racks = {1: "a", 2: "b", 3: "b", 4: "a"}
    catalog = three_full_in(racks, [(1, 2), (1, 3)])
    found = plan(catalog)
    assert {(one.source, one.target) for one in found} == {(1, 4)}
    after, _ = carried_out(catalog)
    assert all(len({racks[node] for node in one.replicas}) == 2 for one in after.buckets.values())


def three_full_in(racks, pairs):
    turns = itertools.cycle(pairs)
    return filled(*(held(number, MIB, *next(turns)) for number in range(12)), members=tuple(racks), racks=racks)


def test_where_racks_keep_a_node_full_the_others_are_still_spread():
    racks = {1: "a", 2: "b", 3: "b", 4: "b"}
    found = plan(three_full_in(racks, [(1, 2), (1, 3)]))
    assert {one.target for one in found} == {4}
    assert Counter(one.source for one in found) == {2: 2, 3: 2}


def test_what_is_due_otherwise_is_left_alone():
    """Buckets that lack a replica, that are not in sync, that lie on a node that is away, leaves or drains."""
    tables = [table(replication=1)]
    pairs = [held(number, MIB, 1) for number in range(4)]
    assert len(moves(filled(*pairs, members=(1, 2), tables=tables))) == 2
    assert moves(filled(*pairs, members=(1, 2), tables=[table(replication=2)])) == []
    assert moves(filled(*((one, entry) for one, entry in unsynced(pairs)), members=(1, 2), tables=tables)) == []
    assert moves(filled(*pairs, members=(2, 3), others=(1,), tables=tables)) == []
    assert moves(filled(*pairs, members=(1, 2), tables=[table(replication=1, state=UseState.PRE_DELETE)])) == []
    catalog = filled(*pairs, members=(1, 2, 3), tables=tables)
    drains = catalog.changed([put(keys.node(1), node(1, member=True, draining=True))])
    assert moves(drains) == []
    assert {one[2] for one in moves(catalog, leaving=frozenset({2}))} == {3}
    assert {one[2] for one in moves(catalog, away=frozenset({3}))} == {2}


def unsynced(pairs):
    return [(msgspec.structs.replace(one, in_sync=()), entry) for one, entry in pairs]


# ---------------------------------------------------------------- how it is carried out


def test_a_move_adds_its_target_and_gives_up_its_source_once_that_is_in_sync():
    catalog = step(three_full(3, members=(1, 2, 3, 4)))
    key = min(catalog.moving)
    one = catalog.buckets[key]
    source, target = one.moving
    assert (set(one.replicas), target in one.in_sync, one.retired) == ({*one.in_sync, target}, False, ())
    nodes = placement.fleet(catalog)
    assert placement.due_buckets(catalog, nodes) == [], "it waits for the copy"
    after = copied(catalog).buckets[key]
    assert set(after.replicas) == {*one.replicas} - {source}
    assert (after.retired, after.moving) == ((source,), None)


def test_a_source_stays_while_another_replica_is_behind():
    catalog = step(three_full(3))
    key = next(iter(catalog.moving))
    one = catalog.buckets[key]
    (other,) = set(one.replicas).difference(one.moving)
    behind = msgspec.structs.replace(one, in_sync=tuple(node for node in one.replicas if node != other))
    catalog = catalog.changed([put(keys.bucket(*key), behind)])
    nodes = placement.fleet(catalog)
    assert placement.placed([key], catalog, nodes) == ()


def moving_to_four():
    """A bucket on 1 and 2 that moves from 1 to 4."""
    made, entry = held(0, MIB, 1, 2, 4, in_sync=(1, 2), moving=(1, 4))
    return filled((made, entry), members=(1, 2, 3, 4))


def replicas_after(catalog, **nodes):
    fleet = placement.fleet(catalog, **nodes)
    one = catalog.changed(placement.placed(placement.due_buckets(catalog, fleet), catalog, fleet)).buckets[TABLE, 0]
    return one.replicas, one.moving


def test_a_move_ends_with_its_nodes_and_its_table():
    catalog = moving_to_four()
    assert replicas_after(catalog) == ((1, 2, 4), (1, 4))
    assert replicas_after(catalog, away=frozenset({4})) == ((1, 2), None)
    drains = catalog.changed([put(keys.node(4), node(4, member=True, draining=True))])
    assert replicas_after(drains) == ((1, 2), None)
    gone = catalog.changed([put(keys.node(4), node(4, removed=True))])
    assert replicas_after(gone) == ((1, 2), None)
    leaves = catalog.changed([put(keys.node(1), node(1, member=True, draining=True))])
    assert replicas_after(leaves) == ((1, 2, 4), None), "the target takes the place of the node that drains"
    dropped = catalog.changed([put(keys.table(TABLE), table(state=UseState.PRE_DELETE))])
    assert replicas_after(dropped) == ((1, 2, 4), None)


def test_a_target_that_restarts_stays_the_target():
    catalog = moving_to_four().changed([put(keys.node(4), node(4))])
    assert replicas_after(catalog) == ((1, 2, 4), (1, 4))


def test_a_stop_clears_all_moves_and_the_copies_that_are_not_whole_go():
    catalog = moving_to_four()
    stopped = catalog.changed(spread.stopped(catalog))
    assert (len(stopped.moving), stopped.cluster.rebalancing) == (0, False)
    assert replicas_after(stopped) == ((1, 2), None)
    assert spread.stopped(stopped) == ()


def test_a_plan_made_before_a_stop_begins_nothing():
    catalog = three_full()
    found, sizes, nodes = plan(catalog), Sizes().of(catalog), placement.fleet(catalog)
    stopped = catalog.changed(spread.stopped(catalog))
    assert spread.continued(found, sizes, stopped, nodes) == ()
    assert spread.started(stopped) != ()
    assert spread.started(catalog) == ()


def test_an_older_plan_begins_only_what_is_still_right():
    catalog = three_full()
    found, sizes = plan(catalog), Sizes().of(catalog)
    first = found[0]
    behind = msgspec.structs.replace(catalog.buckets[first.key], in_sync=())
    for change in (put(keys.bucket(*first.key), behind), put(keys.bucket(*first.key), bucket(first.bucket, 2, 4))):
        later = catalog.changed([change])
        after = later.changed(spread.continued(found, sizes, later, placement.fleet(later)))
        assert set(after.moving) == {one.key for one in found[1:]}
    drains = catalog.changed([put(keys.node(4), node(4, member=True, draining=True))])
    assert spread.continued(found, sizes, drains, placement.fleet(drains)) == ()


def test_a_bounded_number_of_moves_is_under_way():
    small = step(three_full(300, size_bytes=10))
    assert len(small.moving) == MOVES_OF_NODE_MAX
    assert len(step(small).moving) == MOVES_OF_NODE_MAX
    large = step(three_full(12, size_bytes=MOVING_BYTES_OF_NODE_MAX))
    assert len(large.moving) == 1, "a large bucket alone"
    many = step(three_full(200, members=range(1, 13)))
    assert len(many.moving) == MOVES_AT_ONCE, "and of a bucket one at a time"


def test_it_ends_once_nothing_is_left_to_move():
    catalog = step(three_full(members=(1, 2, 3)))
    assert not catalog.cluster.rebalancing
    moving = moving_to_four()
    fleet = placement.fleet(moving)
    assert spread.continued([], {}, moving, fleet) == (), "one is under way"


def test_the_sizes_of_buckets_that_have_not_changed_are_remembered(monkeypatch):
    sizes, catalog = Sizes(), three_full(3)
    assert set(sizes.of(catalog).values()) == {spread.Size(MIB, 1)}
    asked = []
    monkeypatch.setattr(spread, "_size", lambda key, _: asked.append(key) or spread.Size())
    more = segment(99, 1, 2)
    sizes.of(catalog.changed([put(keys.segment(TABLE, 0, more.id), more)]))
    assert asked == [(TABLE, 0)]
