"""A Spark-like writer: tasks stage the rows of one write transaction in parallel, then the driver commits it.

Where to write, when to try elsewhere and when to ask another replica as well are the rules of `client/append.py`, over
the same `core.data.hedging` and `core.data.places`; what is sent is rows by their ids. A row's bucket is its id modulo
the buckets.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Final, NoReturn, TypeVar, assert_never

import msgspec

from leasehold.client.append import FINAL
from leasehold.core.data.asking import Asking
from leasehold.core.data.hedging import Ask, GiveUp, Hedging, Pause, Wait
from leasehold.core.data.places import Places, silent
from leasehold.core.words.messages import (
    AbortTransaction,
    AskTable,
    CommitTransaction,
    OpenTransaction,
    RowsEnd,
    StagedSegment,
    TableFacts,
    TransactionFacts,
    WriteTicket,
)
from leasehold.core.words.records import TransactionState
from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, LeaseholdError, Refused, Unreachable
from leasehold.ids import BucketNumber, NodeId, ObjectId, Revision, SegmentId, TransactionId
from leasehold.limits.clients import CLIENT_PATIENCE_NS, STAGE_CALL_NS, STAGE_PAUSE_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.coordinator_calls import Account, coordinator_client
from leasehold.testing.rows import RowId, rows_message
from leasehold.testing.steps import TaskRuntime
from leasehold.wire.ports import Clock, Duplex, Entropy, Transport

T = TypeVar("T")

CHUNK_ROWS: Final = 4
"""Rows in one message of a stage."""
ABORT_NS: Final = 10 * SECOND_NS
"""For how long a refused write is aborted."""


class WriteFate(Enum):
    """What a client knows of a write in the end."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """None of its rows is ever visible."""
    UNKNOWN = "unknown"
    """The client asked for the commit and never heard: all of its rows, or none."""
    DIED = "died"
    """The driver died before it asked for the commit: none of its rows is ever visible."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A write transaction as its client knows it. `revision`: committed there or before, if it is."""

    transaction: TransactionId
    table: ObjectId
    name: str
    rows: tuple[RowId, ...]
    fate: WriteFate
    revision: Revision | None = None
    error: str | None = None


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """How a writer works: the most of each, and probabilities from 0 to 1."""

    rows_max: int = 24
    tasks_max: int = 3
    pause_max_ns: int = 500 * MILLISECOND_NS
    """Between two writes, and before a task begins."""
    dies: float = 0.05
    """Its driver dies before the commit."""
    doubles: float = 0.1
    """A task is attempted twice at once; the loser goes on after the commit, if it takes that long."""


