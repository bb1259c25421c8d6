"""A catalog whose segments are read on demand says the same as one that holds them all, at every revision of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core import keys
from leasehold.core.catalog import Catalog
from leasehold.core.operations import Change
from leasehold.core.shelf import REPLACED, SEGMENTS, Reopened, Shelf, on_demand
from leasehold.errors import Corrupt
from leasehold.testing.vault import MemoryBase
from tests.unit.core.test_catalog_indices import CHANGES, as_told_by_the_records, indices, name, segment


def reopened(items):
    """As from a vault that holds these keys."""
    eager = tuple(Change(key, items[key]) for key in sorted(items) if not on_demand(key))
    bases = {"segments": MemoryBase(SEGMENTS, items), "replaced": MemoryBase(REPLACED, items)}
    return Catalog.reopened(Reopened(applied=0, lineage=bytes(32), items=eager, **bases))


def follow(items, changes):
    merged = items | {change.key: change.value for change in changes}
    return {key: value for key, value in merged.items() if value is not None}


def restored(items):
    return Catalog.restored(0, bytes(32), [Change(key, value) for key, value in sorted(items.items())])


@settings(max_examples=200, deadline=None)
@given(st.lists(CHANGES, max_size=30), st.lists(st.lists(CHANGES, max_size=4), max_size=8))
def test_it_equals_one_that_holds_everything_at_every_revision(before, batches):
    items = follow({}, before)
    catalog = reopened(items)
    seen = [(catalog, items)]
    for batch in batches:
        catalog, items = catalog.changed(batch), follow(items, batch)
        assert indices(catalog) == as_told_by_the_records(catalog)
        seen.append((catalog, items))
    for view, then in reversed(seen):
        assert view == restored(then)
        assert restored(then) == view


def test_a_bucket_is_read_when_it_is_asked_for_and_then_only():
    items = follow({}, [segment(1, 0, 1), segment(1, 1, 2)])
    asked = []

    class Base(MemoryBase):
        def get(self, bucket):
            asked.append(bucket)
            return super().get(bucket)

    shelf = Shelf(Base(SEGMENTS, items))
    assert asked == []
    assert set(shelf.get((1, 1))) == {name(2)}
    assert asked == [(1, 1)]


def test_a_bucket_that_empties_is_gone_and_its_base_is_not_seen_through():
    items = follow({}, [segment(1, 0, 1)])
    full = reopened(items)
    empty = full.changed([Change(keys.segment(1, 0, name(1)), None)])
    assert (1, 0) not in empty.segments
    assert list(empty.segments) == []
    assert not empty.segments
    assert len(full.segments) == 1
    again = empty.changed([segment(1, 0, 2)])
    assert set(again.segments[(1, 0)]) == {name(2)}


def test_of_an_empty_one_nothing_is_found():
    shelf = Shelf()
    assert shelf.get((1, 0)) is None
    assert shelf.get((1, 0), {}) == {}
    with pytest.raises(KeyError):
        shelf[(1, 0)]
    assert shelf == Shelf(MemoryBase(SEGMENTS, {}))


def test_a_key_that_names_no_bucket_is_damage():
    with pytest.raises(Corrupt):
        SEGMENTS.bucket_of(b"c/segment/what")
