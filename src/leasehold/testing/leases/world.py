"""The world: production lease code under random interleavings, clocks and faults, all drawn from one seed.

`run(seed=..)` makes a world and lets it live for some steps. Each step picks one enabled action; every invariant
is checked after it. The same seed gives the same trace, so the line in a failure repeats it.
"""

from collections.abc import Callable
from itertools import accumulate
from random import Random  # noqa: TID251 - drawn from a seed that the caller gives: a run must repeat exactly
from typing import Final, TypeVar

import msgspec

from leasehold.core.lease.holder import NO_LEASE
from leasehold.core.words.messages import ReportProcessEnd, Surrender
from leasehold.ids import NodeId, Revision
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.invariants import INVARIANTS, finish
from leasehold.testing.leases.actors import (
    ActorStage,
    Envelope,
    LeaseCoordinator,
    LocalClock,
    NodeProcess,
    Travelling,
)
from leasehold.testing.leases.ground import SETTINGS, Parts
from leasehold.testing.leases.script import ScriptedWorld
from leasehold.testing.oracle import Invariant

NODES: Final = 3
COORDINATORS: Final = 2
PROCESSES_MAX: Final = 5
GUARDS_MAX: Final = 2
NETWORK_MAX: Final = 60
UNRETURNED_MAX: Final = 3
TRIES_MAX: Final = 1_000
REPRODUCE: Final = "leasehold-sim reproduce --world leases --seed {seed}"
DURATIONS_NS: Final = (SECOND_NS, 3 * SECOND_NS, 5 * SECOND_NS)

T = TypeVar("T")


