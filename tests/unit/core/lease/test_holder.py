"""The holder and its guard, effect by effect."""

import msgspec
import pytest

from leasehold.core.lease.holder import (
    NO_LEASE,
    Applied,
    Drained,
    GrantReceived,
    Holder,
    Lease,
    Pass,
    PublishLease,
    SendRenewal,
    SendSurrender,
    SessionEstablished,
    SurrenderRequested,
    guard,
)
from leasehold.core.words.lineage import GENESIS
from leasehold.core.words.messages import Grant, Renewal, Surrender
from leasehold.core.words.time_passed import TimePassed
from leasehold.ids import LineageHash
from leasehold.limits.lease import RENEWALS_OUTSTANDING_MAX
from leasehold.testing.leases.actors import LeaseCatalog

SESSION = "5" * 32
AFTER = LineageHash(b"\1" * 32)


def holder(applied=7):
    return Holder(node=3, incarnation=2, session=SESSION, applied=applied, lineage=GENESIS, renew_every_ns=500)


def renewal(request, applied=7, lineage=GENESIS):
    message = Renewal(node=3, incarnation=2, session=SESSION, request=request, applied=applied, lineage=lineage)
    return (SendRenewal(renewal=message),)


def grant(request, *, term=1, sequence=1, duration_ns=3_000, floor=7):
    return GrantReceived(
        grant=Grant(request=request, term=term, sequence=sequence, duration_ns=duration_ns, floor=floor)
    )


def lease(deadline_ns, *, term=1, sequence=1):
    return (PublishLease(lease=Lease(term=term, sequence=sequence, deadline_ns=deadline_ns)),)


def connected(at_ns=100, term=1):
    one = holder()
    assert one.step(SessionEstablished(term=term), at_ns) == renewal(1)
    return one


# ---------------------------------------------------------------- no lease, leased


def test_a_new_holder_has_nothing_and_asks_for_nothing():
    one = holder()
    assert one.lease is NO_LEASE
    assert one.applied == 7
    assert one.next_deadline_ns() is None
    assert one.step(TimePassed(), 10**12) == ()
    assert one.step(grant(1), 10**12) == ()


def test_no_lease_and_grant_gives_leased():
    one = connected(at_ns=100)
    assert one.next_deadline_ns() == 600
    assert one.step(grant(1), 2_900) == lease(3_100)
    assert one.lease == Lease(term=1, sequence=1, deadline_ns=3_100)


def test_leased_and_grant_gives_a_later_deadline():
    one = connected(at_ns=100)
    one.step(grant(1), 110)
    assert one.step(TimePassed(), 599) == ()
    assert one.step(TimePassed(), 600) == renewal(2)
    assert one.next_deadline_ns() == 1_100
    assert one.step(grant(2, sequence=5), 700) == lease(3_600, sequence=5)


def test_leased_and_deadline_passed_is_no_lease_by_the_clock_alone():
    one = connected(at_ns=100)
    one.step(grant(1), 110)
    published = Slot(one.lease, LeaseCatalog(7))
    assert guard(published, lambda: 3_099) == Pass(LeaseCatalog(7), one.lease, 3_099)
    assert guard(published, lambda: 3_100) is None


def test_renewals_are_stamped_with_the_time_they_are_made():
    one = connected(at_ns=100)
    one.step(TimePassed(), 5_000)
    assert one.next_deadline_ns() == 5_500
    assert one.step(grant(2), 9_000) == lease(8_000)
    # The first one's answer comes late: its deadline would be earlier, and it was overtaken.
    assert one.step(grant(1, sequence=2), 9_001) == lease(8_000, sequence=2)


def test_a_deadline_is_not_taken_back_by_a_shorter_grant():
    one = connected(at_ns=100)
    one.step(grant(1, duration_ns=60_000), 110)
    one.step(TimePassed(), 600)
    assert one.step(grant(2, sequence=2, duration_ns=1_000), 610) == lease(60_100, sequence=2)


@pytest.mark.parametrize(
    "late",
    [
        grant(1, sequence=9),  # doubled
        grant(99, sequence=9),  # never asked for
        grant(2, sequence=1),  # overtaken by the newer one of its term
        grant(2, sequence=3),  # the same number again
        grant(2, term=1, sequence=9),  # an older leader
        grant(2, term=2, sequence=9, floor=8),  # below its own floor
    ],
)
def test_what_a_holder_does_not_accept_changes_nothing(late):
    one = connected(at_ns=100)
    one.step(TimePassed(), 600)
    held = one.step(grant(1, term=2, sequence=3), 610)
    assert held == lease(3_100, term=2, sequence=3)
    assert one.step(late, 620) == ()
    assert one.lease == Lease(term=2, sequence=3, deadline_ns=3_100)


def test_a_higher_term_begins_its_sequence_again():
    one = connected(at_ns=100)
    one.step(grant(1, sequence=50), 110)
    one.step(TimePassed(), 600)
    assert one.step(grant(2, term=2, sequence=1), 610) == lease(3_600, term=2, sequence=1)


def test_only_so_many_renewals_are_remembered():
    one = connected(at_ns=0)
    for number in range(2, RENEWALS_OUTSTANDING_MAX + 2):
        assert one.step(TimePassed(), number * 1_000) == renewal(number)
    assert one.step(grant(1), 10**6) == ()
    assert one.step(grant(2), 10**6) == lease(2_000 + 3_000)


# ---------------------------------------------------------------- sessions and views


