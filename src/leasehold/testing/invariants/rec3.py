"""INV-REC-3: a node in the logical topology has applied what the leader required of it.

What is required of an incarnation is told twice: the floor that its leader owed when it was let in, by the oracle's
count, and the revision that the leader named when the incarnation entered the logical topology. Each grant answers a
report of at least the latter, and goes to an incarnation that has entered and that the store says is a member; the
first grant and the first lease after either find at least that reported, and published.
"""

from typing import Final

from leasehold.core.lease.holder import NO_LEASE
from leasehold.core.words import keys
from leasehold.core.words.records import NodeRecord
from leasehold.ids import Incarnation, NodeId, Revision
from leasehold.testing.news import EnteredTopology, Granted, Leased, LetIn
from leasehold.testing.oracle import Oracle, first_wrong

HEARS: Final = frozenset({EnteredTopology, Granted, Leased, LetIn})

Life = tuple[NodeId, Incarnation]


class Entrances:
    """The revision that each incarnation needs for its first grant, its first lease, and later grants."""

    def __init__(self) -> None:
        self.before_grant: dict[Life, Revision] = {}
        self.before_lease: dict[Life, Revision] = {}
        self.entered: dict[Life, Revision] = {}

    def let_in(self, news: LetIn) -> None:
        """The incarnation has joined, and has not entered the topology yet."""
        life = (news.node, news.incarnation)
        self.before_grant[life] = self.before_lease[life] = news.required

    def enter(self, news: EnteredTopology) -> None:
        """The incarnation enters the logical topology, perhaps again."""
        life = (news.node, news.incarnation)
        self.entered[life] = news.required
        self.before_lease[life] = max(news.required, self.before_lease.get(life, Revision(0)))


def check(oracle: Oracle) -> str | None:
    entrances = oracle.recall(Entrances)
    for let_in in oracle.of(LetIn):
        entrances.let_in(let_in)
    for entered in oracle.of(EnteredTopology):
        entrances.enter(entered)
    wrong = first_wrong(_granted(oracle, entrances, granted) for granted in oracle.of(Granted))
    if wrong is not None:
        return wrong
    for leased in oracle.of(Leased):
        if leased.lease is NO_LEASE:
            continue
        process = leased.process
        required = entrances.before_lease.pop((process.node, process.incarnation), Revision(0))
        if leased.showing < required:
            return f"{process.name} serves revision {leased.showing} first, {required} was required of it"
    return None


def _granted(oracle: Oracle, entrances: Entrances, news: Granted) -> str | None:
    renewal = news.renewal
    life = (renewal.node, renewal.incarnation)
    required = max(entrances.before_grant.pop(life, Revision(0)), entrances.entered.get(life, Revision(0)))
    if renewal.applied < required:
        return f"node {renewal.node} enters with revision {renewal.applied}, {required} was required of it"
    record = oracle.history.records.get(keys.node(renewal.node))
    if isinstance(record, NodeRecord) and record.incarnation == renewal.incarnation:
        return None if record.member else f"node {renewal.node} is granted a lease, and is not in the logical topology"
    if life not in entrances.entered:
        return f"node {renewal.node} is granted a lease, and has never entered the logical topology"
    return None
