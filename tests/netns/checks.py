"""What every statement has to keep to, whatever was broken while it ran."""

import logging

from leasehold.core.words.records import Outcome
from leasehold.limits.lease import BOUND_SLACK_NS, LEASE_DURATION_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from tests.netns.cluster import NODES, Ended, NetworkCluster, Scanner

log = logging.getLogger(__name__)

BOUND_NS = 4 * SECOND_NS
"""As published for the default settings."""
LEADER_CHANGE_NS = 7_500 * MILLISECOND_NS
"""What a change of leader adds at most."""


def check_bound(ended: Ended, *, leader_changes: int = 0) -> None:
    """It is done, and took no longer than was published; nor did its client wait longer for it. On a busy machine it
    may take longer by as much as its processes had to wait for a processor."""
    receipt = ended.receipt
    observed_ns = ended.answered_ns - ended.sent_ns
    took_ms, seen_ms, starved_ms = map(_ms, (receipt.elapsed_ns, observed_ns, ended.starved_ns))
    log.info("%s: %d ms, seen %d ms, starved %d ms: %s", receipt.text, took_ms, seen_ms, starved_ms, ended.how)
    assert receipt.outcome is Outcome.COMMITTED
    assert receipt.bound_ns == BOUND_NS
    allowed_ns = receipt.bound_ns + ended.starved_ns
    assert receipt.elapsed_ns <= allowed_ns
    assert observed_ns <= allowed_ns + leader_changes * LEADER_CHANGE_NS


def check_settled(ended: Ended, **otherwise: str) -> None:
    """How each node was settled: by its report, unless said otherwise (with _ for -)."""
    expected = dict.fromkeys(NODES, "applied") | {name.replace("_", "-"): how for name, how in otherwise.items()}
    assert ended.how == expected


def check_nothing_stale(cluster: NetworkCluster, ended: Ended) -> None:
    """INV-SERVE-1, by the clock that all processes of this machine share: whatever a node released after the
    statement had returned, it released on a view that holds its change."""
    assert ended.receipt.revision is not None
    late = [one for one in cluster.served() if one.released_ns >= ended.answered_ns]
    stale = [one for one in late if one.view < ended.receipt.revision]
    assert not stale, stale[:3]


def check_served_until_its_lease_ended(scanner: Scanner, ended: Ended, *, since_ns: int) -> None:
    """Cut off, the node went on to serve the old view for a while: there was something to wait for. Before the
    statement returned it stopped."""
    assert ended.receipt.revision is not None
    looks = [look for look in scanner.looks() if look.asked_ns >= since_ns]
    old = [look for look in looks if look.outcome == "SERVED" and look.view < ended.receipt.revision]
    assert old, "it served nothing any more, so this test shows nothing"
    log.info("it served until %d ms before the statement returned", _ms(ended.answered_ns - old[-1].answered_ns))
    assert old[-1].asked_ns < ended.answered_ns, "it served the old view after the statement had returned"
    assert old[-1].asked_ns - since_ns < LEASE_DURATION_NS + BOUND_SLACK_NS, "it served without a lease"
    fenced = [look for look in looks if look.outcome == "FENCED"]
    assert fenced, "the node must say why it does not serve"
    assert all(look.outcome == "FENCED" for look in looks if old[-1].asked_ns < look.asked_ns <= fenced[-1].asked_ns)


def _ms(duration_ns: int) -> int:
    return duration_ns // MILLISECOND_NS
