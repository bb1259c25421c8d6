"""What stands in the way of a node's removal, and what stays of it."""

import pytest

from leasehold.core.catalog.plan import put
from leasehold.core.membership.generations import jump_to
from leasehold.core.membership.removal import (
    check_allowed,
    check_enough_left,
    check_nothing_lost,
    find_node,
    tombstone,
)
from leasehold.core.replicas.census import ChangesSince, census, recounted
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import DatabaseRecord, UseState
from leasehold.errors import NotFound, Refused
from leasehold.limits.membership import LOST_TABLES_NAMED_MAX
from tests.unit.core.catalog_words import CLUSTER, Ground, node
from tests.unit.core.membership.test_generations import WALL_S
from tests.unit.core.replicas.test_placement import bucket, ground, table
from tests.unit.core.replicas.test_replication import segment


def refusal(check, *arguments):
    with pytest.raises(Refused) as caught:
        check(*arguments)
    return caught.value.code, caught.value.text


# ---------------------------------------------------------------- which one


def test_a_node_is_found_by_its_name_then_by_its_number_then_among_the_removed():
    base = Ground(nodes=())
    for number, name, removed in ((1, "a", True), (2, "a", True), (3, "a", False), (4, "1", False), (5, "gone", True)):
        base.put(keys.node(number), node(number, name=name, removed=removed))
    found = {name: find_node(name, None, base.catalog).id for name in ("a", "1", "2", "3", "gone")}
    assert found == {"a": 3, "1": 4, "2": 2, "3": 3, "gone": 5}
    assert find_node("a", 1, base.catalog).id == 1, "it was looked up before"
    jumped = 1 + jump_to(CLUSTER, WALL_S)
    base.put(keys.node(jumped), node(jumped, name="late"))
    assert find_node(str(jumped), None, base.catalog).id == jumped, "it came after a recovery"
    for name in ("b", "9", "", "²", "9" * 5_000):
        with pytest.raises(NotFound):
            find_node(name, None, base.catalog)


def test_of_removed_nodes_of_one_name_the_newest_is_meant():
    base = Ground(nodes=())
    for number in (1, 2):
        base.put(keys.node(number), node(number, name="a", removed=True))
    assert find_node("a", None, base.catalog).id == 2


# ---------------------------------------------------------------- what stands in the way


def test_the_last_node_is_not_removed():
    catalog = ground(members=(1,), removed=(2,), tables=[table(replication=1)])
    assert refusal(check_enough_left, census(1, catalog), catalog) == (
        "LAST_NODE",
        "n1 is the last node of the cluster",
    )


def test_nor_is_one_without_which_tables_want_more_replicas_than_nodes_are_left():
    tables = [table(number, replication=3) for number in range(2, 2 + LOST_TABLES_NAMED_MAX + 1)]
    base = ground(members=(1, 2), others=(3,), tables=[*tables, table(9, replication=2)])
    named = base.changed([put(keys.database(1), DatabaseRecord(id=1, name="d", state=UseState.IN_USE))])
    code, text = refusal(check_enough_left, census(1, named), named)
    assert code == "TOO_FEW_NODES"
    assert text == "2 nodes would remain, and 6 tables need more replicas: d.t2, d.t3, d.t4, d.t5, d.t6, .."


def test_one_that_has_never_joined_is_missed_by_nobody():
    catalog = ground(members=(1,), tables=[table(replication=1)])
    fresh = node(2, incarnation=0)
    catalog = catalog.changed([put(keys.node(2), fresh)])
    check_enough_left(census(2, catalog), catalog)
    assert refusal(check_enough_left, census(1, catalog), catalog)[0] == "LAST_NODE", "nor does it count as left"


def test_a_table_that_is_being_dropped_wants_no_node():
    catalog = ground(members=(1, 2), tables=[table(replication=2, state=UseState.PRE_DELETE)])
    check_enough_left(census(1, catalog), catalog)


def test_a_node_that_alone_holds_segments_is_not_removed_and_they_are_named():
    entries = [segment(1, 1, 2), segment(2, 1), segment(3, 1, 9), segment(4, 2)]
    catalog = ground(removed=(9,), buckets=[bucket(0, 1, 2)], segments=entries)
    catalog = catalog.changed([put(keys.database(1), DatabaseRecord(id=1, name="d", state=UseState.IN_USE))])
    found = census(1, catalog)
    assert (found.lost, found.lost_tables()) == (2, {2: 2}), "a removed node is no other holder"
    code, text = refusal(check_nothing_lost, found, catalog)
    assert (code, text) == ("ONLY_HOLDER", "n1 is the only holder of 2 segments of 1 table: d.t2")
    check_nothing_lost(census(3, catalog), catalog)


