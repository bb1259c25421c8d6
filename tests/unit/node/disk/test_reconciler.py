"""The reconciler over real files and sockets: what goes wrong with one thing holds up no other."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from leasehold.client.append import stage
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.data.write_access import Peer
from leasehold.core.recovery.events import DiskComparison
from leasehold.core.words import keys
from leasehold.core.words.records import NodeRecord, SegmentRecord
from leasehold.core.words.statements import CreateTable, DropTable, TableName
from leasehold.errors import LeaseholdError
from leasehold.ids import BucketNumber, NodeId, ObjectId, Revision, SegmentId
from leasehold.limits.replication import RECONCILE_RESTS_KEPT, REPAIR_RATE
from leasehold.node.agent.published import Published
from leasehold.node.disk import disk_port as segments
from leasehold.node.disk import reconciler
from leasehold.node.disk.disk_port import LocalDisk, fetch_segment
from leasehold.node.disk.reconciler import RECONCILE_LIMITS, ReconcileLimits, Reconciler
from leasehold.node.disk.rests import Rests
from leasehold.node.serving.flight_service import NodeFlight
from leasehold.storage.files import SegmentFiles
from leasehold.storage.servelog import ServeLog
from leasehold.testing.filled import CatalogManifest
from leasehold.testing.vault import VaultDisk
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.flight import calling, reader_to, ticket
from leasehold.wire.threads import OneThread
from tests.unit.node.cluster import CLUSTER, Cluster, Node, cluster, columns, rows

WITHIN_S = 20
OTHER = TableName("db", "other")
Held = tuple[ObjectId, BucketNumber, tuple[SegmentId, ...]]


class Agent:
    """Follows the test's catalog, and keeps what is reported."""

    def __init__(self, made: Cluster) -> None:
        self._made = made
        self.held: asyncio.Queue[Held] = asyncio.Queue()
        self.missing: asyncio.Queue[Held] = asyncio.Queue()
        self.cleaned: asyncio.Queue[ObjectId] = asyncio.Queue()
        self.compared: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        self.comparison_due: DiskComparison | None = DiskComparison(number=1, revision=Revision(0))
        self.recovered = True
        self.must_verify = False
        self.fetched = self.evicted = 0

    @property
    def durable(self) -> Catalog:
        return self._made.catalog

    @property
    def caught_up(self) -> bool:
        return True

    async def report_held(self, table: ObjectId, bucket: BucketNumber, segments: tuple[SegmentId, ...]) -> None:
        self.held.put_nowait((table, bucket, segments))

    async def report_missing(self, table: ObjectId, bucket: BucketNumber, segments: tuple[SegmentId, ...]) -> None:
        self.missing.put_nowait((table, bucket, segments))

    async def report_cleaned(self, table: ObjectId) -> None:
        self.cleaned.put_nowait(table)

    async def comparable(self) -> None:
        """The first one is due from the start."""

    def on_disk_compared(self, comparison: DiskComparison, *, kept: int, missing: int) -> None:
        if comparison == self.comparison_due:
            self.comparison_due = None
            self.compared.put_nowait((kept, missing))

    def counted(self, *, fetched: int = 0, evicted: int = 0, missing: int | None = None) -> None:
        self.fetched += fetched
        self.evicted += evicted

    async def verified(self) -> None:
        self.must_verify = False

    async def held_segments(self, count: int) -> list[tuple[SegmentId, ...]]:
        """The reports until so many segments are in them."""
        reports: list[tuple[SegmentId, ...]] = []
        async with asyncio.timeout(WITHIN_S):
            while sum(len(one) for one in reports) < count:
                reports.append((await self.held.get())[2])
        return reports


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Cluster]:
    """Three segments on two nodes; the second node has lost their files."""
    with cluster(tmp_path, nodes=2) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        for number in range(3):
            transaction = made.open()
            batch = rows(100 * number, 100)
            made.commit(transaction, stage(made.facts(), transaction, [batch], made.catalog.revision))
        for record in made.plan().segments:
            assert record.holders == (1, 2)
            made.node(2).files.trash(record.table, record.bucket, record.id)
        yield made


