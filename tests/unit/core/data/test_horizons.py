"""The expiry horizons as they follow the wall clock: which, and how far."""

import msgspec
import pytest

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.data.horizons import horizons
from leasehold.core.words import keys
from leasehold.core.words.records import HorizonRecord, TableRecord, UseState
from leasehold.limits.units import SECOND_NS

TABLE = TableRecord(
    id=1,
    database=1,
    name="t",
    state=UseState.IN_USE,
    schema_version=1,
    fields=(),
    next_field=1,
    cluster_by=None,
    buckets=1,
    replication=1,
    ttl_ns=10 * SECOND_NS,
    time_column=1,
    properties={},
)
NOW_US = 1_000_000_000


def table(number, ttl_ns=10 * SECOND_NS):
    return put(keys.table(number), msgspec.structs.replace(TABLE, id=number, name=f"t{number}", ttl_ns=ttl_ns))


def moved(catalog, wall_us=NOW_US):
    after = catalog.changed(horizons(sorted(catalog.tables), catalog, wall_us))
    return {number: one.horizon_us for number, one in after.horizons.items()}


def test_tables_with_a_ttl_get_one_and_others_none():
    catalog = Catalog().changed([table(1), table(2, None), table(3, SECOND_NS)])
    assert moved(catalog) == {1: NOW_US - 10_000_000, 3: NOW_US - 1_000_000}


@pytest.mark.parametrize(("behind_us", "moves"), [(999_999, False), (1_000_000, True), (-5_000_000, False)])
def test_it_moves_once_it_lies_behind_by_a_second_and_never_back(behind_us, moves):
    before = NOW_US - 10_000_000 - behind_us
    standing = put(keys.horizon(1), HorizonRecord(table=1, horizon_us=before))
    catalog = Catalog().changed([table(1), standing])
    assert moved(catalog) == {1: NOW_US - 10_000_000 if moves else before}


def test_what_a_ttl_that_is_being_shortened_hides_stays_hidden():
    standing = HorizonRecord(table=1, horizon_us=0, hidden_us=NOW_US)
    catalog = Catalog().changed([table(1), put(keys.horizon(1), standing)])
    after = catalog.changed(horizons([1], catalog, NOW_US)).horizons[1]
    assert after == msgspec.structs.replace(standing, horizon_us=NOW_US - 10_000_000)


def test_those_of_tables_that_are_gone_meanwhile_are_not_moved():
    assert horizons([1, 2], Catalog().changed([table(2)]), NOW_US)[0].key == keys.horizon(2)
    assert horizons([1], Catalog(), NOW_US) == ()
