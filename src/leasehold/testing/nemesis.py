"""The nemesis: breaks a simulated cluster at random, one fault after the other, and repairs it in the end.

| what       | how it breaks                                                                                        |
| ---------- | ---------------------------------------------------------------------------------------------------- |
| a process  | killed, killed without a word, stopped in order, paused; started again, perhaps under another address |
| a node     | away for so long that it leaves the logical topology                                                  |
| a machine  | crashes: what was not synced is lost                                                                  |
| a clock    | another drift within the bound; a node's jumps forward                                                |
| the way    | cut both ways or one way, slow, lossy, doubling late answers                                          |
| a leader   | killed where a statement is at a step of its own, or a node on its way in                             |
| the store  | slow, full, out of reach for one coordinator, requests lost, late or doubled; its history is compacted |
| a replica  | is lost, or set back                                                                                   |
| a copy     | of a node's directory is started beside it, or after it has moved on                                  |
| a disk     | loses all segments, spoils one, or fails; or a node is removed, and an empty machine takes its name    |
| for good   | one machine is lost, or two at once; empty ones come under other names                                 |

Each fault lies within what the design promises to withstand: no clock drifts beyond the bound, and a coordinator's
clock never jumps, since nothing could be concluded from it then.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Final

from leasehold.limits.membership import TOPOLOGY_GRACE_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.ambush import StatementPlace, reached
from leasehold.testing.cluster import CLIENT, SimulatedCluster, SimulatedCoordinator, SimulatedNode
from leasehold.testing.compaction import Compacting
from leasehold.testing.copies import NodeCopies
from leasehold.testing.end_reports import EndReports
from leasehold.testing.network import Link
from leasehold.testing.oracle import Oracle
from leasehold.testing.replacement import Replacing
from leasehold.testing.store_faults import StoreFaults

Fault = Callable[[], Awaitable[str | None]]
"""Breaks or repairs something and says what; None if there was nothing to break."""
PAUSES_S: Final = (0.05, 0.5, 3.0, 6.0)
RESTART_MAX_S: Final = 0.5
STRIKE_PATIENCE_S: Final = 5.0
"""How long a strike waits for a statement, or a node, to reach its place."""
LINGER_MAX_S: Final = 2.0
"""How long a process is still there after it has handed over."""
REPORTED: Final = 0.7
"""How often the supervisor of a process that was killed lives on and reports that."""
JUMP_MAX_NS: Final = 5 * SECOND_NS
AWAY_MAX_NS: Final = 2 * TOPOLOGY_GRACE_NS


class Nemesis:
    """Draws faults from `random`. Where it is `steady`, coordinators and their store are left alone."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        group: asyncio.TaskGroup,
        random: Random,
        oracle: Oracle,
        *,
        steady: bool,
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._random = random
        self._oracle = oracle
        self._steady = steady
        self._paused: dict[str, SimulatedNode | SimulatedCoordinator] = {}
        self._away_until_ns: dict[str, int] = {}
        self._compacting = Compacting(cluster)
        self._store = StoreFaults(cluster, random, oracle)
        self._end_reports = EndReports(cluster, group)
        self._copies = NodeCopies(cluster, group, random, oracle)
        self.replacing = Replacing(cluster, oracle)
        self.faults: Counter[str] = Counter()
        """How often each kind of fault was injected."""
        self._kinds: list[tuple[float, str, Fault]] = [
            (3, "node killed or started", self._kill_or_start_a_node),
            (2, "node paused or resumed", partial(self._pause_or_resume, cluster.nodes)),
            (1, "node stopped", self._stop_a_node),
            (1, "machine crashed", self._crash_a_machine),
            (1, "clock drift changed", self._change_a_drift),
            (0.5, "clock jumped", self._jump_a_clock),
            (3, "network cut", self._cut),
            (3, "network mended", self._mend),
            (1, "link worsened", self._worsen),
            (1.2, "node away for long", self._send_away),
            (2, "history compacted", self._compacting.compact),
            (0.4, "clone started", self._start_a_clone),
            (0.8, "stale copy started", self._copies.start_a_stale_copy),
            (0.3, "segments lost", self._wipe),
            (1.5, "file damaged", self._damage),
            (0.5, "node removed", self._remove),
            (0.8, "machines lost for good", self._lose),
            (0.5, "disk failing", partial(self.replacing.fail_a_disk, random)),
            (1.5, "all healed", partial(self.heal, but_for_the_away=True)),
        ]
        at_node = self._strike_a_node
        if not steady:
            self._kinds += [
                (1.5, "coordinator killed or started", self._kill_or_start_a_coordinator),
                (1, "coordinator restarted", self._restart_a_coordinator),
                (1, "coordinator paused or resumed", partial(self._pause_or_resume, cluster.coordinators)),
                (0.5, "coordinator handed over", self._hand_over),
                (1, "store cut off or healed", self._store.cut_off),
                (1.2, "leader killed as a statement begins", partial(self._strike, StatementPlace.BEGUN)),
                (1.2, "leader killed in a barrier", partial(self._strike, StatementPlace.BARRIER)),
                (1.5, "leader killed at a point of no return", partial(self._strike, StatementPlace.PAST_RETURN)),
                (1.2, "leader killed as a statement is closed", partial(self._strike, StatementPlace.CLOSED)),
                (1, "leader killed as a node joins", partial(at_node, StatementPlace.JOINED)),
                (1, "leader killed as a node enters the topology", partial(at_node, StatementPlace.ENTERED)),
                (0.5, "leader killed as a node leaves the topology", partial(at_node, StatementPlace.LEFT)),
            ]
        if len(cluster.coordinators) > 1:
            # A coordinator that locks its store ends when it does not know what it wrote; a supervisor restarts it.
            self._kinds += [
                (1.2, "store answers lost", self._store.lose),
                (0.7, "leader cut off in its append", self._store.outlive),
                (0.3, "store full or freed", self._store.fill),
            ]
            if cluster.kept_log.may_read_stale:
                self._kinds.append((2, "member of the store lags", self._store.lag))

    async def run(self, for_ns: int) -> None:
        """Injects faults for `for_ns`, with pauses of up to seconds between them."""
        end_ns = self._cluster.loop.now_ns() + for_ns
        weights = [weight for weight, _, _ in self._kinds]
        while self._cluster.loop.now_ns() < end_ns:
            await asyncio.sleep(self._random.choice(PAUSES_S) * self._random.random())
            self._compacting.look()
            _, kind, fault = self._random.choices(self._kinds, weights)[0]
            what = await fault()
            if what is not None:
                self.faults[kind] += 1
                self._oracle.note(f"fault: {what}")

    async def heal(self, *, but_for_the_away: bool = False) -> None:
        """Ends all faults; clocks still drift within the bound."""
        await self._mend()
        for one in list(self._paused.values()):
            self._resume(one)
        self._store.make_room()
        self._cluster.kept_log.lagging = None
        for coordinator in self._cluster.coordinators:
            coordinator.heal_store()
            if coordinator.task is None:
                await self._start_coordinator(coordinator)
            self._store.slow_down(coordinator)
        for node in self._cluster.nodes:
            if node.data.disk.failing:
                if node.task is not None:
                    await self._end(node)
                node.data.disk.failing = False
            if node.task is None and not (but_for_the_away and self._is_away(node)):
                node.start(self._group)
        self._oracle.note("healed")

    async def _start_coordinator(self, coordinator: SimulatedCoordinator) -> None:
        """Starts a coordinator with a slow store, perhaps on another replica."""
        what = self._store.spoil_replica(coordinator) if len(self._cluster.coordinators) > 1 else None
        if what is not None:
            self.faults["replica lost or set back"] += 1
            self._oracle.note(f"fault: {what}")
        await coordinator.start(self._group)
        self._store.slow_down(coordinator)

    # ------------------------------------------------------------ nodes

    async def _kill_or_start_a_node(self) -> str | None:
        node = self._random.choice(self._cluster.nodes)
        if self._is_away(node):
            return None
        if node.task is None:
            port = 9000 + self._random.randrange(2)
            node.start(self._group, port=port)
            return f"{node.name} starts at port {port}"
        silent = self._random.random() < 0.3
        await self._end(node, silent=silent)
        return f"{node.name} is killed{' silently' if silent else ''}"

    async def _end(self, node: SimulatedNode, *, silent: bool = False) -> None:
        self._copies.back_up(node)
        await node.kill(silent=silent)
        if not silent and self._random.random() < REPORTED and self._end_reports.send(node):
            self.faults["end reported"] += 1
        if node.name in self._paused:
            self._resume(node)

    async def _stop_a_node(self) -> str | None:
        node = self._random.choice(self._cluster.nodes)
        if node.task is None or node.name in self._paused:
            return None
        await node.stop()
        return f"{node.name} stopped in order"

    async def _crash_a_machine(self) -> str | None:
        node = self._random.choice(self._cluster.nodes)
        if node.task is None:
            return None
        await self._end(node, silent=True)
        node.crash(self._random)
        return f"the machine of {node.name} crashed"

    async def _pause_or_resume(self, among: Sequence[SimulatedNode] | Sequence[SimulatedCoordinator]) -> str | None:
        one = self._random.choice(among)
        if one.name in self._paused:
            self._resume(one)
            return f"{one.name} goes on"
        if one.task is None:
            return None
        self._paused[one.name] = one
        one.pause()
        return f"{one.name} is paused"

    async def _send_away(self) -> str | None:
        """Ends a node for so long that it leaves the logical topology, and its history may be compacted."""
        node = self._random.choice(self._cluster.nodes)
        others = [one for one in self._cluster.nodes if one is not node and one.task is not None]
        if node.task is None or not others:
            return None
        await self._end(node, silent=self._random.random() < 0.5)
        away_ns = self._random.randrange(TOPOLOGY_GRACE_NS // 2, AWAY_MAX_NS)
        self._away_until_ns[node.name] = self._cluster.loop.now_ns() + away_ns
        return f"{node.name} is away for {away_ns} ns"

    def _is_away(self, node: SimulatedNode) -> bool:
        return node.task is None and self._cluster.loop.now_ns() < self._away_until_ns.get(node.name, 0)

    async def _wipe(self) -> str | None:
        """A node loses its segments, but keeps its identity (I7)."""
        node = self._random.choice(self._cluster.nodes)
        if node.task is None or not self.replacing.is_due:
            return None
        await self._end(node)
        self.replacing.wipe(node)
        node.start(self._group)
        return f"{node.name} has lost its segments"

    async def _damage(self) -> str | None:
        """Spoils a file of a segment of which another disk has a whole copy."""
        node = self._random.choice(self._cluster.nodes)
        others = [one.data.disk for one in self._cluster.nodes if one is not node]
        files = [
            one
            for one in sorted(node.data.disk.listing())
            if not node.data.disk.is_damaged(one)
            and any(disk.holds(one.table, one.bucket, one.segment) for disk in others)
        ]
        if not files:
            return None
        one = self._random.choice(files)
        self._oracle.damaged(node.name, one.segment)
        node.data.disk.damage(one)
        return f"{node.name} has a damaged file of {one.segment}"

    async def _remove(self) -> str | None:
        """Removes a node while nothing else is broken, so that the client gets an answer."""
        node = self._random.choice(self._cluster.nodes)
        if node.task is None or not self.replacing.is_due:
            return None
        await self.heal()
        await self._end(node)
        what = await self.replacing.remove(node)
        node.start(self._group)
        return what

    async def _lose(self) -> str | None:
        """Machines burn, whatever is under way; nobody removes their ids."""
        nodes = self.replacing.victims(self._random)
        for node in nodes:
            await self._end(node, silent=True)
            self.replacing.lose(node)
        await asyncio.sleep(self._random.choice(PAUSES_S) if nodes else 0)
        for node in nodes:
            node.start(self._group)
        names = " and ".join(node.name for node in nodes)
        return f"{names} were lost for good, and empty machines come" if nodes else None

    async def _start_a_clone(self) -> str | None:
        return await self._copies.start_a_clone(self._random.choice(self._cluster.nodes))

    def _resume(self, one: SimulatedNode | SimulatedCoordinator) -> None:
        del self._paused[one.name]
        one.resume()

    # ------------------------------------------------------------ clocks

    async def _change_a_drift(self) -> str | None:
        one = self._random.choice([*self._cluster.nodes, *self._cluster.coordinators])
        most = self._cluster.settings.drift_ppm
        drift_ppm = self._random.choice((-most, most, self._random.randint(-most, most)))
        one.clock.set_drift(drift_ppm)
        return f"the clock of {one.name} drifts by {drift_ppm} ppm"

    async def _jump_a_clock(self) -> str | None:
        node = self._random.choice(self._cluster.nodes)
        jump_ns = self._random.randrange(1, JUMP_MAX_NS)
        node.clock.jump(jump_ns)
        return f"the clock of {node.name} jumps by {jump_ns} ns"

    # ------------------------------------------------------------ the network

    async def _cut(self) -> str | None:
        nodes = [node.name for node in self._cluster.nodes]
        coordinators = [one.name for one in self._cluster.coordinators]
        draw = self._random.random()
        if draw < 0.25:
            pair = self._random.sample(nodes, 2)
        elif draw < 0.35 and not self._steady:
            pair = [CLIENT, self._random.choice(coordinators)]
        else:
            pair = [self._random.choice(nodes), self._random.choice(coordinators)]
        src, dst = self._random.sample(pair, 2)
        both_ways = self._random.random() < 0.5
        self._cluster.network.partition(src, dst, both_ways=both_ways)
        return f"{src} {'and' if both_ways else 'to'} {dst} are cut"

    async def _mend(self) -> str | None:
        hosts = [CLIENT, *(one.name for one in (*self._cluster.nodes, *self._cluster.coordinators))]
        for src in hosts:
            for dst in hosts:
                self._cluster.network.set_link(src, dst, None)
        self._cluster.network.heal_all()
        return "all ways are mended"

    async def _worsen(self) -> str | None:
        peer = self._random.choice(self._cluster.coordinators)
        # A client that hears no answer asks again by the same id.
        other = self._random.choice([CLIENT, *(node.name for node in self._cluster.nodes)])
        src, dst = self._random.sample((other, peer.name), 2)
        delay_ms = self._random.choice((20, 500))
        slow = Link(delay_max_ns=delay_ms * MILLISECOND_NS, loss=0.1, late=0.1, doubled=0.2)
        self._cluster.network.set_link(src, dst, slow)
        return f"{src} to {dst} takes up to {delay_ms} ms, loses and doubles"

    # ------------------------------------------------------------ coordinators and their store

    async def _kill_or_start_a_coordinator(self) -> str | None:
        one = self._random.choice(self._cluster.coordinators)
        if one.task is None:
            await self._start_coordinator(one)
            return f"{one.name} starts"
        await one.kill()
        if one.name in self._paused:
            self._resume(one)
        return f"{one.name} is killed"

    async def _restart_a_coordinator(self) -> str | None:
        """Restarts a coordinator soon, while leases that it granted still run."""
        one = self._random.choice(self._cluster.coordinators)
        if one.task is None:
            return None
        await self._restart(one)
        return f"{one.name} is killed and starts again"

    async def _strike(self, place: StatementPlace) -> str | None:
        """Kills the leader when the next statement reaches `place`, and starts it again soon."""
        if not await reached(self._cluster.store, place, self._random, patience_s=STRIKE_PATIENCE_S):
            return None
        one = self._cluster.leading
        if one is None or one.task is None:
            return None
        await self._restart(one)
        return f"{one.name} is killed at a {place} and starts again"

    async def _strike_a_node(self, place: StatementPlace) -> str | None:
        """Makes a node reach `place`, and kills the leader then."""
        node = self._random.choice(self._cluster.nodes)
        leaves = place is StatementPlace.LEFT
        if node.name in self._paused or self._is_away(node) or (leaves and node.task is None):
            return None
        async with asyncio.TaskGroup() as both:
            striking = both.create_task(self._strike(place))
            await asyncio.sleep(0)
            if node.task is not None:
                await (node.stop() if leaves or self._random.random() < 0.5 else self._end(node))
            if not leaves:
                node.start(self._group)
        return striking.result()

    async def _restart(self, one: SimulatedCoordinator) -> None:
        await one.kill()
        if one.name in self._paused:
            self._resume(one)
        await asyncio.sleep(self._random.random() * RESTART_MAX_S)
        await self._start_coordinator(one)

    async def _hand_over(self) -> str | None:
        one = self._cluster.leading
        if one is None or one.name in self._paused or one.cut_off:
            return None
        await one.stop(linger_s=LINGER_MAX_S * self._random.random())
        return f"{one.name} handed over and stopped"
