"""How long a write waits for a peer that it passes a segment on to, and which peers get nothing for now.

The node that takes a client's rows decides which peers a segment counts on: the commit takes those that lack it out of
the sync-state set, and they fetch it later. So a peer that hangs need not be waited for, while a peer that works, only
slowly, should be: a copy that is fetched later protects nothing until then. What tells the two apart is whether the
peer's process answers.

| the peer                            | after the patience                | at the last |
| has not said that it takes the file | left out                          | left out    |
| takes it; its process is silent     | left out, and gets nothing for now | left out    |
| takes it; its process answers       | waited for                        | left out    |
| is needed for `min_in_sync`         | waited for                        | left out    |

A peer that was left out as silent gets bytes again as soon as its process answers a probe.
"""

from enum import Enum

from leasehold.ids import NodeId
from leasehold.limits import FORWARD_PATIENCE_MAX_NS, FORWARD_PATIENCE_MIN_NS, FORWARD_SLOWER


class Judgement(Enum):
    """What to do about a peer that is late."""

    WAIT = "wait"
    PROBE = "probe"
    """Ask whether its process answers; if it does, wait on."""
    LEAVE_OUT = "leave out"


def patience_ns(own_ns: int) -> int:
    """How long a peer may be later than this node, whose own sync took so long: on a machine that is slow, longer."""
    return min(max(FORWARD_PATIENCE_MIN_NS, FORWARD_SLOWER * own_ns), FORWARD_PATIENCE_MAX_NS)


def judge(*, admitted: bool, others: int, min_in_sync: int, expired: bool) -> Judgement:
    """About a peer that is late. `others` hold the segment without it, this node and those that may yet; `expired`
    after the longest that any peer is waited for."""
    if expired:
        return Judgement.LEAVE_OUT
    if others < min_in_sync:
        return Judgement.WAIT
    return Judgement.PROBE if admitted else Judgement.LEAVE_OUT


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
