"""A Spark-like writer: tasks stage the rows of one write transaction in parallel, then the driver commits it.

Each task sends its rows by the steps of `core/data/row_sender.py`. A row is its id, and its bucket is its id modulo the
number of buckets. This file decides which writes there are, and how they end. Some replace rows, in the steps of
`client/overwrite.py`: all rows of a table, or those in a range of ids that holds the new ones.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, suppress
from enum import Enum
from functools import partial
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Final, NoReturn

import msgspec

from leasehold.core.data.asking import Asking
from leasehold.core.data.places import Places
from leasehold.core.data.reader import ReaderPorts
from leasehold.core.data.replacement import Overwrite, begun_by, conflict, replaced_by, still_there
from leasehold.core.data.row_sender import RowSender, SenderPorts
from leasehold.core.membership.identity import node_login
from leasehold.core.words.messages import (
    AbortTransaction,
    AskTable,
    CommitTransaction,
    Filter,
    Follow,
    OpenTransaction,
    PlanScan,
    ScanPlan,
    StagedSegment,
    StreamBatch,
    TableFacts,
    TransactionFacts,
)
from leasehold.core.words.records import TransactionState
from leasehold.core.words.statements import Literal
from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, LeaseholdError, Unreachable
from leasehold.ids import BucketNumber, ObjectId, Revision, SegmentId, TransactionId
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.coordinator_calls import Account, coordinator_client
from leasehold.testing.readers import batches_of
from leasehold.testing.replicas import ReplicaBatch, SimulatedReplicas
from leasehold.testing.rows import INTEGERS, RowId, is_within, named_rows
from leasehold.testing.steps import TaskRuntime
from leasehold.testing.write_news import Wrote
from leasehold.wire.ports import Clock, Entropy, Transport

BATCH_ROWS: Final = 4
"""Rows in one message to a replica."""
ROWS_KNOWN_MAX: Final = 40
"""So many of its rows a writer remembers of each table."""
EVERYWHERE: Final = (1, 2)
"""The fields that a table is made with: each segment has them, unless they were dropped."""
ABORT_NS: Final = 10 * SECOND_NS
"""For how long a refused write is aborted."""


class WriteFate(Enum):
    """The fate of a write, as far as its client knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """None of its rows is ever visible."""
    UNKNOWN = "unknown"
    """The client asked for the commit and never heard: all of its rows, or none."""
    DIED = "died"
    """The driver died before it asked for the commit: none of its rows is ever visible."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A write transaction as its client knows it. If it is committed, then at `revision` or before."""

    transaction: TransactionId
    table: ObjectId
    name: str
    rows: tuple[RowId, ...]
    fate: WriteFate
    revision: Revision | None = None
    error: str | None = None


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """The habits of a writer: upper bounds, and probabilities from 0 to 1."""

    rows_max: int = 24
    tasks_max: int = 3
    pause_max_ns: int = 500 * MILLISECOND_NS
    """Between two writes, and before a task begins."""
    dies: float = 0.05
    """Its driver dies before the commit."""
    doubles: float = 0.1
    """A task is attempted twice at once; the loser goes on after the commit, if it takes that long."""
    overwrites: float = 0.0
    """A write replaces rows."""
    takes_all: float = 0.3
    """A write that replaces rows replaces all rows of the table."""


