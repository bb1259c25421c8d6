"""Room in memory for rows that are encoded, or wait to be: what all encoders of a process hold together."""

import threading
from typing import Final


class RowRoom:
    """Counts bytes. An encoder that adds rows while the room is full writes its rows out. Any thread may use it."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max: Final = bytes_max
        self._lock = threading.Lock()
        self._held = 0
        self.large_values: Final = threading.Lock()
        """Held while one of the encoders encodes large values: Parquet holds several copies of each."""

    def add(self, size: int) -> None:
        """Counts rows that an encoder holds from now on; a negative size for rows that it holds no more."""
        with self._lock:
            self._held += size

    @property
    def is_full(self) -> bool:
        return self._held >= self._bytes_max