class LeaseWorld(ScriptedWorld):
    """Three nodes and two coordinators at the mercy of `random`. `seed` is only named in failures."""

    def __init__(
        self,
        random: Random,
        *,
        parts: Parts | None = None,
        invariants: tuple[Invariant, ...] = INVARIANTS,
        seed: int | None = None,
        command: str | None = None,
    ) -> None:
        self._random = random
        if parts is None:
            # Without a margin the drift factor has to be enough by itself.
            margin_ns = random.choice((0, SETTINGS.lease_margin_ns))
            parts = Parts(settings=msgspec.structs.replace(SETTINGS, lease_margin_ns=margin_ns))
        super().__init__(
            nodes=NODES,
            coordinators=COORDINATORS,
            clocks=[self._clock(parts.drift_ppm) for _ in range(NODES + COORDINATORS)],
            parts=parts,
            invariants=invariants,
            seed=seed,
            command=command,
        )
        self._actions = (
            (7, self._time),
            (30, self._deliver),
            (9, self._guard),
            (10, self._timer),
            (7, self._publish),
            (7, self._report),
            (5, self._connect),
            (4, self._join),
            (3, self._start),
            (1, self._kill),
            (1, self._surrender),
            (1, self._report_end),
            (1, self._switch_process),
            (3, self._append),
            (4, self._open_barrier),
            (6, self._judge),
            (12, self._beat),
            (4, self._elect),
            (1, self._leader_fault),
            (1, self._set_duration),
        )
        self._choices = [action for _, action in self._actions]
        self._weights = list(accumulate(weight for weight, _ in self._actions))

    def step(self) -> None:
        """One enabled action, and the invariants. Raises `InvariantViolated`."""
        for _ in range(TRIES_MAX):
            if self._random.choices(self._choices, cum_weights=self._weights)[0]():
                return
        raise AssertionError("time can always pass")

    def finish(self) -> None:
        """Holds the rule of `leasehold verify` against everything that was served."""
        finish(self.oracle)

    # ------------------------------------------------------------ what is drawn

    def _clock(self, drift_ppm: int) -> LocalClock:
        drift = self._random.choice((-drift_ppm, drift_ppm, self._random.randint(-drift_ppm, drift_ppm)))
        return LocalClock(self._random.randrange(1000 * SECOND_NS), drift)

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _one(self, among: list[T]) -> T | None:
        return self._random.choice(among) if among else None

    def _process(self, *stages: ActorStage) -> NodeProcess | None:
        return self._one([one for one in self.processes if one.stage in stages])

    def _coordinator(self) -> LeaseCoordinator:
        return self._random.choice(self.coordinators)

    def _leader(self) -> LeaseCoordinator | None:
        return self._one([one for one in self.coordinators if one.grantor is not None])

    def _both(self, do: Callable[[NodeProcess, LeaseCoordinator], bool], *stages: ActorStage) -> bool:
        process, leader = self._process(*stages), self._leader()
        return process is not None and leader is not None and do(process, leader)

    # ------------------------------------------------------------ the actions

    def _time(self) -> bool:
        draw = self._random.random()
        if draw < 0.75:
            return self.advance(self._random.randrange(1, 10 * MILLISECOND_NS))
        if draw < 0.92:
            return self.advance(self._random.randrange(1, 40 * MILLISECOND_NS))
        if draw < 0.921:
            return self.advance(self._random.randrange(1, 3 * SECOND_NS))
        # The edges are where the mistakes are: go exactly to one, or stop a nanosecond short of it.
        horizon_ns = self.real_ns + (3 * SECOND_NS if draw < 0.925 else 200 * MILLISECOND_NS)
        target = self._one([edge for edge in self._edges() if edge < horizon_ns])
        span_ns = 0 if target is None else target - self.real_ns - self._random.randrange(2)
        return span_ns > 0 and self.advance(span_ns)

    def _edges(self) -> list[int]:
        edges = [one.lease_ends_ns() for one in self.processes if one.lease is not NO_LEASE]
        for one in self.coordinators:
            deadline_ns = None if one.grantor is None else one.grantor.next_deadline_ns()
            if deadline_ns is not None:
                edges.append(one.clock.real_ns(deadline_ns))
            edges.append(one.clock.real_ns(one.leads_until_ns))
        return [edge for edge in edges if edge > self.real_ns]

    def send(self, process: NodeProcess, coordinator: int, message: Travelling) -> None:
        """The fate of a message is drawn when it leaves: lost, prompt, late or very late, perhaps doubled."""
        if len(self.network) >= NETWORK_MAX or self._chance(0.05) or process.cut:
            self.oracle.note(f"lost at once: {type(message).__name__} of {process.name}")
            return
        # The last message of an incarnation is the one whose second copy could do harm.
        twice = self._chance(0.4 if isinstance(message, Surrender | ReportProcessEnd) else 0.05)
        delays_ns = (5 * MILLISECOND_NS, 50 * MILLISECOND_NS, 8 * SECOND_NS)
        for copy in (False, True) if twice else (False,):
            weights = (20, 40, 100) if copy else (80, 95, 100)
            delay_ns = self._random.randrange(self._random.choices(delays_ns, cum_weights=weights)[0])
            self.network.append(Envelope(process, coordinator, message, self.real_ns + delay_ns, copy))

    def _deliver(self) -> bool:
        ready = [one for one in self.network if one.ready_ns <= self.real_ns]
        envelope = self._one(ready)
        return envelope is not None and self.deliver(envelope)

    def _guard(self) -> bool:
        serving = (ActorStage.SERVING, ActorStage.DRAINING)
        process = self._one([one for one in self.processes if one.guards or one.stage in serving])
        if process is None:
            return False
        if len(process.guards) >= GUARDS_MAX or (process.guards and self._chance(0.7)):
            return self.advance_guard(self._random.choice(process.guards))
        return self.begin_guard(process) is not None

    def _timer(self) -> bool:
        process = self._process(ActorStage.SERVING)
        return process is not None and self.timer(process)

    def _publish(self) -> bool:
        process = self._process(ActorStage.JOINING, ActorStage.SERVING, ActorStage.DRAINING)
        return process is not None and self.publish(process, self.latest if self._chance(0.3) else None)

    def _report(self) -> bool:
        process = self._process(ActorStage.SERVING, ActorStage.DRAINING)
        return process is not None and self.report(process)

    def _connect(self) -> bool:
        process, leader = self._process(ActorStage.SERVING), self._leader()
        if process is None or leader is None or (process.stream == leader.number and self._chance(0.9)):
            return False
        return self.connect(process, leader)

    def _join(self) -> bool:
        do = self._random.choice((self.close_older, self.write_join, self.finish_join))
        return self._both(do, ActorStage.JOINING)

    def _start(self) -> bool:
        node = NodeId(self._random.randrange(NODES) + 1)
        mine = [one for one in self.processes if one.node == node and one.stage is not ActorStage.ENDED]
        # A second process of one node is a clone: a copied vault on another machine.
        if len(self.processes) >= PROCESSES_MAX or (mine and not self._chance(0.02)):
            return False
        view = Revision(self._random.randint(max(1, self.latest - 2), self.latest))
        clone = self._clock(self.parts.drift_ppm) if mine else None
        self.start(node, view=view, clock=clone)
        return True

    def _kill(self) -> bool:
        process = self._process(*ActorStage)
        likely = 0.5 if process is not None and process.stage is ActorStage.ENDED else 0.004
        return process is not None and self._chance(likely) and self.kill(process, machine=self._chance(0.3))

    def _report_end(self) -> bool:
        reaped = self._one(self.reaped)
        return reaped is not None and self._chance(0.3) and self.report_end(reaped, self._coordinator())

    def _surrender(self) -> bool:
        ready = self._process(ActorStage.DRAINING)
        if ready is not None:
            return self.drained(ready)
        process = self._process(ActorStage.SERVING)
        return process is not None and self._chance(0.15) and self.surrender(process)

    def _switch_process(self) -> bool:
        process = self._one(self.processes)
        if process is None:
            return False
        fault = self._random.choice(("paused", "cut", "stuck"))
        return self.switch(process, fault, on=self._chance(0.03))

    def _append(self) -> bool:
        leader = self._leader()
        return leader is not None and len(self.unreturned) < UNRETURNED_MAX and self.append(leader)

    def _open_barrier(self) -> bool:
        leader = self._leader()
        give_up_ns = self._random.choice((None, None, SECOND_NS))
        return leader is not None and self.open_barrier(leader, give_up_ns)

    def _judge(self) -> bool:
        leader = self._leader()
        if leader is None or leader.grantor is None:
            return False
        deadline_ns = leader.grantor.next_deadline_ns()
        return deadline_ns is not None and self.now_ns(leader) >= deadline_ns and self.judge(leader)

    def _beat(self) -> bool:
        do = self._random.choice((self.send_beat, self.commit_beat, self.answer_beat))
        coordinator = self._coordinator()
        # A beat that is under way is seldom given up.
        if do == self.send_beat and coordinator.beat_sent_at_ns is not None and self._chance(0.95):
            return False
        return do(coordinator)

    def _elect(self) -> bool:
        do = self._random.choice((self.look, self.campaign, self.take_office))
        return do(self._coordinator())

    def _set_duration(self) -> bool:
        leader = self._leader()
        return leader is not None and self.set_duration(leader, self._random.choice(DURATIONS_NS))

    def _leader_fault(self) -> bool:
        coordinator, draw = self._coordinator(), self._random.random()
        if draw < 0.01:
            return self.resign(coordinator)
        if draw < 0.02:
            return self.crash(coordinator)
        return self.switch(coordinator, "paused", on=self._chance(0.005))


def run(
    seed: int,
    steps: int = 2_000,
    *,
    parts: Parts | None = None,
    invariants: tuple[Invariant, ...] = INVARIANTS,
    command: str = REPRODUCE,
) -> LeaseWorld:
    """A world of this seed after so many steps; raises `InvariantViolated`, which names the seed and the step.

    `command` is the hint of a failure, with `{seed}` and `{steps}` filled in.
    """
    random = Random(seed)  # noqa: S311 - not for secrets: a run must repeat exactly
    repeat = command.format(seed=seed, steps=steps)
    made = LeaseWorld(random, parts=parts, invariants=invariants, seed=seed, command=repeat)
    while made.oracle.step < steps:
        made.step()
    made.finish()
    return made