class SimulatedWriter:
    """One client that writes. `rows` gives the ids of new rows; writers that share it write different rows.

    `on_commit` gets a transaction and its rows before its first commit request, `on_written` gets how it ended, if it
    was opened. Losing attempts go on in `group`.
    """

    def __init__(
        self,
        *,
        transport: Transport,
        coordinators: Sequence[str],
        clock: Clock,
        entropy: Entropy,
        random: Random,
        rows: Iterator[int],
        group: asyncio.TaskGroup,
        habits: Habits | None = None,
        account: Account | None = None,
        on_commit: Callable[[Wrote], None] = lambda _: None,
        on_written: Callable[[Written], None] = lambda _: None,
    ) -> None:
        self._transport = transport
        self._runtime = TaskRuntime(clock, group)
        self._client = coordinator_client(transport, coordinators, self._runtime, account)
        self._ports = ReaderPorts(self._runtime, SimulatedReplicas(transport), entropy.hex_128)
        self._clock = clock
        self._entropy = entropy
        self._random = random
        self._rows = rows
        self._group = group
        self._habits = habits or Habits()
        self._on_commit = on_commit
        self._on_written = on_written
        self._wrote: dict[str, tuple[RowId, ...]] = {}
        """By the name of the table."""
        self._placed: dict[SegmentId, Counter[str]] = {}
        """What was put into each segment."""

    async def run(self, tables: Sequence[str]) -> NoReturn:
        """Writes to random `tables`, until cancelled."""
        while True:
            await self.pause()
            for name in self._random.sample(tables, len(tables)):
                count = self._random.randint(0, self._habits.rows_max)
                write = self.overwrite if self._random.random() < self._habits.overwrites else self.write
                try:
                    await write(name, count)
                except LeaseholdError as error:  # not even opened: nobody answers, or he may not
                    if error.code == ErrorCode.NOT_FOUND:
                        continue  # on to one that is there
                break

    async def write(self, name: str, count: int) -> Written:
        """Appends `count` new rows to a table; returns how that ended. Raises what prevents the opening."""
        return await self.write_rows(name, self.new_rows(count))

    async def write_rows(self, name: str, rows: tuple[RowId, ...], batch: StreamBatch | None = None) -> Written:
        """Appends these rows, as a batch of a streaming query if one is given. As `write`."""
        facts = await self._client.look_up(AskTable(cluster_id=None, name=name), TableFacts, Asking())
        return await self._write(facts, rows, None, batch)

    async def overwrite(self, name: str, count: int) -> Written:
        """Writes `count` new rows in place of all rows of a table, or of those in a range; returns how that ended.
        Raises what prevents the opening."""
        facts = await self._client.look_up(AskTable(cluster_id=None, name=name), TableFacts, Asking())
        rows = self.new_rows(count)
        columns = [one.name for one in facts.fields if one.id in EVERYWHERE and one.type in INTEGERS]
        takes_all = not rows or not columns or self._random.random() < self._habits.takes_all
        where: tuple[Filter, ...] = ()
        if not takes_all:  # from one of its own rows on, whose segment may have earlier ones
            low = self._random.choice((*self._wrote.get(name, ()), rows[0]))
            where = _range(self._random.choice(columns), low, rows[-1])
        plan = await self._planned(name, where)
        if any(one.field.id not in EVERYWHERE for one in plan.where):
            raise conflict(name, "columns were renamed")
        return await self._write(plan.facts, rows, begun_by(plan, where))

    async def _write(
        self, facts: TableFacts, rows: tuple[RowId, ...], begun: Overwrite | None, batch: StreamBatch | None = None
    ) -> Written:
        opened = await self._opened(facts)
        transaction = opened.transaction
        written = Written(transaction=transaction, table=facts.table, name=facts.name, rows=rows, fate=WriteFate.DIED)
        request = CommitTransaction(cluster_id=facts.cluster_id, transaction=transaction, segments=(), batch=batch)
        try:
            segments = await self._stage_all(facts, transaction, opened.revision, rows)
            if begun is not None:
                request = await self._prepared(begun, facts, request, opened.revision)
        except LeaseholdError as error:
            written = msgspec.structs.replace(written, fate=WriteFate.ABORTED, error=error.code)
            with suppress(LeaseholdError):  # as a courtesy: what is not aborted expires by itself
                abort = AbortTransaction(cluster_id=facts.cluster_id, transaction=transaction)
                await self._client.ask_once(abort, TransactionFacts)
        else:
            if self._random.random() >= self._habits.dies:
                kept = sum(one.rows for one in request.segments)
                request = msgspec.structs.replace(
                    request, segments=(*segments, *request.segments), kept=len(request.segments)
                )
                self._on_commit(
                    Wrote(
                        transaction=transaction,
                        table=facts.table,
                        rows=named_rows(rows),
                        segments={one.id: self._placed[one.id] for one in request.segments if one.id in self._placed},
                        where=request.covers,
                        replaces=frozenset(one.segment for one in request.replaces),
                        kept=kept,
                        batch=batch,
                    )
                )
                written = await self._commit(facts, written, request)
                self._wrote[facts.name] = (*self._wrote.get(facts.name, ()), *rows)[-ROWS_KNOWN_MAX:]
        self._on_written(written)
        return written

    async def resolve(self, written: Written, *, patience_ns: int = 60 * SECOND_NS) -> Written:
        """Finds out the fate of an unknown write, by aborting it unless it is committed. Raises `OutcomeUnknown`."""
        facts = await self._client.look_up(AskTable(cluster_id=None, name=written.name), TableFacts, Asking())
        answer = await self._abort(facts, written.transaction, Asking(patience_ns))
        return written if answer is None else _ended(written, answer)

    # ------------------------------------------------------------ the driver

    def new_rows(self, count: int) -> tuple[RowId, ...]:
        """Rows that no writer has written."""
        return tuple(RowId(next(self._rows)) for _ in range(count))

    async def _opened(self, facts: TableFacts) -> TransactionFacts:
        """A new write transaction on a table."""
        request = OpenTransaction(
            cluster_id=facts.cluster_id,
            transaction=TransactionId(self._entropy.hex_128()),
            table=facts.table,
            schema_version=facts.schema_version,
            generation=facts.generation,
        )
        return await self._client.resolve(request, Asking())

    async def _planned(self, name: str, where: tuple[Filter, ...], since: Follow | None = None) -> ScanPlan:
        request = PlanScan(cluster_id=None, name=name, columns=None, where=where, replaces=True, follows=since)
        return await self._client.look_up(request, ScanPlan, Asking())

    async def _prepared(
        self, begun: Overwrite, facts: TableFacts, request: CommitTransaction, revision: Revision
    ) -> CommitTransaction:
        """Stages the rows that are kept, once the new ones are; they are the segments of the answer."""
        plan = still_there(begun, await self._planned(facts.name, begun.where, begun.since), facts)
        kept: list[RowId] = []
        async with aclosing(batches_of(msgspec.structs.replace(plan, where=()), self._client, self._ports)) as found:
            async for batch, _ in found:
                kept.extend(row for row in batch.rows if not is_within(row, plan.where))
        newest = max(revision, plan.facts.revision)
        return msgspec.structs.replace(
            request,
            segments=await self._stage_all(plan.facts, request.transaction, newest, tuple(kept)),
            replaces=replaced_by(plan),
            deletes=plan.deletes,
            covers=plan.where,
        )

    async def _commit(self, facts: TableFacts, written: Written, request: CommitTransaction) -> Written:
        try:
            return _ended(written, await self._client.resolve(request, Asking()))
        except Unreachable as error:  # no coordinator has taken it
            return msgspec.structs.replace(written, fate=WriteFate.ABORTED, error=error.code)
        except Indefinite as error:
            return msgspec.structs.replace(written, fate=WriteFate.UNKNOWN, error=error.code)
        except LeaseholdError as error:
            # As Spark does: whatever was refused is aborted, and the answer says what it was in truth.
            answer = await self._abort(facts, written.transaction, Asking(ABORT_NS))
            if answer is None:
                return msgspec.structs.replace(written, fate=WriteFate.UNKNOWN, error=error.code)
            return msgspec.structs.replace(_ended(written, answer), error=error.code)

    async def _abort(self, facts: TableFacts, transaction: TransactionId, asking: Asking) -> TransactionFacts | None:
        request = AbortTransaction(cluster_id=facts.cluster_id, transaction=transaction)
        try:
            return await self._client.resolve(request, asking)
        except LeaseholdError:
            return None

    async def _stage_all(
        self, facts: TableFacts, transaction: TransactionId, revision: Revision, rows: tuple[RowId, ...]
    ) -> tuple[StagedSegment, ...]:
        """Divides the rows among tasks and each task's rows among buckets; what to commit."""
        tasks = self._random.randint(1, self._habits.tasks_max)
        work: list[list[asyncio.Task[Attempted]]] = []
        for number in range(tasks):
            shares = _by_bucket(rows[number::tasks], len(facts.buckets))
            attempts = 2 if self._random.random() < self._habits.doubles else 1
            work.append(
                [
                    self._group.create_task(self._attempt(_Task(facts, transaction, revision, shares)))
                    for _ in range(attempts)
                ]
            )
        try:
            return tuple([segment for attempts in work for segment in await _first(attempts)])
        except LeaseholdError:
            for attempt in (one for attempts in work for one in attempts):
                attempt.cancel()
            raise

    async def pause(self) -> None:
        """As long as its habits say."""
        await self._clock.sleep_until(self._clock.now_ns() + self._random.randint(0, self._habits.pause_max_ns))

    # ------------------------------------------------------------ a task

    async def _attempt(self, task: "_Task") -> "Attempted":
        """One attempt of a task: a segment for each bucket that it has rows for, or why not."""
        look_up = partial(self._client.look_again, task.facts)
        sender = RowSender(
            task.facts,
            task.transaction,
            task.revision,
            Places(task.facts, look_up, runtime=self._runtime, known=self._client.known),
            SenderPorts(self._runtime, SimulatedReplicas(self._transport, task.columns), self._entropy.hex_128),
            login=node_login(self._client.calls.token),
            asking=Asking(),
        )
        await self.pause()
        try:
            sender.start(task.shares)
            await sender.sent()
        except LeaseholdError as error:
            return error
        finally:
            sender.stop()
        rows = (named_rows(row for batch in batches for row in batch.rows) for _, batches in task.shares)
        self._placed.update(zip((one.id for one in sender.staged), rows, strict=False))
        return sender.staged


