"""The writer: the one place from which a leader changes the meta storage.

Commands are decided one after the other, each on the catalog that the ones before it make. All that wait are joined in
one transaction: one revision, one lineage, one sync to disk. Every transaction compares the leader's term and the
lineage before it, so it takes effect only on the state that it was decided on.
"""

import asyncio
import copy
from collections.abc import Callable, Collection, Iterator

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words import keys
from leasehold.core.words.commit_times import COMMIT_TIME_BYTES, decode_commit_time, encode_commit_time
from leasehold.core.words.lineage import GENESIS, next_lineage
from leasehold.core.words.operations import Change, Missing, RevisionChanges, Txn, ValueIs
from leasehold.core.words.records import NodeRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite, Indefinite, LeaseholdError, NotLeader, Refused
from leasehold.ids import Revision
from leasehold.limits.messages import VALUE_BYTES_MAX
from leasehold.limits.metastorage import CHANGE_FRAMING_BYTES, TRANSACTION_BYTES_MAX, TRANSACTION_OPERATIONS_MAX
from leasehold.limits.requests import COMMAND_QUEUE_MAX, COMMANDS_PER_TRANSACTION_MAX, COMMANDS_TURN_NS
from leasehold.metastorage.contract import Leadership, LeadershipLost, MetaStorage
from leasehold.metastorage.transaction import bytes_of_changes

Decide = Callable[[Catalog], tuple[Change, ...]]
"""Returns what to change in the catalog; raises a `Definite` error to refuse. May be called more than once."""

STORE_DECLINES = frozenset({ErrorCode.DISK_FULL, ErrorCode.STORE_FULL, ErrorCode.BUSY, ErrorCode.CLOSED})
"""Codes with which a meta storage declines any transaction, whatever is in it."""

OWN_BYTES = len(keys.LINEAGE) + len(GENESIS) + len(keys.COMMIT_TIME) + COMMIT_TIME_BYTES + 2 * CHANGE_FRAMING_BYTES
"""What the writer itself adds to each transaction: the lineage and the commit time."""
CHANGES_MAX = TRANSACTION_OPERATIONS_MAX - 2
"""Of commands in one transaction."""


class StoreDeclined(Refused):
    """The meta storage declined a transaction, with its own code, text and hint; nothing happened."""


class _Command(msgspec.Struct):
    decide: Decide
    answer: "asyncio.Future[Revision]"


