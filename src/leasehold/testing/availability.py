"""Liveness while faults go on: one leader that holds the store is enough for the nodes that reach it.

Looked at all the time, and not only once everything is healed, when what another coordinator's state had held up comes
loose by itself. A node that runs and reaches the leader both ways serves within a limit, whatever is broken elsewhere.
"""

import asyncio
from typing import Final

import msgspec

from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.cluster import SimulatedCluster
from leasehold.testing.invariants.liveness import ID
from leasehold.testing.machines import SimulatedCoordinator, SimulatedNode
from leasehold.testing.oracle import Oracle

LOOK_EVERY_NS: Final = 500 * MILLISECOND_NS
JOINED_LIMIT_NS: Final = 15 * SECOND_NS
"""For a process that has joined: its session to another coordinator breaks or is refused, then it comes to this one."""
JOINING_LIMIT_NS: Final = 15 * SECOND_NS + 2 * CALL_TIMEOUT_NS
"""For one that has not: before that, each other coordinator may keep a call of it waiting until that times out."""


class _Waiting(msgspec.Struct):
    """Since when nothing but the node itself keeps it from serving, and with which processes at both ends."""

    since_ns: int
    published: object
    leader: object


class Availability:
    """Follows a cluster from its start on; `run` until it is cancelled. Raises `InvariantViolated` (LIVENESS)."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        oracle: Oracle,
        *,
        joined_limit_ns: int = JOINED_LIMIT_NS,
        joining_limit_ns: int = JOINING_LIMIT_NS,
    ) -> None:
        self._cluster = cluster
        self._oracle = oracle
        self._limits_ns = {True: joined_limit_ns, False: joining_limit_ns}
        self._waiting: dict[tuple[str, bool], _Waiting] = {}

    async def run(self) -> None:
        """Looks again and again."""
        while True:
            self._look()
            await asyncio.sleep(LOOK_EVERY_NS / SECOND_NS)

    def _look(self) -> None:
        leading = self._cluster.leading
        for node in self._cluster.nodes:
            has_joined = node.published.node != 0
            # What a process waited for before it had joined counts for nothing afterwards.
            self._waiting.pop((node.name, not has_joined), None)
            if leading is None or not self._can_serve(node, leading):
                self._waiting.pop((node.name, has_joined), None)
            else:
                self._judge(node, leading, has_joined=has_joined)

    def _can_serve(self, node: SimulatedNode, leading: SimulatedCoordinator) -> bool:
        """Whether it does not, though all that it needs is there."""
        if node.task is None or not leading.is_able or node.guard() is not None:
            return False
        return self._cluster.network.is_clear(node.name, leading.name)

    def _judge(self, node: SimulatedNode, leading: SimulatedCoordinator, *, has_joined: bool) -> None:
        now_ns, key = self._cluster.loop.now_ns(), (node.name, has_joined)
        waiting = self._waiting.get(key)
        if waiting is None or waiting.published is not node.published or waiting.leader is not leading.leader:
            self._waiting[key] = _Waiting(now_ns, node.published, leading.leader)
            return
        limit_ns = self._limits_ns[has_joined]
        if now_ns - waiting.since_ns > limit_ns:
            what = "has joined" if has_joined else "has not joined"
            raise self._oracle.violation(
                ID, f"{node.name} {what} and serves nothing for {limit_ns / SECOND_NS:g} s, {leading.name} leads"
            )
