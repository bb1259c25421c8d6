"""Rests: what has failed, or was reported, a moment ago is left alone for a while."""

from collections import OrderedDict
from collections.abc import Callable, Hashable

from leasehold.core.backoff import Backoff
from leasehold.limits.replication import RECONCILE_RESTS_KEPT


class Rests:
    """The keys that rest; the newest RECONCILE_RESTS_KEPT are remembered."""

    def __init__(self, now_ns: Callable[[], int], *, min_ns: int, max_ns: int) -> None:
        assert 0 < min_ns <= max_ns
        self._now_ns = now_ns
        self._none = Backoff(min_ns, max_ns)
        self._rests: OrderedDict[Hashable, Backoff] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        """Whether it rests now."""
        return not self._rests.get(key, self._none).is_over(self._now_ns())

    def begin(self, key: Hashable) -> int:
        """Lets a key rest, twice as long as the last time; returns how long, in nanoseconds."""
        rest = self._rests.pop(key, self._none).after_failure(self._now_ns())
        self._rests[key] = rest
        if len(self._rests) > RECONCILE_RESTS_KEPT:
            self._rests.popitem(last=False)
        return rest.pause_ns

    def forget(self, key: Hashable) -> None:
        """Ends the rest of a key; its next one is short again."""
        self._rests.pop(key, None)
