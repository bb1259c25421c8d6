"""Large requests that arrive: how many bytes of them, of each address and of all.

| a further one | what happens |
| --- | --- |
| there is room for it | it may arrive |
| there is none, and another address has more than its own with it | the oldest of the address with most is ended |
| there is none, and its own has most | it is refused |
"""

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager


class ArrivingRequests:
    """For one event loop."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._arriving: dict[asyncio.Timeout, tuple[str, int]] = {}
        """The oldest first, by what ends its wait."""
        self._of_each: Counter[str] = Counter()

    @property
    def size_bytes(self) -> int:
        return self._of_each.total()

    @contextmanager
    def room(self, peer: str, size: int, patience: asyncio.Timeout) -> Generator[bool]:
        """Around a request that arrives; yields whether there is room for it. It ends by `patience` if it has to give
        way."""
        has_room = self._has_room(peer, size)
        if has_room:
            self._arriving[patience] = peer, size
            self._of_each[peer] += size
        try:
            yield has_room
        finally:
            self._leave(patience)

    def _has_room(self, peer: str, size: int) -> bool:
        while self.size_bytes + size > self._bytes_max:
            most = max(self._of_each, key=self._of_each.__getitem__, default=peer)
            if self._of_each[most] <= self._of_each[peer] + size:
                return False
            oldest = next(one for one, (of, _) in self._arriving.items() if of == most)
            self._leave(oldest)
            if not oldest.expired():  # it ends in this very moment
                oldest.reschedule(asyncio.get_running_loop().time())
        return True

    def _leave(self, patience: asyncio.Timeout) -> None:
        peer, size = self._arriving.pop(patience, ("", 0))
        self._of_each[peer] -= size
        if not self._of_each[peer]:
            del self._of_each[peer]
