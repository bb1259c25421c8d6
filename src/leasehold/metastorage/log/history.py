"""How many bytes of a log lie above MM."""

from leasehold.core.log.entry import BEGINNING
from leasehold.core.words.records import LogPosition
from leasehold.ids import Revision
from leasehold.metastorage.log.log import Log


class HistorySize:
    """Remembers where MM lies in the log, which is read only once it has moved."""

    def __init__(self, shared: Log) -> None:
        self._log = shared
        self._below: tuple[Revision, LogPosition] | None = None
        """The last MM, and the last entry that lies at or below it."""

    async def size_bytes(self, minimum: Revision, head: LogPosition) -> int:
        """Of the entries above MM, up to `head`."""
        if self._below is None or self._below[0] != minimum:
            checkpoint = await self._log.checkpoint()
            begins = BEGINNING if checkpoint is None else checkpoint.checkpoint.position
            below = await self._log.last_until(minimum, begins, head)
            if head.revision <= minimum:  # the next entry may lie at MM too
                return head.log_bytes - below.log_bytes
            self._below = minimum, below
        return head.log_bytes - self._below[1].log_bytes