def listed(node: Node) -> set[SegmentId]:
    return {segment for _, _, segment in node.files.listing()}


class _Over(Exception):
    pass


@asynccontextmanager
async def reconciling(
    made: Cluster,
    *,
    files: SegmentFiles | None = None,
    agent: Agent | None = None,
    limits: ReconcileLimits = RECONCILE_LIMITS,
) -> AsyncIterator[Agent]:
    """The second node's reconciler at work."""
    agent, node = agent or Agent(made), made.node(2)
    disk = LocalDisk(files or node.files, node.published, BoottimeClock().now_ns)
    vault: Any = VaultDisk().open()
    vault.manifest = CatalogManifest(lambda: agent.durable)
    reconciler = Reconciler(
        agent=agent,
        published=node.published,
        disk=disk,
        since_start=await disk.listing(),
        vault=vault,
        clock=BoottimeClock(),
        threads=OneThread(),
        limits=limits,
    )
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(reconciler.run())
            yield agent
            raise _Over
    except* _Over:
        pass


def copy_back(made: Cluster, record: SegmentRecord, content: bytes) -> None:
    with made.node(1).files.create(record.table, record.bucket, record.id) as file:
        file.write(content)
        file.finish()


def create_other(made: Cluster) -> ObjectId:
    made.run(CreateTable(name=OTHER, columns=columns(("k", "BIGINT")), buckets=1, replication=2))
    return made.catalog.table(OTHER).id


def change_record(made: Cluster, record: SegmentRecord) -> None:
    made.change([put(keys.segment(record.table, record.bucket, record.id), record)])


def intercept(monkeypatch: pytest.MonkeyPatch, before: Callable[[SegmentRecord, list[NodeId]], None]) -> None:
    """Has `before` called ahead of each fetch, on the thread that does it, with the nodes that it may ask."""

    def intercepted(files, record, places, *rest, **named):
        before(record, [one.node for one in places])
        return fetch_segment(files, record, places, *rest, **named)

    monkeypatch.setattr(segments, "fetch_segment", intercepted)


# ---------------------------------------------------------------- replicas


async def test_copies_wait_for_the_rate_of_the_cluster_and_follow_it(made: Cluster) -> None:
    def set_rate(rate: int) -> None:
        assert made.catalog.settings is not None
        made.change([put(keys.SETTINGS, msgspec.structs.replace(made.catalog.settings, repair_rate=rate))])

    set_rate(1)
    async with reconciling(made) as agent:
        await agent.held_segments(1)
        assert len(listed(made.node(2))) == 1, "the next one has to wait for minutes"
        set_rate(REPAIR_RATE)
        await agent.held_segments(2)


@pytest.mark.parametrize("by", ["scan", "copy"])
async def test_a_damaged_file_that_a_reader_met_is_missing_and_fetched_again(tmp_path: Path, by: str) -> None:
    with cluster(tmp_path, nodes=2) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        transaction = made.open()
        made.commit(transaction, stage(made.facts(), transaction, [rows(0, 100)], made.catalog.revision))
        (record,) = made.plan().segments
        node = made.node(2)
        address = made.catalog.nodes[node.id].address
        path = node.files.path(record.table, record.bucket, record.id)
        sound = path.read_bytes()
        path.write_bytes(sound[:100] + b"X" + sound[101:])

        def scan() -> int:
            with calling(address):
                return reader_to(address).do_get(ticket(made.read_ticket(record))).read_all().num_rows

        def copy() -> None:
            made.node(1).files.trash(record.table, record.bucket, record.id)
            asked: list[LeaseholdError | None] = []
            fetch_segment(
                made.node(1).files,
                record,
                [Peer(node.id, address, "")],
                CLUSTER,
                made.node(1).published,
                lambda _node, error, _came: asked.append(error),
            )
            (error,) = asked
            assert error is not None
            raise error

        with pytest.raises(LeaseholdError) as caught:
            await asyncio.to_thread(scan if by == "scan" else copy)
        assert caught.value.code == "CORRUPT"
        if by == "copy":
            copy_back(made, record, sound)
        async with reconciling(made) as agent, asyncio.timeout(WITHIN_S):
            assert await agent.missing.get() == (record.table, record.bucket, (record.id,))
            assert path.exists(), "it may be the last copy, until the leader has struck it"
            change_record(made, msgspec.structs.replace(record, holders=(NodeId(1),)))
            assert await agent.held_segments(1) == [(record.id,)]
        assert path.read_bytes() == sound
        assert await asyncio.to_thread(scan) == 100


