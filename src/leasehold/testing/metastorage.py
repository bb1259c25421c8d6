"""An in-memory meta storage with fault knobs, held to the same conformance suite as the real ones.

A `MemoryStore` is what is durable: it outlives the handles opened on it, as a file outlives its process. A
`MemoryMetaStorage` is one process's handle, with that process's watches and leadership. Single event loop, no
threads, no clock: the same calls in the same order give the same results.
"""

from bisect import bisect_left, insort
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from operator import itemgetter

from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.digest import item_digest
from leasehold.core.words.operations import Change, Compare, KeyValue, Page, RevisionChanges, Txn, TxnResult
from leasehold.core.words.records import CheckpointRow, LeaderRecord, LogBody
from leasehold.errors import LeaseholdError
from leasehold.ids import Revision, Term
from leasehold.limits.metastorage import RANGE_PAGE_MAX, REPLAY_REVISIONS_MAX
from leasehold.metastorage.contract import Compacted, FutureRevision, Leadership, StorageStatus
from leasehold.metastorage.leadership import ExclusiveLeadership, Succession
from leasehold.metastorage.transaction import (
    TransactionDraft,
    Writes,
    as_revision,
    bytes_of_changes,
    check_fence,
    check_key,
    check_limit,
    check_span,
    check_txn,
    cluster_id,
    decide,
    election,
    evaluate,
    readable,
    term_of,
    written,
)
from leasehold.metastorage.watch import Fanout, HistoryPart
from leasehold.testing.requests import AfterHook, BeforeHook, FaultyClient, prompt, undisturbed


class MemoryStore:
    """The durable part: every version of every key back to MM."""

    def __init__(self) -> None:
        self.newest = Revision(0)
        self.minimum = Revision(1)
        self.digest = 0
        """Of all keys as they stand, if it is filled by `apply`."""
        self.succession = Succession()
        self.elected: ExclusiveLeadership | None = None
        """The newest leadership of `succession`."""
        self._keys: list[bytes] = []
        self._versions: dict[bytes, list[tuple[Revision, KeyValue | None]]] = {}
        self._log: dict[Revision, RevisionChanges] = {}
        self._handles: dict[MemoryMetaStorage, None] = {}
        self.on_commit: list[Callable[[RevisionChanges], None]] = []
        """Called with each revision, before any watch gets it."""

    def backup(self) -> "MemoryStore":
        """A copy of the store, like a copy of its file."""
        copied = MemoryStore()
        copied.newest, copied.minimum, copied.digest = self.newest, self.minimum, self.digest
        copied._keys = list(self._keys)
        copied._versions = {key: list(versions) for key, versions in self._versions.items()}
        copied._log = dict(self._log)
        return copied

    def depose(self) -> None:
        """Lets another candidate lead while the present leader still believes that it leads."""
        if self.elected is not None:
            self.elected.end()

    def attach(self, handle: "MemoryMetaStorage") -> None:
        """Sends every revision to the handle from now on."""
        self._handles[handle] = None

    def detach(self, handle: "MemoryMetaStorage") -> None:
        """Undoes `attach`; idempotent."""
        self._handles.pop(handle, None)

    def commit(self, txn: Txn) -> TxnResult:
        """Runs a transaction and tells every handle."""
        revision = Revision(self.newest + 1)
        succeeded, writes = evaluate(txn, lambda key: self._at(key, self.newest), revision, self.term)
        if writes:
            self._take(revision, writes)
        return TxnResult(succeeded=succeeded, revision=self.newest)

    def draft(self, txns: Sequence[Txn], term: Term) -> TransactionDraft:
        """What transactions would do, as the replica of a log decides them."""
        return decide(txns, lambda key: self._at(key, self.newest), self.newest, term)

    def apply(self, body: LogBody) -> None:
        """Does what an entry of a log says."""
        for one in body.transactions:
            if one.revision > self.newest:
                writes = written(one, lambda key: self._at(key, self.newest))
                for key, entry in writes.items():
                    self.digest ^= _digest(key, self._at(key, self.newest)) ^ _digest(key, entry)
                self._take(one.revision, writes)
        if body.minimum is not None and body.minimum > self.minimum:
            self.compact(body.minimum)

    def rows(self, minimum: Revision) -> list[CheckpointRow]:
        """The state at a revision, for a checkpoint."""
        rows: list[CheckpointRow] = []
        for key in self._keys:
            modified, entry = max(
                (one for one in self._versions[key] if one[0] <= minimum), default=(0, None), key=itemgetter(0)
            )
            if entry is not None:
                rows.append(CheckpointRow(key, entry.value, entry.created, entry.modified, entry.version))
            elif modified == minimum:
                rows.append(CheckpointRow(key, None, Revision(0), minimum, 0))
        return rows

    @classmethod
    def of_rows(cls, rows: Iterable[CheckpointRow], minimum: Revision) -> "MemoryStore":
        """A store that holds a checkpoint."""
        made = cls()
        made.minimum = made.newest = minimum
        last: list[Change] = []
        for one in rows:
            insort(made._keys, one.key)
            entry = None
            if one.value is not None:
                entry = KeyValue(
                    key=one.key, value=one.value, created=one.created, modified=one.modified, version=one.version
                )
            made._versions[one.key] = [(one.modified, entry)]
            made.digest ^= _digest(one.key, entry)
            if one.modified == minimum:
                last.append(Change(one.key, one.value))
        made._log[minimum] = RevisionChanges(minimum, tuple(sorted(last, key=lambda change: change.key)))
        return made

    def _take(self, revision: Revision, writes: Writes) -> None:
        for key, entry in writes.items():
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
        """All revisions above this one."""
        assert self.minimum <= revision + 1, "nothing is compacted that a watch which lags has not heard of"
        return [self._log[Revision(number)] for number in range(revision + 1, self.newest + 1)]

    def history_bytes(self) -> int:
        """Of the changes above MM."""
        above = (self._log[Revision(number)] for number in range(self.minimum + 1, self.newest + 1))
        return sum(bytes_of_changes(batch.changes) for batch in above)

    @property
    def heard_by_all(self) -> Revision:
        """The newest revision that the watches of all handles have got, lagging ones too."""
        return min((handle.heard_to for handle in self._handles), default=self.newest)

    def compact(self, before: Revision, fence: tuple[Compare, ...] = ()) -> None:
        """Forgets what only revisions below `before` can see."""
        check_fence(fence, self.term)
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

    @property
    def term(self) -> Term:
        """The newest one."""
        return term_of(self._at(keys.LEADER, self.newest))

    def leader(self) -> LeaderRecord | None:
        found = self._at(keys.LEADER, self.newest)
        return None if found is None else decode_record(LeaderRecord, found.value)

    def lead(self, candidate: str) -> Term:
        """Begins the next term."""
        record, txn = election(self._at(keys.LEADER, self.newest), self._at(keys.CLUSTER, self.newest), candidate)
        self.commit(txn)
        return record.term

    def _at(self, key: bytes, revision: Revision) -> KeyValue | None:
        for modified, entry in reversed(self._versions.get(key, ())):
            if modified <= revision:
                return entry
        return None


