"""A node's disk and a peer's, real and simulated, for the suite that holds both."""

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.data.write_access import Peer
from leasehold.core.membership.identity import hash_secret
from leasehold.core.replicas.reconcile import OnDisk
from leasehold.core.words import keys
from leasehold.core.words.records import NodeRecord, SegmentRecord
from leasehold.errors import LeaseholdError, OutcomeUnknown
from leasehold.ids import BucketNumber, Incarnation, NodeId, ObjectId, SchemaVersion, SegmentId, Session
from leasehold.node.agent.published import Published
from leasehold.node.disk.disk_port import LocalDisk
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.dataplane import DataNode, DataService
from leasehold.testing.disk import MemoryDisk, SegmentDisk
from leasehold.testing.filled import CatalogManifest
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.network import Network
from leasehold.testing.rows import FOOTER, RowId, content_in, row_bytes
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.ports import Disk
from tests.unit.node.cluster import CLUSTER, cluster

TABLE, BUCKET = ObjectId(3), BucketNumber(1)
HERE, PEER = NodeId(1), NodeId(2)
GONE = Peer(NodeId(9), "127.0.0.1:1", "")
NODE = NodeRecord(
    id=HERE,
    name="n1",
    address="n1:9000",
    token_hash=b"",
    incarnation=Incarnation(1),
    nonce=None,
    session_hash=hash_secret(Session("5" * 32)),
    removed=False,
)


def segment_id(number: int) -> SegmentId:
    return SegmentId(f"{number:032x}-{number:032x}")


def on_disk(record: SegmentRecord) -> OnDisk:
    return OnDisk(record.table, record.bucket, record.id)


class Ground(ABC):
    """A node's disk and a peer's, which holds what `peer_put` gives it."""

    disk: Disk
    peer_address: str

    @abstractmethod
    async def put(self, one: OnDisk) -> SegmentRecord:
        """A finished file here; how a manifest describes it."""

    @abstractmethod
    async def peer_put(self, one: OnDisk) -> SegmentRecord:
        """The same at the peer."""

    @abstractmethod
    def begin(self, one: OnDisk) -> AbstractContextManager[object]:
        """A file that is being written here."""

    @abstractmethod
    def damage(self, one: OnDisk) -> None:
        """Changes the bytes of a file here."""

    @abstractmethod
    def peer_damage(self, one: OnDisk) -> None:
        """The same at the peer."""

    async def listed(self) -> frozenset[OnDisk]:
        """The finished segments here."""
        listing = await self.disk.listing()
        return frozenset(OnDisk(*key, segment) for key, segments in listing.items() for segment in segments)

    @property
    def peer(self) -> Peer:
        return Peer(PEER, self.peer_address, "")


def record_of(one: OnDisk, size_bytes: int, sha256: bytes) -> SegmentRecord:
    return SegmentRecord(
        id=one.segment,
        table=one.table,
        bucket=one.bucket,
        schema_version=SchemaVersion(1),
        rows=3,
        size_bytes=size_bytes,
        sha256=sha256,
        statistics=(),
        holders=(PEER,),
    )


class Real(Ground):
    def __init__(self, root: Path) -> None:
        self._cluster = cluster(root, nodes=2)

    def __enter__(self) -> "Real":
        made = self._cluster.__enter__()
        self._here, self._there = made.node(1).files, made.node(2).files
        self.disk = LocalDisk(self._here, made.node(1).published, BoottimeClock().now_ns)
        flight = made.node(2).flight
        assert flight is not None
        self.peer_address = flight.address
        return self

    def __exit__(self, *error: object) -> None:
        self._cluster.__exit__(None, None, None)

    async def put(self, one: OnDisk) -> SegmentRecord:
        return self._put(self._here, one)

    async def peer_put(self, one: OnDisk) -> SegmentRecord:
        return self._put(self._there, one)

    def begin(self, one: OnDisk) -> AbstractContextManager[object]:
        return self._here.create(one.table, one.bucket, one.segment)

    def damage(self, one: OnDisk) -> None:
        self._damage(self._here, one)

    def peer_damage(self, one: OnDisk) -> None:
        self._damage(self._there, one)

    def _put(self, files, one: OnDisk) -> SegmentRecord:
        content = one.segment.encode() * 100
        with files.create(one.table, one.bucket, one.segment) as file:
            file.write(content)
            file.finish()
        return record_of(one, len(content), hashlib.sha256(content).digest())

    def _damage(self, files, one: OnDisk) -> None:
        path = files.path(one.table, one.bucket, one.segment)
        path.write_bytes(b"X" + path.read_bytes()[1:])


