"""ALTER CLUSTER REBALANCE and REVOKE CERTIFICATE: what they write, and when they change nothing."""

import msgspec
import pytest

from leasehold.core.catalog.plan import Context
from leasehold.core.ddl.plans import plan
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import RevokedCertificateRecord
from leasehold.core.words.statements import Rebalance, RevokeCertificate
from leasehold.errors import Refused
from leasehold.limits.certificates import REVOKED_CERTIFICATES_MAX
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


def revoked(catalog, serial, *, revokes=True):
    return plan(RevokeCertificate(serial=serial, revokes=revokes), catalog, Context())


def test_a_certificate_is_revoked_once_and_counts_again_once():
    catalog, key = ground(), keys.revoked_certificate("1f")
    made = revoked(catalog, "1f")
    assert written(made.changes) == {key: RevokedCertificateRecord(serial="1f")}
    assert revoked(catalog, "1f", revokes=False) is None
    after = catalog.changed(made.changes)
    assert revoked(after, "1f") is None
    assert revoked(after, "1f", revokes=False).changes == (Change(key, None),)


def test_so_many_certificates_are_revoked_and_no_more():
    catalog = ground()
    for number in range(REVOKED_CERTIFICATES_MAX):
        catalog = catalog.changed(revoked(catalog, f"{number + 1:x}").changes)
    with pytest.raises(Refused) as caught:
        revoked(catalog, "ffffffff")
    assert caught.value.code == "TOO_MANY_CERTIFICATES"
    assert revoked(catalog, "1", revokes=False) is not None
