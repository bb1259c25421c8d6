"""INV-LEASE-1: a holder's deadline is never later than its leader's bound for it, in real time.

Compared across the two clocks by an observer who knows both. An incarnation that its leader counts as closed or
superseded must have no lease left at all.
"""

from leasehold.core.lease import NO_LEASE
from leasehold.testing.actors import Coordinator, NodeProcess
from leasehold.testing.oracle import Oracle


def check(oracle: Oracle) -> str | None:
    """Every live lease against the grantor of its term."""
    for process in oracle.processes:
        if process.lease is NO_LEASE:
            continue
        for coordinator in oracle.coordinators:
            if coordinator.grantor is not None and coordinator.term == process.lease.term:
                wrong = _against(process, coordinator, oracle.real_ns)
                if wrong is not None:
                    return wrong
    return None


def _against(process: NodeProcess, coordinator: Coordinator, real_ns: int) -> str | None:
    assert coordinator.grantor is not None
    held = coordinator.grantor.held(process.node)
    ends_ns = process.lease_ends_ns()
    if held is None or held.incarnation < process.incarnation:
        return f"{process.name} holds a lease of {coordinator.name}, which knows no such incarnation"
    if held.incarnation > process.incarnation or held.closed is not None:
        if ends_ns > real_ns:
            return f"{process.name} is closed at {coordinator.name}, its lease lasts {ends_ns - real_ns} ns more"
        return None
    bound_ns = coordinator.clock.real_ns(held.bound_ns)
    if ends_ns > bound_ns:
        return f"the lease of {process.name} ends {ends_ns - bound_ns} ns after the bound of {coordinator.name}"
    return None