def test_a_session_with_an_older_leader_is_of_no_use():
    one = connected(term=3)
    one.step(grant(1, term=3), 110)
    assert one.step(SessionEstablished(term=2), 200) == ()
    assert one.next_deadline_ns() == 600
    assert one.step(SessionEstablished(term=3), 200) == renewal(2)
    assert one.next_deadline_ns() == 700


def test_an_urgent_view_is_reported_at_once():
    one = connected(at_ns=100)
    assert one.step(Applied(revision=8, lineage=AFTER, urgent=True), 150) == renewal(2, 8, AFTER)
    # The regular ones stay where they were, so that nodes which were spread stay spread.
    assert one.next_deadline_ns() == 600
    assert one.applied == 8


def test_another_view_waits_for_the_next_renewal():
    one = connected(at_ns=100)
    assert one.step(Applied(revision=9, lineage=AFTER, urgent=False), 150) == ()
    assert one.step(TimePassed(), 600) == renewal(2, 9, AFTER)


def test_no_view_is_reported_without_a_session():
    one = holder()
    assert one.step(Applied(revision=8, lineage=AFTER, urgent=True), 150) == ()
    assert one.step(SessionEstablished(term=1), 160) == renewal(1, 8, AFTER)


@pytest.mark.parametrize("revision", [6, 7])
def test_a_view_never_goes_back(revision):
    one = connected()
    with pytest.raises(AssertionError, match="INV-BARRIER-1"):
        one.step(Applied(revision=revision, lineage=AFTER, urgent=True), 150)
    assert one.applied == 7
    assert one.step(TimePassed(), 600) == renewal(2)


# ---------------------------------------------------------------- surrender


@pytest.mark.parametrize("leased", [False, True])
def test_surrendering_ends_the_lease_first_and_speaks_last(leased):
    one = connected(at_ns=100)
    if leased:
        one.step(grant(1), 110)
    assert one.step(SurrenderRequested(), 200) == (PublishLease(lease=NO_LEASE),)
    assert one.lease is NO_LEASE
    assert one.next_deadline_ns() is None
    # Nothing brings the lease back, nothing is said in between.
    assert one.step(grant(1), 210) == ()
    assert one.step(TimePassed(), 10_000) == ()
    assert one.step(SessionEstablished(term=9), 10_000) == ()
    assert one.step(Applied(revision=8, lineage=AFTER, urgent=True), 10_000) == ()
    last = SendSurrender(surrender=Surrender(node=3, incarnation=2, session=SESSION))
    assert one.step(Drained(), 10_001) == (last,)
    assert one.lease is NO_LEASE


def test_drained_before_it_was_asked_to_stop_is_illegal():
    one = connected()
    one.step(grant(1), 110)
    with pytest.raises(AssertionError, match="surrender"):
        one.step(Drained(), 120)
    assert one.lease == Lease(term=1, sequence=1, deadline_ns=3_100)


@pytest.mark.parametrize(("incarnation", "renew_every_ns"), [(0, 500), (1, 0)])
def test_a_holder_belongs_to_a_joined_incarnation(incarnation, renew_every_ns):
    with pytest.raises(AssertionError):
        Holder(
            node=1,
            incarnation=incarnation,
            session=SESSION,
            applied=1,
            lineage=GENESIS,
            renew_every_ns=renew_every_ns,
        )


# ---------------------------------------------------------------- the guard


class Slot:
    """Publishes a view and a lease, and notes who reads what."""

    def __init__(self, lease, view, readings=None):
        self._lease, self._view = lease, view
        self.readings = [] if readings is None else readings

    @property
    def lease(self):
        self.readings.append("lease")
        return self._lease

    @lease.setter
    def lease(self, lease):
        self._lease = lease

    @property
    def view(self):
        self.readings.append("view")
        return self._view

    def now_ns(self):
        self.readings.append("clock")
        return 99


@pytest.mark.parametrize(
    ("deadline_ns", "readings"),
    [(100, ["lease", "clock", "view", "lease"]), (99, ["lease", "clock"]), (0, ["lease", "clock"])],
)
def test_the_guard_reads_the_deadline_the_clock_the_view_and_again_the_lease(deadline_ns, readings):
    slot = Slot(Lease(term=1, sequence=2, deadline_ns=deadline_ns), LeaseCatalog(7))
    outcome = guard(slot, slot.now_ns)
    assert slot.readings == readings
    assert outcome == (Pass(LeaseCatalog(7), slot.lease, 99) if len(readings) == 4 else None)


def test_a_lease_given_back_while_a_guard_is_paused_fails_it():
    """The leader closes a surrendered incarnation at once: what its guards read before must not pass afterwards."""
    one = connected(at_ns=100)
    one.step(grant(1), 110)
    published = Slot(one.lease, LeaseCatalog(7))

    def paused_before_the_clock():
        for effect in one.step(SurrenderRequested(), 200):
            published.lease = effect.lease
        assert one.step(Drained(), 201)
        return 300

    assert guard(published, paused_before_the_clock) is None


def test_no_lease_has_ended_at_every_instant():
    assert guard(Slot(NO_LEASE, LeaseCatalog(7)), lambda: 0) is None


def test_leases_are_replaced_and_never_changed():
    with pytest.raises(AttributeError):
        NO_LEASE.deadline_ns = 10
    assert msgspec.structs.replace(NO_LEASE, deadline_ns=10) != NO_LEASE
