"""Messages of calls, which stay in memory as long as the server may need them: how many bytes it holds of each caller,
and of all.

Small ones are not counted, since the number of calls bounds them.
"""

import threading
from collections import Counter
from collections.abc import Hashable


class MessageRoom:
    """Any thread may use it. A caller is a user or node that is known, or an address."""

    def __init__(self, *, bytes_max: int, of_one_max: int, small_bytes: int) -> None:
        self._bytes_max = bytes_max
        self._of_one_max = of_one_max
        self._small_bytes = small_bytes
        self._lock = threading.Lock()
        self._held: dict[Hashable, tuple[str, int]] = {}
        self._of_each: Counter[str] = Counter()

    def hold(self, call: Hashable, caller: str, size: int) -> bool:
        """Whether there is room for the message of a call; if so, it has to be dropped. If nothing else is held,
        there always is."""
        if size <= self._small_bytes:
            return True
        with self._lock:
            of_one, of_all = self._of_each[caller], self._of_each.total()
            if (of_one and of_one + size > self._of_one_max) or (of_all and of_all + size > self._bytes_max):
                return False
            self._held[call] = caller, size
            self._of_each[caller] += size
            return True

    def drop(self, call: Hashable) -> None:
        """The message is not needed any more; no effect for a call of which nothing is held."""
        with self._lock:
            caller, size = self._held.pop(call, ("", 0))
            self._of_each[caller] -= size
            if not self._of_each[caller]:
                del self._of_each[caller]
