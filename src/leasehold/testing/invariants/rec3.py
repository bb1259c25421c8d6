"""INV-REC-3: a node in the logical topology has applied what the leader required of it.

A node is in the logical topology from its first lease on. What is required of an incarnation is the floor that its
leader owed when it was let in, by the oracle's count; its first grant answers a report of at least that, and its
first lease finds at least that published.
"""

from typing import Final

from leasehold.core.lease import NO_LEASE
from leasehold.ids import Incarnation, NodeId, Revision
from leasehold.testing.news import Granted, Leased, LetIn
from leasehold.testing.oracle import Oracle

HEARS: Final = frozenset({Granted, Leased, LetIn})

Life = tuple[NodeId, Incarnation]


class Entrances:
    """What each incarnation needs, until it has had its first grant, and its first lease."""

    def __init__(self) -> None:
        self.before_grant: dict[Life, Revision] = {}
        self.before_lease: dict[Life, Revision] = {}


def check(oracle: Oracle) -> str | None:
    """First grants and first leases against what was required at the join."""
    entrances = oracle.recall(Entrances)
    for news in oracle.of(LetIn):
        life = (news.node, news.incarnation)
        entrances.before_grant[life] = entrances.before_lease[life] = news.required
    for granted in oracle.of(Granted):
        renewal = granted.renewal
        required = entrances.before_grant.pop((renewal.node, renewal.incarnation), Revision(0))
        if renewal.applied < required:
            return f"node {renewal.node} enters with revision {renewal.applied}, {required} was required of it"
    for leased in oracle.of(Leased):
        if leased.lease is NO_LEASE:
            continue
        process = leased.process
        required = entrances.before_lease.pop((process.node, process.incarnation), Revision(0))
        if leased.showing < required:
            return f"{process.name} serves revision {leased.showing} first, {required} was required of it"
    return None