class Simulated(Ground):
    def __init__(self, group: asyncio.TaskGroup, random: Random) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = SimulatedClock(loop)
        self.network = Network(loop, random)
        self.group = group
        self.here = SegmentDisk()
        self._there = DataNode(self.network.host("n2"))
        self._myself, self._peer = Published(), Published()
        self._myself.session = Session("5" * 32)
        self._myself.joined(CLUSTER, HERE, Incarnation(1))
        self._peer.joined(CLUSTER, PEER, Incarnation(1))
        self._peer.publish(Catalog().changed([put(keys.node(HERE), NODE)]))
        self.peer_address = "n2:9000"
        self.open()

    def open(self) -> None:
        self.disk = self.files = self.here.open(
            clock=self.clock, transport=self.network.host("n1"), published=self._myself
        )

    async def start(self) -> None:
        self._peer_files = self._there.disk.open(
            clock=self.clock, transport=self.network.host("n2"), published=self._peer
        )
        service = DataService(
            self._there,
            address=self.peer_address,
            disk=self._peer_files,
            manifest=CatalogManifest(lambda: self._peer.view),
            published=self._peer,
            clock=self.clock,
            group=self.group,
        )
        await self.network.host("n2").serve(self.peer_address, service, on_fault=_raise)

    async def put(self, one: OnDisk) -> SegmentRecord:
        return await self._put(self.files, one)

    async def peer_put(self, one: OnDisk) -> SegmentRecord:
        return await self._put(self._peer_files, one)

    def begin(self, one: OnDisk) -> AbstractContextManager[object]:
        return self.files.create(one)

    def damage(self, one: OnDisk) -> None:
        self.here.damage(one)

    def peer_damage(self, one: OnDisk) -> None:
        self._there.disk.damage(one)

    async def _put(self, files: MemoryDisk, one: OnDisk) -> SegmentRecord:
        rows = tuple(RowId(number) for number in range(40))
        with files.create(one) as file:
            file.write(row_bytes(rows) + FOOTER)
            await file.finish()
        content = content_in(row_bytes(rows) + FOOTER)
        return record_of(one, content.size_bytes, content.sha256)


def _raise(fault: BaseException) -> None:
    raise fault


class Over(Exception):
    pass


Check = Callable[[Ground], Awaitable[None]]
Run = Callable[[Check], None]


def simulated(check: Callable[[Simulated], Awaitable[None]]) -> None:
    async def main(random: Random) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                ground = Simulated(group, random)
                await ground.start()
                await check(ground)
                raise Over
        except* Over:
            pass

    run_virtual(main, 1)


FIRST, SECOND = OnDisk(TABLE, BUCKET, segment_id(1)), OnDisk(TABLE, BucketNumber(0), segment_id(2))
OTHER = OnDisk(ObjectId(7), BUCKET, segment_id(3))


async def refusal(work: Awaitable[object]) -> LeaseholdError:
    try:
        await work
    except LeaseholdError as error:
        return error
    raise AssertionError("nothing was raised")


def unheard(_node: NodeId, _error: LeaseholdError | None, _came_bytes: int) -> None:
    pass


async def quietly(work: Awaitable[object]) -> None:
    try:
        await work
    except OutcomeUnknown:
        return
