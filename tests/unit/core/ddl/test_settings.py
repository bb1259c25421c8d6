"""The settings: what a change of them writes, as a procedure, and what SHOW CLUSTER tells of them."""

import msgspec
import pytest

from leasehold.core import ddl
from leasehold.core.ddl.claims import claims
from leasehold.core.ddl.settings import SETTINGS as ALL
from leasehold.core.ddl.settings import largest_lease_lowered, settings_changes, settings_rows
from leasehold.core.words import keys
from leasehold.core.words.records import Claim, LargestLeaseRecord
from leasehold.core.words.statements import AlterCluster
from leasehold.limits.units import SECOND_NS
from tests.unit.core.catalog_words import SETTINGS, Ground, create_table, drop_database, receipt
from tests.unit.core.ddl_words import began, close, run, written

LONGER, SHORTER = 60 * SECOND_NS, 2 * SECOND_NS


def longer(duration_ns=LONGER, **others):
    return AlterCluster(settings={"lease_duration": duration_ns, **others})


def seconds():
    """A cluster whose durations are within their ranges: 3 s and 500 ms."""
    settings = msgspec.structs.replace(SETTINGS, lease_duration_ns=3 * SECOND_NS, lease_margin_ns=SECOND_NS // 2)
    base = Ground(settings=settings)
    base.put(keys.LARGEST_LEASE, LargestLeaseRecord(duration_ns=3 * SECOND_NS))
    return base


def test_a_longer_duration_raises_the_largest_lease_in_the_same_transaction():
    base = seconds()
    after = msgspec.structs.replace(base.catalog.settings, lease_duration_ns=LONGER)
    largest = LargestLeaseRecord(duration_ns=LONGER)
    changes = began(base, longer())
    assert changes == ({keys.SETTINGS: after, keys.LARGEST_LEASE: largest}, 0)


def test_a_shorter_duration_leaves_the_largest_lease():
    base = seconds()
    after = msgspec.structs.replace(base.catalog.settings, lease_duration_ns=SHORTER, lease_margin_ns=3 * 10**8)
    changes = began(base, longer(SHORTER, lease_margin=3 * 10**8))
    assert changes == ({keys.SETTINGS: after}, 0)


def test_a_duration_below_the_largest_lease_that_is_still_counted_leaves_it():
    base = seconds()
    run(base, longer())
    run(base, longer(SHORTER))
    assert set(written(settings_changes({"lease_duration": 30 * SECOND_NS}, base.catalog))) == {keys.SETTINGS}
    assert base.catalog.largest_lease == LargestLeaseRecord(duration_ns=LONGER)


def test_the_present_values_change_nothing():
    base = seconds()
    same = AlterCluster(settings={"lease_duration": 3 * SECOND_NS, "min_in_sync": 1})
    begun = ddl.begin(base.request(same), base.catalog)
    assert begun == ddl.Begun(changes=(), procedure=None)


def test_the_largest_lease_is_lowered_to_the_duration_set_and_no_further():
    base = seconds()
    assert largest_lease_lowered(base.catalog) == ()
    run(base, longer())
    assert largest_lease_lowered(base.catalog) == ()
    run(base, longer(SHORTER))
    lowered = largest_lease_lowered(base.catalog)
    assert written(lowered) == {keys.LARGEST_LEASE: LargestLeaseRecord(duration_ns=SHORTER)}
    base.commit(lowered)
    assert largest_lease_lowered(base.catalog) == ()


def test_only_changes_of_the_settings_wait_for_each_other():
    assert claims(longer()) == {"cluster": Claim.EXCLUSIVE}
    for other in (create_table(), drop_database()):
        assert not claims(other).keys() & claims(longer()).keys()


def test_the_receipt_tells_the_larger_of_the_bounds_that_were_published():
    base = seconds()
    procedure = base.begin(longer())
    record = base.catalog.statements[procedure.statement]
    later = ddl.ended(record, receipt(base.catalog.revision), 5, record.bound_ns + 1)
    assert later.bound_ns == record.bound_ns + 1, "of the leader that ended it"
    close(base, procedure)
    assert base.catalog.statements[procedure.statement].bound_ns == record.bound_ns
    assert procedure.number not in base.catalog.procedures


def test_a_value_out_of_range_never_comes_this_far():
    for one in ALL:
        for value in (-1 if one.for_zero and one.smallest == 1 else one.smallest - 1, one.largest + 1):
            with pytest.raises(AssertionError):
                settings_changes({one.name: value}, seconds().catalog)


def test_what_is_shown():
    base = seconds()
    run(base, longer(90 * SECOND_NS, min_in_sync=2))
    run(base, longer(SHORTER))
    assert [row[:3] for row in settings_rows(base.catalog)] == [
        ("lease_duration", "2s", "1s600ms to 10m"),
        ("lease_margin", "500ms", "100ms to 10s"),
        ("leadership_duration", "3s", "2s to 30s"),
        ("min_in_sync", "2", "1 to 7 or 'auto'"),
        ("replace_after", "15m", "5s to 30d or 'never'"),
        ("repair_rate", "67108864", "1048576 to 17179869184"),
        ("rebalance", "manual", "'manual' or 'auto'"),
        ("local_reads", "on", "'off' or 'on'"),
        ("catch_up_difference", "100", "1 to 1000000"),
        ("retention", "1h", "1s to 30d"),
        ("retention_revisions", "200000", "100 to 100000000"),
        ("retention_bytes", "268435456", "1048576 to 8589934592"),
        ("clock_step", "10m", "1s to 36500d"),
        ("scrub_every", "7d", "1m to 366d or 'never'"),
        ("largest_lease", "1m30s", "fixed"),
        ("generation", "1", "fixed"),
        ("rebalancing", "no", "fixed"),
        ("clock_drift", "0%", "fixed"),
    ]
