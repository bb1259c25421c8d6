"""Beginning a generation: what jumps, and which directories lie within what the cluster keeps."""

import msgspec
import pytest

from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.membership.admission import Admit, JoinerHistory, decide_join
from leasehold.core.membership.generations import (
    end_of,
    generation_of,
    is_beyond,
    raised,
    raised_leader,
    restored_leader,
    unknown_leader,
)
from leasehold.core.membership.identity import CAPABILITIES, hash_secret
from leasehold.core.membership.rejections import Reject
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import CountersRecord, LargestLeaseRecord, LeaderRecord, NodeRecord
from leasehold.errors import Refused
from leasehold.limits.membership import GENERATION_GAP, GENERATIONS_SINCE, NUMBERS_PER_SECOND, ORIGINS_MAX
from leasehold.limits.units import SECOND_NS
from tests.unit.core.catalog_words import CLUSTER, hex_128
from tests.unit.core.join_words import TOKEN, request_to_join

WALL_S = 1_800_000_000
JUMP = GENERATION_GAP + (WALL_S - GENERATIONS_SINCE) * NUMBERS_PER_SECOND
COUNTERS = CountersRecord(next_node=4, next_object=5, next_procedure=6, next_transaction=7, next_login=8, topology=9)
NODE = NodeRecord(
    id=3,
    name="n3",
    address="h:1",
    token_hash=b"t" * 32,
    incarnation=5,
    nonce="a" * 32,
    session_hash=b"s" * 32,
    removed=False,
    member=True,
)


def catalog(*changes: Change) -> Catalog:
    standing = (
        put(keys.CLUSTER, CLUSTER),
        put(keys.COUNTERS, COUNTERS),
        put(keys.SETTINGS, DEFAULT_SETTINGS),
        put(keys.LARGEST_LEASE, LargestLeaseRecord(duration_ns=7 * SECOND_NS)),
        put(keys.node(3), NODE),
    )
    return msgspec.structs.replace(Catalog().changed([*standing, *changes]), revision=70, lineage=b"h" * 32)


def test_whatever_was_numbered_jumps_and_nobody_is_a_member():
    before = catalog()
    next_one = raised(before, wall_s=WALL_S, longest_lease_ns=SECOND_NS)
    cluster, after = next_one.cluster, before.changed(next_one.changes)
    assert after.cluster == cluster
    assert cluster.strangers
    for field in CountersRecord.__struct_fields__:
        assert getattr(after.counters, field) == getattr(COUNTERS, field) + JUMP, field
    node = after.nodes[3]
    assert node == msgspec.structs.replace(NODE, incarnation=5 + JUMP, session_hash=None, member=False, left=True)
    assert (generation_of(before), generation_of(after)) == (1, WALL_S)
    assert cluster.cluster_id == CLUSTER.cluster_id
    (origin,) = cluster.origins
    assert (origin.generation, origin.left, origin.revision, origin.lineage) == (WALL_S, 1, 70, b"h" * 32)


@pytest.mark.parametrize(("longest_s", "waited_s"), [(1, 7), (600, 600)])
def test_the_longest_lease_that_may_be_out_is_never_forgotten(longest_s, waited_s):
    before = catalog()
    next_one = raised(before, wall_s=WALL_S, longest_lease_ns=longest_s * SECOND_NS)
    assert before.changed(next_one.changes).largest_lease.duration_ns == waited_s * SECOND_NS
    assert next_one.longest_lease_ns == waited_s * SECOND_NS


def test_terms_of_the_lost_history_lie_below_the_next_one():
    record = LeaderRecord(generation=1, term=9, holder="c1", beat=3, duration_ns=5)
    after = raised_leader(record, CLUSTER, WALL_S)
    assert after == msgspec.structs.replace(record, generation=WALL_S, term=9 + JUMP)


@pytest.mark.parametrize("after", [CLUSTER, msgspec.structs.replace(CLUSTER, generation=WALL_S)])
def test_the_term_of_a_restored_backup_is_new_in_either_generation(after):
    record = LeaderRecord(generation=1, term=9, holder="c1", beat=3, duration_ns=5, nonce="n", successor="c2")
    restored = restored_leader(record, CLUSTER, after, WALL_S)
    assert restored == LeaderRecord(generation=after.generation, term=9 + JUMP, holder="", beat=0, duration_ns=0), (
        "anybody may take it at once"
    )


