"""Liveness while faults go on: one leader that holds the store is enough for the nodes that reach it.

A running node that reaches the leader both ways must serve within a limit, whatever is broken elsewhere. The check runs
all the time: once everything is healed, a node that another coordinator had held up would serve anyway.
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
"""For a process that has joined: its session to another coordinator ends, then it asks this one."""
JOINING_LIMIT_NS: Final = 15 * SECOND_NS + 2 * CALL_TIMEOUT_NS
"""For a process that has not: before that, its calls to the other coordinators may have to time out."""


class _Waiting(msgspec.Struct):
    """Since when a node could serve but does not, and the processes of node and leader."""

    since_ns: int
    published: object
    leader: object


class Availability:
    """Follows a cluster from its start on; `run` until it is cancelled. Raises `InvariantViolated` (LIVENESS)."""

    def __init__(self, cluster: SimulatedCluster, oracle: Oracle) -> None:
        self._cluster = cluster
        self._oracle = oracle
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
            # The wait before the join does not count afterwards.
            self._waiting.pop((node.name, not has_joined), None)
            if leading is None or not self._can_serve(node, leading):
                self._waiting.pop((node.name, has_joined), None)
            else:
                self._judge(node, leading, has_joined=has_joined)

    def _can_serve(self, node: SimulatedNode, leading: SimulatedCoordinator) -> bool:
        """Whether the node does not serve, though it could."""
        if node.task is None or not leading.is_able or node.guard() is not None:
            return False
        return self._cluster.network.is_clear(node.name, leading.name)

    def _judge(self, node: SimulatedNode, leading: SimulatedCoordinator, *, has_joined: bool) -> None:
        now_ns, key = self._cluster.loop.now_ns(), (node.name, has_joined)
        waiting = self._waiting.get(key)
        if waiting is None or waiting.published is not node.published or waiting.leader is not leading.leader:
            self._waiting[key] = _Waiting(now_ns, node.published, leading.leader)
            return
        limit_ns = JOINED_LIMIT_NS if has_joined else JOINING_LIMIT_NS
        if now_ns - waiting.since_ns > limit_ns:
            what = "has joined" if has_joined else "has not joined"
            raise self._oracle.violation(
                ID, f"{node.name} {what} and serves nothing for {limit_ns / SECOND_NS:g} s, {leading.name} leads"
            )
