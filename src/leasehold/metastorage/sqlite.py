"""The embedded meta storage: SQLite behind one thread, with group commit.

The event loop puts requests into a bounded queue. The thread takes all that wait, up to COMMANDS_PER_TRANSACTION_MAX,
and makes their transactions durable in one commit, each under its own revision. After that commit, answers and watch
events leave in one call to the loop per group. Requests of a group are concurrent, so its reads and compactions run
after its transactions. A read or compaction whose caller was cancelled before its turn is not run. The thread ends with
`close`, or when the state on disk is unknown; then waiting requests get `Indefinite`.
"""

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

from leasehold.core.words.operations import Compare, KeyValue, Page, RevisionChanges, Txn, TxnResult
from leasehold.core.words.records import LeaderRecord
from leasehold.errors import Definite, LeaseholdError, Refused
from leasehold.ids import Revision
from leasehold.limits.metastorage import COMPACTION_PAUSE_NS, META_STORAGE_BYTES_MAX
from leasehold.limits.requests import COMMAND_QUEUE_MAX, COMMANDS_PER_TRANSACTION_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.causes import busy, closed, unanswered
from leasehold.metastorage.contract import Leadership, StorageStatus
from leasehold.metastorage.database import DATABASE_LIMITS, Database, DatabaseLimits
from leasehold.metastorage.leadership import Succession
from leasehold.metastorage.transaction import check_key, check_limit, check_span, check_txn
from leasehold.metastorage.watch import Fanout, HistoryPart

T = TypeVar("T")
D = TypeVar("D", bound=Database)
FILE_NAME: Final = "meta.db"
"""In a coordinator's directory."""
Say: TypeAlias = Callable[[], None]
"""An answer of the thread, to be given on the loop."""


@dataclass(frozen=True, slots=True, eq=False)
class _Commit:
    """A transaction and who waits for it."""

    txn: Txn
    answer: "asyncio.Future[TxnResult]"

    def failed(self, error: LeaseholdError) -> Say:
        # Each caller gets an error of its own, since raising one writes its traceback into it.
        return partial(_fail, self.answer, type(error)(error.text, code=error.code, hint=error.hint))


@dataclass(frozen=True, slots=True, eq=False)
class _Ask(Generic[T]):
    """Anything else that runs on the database's thread."""

    run: Callable[[Database], T]
    answer: "asyncio.Future[T]"

    def settled(self, database: Database) -> Say:
        return partial(_settle, self.answer, self.run(database))

    def failed(self, error: LeaseholdError) -> Say:
        return partial(_fail, self.answer, error)


_Command: TypeAlias = _Commit | _Ask[Any]


