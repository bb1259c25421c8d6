"""INV-LEASE-1: a holder's deadline is never later than its leader's bound for it, in real time.

Compared across the two clocks by an observer who knows both, for every lease that has not ended; the bound is that of
the leader whose term the lease names. An incarnation that its leader counts as closed or superseded must have no lease
left at all. Whatever drift a clock still takes on, within its limit, is one that the bound has allowed for.
"""

from leasehold.testing.news import LeaderSeen, ProcessSeen
from leasehold.testing.oracle import Oracle, first_wrong


def check(oracle: Oracle) -> str | None:
    leaders = oracle.leaders
    leased = (one for one in oracle.leased() if one.lease.term in leaders)
    return first_wrong(_against(oracle, one, leaders[one.lease.term]) for one in leased)


def _against(oracle: Oracle, process: ProcessSeen, leader: LeaderSeen) -> str | None:
    held = leader.grantor.held(process.node)
    ends_ns = process.lease_ends_ns()
    if held is None or held.incarnation < process.incarnation:
        return f"{process.name} holds a lease of {leader.name}, which knows no such incarnation"
    if held.incarnation > process.incarnation or held.closed is not None:
        return f"{process.name} is closed at {leader.name}, its lease lasts {ends_ns - oracle.real_ns} ns more"
    bound_ns = leader.clock.real_ns(held.bound_ns)
    if ends_ns > bound_ns:
        return f"the lease of {process.name} ends {ends_ns - bound_ns} ns after the bound of {leader.name}"
    return None
