"""Room in memory for rows that are encoded, or wait to be: what all encoders of a process hold together."""

import threading
from typing import Final

from leasehold.limits.segments import FOOTERS_BYTES_MAX, FOOTERS_OF_ONE_BYTES


class RowRoom:
    """Counts bytes. An encoder that adds rows while the room is full writes its rows out. Any thread may use it."""

    def __init__(self, bytes_max: int, footers_bytes_max: int = FOOTERS_BYTES_MAX) -> None:
        self._bytes_max: Final = bytes_max
        self._footers_bytes_max: Final = footers_bytes_max
        self._lock = threading.Lock()
        self._held = 0
        self._footers = 0
        self.large_values: Final = threading.Lock()
        """Held while one of the encoders encodes large values: Parquet holds several copies of each."""
        self.large_footers: Final = threading.Lock()
        """Held while one of the encoders ends a file with a large footer, of which Parquet makes copies."""

    def add(self, size: int) -> None:
        """Counts rows that an encoder holds from now on; a negative size for rows that it holds no more."""
        with self._lock:
            self._held += size

    def add_footer(self, size: int, *, own_bytes: int) -> bool:
        """Counts what a Parquet writer keeps of one more row group, unless all keep too much with it, and this one
        alone keeps more than FOOTERS_OF_ONE_BYTES: `own_bytes`. False if it is not counted."""
        with self._lock:
            if self._footers + size > self._footers_bytes_max and own_bytes > FOOTERS_OF_ONE_BYTES:
                return False
            self._footers += size
            return True

    def drop_footers(self, size: int) -> None:
        """Takes off what a writer kept, at its end."""
        with self._lock:
            self._footers -= size

    @property
    def is_full(self) -> bool:
        return self._held >= self._bytes_max
