"""When a leader that nobody speaks to steps aside."""

from leasehold.core.log.isolation import DOUBLINGS_MAX, SILENT_LEASES, Isolation

LEASE_NS = 3


def test_it_counts_from_the_beginning_and_from_each_message() -> None:
    isolation = Isolation()
    isolation.began(100)
    assert isolation.due_ns(LEASE_NS) == 100 + SILENT_LEASES * LEASE_NS
    isolation.heard(104)
    assert isolation.due_ns(LEASE_NS) == 104 + SILENT_LEASES * LEASE_NS
    isolation.heard(102)
    assert isolation.due_ns(LEASE_NS) == 104 + SILENT_LEASES * LEASE_NS, "an older message says nothing new"


def test_it_steps_aside_ever_more_rarely_until_it_is_spoken_to() -> None:
    isolation, now_ns, waits = Isolation(), 0, []
    for _ in range(DOUBLINGS_MAX + 3):
        isolation.began(now_ns)
        waits.append((isolation.due_ns(LEASE_NS) - now_ns) // (SILENT_LEASES * LEASE_NS))
        now_ns = isolation.due_ns(LEASE_NS)
        isolation.stepped_aside()
    assert waits == [1, 2, 4, 8, 16, 32, 32, 32]
    isolation.heard(now_ns + 1)
    assert isolation.due_ns(LEASE_NS) == now_ns + 1 + SILENT_LEASES * LEASE_NS
