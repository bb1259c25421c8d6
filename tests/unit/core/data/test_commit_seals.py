"""Who holds the segments of a commit: which incarnations count, and what they have sealed."""

import msgspec
import pytest

from leasehold.core.data.commit import abort_transaction
from leasehold.core.data.seals import seal_key, sealed
from leasehold.core.replicas.replication import holders_needed
from leasehold.core.words import keys
from leasehold.core.words.bounds import soundness
from leasehold.core.words.messages import SegmentHolder, StagedSegment
from leasehold.core.words.operations import Change
from leasehold.core.words.records import ColumnStatistics, SegmentFormat
from leasehold.errors import Refused, SealUnknown
from tests.unit.core.catalog_words import add, hex_128
from tests.unit.core.data.write_words import (
    KEYS,
    LIVE,
    TABLE,
    W1,
    commit,
    commit_as_told,
    ground,
    opened,
    refused,
    sealed_by_holders,
    segment,
    written,
)

# ---------------------------------------------------------------- who holds it


@pytest.mark.parametrize(
    ("needed", "holders", "live", "enough"),
    [
        (1, [SegmentHolder(node=1, incarnation=4)], LIVE, True),
        (1, [SegmentHolder(node=1, incarnation=3)], LIVE, False),  # the incarnation before
        (1, [SegmentHolder(node=1, incarnation=5)], LIVE, False),  # one that has not joined
        (1, [SegmentHolder(node=1, incarnation=4)], {2: 5, 3: 6}, False),  # closed
        (1, [SegmentHolder(node=9, incarnation=1)], {**LIVE, 9: 1}, False),  # not a replica of this bucket
        (1, [], LIVE, False),
        (
            2,
            [SegmentHolder(node=1, incarnation=4), SegmentHolder(node=1, incarnation=4)],
            LIVE,
            False,
        ),  # the same one twice
        (2, [SegmentHolder(node=1, incarnation=4), SegmentHolder(node=1, incarnation=3)], LIVE, False),
        (2, [SegmentHolder(node=1, incarnation=4), SegmentHolder(node=2, incarnation=5)], LIVE, True),
        (2, [SegmentHolder(node=1, incarnation=4), SegmentHolder(node=2, incarnation=4)], LIVE, False),
        (3, [SegmentHolder(node=one, incarnation=LIVE[one]) for one in (3, 2, 1)], LIVE, True),
        (7, [SegmentHolder(node=one, incarnation=LIVE[one]) for one in (3, 2, 1)], LIVE, True),  # all that there can be
        (7, [SegmentHolder(node=one, incarnation=LIVE[one]) for one in (3, 2)], LIVE, False),
    ],
)
def test_only_distinct_living_assigned_incarnations_count(needed, holders, live, enough):
    base = opened(ground(min_in_sync=needed))
    staged = segment(holders=tuple(holders))
    if not enough:
        assert refused(commit, base, staged, live=live) == "TOO_FEW_HOLDERS"
        return
    changes = written(commit(base, staged, live=live))
    named = {one.node for one in holders}
    assert changes[keys.segment(TABLE, 0, staged.id)].holders == tuple(one for one in (1, 2, 3) if one in named)


def test_a_node_that_was_retired_since_it_wrote_counts_and_is_no_member_of_the_sync_state_set():
    base = opened(ground(min_in_sync=1))
    before = base.catalog.buckets[TABLE, 0]
    moved = msgspec.structs.replace(before, replicas=(1, 2), in_sync=(1, 2), retired=(3,))
    base.put(keys.bucket(TABLE, 0), moved)
    changes = written(commit(base, segment(1, 3), live=LIVE))
    assert changes[keys.segment(TABLE, 0, segment(1).id)].holders == (3,)
    assert changes[keys.bucket(TABLE, 0)].in_sync == ()


# ---------------------------------------------------------------- what they have sealed


def forgeries(base):
    """What a client may make of the honest answers about segment 1, by what it changes."""
    honest, other = sealed_by_holders(base, segment(1), segment(2))
    statistics = (ColumnStatistics(field=1, nulls=0, minimum=1, maximum=1), honest.statistics[1])
    made = {
        "nothing was ever written": segment(1),
        "another id": {"id": f"{W1}-{hex_128(3)}"},
        "another bucket": {"bucket": 1},
        "another schema version": {"schema_version": 2},
        "more rows": {"rows": 11},
        "fewer rows": {"rows": 9},
        "another size": {"size_bytes": 101},
        "another hash": {"sha256": b"t" * 32},
        "another format": {"format": SegmentFormat.COLUMN_NAMES},
        "narrower statistics": {"statistics": statistics},
        "no statistics": {"statistics": ()},
        "seals of another segment": {"holders": other.holders},
        "another node's seal": {
            "holders": (msgspec.structs.replace(honest.holders[0], node=2, incarnation=LIVE[2]),),
        },
        "an older incarnation's seal": {
            "holders": (
                msgspec.structs.replace(
                    sealed(SegmentHolder(node=1, incarnation=3), KEYS[1], honest, 1), incarnation=4
                ),
            )
        },
        "a holder more": {"holders": (*honest.holders[:2], SegmentHolder(node=3, incarnation=LIVE[3]))},
        "a seal cut short": {"holders": (msgspec.structs.replace(honest.holders[0], seal=honest.holders[0].seal[:8]),)},
    }
    return {
        what: one if isinstance(one, StagedSegment) else msgspec.structs.replace(honest, **one)
        for what, one in made.items()
    }


def sealable():
    base = opened(ground(min_in_sync=1))
    base.begin(add("c"))  # so there is another schema version, and what is refused is refused for its seal
    return base


