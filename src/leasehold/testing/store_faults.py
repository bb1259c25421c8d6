"""Faults of the store that several coordinators share, and of the replicas in their directories.

A single coordinator's store is slow, or cut off for a time. A log that several share also loses requests and answers,
does requests late or twice, wakes its watches late or never, and takes no writes while it is full. A replica is never
synced: with a crash of its machine it is lost, or set back.
"""

import asyncio
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Final

from leasehold.limits.units import SECOND_NS
from leasehold.testing.cluster import SimulatedCluster, SimulatedCoordinator
from leasehold.testing.oracle import Oracle
from leasehold.testing.replica import KeptReplica
from leasehold.testing.requests import RequestFate, is_transaction

LATENCY_S: Final = 0.01
LOST_MAX: Final = 3
LAG_MAX_NS: Final = 20 * SECOND_NS
STALE_CHANCE: Final = 0.7
APPENDS_CHANCE: Final = 0.5
PATIENCE_S: Final = 2.0
"""How long a fault waits for an append."""
LOST: Final = (RequestFate.LOST_BEFORE, RequestFate.LOST_AFTER)
LOST_SWAP: Final = (*LOST, RequestFate.LATE, RequestFate.DOUBLED)
WAKE_MISSED_CHANCE: Final = 0.1
WAKE_LATE_CHANCE: Final = 0.2
WAKE_LATE_MAX_S: Final = 0.5
REPLICA_LOST_CHANCE: Final = 0.15
REPLICA_SET_BACK_CHANCE: Final = 0.3
BACKED_UP_CHANCE: Final = 0.5
FULL: Final = "the store is full"


class StoreFaults:
    """Breaks the way between coordinators and their store."""

    def __init__(self, cluster: SimulatedCluster, random: Random, oracle: Oracle) -> None:
        self._cluster = cluster
        self._random = random
        self._oracle = oracle
        self._earlier: dict[str, KeptReplica] = {}

    async def cut_off(self) -> str | None:
        """Cuts one coordinator off from the store, both ways or from its answers, or heals that."""
        one = self._random.choice(self._cluster.coordinators)
        if one.cut_off:
            one.heal_store()
            return f"{one.name} reaches the store again"
        answers_only = self._random.random() < 0.5
        one.cut_off_store(answers_only=answers_only)
        return f"{one.name} is cut off from {'the answers of ' if answers_only else ''}the store"

    async def lose(self) -> str | None:
        """Loses, delays or doubles the next requests of one coordinator to the log, or the next appends of the
        leader."""
        random, leading = self._random, self._cluster.leading
        appends = leading is not None and random.random() < APPENDS_CHANCE
        one = leading if appends and leading is not None else random.choice(self._cluster.coordinators)
        one.unsettle()
        left = random.randint(1, LOST_MAX)

        async def before(request: str) -> RequestFate:
            nonlocal left
            fate = await self._slow(request)
            if not left or request.startswith("watch") or (appends and not is_transaction(request)):
                return fate
            left -= 1
            return random.choice(LOST_SWAP if request.startswith("swap") else LOST)

        one.before = before
        return f"the next {left} {'appends' if appends else 'requests'} of {one.name} to the store are lost"

    async def outlive(self) -> str | None:
        """Makes the next append of the leader late, or loses its answer, and cuts the leader off at once. So another
        leads by then, or followers show what the leader does not know of."""
        one = self._cluster.leading
        if one is None or one.cut_off:
            return None
        fate = self._random.choice((RequestFate.LATE, RequestFate.LOST_AFTER))
        is_sent = asyncio.Event()

        async def before(request: str) -> RequestFate:
            usual = await self._slow(request)
            if is_sent.is_set() or not is_transaction(request):
                return usual
            is_sent.set()
            return fate

        one.before = before
        try:
            async with asyncio.timeout(PATIENCE_S):
                await is_sent.wait()
        except TimeoutError:
            return None
        one.cut_off_store()
        what = "comes late" if fate is RequestFate.LATE else "is done"
        return f"{one.name} is cut off from the store, and its append {what}"

    async def lag(self) -> str | None:
        """Lets the member of the store lag that one coordinator asks, so that some of its reads are answered without
        the newest change."""
        random, one = self._random, self._random.choice(self._cluster.coordinators)
        self._cluster.kept_log.lag()
        ends_ns = self._cluster.loop.now_ns() + random.randrange(LAG_MAX_NS)

        async def before(request: str) -> RequestFate:
            fate = await self._slow(request)
            is_read = request.startswith(("get", "page"))
            is_stale = is_read and random.random() < STALE_CHANCE and self._cluster.loop.now_ns() < ends_ns
            return RequestFate.STALE if is_stale else fate

        one.before = before
        return f"the member of the store that {one.name} asks lags"

    async def fill(self) -> str | None:
        """Fills the log, so that it declines every write, or makes room."""
        kept = self._cluster.kept_log
        if kept.is_full:
            self.make_room()
            return "the store has room again"
        kept.is_full = True
        self._oracle.disturbances.begin(FULL)
        return FULL

    def make_room(self) -> None:
        """Ends a full log."""
        if self._cluster.kept_log.is_full:
            self._cluster.kept_log.is_full = False
            self._oracle.disturbances.end(FULL)
            self._oracle.disturbances.set_back()  # nobody could be elected meanwhile

    def slow_down(self, coordinator: SimulatedCoordinator) -> None:
        """Makes requests of a coordinator take time, so that a kill may find them half done."""
        coordinator.before, coordinator.after = self._slow, self._slow_answer

    def spoil_replica(self, one: SimulatedCoordinator) -> str | None:
        """Takes or sets back the replica of a coordinator that is down, sometimes."""
        assert one.task is None, "its process would go on with what it has"
        draw, earlier = self._random.random(), self._earlier.get(one.name)
        if draw < REPLICA_LOST_CHANCE and one.replica.kept is not None:
            one.replica.kept = None
            return f"the replica of {one.name} is lost"
        if draw < REPLICA_LOST_CHANCE + REPLICA_SET_BACK_CHANCE and earlier is not None:
            one.replica.kept = self._earlier.pop(one.name)
            return f"the replica of {one.name} is set back to entry {earlier.position.number}"
        backup = one.replica.backup()
        if backup is not None and self._random.random() < BACKED_UP_CHANCE:
            self._earlier[one.name] = backup
        return None

    async def _slow(self, request: str) -> RequestFate:
        random = self._random
        if request.startswith("watch"):
            draw = random.random()
            if draw < WAKE_LATE_CHANCE:
                await asyncio.sleep(random.random() * WAKE_LATE_MAX_S)
            return RequestFate.LOST_BEFORE if draw > 1 - WAKE_MISSED_CHANCE else RequestFate.ANSWERED
        await self._slow_answer(request)
        return RequestFate.ANSWERED

    async def _slow_answer(self, request: str) -> None:
        if request.startswith(("txn", "swap", "get log")):
            await asyncio.sleep(self._random.random() * LATENCY_S)
