"""What a rebalance of drawn clusters moves, against what it has to."""

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.replicas import placement
from leasehold.limits.membership import BUCKET_WEIGHT_BYTES, SPREAD_PERCENT
from tests.unit.core.replicas.test_placement import table
from tests.unit.core.replicas.test_spread import MIB, carried_out, copied, filled, held, loads, plan


@st.composite
def clusters(draw):
    """Some nodes in racks or not, and buckets anywhere."""
    members = range(1, draw(st.integers(2, 5)) + 1)
    racks = {one: rack for one in members if (rack := draw(st.sampled_from(("", "a", "b"))))}
    replication = draw(st.integers(1, 2))
    pairs = []
    for number in range(draw(st.integers(0, 12))):
        nodes = draw(st.permutations(members))[:replication]
        pairs.append(held(number, draw(st.integers(0, 40)) * MIB // 4, *nodes))
    return filled(*pairs, members=members, racks=racks, tables=[table(replication=replication)])


@settings(max_examples=50, deadline=None)
@given(clusters())
def test_a_drawn_cluster_is_never_less_even_and_nothing_is_left_to_move(catalog):
    nodes = placement.fleet(catalog)
    while due := placement.placed(placement.due_buckets(catalog, nodes), catalog, nodes):
        catalog = copied(catalog.changed(due))
    before = loads(catalog)
    found = plan(catalog)
    after, _ = carried_out(catalog)
    assert plan(after) == []
    assert placement.due_buckets(after, nodes) == []
    both = loads(after)
    assert max(both.values()) <= max(before.values())
    assert min(both.values()) >= min(before.values())
    assert sum(one * one for one in both.values()) <= sum(one * one for one in before.values())
    assert (both == before) == (found == [])
    racks = nodes.racks
    for key, one in after.buckets.items():
        assert len(set(one.replicas)) == len(catalog.buckets[key].replicas)
        assert len({racks[node] for node in one.replicas}) >= len(
            {racks[node] for node in catalog.buckets[key].replicas}
        )


def least(before, percent):
    """A lower bound: what has to leave the nodes above the tolerance, or to come to those below."""
    mean = sum(before.values()) / len(before)
    tolerance = mean * percent / 100
    leaves = sum(max(0, one - mean - tolerance) for one in before.values())
    comes = sum(max(0, mean - tolerance - one) for one in before.values())
    return max(leaves, comes)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 6), st.integers(1, 3), st.randoms(use_true_random=False))
def test_where_buckets_are_small_a_new_node_costs_at_most_a_tenth_more_than_it_must(full, new, random):
    pairs = [held(number, random.randrange(1, 100) * MIB, 1 + number % full) for number in range(120)]
    catalog = filled(*pairs, members=range(1, full + new + 1), tables=[table(replication=1)])
    found, after = plan(catalog), loads(catalog)
    for one in found:
        after[one.source] -= one.size.weight
        after[one.target] += one.size.weight
    assert sum(one.size.size_bytes for one in found) <= 1.1 * least(loads(catalog), SPREAD_PERCENT)
    mean = sum(after.values()) / (full + new)
    assert all(abs(one - mean) <= mean * SPREAD_PERCENT / 100 + 1 for one in after.values())


def cheapest(sizes, at, nodes, percent):
    """The fewest bytes that bring all within the tolerance, by trying everything; None if nothing does."""
    weights = [one + BUCKET_WEIGHT_BYTES for one in sizes]
    mean = sum(weights) / nodes
    found = None
    for there in itertools.product(range(nodes), repeat=len(sizes)):
        moved = sum(size for size, old, new in zip(sizes, at, there, strict=True) if old != new)
        on = Counter(dict.fromkeys(range(nodes), 0))
        for weight, new in zip(weights, there, strict=True):
            on[new] += weight
        is_even = all(abs(one - mean) <= mean * percent / 100 for one in on.values())
        if is_even and (found is None or moved < found):
            found = moved
    return found


@pytest.mark.parametrize("seed", range(2))
def test_small_clusters_against_an_exhaustive_search(seed):
    """Buckets of about the same size, as hashing makes them."""
    sizes = [(90 + (seed * 7 + number * 13) % 21) * MIB for number in range(8)]
    at = [number % 2 for number in range(8)]
    pairs = [held(number, one, 1 + at[number]) for number, one in enumerate(sizes)]
    catalog = filled(*pairs, members=(1, 2, 3, 4), tables=[table(replication=1)])
    _, moved = carried_out(catalog)
    best = cheapest(sizes, at, 4, 12)
    assert best is not None
    assert moved <= 1.1 * best
