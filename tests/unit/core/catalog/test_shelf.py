"""A catalog whose segments are decoded on demand says the same as one that decoded them all, at every revision."""

from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.catalog import shelf
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.live_keys import LiveKeys
from leasehold.core.catalog.shelf import SEGMENTS, Holding, Shelf, segment_of
from leasehold.core.replicas.leftovers import count, leftovers
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.operations import Change
from leasehold.core.words.records import SegmentRecord
from leasehold.errors import Corrupt
from leasehold.limits.vault import BUCKET_PATCH_KEYS_MAX
from tests.few import examples
from tests.unit.core.catalog.test_catalog_indices import (
    CHANGES,
    as_told_by_the_records,
    indices,
    name,
    replaced,
    segment,
)


def held(items, size=3):
    """As a leader reads these keys, page by page."""
    catalog, holding = Catalog(), Holding()
    ordered = [Change(key, value) for key, value in sorted(items.items())]
    for start in range(0, len(ordered), size):
        catalog = catalog.changed(holding.taking(ordered[start : start + size]))
    catalog = catalog.holding(holding.segments, holding.replaced)
    return msgspec.structs.replace(catalog, lineage=bytes(32))


def follow(items, changes):
    merged = items | {change.key: change.value for change in changes}
    return {key: value for key, value in merged.items() if value is not None}


def restored(items):
    return Catalog.restored(0, bytes(32), [Change(key, value) for key, value in sorted(items.items())])


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(CHANGES, max_size=30),
    st.lists(st.tuples(st.booleans(), st.lists(CHANGES, max_size=4)), max_size=8),
    st.integers(0, 3),
)
def test_it_equals_one_that_decoded_everything_at_every_revision(before, batches, undecoded_max):
    items = follow({}, before)
    catalog = held(items)
    seen = [(catalog, items)]
    with patch.object(shelf, "BUCKET_PATCH_KEYS_MAX", undecoded_max):
        for is_looked_at, batch in batches:
            catalog, items = catalog.changed(batch), follow(items, batch)
            if is_looked_at:
                assert indices(catalog) == as_told_by_the_records(catalog)
            seen.append((catalog, items))
    for view, then in reversed(seen):
        assert indices(view) == indices(restored(then))
        for shelf_of in (lambda one: one.segments, lambda one: one.replaced):
            expected = {key: dict(one.items()) for key, one in shelf_of(restored(then)).items()}
            assert told_of(shelf_of(view)) == {key: (len(one), set(one), set(one)) for key, one in expected.items()}
        assert view == restored(then)
        assert restored(then) == view


def told_of(buckets):
    """What it says of each bucket without being asked for it."""
    records = {key: [getattr(one, "segment", one) for one in buckets.passing(key)] for key in buckets}
    for one in records.values():
        assert len({record.id for record in one}) == len(one)
    return {key: (buckets.count(key), set(buckets.names(key)), {one.id for one in records[key]}) for key in buckets}


def test_what_came_and_went_does_not_add_up(counting):
    catalog = held(follow({}, [segment(1, 0, 1)]))
    record = SegmentRecord(**{**fields(segment(1, 0, 2)), "rows": 5})
    buckets = catalog.segments
    counting.decoded = 0
    for number in range(2, BUCKET_PATCH_KEYS_MAX + 2):
        assert counting.decoded == 0
        buckets = buckets.setting((1, 0), name(number), record).setting((1, 0), name(number), None)
    buckets = buckets.setting((1, 0), name(2), record).setting((1, 0), name(2), None)
    assert counting.decoded == 1, "once, when there were too many"
    assert set(buckets[(1, 0)]) == {name(1)}


def fields(change):
    return msgspec.structs.asdict(decode_record(SegmentRecord, change.value))


def test_a_bucket_that_empties_is_gone():
    full = held(follow({}, [segment(1, 0, 1)]))
    empty = full.changed([Change(keys.segment(1, 0, name(1)), None)])
    assert (1, 0) not in empty.segments
    assert list(empty.segments) == []
    assert not empty.segments
    assert len(full.segments) == 1
    again = empty.changed([segment(1, 0, 2)])
    assert set(again.segments[(1, 0)]) == {name(2)}


