"""Who acts in the world: clocks that drift, node processes, coordinators, and messages on their way.

They hold production `Holder` and `Grantor` objects and only what a process would hold beside them; fields that no
process has, but that a checker needs, are marked as ghosts. What happens to them is decided by `world.World`.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

import msgspec

from leasehold.core.lease.drift import MILLION
from leasehold.core.lease.grantor import Grantor
from leasehold.core.lease.holder import NO_LEASE, Holder, Lease, Pass, PublishedView
from leasehold.core.lease.process_end import end_proof
from leasehold.core.words.messages import Grant, Renewal, RenewalRefused, ReportProcessEnd, Surrender
from leasehold.ids import Incarnation, NodeId, Revision, Session, Term, Token


class LocalClock(msgspec.Struct, frozen=True):
    """A clock that reads `offset_ns` at real time 0 and gains `drift_ppm` parts in a million (negative: loses)."""

    offset_ns: int
    drift_ppm: int

    def now_ns(self, real_ns: int) -> int:
        """What it reads at a real instant."""
        return self.offset_ns + real_ns * (MILLION + self.drift_ppm) // MILLION

    def real_ns(self, local_ns: int) -> int:
        """The first real instant at which it reads at least `local_ns`."""
        return -(-(local_ns - self.offset_ns) * MILLION // (MILLION + self.drift_ppm))


class LeaseCatalog(msgspec.Struct, frozen=True):
    """The catalog as far as the lease cares: its revision."""

    revision: Revision


# ---------------------------------------------------------------- the guard, one reading at a time

Guard: TypeAlias = "Callable[[PublishedView[LeaseCatalog], Callable[[], int]], Pass[LeaseCatalog] | None]"


class Suspended(Exception):
    """The guard wants its next reading, which belongs to a later step of the world."""


class GuardRun:
    """One run of the production guard, interrupted before each of its readings.

    The guard is deterministic in what it reads, so each `advance` runs it again from its beginning, answers from
    memory what it has read before, lets it read one thing more, and stops it there. The order of the readings is
    the guard's own: nothing here knows it.
    """

    def __init__(self, process: "NodeProcess", returned: Revision) -> None:
        self.process = process
        self.returned = returned
        """Ghost: the newest change that had returned when this run began."""
        self.proceeded = Revision(0)
        """Ghost: the newest barrier that had proceeded when the clock was read."""
        self._readings: list[Lease | LeaseCatalog | int] = []

    def advance(self, guard: Guard, real_ns: int, proceeded: Revision) -> tuple[bool, "Pass[LeaseCatalog] | None"]:
        """One reading more; whether the run has ended, and with what."""
        replay = _Replay(self.process, self._readings, real_ns)
        try:
            passed = guard(replay, replay.now_ns)
        except Suspended:
            return False, None
        finally:
            if replay.clock_was_read:
                self.proceeded = proceeded
        return True, passed


class _Replay:
    """Remembers the readings of one guard run and allows one new one."""

    def __init__(self, process: "NodeProcess", readings: list[Lease | LeaseCatalog | int], real_ns: int) -> None:
        self._process = process
        self._readings = readings
        self._real_ns = real_ns
        self._at = 0
        self._spent = False
        self.clock_was_read = False

    @property
    def lease(self) -> Lease:
        reading = self._next(lambda: self._process.lease)
        assert isinstance(reading, Lease)
        return reading

    @property
    def view(self) -> LeaseCatalog:
        reading = self._next(lambda: self._process.view)
        assert isinstance(reading, LeaseCatalog)
        return reading

    def now_ns(self) -> int:
        reading = self._next(self._clock)
        assert isinstance(reading, int)
        return reading

    def _clock(self) -> int:
        self.clock_was_read = True
        return self._process.clock.now_ns(self._real_ns)

    def _next(self, fresh: Callable[[], Lease | LeaseCatalog | int]) -> Lease | LeaseCatalog | int:
        if self._at == len(self._readings):
            if self._spent:
                raise Suspended
            self._spent = True
            self._readings.append(fresh())
        self._at += 1
        return self._readings[self._at - 1]


# ---------------------------------------------------------------- processes


class ActorStage(Enum):
    """Where a node process stands in its life."""

    JOINING = "joining"
    SERVING = "serving"
    DRAINING = "draining"
    ENDED = "ended"


class NodeProcess:
    """One process of one node: it publishes a view and a lease, each by a single assignment."""

    def __init__(
        self, *, number: int, node: NodeId, clock: LocalClock, view: LeaseCatalog, previous: Incarnation
    ) -> None:
        self.number = number
        self.node = node
        self.clock = clock
        self.view = view
        self.lease: Lease = NO_LEASE
        self.session = Session(f"{number:032x}")
        self.previous = previous
        self.incarnation = Incarnation(0)
        self.holder: Holder | None = None
        self.stage = ActorStage.JOINING
        self.stream: int | None = None
        """Which coordinator it talks to."""
        self.paused = False
        self.cut = False
        self.stuck = False
        self.guards: list[GuardRun] = []

    def end_proof(self) -> bytes:
        """What its supervisor shows to the leader once it has ended."""
        return end_proof(Token(f"{self.node:032x}"), self.session)

    @property
    def name(self) -> str:
        """`n<node>.<process>`, as in the trace."""
        return f"n{self.node}.{self.number}"

    def lease_ends_ns(self) -> int:
        """Ghost: the real instant at which its lease ends."""
        return self.clock.real_ns(self.lease.deadline_ns)


class LeaderRecordSeen(msgspec.Struct, frozen=True):
    """The leader record as the store holds it; `holder` None after a resignation."""

    term: Term
    beat: int
    holder: int | None


class LeaseCoordinator:
    """One coordinator: a follower, a winner that has not taken office, or a leader, who may be one no more."""

    def __init__(self, *, number: int, clock: LocalClock) -> None:
        self.number = number
        self.clock = clock
        self.paused = False
        self.retire()

    def retire(self) -> None:
        """Forgets all, as after a restart or a resignation."""
        self.term = Term(0)
        self.leads_until_ns = -1
        self.grantor: Grantor | None = None
        self.seen: LeaderRecordSeen | None = None
        self.seen_at_ns = 0
        self.beat_sent_at_ns: int | None = None
        self.beat_committed = False
        self.unopened: deque[Revision] = deque()
        """Changes that are durable and whose barrier has not been opened here."""
        self.barriers: dict[int, Revision] = {}

    @property
    def name(self) -> str:
        """`c<number>`, as in the trace."""
        return f"c{self.number}"


Travelling: TypeAlias = Renewal | Surrender | ReportProcessEnd | Grant | RenewalRefused


class Envelope(msgspec.Struct, frozen=True, eq=False):
    """A message on its way on the stream between a process and a coordinator, not delivered before `ready_ns`."""

    process: NodeProcess
    coordinator: int
    message: Travelling
    ready_ns: int
    copy: bool = False

    @property
    def name(self) -> str:
        """What and whose, as in the trace."""
        request = "" if isinstance(self.message, Surrender | ReportProcessEnd) else f" #{self.message.request}"
        return f"{type(self.message).__name__}{request} of {self.process.name}"
