"""Tables as clients read and write them: schemas, plans, write transactions (decisions in `core/commit.py`)."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import msgspec

from leasehold.coordinator.leasing import Leasing
from leasehold.coordinator.queries import Queries
from leasehold.coordinator.views import relation_named, tables_needed, view_bodies, view_facts
from leasehold.coordinator.writer import Writer
from leasehold.core import keys
from leasehold.core.catalog import BucketKey, Catalog, check_through, field_named, live_fields
from leasehold.core.codec import encode
from leasehold.core.commit import abort_transaction, commit_transaction, open_transaction
from leasehold.core.copies import holders_if_few
from leasehold.core.cutoff import cutoff
from leasehold.core.ddl import cleaned
from leasehold.core.messages import (
    AbortTransaction,
    BucketPlaces,
    CommitTransaction,
    OpenTransaction,
    Place,
    PlanQuery,
    PlanScan,
    QueryPlan,
    ScanPlan,
    SegmentsHeld,
    SegmentsMissing,
    TableCleaned,
    TableFacts,
    TransactionFacts,
    ViewFacts,
)
from leasehold.core.operations import Change
from leasehold.core.origin import Origin
from leasehold.core.plan import put
from leasehold.core.reads import all_read
from leasehold.core.records import SegmentRecord, TableRecord, TransactionState
from leasehold.core.replication import after_fetch, after_loss
from leasehold.core.rewrite import worth_rewriting
from leasehold.core.rights import check_request
from leasehold.core.statements import TableName
from leasehold.errors import OutcomeUnknown, Refused
from leasehold.ids import IDENTIFIER, BucketNumber, NodeId, Revision, SegmentId, StatementId, TransactionId
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.replication import REPORTED_SEGMENTS_AT_ONCE_MAX
from leasehold.limits.segments import OPEN_TRANSACTIONS_MAX, PLANNED_SEGMENT_BYTES_MIN, TRANSACTION_TTL_NS
from leasehold.limits.statements import QUERY_TABLES_MAX
from leasehold.wire.ports import Clock

log = logging.getLogger(__name__)


class PlanLimits(NamedTuple):
    """Bounds of what one answer plans."""

    tables_max: int = QUERY_TABLES_MAX
    bytes_max: int = MESSAGE_BYTES_MAX


PLAN_LIMITS: Final = PlanLimits()


class Data:
    """The data side of one leader."""

    def __init__(self, writer: Writer, leasing: Leasing, clock: Clock, limits: PlanLimits = PLAN_LIMITS) -> None:
        self.on_lacked: Callable[[NodeId, BucketKey, list[SegmentId]], None] = lambda *_: None
        """Hears of segments that only one node holds, by the manifest, and that it has no file of."""
        self._writer = writer
        self._leasing = leasing
        self._clock = clock
        self._limits = limits
        self.queries = Queries(writer, clock)
        self._opened: dict[TransactionId, int] = {}
        self._reported = 0
        self._reporting = asyncio.Lock()
        self._decided = asyncio.Event()
        # A new leader restarts the count of what it finds open: no clock reading outlives its process.
        for transaction in writer.catalog.transactions.values():
            if transaction.state is TransactionState.OPEN:
                self._opened[transaction.id] = clock.now_ns()

    # ------------------------------------------------------------ reading

    def table(self, name: str) -> TableFacts:
        """A table's schema and places, by its qualified name."""
        catalog = self._writer.catalog
        return self._facts(catalog.table(parse_name(name)), catalog)

    def view(self, name: str) -> ViewFacts:
        """A view with all that it reads, by its qualified name."""
        return view_facts(parse_name(name), self._writer.catalog)

    def plan(self, request: PlanScan) -> ScanPlan:
        """Pins the present revision: its columns and its segments, without statistics, which no reader uses.

        For a rewrite only the first ones that are worth it. Raises `Refused` with code TOO_MANY_SEGMENTS if it does not
        fit into one message.
        """
        catalog = self._writer.catalog
        check_through(request.through, catalog)
        table = catalog.table(parse_name(request.name))
        fields = live_fields(table)
        if request.columns is not None:
            fields = tuple(field_named(table, name) for name in request.columns)
        segments: list[SegmentRecord] = []
        if request.rewrite:
            segments.extend(worth_rewriting(table, catalog))
        else:
            self._check_can_fit(table, catalog)
            for number in range(table.buckets):
                segments.extend(catalog.bucket_segments(table.id, BucketNumber(number)))
        lean = tuple(msgspec.structs.replace(one, statistics=()) for one in segments)
        plan = ScanPlan(
            facts=self._facts(table, catalog),
            fields=fields,
            segments=lean,
            through=request.through,
            deletes=table.deletes if request.rewrite else 0,
            cutoff=cutoff(table, catalog),
        )
        if len(encode(plan)) > self._limits.bytes_max:
            raise self._too_many(len(lean), table, catalog)
        return plan

    def plan_query(self, request: PlanQuery) -> QueryPlan:
        """Pins the present revision of all tables that a SELECT reads, those of its views among them.

        Raises `NotFound`, or `Refused` with code TOO_MANY_TABLES, TOO_MANY_SEGMENTS.
        """
        catalog = self._writer.catalog
        if len(request.names) > self._limits.tables_max:
            raise self._too_many_tables(len(request.names))
        reads = all_read((relation_named(parse_name(name), catalog) for name in request.names), catalog)
        if len(reads.tables) > self._limits.tables_max:
            raise self._too_many_tables(len(reads.tables))
        through = tuple(view.id for view in reads.views)
        plans: list[ScanPlan] = []
        size_bytes = 0
        for table in reads.tables:
            name = str(catalog.table_name(table))
            plans.append(self.plan(PlanScan(cluster_id=None, name=name, columns=None, through=through)))
            size_bytes += len(encode(plans[-1]))
            if size_bytes > self._limits.bytes_max:
                raise self._too_many(sum(len(one.segments) for one in plans), table, catalog)
        answer = QueryPlan(
            revision=catalog.revision,
            plans=tuple(plans),
            views=view_bodies(reads, catalog),
            needed=tables_needed(reads, catalog),
        )
        assert all(one.facts.revision == answer.revision for one in plans), "one revision for all (INV-SCAN-1)"
        if len(encode(answer)) > self._limits.bytes_max:
            raise self._too_many_tables(len(plans))
        return answer

    def _check_can_fit(self, table: TableRecord, catalog: Catalog) -> None:
        """Raises `Refused` if a plan can't name all segments, before any is looked at."""
        count = sum(catalog.segments.count((table.id, BucketNumber(number))) for number in range(table.buckets))
        if count * PLANNED_SEGMENT_BYTES_MIN > self._limits.bytes_max:
            raise self._too_many(count, table, catalog)

    def _too_many(self, count: int, table: TableRecord, catalog: Catalog) -> Refused:
        name, bytes_max = catalog.table_name(table), self._limits.bytes_max
        return Refused(
            f"table {name} has {count} segments, a plan of {bytes_max} bytes names fewer",
            code="TOO_MANY_SEGMENTS",
            hint="`leasehold rewrite` joins small segments; then write fewer, larger appends",
        )

    def _too_many_tables(self, count: int) -> Refused:
        return Refused(
            f"the SELECT reads {count} tables and views, more than one answer can plan",
            code="TOO_MANY_TABLES",
            hint=f"read at most {self._limits.tables_max} tables in one SELECT",
        )

    def _facts(self, table: TableRecord, catalog: Catalog) -> TableFacts:
        buckets: list[BucketPlaces] = []
        members: set[int] = set()
        for number in range(table.buckets):
            bucket = catalog.buckets[table.id, BucketNumber(number)]
            ready = [node for node in bucket.replicas if node in bucket.in_sync]
            behind = [node for node in bucket.replicas if node not in bucket.in_sync]
            buckets.append(BucketPlaces(bucket=bucket.bucket, replicas=(*ready, *behind)))
            members.update(bucket.replicas)
        places = [
            Place(node=node.id, name=node.name, address=node.address, incarnation=node.incarnation)
            for node in sorted(catalog.nodes.values(), key=lambda one: one.id)
            if node.id in members
        ]
        assert catalog.cluster is not None
        return TableFacts(
            cluster_id=catalog.cluster.cluster_id,
            revision=catalog.revision,
            table=table.id,
            name=str(catalog.table_name(table)),
            schema_version=table.schema_version,
            fields=live_fields(table),
            cluster_by=table.cluster_by,
            buckets=tuple(buckets),
            places=tuple(places),
            generation=catalog.cluster.generation,
        )

    # ------------------------------------------------------------ writing

    async def open(
        self, request: OpenTransaction, statement_of: Callable[[StatementId], Origin | None] = lambda _: None
    ) -> TransactionFacts:
        """Opens a write transaction, or says how the one of that id stands and gives it more time if it is open.

        `statement_of` tells which other statement has an id.
        """
        if request.transaction not in self._opened and len(self._opened) >= OPEN_TRANSACTIONS_MAX:
            text = f"{OPEN_TRANSACTIONS_MAX} write transactions are open"
            raise Refused(text, code="BUSY", hint="commit or abort some, or wait until they expire")

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            check_request(request, catalog)
            return open_transaction(request, catalog, statement_of(StatementId(request.transaction)))

        await self._writer.submit(decide)
        facts = self._transaction(request.transaction)
        if facts.state is TransactionState.OPEN:
            self._opened[request.transaction] = self._clock.now_ns()  # asked for again: its time starts anew
        return facts

    async def commit(self, request: CommitTransaction) -> TransactionFacts:
        """Makes its segments visible at one revision."""

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            check_request(request, catalog)
            live = self._leasing.live_incarnations(list(catalog.nodes))
            keys_of = self._leasing.seals.keys(live)
            return commit_transaction(request, catalog, incarnations=live, seal_keys=keys_of)

        live = self._leasing.live_incarnations(list(self._writer.catalog.nodes))
        await self._leasing.seals.hear_of(request.segments, live)
        revision = await self._writer.submit(decide)
        self._opened.pop(request.transaction, None)
        facts, catalog = self._transaction(request.transaction, revision), self._writer.catalog
        named = (catalog.segments.one((one.table, one.bucket), one.id) for one in request.segments)
        if request.forgets and request.replaces:
            log.warning("%d lost segments were forgotten at revision %d", len(request.replaces), facts.revision)
        short = sum(1 for one in named if one is not None and holders_if_few(one, catalog) is not None)
        return msgspec.structs.replace(facts, segments_short=short)

    async def abort(self, request: AbortTransaction) -> TransactionFacts:
        """Ends it without effect; the answer says if it had been committed before."""
        await self._writer.submit(lambda catalog: abort_transaction(request.transaction, catalog))
        self._opened.pop(request.transaction, None)
        return self._transaction(request.transaction)

    def _transaction(self, transaction: TransactionId, revision: Revision | None = None) -> TransactionFacts:
        catalog = self._writer.catalog
        record = catalog.transactions.get(transaction)
        if record is None:
            text = f"write transaction {transaction[:64]} is not known any more"
            raise OutcomeUnknown(text, code="TRANSACTION_FORGOTTEN", hint="count the rows before you write them again")
        return TransactionFacts(
            transaction=transaction,
            state=record.state,
            rows=record.rows,
            revision=revision if revision is not None else catalog.revision,
        )

    async def expire(self) -> None:
        """Forgets old queries, and aborts writes that have been open for too long; the first expiry or commit wins, by
        comparison."""
        await self.queries.expire()
        now_ns = self._clock.now_ns()
        for record in self._writer.catalog.transactions.values():
            if record.state is TransactionState.OPEN:  # also those whose client was gone before the answer
                self._opened.setdefault(record.id, now_ns)
        for transaction, opened_ns in list(self._opened.items()):
            if now_ns - opened_ns >= TRANSACTION_TTL_NS:
                del self._opened[transaction]
                record = self._writer.catalog.transactions.get(transaction)
                if record is not None and record.state is TransactionState.OPEN:
                    await self._writer.submit(lambda catalog, one=transaction: abort_transaction(one, catalog))

    # ------------------------------------------------------------ what nodes report

    async def acknowledge(self, message: SegmentsHeld | SegmentsMissing | TableCleaned) -> None:
        """A node has fetched segments it lacked, lacks some that it is thought to hold, or has deleted a dropped
        table's files. Raises `StoreDeclined`."""
        alone: list[SegmentId] = []

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            live = self._leasing.live_incarnations([message.node])
            if live.get(message.node) != message.incarnation:
                return ()  # superseded while it waited: what it reported changes nothing (INV-ID-2)
            match message:
                case TableCleaned():
                    return cleaned(catalog, message.table, message.node)
                case SegmentsHeld():
                    return _held(message, catalog)
                case SegmentsMissing():
                    changes, alone[:] = _missing(message, catalog)
                    return changes

        async with self._in_turn(0 if isinstance(message, TableCleaned) else len(message.segments)):
            await self._writer.submit(decide)
        if alone and not isinstance(message, TableCleaned):
            self.on_lacked(message.node, (message.table, message.bucket), alone)
            log.warning(
                "node %d lacks %d segments of table %d that nobody else holds, %s among them",
                message.node,
                len(alone),
                message.table,
                alone[0],
            )

    @asynccontextmanager
    async def _in_turn(self, segments: int) -> AsyncGenerator[None]:
        """Waits until a report of so many segments can be decided: of all nodes together only so many at once, since
        they may share a transaction, and no grant goes out while one is decided."""
        async with self._reporting:
            while self._reported and self._reported + segments > REPORTED_SEGMENTS_AT_ONCE_MAX:
                self._decided.clear()
                await self._decided.wait()
            self._reported += segments
        try:
            yield
        finally:
            self._reported -= segments
            self._decided.set()


