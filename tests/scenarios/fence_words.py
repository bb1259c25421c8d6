"""Words that the scenarios of a fenced node share: a simulated cluster, and the real doors of one of its nodes."""

import asyncio

import pyarrow as pa

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import (
    AskTable,
    FetchTicket,
    ForwardTicket,
    OpenTransaction,
    ReadTicket,
    Renewal,
    TableFacts,
    TransactionFacts,
    WriteTicket,
)
from leasehold.errors import LeaseholdError
from leasehold.node.serving.flight_service import NodeFlight
from leasehold.storage.files import SegmentFiles
from leasehold.storage.servelog import ServeLog
from leasehold.testing.cluster import COORDINATOR, SimulatedCluster
from leasehold.testing.loop import run_virtual
from leasehold.testing.vault import MemoryManifest

COLUMN = "b"


class Over(Exception):
    pass


def simulate(scenario, *, nodes=3, seed=1):
    """Runs a scenario on a cluster that serves, with one table d.t (a INT, b INT) of one bucket on one node."""

    async def main(random):
        cluster = SimulatedCluster(random, nodes=nodes)
        try:
            async with asyncio.TaskGroup() as group:
                await cluster.start(group)
                await cluster.sql("CREATE DATABASE d")
                await cluster.sql(f"CREATE TABLE d.t (a INT, {COLUMN} INT) TBLPROPERTIES ('replication' = '1')")
                await asyncio.sleep(1)
                await scenario(cluster, group)
                raise Over
        except* Over:
            pass

    run_virtual(main, seed)


async def facts(cluster):
    """The table as a client looks it up."""
    request = AskTable(cluster_id=None, name="d.t")
    return await cluster.ask(request, TableFacts)


def replica(cluster, table):
    """The node that the table's bucket is on, and all others."""
    (number,) = table.buckets[0].replicas
    (node,) = [one for one in cluster.nodes if one.published.node == number]
    return node, [one for one in cluster.nodes if one is not node]


async def opened(cluster, table):
    """An open write transaction on it, shown by every node that can."""
    transaction = cluster.entropy.hex_128()
    request = OpenTransaction(
        cluster_id=table.cluster_id,
        transaction=transaction,
        table=table.table,
        schema_version=table.schema_version,
    )
    await cluster.ask(request, TransactionFacts)
    await asyncio.sleep(1)
    return transaction


class Doors:
    """What a data node serves with, the production objects, at a simulated node: on its view, its lease, its clock."""

    def __init__(self, node, root):
        files = SegmentFiles(root / node.name)
        files.open()
        self.who = f"node {node.published.node} ({node.name})"
        self.published = node.published
        self.flight = NodeFlight(
            published=node.published,
            files=files,
            manifest=MemoryManifest(lambda: node.disk.state),
            serve_log=ServeLog(root / node.name / "servelog"),
            now_ns=node.clock.now_ns,
        )

    def close(self):
        self.flight.shutdown()

    def health(self):
        return self.flight.health()

    def codes(self, table, transaction, **other):
        """What each door answers to a request on this table that nothing stands behind: no file, no rows, no sender."""
        return {
            "read": self.read(table, **other),
            "write": self.put(write_ticket(table, transaction, **other)),
            "forward": self.put(forward_ticket(table, transaction, **other)),
        }

    def put(self, ticket):
        return refusal(lambda: list(self.flight.put(encode(ticket), CutOff(), None)))

    def read(self, table, **other):
        return refusal(lambda: self.flight.get(encode(read_ticket(table, **other)), None))

    def fetch(self, table):
        request = FetchTicket(
            cluster_id=table.cluster_id,
            table=table.table,
            bucket=0,
            segment="a" * 32 + "-" + "b" * 32,
            node=self.published.node,
            session=self.published.session,
        )
        return refusal(lambda: self.flight.get(encode(request), None))


class CutOff:
    """A stream that ends before anything came."""

    schema = pa.schema([])

    def __iter__(self):
        yield from ()


def refusal(call):
    try:
        call()
    except LeaseholdError as error:
        return error
    raise AssertionError("nothing stands behind this request: it can't be served")


def read_ticket(table, *, number=None, bucket=0):
    return ReadTicket(
        cluster_id=table.cluster_id,
        request="r",
        table=table.table if number is None else number,
        bucket=bucket,
        segment="a" * 32 + "-" + "b" * 32,
        sha256=b"",
        row_offset=0,
        fields=table.fields,
        revision=0,
    )


def write_ticket(table, transaction, *, number=None, bucket=0):
    return WriteTicket(
        cluster_id=table.cluster_id,
        transaction=transaction,
        segment=f"{transaction}-{'b' * 32}",
        table=table.table if number is None else number,
        bucket=bucket,
        schema_version=table.schema_version,
        revision=0,
    )


def forward_ticket(table, transaction, *, number=None, bucket=0):
    return ForwardTicket(
        cluster_id=table.cluster_id,
        segment=f"{transaction}-{'b' * 32}",
        table=table.table if number is None else number,
        bucket=bucket,
        revision=0,
        sender=table.buckets[0].replicas[-1],
        sender_incarnation=99,
    )


class Heard:
    """Every message of one kind on its way between two hosts, seen once each, none of them held up."""

    def __init__(self, cluster, src, dst, kind, key):
        self._kind, self._key = kind, key
        self.messages = {}
        cluster.network.hold(src, dst, self._see)

    def _see(self, message):
        if isinstance(message, self._kind):
            self.messages[self._key(message)] = message
        return False


def renewals_of(cluster, node):
    return Heard(cluster, node.name, COORDINATOR, Renewal, lambda message: message.request)
