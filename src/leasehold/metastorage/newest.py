"""Keys as they stand at the newest revision, kept in memory from one transaction to the next: most transactions of a
leader read and write some of the keys that the one before has written."""

from collections.abc import Callable, Mapping

from leasehold.core.words.operations import KeyValue
from leasehold.limits.metastorage import CHANGE_FRAMING_BYTES, NEWEST_KEYS_BYTES_MAX


class NewestKeys(dict[bytes, KeyValue | None]):
    """A key that is not known yet is read; None stands for one that is missing. Whoever changes the store writes here
    too, or clears it."""

    def __init__(self, read: Callable[[bytes], KeyValue | None]) -> None:
        super().__init__()
        self._read = read
        self._bytes = 0

    def __missing__(self, key: bytes) -> KeyValue | None:
        found = self[key] = self._read(key)
        self._bytes += _size(key, found)
        return found

    def write(self, writes: Mapping[bytes, KeyValue | None]) -> None:
        """Takes what a transaction has changed."""
        self.update(writes)
        self._bytes += sum(_size(key, found) for key, found in writes.items())

    def clear(self) -> None:
        super().clear()
        self._bytes = 0

    def bound(self) -> None:
        """Forgets all once it may be too much. Not between two transactions of one commit: the store does not have
        them yet."""
        if self._bytes > NEWEST_KEYS_BYTES_MAX:
            self.clear()


def _size(key: bytes, found: KeyValue | None) -> int:
    return CHANGE_FRAMING_BYTES + len(key) + (0 if found is None else len(found.value))