def _held(message: SegmentsHeld, catalog: Catalog) -> tuple[Change, ...]:
    bucket = catalog.buckets.get((message.table, message.bucket))
    if bucket is None:
        return ()
    segments = catalog.segments.get((message.table, message.bucket), {})
    after, changed = after_fetch(bucket, segments, message.node, message.segments)
    changes = [put(keys.segment(message.table, message.bucket, one.id), one) for one in changed]
    if after != bucket:
        changes.append(put(keys.bucket(message.table, message.bucket), after))
    return tuple(changes)


def _missing(message: SegmentsMissing, catalog: Catalog) -> tuple[tuple[Change, ...], list[SegmentId]]:
    """And those that it stays the holder of, since there is no other."""
    bucket = catalog.buckets.get((message.table, message.bucket))
    if bucket is None:
        return (), []
    segments = catalog.segments.get((message.table, message.bucket), {})
    after, changed, alone = after_loss(bucket, segments, message.node, message.segments, catalog=catalog)
    changes = [put(keys.segment(message.table, message.bucket, one.id), one) for one in changed]
    if after != bucket:
        changes.append(put(keys.bucket(message.table, message.bucket), after))
    return tuple(changes), alone


def parse_name(name: str) -> TableName:
    """`database.table` from outside; raises `Refused` (BAD_NAME)."""
    database, dot, table = name.partition(".")
    if not dot or IDENTIFIER.fullmatch(database) is None or IDENTIFIER.fullmatch(table) is None:
        raise Refused(f"{name[:100]!r} is not a table name", code="BAD_NAME", hint="write database.table")
    return TableName(database, table)
