"""Where buckets are put, and who counts as having all of one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core import keys
from leasehold.core.records import BucketRecord, SegmentRecord
from leasehold.core.replication import after_commit, after_fetch, missing, place
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


def test_what_is_missing_is_what_is_visible_in_assigned_buckets_and_not_on_disk():
    ground = Ground()
    mine, other = BUCKET, BucketRecord(table=2, bucket=1, replicas=(1, 3), in_sync=(1, 3))
    ground.put(keys.bucket(2, 0), mine)
    ground.put(keys.bucket(2, 1), other)
    ground.put(keys.bucket(3, 0), BucketRecord(table=3, bucket=0, replicas=(2,), in_sync=(2,)))
    segments = [segment(3, 1), segment(1, 1, 2), segment(2, 1), segment(4, 1, bucket=1)]
    for one in segments:
        ground.put(keys.segment(2, one.bucket, one.id), one)
    assert missing(ground.catalog, 2, [segments[2].id]) == [segments[1], segments[0]]
    assert missing(ground.catalog, 2, [one.id for one in segments]) == []
    assert missing(ground.catalog, 1, []) == [segments[1], segments[2], segments[0], segments[3]]
    assert missing(ground.catalog, 7, []) == []
