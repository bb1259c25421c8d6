"""Data nodes with real sockets and files, and a catalog made by hand: no coordinator, leases by decree."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from leasehold.client.threads import of_process
from leasehold.core.catalog.catalog import Catalog, live_fields
from leasehold.core.catalog.plan import Context, put
from leasehold.core.data.commit import commit_transaction, open_transaction
from leasehold.core.data.cutoff import cutoff
from leasehold.core.ddl import Request, begin, finish
from leasehold.core.lease.holder import NO_LEASE, Lease
from leasehold.core.membership.generations import generation_of
from leasehold.core.membership.identity import hash_secret
from leasehold.core.words import keys
from leasehold.core.words.messages import (
    BucketPlaces,
    CommitTransaction,
    OpenTransaction,
    Place,
    ReadTicket,
    ScanPlan,
    StagedSegment,
    TableFacts,
)
from leasehold.core.words.operations import Change
from leasehold.core.words.records import (
    ClusterRecord,
    CountersRecord,
    HorizonRecord,
    NodeRecord,
    ProcedureRecord,
    SegmentRecord,
    SettingsRecord,
    TableRecord,
)
from leasehold.core.words.statements import (
    AddColumns,
    ColumnDefinition,
    CreateDatabase,
    CreateTable,
    Definition,
    DropColumn,
    DropTable,
    RenameColumn,
    TableName,
)
from leasehold.core.words.types import parse_type
from leasehold.ids import (
    BucketNumber,
    ClusterId,
    Generation,
    Incarnation,
    NodeId,
    ObjectId,
    Revision,
    Sequence,
    Session,
    StatementId,
    Term,
    TransactionId,
)
from leasehold.limits.lease import LEASE_DURATION_NS
from leasehold.node.agent.published import Published
from leasehold.node.serving.flight_service import SERVING_LIMITS, NodeFlight, ServingLimits
from leasehold.storage.files import SegmentFiles
from leasehold.storage.schema import FIELD_ID_KEY
from leasehold.storage.servelog import ServeLog
from leasehold.testing.filled import CatalogManifest
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.tls import Tls

CLUSTER = ClusterId("c" * 32)
NAME = TableName("db", "t")
FAR_NS = 2**62


def columns(*pairs: tuple[str, str]) -> tuple[ColumnDefinition, ...]:
    return tuple(ColumnDefinition(name=name, type=parse_type(kind)) for name, kind in pairs)


def add(name: str, kind: str = "STRING") -> AddColumns:
    return AddColumns(table=NAME, columns=columns((name, kind)))


def rename(old: str, new: str) -> RenameColumn:
    return RenameColumn(table=NAME, old=old, new=new)


def drop_column(name: str) -> DropColumn:
    return DropColumn(table=NAME, column=name)


DROP_TABLE = DropTable(table=NAME)


@dataclasses.dataclass
class Node:
    """One data node. After `fence_after` looks at its clock, the clock jumps beyond every deadline."""

    published: Published
    files: SegmentFiles
    root: Path
    flight: NodeFlight | None = None
    fence_after: int | None = None
    stands_ns: int | None = None
    """What its clock shows, if it stands still."""
    before_reading: list[tuple[int, Callable[[], object]]] = dataclasses.field(default_factory=list)
    readings: int = 0
    stored: Catalog | None = None
    """What its vault holds, where that is not what it shows."""

    @property
    def id(self) -> NodeId:
        return self.published.node

    def now_ns(self) -> int:
        self.readings += 1
        stands_ns = self.stands_ns
        for at, action in self.before_reading:
            if at == self.readings:
                action()
        if self.fence_after is not None and self.readings > self.fence_after:
            return FAR_NS + 5_000_000
        return BoottimeClock().now_ns() if stands_ns is None else stands_ns

    def fence(self) -> None:
        self.published.lease = msgspec.structs.replace(
            self.published.lease, deadline_ns=BoottimeClock().now_ns() - 1_234_000_000
        )

    def grant(self, sequence: int = 1) -> None:
        self.published.hold(Lease(term=Term(1), sequence=Sequence(sequence), deadline_ns=FAR_NS))

    def at_reading(self, number: int, action: Callable[[], object]) -> None:
        """Runs `action` at the n-th look at the clock from now on: each guard looks once."""
        self.before_reading.append((self.readings + number, action))

    def fence_at_reading(self, number: int) -> None:
        self.fence_after = self.readings + number - 1


class Cluster:
    """A catalog that statements change, shown to all nodes at once unless told otherwise."""

    def __init__(self, root: Path, *, nodes: int, limits: ServingLimits = SERVING_LIMITS) -> None:
        self.catalog = Catalog().changed(
            [
                put(keys.CLUSTER, ClusterRecord(cluster_id=CLUSTER, generation=Generation(1), format_version=1)),
                put(
                    keys.SETTINGS,
                    SettingsRecord(
                        lease_duration_ns=LEASE_DURATION_NS,
                        lease_margin_ns=0,
                        drift_ppm=10_000,
                        catch_up_difference=100,
                        min_in_sync=1,
                    ),
                ),
                put(
                    keys.COUNTERS,
                    CountersRecord(
                        next_node=NodeId(nodes + 1), next_object=ObjectId(1), next_procedure=1, next_transaction=1
                    ),
                ),
            ]
        )
        self.limits = limits
        self.tls: Tls | None = None
        """With which nodes serve that start from now on."""
        self.wall_us = 0
        self.login: bytes | None = None
        """Of whoever runs statements."""
        self.faults: list[BaseException] = []
        self.nodes: list[Node] = []
        for number in range(1, nodes + 1):
            self.nodes.append(self._node(root, NodeId(number)))
            self.start(self.nodes[-1])
        self.run(CreateDatabase(name="db"))

    def _node(self, root: Path, node: NodeId) -> Node:
        published = Published()
        published.joined(CLUSTER, node, Incarnation(1))
        published.session = Session(SystemEntropy().hex_128())
        published.seal_key = b"key of node %d" % node
        files = SegmentFiles(root / f"node-{node}")
        files.open()
        made = Node(published, files, root / f"node-{node}")
        made.grant()
        return made

    def start(self, node: Node) -> None:
        """Serves, at a port that is free."""
        node.flight = NodeFlight(
            published=node.published,
            files=node.files,
            manifest=CatalogManifest(lambda: node.stored or node.published.view),
            serve_log=ServeLog(node.root / "servelog"),
            now_ns=node.now_ns,
            on_fault=self.faults.append,
            limits=self.limits,
            tls=self.tls,
        )
        record = NodeRecord(
            id=node.id,
            name=f"n{node.id}",
            address=node.flight.address,
            token_hash=b"",
            incarnation=Incarnation(1),
            nonce=None,
            session_hash=None if node.published.session is None else hash_secret(node.published.session),
            removed=False,
        )
        self.change([put(keys.node(node.id), record)])

    def stop(self, node: Node) -> None:
        if node.flight is not None:
            node.flight.shutdown()
            node.flight = None

    def limit(self, **limits: Any) -> None:
        """Serves on with other limits, at other ports."""
        self.limits = self.limits._replace(**limits)
        for node in self.nodes:
            self.stop(node)
            self.start(node)

    def node(self, number: int) -> Node:
        return self.nodes[number - 1]

    # ------------------------------------------------------------ the catalog

    def change(self, changes: Iterable[Change], *, shown: bool = True) -> None:
        changed = self.catalog.changed(changes)
        self.catalog = msgspec.structs.replace(changed, revision=Revision(self.catalog.revision + 1))
        if shown:
            self.show()

    def show(self) -> None:
        for node in self.nodes:
            node.published.publish(self.catalog)

    def run(self, statement: Definition, *, shown: bool = True) -> None:
        """Both transactions of a statement."""
        request = self._request(statement)
        begun = begin(request, self.catalog)
        self.change(begun.changes, shown=shown)
        if begun.procedure is not None and begun.procedure.hides:
            self.change(finish(begun.procedure, self.catalog), shown=shown)

    def hide(self, statement: Definition) -> ProcedureRecord:
        """The first transaction alone: of a destructive statement, its pre-state."""
        begun = begin(self._request(statement), self.catalog)
        self.change(begun.changes)
        assert begun.procedure is not None
        return begun.procedure

    def _request(self, statement: Definition) -> Request:
        context = Context(serving=tuple(node.id for node in self.nodes), wall_us=self.wall_us, login=self.login)
        return Request(
            id=StatementId(SystemEntropy().hex_128()), text="", statement=statement, bound_ns=1, context=context
        )

    def create(self, *pairs: tuple[str, str], buckets: int = 1, replication: int = 2, **more: Any) -> None:
        self.run(
            CreateTable(
                name=NAME,
                columns=columns(*pairs),
                buckets=buckets,
                replication=replication,
                **more,
            )
        )

    def recovered(self, generation: Generation) -> None:
        """Goes on as another generation of itself."""
        assert self.catalog.cluster is not None
        self.change([put(keys.CLUSTER, msgspec.structs.replace(self.catalog.cluster, generation=generation))])

    def expire_before(self, horizon_us: int) -> None:
        known = self.catalog.horizons.get(self.table.id, HorizonRecord(table=self.table.id, horizon_us=horizon_us))
        self.change([put(keys.horizon(self.table.id), msgspec.structs.replace(known, horizon_us=horizon_us))])

    @property
    def table(self) -> TableRecord:
        return self.catalog.table(NAME)

    def facts(self) -> TableFacts:
        table = self.table
        places = [
            Place(node=one.id, name=one.name, address=one.address, incarnation=one.incarnation)
            for one in self.catalog.nodes.values()
        ]
        buckets = [
            BucketPlaces(
                bucket=BucketNumber(number), replicas=self.catalog.buckets[table.id, BucketNumber(number)].replicas
            )
            for number in range(table.buckets)
        ]
        return TableFacts(
            cluster_id=CLUSTER,
            revision=self.catalog.revision,
            table=table.id,
            name=str(NAME),
            schema_version=table.schema_version,
            fields=live_fields(table),
            cluster_by=table.cluster_by,
            buckets=tuple(buckets),
            places=tuple(places),
            generation=generation_of(self.catalog),
        )

    def plan(self, *names: str) -> ScanPlan:
        facts = self.facts()
        fields = tuple(one for one in facts.fields if not names or one.name in names)
        segments: list[SegmentRecord] = []
        for bucket in facts.buckets:
            segments.extend(self.catalog.bucket_segments(facts.table, bucket.bucket))
        gone = cutoff(self.table, self.catalog)
        return ScanPlan(facts=facts, fields=fields, segments=tuple(segments), cutoff=gone)

    # ------------------------------------------------------------ write transactions

    def open(self) -> TransactionId:
        transaction = TransactionId(SystemEntropy().hex_128())
        table = self.table
        request = OpenTransaction(
            cluster_id=CLUSTER,
            transaction=transaction,
            table=table.id,
            schema_version=table.schema_version,
            generation=generation_of(self.catalog),
        )
        self.change(open_transaction(request, self.catalog))
        return transaction

    def commit(self, transaction: TransactionId, segments: tuple[StagedSegment, ...], **more: Any) -> None:
        request = CommitTransaction(cluster_id=CLUSTER, transaction=transaction, segments=segments, **more)
        live = {node.id: Incarnation(1) for node in self.nodes}
        seal_keys = {node.id: node.published.seal_key for node in self.nodes}
        self.change(commit_transaction(request, self.catalog, incarnations=live, seal_keys=seal_keys, wall_us=0))

    def read_ticket(self, segment: SegmentRecord, **other: object) -> ReadTicket:
        ticket = ReadTicket(
            cluster_id=CLUSTER,
            request="r",
            table=segment.table,
            bucket=segment.bucket,
            segment=segment.id,
            sha256=segment.sha256,
            row_offset=0,
            fields=live_fields(self.table),
            revision=self.catalog.revision,
            generation=generation_of(self.catalog),
        )
        return msgspec.structs.replace(ticket, **other)

    def planned_ticket(self, segment: SegmentRecord, **other: object) -> ReadTicket:
        """A ticket as clients make it, with what is gone by now."""
        return self.read_ticket(segment, cutoff=cutoff(self.table, self.catalog), **other)


@contextmanager
def cluster(root: Path, *, nodes: int = 2, **limits: Any) -> Iterator[Cluster]:
    """Ends its servers; a handler that failed in a way nobody foresaw fails the test."""
    made = Cluster(root, nodes=nodes, limits=ServingLimits(**{"batch_rows": 1_000, **limits}))
    of_process.cache_clear()  # of another one with the same id
    try:
        yield made
        assert not made.faults, made.faults
    finally:
        for node in made.nodes:
            made.stop(node)


def rows(start: int, count: int) -> pa.RecordBatch:
    """Rows (k BIGINT, v STRING) that can be told apart, with the ids of the first two columns of a table."""
    numbers = range(start, start + count)
    kinds = {"k": pa.int64(), "v": pa.string()}
    fields = [
        pa.field(name, kind, metadata={FIELD_ID_KEY: b"%d" % place})
        for place, (name, kind) in enumerate(kinds.items(), start=1)
    ]
    values = {"k": list(numbers), "v": [f"v{number}" for number in numbers]}
    return pa.RecordBatch.from_pydict(values, pa.schema(fields))


def no_lease(node: Node) -> None:
    node.published.hold(NO_LEASE)
