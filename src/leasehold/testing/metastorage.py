"""An in-memory meta storage with fault knobs, held to the same conformance suite as the real ones.

A `MemoryStore` is what is durable: it outlives the handles opened on it, as a file outlives its process. A
`MemoryMetaStorage` is one process's handle, with that process's watches and leadership. Single event loop, no
threads, no clock: the same calls in the same order give the same results.
"""

import asyncio
import contextlib
from bisect import bisect_left, insort
from collections.abc import AsyncGenerator, Awaitable, Callable
from enum import Enum, auto
from typing import Final, TypeAlias, TypeVar

from leasehold.core.words import keys
from leasehold.core.words.operations import KeyValue, Page, RevisionChanges, Txn, TxnResult
from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite, Indefinite, LeaseholdError, Refused
from leasehold.ids import Revision
from leasehold.limits.metastorage import RANGE_PAGE_MAX, REPLAY_REVISIONS_MAX
from leasehold.metastorage.contract import Compacted, FutureRevision, Leadership, StorageStatus
from leasehold.metastorage.leadership import Election, ExclusiveLeadership, Succession
from leasehold.metastorage.transaction import (
    Put,
    as_revision,
    check_key,
    check_limit,
    check_span,
    check_txn,
    cluster_id,
    election,
    evaluate,
    readable,
)
from leasehold.metastorage.watch import Fanout, HistoryPart
from leasehold.testing.campaign import TIMING, Time, campaign
from leasehold.testing.leadership import LeadershipTiming

T = TypeVar("T")


class RequestFate(Enum):
    """What becomes of one request."""

    ANSWERED = auto()
    LOST_BEFORE = auto()
    """It never happens; the caller gets `Indefinite`."""
    LOST_AFTER = auto()
    """It happens; the caller gets `Indefinite` all the same."""
    LATE = auto()
    """It happens LATE_S later, whatever has become of its caller, who gets `Indefinite` now."""


LATE_S: Final = 5.0
"""Longer than a leadership lasts that is not beaten: another one leads by then, or soon."""

BeforeHook: TypeAlias = Callable[[str], Awaitable[RequestFate]]
"""Awaited before each request with the method's name (`history` for a watch's reads): its delay and its fate."""
AfterHook: TypeAlias = Callable[[str], Awaitable[None]]
"""Awaited after a request happened, before its answer: the delay of the answer."""


async def undisturbed(request: str) -> RequestFate:
    """No loss; like any real request, it lets others run meanwhile."""
    del request
    await asyncio.sleep(0)
    return RequestFate.ANSWERED


async def prompt(request: str) -> None:
    """No delay."""
    del request


