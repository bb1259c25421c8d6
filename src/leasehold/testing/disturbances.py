"""When the leader of a simulated cluster, or its store, was disturbed: no bound of a statement holds meanwhile.

Told by the coordinators themselves. A leader is disturbed while its process is paused or can't reach the store; a
standby that fares so disturbs nothing. While no coordinator runs and reaches the store, nobody can lead. A leader that
is killed is no disturbance but a change of leader, which has an allowance of its own.
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

    def coordinator(self, name: str, *, up: bool, reaching: bool) -> None:
        """How a coordinator fares from now on: whether its process runs, and whether it is neither paused nor cut off
        from the store."""
        self._coordinators[name] = _Coordinator(up, reaching)
        self._judge()

    def leads(self, name: str) -> None:
        """A term of this coordinator has begun in the store."""
        self._leader = name
        self._judge()

    def set_back(self) -> None:
        """A candidate begins anew to wait, or is gone, while nobody leads: as if a leader had been lost."""
        self._setbacks.append(self._now_ns())

    def begin(self, what: str) -> None:
        """From now on the leader is disturbed by this."""
        self._since.setdefault(what, self._now_ns())

    def end(self, what: str) -> None:
        """This disturbance is over; harmless where there was none."""
        since_ns = self._since.pop(what, None)
        if since_ns is not None:
            self._spans.append((since_ns, self._now_ns()))

    def lasted_ns(self, from_ns: int, to_ns: int) -> int:
        """How much of this time was disturbed, counted once however many disturbances there were."""
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
