"""What a node's view says of a segment, with what its vault holds, is what the catalog says that holds all of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import on_demand
from leasehold.core.catalog.stored_shelf import NotHere, StoredShelf
from leasehold.core.words import keys
from leasehold.core.words.operations import Change, StoredProjection
from leasehold.testing.filled import filled
from tests.few import examples
from tests.unit.core.catalog.test_catalog_indices import CHANGES, indices, name, replaced, segment, table

NONE = bytes(32)
KEYS = [((number, bucket), name(one)) for number in range(1, 4) for bucket in range(3) for one in (1, 2)]


def reopened(items, revision=0):
    """As from a vault that holds these keys."""
    eager = tuple(Change(key, items[key]) for key in sorted(items) if not on_demand(key))
    return Catalog.reopened(StoredProjection(applied=revision, lineage=NONE, items=eager))


def restored(items, revision=0):
    return Catalog.restored(revision, NONE, [Change(key, value) for key, value in sorted(items.items())])


def follow(items, changes):
    merged = items | {change.key: change.value for change in changes}
    return {key: value for key, value in merged.items() if value is not None}


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(CHANGES, max_size=20), st.lists(st.lists(CHANGES, max_size=4), max_size=8), st.data())
def test_it_is_exact_over_every_state_of_the_vault_from_what_was_trimmed_up_to_the_view(before, batches, data):
    views, states = [reopened(follow({}, before))], [follow({}, before)]
    trimmed_at = [0]
    for batch in batches:
        durable = data.draw(st.integers(trimmed_at[-1], len(views) - 1))
        views.append(views[-1].trimmed(views[durable]).changed(batch))
        states.append(follow(states[-1], batch))
        trimmed_at.append(durable)
    for number, view in enumerate(views):
        expected = restored(states[number])
        for applied in range(trimmed_at[number], number + 1):
            assert filled(view, states[applied]) == expected
            held = restored(states[applied])
            for one in ("segments", "replaced"):
                mine, theirs, stored = getattr(view, one), getattr(expected, one), getattr(held, one)
                for bucket, which in KEYS:
                    assert mine.over(bucket, which, stored.one(bucket, which)) == theirs.one(bucket, which)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(CHANGES, max_size=20), st.lists(st.lists(CHANGES, max_size=3), min_size=1, max_size=6))
def test_a_mark_stays_for_as_long_as_a_bucket_does_and_no_longer(before, batches):
    view, items = reopened(follow({}, before)), follow({}, before)
    for batch in batches:
        after, now = view.changed(batch), follow(items, batch)
        was, becomes = restored(items), restored(now)
        for one in ("segments", "replaced"):
            for bucket in {bucket for bucket, _ in KEYS}:
                same = getattr(view, one).mark(bucket) is getattr(after, one).mark(bucket)
                named = any(
                    change.key.startswith(keys.SEGMENTS if one == "segments" else keys.REPLACED) for change in batch
                )
                assert same or named
                assert not same or getattr(was, one).get(bucket) == getattr(becomes, one).get(bucket)
                assert getattr(after.trimmed(after), one).mark(bucket) is getattr(after, one).mark(bucket)
        view, items = after, now


def test_what_is_durable_is_forgotten_and_nothing_else():
    first = reopened({}).changed([segment(1, 0, 1), replaced(1, 0, 2)])
    second = first.changed([segment(1, 0, 2), segment(1, 0, 1), segment(2, 0, 1)])
    assert list(first.trimmed(first).segments.recent()) == []
    assert list(first.trimmed(first).replaced.recent()) == []
    left = second.trimmed(first)
    assert {(bucket, one) for bucket, one, _ in left.segments.recent()} == {
        ((1, 0), name(1)),
        ((1, 0), name(2)),
        ((2, 0), name(1)),
    }
    assert left.trimmed(first) is left
    assert list(left.trimmed(second).segments.recent()) == []


def test_a_leap_leaves_all_segments_to_the_vault_and_marks_every_bucket():
    before = reopened({}, 3).changed([segment(1, 0, 1)])
    after = before.leaping(9, NONE, [segment(1, 0, 2), Change(keys.segment(1, 0, name(1)), None), table(3, 7)])
    assert list(after.segments.recent()) == []
    assert set(after.tables) == {3}
    for bucket in ((1, 0), (2, 2)):
        assert after.segments.mark(bucket) is not before.segments.mark(bucket)
        assert after.replaced.mark(bucket) is not before.replaced.mark(bucket)


def test_a_mark_does_not_come_back_after_a_leap():
    before = reopened({}).changed([segment(1, 0, 1), replaced(1, 0, 2)])
    after = before.leaping(9, NONE, []).changed([segment(1, 0, 2), replaced(1, 0, 1)])
    assert after.segments.mark((1, 0)) is not before.segments.mark((1, 0))
    assert after.replaced.mark((1, 0)) is not before.replaced.mark((1, 0))


def test_its_segments_can_t_be_asked_for():
    view = reopened({}).changed([segment(1, 0, 1)])
    for ask in (
        lambda: view.segments.get((1, 0)),
        lambda: view.segments.one((1, 0), name(1)),
        lambda: view.segments.count((1, 0)),
        lambda: view.segments.names((1, 0)),
        lambda: view.segments.passing((1, 0)),
        lambda: (1, 0) in view.segments,
        lambda: list(view.segments),
        lambda: len(view.segments),
        lambda: bool(view.segments),
        lambda: view.bucket_segments(1, 0),
    ):
        with pytest.raises(NotHere):
            ask()


def test_it_knows_no_leftovers_and_every_other_index():
    items = follow({}, [table(1, 5), table(2, None), segment(1, 0, 1)])
    changes = [Change(keys.table(1), None), segment(2, 0, 1), segment(3, 0, 1)]
    view, whole = reopened(items).changed(changes), restored(items).changed(changes)
    assert isinstance(view.segments, StoredShelf)
    assert set(whole.leftovers) == {1, 3}
    assert indices(view) == indices(whole) | {"leftovers": {}}