class MemoryStore:
    """The durable part: every version of every key back to MM."""

    def __init__(self) -> None:
        self.newest = Revision(0)
        self.minimum = Revision(1)
        self.succession = Succession()
        self.elected: ExclusiveLeadership | None = None
        """The newest leadership of `succession`."""
        self._keys: list[bytes] = []
        self._versions: dict[bytes, list[tuple[Revision, KeyValue | None]]] = {}
        self._log: dict[Revision, RevisionChanges] = {}
        self._handles: dict[MemoryMetaStorage, None] = {}
        self.on_commit: list[Callable[[RevisionChanges], None]] = []
        """Called with each revision, of whatever keys, before anyone else hears of it."""

    def backup(self) -> "MemoryStore":
        """Another store with what is in this one now, as a copy of its file has it; nobody uses it yet."""
        copied = MemoryStore()
        copied.newest, copied.minimum = self.newest, self.minimum
        copied._keys = list(self._keys)
        copied._versions = {key: list(versions) for key, versions in self._versions.items()}
        copied._log = dict(self._log)
        return copied

    def depose(self) -> None:
        """Lets another candidate lead while the present leader still believes it does."""
        if self.elected is not None:
            self.succession.end(self.elected)

    def attach(self, handle: "MemoryMetaStorage") -> None:
        """From now on the handle is told of every revision."""
        self._handles[handle] = None

    def detach(self, handle: "MemoryMetaStorage") -> None:
        """Undoes `attach`; idempotent."""
        self._handles.pop(handle, None)

    def commit(self, txn: Txn) -> TxnResult:
        """Runs a transaction and tells every handle."""
        revision = Revision(self.newest + 1)
        succeeded, writes = evaluate(txn, lambda key: self._at(key, self.newest), revision)
        if not writes:
            return TxnResult(succeeded=succeeded, revision=self.newest)
        for write in writes:
            key, entry = (write.entry.key, write.entry) if isinstance(write, Put) else (write.key, None)
            if key not in self._versions:
                insort(self._keys, key)
                self._versions[key] = []
            self._versions[key].append((revision, entry))
        self.newest = revision
        batch = self._log[revision] = as_revision(revision, writes)
        for hear in self.on_commit:
            hear(batch)
        for handle in self._handles:
            handle.publish(batch)
        return TxnResult(succeeded=succeeded, revision=revision)

    def get(self, key: bytes, revision: Revision | None) -> KeyValue | None:
        """The key at a revision."""
        return self._at(key, readable(revision, self.minimum, self.newest))

    def page(self, start: bytes, end: bytes, revision: Revision | None, limit: int) -> Page:
        """A page of a range at a revision."""
        at = readable(revision, self.minimum, self.newest)
        items: list[KeyValue] = []
        for key in self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, end)]:
            entry = self._at(key, at)
            if entry is None:
                continue
            if len(items) == limit:
                return Page(revision=at, items=tuple(items), next_start=items[-1].key + b"\x00")
            items.append(entry)
        return Page(revision=at, items=tuple(items), next_start=None)

    def history(self, start: bytes, end: bytes, from_revision: Revision) -> HistoryPart:
        """Whole revisions of a range, a bounded number at once."""
        if from_revision < self.minimum:
            raise Compacted(self.minimum)
        covered = min(self.newest, Revision(from_revision + REPLAY_REVISIONS_MAX - 1))
        batches: list[RevisionChanges] = []
        for number in range(from_revision, covered + 1):
            batch = self._log[Revision(number)]
            changes = tuple(change for change in batch.changes if start <= change.key < end)
            if changes:
                batches.append(RevisionChanges(batch.revision, changes))
        return HistoryPart(batches=tuple(batches), covered=covered, complete=covered == self.newest)

    def since(self, revision: Revision) -> list[RevisionChanges]:
        """All revisions above this one, of whatever keys."""
        assert self.minimum <= revision + 1, "nothing is compacted that a watch which lags has not heard of"
        return [self._log[Revision(number)] for number in range(revision + 1, self.newest + 1)]

    @property
    def heard_by_all(self) -> Revision:
        """The newest revision that the watches of every handle were told of, those that lag too."""
        return min((handle.heard_to for handle in self._handles), default=self.newest)

    def compact(self, before: Revision) -> None:
        """Forgets what only revisions below `before` can see."""
        if before > self.newest:
            raise FutureRevision(f"can't compact up to {before}: the newest revision is {self.newest}")
        if before < self.minimum:
            raise Compacted(self.minimum)
        for number in range(self.minimum, before):
            del self._log[Revision(number)]
        self.minimum = before
        for key, versions in list(self._versions.items()):
            visible = max((revision for revision, _ in versions if revision <= before), default=before)
            kept = [one for one in versions if one[0] >= visible and (one[0] >= before or one[1] is not None)]
            if kept:
                self._versions[key] = kept
            else:
                del self._versions[key]
                del self._keys[bisect_left(self._keys, key)]

    def status(self) -> StorageStatus:
        """Cluster id, LM and MM."""
        lineage = self._at(keys.LINEAGE, self.newest)
        return StorageStatus(
            cluster_id=cluster_id(self._at(keys.CLUSTER, self.newest)),
            latest=Revision(0) if lineage is None else lineage.modified,
            minimum=self.minimum,
        )

    def lead(self, candidate: str) -> Election:
        """Begins the next term."""
        term, txn = election(self._at(keys.LEADER, self.newest), self._at(keys.CLUSTER, self.newest), candidate)
        return Election(term=term, revision=self.commit(txn).revision)

    def _at(self, key: bytes, revision: Revision) -> KeyValue | None:
        for modified, entry in reversed(self._versions.get(key, ())):
            if modified <= revision:
                return entry
        return None


