"""The stale-serve rule, exactly, and against a naive one that compares everything with everything."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.lease.audit import ServeRecord, StaleBecause, StaleServe, StaleServeRule
from leasehold.core.words.records import BarrierReceipt
from tests.few import examples


def barrier(revision, term, sequence):
    return BarrierReceipt(revision=revision, term=term, sequence=sequence, settled=())


def serve(view, term, sequence, *, released_ns=10, deadline_ns=20):
    return ServeRecord(
        node=1,
        incarnation=1,
        request="r",
        table=1,
        view=view,
        term=term,
        sequence=sequence,
        deadline_ns=deadline_ns,
        released_ns=released_ns,
    )


@pytest.mark.parametrize(("released_ns", "stale"), [(19, False), (20, True), (21, True)])
def test_released_before_its_deadline(released_ns, stale):
    one = serve(5, 1, 1, released_ns=released_ns)
    expected = StaleServe(serve=one, because=StaleBecause.AFTER_DEADLINE) if stale else None
    assert StaleServeRule([]).judge(one) == expected


@pytest.mark.parametrize(
    ("view", "term", "sequence", "floor"),
    [
        (6, 2, 10, None),  # the last grant before the floor rose: the barrier waited for it
        (6, 2, 11, 7),  # the first one after it
        (7, 2, 11, None),
        (6, 1, 99, None),  # an older leader's
        (6, 3, 1, 7),  # a newer leader's, however low its number
        (8, 3, 1, None),
    ],
)
def test_the_view_reaches_the_floor_of_its_grant(view, term, sequence, floor):
    one = serve(view, term, sequence)
    because = StaleBecause.OLD_VIEW
    expected = None if floor is None else StaleServe(serve=one, because=because)
    assert StaleServeRule([barrier(7, 2, 10)]).judge(one) == expected


def test_floors_only_rise():
    # A later barrier of a lower revision (run again by a newer leader) lowers nothing.
    rule = StaleServeRule([barrier(9, 1, 5), barrier(7, 2, 0), barrier(8, 1, 2)])
    assert rule.judge(serve(8, 1, 5)) is None
    assert rule.judge(serve(8, 2, 1)) is not None


small = st.integers(1, 6)
receipts = st.lists(st.builds(barrier, small, small, small), max_size=8)


def naive(barriers, one):
    if one.released_ns >= one.deadline_ns:
        return StaleServe(serve=one, because=StaleBecause.AFTER_DEADLINE)
    floors = [each.revision for each in barriers if (each.term, each.sequence) < (one.term, one.sequence)]
    if floors and one.view < max(floors):
        return StaleServe(serve=one, because=StaleBecause.OLD_VIEW)
    return None


@settings(derandomize=True, max_examples=examples(300))
@given(receipts, st.lists(st.tuples(small, small, small, st.integers(8, 12)), max_size=8))
def test_the_rule_agrees_with_a_naive_one(barriers, serves):
    rule = StaleServeRule(barriers)
    for view, term, sequence, released_ns in serves:
        one = serve(view, term, sequence, released_ns=released_ns, deadline_ns=11)
        assert rule.judge(one) == naive(barriers, one)