def _digest(key: bytes, entry: KeyValue | None) -> int:
    if entry is None:
        return 0
    return item_digest(key, b"%d/%d/%d/" % (entry.created, entry.modified, entry.version) + entry.value)


class MemoryMetaStorage(FaultyClient):
    """`MetaStorage` over a `MemoryStore`; `before`, `after` and `page_max` may be exchanged at any time.

    Leadership is by an exclusive lock, as over a file.
    """

    store_name = "the meta storage"

    def __init__(
        self,
        store: MemoryStore,
        *,
        before: BeforeHook = undisturbed,
        after: AfterHook = prompt,
        page_max: int = RANGE_PAGE_MAX,
    ) -> None:
        super().__init__(before, after)
        self.page_max = page_max
        """Keys of one page of a range, however many are asked for."""
        self.store = store
        self.is_nearly_full = False
        self.member = ""
        self.warnings: tuple[str, ...] = ()
        self.seen_leader: LeaderRecord | None = None
        self.obstacle: LeaseholdError | None = None
        self._fanout = Fanout()
        self._heard_to: Revision | None = None
        """While watches lag: the newest revision that they have got."""
        store.attach(self)

    async def txn(self, txn: Txn) -> TxnResult:
        check_txn(txn)
        return await self._request("txn", lambda: self.store.commit(txn))

    async def get(self, key: bytes, revision: Revision | None = None) -> KeyValue | None:
        check_key(key)
        return await self._request("get", lambda: self.store.get(key, revision))

    async def range(self, start: bytes, end: bytes, *, revision: Revision | None = None, limit: int) -> Page:
        check_span(start, end)
        size = min(check_limit(limit), self.page_max)
        return await self._request("range", lambda: self.store.page(start, end, revision, size))

    def watch(self, start: bytes, end: bytes, from_revision: Revision) -> AsyncGenerator[RevisionChanges, None]:
        check_span(start, end)
        return self._fanout.follow(start, end, from_revision, self._history)

    async def compact(self, before: Revision, fence: tuple[Compare, ...] = ()) -> None:
        await self._request("compact", lambda: self.store.compact(before, fence))

    async def confirm(self) -> Revision:
        return (await self.status()).latest

    async def history_bytes(self) -> int:
        return await self._request("history_bytes", self.store.history_bytes)

    async def leader(self) -> LeaderRecord | None:
        return await self._request("leader", self.store.leader)

    async def status(self) -> StorageStatus:
        return await self._request("status", self.store.status)

    async def campaign(self, candidate: str) -> Leadership:
        """As `MetaStorage.campaign`; waits while another candidate leads, on whatever handle of the store."""
        self._check_open()
        self.store.elected = await self.store.succession.campaign(
            self, lambda: self._request("campaign", lambda: self.store.lead(candidate))
        )
        return self.store.elected

    async def close(self) -> None:
        """As `MetaStorage.close`; what still waits in a hook gets `Indefinite`, and did not happen."""
        self.sever()

    def sever(self) -> None:
        """Ends everything of the handle at once, like the death of its process; idempotent."""
        self._is_closed = True
        self.store.detach(self)
        self._fanout.close(self._lost)
        self.store.succession.leave(self, self._lost)

    def publish(self, batch: RevisionChanges) -> None:
        """Hands a committed revision to the watches of this handle, unless they lag."""
        if self._heard_to is None:
            self._fanout.publish((batch,))

    @property
    def heard_to(self) -> Revision:
        """The newest revision that its watches have got."""
        return self.store.newest if self._heard_to is None else self._heard_to

    def lag(self) -> None:
        """Makes the watches of this handle wait until `catch_up`; idempotent."""
        if self._heard_to is None:
            self._heard_to = self.store.newest

    def catch_up(self) -> None:
        """Sends the watches what they missed, in order; does nothing if they don't lag."""
        heard_to, self._heard_to = self._heard_to, None
        if heard_to is not None:
            self._fanout.publish(self.store.since(heard_to))

    async def _history(self, start: bytes, end: bytes, from_revision: Revision) -> HistoryPart:
        return await self._request("history", lambda: self.store.history(start, end, from_revision))
