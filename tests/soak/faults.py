"""What is done to a real cluster, drawn from a seed: one thing is broken or mended after the other, at most
`BROKEN_MAX` are broken at a time, and in the end all is mended. Every fault lies within what the design withstands."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from leasehold.limits.units import SECOND_NS
from leasehold.wire.clock import BoottimeClock, sleep_ns
from tests.netns.cluster import BEHIND_PROXY, CLIENT
from tests.netns.remote import Remote
from tests.soak.grounds import NODES, Ground, wait_until_ended, way_to_the_coordinator

BROKEN_MAX = 2
PAUSES_S = (0.1, 1.0, 5.0)
CALM_CHANCE = 0.45
"""That what comes next is a mend."""

now_ns = BoottimeClock().now_ns


class EndedByItself(Exception):
    """A process ended that nobody had told to."""


class Faults:
    """Breaks `ground`; writes down in `journal` what it did and when, by the clock of the serve logs. Asks `clients`
    which nodes may be lost for good."""

    def __init__(self, ground: Ground, random: Random, journal: Path, clients: Remote) -> None:
        self._ground = ground
        self._random = random
        self._journal = journal
        self._clients = clients
        self._broken: dict[str, Callable[[], None]] = {}
        """How to mend what is broken, by what it is."""
        self._down: set[str] = set()
        """Processes that do not run because they were ended here."""
        self._disturbed_since_ns = 0
        self.disturbed: list[tuple[int, int]] = []
        """From when to when a coordinator, or a member of its store, was down, paused or just back."""
        self.counts: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        """Machines for which others came, and what was under way as they were lost."""
        self._kinds: list[tuple[float, Callable[[], None]]] = [
            (3, self._kill_a_node),
            (1, self._stop_a_node),
            (3, self._pause_a_node),
            (2, self._burn_machines),
            (1, self._kill_a_coordinator),
            (0.3, self._stop_a_coordinator),
            (0.7, self._pause_a_coordinator),
        ]
        if ground.members:
            self._kinds += [(2, self._kill_a_coordinator), (1.5, self._kill_a_member), (1, self._pause_a_member)]
            self._kinds += [(0.7, self._delete_a_replica), (0.7, self._delete_a_members_data)]
        if ground.hosts is not None:
            self._kinds += [(4, self._cut), (2, self._slow)]

    def next(self) -> None:
        """Waits a little, then breaks or mends one thing. Raises `EndedByItself`."""
        sleep_ns(int(self._random.choice(PAUSES_S) * self._random.random() * SECOND_NS))
        self.check_all_run()
        if self._broken and (len(self._broken) >= BROKEN_MAX or self._random.random() < CALM_CHANCE):
            self._mend(self._random.choice(sorted(self._broken)))
        else:
            weights = [weight for weight, _ in self._kinds]
            self._random.choices(self._kinds, weights)[0][1]()

    def heal(self) -> None:
        """Mends everything."""
        for what in sorted(self._broken):
            self._mend(what)
        self.check_all_run()

    @property
    def disturbing(self) -> bool:
        """Whether no coordinator has answered yet since one was last disturbed."""
        return self._disturbed_since_ns != 0

    def answers_again(self) -> None:
        """A coordinator has answered since one was last disturbed: from here on it keeps its bound."""
        if self._disturbed_since_ns and not self._broken.keys() & {*self._ground.coordinators, *self._ground.members}:
            self.disturbed.append((self._disturbed_since_ns, now_ns()))
            self._disturbed_since_ns = 0

    def check_all_run(self) -> None:
        """Raises `EndedByItself`."""
        for name in (*self._ground.coordinators, *self._ground.members, *NODES):
            if name not in self._down and not self._ground.runs(name):
                raise EndedByItself(f"{name} has ended, and nobody told it to")

    def _break(self, what: str, kind: str, said: str, mend: Callable[[], None]) -> None:
        self._broken[what] = mend
        self.counts[kind] += 1
        self._note(said)

    def _mend(self, what: str) -> None:
        self._broken.pop(what)()
        self._note(f"{what}: mended")

    def _note(self, line: str) -> None:
        with self._journal.open("a") as journal:
            journal.write(f"{now_ns()} {line}\n")

    # ------------------------------------------------------------ processes

    def _some_node(self) -> str | None:
        whole = [name for name in NODES if name not in self._broken]
        return self._random.choice(whole) if whole else None

    def _end(self, name: str, *, in_order: bool) -> None:
        self._down.add(name)
        if in_order:
            self._ground.terminate(name)
        else:
            self._ground.kill(name)

    def _start(self, name: str) -> None:
        wait_until_ended(self._ground, name)
        self._ground.start(name)
        self._down.discard(name)

    def _kill_a_node(self) -> None:
        if (name := self._some_node()) is not None:
            if self._random.random() < 0.5:
                self._end(name, in_order=False)
                self._break(name, "node killed with its supervisor", f"{name}: SIGKILL", lambda: self._start(name))
            else:
                self._down.add(name)
                self._ground.kill_below_supervisor(name)
                self._break(name, "process of a node killed", f"{name}: reported", lambda: self._start(name))

    def _burn_machines(self) -> None:
        """Of one node or of two at once; whether others hold all that they held is known only afterwards."""
        whole = [name for name in NODES if name not in self._broken]
        names = self._random.sample(whole, min(len(whole), self._random.choice((1, 2))))
        for name in names:
            self._end(name, in_order=False)
            kind = "machine burning" if len(names) == 1 else "machine burning with another"
            self._break(name, kind, f"{name}: SIGKILL, to be lost", lambda name=name: self._exchange(name))

    def _exchange(self, name: str) -> None:
        """An empty machine comes in the place of one whose process is dead. If that alone holds some rows, as far as
        anybody knows, it comes back as it was."""
        under_way = self._clients.call("under_way_without", node=self._ground.called(name))
        if under_way is not None:
            self.lost.update(["machines lost", *(f"machines lost in a {what}" for what in under_way)])
            anew = f"{name}-anew-{self.lost['machines lost']}"
            self._note(f"{self._ground.called(name)} is lost for good, {anew} comes; under way: {under_way}")
            self._ground.exchange(name, anew)
        self._start(name)

    def _stop_a_node(self) -> None:
        if (name := self._some_node()) is not None:
            self._end(name, in_order=True)
            self._break(name, "node stopped in order", f"{name}: SIGTERM", lambda: self._start(name))

    def _pause_a_node(self) -> None:
        if (name := self._some_node()) is not None:
            self._ground.pause(name)
            self._break(name, "node paused", f"{name}: SIGSTOP", lambda: self._ground.resume(name))

    def _disturbed(self, names: tuple[str, ...]) -> str | None:
        """One of the processes, to be disturbed now, which is noted; None if one of them is broken already."""
        if self._broken.keys() & set(names):
            return None
        self._disturbed_since_ns = self._disturbed_since_ns or now_ns()
        return self._random.choice(names)

    def _kill_a_coordinator(self) -> None:
        if (name := self._disturbed(self._ground.coordinators)) is not None:
            self._end(name, in_order=False)
            self._break(name, "coordinator killed", f"{name}: SIGKILL", lambda: self._start(name))

    def _delete_a_replica(self) -> None:
        """Of a coordinator that shares its meta storage: it builds another."""
        if (name := self._disturbed(self._ground.coordinators)) is not None:
            self._end(name, in_order=False)
            for file in (self._ground.directory / name).glob("meta.db*"):
                file.unlink()
            self._break(name, "replica deleted", f"{name}: SIGKILL, replica deleted", lambda: self._start(name))

    def _stop_a_coordinator(self) -> None:
        if (name := self._disturbed(self._ground.coordinators)) is not None:
            self._end(name, in_order=True)
            self._break(name, "coordinator stopped in order", f"{name}: SIGTERM", lambda: self._start(name))

    def _pause_a_coordinator(self) -> None:
        if (name := self._disturbed(self._ground.coordinators)) is not None:
            self._ground.pause(name)
            self._break(name, "coordinator paused", f"{name}: SIGSTOP", lambda: self._ground.resume(name))

    def _kill_a_member(self) -> None:
        if (name := self._disturbed(self._ground.members)) is not None:
            self._end(name, in_order=False)
            self._break(name, "member of the store killed", f"{name}: SIGKILL", lambda: self._start(name))

    def _delete_a_members_data(self) -> None:
        """It is taken in again by the others, none of which is broken then."""
        if (name := self._disturbed(self._ground.members)) is not None:
            self._end(name, in_order=False)
            shutil.rmtree(self._ground.directory / name / "data")
            said = f"{name}: SIGKILL, data deleted"
            self._break(name, "data of a member of the store deleted", said, lambda: self._start(name))

    def _pause_a_member(self) -> None:
        if (name := self._disturbed(self._ground.members)) is not None:
            self._ground.pause(name)
            self._break(name, "member of the store paused", f"{name}: SIGSTOP", lambda: self._ground.resume(name))

    # ------------------------------------------------------------ the network

    def _cut(self) -> None:
        hosts = self._ground.hosts
        assert hosts is not None
        node = self._random.choice(NODES)
        others = [way_to_the_coordinator(node)] * 3 + [other for other in NODES if other != node] + [CLIENT]
        one, other = self._random.sample((node, self._random.choice(others)), 2)
        both_ways = self._random.random() < 0.5
        what = " and ".join(sorted((one, other)))
        if what in self._broken:
            return

        def mend() -> None:
            hosts.mend(one, other)
            hosts.mend(other, one)

        hosts.cut(one, other)
        if both_ways:
            hosts.cut(other, one)
        kind = "cut both ways" if both_ways else "cut one way"
        self._break(what, kind, f"{one} {'and' if both_ways else 'to'} {other}: cut", mend)

    def _slow(self) -> None:
        way = self._random.choice(("up", "down"))
        what = f"the way {way} of {BEHIND_PROXY}"
        if what in self._broken:
            return
        rate = self._random.choice((None, 0, 40, 400, 4_000))
        delay_seconds = self._random.random() if rate is None else 0.0
        self._ground.slow(way, bytes_per_second=rate, delay_seconds=delay_seconds)
        said = f"{what}: {f'{delay_seconds:.2f} s late' if rate is None else f'{rate} bytes per second'}"
        self._break(what, "slow", said, lambda: self._ground.slow(way))