def test_of_an_empty_one_nothing_is_found():
    empty = Shelf()
    assert empty.get((1, 0)) is None
    assert empty.get((1, 0), {}) == {}
    assert (1, 0) not in empty
    with pytest.raises(KeyError):
        empty[(1, 0)]
    assert empty == Shelf.held(SEGMENTS, {})


def changed_in(buckets):
    """What it keeps, as it writes itself down."""
    return repr(buckets).removeprefix("Shelf(").removesuffix(")")


def test_a_key_that_names_no_bucket_is_damage():
    with pytest.raises(Corrupt):
        SEGMENTS.bucket_of(b"c/segment/what")
    with pytest.raises(Corrupt):
        segment_of(b"c/segment/0000000001/00001/\xff")
    for key in (b"c/segment/what", b"c/segment/0000000001/00001/\xff"):
        with pytest.raises(Corrupt):
            Holding().taking([Change(key, b"")])


class Counting:
    """A kind of record, and how often one of it was decoded."""

    def __init__(self):
        self.decoded = 0

    def decode(self, kind, value):
        self.decoded += 1
        return decode_record(kind, value)


@pytest.fixture
def counting(monkeypatch):
    found = Counting()
    monkeypatch.setattr(shelf, "decode_record", found.decode)
    return found


def test_what_a_leader_read_is_decoded_bucket_by_bucket_when_it_is_asked_for(counting):
    catalog = held(follow({}, [segment(1, 0, 1), segment(1, 0, 2), segment(1, 1, 3), replaced(1, 0, 4)]))
    assert counting.decoded == 0
    assert set(catalog.segments[(1, 0)]) == {name(1), name(2)}
    assert set(catalog.segments[(1, 0)]) == {name(1), name(2)}
    assert counting.decoded == 2, "each once"


def test_a_leader_counts_and_names_without_decoding(counting):
    catalog = held(follow({}, [segment(1, 0, 1), segment(1, 0, 2), segment(1, 1, 3), replaced(1, 0, 4)]))
    catalog = catalog.changed([Change(keys.segment(1, 0, name(1)), None), segment(1, 0, 5), segment(1, 0, 2)])
    decoded = counting.decoded
    assert (1, 0) in catalog.segments
    assert list(map(catalog.segments.count, sorted(catalog.segments))) == [2, 1]
    assert set(catalog.segments.names((1, 0))) == {name(2), name(5)}
    assert sorted(leftovers(catalog)) == leftovers(catalog)
    assert count(catalog) == 4
    assert LiveKeys(catalog).count == 4
    assert counting.decoded == decoded


def test_who_passes_through_a_leader_s_segments_leaves_them_undecoded(counting):
    catalog = held(follow({}, [segment(1, 0, 1), segment(1, 0, 2)]))
    for _ in range(2):
        assert {one.id for one in catalog.segments.passing((1, 0))} == {name(1), name(2)}
    assert counting.decoded == 4
    catalog.segments.get((1, 0))
    assert {one.id for one in catalog.segments.passing((1, 0))} == {name(1), name(2)}
    assert counting.decoded == 6, "what was asked for is there"


def test_what_a_leader_held_goes_with_the_last_segment_of_its_bucket():
    catalog = held(follow({}, [segment(1, 0, 1), segment(1, 0, 2)]))
    for one in (1, 2):
        catalog = catalog.changed([Change(keys.segment(1, 0, name(one)), None)])
    assert changed_in(catalog.segments) == "{}"


def test_a_record_that_is_damaged_is_found_by_whoever_asks_for_its_bucket():
    items = follow({}, [segment(1, 0, 1), segment(1, 1, 2)]) | {keys.segment(1, 0, name(3)): b"what"}
    catalog = held(items)
    assert set(catalog.segments[(1, 1)]) == {name(2)}
    with pytest.raises(Corrupt):
        catalog.segments.get((1, 0))
    with pytest.raises(Corrupt):
        list(catalog.segments.passing((1, 0)))
    with pytest.raises(Corrupt):
        restored(items)
