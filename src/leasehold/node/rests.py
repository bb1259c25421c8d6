"""Rests: what failed or was told a moment ago is left alone for a while."""

from collections import OrderedDict
from collections.abc import Callable, Hashable

from leasehold.limits.replication import RECONCILE_RESTS_KEPT


class Rests:
    """What is left alone until when; the newest RECONCILE_RESTS_KEPT are remembered."""

    def __init__(self, now_ns: Callable[[], int], *, min_ns: int, max_ns: int) -> None:
        assert 0 < min_ns <= max_ns
        self._now_ns = now_ns
        self._min_ns = min_ns
        self._max_ns = max_ns
        self._until_ns: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        """Whether it rests now."""
        return key in self._until_ns and self._now_ns() < self._until_ns[key][0]

    def begin(self, key: Hashable) -> int:
        """Lets it rest, twice as long as the last time; how long, in nanoseconds."""
        _, last_ns = self._until_ns.pop(key, (0, 0))
        pause_ns = min(max(self._min_ns, 2 * last_ns), self._max_ns)
        self._until_ns[key] = (self._now_ns() + pause_ns, pause_ns)
        if len(self._until_ns) > RECONCILE_RESTS_KEPT:
            self._until_ns.popitem(last=False)
        return pause_ns

    def forget(self, key: Hashable) -> None:
        """It went well: the next rest is a short one again."""
        self._until_ns.pop(key, None)
