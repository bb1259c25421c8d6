"""Procedures at the leader: runs each statement to its end, whoever still waits for it (plans in `core/ddl.py`)."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec

from leasehold.coordinator.leasing import Leasing
from leasehold.coordinator.settings import published_bound_ns
from leasehold.coordinator.writer import STORE_DECLINES, Decide, StoreDeclined, Writer
from leasehold.core import ddl, keys
from leasehold.core.catalog import Catalog
from leasehold.core.messages import Execute, Receipt, WaitingFor
from leasehold.core.operations import Change
from leasehold.core.queueing import Claim, ObjectQueues
from leasehold.core.records import BarrierReceipt, Outcome, ProcedureRecord, StatementRecord, Step
from leasehold.core.statements import CreateTable, Definition
from leasehold.errors import (
    BadStatement,
    Definite,
    Indefinite,
    LeaseholdError,
    NotFound,
    NotLeader,
    OutcomeUnknown,
    Refused,
)
from leasehold.ids import NodeId, ObjectId, Revision, StatementId, is_hex_128
from leasehold.limits import (
    CLOSE_GATHER_NS,
    LEADER_RETRY_NS,
    MILLISECOND_NS,
    PROGRESS_INTERVAL_NS,
    SECOND_NS,
    STATEMENT_TEXT_KEPT,
    STATEMENTS_KEPT,
    STATEMENTS_RUNNING_MAX,
)
from leasehold.metastorage.contract import MetaStorage
from leasehold.wire.ports import Clock

log = logging.getLogger(__name__)


class _Running(msgspec.Struct):
    """A statement that has not ended; `answer` is what all who asked for it wait for."""

    answer: "asyncio.Future[Receipt]"
    barrier: int | None = None
    published: bool = False
    """Its first transaction is durable: from here on no refusal may say that nothing happened."""
    closing: bool = False
    """Answered, while its receipt is not durable yet: until then the answer is repeated from here."""


class _Closing(msgspec.Struct, frozen=True):
    """A statement that has been answered and whose receipt is not durable yet."""

    procedure: ProcedureRecord
    barrier: BarrierReceipt
    elapsed_ns: int
    bound_ns: int


class _Refusal(msgspec.Struct, frozen=True):
    """A refusal without the frames that an exception keeps alive."""

    kind: type[Definite]
    text: str
    code: str
    hint: str

    @classmethod
    def of(cls, error: Definite) -> "_Refusal":
        return cls(type(error), error.text, error.code, error.hint)

    def error(self) -> Definite:
        return self.kind(self.text, code=self.code, hint=self.hint)


class Procedures:
    """All statements of one leader. `serving` tells which nodes hold a lease, to place new tables."""

    def __init__(
        self,
        storage: MetaStorage,
        writer: Writer,
        leasing: Leasing,
        clock: Clock,
        group: asyncio.TaskGroup,
        serving: Callable[[], list[NodeId]],
    ) -> None:
        self._storage = storage
        self._writer = writer
        self._leasing = leasing
        self._clock = clock
        self._group = group
        self._serving = serving
        self._queues = ObjectQueues()
        self._turns: dict[int, asyncio.Event] = {}
        self._running: dict[StatementId, _Running] = {}
        self._elected = writer.catalog.revision
        self._touched: dict[str, Revision] = {}
        self._closings: asyncio.Queue[_Closing] = asyncio.Queue(STATEMENTS_RUNNING_MAX)
        self._unrecorded: OrderedDict[StatementId, Receipt | _Refusal] = OrderedDict()

    # ------------------------------------------------------------ what clients call

    async def execute(self, request: Execute, statement: Definition) -> AsyncIterator[WaitingFor | Receipt]:
        """Runs a statement; progress first, its receipt last. The same id again joins or repeats the answer."""
        if not is_hex_128(request.statement):
            raise BadStatement("a statement id is 128 bits in hex", hint="draw a random one per statement")
        known = request.statement in self._writer.catalog.statements or request.statement in self._unrecorded
        if not known and request.statement not in self._running:
            if len(self._running) >= STATEMENTS_RUNNING_MAX:
                text = f"{STATEMENTS_RUNNING_MAX} statements are running or waiting"
                raise Refused(text, code="BUSY", hint="try again in a moment")
            running = self._start(request.statement)
            self._begin_task(self._run(request, statement, running), request.statement, running)
        async for message in self.outcome(request.statement):
            yield message

    async def outcome(self, statement: StatementId) -> AsyncIterator[WaitingFor | Receipt]:
        """Waits for a statement that runs, or repeats the receipt of one that has ended."""
        running = self._running.get(statement)
        while running is not None and not running.answer.done():
            await asyncio.wait([running.answer], timeout=PROGRESS_INTERVAL_NS / SECOND_NS)
            waiting = self._waiting_for(statement, running)
            if waiting is not None:
                yield waiting
        if running is not None:
            if running.answer.cancelled():
                raise Indefinite("the coordinator stopped during the statement", hint="ask again by the same id")
            yield running.answer.result()
            return
        unrecorded = self._unrecorded.get(statement)
        if isinstance(unrecorded, _Refusal):
            raise unrecorded.error()
        if unrecorded is not None:
            yield unrecorded
            return
        record = self._writer.catalog.statements.get(statement)
        if record is None:
            raise NotFound(
                f"no statement {statement[:64]} is known: it never changed anything, or ended long ago",
                code="NO_STATEMENT",
                hint="look with SHOW TABLES or DESCRIBE before you run it again",
            )
        yield self._receipt(record, self._writer.catalog)

    def resume(self) -> None:
        """Takes up what earlier leaders left, exactly where its record says it stands."""
        for _, procedure in sorted(self._writer.catalog.procedures.items()):
            running = self._start(procedure.statement)
            running.published = True
            claims = _claims_of(procedure, self._writer.catalog)
            place = self._enter(claims)
            self._begin_task(self._resume(procedure, running, claims, place), procedure.statement, running)

    # ------------------------------------------------------------ one statement

    def _begin_task(self, work: Coroutine[Any, Any, None], statement: StatementId, running: _Running) -> None:
        try:
            task = self._group.create_task(work)
        except RuntimeError as error:  # the group is ending: so is this leader
            work.close()
            self._running.pop(statement, None)
            raise NotLeader("this leadership is ending", hint="ask another coordinator, or again soon") from error
        # A task that is cancelled before its first step runs nothing of its own, not even what should end it.
        task.add_done_callback(lambda _: running.answer.cancel())

    def _start(self, statement: StatementId) -> _Running:
        running = _Running(asyncio.get_running_loop().create_future())
        self._running[statement] = running
        return running

    async def _run(self, request: Execute, statement: Definition, running: _Running) -> None:
        claims = ddl.claims(statement)
        place = self._enter(claims)
        try:
            await self._turns[place].wait()
            settled = await self._settle_before(claims)
            began_ns = self._clock.now_ns()  # now it is at the head: what it changes is settled
            running.answer.set_result(await self._begin(request, statement, running, claims, settled, began_ns))
        except LeaseholdError as error:
            if isinstance(error, Definite) and not running.published:
                self._note(request.statement, _Refusal.of(error))
            _fail(running, error)
        finally:
            self._end(request.statement, running, place)

    async def _resume(
        self, procedure: ProcedureRecord, running: _Running, claims: dict[str, Claim], place: int
    ) -> None:
        try:
            await self._turns[place].wait()
            began_ns = self._clock.now_ns()
            bound_ns = self._published_bound_ns()
            published = await self._published_at(procedure)
            # This leader's catalog holds the procedure's change already: its election revision covers it.
            await self._leasing.barrier(self._elected, lambda number: setattr(running, "barrier", number))
            receipt = await self._go_on(procedure, published, running, claims, began_ns, bound_ns)
            running.answer.set_result(receipt)
        except LeaseholdError as error:
            _fail(running, error)
        finally:
            self._end(procedure.statement, running, place)

    async def _begin(
        self,
        request: Execute,
        statement: Definition,
        running: _Running,
        claims: dict[str, Claim],
        settled: Revision,
        began_ns: int,
    ) -> Receipt:
        asked: ddl.Request | None = None
        begun: ddl.Begun | None = None

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            nonlocal asked, begun
            asked = ddl.Request(
                id=request.statement,
                text=request.text[:STATEMENT_TEXT_KEPT],
                statement=statement,
                # Not before: while this waited to be decided, a longer lease may have been set, and granted.
                bound_ns=self._published_bound_ns(),
            )
            begun = ddl.begin(asked, catalog, self._serving() if isinstance(statement, CreateTable) else ())
            return begun.changes

        revision = await self._writer.submit(decide)
        assert asked is not None
        assert begun is not None
        if begun.procedure is None:
            receipt = self._nothing_to_do(asked, settled, began_ns)
            self._note(asked.id, receipt)
            return receipt
        running.published = True
        self._touch(claims, revision)
        return await self._go_on(begun.procedure, revision, running, claims, began_ns, asked.bound_ns)

    async def _go_on(
        self,
        procedure: ProcedureRecord,
        revision: Revision,
        running: _Running,
        claims: dict[str, Claim],
        began_ns: int,
        bound_ns: int,
    ) -> Receipt:
        """From a committed first transaction to the receipt: the part that a later leader repeats."""

        def note(number: int) -> None:
            running.barrier = number

        barrier = await self._leasing.barrier(revision, note)
        if procedure.step is Step.PRE_STATE:
            after = await self._insist(lambda catalog: ddl.finish(procedure, catalog))
            self._touch(claims, after)
            # Begun now, so that the next statement on the object waits the less for it.
            self._group.create_task(self._leasing.barrier(after))
        elapsed_ns = self._clock.now_ns() - began_ns
        catalog = self._writer.catalog
        running.closing = True
        await self._closings.put(_Closing(procedure, barrier, elapsed_ns, bound_ns))
        record = catalog.statements[procedure.statement]
        ended = ddl.ended(record, barrier, elapsed_ns, bound_ns)
        log.info("%s: revision %d, %d ms", procedure.text, revision, elapsed_ns // MILLISECOND_NS)
        return self._receipt(ended, catalog, dropped=procedure.target)

    async def close_behind(self) -> None:
        """Writes the receipts of statements that have been answered, out of the way of those that have not: what has
        ended within a short while is closed in one transaction."""
        while True:
            closings = [await self._closings.get()]
            await self._clock.sleep_until(self._clock.now_ns() + CLOSE_GATHER_NS)
            while not self._closings.empty():
                closings.append(self._closings.get_nowait())
            await asyncio.gather(*(self._close(one) for one in closings))

    async def _close(self, one: "_Closing") -> None:
        await self._insist(
            lambda catalog: ddl.close(
                one.procedure, catalog, barrier=one.barrier, elapsed_ns=one.elapsed_ns, bound_ns=one.bound_ns
            )
        )
        self._running.pop(one.procedure.statement, None)

    async def _insist(self, decide: Decide) -> Revision:
        """Writes what a statement that has begun has to come to, again and again while the store has no room for it."""
        while True:
            try:
                return await self._writer.submit(decide)
            except StoreDeclined as error:
                if error.code not in STORE_DECLINES:
                    raise
                log.warning("a statement can't go on: %s", error)
                await self._clock.sleep_until(self._clock.now_ns() + LEADER_RETRY_NS)

    def _published_bound_ns(self) -> int:
        return published_bound_ns(self._leasing.grantor, self._clock.now_ns())

    async def _published_at(self, procedure: ProcedureRecord) -> Revision:
        """The revision of the first transaction, so that the receipt says the same under every leader."""
        while True:
            try:
                found = await self._storage.get(keys.statement(procedure.statement))
            except Indefinite:  # nobody may be told of another revision
                await self._clock.sleep_until(self._clock.now_ns() + LEADER_RETRY_NS)
                continue
            assert found is not None, "a procedure and its statement are written together"
            return found.modified

    def _note(self, statement: StatementId, end: "Receipt | _Refusal") -> None:
        """Remembers the end of a statement that wrote nothing: a late copy of its request must not run it after all."""
        self._unrecorded[statement] = end
        if len(self._unrecorded) > STATEMENTS_KEPT:
            self._unrecorded.popitem(last=False)

    # ------------------------------------------------------------ order and waiting

    def _enter(self, claims: dict[str, Claim]) -> int:
        place, admitted = self._queues.enter(claims)
        self._turns[place] = asyncio.Event()
        self._admit(admitted)
        return place

    def _end(self, statement: StatementId, running: _Running, place: int) -> None:
        if not running.answer.done():
            running.answer.cancel()
        if not running.closing:
            self._running.pop(statement, None)
        del self._turns[place]
        self._admit(self._queues.leave(place))

    def _admit(self, places: tuple[int, ...]) -> None:
        for place in places:
            self._turns[place].set()

    async def _settle_before(self, claims: dict[str, Claim]) -> Revision:
        """Two versions of an object at most are ever in use: waits for the barrier of its last change."""
        last = max((self._touched.get(name, self._elected) for name in claims), default=Revision(0))
        if last > 0:
            await self._leasing.barrier(last)
        return last

    def _touch(self, claims: dict[str, Claim], revision: Revision) -> None:
        for name, claim in claims.items():
            if claim is Claim.EXCLUSIVE:
                self._touched[name] = revision
        if len(self._touched) > STATEMENTS_RUNNING_MAX:
            settled = self._leasing.settled
            self._touched = {name: last for name, last in self._touched.items() if last > settled}

    # ------------------------------------------------------------ answers

    def _waiting_for(self, statement: StatementId, running: _Running) -> WaitingFor | None:
        waiting = None if running.barrier is None else self._leasing.waiting(running.barrier)
        if waiting is None:
            return None
        nodes = self._writer.catalog.nodes
        names = tuple(nodes[node].name if node in nodes else str(node) for node in waiting.nodes)
        return WaitingFor(statement_id=statement, nodes=names, at_most_ns=waiting.at_most_ns)

    def _nothing_to_do(self, asked: ddl.Request, revision: Revision, began_ns: int) -> Receipt:
        return Receipt(
            statement_id=asked.id,
            text=asked.text,
            revision=revision,
            outcome=Outcome.COMMITTED,
            elapsed_ns=self._clock.now_ns() - began_ns,
            bound_ns=asked.bound_ns,
            settled=(),
            pending=(),
            cleaning=(),
        )

    def _receipt(self, record: StatementRecord, catalog: Catalog, dropped: ObjectId | None = None) -> Receipt:
        cleaning = None if dropped is None else catalog.dropped.get(dropped)
        return Receipt(
            statement_id=record.id,
            text=record.text,
            revision=record.revision,
            outcome=record.outcome,
            elapsed_ns=record.elapsed_ns,
            bound_ns=record.bound_ns,
            settled=record.barriers[-1].settled if record.barriers else (),
            pending=record.pending,
            cleaning=() if cleaning is None else cleaning.pending,
        )


def _fail(running: _Running, error: LeaseholdError) -> None:
    if running.published and isinstance(error, Definite):
        # The procedure is durable and goes on under this leader's successor, if not under this one.
        text = f"the statement has begun and can't be ended now: {error.text}"
        error = OutcomeUnknown(text, hint="ask again with the same statement id")
    running.answer.set_exception(error)
    running.answer.exception()  # the client may be gone: nobody else needs it


def _claims_of(procedure: ProcedureRecord, catalog: Catalog) -> dict[str, Claim]:
    """The claims of a statement whose text is not needed any more: what it changes, by name."""
    if procedure.target == ddl.THE_CLUSTER:
        return ddl.claims_on_cluster()
    database = catalog.databases.get(procedure.target)
    if database is not None:
        return ddl.claims_on_database(database.name)
    table = catalog.tables.get(procedure.target)
    return {} if table is None else ddl.claims_on_table(catalog.table_name(table))
