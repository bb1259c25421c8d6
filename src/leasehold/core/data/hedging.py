"""Asking the replicas of one thing in turn, and another one as well while one is silent.

Any replica that holds a lease may serve. A client that has heard nothing of a request for a while asks another replica
too, and takes the first answer: a hedged request. The first request goes on: on a slow machine it may still win.

| state                       | event  | next                                                                        |
| nobody is asked             | move   | `Ask` the next replica; once all have failed, `Pause`; in the end, `GiveUp` |
| asked, silent for the delay | move   | `Ask` another one as well, if the budget allows; else `Wait`                |
| asked, silent for a quarter | move   | `Ask` another one as well, whatever the budget; in the end, `GiveUp`        |
| asked                       | heard  | that replica alone is asked; the others are overtaken                       |
| asked                       | failed | that replica comes last; the next one is asked at once                      |
| asked                       | ended  | nobody is asked, and the same replica is the next one                       |
| asked                       | slow   | nobody is asked, and that replica comes last                                |

`Patience` bounds the load of it: the delay follows how long answers take on this cluster, and at most one in
HEDGE_EVERY requests is a hedge, after a burst of HEDGE_BURST. After a quarter of the give-up time in silence the budget
does not count.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from leasehold.ids import NodeId
from leasehold.limits.clients import (
    HEDGE_BURST,
    HEDGE_BYTES_PER_SECOND,
    HEDGE_DELAY_MAX_NS,
    HEDGE_DELAY_MIN_NS,
    HEDGE_DEVIATIONS,
    HEDGE_EVERY,
)
from leasehold.limits.units import SECOND_NS


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Ask this replica; `also` if others are asked already."""

    node: NodeId
    also: bool = False


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Wait for those that are asked, until then at most."""

    until_ns: int


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """All replicas failed: wait until then, look up where they are, and go on."""

    until_ns: int


class GiveUp(msgspec.Struct, frozen=True, kw_only=True):
    """No replica has answered for too long."""


HedgeStep: TypeAlias = Ask | Wait | Pause | GiveUp


class Hedging:
    """The replica to ask next for one thing that all of `nodes` have.

    It gives up `give_up_ns` after the first failure, or once all that are asked have been silent for that long.
    """

    def __init__(self, nodes: tuple[NodeId, ...], *, give_up_ns: int, pause_ns: int) -> None:
        self._nodes = nodes
        self._give_up_ns = give_up_ns
        self._pause_ns = pause_ns
        self._asked: dict[NodeId, int] = {}
        self._silent_since_ns = 0
        """All that are asked."""
        self._failed: set[NodeId] = set()
        """In this round."""
        self._has_failures = False
        self._failing_since_ns: int | None = None

    @property
    def gives_up_ns(self) -> int | None:
        """When it gives up, if no replica answers now."""
        return None if self._failing_since_ns is None else self._failing_since_ns + self._give_up_ns

    @property
    def asked(self) -> Mapping[NodeId, int]:
        """The replicas that are asked, and since when each has been silent."""
        return self._asked

    def is_asked(self, node: NodeId) -> bool:
        return node in self._asked

    def move(self, now_ns: int, *, delay_ns: int, may_hedge: bool) -> HedgeStep:
        """What to do next; an `Ask` counts as done."""
        following = next((one for one in self._nodes if one not in self._asked and one not in self._failed), None)
        if self._asked:
            delay_ns = min(delay_ns, self._give_up_ns // 4)
            silent_ns = now_ns - self._silent_since_ns
            if silent_ns >= self._give_up_ns:
                return GiveUp()
            due_ns = max(self._asked.values()) + delay_ns
            if following is None or not (may_hedge or silent_ns >= self._give_up_ns // 4):
                return Wait(until_ns=max(due_ns, now_ns + delay_ns))
            if now_ns < due_ns:
                return Wait(until_ns=due_ns)
            self._asked[following] = now_ns
            return Ask(node=following, also=True)
        if self._has_failures and self._failing_since_ns is None:
            # Counted from the first failure: how long the consumer took over the last answer says nothing.
            self._failing_since_ns = now_ns
        since_ns = self._failing_since_ns
        if not self._nodes or (since_ns is not None and now_ns - since_ns >= self._give_up_ns):
            return GiveUp()
        if following is None:
            self._failed.clear()
            return Pause(until_ns=now_ns + self._pause_ns)
        self._asked[following] = self._silent_since_ns = now_ns
        return Ask(node=following)

    def progressed(self, node: NodeId, now_ns: int) -> None:
        """It works on the request: its silence is counted anew."""
        if node in self._asked:
            self._asked[node] = self._silent_since_ns = now_ns

    def heard(self, node: NodeId, now_ns: int, *, progress: bool = True) -> tuple[NodeId, ...]:
        """An answer of a replica that is asked; returns the others, which are overtaken.

        Without `progress` the failures before it go on counting.
        """
        assert node in self._asked, "only who is asked is heard"
        overtaken = tuple(one for one in self._asked if one != node)
        self._asked, self._silent_since_ns = {node: now_ns}, now_ns
        self._to_the_end(overtaken)
        if progress:
            self._failed.clear()
            self._has_failures, self._failing_since_ns = False, None
        return overtaken

    def ended(self, node: NodeId) -> None:
        """Its answer ended without a failure of its own: it may be asked again at once."""
        self._asked.pop(node, None)

    def was_slow(self, node: NodeId) -> None:
        """Its answer ended before it had come far: it may be asked again at once, after the others."""
        self.ended(node)
        self._to_the_end((node,))

    def failed(self, node: NodeId) -> None:
        """It can't answer now."""
        self._asked.pop(node, None)
        self._failed.add(node)
        self._has_failures = True
        self._to_the_end((node,))

    def moved(self, nodes: tuple[NodeId, ...]) -> None:
        """Begins a new round with these replicas, in this order."""
        self._nodes = nodes
        self._failed.clear()

    def _to_the_end(self, nodes: tuple[NodeId, ...]) -> None:
        last = tuple(one for one in nodes if one in self._nodes)
        self._nodes = (*(one for one in self._nodes if one not in last), *last)