async def test_what_is_missing_is_fetched_and_reported_together(made: Cluster) -> None:
    wanted = {record.id for record in made.plan().segments}
    async with reconciling(made) as agent:
        reports = await agent.held_segments(3)
    assert {segment for one in reports for segment in one} == wanted
    assert listed(made.node(2)) == wanted


async def test_a_report_is_cut_to_the_limit(made: Cluster) -> None:
    async with reconciling(made, limits=ReconcileLimits(report_segments_max=2)) as agent:
        reports = await agent.held_segments(3)
    assert max(len(one) for one in reports) <= 2


async def test_a_segment_is_reported_while_the_next_one_is_still_on_its_way(
    made: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    *others, last = made.plan().segments
    go_on = threading.Event()
    intercept(monkeypatch, lambda record, _: record.id != last.id or go_on.wait(WITHIN_S) or None)
    try:
        async with reconciling(made) as agent:
            reported = await agent.held_segments(len(others))
            assert {one for segments in reported for one in segments} == {one.id for one in others}
            go_on.set()
            await agent.held_segments(1)
    finally:
        go_on.set()


async def test_deleting_does_not_wait_for_a_fetch(made: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    started, go_on = threading.Event(), threading.Event()

    def hold(_record: SegmentRecord, _nodes: list[NodeId]) -> None:
        started.set()
        go_on.wait(WITHIN_S)

    intercept(monkeypatch, hold)
    table = create_other(made)
    try:
        async with reconciling(made) as agent, asyncio.timeout(WITHIN_S):
            await asyncio.to_thread(started.wait, WITHIN_S)
            made.run(DropTable(table=OTHER))
            assert await agent.cleaned.get() == table
            assert not go_on.is_set()
            go_on.set()
    finally:
        go_on.set()


@pytest.fixture
def starting(tmp_path: Path) -> Iterator[NodeFlight]:
    """A node that listens and has not joined yet."""
    files = SegmentFiles(tmp_path / "starting")
    files.open()
    flight = NodeFlight(
        published=Published(),
        files=files,
        manifest=CatalogManifest(Catalog),
        serve_log=ServeLog(tmp_path / "starting" / "servelog"),
        now_ns=BoottimeClock().now_ns,
    )
    yield flight
    flight.shutdown()


@pytest.mark.parametrize("listens", [False, True])
async def test_a_peer_that_failed_delays_one_copy_and_not_each(
    made: Cluster, starting: NodeFlight, listens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = NodeId(3)
    made.change(
        [
            put(
                keys.node(gone),
                NodeRecord(
                    id=gone,
                    name="gone",
                    address=starting.address if listens else "127.0.0.1:1",
                    token_hash=b"",
                    incarnation=1,
                    nonce=None,
                    session_hash=None,
                    removed=False,
                ),
            )
        ]
    )
    for record in made.plan().segments:
        change_record(made, msgspec.structs.replace(record, holders=(gone, 1)))
    asked: list[list[NodeId]] = []
    intercept(monkeypatch, lambda _, nodes: asked.append(nodes))
    monkeypatch.setattr(reconciler, "FETCHES_AT_ONCE", 1)
    async with reconciling(made) as agent:
        await agent.held_segments(3)
    assert asked == [[3, 1], [1], [1]]


def test_rests_double_up_to_a_limit_and_are_bounded() -> None:
    now_ns = 0
    rests = Rests(lambda: now_ns, min_ns=10, max_ns=35)
    assert [rests.begin("a") for _ in range(4)] == [10, 20, 35, 35]
    assert "a" in rests
    assert "b" not in rests
    now_ns = 35
    assert "a" not in rests
    rests.forget("a")
    assert rests.begin("a") == 10
    for number in range(RECONCILE_RESTS_KEPT):
        rests.begin(number)
    assert "a" not in rests
    assert 0 in rests