class SimulatedWriter:
    """One client that writes. `rows` gives the ids of new rows; writers that share it write different rows.

    `on_commit` is told of a transaction and its rows before its commit is asked for the first time, `on_written` how
    each one ended. Attempts that lost run on in `group`.
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
        on_commit: Callable[[TransactionId, ObjectId, tuple[RowId, ...]], None] = lambda *_: None,
        on_written: Callable[[Written], None] = lambda _: None,
    ) -> None:
        self._transport = transport
        self._runtime = TaskRuntime(clock, group)
        self._client = coordinator_client(transport, coordinators, self._runtime, account)
        self._clock = clock
        self._entropy = entropy
        self._random = random
        self._rows = rows
        self._group = group
        self._habits = habits or Habits()
        self._on_commit = on_commit
        self._on_written = on_written

    async def run(self, tables: Sequence[str]) -> NoReturn:
        """Writes to one of `tables` after the other, as luck has it, until cancelled."""
        while True:
            await self._pause()
            for name in self._random.sample(tables, len(tables)):
                try:
                    await self.write(name, self._random.randint(0, self._habits.rows_max))
                except LeaseholdError as error:  # not even opened: nobody answers, or he may not
                    if error.code == ErrorCode.NOT_FOUND:
                        continue  # on to one that is there
                break

    async def write(self, name: str, count: int) -> Written:
        """Appends so many new rows to a table; how that ended. Raises what stands against opening it."""
        facts = await self._client.look_up(AskTable(cluster_id=None, name=name), TableFacts, Asking())
        transaction = TransactionId(self._entropy.hex_128())
        request = OpenTransaction(
            cluster_id=facts.cluster_id,
            transaction=transaction,
            table=facts.table,
            schema_version=facts.schema_version,
            generation=facts.generation,
        )
        opened = await self._client.resolve(request, Asking())
        rows = tuple(RowId(next(self._rows)) for _ in range(count))
        written = Written(transaction=transaction, table=facts.table, name=name, rows=rows, fate=WriteFate.DIED)
        try:
            segments = await self._stage_all(facts, transaction, opened.revision, rows)
        except LeaseholdError as error:
            written = msgspec.structs.replace(written, fate=WriteFate.ABORTED, error=error.code)
            with suppress(LeaseholdError):  # as a courtesy: what is not aborted expires by itself
                abort = AbortTransaction(cluster_id=facts.cluster_id, transaction=transaction)
                await self._client.ask_once(abort, TransactionFacts)
        else:
            if self._random.random() >= self._habits.dies:
                self._on_commit(transaction, facts.table, rows)
                written = await self._commit(facts, written, segments)
        self._on_written(written)
        return written

    async def resolve(self, written: Written, *, patience_ns: int = 60 * SECOND_NS) -> Written:
        """Learns what became of an unknown one, by aborting it unless it is committed. Raises `OutcomeUnknown`."""
        facts = await self._client.look_up(AskTable(cluster_id=None, name=written.name), TableFacts, Asking())
        answer = await self._abort(facts, written.transaction, Asking(patience_ns))
        return written if answer is None else _ended(written, answer)

    # ------------------------------------------------------------ the driver

    async def _commit(self, facts: TableFacts, written: Written, segments: tuple[StagedSegment, ...]) -> Written:
        request = CommitTransaction(cluster_id=facts.cluster_id, transaction=written.transaction, segments=segments)
        try:
            return _ended(written, await self._client.resolve(request, Asking()))
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

    async def _pause(self) -> None:
        await self._clock.sleep_until(self._clock.now_ns() + self._random.randint(0, self._habits.pause_max_ns))

    # ------------------------------------------------------------ a task

    async def _attempt(self, task: "_Task") -> "Attempted":
        """One attempt of a task: a segment for each bucket that it has rows for, or why not."""
        look_up = partial(self._client.look_again, task.facts)
        places = Places(task.facts, look_up, runtime=self._runtime, known=self._client.known)
        await self._pause()
        try:
            return [await self._stage(task, bucket, share, places) for bucket, share in task.shares]
        except LeaseholdError as error:
            return error

    async def _stage(
        self, task: "_Task", bucket: BucketNumber, share: tuple[RowId, ...], places: Places
    ) -> StagedSegment:
        """Sends the rows to the replicas in turn, to another one as well while one is silent, until one has answered;
        the loop of `client.append`. What was overtaken goes on in the group, as a thread would."""
        sending = _Sending(places, share=f"bucket {bucket} of {task.facts.name}", clock=self._clock)
        asking = Hedging(
            places.in_turn(places.replicas(bucket)), give_up_ns=CLIENT_PATIENCE_NS, pause_ns=STAGE_PAUSE_NS
        )
        writes = places.known.writes
        while True:
            now_ns = self._clock.now_ns()
            step = asking.move(now_ns, delay_ns=writes.delay_ns(), may_hedge=writes.may_hedge)
            match step:
                case Ask(node=node, also=also):
                    writes.asked(also=also)
                    address = places.address(node)
                    if address is None:
                        sending.reasons[node] = Unreachable("nobody knows its address", code=ErrorCode.NO_ADDRESS)
                        asking.failed(node)
                    else:
                        self._group.create_task(self._carry_out(task, node, address, bucket, share, sending))
                case Wait(until_ns=until_ns):
                    await sending.wait(until_ns)
                    staged = sending.take(asking)
                    if staged is not None:
                        return staged
                case Pause(until_ns=until_ns):
                    await self._clock.sleep_until(until_ns)
                    await places.look_again()
                    asking.moved(places.in_turn(places.replicas(bucket)))
                case GiveUp():
                    raise sending.nobody()
                case _:
                    assert_never(step)

    async def _carry_out(
        self,
        task: "_Task",
        node: NodeId,
        address: str,
        bucket: BucketNumber,
        share: tuple[RowId, ...],
        sending: "_Sending",
    ) -> None:
        began_ns = self._clock.now_ns()
        try:
            staged = await self._send(
                task, address, bucket, share, sending.revision, lambda: sending.arrived(node, began_ns, None)
            )
        except LeaseholdError as error:
            sending.arrived(node, began_ns, error)
        else:
            sending.arrived(node, began_ns, staged)

    async def _send(
        self,
        task: "_Task",
        address: str,
        bucket: BucketNumber,
        share: tuple[RowId, ...],
        revision: Revision,
        on_progress: Callable[[], None],
    ) -> StagedSegment:
        ticket = WriteTicket(
            cluster_id=task.facts.cluster_id,
            transaction=task.transaction,
            segment=SegmentId(f"{task.transaction}-{self._entropy.hex_128()}"),
            table=task.facts.table,
            bucket=bucket,
            schema_version=task.facts.schema_version,
            revision=max(task.revision, revision),
            login=self._client.calls.token,
        )
        connection = self._transport.connect(address)
        try:
            async with asyncio.timeout(STAGE_CALL_NS / SECOND_NS):
                staged = await _converse(await connection.session(), ticket, task.columns, share, on_progress)
        except TimeoutError as error:
            raise Unreachable(f"{address}: no answer in time", code=ErrorCode.TIMED_OUT) from error
        finally:
            await connection.close()
        if (staged.id, staged.bucket, staged.rows) != (ticket.segment, bucket, len(share)) or not staged.holders:
            raise Refused(f"{address} answered for other rows than it was sent", code=ErrorCode.BAD_ANSWER)
        return staged


class _Sending:
    """One share on its way: what replicas answered, in the order in which it came."""

    def __init__(self, places: Places, *, share: str, clock: Clock) -> None:
        self.reasons: dict[NodeId, LeaseholdError] = {}
        self._places = places
        self._share = share
        self._clock = clock
        self._inbox: deque[tuple[NodeId, int, StagedSegment | LeaseholdError | None]] = deque()
        self._bell = asyncio.Event()

    @property
    def revision(self) -> Revision:
        """The newest that the client has heard of."""
        return self._places.revision

    def arrived(self, node: NodeId, began_ns: int, what: StagedSegment | LeaseholdError | None) -> None:
        """An answer, why there is none, or that a replica has taken some of the rows."""
        self._inbox.append((node, began_ns, what))
        self._bell.set()

    async def wait(self, until_ns: int) -> None:
        """Until something has arrived, or until then."""
        if self._inbox:
            return
        self._bell.clear()
        timer = self._clock.call_at(until_ns, self._bell.set)
        try:
            await self._bell.wait()
        finally:
            timer.cancel()

    def take(self, asking: Hedging) -> StagedSegment | None:
        """The first answer, if it has come; the next of what has arrived is looked at. Raises what is final."""
        if not self._inbox:
            return None
        node, began_ns, what = self._inbox.popleft()
        now_ns = self._clock.now_ns()
        match what:
            case None:
                asking.progressed(node, now_ns)
            case StagedSegment():
                for other in asking.heard(node, now_ns):
                    self._places.failed(other, silent(now_ns - began_ns))
                self._places.served(node)
                self._places.known.writes.answered(now_ns - began_ns)
                return what
            case LeaseholdError() if what.code not in FINAL:
                self.reasons[node] = what
                self._places.failed(node, what)
                asking.failed(node)
            case LeaseholdError():
                raise what
        return None

    def nobody(self) -> Unreachable:
        """Why no replica took the rows."""
        return self._places.nobody(f"no replica takes rows for {self._share}", self.reasons)


Attempted = list[StagedSegment] | LeaseholdError


class _Task(msgspec.Struct, frozen=True):
    """What one task of a write is given."""

    facts: TableFacts
    transaction: TransactionId
    revision: Revision
    shares: list[tuple[BucketNumber, tuple[RowId, ...]]]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns as the driver looked them up."""
        return tuple(field.name for field in self.facts.fields)


def _by_bucket(rows: Sequence[RowId], buckets: int) -> list[tuple[BucketNumber, tuple[RowId, ...]]]:
    parted = (
        (BucketNumber(bucket), tuple(row for row in rows if row % buckets == bucket)) for bucket in range(buckets)
    )
    return [(bucket, share) for bucket, share in parted if share]


async def _converse(
    duplex: Duplex,
    ticket: WriteTicket,
    columns: tuple[str, ...],
    share: tuple[RowId, ...],
    on_progress: Callable[[], None],
) -> StagedSegment:
    try:
        await duplex.send(ticket)
        for start in range(0, len(share), CHUNK_ROWS):
            await duplex.send(rows_message(share[start : start + CHUNK_ROWS], columns))
            on_progress()
        await duplex.send(RowsEnd(rows=len(share)))
    except Unreachable:
        pass  # the node may have said why before it ended the stream
    answer = await duplex.receive()
    if answer is None:
        raise Unreachable("the stream ended without an answer")
    if not isinstance(answer, StagedSegment):
        raise Refused(f"answered with {type(answer).__name__}", code=ErrorCode.BAD_MESSAGE)
    return answer


async def _first(attempts: Sequence["asyncio.Task[Attempted]"]) -> list[StagedSegment]:
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