class HedgeLimits(NamedTuple):
    """Bounds of how often a client hedges, and how soon."""

    burst: int = HEDGE_BURST
    bytes_per_second: int = HEDGE_BYTES_PER_SECOND


HEDGE_LIMITS: Final = HedgeLimits()


class Patience:
    """How long one client waits for a replica until it asks another one as well, and how often it may. Its steps share
    it under `lock`.

    It waits for as long as answers usually take, and HEDGE_DEVIATIONS times as long as they usually differ from that:
    the retransmission timeout of TCP (RFC 6298). At most HEDGE_DELAY_MAX_NS: the budget bounds the load of it.
    """

    def __init__(self, lock: AbstractContextManager[Any], limits: HedgeLimits = HEDGE_LIMITS) -> None:
        self._lock = lock
        self._limits = limits
        self._typical_ns: int | None = None
        """None before the first answer."""
        self._deviation_ns = 0
        self._budget = limits.burst * HEDGE_EVERY
        """In requests: each request adds one, each hedge takes HEDGE_EVERY."""

    def delay_ns(self, size_bytes: int = 0) -> int:
        """For a request that handles `size_bytes` before it is answered."""
        with self._lock:
            if self._typical_ns is None:
                # It opens the connection, and nobody knows yet how fast this cluster is.
                usual_ns = HEDGE_DELAY_MAX_NS
            else:
                late_ns = self._typical_ns + HEDGE_DEVIATIONS * self._deviation_ns
                usual_ns = min(max(HEDGE_DELAY_MIN_NS, late_ns), HEDGE_DELAY_MAX_NS)
        return usual_ns + size_bytes * SECOND_NS // self._limits.bytes_per_second

    @property
    def may_hedge(self) -> bool:
        """Whether the budget allows another hedge."""
        with self._lock:
            return self._budget >= HEDGE_EVERY

    def asked(self, *, also: bool) -> None:
        """A request is sent, `also` for a hedge."""
        gained = -HEDGE_EVERY if also else 1
        with self._lock:
            self._budget = max(0, min(self._budget + gained, self._limits.burst * HEDGE_EVERY))

    def answered(self, took_ns: int) -> None:
        """An answer came so long after its request."""
        with self._lock:
            if self._typical_ns is None:
                self._typical_ns, self._deviation_ns = took_ns, took_ns // 2
            else:
                error_ns = took_ns - self._typical_ns
                self._deviation_ns += (abs(error_ns) - self._deviation_ns) // 4
                self._typical_ns += error_ns // 8
