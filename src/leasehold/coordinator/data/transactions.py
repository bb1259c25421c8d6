"""Write transactions at the leader (decided in `core/data/commit.py`)."""

import logging
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import assert_never

import msgspec

from leasehold.coordinator.nodes.leases import Leasing
from leasehold.coordinator.user_turns import UserTurns
from leasehold.coordinator.writer import Writer, check_size
from leasehold.core.access.request_rights import check_request
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.data.auto_compaction import DueBuckets, begin, commit_request, compacted_bucket, task
from leasehold.core.data.commit import abort_transaction, commit_transaction, open_count, open_transaction
from leasehold.core.ddl.origin import Origin
from leasehold.core.membership.generations import generation_of
from leasehold.core.membership.speaker import check_speaker
from leasehold.core.replicas.copies import holders_if_few
from leasehold.core.words.messages import (
    AbortTransaction,
    AskCompaction,
    CommitTransaction,
    CompactionTask,
    EndCompaction,
    OpenTransaction,
    TransactionFacts,
)
from leasehold.core.words.operations import Change
from leasehold.core.words.records import PrincipalRecord, TransactionState
from leasehold.error_codes import ErrorCode
from leasehold.errors import OutcomeUnknown, Refused
from leasehold.ids import BucketNumber, NodeId, Revision, SegmentId, StatementId, TransactionId
from leasehold.limits.segments import (
    COMMIT_SMALL_BOUNDS,
    COMMIT_SMALL_SEGMENTS,
    OPEN_TRANSACTIONS_MAX,
    TRANSACTION_TTL_NS,
    USER_TRANSACTIONS_MAX,
)
from leasehold.wire.ports import Clock, Entropy

log = logging.getLogger(__name__)


