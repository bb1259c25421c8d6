"""What retired nodes still hold: when they are struck off it, and when buckets forget them."""

import msgspec
import pytest

from leasehold.core.catalog.plan import put
from leasehold.core.replicas.census import census
from leasehold.core.replicas.retired import forgotten, held_by_retired, struck
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import TransactionRecord, TransactionState
from tests.unit.core.catalog_words import hex_128
from tests.unit.core.replicas.test_placement import MANY, TABLE, bucket, ground
from tests.unit.core.replicas.test_replication import segment

HERE = (TABLE, 0)


def retiring(*entries, replicas=(1, 2), retired=(3,), below=0, **nodes):
    one = msgspec.structs.replace(bucket(0, *replicas), retired=retired, retired_below=below)
    return ground(buckets=[one], segments=entries, **nodes)


def write(number, state=TransactionState.OPEN, of=TABLE):
    record = TransactionRecord(id=hex_128(number), order=number, table=of, schema_version=1, state=state, rows=0)
    return put(keys.transaction(record.id), record)


def test_a_retired_node_is_struck_off_what_enough_replicas_hold_and_is_forgotten_then():
    catalog = retiring(segment(1, 1, 2, 3), segment(2, 1, 3), segment(3, 1, 2))
    entries, done = held_by_retired(catalog)
    assert (entries, done) == ([(*HERE, segment(1).id)], []), "nothing goes that one replica alone holds"
    changes, taken = struck([*entries, (*HERE, segment(2).id)], catalog, MANY)
    catalog = catalog.changed(changes)
    assert (taken, catalog.segments[HERE][segment(1).id].holders) == (2, (1, 2))
    assert held_by_retired(catalog) == ([], [])

    catalog = catalog.changed([put(keys.segment(*HERE, segment(2).id), segment(2, 1, 2, 3))])
    entries, _ = held_by_retired(catalog)
    catalog = catalog.changed(struck(entries, catalog, MANY)[0])
    assert held_by_retired(catalog) == ([], [HERE])
    catalog = catalog.changed(forgotten([HERE], catalog, catalog))
    assert catalog.buckets[HERE] == bucket(0, 1, 2)
    assert (held_by_retired(catalog), len(catalog.retired)) == (([], []), 0)


def test_a_removed_replica_does_not_count_as_a_holder():
    catalog = retiring(segment(1, 1, 2, 3), members=(1, 3), removed=(2,))
    assert held_by_retired(catalog) == ([(*HERE, segment(1).id)], []), "the removed node is to be struck off"
    assert catalog.changed(struck([(*HERE, segment(1).id)], catalog, MANY)[0]).segments[HERE][
        segment(1).id
    ].holders == (
        1,
        3,
    )


@pytest.mark.parametrize(
    ("writes", "waits"),
    [
        ([write(6)], True),
        ([write(6), write(9)], True),
        ([write(7)], False),
        ([write(6, TransactionState.COMMITTED)], False),
        ([write(6, of=9)], False),
    ],
)
def test_a_retired_node_stays_while_a_write_is_open_that_may_have_reached_it(writes, waits):
    for entries in ([], [segment(1, 1, 2, 3)]):
        catalog = retiring(*entries, below=7).changed(writes)
        assert (held_by_retired(catalog) == ([], [])) == waits


@pytest.mark.parametrize(
    "change",
    [
        put(keys.segment(*HERE, segment(1).id), segment(1, 3)),
        put(keys.bucket(*HERE), msgspec.structs.replace(bucket(0, 1), retired=(2, 3))),
        Change(keys.bucket(*HERE), None),
    ],
)
def test_a_bucket_that_has_changed_since_is_looked_at_again(change):
    seen = retiring()
    assert held_by_retired(seen) == ([], [HERE])
    assert forgotten([HERE], seen, seen.changed([change])) == ()


def test_what_a_retired_node_holds_counts_in_its_census():
    catalog = retiring(segment(1, 3), segment(2, 1, 2, 3))
    found = census(3, catalog)
    assert (set(found.buckets), found.lost) == ({HERE}, 1)