class MemoryMetaStorage:
    """`MetaStorage` over a `MemoryStore`; `before`, `after` and `page_max` may be exchanged at any time.

    With a `clock`, leadership is by the leader record and its beats, as over a store that machines share; without,
    by an exclusive lock, as over a file.
    """

    def __init__(
        self,
        store: MemoryStore,
        *,
        clock: Time | None = None,
        timing: LeadershipTiming = TIMING,
        before: BeforeHook = undisturbed,
        after: AfterHook = prompt,
        page_max: int = RANGE_PAGE_MAX,
    ) -> None:
        self.before = before
        self.after = after
        self.page_max = page_max
        """Keys of one page of a range, however many are asked for."""
        self.store = store
        self._clock = clock
        self._timing = timing
        self._fanout = Fanout()
        self._is_closed = False
        self._heard_to: Revision | None = None
        """While watches lag: the newest revision they were told of."""
        store.attach(self)

    async def txn(self, txn: Txn) -> TxnResult:
        """As `MetaStorage.txn`."""
        check_txn(txn)
        return await self._request("txn", lambda: self.store.commit(txn))

    async def get(self, key: bytes, revision: Revision | None = None) -> KeyValue | None:
        """As `MetaStorage.get`."""
        check_key(key)
        return await self._request("get", lambda: self.store.get(key, revision))

    async def range(self, start: bytes, end: bytes, *, revision: Revision | None = None, limit: int) -> Page:
        """As `MetaStorage.range`."""
        check_span(start, end)
        size = min(check_limit(limit), self.page_max)
        return await self._request("range", lambda: self.store.page(start, end, revision, size))

    def watch(self, start: bytes, end: bytes, from_revision: Revision) -> AsyncGenerator[RevisionChanges, None]:
        """As `MetaStorage.watch`."""
        check_span(start, end)
        return self._fanout.follow(start, end, from_revision, self._history)

    async def compact(self, before: Revision) -> None:
        """As `MetaStorage.compact`."""
        await self._request("compact", lambda: self.store.compact(before))

    async def status(self) -> StorageStatus:
        """As `MetaStorage.status`."""
        return await self._request("status", self.store.status)

    async def campaign(self, candidate: str) -> Leadership:
        """As `MetaStorage.campaign`; waits while another candidate leads, on whatever handle of the store."""
        self._check_open()
        if self._clock is not None:
            try:
                return await campaign(self, candidate, self._clock, self._timing)
            except Refused as error:
                if self._is_closed:
                    raise _lost() from error
                raise
        self.store.elected = await self.store.succession.campaign(
            self, lambda: self._request("campaign", lambda: self.store.lead(candidate))
        )
        return self.store.elected

    async def close(self) -> None:
        """As `MetaStorage.close`; what still waits in a hook gets `Indefinite`, and did not happen."""
        self.sever()

    def sever(self) -> None:
        """What the death of the process does: all of the handle ends at once; idempotent."""
        self._is_closed = True
        self.store.detach(self)
        self._fanout.close(_lost)
        self.store.succession.leave(self, _lost)

    def publish(self, batch: RevisionChanges) -> None:
        """Hands a committed revision to the watches of this handle, unless they lag."""
        if self._heard_to is None:
            self._fanout.publish((batch,))

    @property
    def heard_to(self) -> Revision:
        """The newest revision that its watches were told of."""
        return self.store.newest if self._heard_to is None else self._heard_to

    def lag(self) -> None:
        """From now on watches of this handle hear of nothing until `catch_up`; idempotent."""
        if self._heard_to is None:
            self._heard_to = self.store.newest

    def catch_up(self) -> None:
        """What watches have not heard of comes now, in order; harmless where they don't lag."""
        heard_to, self._heard_to = self._heard_to, None
        if heard_to is not None:
            self._fanout.publish(self.store.since(heard_to))

    async def _history(self, start: bytes, end: bytes, from_revision: Revision) -> HistoryPart:
        return await self._request("history", lambda: self.store.history(start, end, from_revision))

    async def _request(self, name: str, happen: Callable[[], T]) -> T:
        self._check_open()
        fate = await self.before(name)
        if self._is_closed or fate is RequestFate.LOST_BEFORE:
            raise _lost()
        if fate is RequestFate.LATE:
            asyncio.get_running_loop().call_later(LATE_S, _unheard, happen)
            raise _lost()
        try:
            result = happen()
        except Definite:
            if fate is RequestFate.LOST_AFTER:
                raise _lost() from None
            raise
        await self.after(name)
        if self._is_closed or fate is RequestFate.LOST_AFTER:
            raise _lost()
        return result

    def _check_open(self) -> None:
        if self._is_closed:
            raise Refused("the meta storage is closed", code=ErrorCode.CLOSED, hint="open it again")


def _unheard(happen: Callable[[], object]) -> None:
    """Nobody is left to hear a refusal."""
    with contextlib.suppress(Definite):
        happen()


def _lost() -> LeaseholdError:
    return Indefinite("no answer from the meta storage", hint="look whether it happened")