def term_of_unknown(wall_s: int) -> int:
    return restored_leader(unknown_leader(CLUSTER), CLUSTER, CLUSTER, wall_s).term


def test_where_no_term_is_known_the_next_one_is_above_all_of_any_past():
    """Ten elections in each second since 2025, and the farthest jump in each minute."""
    minutes = (WALL_S - GENERATIONS_SINCE) // 60
    elections = (WALL_S - GENERATIONS_SINCE) * NUMBERS_PER_SECOND
    assert elections + minutes * JUMP < term_of_unknown(WALL_S) < 2**53, "a program that reads JSON can hold it"


@pytest.mark.parametrize("later_s", [1, 59, 60, 3600])
def test_a_second_unknown_term_is_above_all_that_followed_the_first(later_s):
    """The first one began a generation, which was led for a while, restored once more, and then lost too."""
    first = LeaderRecord(generation=WALL_S, term=term_of_unknown(WALL_S), holder="", beat=0, duration_ns=0)
    began = msgspec.structs.replace(CLUSTER, generation=WALL_S)
    led = msgspec.structs.replace(first, term=first.term + later_s * NUMBERS_PER_SECOND)
    restored = restored_leader(led, began, began, WALL_S + later_s)
    assert restored.term < term_of_unknown(WALL_S + later_s)


@pytest.mark.parametrize("generations", [0, 1], ids=["first", "recovered a minute ago"])
def test_the_same_state_restored_twice_gives_out_other_numbers(generations):
    """As many as the first of the two generations may have given out meanwhile lie between them."""
    saved = catalog()
    for _ in range(generations):
        saved = saved.changed(raised(saved, wall_s=WALL_S - 60, longest_lease_ns=0).changes)
    first, second = (saved.changed(raised(saved, wall_s=WALL_S + late, longest_lease_ns=0).changes) for late in (0, 60))
    assert second.counters.next_node - first.counters.next_node == 60 * NUMBERS_PER_SECOND
    assert second.nodes[3].incarnation - first.nodes[3].incarnation == 60 * NUMBERS_PER_SECOND


def test_a_generation_that_follows_soon_is_a_million_away_all_the_same():
    standing = catalog().changed(raised(catalog(), wall_s=WALL_S, longest_lease_ns=0).changes)
    after = standing.changed(raised(standing, wall_s=WALL_S + 1, longest_lease_ns=0).changes)
    assert after.counters.next_object == standing.counters.next_object + GENERATION_GAP + NUMBERS_PER_SECOND


@pytest.mark.parametrize("wall_s", [5, WALL_S - 1, WALL_S])
def test_a_clock_that_was_set_back_begins_no_generation(wall_s):
    standing = catalog().changed(raised(catalog(), wall_s=WALL_S, longest_lease_ns=0).changes)
    with pytest.raises(Refused) as caught:
        raised(standing, wall_s=wall_s, longest_lease_ns=0)
    assert caught.value.code == "CLOCK_SET_BACK"


def test_nor_does_one_that_never_was_set():
    """Numbers would go back with it."""
    with pytest.raises(Refused) as caught:
        raised(catalog(), wall_s=GENERATIONS_SINCE, longest_lease_ns=0)
    assert caught.value.code == "CLOCK_SET_BACK"


@pytest.mark.parametrize(
    ("generation", "applied", "beyond"),
    [
        (WALL_S, 71, False),
        (WALL_S, 10_000, False),
        (1, 1, False),
        (1, 70, False),
        (1, 71, True),
        (1, 10_000, True),
        (0, 0, False),
        (1, 0, False),
        (WALL_S + 1, 3, True),
        (WALL_S - 1, 3, True),
        (0, 3, True),
    ],
)
def test_a_directory_lies_within_what_the_cluster_keeps_or_beyond_it(generation, applied, beyond):
    cluster = raised(catalog(), wall_s=WALL_S, longest_lease_ns=0).cluster
    assert is_beyond(cluster, generation, applied, b"h" * 32) is beyond
    assert is_beyond(cluster, generation, applied, None) is beyond


def test_where_a_history_was_left_its_hash_has_to_be_the_one_there():
    cluster = raised(catalog(), wall_s=WALL_S, longest_lease_ns=0).cluster
    assert is_beyond(cluster, 1, 70, b"x" * 32)
    assert not is_beyond(cluster, 1, 69, b"x" * 32), "that one the history tells, as far as it is kept"