class SqliteMetaStorage:
    """`MetaStorage` in one file. Made by `open`; used on the event loop that opened it."""

    def __init__(self, path: Path, opening: Callable[[], Database], *, pause_ns: int) -> None:
        self._path = path
        self._opening = opening
        self._pause_ns = pause_ns
        self._loop = asyncio.get_running_loop()
        # Bounded by `_waiting`, which only the loop counts: a bounded queue with its lock would cost every request.
        self._queue: queue.SimpleQueue[_Command | None] = queue.SimpleQueue()
        self._waiting = 0
        self._taken: list[_Command | None] = []
        """What the thread took from the queue last; answered but for the part that `_end` finds open."""
        self._resting = False
        self._cause: LeaseholdError | None = None
        self._ending = False
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._fanout = Fanout()
        self._succession = Succession()

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        bytes_max: int = META_STORAGE_BYTES_MAX,
        pause_ns: int = COMPACTION_PAUSE_NS,
        limits: DatabaseLimits = DATABASE_LIMITS,
        kind: type[Database] = Database,
    ) -> "SqliteMetaStorage":
        """Opens the store at `path`, a new one if there is no file, and holds its lock until `close`. While there are
        no requests, compaction rests for `pause_ns` between two slices. Raises as `Database`."""
        self = cls(path, partial(kind, path, bytes_max=bytes_max, limits=limits), pause_ns=pause_ns)
        opened: asyncio.Future[None] = self._loop.create_future()
        # A daemon, so that a process which ends without `close` does not hang; nothing unanswered was promised.
        threading.Thread(target=self._serve, args=(opened,), name="metastorage", daemon=True).start()
        try:
            await opened
        except asyncio.CancelledError:
            await self.close()
            raise
        return self

    @property
    def member(self) -> str:
        """Empty: it is a file."""
        return ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """None: it is a file."""
        return ()

    @property
    def seen_leader(self) -> LeaderRecord | None:
        """None: the process that has the file's lock leads."""
        return None

    @property
    def obstacle(self) -> LeaseholdError | None:
        """None: a file that can't be used ends the process."""
        return None

    @property
    def is_nearly_full(self) -> bool:
        """Never: a full disk is noticed by the commit that finds it full."""
        return False

    async def txn(self, txn: Txn) -> TxnResult:
        """As `MetaStorage.txn`. Raises `Refused` out of bounds, with code DISK_FULL, or BUSY when too many wait."""
        check_txn(txn)
        answer: asyncio.Future[TxnResult] = self._loop.create_future()
        self._put(_Commit(txn, answer))
        return await answer

    async def get(self, key: bytes, revision: Revision | None = None) -> KeyValue | None:
        check_key(key)
        return await self.ask(lambda database: database.get(key, revision))

    async def range(self, start: bytes, end: bytes, *, revision: Revision | None = None, limit: int) -> Page:
        """As `MetaStorage.range`; a page may end before `limit`, at `RANGE_PAGE_BYTES_MAX`."""
        check_span(start, end)
        size = check_limit(limit)
        return await self.ask(lambda database: database.page(start, end, revision, size))

    def watch(self, start: bytes, end: bytes, from_revision: Revision) -> AsyncGenerator[RevisionChanges, None]:
        """As `MetaStorage.watch`. Raises `Indefinite` once the store is closed."""
        check_span(start, end)
        return self._fanout.follow(start, end, from_revision, self._history)

    async def compact(self, before: Revision, fence: tuple[Compare, ...] = ()) -> None:
        """As `MetaStorage.compact`; durable at once, the space is freed bit by bit between transactions."""
        await self.ask(lambda database: database.compact(before, fence))

    async def status(self) -> StorageStatus:
        return await self.ask(lambda database: database.status())

    async def confirm(self) -> Revision:
        """As `MetaStorage.confirm`: nobody else writes the file."""
        return (await self.status()).latest

    async def history_bytes(self) -> int:
        return await self.ask(lambda database: database.history_bytes())

    async def leader(self) -> LeaderRecord | None:
        return await self.ask(lambda database: database.leader())

    async def campaign(self, candidate: str) -> Leadership:
        """As `MetaStorage.campaign`: waits only while another candidate of this process leads."""
        self._check_open()
        return await self._succession.campaign(self, lambda: self.ask(lambda database: database.lead(candidate)))

    async def close(self) -> None:
        """As `MetaStorage.close`; what still waits gets `Indefinite`."""
        if not self._ending:
            self._ending = True
            self._queue.put(None)
        await asyncio.shield(self._ended)

    # ------------------------------------------------------------ on the loop

    async def _history(self, start: bytes, end: bytes, from_revision: Revision) -> HistoryPart:
        if self._ending:
            raise self._unanswered()  # as for a watch that waits, whatever this one was doing
        return await self.ask(lambda database: database.replay(start, end, from_revision))

    async def ask(self, run: Callable[[Database], T]) -> T:
        """Runs something on the database's thread, after the transactions of its group."""
        answer: asyncio.Future[T] = self._loop.create_future()
        self._put(_Ask(run, answer))
        return await answer

    async def ask_of(self, kind: type[D], run: Callable[[D], T]) -> T:
        """As `ask`, of a database that was opened as this kind."""

        def ran(database: Database) -> T:
            assert isinstance(database, kind)
            return run(database)

        return await self.ask(ran)

    def _put(self, command: _Command) -> None:
        self._check_open()
        if self._waiting >= COMMAND_QUEUE_MAX:
            raise busy()
        self._waiting += 1
        self._queue.put(command)

    def _check_open(self) -> None:
        if self._ending:
            raise closed(f"the meta storage {self._path}", self._cause)

    def _deliver(self, sayings: list[Say], batches: list[RevisionChanges]) -> None:
        """All answers of one group, in a single wake-up of the loop."""
        self._waiting -= len(sayings)
        self._fanout.publish(batches)
        for say in sayings:
            say()

    def _end(self) -> None:
        self._ending = True
        while True:
            try:
                self._taken.append(self._queue.get_nowait())
            except queue.Empty:
                break
        for command in self._taken:
            if command is not None:
                command.failed(self._unanswered())()
        self._fanout.close(self._unanswered)
        self._succession.leave(self, self._unanswered)
        if not self._ended.done():
            self._ended.set_result(None)

    def _unanswered(self) -> LeaseholdError:
        return unanswered(f"the meta storage {self._path}", self._cause)

    # ------------------------------------------------------------ on the thread

    def _serve(self, opened: "asyncio.Future[None]") -> None:
        """The life of the database's thread."""
        try:
            try:
                database = self._opening()
            except LeaseholdError as error:
                self._call(partial(_fail, opened, error))
                return
            try:
                self._call(partial(_settle, opened, None))
                while self._step(database):
                    pass
            finally:
                database.close()
        except LeaseholdError as error:
            self._cause = error
        finally:
            self._call(self._end)

    def _step(self, database: Database) -> bool:
        """One group, then a little housekeeping; answers whether to go on."""
        self._taken = self._gather(wait=not database.sweeping or self._resting)
        if self._ending:
            return False
        self._run(database)
        try:
            if self._queue.empty():
                database.fold()
            # A slice even while others wait: under a load that never pauses the file would grow for ever. Reads do not
            # make it grow, so a reader who goes page by page does not wait for slices.
            if self._resting or not self._taken or any(isinstance(command, _Commit) for command in self._taken):
                database.sweep()
                self._resting = False
        except Refused:
            # No space: try again after the next request, which may have been the one that made room.
            self._resting = True
        return True

    def _gather(self, *, wait: bool) -> list[_Command | None]:
        gathered: list[_Command | None] = []
        try:
            gathered.append(self._queue.get(timeout=None if wait else self._pause_ns / SECOND_NS))
            while len(gathered) < COMMANDS_PER_TRANSACTION_MAX:
                gathered.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        return gathered

    def _run(self, database: Database) -> None:
        """Answers what was taken. Raises if what is on disk is not known any more."""
        commits = [command for command in self._taken if isinstance(command, _Commit)]
        if commits:
            try:
                results = database.commit([command.txn for command in commits])
                sayings: list[Say] = [
                    partial(_settle, command.answer, result) for command, result in zip(commits, results, strict=True)
                ]
            except Definite as error:
                sayings = [command.failed(error) for command in commits]
            self._tell(sayings, database)
        sayings = []
        for command in self._taken:
            if isinstance(command, _Ask):
                if command.answer.cancelled():
                    sayings.append(_nothing)  # callers that come and go fill the queue, but take no time
                    continue
                try:
                    sayings.append(command.settled(database))
                except Definite as error:
                    sayings.append(command.failed(error))
        if sayings:
            self._tell(sayings, database)

    def _tell(self, sayings: list[Say], database: Database) -> None:
        self._call(partial(self._deliver, sayings, database.take_committed()))

    def _call(self, say: Say) -> None:
        try:
            self._loop.call_soon_threadsafe(say)
        except RuntimeError:
            # The loop is closed: nobody waits for the answer.
            self._ending = True


def _nothing() -> None:
    """The answer to a caller that was cancelled."""


def _settle(answer: "asyncio.Future[T]", result: T) -> None:
    if not answer.done():  # else its caller was cancelled
        answer.set_result(result)


def _fail(answer: "asyncio.Future[T]", error: LeaseholdError) -> None:
    if not answer.done():
        answer.set_exception(error)
