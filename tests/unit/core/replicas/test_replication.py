"""Where buckets are put, and who counts as having all of one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.replicas.replication import after_commit, after_fetch, after_loss, place
from leasehold.core.words import keys
from leasehold.core.words.records import BucketRecord, SegmentRecord
from leasehold.errors import Refused
from tests.unit.core.catalog_words import Ground, hex_128, node

BUCKET = BucketRecord(table=2, bucket=0, replicas=(3, 1, 2), in_sync=(3, 1))


def segment(number, *holders, table=2, bucket=0):
    return SegmentRecord(
        id=f"{hex_128(number)}-{hex_128(0)}",
        table=table,
        bucket=bucket,
        schema_version=1,
        rows=10,
        size_bytes=10,
        sha256=b"",
        statistics=(),
        holders=holders,
    )


def placed(ground, *, buckets=1, replication=2, serving=(1, 2, 3, 4)):
    records = place(ground.catalog, table=9, buckets=buckets, replication=replication, serving=serving)
    assert [one.bucket for one in records] == list(range(buckets))
    assert all(one.table == 9 and one.in_sync == one.replicas for one in records), "an empty bucket lacks nothing"
    return [one.replicas for one in records]


def test_buckets_go_round_the_nodes_and_so_do_first_replicas():
    assert placed(Ground(nodes=(1, 2, 3)), buckets=3) == [(1, 2), (1, 3), (2, 3)]


def test_nodes_that_serve_come_first_then_those_with_less():
    ground = Ground(nodes=(1, 2, 3, 4))
    assert placed(ground, serving=(3, 4)) == [(3, 4)]
    assert placed(ground, serving=(4,)) == [(4, 1)]
    ground.put(keys.bucket(2, 0), BucketRecord(table=2, bucket=0, replicas=(1, 3), in_sync=(1,)))
    assert placed(ground) == [(2, 4)]
    assert placed(ground, serving=(1, 3)) == [(1, 3)]


def test_only_members_that_have_joined_get_buckets():
    ground = Ground(nodes=(1, 2, 3))
    ground.put(keys.node(1), node(1, removed=True))
    ground.put(keys.node(4), node(4, incarnation=0))
    assert placed(ground) == [(2, 3)]
    with pytest.raises(Refused) as caught:
        placed(ground, replication=3)
    assert caught.value.code == "TOO_FEW_NODES"


@given(
    nodes=st.integers(1, 7),
    buckets=st.integers(1, 20),
    replication=st.integers(1, 7),
    serving=st.sets(st.integers(1, 7)),
)
def test_each_bucket_has_distinct_replicas_and_no_node_has_far_more_than_another(nodes, buckets, replication, serving):
    ground = Ground(nodes=tuple(range(1, nodes + 1)))
    if replication > nodes:
        with pytest.raises(Refused):
            placed(ground, buckets=buckets, replication=replication)
        return
    records = placed(ground, buckets=buckets, replication=replication, serving=serving)
    assert records == placed(ground, buckets=buckets, replication=replication, serving=serving)
    assert all(len(set(one)) == len(one) == replication for one in records)
    load = {one: sum(one in replicas for replicas in records) for one in range(1, nodes + 1)}
    for alike in (serving & load.keys(), load.keys() - serving):
        loads = [load[one] for one in alike]
        assert max(loads, default=0) - min(loads, default=0) <= 1
    if len(serving & load.keys()) >= replication:
        assert all(set(one) <= serving for one in records)


# ---------------------------------------------------------------- the sync-state set


def test_a_member_that_lacks_a_segment_leaves_the_set():
    assert after_commit(BUCKET, [segment(1, 1, 3)]) == BUCKET
    assert after_commit(BUCKET, [segment(1, 1, 2, 3), segment(2, 1)]) == msgspec.structs.replace(BUCKET, in_sync=(1,))
    assert after_commit(BUCKET, [segment(1, 2)]).in_sync == ()
    assert after_commit(BUCKET, []) == BUCKET


def by_id(*segments):
    return {one.id: one for one in segments}


def test_a_node_that_fetched_all_it_lacked_is_in_sync_again():
    one, two, three = segment(1, 1, 3), segment(2, 2, 3), segment(3, 1)
    bucket, changed = after_fetch(BUCKET, by_id(one, two, three), 2, [three.id, one.id])
    assert bucket == msgspec.structs.replace(BUCKET, in_sync=(3, 1, 2)), "in the order of the replicas"
    assert changed == [
        msgspec.structs.replace(one, holders=(1, 3, 2)),
        msgspec.structs.replace(three, holders=(1, 2)),
    ]


def test_a_node_that_still_lacks_one_is_named_as_holder_and_no_more():
    one, two = segment(1, 1, 3), segment(2, 3)
    bucket, changed = after_fetch(BUCKET, by_id(one, two), 2, [two.id])
    assert bucket == BUCKET
    assert changed == [msgspec.structs.replace(two, holders=(3, 2))]


@pytest.mark.parametrize("fetched", [[], [segment(1).id], [segment(1).id] * 2, [segment(9).id]])
def test_a_report_made_again_or_of_what_is_not_in_the_manifest_changes_nothing(fetched):
    assert after_fetch(BUCKET, by_id(segment(1, 1, 3, 2), segment(2, 1)), 2, fetched) == (BUCKET, [])


def test_a_node_that_is_not_a_replica_never_gets_into_the_set():
    assert after_fetch(BUCKET, by_id(segment(1, 1)), 7, [segment(1).id]) == (BUCKET, [])


class Watchful(dict):
    """Counts how many of its values were looked at in turn."""

    seen = 0

    def values(self):
        for one in super().values():
            self.seen += 1
            yield one


def test_a_report_costs_what_it_names_and_not_what_the_bucket_holds():
    segments = Watchful({segment(number).id: segment(number, 1, 3) for number in range(1_000)})
    names = [segment(number).id for number in range(500, 510)]
    bucket, changed = after_fetch(BUCKET, segments, 2, names)
    assert (bucket, len(changed)) == (BUCKET, 10)
    assert segments.seen == 1, "it lacks the first one"
    bucket, changed = after_fetch(BUCKET, segments, 1, names)
    assert (bucket, changed, segments.seen) == (BUCKET, [], 1)


# ---------------------------------------------------------------- what a node lacks after all


def lost(segments, *, node_id=1, names, removed=(), bucket=BUCKET):
    ground = Ground(nodes=(1, 2, 3))
    for one in removed:
        ground.put(keys.node(one), node(one, removed=True))
    by_id = {one.id: one for one in segments}
    after, changed, alone = after_loss(bucket, by_id, node_id, [one.id for one in names], catalog=ground.catalog)
    return after, {one.id: one.holders for one in changed}, alone


def test_I7_a_node_that_lacks_what_it_is_thought_to_hold_is_struck_off_and_leaves_the_sync_state_set():
    first, second = segment(1, 1, 3), segment(2, 3, 1, 2)
    after, changed, alone = lost([first, second], names=[first])
    assert (after.in_sync, changed, alone) == ((3,), {first.id: (3,)}, [])
    assert after.replicas == BUCKET.replicas, "it is to fetch it"
    after, changed, alone = lost([first, second], names=[second, first])
    assert changed == {first.id: (3,), second.id: (3, 2)}


def test_I7_the_last_holder_stays_one():
    only, shared = segment(1, 1), segment(2, 1, 3)
    assert lost([only, shared], names=[only]) == (BUCKET, {}, [only.id])
    after, changed, alone = lost([only, shared], names=[only, shared])
    assert (after.in_sync, changed, alone) == ((3,), {shared.id: (3,)}, [only.id])


def test_I7_a_removed_node_is_no_other_holder():
    one = segment(1, 1, 3)
    assert lost([one], names=[one], removed=(3,)) == (BUCKET, {}, [one.id])


def test_I7_what_a_node_does_not_hold_by_the_manifest_it_can_not_lose():
    one = segment(1, 3)
    assert lost([one], names=[one, segment(9, 1)]) == (BUCKET, {}, [])


def test_I7_what_was_lost_counts_again_once_it_was_fetched():
    one = segment(1, 1, 3)
    after, changed, _ = lost([one], names=[one])
    struck = msgspec.structs.replace(one, holders=changed[one.id])
    back, again = after_fetch(after, {one.id: struck}, 1, [one.id])
    assert (set(back.in_sync), [set(entry.holders) for entry in again]) == ({1, 3}, [{1, 3}])


def test_a_new_table_is_not_placed_on_a_node_that_is_about_to_be_removed():
    catalog = Ground(nodes=(1, 2, 3)).catalog
    records = place(catalog, table=9, buckets=4, replication=2, serving=(1, 2, 3), leaving={2})
    assert {node for one in records for node in one.replicas} == {1, 3}
    with pytest.raises(Refused) as caught:
        place(catalog, table=9, buckets=1, replication=3, serving=(1, 2, 3), leaving={2})
    assert caught.value.code == "TOO_FEW_NODES"