class Writer:
    """Owns the leader's catalog. `on_commit` sees each revision once, in order, before its command is answered;
    `wall_us` reads the believed wall clock."""

    def __init__(
        self,
        storage: MetaStorage,
        leadership: Leadership,
        catalog: Catalog,
        on_commit: Callable[[RevisionChanges, Catalog], None],
        now_ns: Callable[[], int],
        wall_us: Callable[[], int],
    ) -> None:
        self._storage = storage
        self._leadership = leadership
        self._now_ns = now_ns
        self._wall_us = wall_us
        self._earliest_us = 0
        """The earliest commit time that the next transaction may get."""
        self._catalog = catalog
        self._on_commit = on_commit
        self._commands: asyncio.Queue[_Command] = asyncio.Queue(COMMAND_QUEUE_MAX)
        self._carried: _Command | None = None
        self._drafted: dict[bytes, Change] = {}
        self._ended = False
        self._known = asyncio.Event()
        """Set unless a transaction is under way, which followers may show before this leader knows of it."""
        self._known.set()

    @property
    def catalog(self) -> Catalog:
        """As of the newest durable revision."""
        return self._catalog

    @property
    def drafted(self) -> Collection[bytes]:
        """While a command is decided: the keys in which the catalog that it gets differs from `catalog`."""
        return self._drafted.keys()

    def check_room(self) -> None:
        """Raises `Refused` with code STORE_NEARLY_FULL while nothing may grow."""
        if self._storage.is_nearly_full:
            raise Refused(
                "the store of the meta storage is nearly full, so what needs more space is refused",
                code=ErrorCode.STORE_NEARLY_FULL,
                hint="drop tables, lower retention_bytes, or raise the quota of the store",
            )

    def commit_time_us(self) -> int:
        """The commit time of a transaction that begins now. It never decreases, whatever the wall clock does."""
        self._earliest_us = max(self._earliest_us, self._wall_us())
        return self._earliest_us

    async def revision_until(self, time_us: int) -> Revision:
        """The newest revision, once all transactions that may have a commit time up to `time_us` are in it: later ones
        get a later time. Raises as `submit`."""
        self._earliest_us = max(self._earliest_us, time_us + 1)
        return await self.submit(lambda _: ())

    async def settled(self) -> None:
        """Returns once `catalog` shows whatever a follower showed before this call. Raises `NotLeader`."""
        if self._leadership.deadline_ns() is None:
            return  # there are no followers
        await self._known.wait()
        if self._ended:
            raise NotLeader("this coordinator has just ceased to lead", hint="ask another coordinator")

    async def submit(self, decide: Decide) -> Revision:
        """Runs a command; returns the revision at which it is durable, the present one if it changed nothing. Waits
        while the queue is full. Raises what `decide` raises, `StoreDeclined`, `Indefinite` if the leader ends first."""
        answer: asyncio.Future[Revision] = asyncio.get_running_loop().create_future()
        if not self._ended:
            await self._commands.put(_Command(decide, answer))
        if self._ended and not answer.done():  # `run` takes nothing from the queue any more
            raise _stopped()
        try:
            return await answer
        finally:
            # An error that it holds has this frame in its traceback: a circle, which would keep a large request.
            del answer, decide

    async def run(self) -> None:
        """Writes until cancelled. Raises `LeadershipLost`, or `Indefinite` if it can't know whether it wrote."""
        batch: list[_Command] = []
        try:
            await self._read_commit_time()
            while True:
                batch = [self._carried or await self._commands.get()]
                self._carried = None
                await self._write(batch)
        finally:
            self._ended = True
            self._known.set()
            waiting = [*batch, *([self._carried] if self._carried else [])]
            while not self._commands.empty():
                waiting.append(self._commands.get_nowait())
            for command in waiting:
                if not command.answer.done():
                    command.answer.set_exception(_stopped())
                    command.answer.exception()  # nobody may be left to ask for it

    async def _read_commit_time(self) -> None:
        """Continues the commit times of earlier leaders."""
        found = await self._storage.get(keys.COMMIT_TIME)
        if found is not None:
            self._earliest_us = max(self._earliest_us, decode_commit_time(found.value))

    async def _write(self, batch: list[_Command]) -> None:
        # After the command was taken from the queue: one that changes nothing is answered without a transaction.
        ends_ns = self._leadership.deadline_ns()
        if ends_ns is not None and self._now_ns() >= ends_ns:
            raise LeadershipLost(
                "this leadership has ended", hint="ask again: another coordinator leads, or will lead soon"
            )
        draft = self._catalog
        merged = self._drafted = {}
        size = OWN_BYTES
        accepted: list[_Command] = []
        refused: list[tuple[_Command, LeaseholdError]] = []
        command, until_ns = batch[0], self._now_ns() + COMMANDS_TURN_NS
        while True:
            changes = self._decide(command, draft, refused)
            if changes is not None:
                if not _fits(merged, changes) or size + bytes_of_changes(changes) > TRANSACTION_BYTES_MAX:
                    self._carried = command
                    break
                size += bytes_of_changes(changes)
                merged.update((change.key, change) for change in changes)
                draft = draft.changed(changes)
                accepted.append(command)
            if len(batch) == COMMANDS_PER_TRANSACTION_MAX or self._commands.empty() or self._now_ns() >= until_ns:
                break
            command = self._commands.get_nowait()
            batch.append(command)
        if merged:
            self._known.clear()
            try:
                await self._commit(tuple(merged[key] for key in sorted(merged)), draft)
            except LeadershipLost:
                raise
            except Definite as error:  # a full disk: nothing happened, and the leader goes on granting leases
                declined = StoreDeclined(error.text, code=error.code, hint=error.hint)
                # A refusal was decided on changes that did not happen, so it does not count.
                _decline([(one, declined) for one in (*accepted, *(command for command, _ in refused))])
                self._known.set()
                return
            self._known.set()
        else:
            await asyncio.sleep(0)  # others have their turn, however many commands there are to refuse
        _decline(refused)
        for one in accepted:
            if not one.answer.done():
                one.answer.set_result(self._catalog.revision)

    def _decide(
        self, command: _Command, draft: Catalog, refused: list[tuple[_Command, LeaseholdError]]
    ) -> tuple[Change, ...] | None:
        if command.answer.done():  # its caller was cancelled before: nothing happened
            return None
        try:
            changes = command.decide(draft)
            check_size(changes)
        except LeaseholdError as error:
            # A copy has no traceback, whose frames hold the command and this list: a circle too.
            refused.append((command, copy.copy(error)))
            return None
        return changes

    async def _commit(self, changes: tuple[Change, ...], draft: Catalog) -> None:
        before = self._catalog
        lineage = next_lineage(before.lineage, changes)
        previous = Missing(keys.LINEAGE) if before.lineage == GENESIS else ValueIs(keys.LINEAGE, before.lineage)
        watched = (*changes, Change(keys.LINEAGE, lineage))
        whole = (*watched, Change(keys.COMMIT_TIME, encode_commit_time(self.commit_time_us())))
        result = await self._storage.txn(Txn(compares=(*self._leadership.fence(), previous), then=whole))
        if not result.succeeded:
            raise LeadershipLost(
                "another coordinator leads", hint="this coordinator ends; restart it to put it on standby"
            )
        self._catalog = msgspec.structs.replace(draft, revision=result.revision, lineage=lineage)
        ordered = tuple(sorted(watched, key=lambda one: one.key))
        self._on_commit(RevisionChanges(result.revision, ordered), self._catalog)