def test_each_generation_ends_where_the_next_one_left_it():
    standing, bounds = catalog(), []
    for number in range(ORIGINS_MAX + 2):
        bounds.append((generation_of(standing), 70 + number))
        standing = msgspec.structs.replace(standing, revision=70 + number)
        standing = standing.changed(raised(standing, wall_s=WALL_S + 10 * number, longest_lease_ns=0).changes)
    assert len(standing.cluster.origins) == ORIGINS_MAX
    forgotten, kept = bounds[:2], bounds[2:]
    for generation, _ in forgotten:
        assert end_of(standing.cluster, generation) is None
        assert is_beyond(standing.cluster, generation, 1, None)
    for generation, last in kept:
        assert not is_beyond(standing.cluster, generation, last, None)
        assert is_beyond(standing.cluster, generation, last + 1, None)


# ---------------------------------------------------------------- joins of a cluster that was recovered

LOST = hex_128(0x1057)
HISTORY = JoinerHistory(latest=90, lineage_at_applied=None)
"""Everything before is compacted: no hash tells one history from the other."""


def join(*, record=(), history=HISTORY, **fields):
    """A node as its backup has it, of which one directory has come no further; both finished the attempt NODE.nonce."""
    next_one = raised(catalog(), wall_s=WALL_S, longest_lease_ns=0)
    node = msgspec.structs.replace(catalog().changed(next_one.changes).nodes[3], token_hash=hash_secret(TOKEN))
    request = request_to_join(applied=70, lineage=b"h" * 32, finished=NODE.nonce, capabilities=CAPABILITIES)
    return decide_join(
        msgspec.structs.replace(request, **fields),
        cluster=next_one.cluster,
        nodes=[msgspec.structs.replace(node, **dict(record))],
        history=history,
        held=None,
        first_bound_ns=None,
        alive_after_ns=SECOND_NS,
        now_ns=0,
    )


@pytest.mark.parametrize("applied", [0, 7, 70])
def test_R6_a_directory_within_the_past_comes_back_as_an_incarnation_that_never_was(applied):
    admitted = join(applied=applied)
    assert isinstance(admitted, Admit)
    assert admitted.node.incarnation == 5 + JUMP + 1


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"applied": 71}, "BEYOND_RECOVERY"),
        ({"applied": 90}, "BEYOND_RECOVERY"),
        ({"generation": 4}, "BEYOND_RECOVERY"),
        ({"generation": WALL_S + 1}, "AHEAD_OF_CLUSTER"),
        ({"lineage": b"x" * 32}, "BEYOND_RECOVERY"),
        ({"capabilities": ("leap", "reports-missing")}, "LACKS_CAPABILITY"),
        ({"finished": LOST, "previous": 6}, "BEYOND_RECOVERY"),
        ({"finished": None}, "BEYOND_RECOVERY"),
        ({"finished": None, "generation": WALL_S}, "STALE_COPY"),
        ({"generation": WALL_S, "applied": 91}, "AHEAD_OF_CLUSTER"),
    ],
)
def test_R6_a_directory_beyond_is_refused_though_all_history_is_compacted(fields, code):
    refused = join(**fields)
    assert isinstance(refused, Reject)
    assert refused.code == code
    assert refused.hint


def test_a_node_that_never_joined_joins():
    """Its number has jumped too: a process of the lost history may have got the first one."""
    new = {"previous": 0, "finished": None, "applied": 0, "generation": 0}
    never = {"nonce": None, "session_hash": None}
    assert isinstance(join(record=never, **new), Admit)
    lost = join(record=never, **{**new, "previous": 1, "finished": LOST, "applied": 70, "generation": 1})
    assert isinstance(lost, Reject)
    assert lost.code == "BEYOND_RECOVERY"


def test_another_history_of_an_older_generation_is_adopted_and_not_waited_for():
    known = JoinerHistory(latest=90, lineage_at_applied=b"k" * 32)
    for applied, lineage in ((60, b"x" * 32), (70, b"x" * 32)):
        refused = join(history=known, applied=applied, lineage=lineage)
        assert isinstance(refused, Reject)
        assert refused.code == "BEYOND_RECOVERY"