def test_force_is_not_asked_for_the_lesser_of_two_reasons_where_rows_would_be_lost():
    """Who gives `--force` for want of nodes would give up rows that nobody told of."""
    catalog = ground(members=(1, 2), tables=[table(replication=2)], buckets=[bucket(0, 1, 2)], segments=[segment(1, 1)])
    catalog = catalog.changed([put(keys.database(1), DatabaseRecord(id=1, name="d", state=UseState.IN_USE))])
    assert refusal(check_enough_left, census(1, catalog), catalog)[0] == "TOO_FEW_NODES"
    with pytest.raises(Refused) as caught:
        check_allowed(census(1, catalog), catalog, force=False)
    assert caught.value.code == "ONLY_HOLDER"
    check_allowed(census(1, catalog), catalog, force=True)


def touching(catalog, *changes):
    return catalog.changed(changes), {change.key for change in changes}


def test_a_census_is_recounted_by_what_has_changed_and_by_nothing_else():
    buckets = [bucket(0, 1, 2), bucket(1, 1, 2), bucket(2, 2, 3), bucket(3, 1, 2)]
    entries = [segment(1, 1, 2), segment(2, 1, 2, bucket=1), segment(3, 1, bucket=1), segment(4, 1, bucket=3)]
    catalog = ground(buckets=buckets, segments=entries)
    found = census(1, catalog)
    assert (found.lost, set(found.buckets)) == (2, {(2, 0), (2, 1), (2, 3)})
    later, touched = touching(
        catalog,
        put(keys.segment(2, 1, entries[1].id), segment(2, 1, bucket=1)),
        put(keys.segment(2, 1, entries[2].id), segment(3, 1, 3, bucket=1)),
        put(keys.segment(2, 1, segment(5).id), segment(5, 1, bucket=1)),
        put(keys.segment(2, 2, segment(6).id), segment(6, 2, bucket=2)),
        Change(keys.bucket(2, 3), None),
    )
    again = recounted(found, touched, later)
    assert again == census(1, later)
    assert again.lost == 2
    assert recounted(again, (), later) == again


def test_what_came_since_the_census_counts_buckets_and_tables_and_nodes():
    catalog = ground(members=(1, 2), buckets=[bucket(0, 1, 2)])
    found = census(1, catalog)
    later, touched = touching(
        catalog,
        put(keys.table(3), table(3, replication=2)),
        put(keys.bucket(3, 0), bucket(0, 1, of=3)),
        put(keys.segment(3, 0, segment(1).id), segment(1, 1, table=3)),
    )
    again = recounted(found, touched, later)
    assert again == census(1, later)
    assert (again.lost_tables(), again.short) == ({3: 1}, {2, 3})
    grown, _ = touching(later, put(keys.node(3), node(3)))
    assert recounted(again, (), grown) == census(1, grown)
    assert not recounted(again, (), grown).short


def test_what_has_changed_since_a_census_is_noted_up_to_a_bound():
    catalog = ground(others=(4,))
    since = ChangesSince(2)
    since.hear([keys.table(2), keys.node(4), keys.horizon(2)], catalog)
    assert since.touched == {keys.table(2)}
    with_drafted = since.with_more([keys.bucket(2, 0)], catalog)
    assert with_drafted.touched == {keys.table(2), keys.bucket(2, 0)}
    assert since.touched == {keys.table(2)}, "what is not durable yet is not noted"
    assert not with_drafted.is_too_much
    with_drafted.hear([keys.bucket(2, 1)], catalog)
    assert with_drafted.is_too_much
    assert with_drafted.touched == set()


def test_after_the_removal_of_a_node_there_is_a_census_anew():
    catalog = ground(others=(4,))
    since = ChangesSince(2)
    since.hear([keys.node(4)], catalog.changed(tombstone(catalog.nodes[4], catalog)))
    assert since.is_too_much


# ---------------------------------------------------------------- what stays


def test_I10_a_tombstone_keeps_id_and_token_and_forgets_sessions():
    catalog = ground()
    record = node(1, member=True, nonce="n" * 32, session_hash=b"s" * 32, incarnation=7)
    after = catalog.changed(tombstone(record, catalog))
    gone = after.nodes[1]
    assert (gone.id, gone.name, gone.token_hash, gone.incarnation) == (1, "n1", record.token_hash, 7)
    assert (gone.removed, gone.member, gone.nonce, gone.session_hash) == (True, False, None, None)
    assert after.counters.topology == catalog.counters.topology + 1
    assert after.counters.next_node == catalog.counters.next_node, "ids are never given again"


def test_one_that_was_no_member_leaves_no_topology():
    catalog = ground(others=(4,))
    assert catalog.changed(tombstone(catalog.nodes[4], catalog)).counters == catalog.counters
