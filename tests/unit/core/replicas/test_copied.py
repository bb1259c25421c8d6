"""How fast nodes copy, from the entries that name them anew."""

import msgspec

from leasehold.core.catalog.plan import put
from leasehold.core.replicas.copied import CopiedBytes
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.limits.membership import COPY_RATE_SECONDS
from leasehold.limits.units import SECOND_NS
from tests.unit.core.replicas.test_placement import TABLE, bucket, ground
from tests.unit.core.replicas.test_replication import segment

ONE, OTHER = (msgspec.structs.replace(segment(number, 1), size_bytes=600) for number in (1, 2))


def held(entry, *holders):
    return put(keys.segment(TABLE, 0, entry.id), msgspec.structs.replace(entry, holders=holders))


def test_what_a_node_holds_anew_is_its_rate_until_the_time_is_over():
    catalog = ground(buckets=[bucket(0, 1, 2, 3)], segments=[ONE])
    copied, begun_ns = CopiedBytes(), 100 * SECOND_NS

    def commit(at_ns, *changes):
        nonlocal catalog
        before, catalog = catalog, catalog.changed(changes)
        copied.committed(changes, before, catalog, at_ns)

    commit(begun_ns, held(OTHER, 1, 2))
    assert copied.rates(begun_ns) == {}, "a new segment is no copy"
    commit(begun_ns, held(ONE, 1, 2))
    assert copied.rates(begun_ns) == {2: 600}
    commit(begun_ns + SECOND_NS, held(OTHER, 1, 2, 3), held(ONE, 1))
    assert copied.rates(begun_ns + SECOND_NS) == {2: 300, 3: 600}
    commit(begun_ns + SECOND_NS, Change(key=keys.segment(TABLE, 0, ONE.id), value=None))
    assert copied.rates(begun_ns + 3 * SECOND_NS) == {2: 150, 3: 200}
    assert copied.rates(begun_ns + COPY_RATE_SECONDS * SECOND_NS) == {3: 60}
    assert copied.rates(begun_ns + (COPY_RATE_SECONDS + 1) * SECOND_NS) == {}
