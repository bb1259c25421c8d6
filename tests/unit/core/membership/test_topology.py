"""Who enters the logical topology, who has to leave it, and what each of that writes."""

import msgspec
import pytest

from leasehold.core.lease.grants import HeldLease
from leasehold.core.membership.topology import Enter, decide_entrance, has_to_leave, left
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.messages import RecoveryAccepted, RecoveryBehind
from leasehold.core.words.records import Record, SettledHow
from leasehold.limits.membership import TOPOLOGY_GRACE_NS
from tests.unit.core.catalog_words import SETTINGS, Ground, node

NOW = 10 * TOPOLOGY_GRACE_NS


def lease(*, incarnation=1, bound_ns=0, closed=None, required=None):
    return HeldLease(
        incarnation=incarnation, session_hash=b"s", bound_ns=bound_ns, applied=7, closed=closed, required=required
    )


def entrance(base, *, incarnation=1, applied=None, held=None, **fields):
    one = msgspec.structs.replace(base.catalog.nodes[1], **fields)
    at = base.catalog.revision if applied is None else applied
    return decide_entrance(base.catalog, one, incarnation, at, held or lease())


def far(revisions):
    """A cluster whose newest revision is so much further than its first."""
    base = Ground(settings=msgspec.structs.replace(SETTINGS, catch_up_difference=5))
    base.commit((), skip=revisions - 1)
    return base


def written(changes):
    return {one.key: decode_record(Record, one.value) for one in changes}


def test_whoever_has_recovered_enters_and_the_version_of_the_topology_is_counted():
    base = Ground()
    decision = entrance(base)
    assert isinstance(decision, Enter)
    assert written(decision.changes) == {
        keys.node(1): node(1, member=True),
        keys.COUNTERS: msgspec.structs.replace(base.catalog.counters, topology=1),
    }


def test_whoever_comes_back_has_left_no_more():
    decision = entrance(Ground(), left=True)
    assert written(decision.changes)[keys.node(1)] == node(1, member=True)


def test_the_catch_up_difference_is_the_most_that_may_be_lacking():
    base = far(5)
    assert isinstance(entrance(base, applied=base.catalog.revision - 5), Enter)
    behind = entrance(base, applied=base.catalog.revision - 6)
    assert behind == RecoveryBehind(latest=base.catalog.revision, catch_up_difference=5)


def test_a_member_that_says_it_again_is_told_what_is_required_of_it_already():
    assert entrance(Ground(), member=True, held=lease(required=1)) == RecoveryAccepted(required=1)


def test_a_member_by_a_write_that_failed_to_take_it_out_enters_again_without_one():
    base = Ground()
    assert entrance(base, member=True, held=lease(required=None)) == RecoveryAccepted(required=base.catalog.revision)


@pytest.mark.parametrize(
    "how",
    [
        {"held": lease(closed=SettledHow.SURRENDERED)},
        {"held": lease(closed=SettledHow.FENCED)},
        {"held": lease(incarnation=2)},
        {"incarnation": 2},
        {"incarnation": 2, "held": lease(incarnation=2)},
        {"removed": True},
    ],
)
def test_only_the_incarnation_that_lives_is_heard(how):
    assert entrance(Ground(), **how) is None


MEMBER = node(1, member=True)


@pytest.mark.parametrize(
    ("one", "held", "absent_ns", "expected"),
    [
        (MEMBER, lease(closed=SettledHow.SURRENDERED, bound_ns=2 * NOW), None, True),
        (MEMBER, lease(), NOW - TOPOLOGY_GRACE_NS, True),
        (MEMBER, lease(), NOW - TOPOLOGY_GRACE_NS + 1, False),
        (MEMBER, lease(), None, False),
        (MEMBER, lease(bound_ns=NOW), 0, True),
        (MEMBER, lease(bound_ns=NOW + 1), 0, False),
        (MEMBER, lease(incarnation=2), 0, False),
        (MEMBER, None, 0, False),
        (node(1), lease(), 0, False),
    ],
)
def test_a_member_leaves_by_surrender_or_once_its_lease_and_its_session_have_been_gone_for_the_grace_time(
    one, held, absent_ns, expected
):
    assert has_to_leave(one, held, absent_ns, NOW) is expected


def test_who_leaves_is_remembered_to_have_left_and_the_version_is_counted():
    base = Ground()
    base.put(keys.node(1), MEMBER)
    assert written(left(MEMBER, base.catalog)) == {
        keys.node(1): node(1, left=True),
        keys.COUNTERS: msgspec.structs.replace(base.catalog.counters, topology=1),
    }


def test_who_is_no_member_leaves_nothing():
    assert left(node(1), Ground().catalog) == ()
