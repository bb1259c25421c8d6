"""How many keys there are, counted by each revision, is how many there are."""

from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.catalog import live_keys
from leasehold.core.catalog.apply import COLLECTIONS, SINGLES
from leasehold.core.catalog.live_keys import LiveKeys
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.operations import Change
from leasehold.core.words.records import DeleteRecord, GrantRecord, Right, UseState
from tests.few import examples
from tests.unit.core import catalog_words
from tests.unit.core.catalog_words import Ground, node


def segment(table, bucket, number):
    record = catalog_words.segment(table, number, bucket=bucket)
    return keys.segment(table, bucket, record.id), record


def delete(table, number):
    record = DeleteRecord(table=table, number=number, state=UseState.IN_USE, where=())
    return keys.delete(table, number), record


def right(of, principal):
    record = GrantRecord(object=of, principal=principal, rights=(Right.SELECT,))
    return keys.grant(of, principal), record


SMALL = st.integers(1, 3)
RECORDS = st.one_of(
    st.builds(lambda number: (keys.node(number), node(number)), SMALL),
    st.builds(segment, SMALL, SMALL, SMALL),
    st.builds(delete, SMALL, SMALL),
    st.builds(right, SMALL, SMALL),
)


def test_every_kind_of_record_is_counted():
    assert len(live_keys._FLAT) + len(live_keys._NESTED) == len(COLLECTIONS)
    assert sorted(live_keys._SINGLES) == sorted(name for name, _ in SINGLES.values())


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.lists(st.tuples(RECORDS, st.booleans()), max_size=6, unique_by=lambda one: one[0][0]), max_size=12))
def test_each_revision_is_counted(revisions):
    base = Ground()
    counted = LiveKeys(base.catalog)
    assert counted.count == len(base.items) + 1, "and the lineage"
    for revision in revisions:
        changes = tuple(
            Change(key, None if gone else encode(record))
            for (key, record), gone in revision
            if not gone or key in base.items
        )
        base.commit(changes)
        counted.committed(base.batches[-1].changes, base.catalog)
        assert counted.count == len(base.items) + 1
        assert LiveKeys(base.catalog).count == counted.count, "as a leader elected now counts it"
