"""The times when the leader of a simulated cluster, or its store, was disturbed: no bound of a statement holds then.

The coordinators report them. A leader is disturbed while its process is paused or can't reach the store; the same of a
standby disturbs nothing. While no coordinator runs and reaches the store, none can lead. A killed leader is not a
disturbance but a change of leader, which has its own allowance.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

KEPT_MAX: Final = 10_000
THE_COORDINATORS: Final = "the coordinators"


class _Coordinator(NamedTuple):
    up: bool
    reaching: bool


class Disturbances:
    """Spans of real time, and the instants at which an election was set back."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._spans: deque[tuple[int, int]] = deque(maxlen=KEPT_MAX)
        self._since: dict[str, int] = {}
        self._setbacks: deque[int] = deque(maxlen=KEPT_MAX)
        self._coordinators: dict[str, _Coordinator] = {}
        self._leader = ""

    def coordinator(self, address: str, *, up: bool, reaching: bool) -> None:
        """The state of a coordinator from now on: whether its process runs, and is neither paused nor cut off from the
        store."""
        self._coordinators[address] = _Coordinator(up, reaching)
        self._judge()

    def leads(self, address: str) -> None:
        """A term of the coordinator at this address has begun in the store."""
        self._leader = address
        self._judge()

    def set_back(self) -> None:
        """A candidate starts to wait again, or is gone, while none leads: as if a leader had been lost."""
        self._setbacks.append(self._now_ns())

    def begin(self, what: str) -> None:
        """From now on this disturbs the leader."""
        self._since.setdefault(what, self._now_ns())

    def end(self, what: str) -> None:
        """This disturbance is over, if there was one."""
        since_ns = self._since.pop(what, None)
        if since_ns is not None:
            self._spans.append((since_ns, self._now_ns()))

    def lasted_ns(self, from_ns: int, to_ns: int) -> int:
        """How much of this time was disturbed; time with several disturbances counts once."""
        spans = [*self._spans, *((since, to_ns) for since in self._since.values())]
        total_ns, covered_ns = 0, from_ns
        for began_ns, ended_ns in sorted(spans):
            first_ns, last_ns = max(began_ns, covered_ns), min(ended_ns, to_ns)
            if first_ns < last_ns:
                total_ns += last_ns - first_ns
                covered_ns = last_ns
        return total_ns

    def setbacks(self, from_ns: int, to_ns: int) -> int:
        """How often an election was set back in this time."""
        return sum(from_ns <= at_ns <= to_ns for at_ns in self._setbacks)

    def _judge(self) -> None:
        if not self._coordinators:
            return  # a world that has none, or doesn't tell of them
        leader = self._coordinators.get(self._leader)
        stuck = leader is not None and leader.up and not leader.reaching
        if stuck or not any(one.up and one.reaching for one in self._coordinators.values()):
            self.begin(THE_COORDINATORS)
        else:
            self.end(THE_COORDINATORS)
