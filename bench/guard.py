"""The guard and the authorisation of a batch, against one clock read, in turn in one process."""

from collections.abc import Callable
from time import perf_counter_ns

from bench.figures import Figure, Table, median, ratios, spread
from leasehold.client.threads import THREADS
from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import Context, put
from leasehold.core.data.read_access import authorise
from leasehold.core.data.requests import Requests
from leasehold.core.ddl import Request, begin
from leasehold.core.lease.holder import Lease, guard
from leasehold.core.membership.generations import generation_of
from leasehold.core.words import keys
from leasehold.core.words.messages import ReadTicket
from leasehold.core.words.records import CountersRecord, NodeRecord, SegmentRecord
from leasehold.core.words.statements import CreateDatabase, CreateTable, TableName
from leasehold.ids import (
    BucketNumber,
    ClusterId,
    Incarnation,
    NodeId,
    ObjectId,
    Revision,
    SegmentId,
    Sequence,
    StatementId,
    Term,
)
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.published import Published
from leasehold.sql.parse import parse
from leasehold.wire.clock import BoottimeClock

ROUNDS, CALLS = 40, 20_000
SMALLEST = 2, 100


def per_call_ns(calls: int, work: Callable[..., object], *arguments: object) -> float:
    began = perf_counter_ns()
    for _ in range(calls):
        work(*arguments)
    return (perf_counter_ns() - began) / calls


def published_table() -> tuple[Published, ReadTicket]:
    """A node with a lease, and a ticket for a table of fourteen columns."""
    columns = ", ".join(f"c{number} BIGINT" for number in range(14))
    catalog = Catalog(
        revision=Revision(10),
        settings=DEFAULT_SETTINGS,
        counters=CountersRecord(next_node=NodeId(2), next_object=ObjectId(1), next_procedure=1, next_transaction=1),
    )
    node = NodeRecord(
        id=NodeId(1),
        name="node-1",
        address="127.0.0.1:1",
        token_hash=bytes(32),
        incarnation=Incarnation(1),
        nonce=None,
        session_hash=None,
        removed=False,
    )
    catalog = catalog.changed([put(keys.node(node.id), node)])
    for number, text in enumerate(("CREATE DATABASE d", f"CREATE TABLE d.t ({columns})")):
        statement = parse(text)
        assert isinstance(statement, CreateDatabase | CreateTable)
        request = Request(
            id=StatementId(f"{number:032x}"),
            text=text,
            statement=statement,
            bound_ns=0,
            context=Context(serving=(node.id,)),
        )
        catalog = catalog.changed(begin(request, catalog).changes)
    table = catalog.table(TableName("d", "t"))
    segment = SegmentRecord(
        id=SegmentId(f"{0:032x}-{0:032x}"),
        table=table.id,
        bucket=BucketNumber(0),
        schema_version=table.schema_version,
        rows=1,
        size_bytes=1,
        sha256=bytes(32),
        statistics=(),
        holders=(node.id,),
    )
    catalog = catalog.changed([put(keys.segment(segment.table, segment.bucket, segment.id), segment)])
    published = Published()
    published.joined(ClusterId("0" * 32), node.id, node.incarnation)
    published.publish(catalog)
    published.hold(Lease(term=Term(1), sequence=Sequence(1), deadline_ns=BoottimeClock().now_ns() + 3600 * SECOND_NS))
    ticket = ReadTicket(
        generation=generation_of(catalog),
        cluster_id=published.cluster_id,
        request="0" * 32,
        table=table.id,
        bucket=segment.bucket,
        segment=segment.id,
        sha256=segment.sha256,
        row_offset=0,
        fields=table.fields,
        revision=catalog.revision,
    )
    return published, ticket


def run(smallest: bool) -> list[Table]:
    rounds, calls = SMALLEST if smallest else (ROUNDS, CALLS)
    published, ticket = published_table()
    now_ns = BoottimeClock().now_ns
    bucket = (ticket.table, ticket.bucket)
    entry = published.view.segments.one(bucket, ticket.segment)
    requests = Requests(published, THREADS)
    table = authorise(ticket, requests.guarded(bucket).view, entry)
    clock, guards, batches = list[float](), list[float](), list[float]()
    for _ in range(rounds):
        clock.append(per_call_ns(calls, now_ns))
        guards.append(per_call_ns(calls, guard, published, now_ns))
        batches.append(per_call_ns(calls, lambda: authorise(ticket, requests.guarded(bucket).view, entry, table)))
    guard_ratio = median(ratios(guards, clock))
    figures = [
        Figure(
            what="guard of a batch",
            value=spread(guards, "ns", 0),
            peer=spread(clock, "ns", 0),
            ratio=f"{guard_ratio:.2f}",
            aim="at most 2",
            holds=guard_ratio <= 2,
        ),
        Figure(
            what="guard and authorisation, 14 columns",
            value=spread(batches, "ns", 0),
            peer=spread(clock, "ns", 0),
            ratio=f"{median(ratios(batches, clock)):.2f}",
            aim="under 1500 ns",
            holds=median(batches) < 1500,
        ),
    ]
    return [Table(title="Guard: against one clock read", figures=figures)]