@pytest.mark.parametrize("what", sorted(forgeries(sealable())))
def test_what_no_holder_has_sealed_is_not_committed(what):
    base = sealable()
    assert written(commit(base, segment(1)))
    assert refused(commit_as_told, base, forgeries(base)[what]) == "BAD_SEAL"
    honest = sealed_by_holders(base, segment(5))[0]
    assert refused(commit_as_told, base, honest, forgeries(base)[what]) == "BAD_SEAL", "nor with an honest one"


def test_bounds_are_looked_at_only_where_nodes_have_sealed_all_segments(monkeypatch):
    """There may be 4,096 segments with 2,000 columns each."""
    looked_at = []
    monkeypatch.setattr("leasehold.core.data.commit.soundness", lambda kind: looked_at.append(kind) or soundness(kind))
    base = sealable()
    honest = sealed_by_holders(base, segment(5))[0]
    assert refused(commit_as_told, base, honest, forgeries(base)["a holder more"]) == "BAD_SEAL"
    assert looked_at == []
    assert written(commit_as_told(base, honest))
    assert looked_at


def test_a_seal_counts_in_the_transaction_that_it_was_made_in_and_not_in_a_later_one_of_the_same_id():
    base = opened(ground())
    answered = sealed_by_holders(base, segment(1))
    base.commit(abort_transaction(W1, base.catalog))
    base.commit([Change(keys.transaction(W1), None)])  # forgotten, as the oldest are: the nodes have deleted the file
    opened(base)
    assert refused(commit_as_told, base, *answered) == "BAD_SEAL"
    assert written(commit(base, segment(1)))


def test_a_seal_is_of_one_process():
    """A node's next start has another key: what its last one sealed counts no more, whatever incarnation is named."""
    base = opened(ground())
    token, keys_of = "t" * 32, dict(KEYS)
    keys_of[1] = seal_key(token, "s" * 32)
    one = segment(1, 1)
    holder = sealed(one.holders[0], keys_of[1], one, 1)
    answered = msgspec.structs.replace(one, holders=(holder,))
    assert written(commit_as_told(base, answered, seal_keys=keys_of))
    keys_of[1] = seal_key(token, "S" * 32)
    assert refused(commit_as_told, base, answered, seal_keys=keys_of) == "BAD_SEAL"


def test_a_leader_that_has_not_heard_of_enough_holders_yet_neither_commits_nor_refuses_for_good():
    base = opened(ground(min_in_sync=2))
    answered = sealed_by_holders(base, segment(1, 1, 2, 3))
    for known in ({}, {1: KEYS[1]}):
        with pytest.raises(SealUnknown) as caught:
            commit_as_told(base, *answered, seal_keys=known)
        assert caught.value.code == "SEAL_UNKNOWN"
        assert "node 2" in caught.value.text
    changes = written(commit_as_told(base, *answered, seal_keys={1: KEYS[1], 3: KEYS[3]}))
    assert changes[keys.segment(TABLE, 0, answered[0].id)].holders == (1, 3), "whom it can't check is not counted"
    gone = {1: LIVE[1]}
    assert refused(commit_as_told, base, *answered, seal_keys={}, live=gone) == "TOO_FEW_HOLDERS", "no waiting helps"


def test_a_forged_seal_is_refused_while_other_holders_are_not_heard_of():
    base = opened(ground(min_in_sync=2))
    assert refused(commit_as_told, base, segment(1, 1, 2), seal_keys={1: KEYS[1]}) == "BAD_SEAL"


@pytest.mark.parametrize(("replication", "needed"), [(1, 1), (2, 1), (3, 2), (5, 2)])
def test_where_nobody_says_how_many_holders_a_table_of_three_replicas_wants_two(replication, needed):
    base = ground(min_in_sync=0, replication=min(replication, 3))
    table = msgspec.structs.replace(base.catalog.tables[TABLE], replication=replication)
    assert holders_needed(base.catalog.settings, table) == needed
    told = msgspec.structs.replace(base.catalog.settings, min_in_sync=1)
    assert holders_needed(told, table) == 1, "a cluster that asked for one gets one"
    opened(base)
    assert written(commit(base, segment(1, *range(1, needed + 1))))
    if needed == 2:
        assert refused(commit, base, segment(1, 1)) == "TOO_FEW_HOLDERS"


@pytest.mark.parametrize(("of_cluster", "of_table", "needed"), [(0, 1, 1), (2, 1, 1), (1, 3, 3), (1, 0, 1), (0, 0, 2)])
def test_what_a_table_says_comes_before_the_setting_of_the_cluster(of_cluster, of_table, needed):
    base = ground(min_in_sync=of_cluster)
    base.put(keys.table(TABLE), msgspec.structs.replace(base.catalog.tables[TABLE], min_in_sync=of_table))
    opened(base)
    if needed > 1:
        assert refused(commit, base, segment(1, *range(1, needed))) == "TOO_FEW_HOLDERS"
    assert written(commit(base, segment(1, *range(1, needed + 1))))


def test_the_refusal_names_the_replicas_that_do_not_hold_the_rows():
    base = opened(ground(min_in_sync=2))
    with pytest.raises(Refused, match=r"it is not on node 2 \(.*\), node 3 \(.*\)$"):
        commit(base, segment(1, 1))


def test_one_segment_with_too_few_holders_refuses_the_whole_commit():
    base = opened(ground(min_in_sync=2))
    assert refused(commit, base, segment(1), segment(2, 1)) == "TOO_FEW_HOLDERS"
    assert base.catalog == base.restored()