Attempted = tuple[StagedSegment, ...] | LeaseholdError


class _Task(msgspec.Struct, frozen=True):
    """What one task of a write is given."""

    facts: TableFacts
    transaction: TransactionId
    revision: Revision
    shares: list[tuple[BucketNumber, tuple[ReplicaBatch, ...]]]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns as the driver looked them up."""
        return tuple(field.name for field in self.facts.fields)


def _range(column: str, low: int, high: int) -> tuple[Filter, ...]:
    first, last = ((Literal("number", str(one)),) for one in (low, high))
    return (Filter(column=column, operator=">=", values=first), Filter(column=column, operator="<=", values=last))


def _by_bucket(rows: Sequence[RowId], buckets: int) -> list[tuple[BucketNumber, tuple[ReplicaBatch, ...]]]:
    parted = ((bucket, tuple(row for row in rows if row % buckets == bucket)) for bucket in range(buckets))
    return [(BucketNumber(bucket), _batches(share)) for bucket, share in parted if share]


def _batches(rows: tuple[RowId, ...]) -> tuple[ReplicaBatch, ...]:
    return tuple(ReplicaBatch(rows[start : start + BATCH_ROWS]) for start in range(0, len(rows), BATCH_ROWS))


async def _first(attempts: Sequence["asyncio.Task[Attempted]"]) -> tuple[StagedSegment, ...]:
    """What the first attempt to succeed has staged; raises what the last one failed with."""
    waiting = list(attempts)
    while True:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for attempt in [one for one in waiting if one.done()]:
            waiting.remove(attempt)
            result = attempt.result()
            if not isinstance(result, LeaseholdError):
                return result
            if not waiting:
                raise result


def _ended(written: Written, answer: TransactionFacts) -> Written:
    if answer.state is TransactionState.COMMITTED:
        return msgspec.structs.replace(written, fate=WriteFate.COMMITTED, revision=answer.revision)
    fate = WriteFate.ABORTED if answer.state is TransactionState.ABORTED else WriteFate.UNKNOWN
    return msgspec.structs.replace(written, fate=fate)