def _decline(commands: list[tuple[_Command, LeaseholdError]]) -> None:
    for command, error in commands:
        if not command.answer.done():
            # A copy for each, since raising an error writes the traceback into it.
            command.answer.set_exception(copy.copy(error))


def check_size(changes: tuple[Change, ...]) -> None:
    """Refuses what the meta storage would refuse: that would end this leader, and all commands with it."""
    largest = max((len(change.value) for change in changes if change.value is not None), default=0)
    if len(changes) > CHANGES_MAX:
        text = f"it would change {len(changes)} records at once"
    elif largest > VALUE_BYTES_MAX:
        text = f"it would write a record of {largest} bytes, over {VALUE_BYTES_MAX}"
    elif OWN_BYTES + bytes_of_changes(changes) > TRANSACTION_BYTES_MAX:
        text = f"it would write {bytes_of_changes(changes)} bytes at once, over {TRANSACTION_BYTES_MAX}"
    else:
        return
    raise Refused(text, code=ErrorCode.TOO_LARGE, hint="split it into smaller parts")


def _stopped() -> Indefinite:
    return Indefinite("the coordinator stopped before it answered", hint="ask again with the same id")


def _fits(merged: dict[bytes, Change], changes: tuple[Change, ...]) -> bool:
    """Whether `changes` can join the transaction. A key that is put and then deleted in one transaction would leave no
    trace, and the lineage needs one change per key."""
    if len(merged) + len(changes) > CHANGES_MAX:
        return False
    return not any(change.value is None and change.key in merged for change in changes)


def changed_nodes(batch: RevisionChanges, catalog: Catalog) -> Iterator[NodeRecord]:
    """The nodes whose records a revision has changed; `catalog` is that of the revision."""
    for change in batch.changes:
        if change.key.startswith(keys.NODES):
            yield catalog.nodes[keys.node_of(change.key)]