class WriteTransactions:
    """The write transactions of one leader. It aborts those that stay open for too long. `wall_us` reads the believed
    wall clock."""

    def __init__(
        self,
        writer: Writer,
        leasing: Leasing,
        clock: Clock,
        entropy: Entropy,
        turns: UserTurns,
        wall_us: Callable[[], int],
    ) -> None:
        self._writer = writer
        self._leasing = leasing
        self._clock = clock
        self._entropy = entropy
        self._turns = turns.another_queue()
        """For commits that take long to decide on."""
        self._due = DueBuckets()
        self._wall_us = wall_us
        self._opened: dict[TransactionId, int] = {}
        """When each open transaction was opened or last renewed."""
        self._note_open()

    def _note_open(self) -> None:
        """Counts time for open transactions that this leader has not heard of: of an earlier leader, or of a client
        that has gone before it was answered. No clock reading outlives its process."""
        now_ns = self._clock.now_ns()
        is_open = chain.from_iterable(self._writer.catalog.open_transactions.values())
        self._opened = {one: self._opened.get(one, now_ns) for one in is_open}

    async def open(
        self, request: OpenTransaction, statement_of: Callable[[StatementId], Origin | None] = lambda _: None
    ) -> TransactionFacts:
        """Opens a write transaction, or answers the state of the one with that id and restarts its time. `statement_of`
        tells which other statement has an id."""

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            user = check_request(request, catalog)
            if request.transaction not in catalog.transactions:
                self._check_room(user, catalog)
            return open_transaction(request, catalog, statement_of(StatementId(request.transaction)), user=user)

        await self._writer.submit(decide)
        facts = self._transaction(request.transaction)
        if facts.state is TransactionState.OPEN:
            self._opened[request.transaction] = self._clock.now_ns()
        return facts

    def _check_room(self, user: PrincipalRecord | None, catalog: Catalog) -> None:
        """Raises `Refused` if the meta storage has no room, or if too many transactions are open."""
        self._writer.check_room()
        text = None
        if open_count(catalog) >= OPEN_TRANSACTIONS_MAX:
            text = f"{OPEN_TRANSACTIONS_MAX} write transactions are open"
        elif user is not None and len(catalog.open_transactions.get(user.id, ())) >= USER_TRANSACTIONS_MAX:
            text = f"{USER_TRANSACTIONS_MAX} write transactions of {user.name} are open"
        if text is not None:
            raise Refused(text, code=ErrorCode.BUSY, hint="commit or abort some, or wait until they expire")

    async def commit(self, request: CommitTransaction) -> TransactionFacts:
        """Makes the segments of a transaction visible at one revision."""
        return await self._commit(request, lambda catalog: check_request(request, catalog))

    async def _commit(
        self, request: CommitTransaction, check: Callable[[Catalog], object], compactor: NodeId | None = None
    ) -> TransactionFacts:
        def decide(catalog: Catalog) -> tuple[Change, ...]:
            check(catalog)
            return self._deciding(request, catalog, compactor)()

        catalog = self._writer.catalog
        await self._leasing.seals.hear_of(request.segments, self._leasing.live_incarnations(list(catalog.nodes)))
        if compactor is None and _may_take_long(request, self._writer.catalog):
            asking = check_request(request, self._writer.catalog)
            await self._turns.run(asking, lambda: self._tried(request), request=request)
        revision = await self._writer.submit(decide)
        facts, catalog = self._transaction(request.transaction, revision), self._writer.catalog
        named = (catalog.segments.one((one.table, one.bucket), one.id) for one in request.segments)
        if request.forgets and request.replaces:
            log.warning("%d lost segments were forgotten at revision %d", len(request.replaces), facts.revision)
        short = sum(1 for one in named if one is not None and holders_if_few(one, catalog) is not None)
        return msgspec.structs.replace(facts, segments_short=short)

    def _deciding(
        self, request: CommitTransaction, catalog: Catalog, compactor: NodeId | None = None
    ) -> Callable[[], tuple[Change, ...]]:
        """Computes, on any thread, what a commit changes."""
        live = self._leasing.live_incarnations(list(catalog.nodes))
        return partial(
            commit_transaction,
            request,
            catalog,
            incarnations=live,
            seal_keys=self._leasing.seals.keys.of_living(live),
            wall_us=self._wall_us(),
            compactor=compactor,
        )

    async def _tried(self, request: CommitTransaction) -> None:
        """Decides on a thread, so that all others seldom wait for the writer to refuse a commit after a long look."""
        catalog = self._writer.catalog
        check_request(request, catalog)
        check_size(await self._turns.threads.run(self._deciding(request, catalog)))

    async def ask_compaction(self, request: AskCompaction) -> CompactionTask:
        """What a node should compact by itself now (`core/data/auto_compaction.py`)."""
        check_speaker(request, self._writer.catalog)
        self._check_room(None, self._writer.catalog)
        transaction = TransactionId(self._entropy.hex_128())
        look = partial(self._due.next_of, request, self._writer.catalog, self._leasing.leased())
        found = await self._turns.threads.run(look)

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            check_speaker(request, catalog)
            return begin(request, found, transaction, catalog)

        revision = await self._writer.submit(decide)
        if found is None:
            return CompactionTask()
        self._opened[transaction] = self._clock.now_ns()
        segment = SegmentId(f"{transaction}-{self._entropy.hex_128()}")
        return task(request, found, segment, revision, generation_of(self._writer.catalog))

    async def end_compaction(self, request: EndCompaction) -> TransactionFacts:
        """Commits what a node has compacted by itself, or aborts it."""

        def check(catalog: Catalog) -> BucketNumber:
            check_speaker(request, catalog)
            return compacted_bucket(request, catalog)

        bucket = check(self._writer.catalog)
        if request.segment is None:
            return await self._abort(request.transaction, check)
        return await self._commit(commit_request(request, bucket), check, compactor=request.node)

    async def abort(self, request: AbortTransaction) -> TransactionFacts:
        """Ends a transaction without effect; the answer tells if it was committed before."""
        return await self._abort(request.transaction, lambda catalog: check_request(request, catalog))

    async def _abort(self, transaction: TransactionId, check: Callable[[Catalog], object]) -> TransactionFacts:
        def decide(catalog: Catalog) -> tuple[Change, ...]:
            check(catalog)
            return abort_transaction(transaction, catalog)

        await self._writer.submit(decide)
        return self._transaction(transaction)

    def _transaction(self, transaction: TransactionId, revision: Revision | None = None) -> TransactionFacts:
        catalog = self._writer.catalog
        record = catalog.transactions.get(transaction)
        if record is None:
            text = f"write transaction {transaction[:64]!r} is not known any more"
            raise OutcomeUnknown(
                text, code=ErrorCode.TRANSACTION_FORGOTTEN, hint="count the rows before you write them again"
            )
        return TransactionFacts(
            transaction=transaction,
            state=record.state,
            rows=record.rows,
            revision=revision if revision is not None else catalog.revision,
        )

    async def answer(
        self,
        request: OpenTransaction | CommitTransaction | AbortTransaction | AskCompaction | EndCompaction,
        statement_of: Callable[[StatementId], Origin | None],
    ) -> TransactionFacts | CompactionTask:
        """Does what is asked."""
        match request:
            case OpenTransaction():
                return await self.open(request, statement_of)
            case CommitTransaction():
                return await self.commit(request)
            case AbortTransaction():
                return await self.abort(request)
            case AskCompaction():
                return await self.ask_compaction(request)
            case EndCompaction():
                return await self.end_compaction(request)
            case _:
                assert_never(request)

    async def expire(self) -> None:
        """Aborts transactions that have been open for TRANSACTION_TTL_NS."""
        self._note_open()
        now_ns = self._clock.now_ns()
        old = [one for one, opened_ns in self._opened.items() if now_ns - opened_ns >= TRANSACTION_TTL_NS]
        for transaction in old:
            record = self._writer.catalog.transactions.get(transaction)
            if record is not None and record.state is TransactionState.OPEN:
                await self._writer.submit(lambda catalog, one=transaction: abort_transaction(one, catalog))


def _may_take_long(request: CommitTransaction, catalog: Catalog) -> bool:
    """Whether it may take more than a millisecond to decide on a commit."""
    is_new_stream = request.batch is not None and request.batch.query not in catalog.streams
    effort = sum(1 + len(one.statistics) // COMMIT_SMALL_BOUNDS for one in request.segments)
    return request.takes_rows or is_new_stream or effort > COMMIT_SMALL_SEGMENTS
