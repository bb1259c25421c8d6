"""How long a write waits for a peer that it passes a segment on to, and which peers get nothing for now.

The node that takes a client's rows decides which peers a segment counts on: the commit takes those that lack it out of
the sync-state set, and they fetch it later. So a peer that hangs need not be waited for, while a peer that works, only
slowly, should be: a copy that is fetched later protects nothing until then. A probe tells the two apart. A peer that
has not yet said that it takes the file can take it only with a lease and at the revision of the ticket.

| the peer                                            | after the probe | at the last |
| is needed for `min_in_sync`                         | waited for      | left out    |
| does not answer                                     | left out        | left out    |
| answers, has said that it takes the file            | waited for      | left out    |
| answers, has not: holds a lease, shows the revision | waited for      | left out    |
| answers, has not: is fenced or behind               | left out        | left out    |

A peer that was left out as silent gets bytes again as soon as its process answers a probe.
"""

from enum import Enum
from typing import NamedTuple

from leasehold.core.messages import NodeStatus
from leasehold.ids import NodeId, Revision
from leasehold.limits.replication import (
    FORWARD_PATIENCE_MAX_NS,
    FORWARD_PATIENCE_MIN_NS,
    FORWARD_PROBE_DELAY_NS,
    FORWARD_SLOWER,
)


class Judgement(Enum):
    """What to do about a peer that is late."""

    WAIT = "wait"
    PROBE = "probe"
    """Ask its process how it stands, then `judge_probed`."""
    LEAVE_OUT = "leave out"


class Probed(NamedTuple):
    """What a probe has brought: whether the process answers, and how it says that it stands."""

    is_answering: bool
    status: NodeStatus | None = None


def patience_ns(own_ns: int) -> int:
    """How long a peer may be later than this node, whose own sync took so long: on a machine that is slow, longer."""
    return min(max(FORWARD_PATIENCE_MIN_NS, FORWARD_SLOWER * own_ns), FORWARD_PATIENCE_MAX_NS)


def probe_delay_ns(patient_ns: int, *, admitted: bool) -> int:
    """How late a peer may be until it is probed. One that hangs has mostly not said that it takes the file."""
    return patient_ns if admitted else FORWARD_PROBE_DELAY_NS


def judge(*, others: int, min_in_sync: int, expired: bool) -> Judgement:
    """About a peer that is late. `others` hold the segment without it, this node and those that may yet; `expired`
    after the longest that any peer is waited for."""
    if expired:
        return Judgement.LEAVE_OUT
    if others < min_in_sync:
        return Judgement.WAIT
    return Judgement.PROBE


def judge_probed(probed: Probed, *, admitted_before: bool, admitted: bool, revision: Revision) -> Judgement:
    """About a late peer that was probed. `admitted` if it has said that it takes the file, `admitted_before` if it had
    when the probe began; `revision` is the ticket's."""
    if admitted and not admitted_before:
        return Judgement.WAIT  # an answer as well
    can_take = admitted or (probed.status is not None and _can_take(probed.status, revision))
    return Judgement.WAIT if probed.is_answering and can_take else Judgement.LEAVE_OUT


def _can_take(status: NodeStatus, revision: Revision) -> bool:
    # A fenced node refuses, and one that is behind waits for what it may never hear of.
    return status.lease_remaining_ns > 0 and status.applied_revision is not None and status.applied_revision >= revision


class Silent:
    """The peers that did not answer lately: they get nothing, so that no write waits for them, until they answer."""

    def __init__(self) -> None:
        self._peers: set[NodeId] = set()

    def __contains__(self, node: NodeId) -> bool:
        return node in self._peers

    def left_out(self, node: NodeId) -> None:
        """It was silent."""
        self._peers.add(node)

    def answered(self, node: NodeId) -> None:
        """Its process answers: the next write is passed on to it."""
        self._peers.discard(node)
