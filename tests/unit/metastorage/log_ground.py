"""A log over an engine in memory, with a fate for each of its requests."""

import asyncio
from collections.abc import Callable, Mapping

from leasehold.core.log.entry import DraftEntry, draft
from leasehold.core.log.leadership import Standing
from leasehold.core.words.codec import encode
from leasehold.core.words.records import LeaderRecord, LogBody
from leasehold.ids import EntryId, Generation, Term
from leasehold.metastorage.log.log import Log, LogFence, LogHead
from leasehold.metastorage.log.store import Swap
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.log_store import KeptLog, MemoryLogStore
from leasehold.testing.loop import VirtualLoop
from leasehold.testing.requests import RequestFate
from tests.unit.core.log.log_words import entry_id, writing

LOG_ID = EntryId("1" * 32)


class Fates:
    """A `before` hook: the fate of each request by its number, counted from the last `of`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._fates: Mapping[int, RequestFate] = {}
        self.on_request: Callable[[], None] | None = None

    def of(self, fates: Mapping[int, RequestFate]) -> None:
        self.asked, self._fates = [], fates

    async def __call__(self, request: str) -> RequestFate:
        if request.startswith("watch"):
            return RequestFate.ANSWERED
        fate = self._fates.get(len(self.asked), RequestFate.ANSWERED)
        self.asked.append(request.partition(" ")[0])
        if self.on_request is not None:
            self.on_request()
        return fate


class Ground:
    """An engine, and one client of the log that it keeps."""

    def __init__(self) -> None:
        self.kept = KeptLog()
        self.fates = Fates()
        self.log = Log(MemoryLogStore(self.kept, before=self.fates))
        self.swaps: list[Swap] = []
        self.kept.on_swap.append(self.swaps.append)

    def names(self, directory: str) -> list[str]:
        return sorted(key.partition("/")[2] for key in self.kept.values if key.startswith(f"{directory}/"))

    async def lead(self, term: int, holder: str = "c1") -> tuple[Standing, LogFence]:
        """Elects a holder."""
        record = LeaderRecord(generation=Generation(1), term=Term(term), holder=holder, beat=0, duration_ns=1)
        elected = await self.log.elect(await self.log.leader(), record)
        assert elected is not None
        return elected

    async def append(self, body: LogBody, fence: LogFence | None, number: int = 0) -> DraftEntry:
        """Appends an entry at the head; `number` makes its id."""
        head = await self.log.head()
        made = draft(head.position, entry_id(number or 1000 + head.position.number), Term(1), body)
        assert await self.log.append(made, head, fence) is not None
        return made

    async def head(self) -> LogHead:
        return await self.log.head()


async def made() -> Ground:
    """An empty log."""
    ground = Ground()
    await ground.log.make(LOG_ID)
    return ground


def sized(revision: int, size: int) -> LogBody:
    """A body of one revision that is encoded in that many bytes."""
    body = writing(revision, value=b"x" * (size - 100))
    short = size - len(encode(body))
    body = writing(revision, value=b"x" * (size - 100 + short))
    assert len(encode(body)) == size
    return body


def virtual_clock() -> SimulatedClock:
    """Of a test that runs on a virtual loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return SimulatedClock(loop)
