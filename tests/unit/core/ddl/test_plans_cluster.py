"""ALTER CLUSTER REBALANCE: what it writes, and when it changes nothing."""

import msgspec

from leasehold.core.catalog.plan import Context
from leasehold.core.ddl.plans import plan
from leasehold.core.words import keys
from leasehold.core.words.statements import Rebalance
from tests.unit.core.ddl_words import written
from tests.unit.core.replicas.test_placement import TABLE, ground
from tests.unit.core.replicas.test_spread import moving_to_four


def asked(catalog, *, stops):
    return plan(Rebalance(stops=stops), catalog, Context())


def with_setting(catalog, rebalance):
    return msgspec.structs.replace(catalog, settings=msgspec.structs.replace(catalog.settings, rebalance=rebalance))


def test_a_rebalance_is_marked_once_and_the_statement_says_how_to_wait():
    catalog = ground()
    begun = asked(catalog, stops=False)
    assert written(begun.changes) == {keys.CLUSTER: msgspec.structs.replace(catalog.cluster, rebalancing=True)}
    assert "`leasehold rebalance --wait`" in begun.notes[0]
    assert asked(catalog.changed(begun.changes), stops=False) is None


def test_a_stop_takes_the_mark_and_all_moves_away():
    catalog = moving_to_four()
    ended = asked(catalog, stops=True)
    cluster, bucket = catalog.cluster, catalog.buckets[TABLE, 0]
    assert written(ended.changes) == {
        keys.CLUSTER: msgspec.structs.replace(cluster, rebalancing=False),
        keys.bucket(TABLE, 0): msgspec.structs.replace(bucket, moving=None),
    }
    assert ended.notes == ()
    assert asked(catalog.changed(ended.changes), stops=True) is None


def test_a_stop_says_that_an_automatic_one_may_begin_again():
    assert "rebalance = 'manual'" in asked(with_setting(moving_to_four(), 1), stops=True).notes[0]
