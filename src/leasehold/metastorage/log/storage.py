"""The meta storage over a replicated log.

A transaction is decided on the replica at the head, and all that wait join one append. It is applied, published and
answered in this order, only once the append is known to have happened. Reads and watches run on the replica. What
another coordinator appends is read from the log, as soon as `HeadWatch` wakes, and once a second in any case.

| task | does |
| --- | --- |
| `_write` | decides, appends and applies what `txn` and `compact` put into the queue |
| `_follow` | applies what others append |
| `Upkeep.run` | while this coordinator leads: checkpoints, trimming, orphans, the quota |

`_turn` lets one of them at a time touch the replica.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from leasehold.core.log.entry import BEGINNING, DoesNotFollow, draft
from leasehold.core.log.space import Room
from leasehold.core.words.operations import Compare, KeyValue, Page, RevisionChanges, Txn, TxnResult
from leasehold.core.words.records import LeaderRecord, LogBody, LogPosition
from leasehold.errors import Corrupt, Definite, Indefinite, LeaseholdError, gravest
from leasehold.ids import EntryId, Revision, Term
from leasehold.limits.log import LOG_HEAD_POLL_NS
from leasehold.metastorage.causes import closed, unanswered
from leasehold.metastorage.contract import Compacted, FutureRevision, Leadership, StorageStatus
from leasehold.metastorage.log.append import append_surely
from leasehold.metastorage.log.bootstrap import (
    OldHeads,
    Progress,
    StoreSetBack,
    apply_until,
    built,
    check_reached,
    followed,
    opened,
)
from leasehold.metastorage.log.campaign import BeatenLeadership, LogCandidate
from leasehold.metastorage.log.commands import LogCommand, LogCommands, fail
from leasehold.metastorage.log.head_watch import HeadWatch
from leasehold.metastorage.log.history import HistorySize
from leasehold.metastorage.log.log import Log, LogFence, LogHead, Trimmed
from leasehold.metastorage.log.patience import ReplicaDeclines, until_answered
from leasehold.metastorage.log.replica import Replica, ReplicaPlace
from leasehold.metastorage.log.upkeep import Upkeep
from leasehold.metastorage.moved import MetaMoved
from leasehold.metastorage.transaction import check_fence, check_txn
from leasehold.wire.ports import Clock, Entropy
from leasehold.wire.tasks import EndableWaits, until_set_or_due

log = logging.getLogger(__name__)

T = TypeVar("T")


class ReplicatedMetaStorage:
    """`MetaStorage` over a `Log`, of one coordinator. Made by `open`; used on the event loop that opened it."""

    def __init__(self, shared: Log, place: ReplicaPlace, replica: Replica, clock: Clock, entropy: Entropy) -> None:
        self._log = shared
        self._place = place
        self._replica = replica
        self._clock = clock
        self._entropy = entropy
        self._leadership: BeatenLeadership | None = None
        self._head: LogHead | None = None
        """The head, if the replica stands at it as far as this coordinator knows."""
        self._turn = asyncio.Lock()
        self._commands = LogCommands()
        self._woken = asyncio.Event()
        self._head_watch = HeadWatch(shared.store, self._woken)
        self._built_from: LogPosition | None = None
        """Where the replica was built anew from, if it has not reached a head since."""
        self._stands = asyncio.Event()
        """Set unless the replica is built anew, and has not reached a head since."""
        self._declines = ReplicaDeclines()
        self._cause: LeaseholdError | None = None
        self._is_closed = False
        self._waiting = EndableWaits()
        """Calls that end with the storage."""
        self._old_heads = OldHeads(clock)
        self._asked: list[asyncio.Future[Revision]] = []
        """Who waits for a head that is read after now."""
        self._history = HistorySize(shared)
        self._life: asyncio.Task[None] | None = None
        self._candidate = LogCandidate(shared, self._turn, clock, entropy, replica=lambda: self._replica)
        self.upkeep: Final = Upkeep(shared, self._turn, clock, fence=self._fence, replica=lambda: self._replica)

    @classmethod
    async def open(cls, shared: Log, place: ReplicaPlace, clock: Clock, entropy: Entropy) -> "ReplicatedMetaStorage":
        """Opens the log, a new one if there is none, and brings the replica to its head. Raises `Indefinite` while the
        store does not answer."""
        replica = await opened(shared, place, clock, entropy)
        self = cls(shared, place, replica, clock, entropy)
        try:
            await self._catch_up()
        except BaseException:
            await self._replica.close()
            raise
        shared.store.stand_by()
        self._life = asyncio.create_task(self._run())  # noqa: TID251 `close` ends it
        return self

    # ------------------------------------------------------------ requests

    @property
    def is_nearly_full(self) -> bool:
        """As `MetaStorage.is_nearly_full`; only the coordinator that leads knows it."""
        return self.upkeep.room is Room.NEARLY_FULL

    @property
    def member(self) -> str:
        """As `MetaStorage.member`."""
        return self._log.store.member

    @property
    def warnings(self) -> tuple[str, ...]:
        """As `MetaStorage.warnings`."""
        return self.upkeep.warnings

    @property
    def seen_leader(self) -> LeaderRecord | None:
        """As `MetaStorage.seen_leader`."""
        return self._candidate.seen_leader

    @property
    def obstacle(self) -> LeaseholdError | None:
        """As `MetaStorage.obstacle`."""
        return self._candidate.obstacle

    async def txn(self, txn: Txn) -> TxnResult:
        """As `MetaStorage.txn`. Raises `Indefinite` only if the leadership ends before it is known what happened."""
        check_txn(txn)
        return await self._submit(txn, None)

    async def compact(self, before: Revision, fence: tuple[Compare, ...] = ()) -> None:
        """As `MetaStorage.compact`; an entry of the log, so MM is one for all replicas."""
        async with self.upkeep.reading:
            await self._submit(Txn(compares=fence), before)

    async def get(self, key: bytes, revision: Revision | None = None) -> KeyValue | None:
        return await (await self._standing()).get(key, revision)

    async def range(self, start: bytes, end: bytes, *, revision: Revision | None = None, limit: int) -> Page:
        return await (await self._standing()).range(start, end, revision=revision, limit=limit)

    def watch(self, start: bytes, end: bytes, from_revision: Revision) -> AsyncGenerator[RevisionChanges, None]:
        return self._replica.watch(start, end, from_revision)

    async def status(self) -> StorageStatus:
        return await (await self._standing()).status()

    async def history_bytes(self) -> int:
        """As `MetaStorage.history_bytes`, of the log."""
        return await self._history.size_bytes((await self.status()).minimum, self._replica.position)

    async def leader(self) -> LeaderRecord | None:
        self._check_open()
        standing = await self._log.leader()
        return None if standing is None else standing.record

    async def confirm(self) -> Revision:
        """As `MetaStorage.confirm`: brings the replica to a head that is read after this call. All that wait share one
        reading. In a log, whatever takes a revision writes the lineage."""
        self._check_open()
        answer: asyncio.Future[Revision] = asyncio.get_running_loop().create_future()
        self._asked.append(answer)
        self._woken.set()
        return await answer

    async def campaign(self, candidate: str) -> Leadership:
        """As `MetaStorage.campaign`: waits until `candidate` leads, then reads the log to its head."""
        self._check_open()
        self._head_watch.begin()
        leadership = await self._unless_closed(self._candidate.win(candidate))
        try:
            # Not here: `_follow` finishes what it does to the replica, also if this call is cancelled.
            await until_answered(
                self.confirm, lasts=lambda: not self._is_closed and leadership.leads(), clock=self._clock
            )
        except BaseException:
            await leadership.resign()  # so that nobody waits for the end of a term that nobody serves
            raise
        self._leadership = leadership
        self._head_watch.end()
        return leadership

    async def close(self) -> None:
        """As `MetaStorage.close`; what still waits gets `Indefinite`."""
        self._end()
        assert self._life is not None
        self._life.cancel()
        await asyncio.wait({self._life})
        await self._replica.close()
        await self._log.store.close()

    # ------------------------------------------------------------ writing

    async def _submit(self, txn: Txn, before: Revision | None) -> TxnResult:
        self._check_open()
        return await self._commands.put(txn, before)

    async def _write(self) -> None:
        while True:
            batch = await self._commands.next_batch()
            try:
                async with self._turn:
                    await self._do(batch)
            except LeaseholdError as error:
                fail([command.answer for command in batch], error)
                if isinstance(error, Corrupt | StoreSetBack | MetaMoved):
                    raise
            finally:
                fail([command.answer for command in batch], self._unanswered())

    async def _do(self, batch: list[LogCommand]) -> None:
        """Decides, appends, applies and answers a batch; decides it anew if another was faster."""
        while True:
            fence = self._fence()
            head = self._head
            if head is None or fence is None:
                # Who does not lead can't know that nothing was appended since.
                head = await self._patiently(fence, self._catch_up)
            term = Term(0) if fence is None else fence.term
            results, body = await self._decided(batch, term)
            if body is None:
                break
            assert head.position == self._replica.position, "it is decided on the state at the head"
            entry = draft(head.position, EntryId(self._entropy.hex_128()), term, body)
            self._head = None
            lasts = partial(self._lasts, fence)
            outcome = await append_surely(self._log, entry, head, fence, lasts=lasts, clock=self._clock)
            if outcome.happened:
                await self._apply(fence, entry.position, body, outcome.head)
                break
            await self._note_term(fence)
        for command, result in zip(batch, results, strict=True):
            if not command.answer.done():
                command.answer.set_result(result)

    async def _apply(self, fence: LogFence | None, position: LogPosition, body: LogBody, head: LogHead | None) -> None:
        """Applies what is in the log: the entry itself if it is the `head`, else all up to the head. So whatever
        prevents that, it has happened."""
        try:
            if head is None:
                await self._patiently(fence, self._catch_up)
            else:
                await self._replica.apply(position, [body])
                self._head = head
        except Definite as error:
            raise Indefinite(f"it is in the log, but not in the replica: {error.text}", hint=error.hint) from error

    async def _decided(self, batch: list[LogCommand], term: Term) -> tuple[list[TxnResult], LogBody | None]:
        """What each command answers, and the body of the entry that it needs, if any."""
        before = batch[0].before
        if before is None:
            results, transactions = await self._replica.draft([command.txn for command in batch], term)
            return results, LogBody(transactions=transactions) if transactions else None
        check_fence(batch[0].txn.compares, term)
        newest, minimum = self._replica.position.revision, (await self._replica.status()).minimum
        if before > newest:
            raise FutureRevision(f"can't compact up to {before}: the newest revision is {newest}")
        if before < minimum:
            raise Compacted(minimum)
        result = TxnResult(succeeded=True, revision=newest)
        return [result], LogBody(minimum=before) if before > minimum else None

    def _fence(self) -> LogFence | None:
        """That of this coordinator's term, while it lasts."""
        leadership = self._leadership
        return leadership.log_fence if leadership is not None and leadership.leads() else None

    def _lasts(self, fence: LogFence | None) -> bool:
        """Whether a request under this fence may still be asked about."""
        return not self._is_closed and (fence is None or self._fence() == fence)

    async def _note_term(self, fence: LogFence | None) -> None:
        """After an append that did not happen: ends the leadership if another term has begun."""
        if fence is None:
            return
        with contextlib.suppress(Indefinite):  # it has ended by itself
            newest = await self._patiently(fence, self._log.term)
            if newest != fence and self._leadership is not None and self._fence() == fence:
                self._leadership.end()

    async def _patiently(self, fence: LogFence | None, ask: Callable[[], Awaitable[T]]) -> T:
        """Asks until there is an answer. Raises `Indefinite` once the leadership has ended, at once without one."""
        return await until_answered(ask, lasts=lambda: fence is not None and self._lasts(fence), clock=self._clock)

    # ------------------------------------------------------------ following

    async def _follow(self) -> None:
        while True:
            await until_set_or_due(self._woken, self._clock.now_ns() + LOG_HEAD_POLL_NS, self._clock)
            self._woken.clear()
            asked, self._asked = self._asked, []
            try:
                revision = await self._confirmed()
            except Indefinite as error:
                fail(asked, error)
                self._old_heads.met(error, self._replica.position)
            else:
                self._old_heads.end()
                for answer in asked:
                    if not answer.done():
                        answer.set_result(revision)
            finally:
                fail(asked, self._unanswered())

    async def _confirmed(self) -> Revision:
        async with self._turn:
            with self._declines.for_now():
                return (await self._catch_up()).position.revision

    async def _catch_up(self) -> LogHead:
        """Reads the head, and applies the entries up to it. The caller has the turn."""
        self._head = None
        head = await self._log.head()
        progress = Progress(self._clock, "entries of the log that the replica has applied")
        while self._replica.position != head.position:
            try:
                await apply_until(self._log, self._replica, head.position, progress)
            except (DoesNotFollow, Trimmed) as error:
                with contextlib.suppress(Trimmed):
                    await check_reached(self._log, self._replica.position, self._clock)
                await self._build_anew(error)
                head = await self._log.head()
        self._head, self._built_from = head, None
        self._stands.set()
        return head

    async def _build_anew(self, error: Definite) -> None:
        newest = await self._log.checkpoint()
        begins = BEGINNING if newest is None else newest.checkpoint.position
        if self._built_from == begins:
            raise Corrupt(
                f"the log does not fit its own checkpoint: {error.text}", hint="restore the store from a backup"
            ) from error
        self._built_from = begins
        log.warning("the replica is built anew: %s", error)
        self._stands.clear()
        before = await followed(self._replica)
        await self._replica.close()

        async def build() -> Replica:
            with self._declines.for_now():
                return await built(self._log, self._place, self._clock, self._replica.log_id, before)

        self._replica = await until_answered(build, lasts=lambda: not self._is_closed, clock=self._clock)

    # ------------------------------------------------------------ life

    async def _run(self) -> None:
        """Until cancelled, or until an error that no retry cures ends the storage."""
        try:
            async with asyncio.TaskGroup() as group:
                for work in (self._write, self._follow, self._head_watch.run, self._candidate.follow, self.upkeep.run):
                    group.create_task(work())
        except* Exception as errors:
            cause = gravest(errors)
            self._cause = cause if isinstance(cause, LeaseholdError) else Indefinite(f"{type(cause).__name__}: {cause}")
            log.error("the meta storage has failed: %s", cause, exc_info=None if cause is self._cause else cause)
        finally:
            self._end()

    def _end(self) -> None:
        """Answers all that wait; idempotent."""
        self._is_closed = True
        self._commands.fail(self._unanswered())
        fail(self._asked, self._unanswered())
        self._waiting.end()

    async def _standing(self) -> Replica:
        """The replica to read. One that is being built is waited for: its readers would take it for closed."""
        self._check_open()
        if not self._stands.is_set():
            await self._unless_closed(self._stands.wait())
        return self._replica

    async def _unless_closed(self, work: Awaitable[T]) -> T:
        """Awaits what may take long; raises `Indefinite` as soon as the storage ends."""
        try:
            async with self._waiting.wait():
                return await work
        except TimeoutError as error:
            raise self._unanswered() from error

    def _check_open(self) -> None:
        if self._is_closed:
            raise closed("the meta storage", self._cause)

    def _unanswered(self) -> Indefinite:
        return unanswered("the meta storage", self._cause)
