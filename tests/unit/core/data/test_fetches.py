"""A copy of a segment from another node, on a disk and from peers that are a few lines here."""

import hashlib
from collections.abc import AsyncGenerator
from typing import Self

from leasehold.core.data.fetches import fetch_segment
from leasehold.core.data.write_access import Peer
from leasehold.core.replicas.reconcile import OnDisk
from leasehold.core.words.messages import FetchTicket
from leasehold.core.words.records import SegmentRecord
from leasehold.errors import LeaseholdError, Unreachable
from leasehold.ids import BucketNumber, ClusterId, NodeId, ObjectId, SchemaVersion, SegmentId
from leasehold.node.agent.published import Published
from leasehold.wire.steps import run

CONTENT = b"what the segment holds" * 10
RECORD = SegmentRecord(
    id=SegmentId("1"),
    table=ObjectId(3),
    bucket=BucketNumber(0),
    schema_version=SchemaVersion(1),
    rows=3,
    size_bytes=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).digest(),
    statistics=(),
    holders=(),
)


class File:
    def __init__(self) -> None:
        self.content = b""
        self.is_finished = self.is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_closed = True

    @property
    def size_bytes(self) -> int:
        return len(self.content)

    def write(self, chunk: bytes | memoryview) -> None:
        self.content += chunk

    async def finish(self) -> None:
        self.is_finished = True


class Disk:
    def __init__(self) -> None:
        self.files: list[File] = []

    def exists(self, _one: OnDisk) -> bool:
        return False

    def create(self, _one: OnDisk) -> File:
        self.files.append(File())
        return self.files[-1]

    async def is_whole(self, _record: SegmentRecord) -> bool:
        raise AssertionError("there is no file")


class Sources:
    """Each node gives its chunks again and again, if it is endless, or breaks off after them."""

    def __init__(self, chunks: dict[str, bytes], *, endless: str = "", broken: str = "") -> None:
        self._chunks = chunks
        self._endless = endless
        self._broken = broken
        self.given: list[int] = []
        self.closed: list[str] = []

    async def chunks(self, peer: Peer, request: FetchTicket, timeout_ns: int) -> AsyncGenerator[bytes]:
        assert (request.segment, request.node) == (RECORD.id, NodeId(0))
        assert timeout_ns > 0
        self.given.append(0)
        try:
            while True:
                for start in range(0, len(self._chunks[peer.address]), 10):
                    chunk = self._chunks[peer.address][start : start + 10]
                    self.given[-1] += len(chunk)
                    yield chunk
                if peer.address == self._broken:
                    raise Unreachable("gone")
                if peer.address != self._endless:
                    return
        finally:
            self.closed.append(peer.address)


def fetched(sources: Sources) -> tuple[bool, list[File], list[tuple[NodeId, str | None]]]:
    disk, asked = Disk(), list[tuple[NodeId, str | None]]()

    def on_asked(node: NodeId, error: LeaseholdError | None, came_bytes: int) -> None:
        assert came_bytes == len(disk.files[-1].content)
        asked.append((node, None if error is None else error.code))

    places = [Peer(NodeId(1), "a", "n1"), Peer(NodeId(2), "b", "n2")]
    done = run(
        fetch_segment(disk, sources, RECORD, places, cluster_id=ClusterId("c"), asking=Published(), on_asked=on_asked)
    )
    assert all(file.is_closed for file in disk.files)
    return done, disk.files, asked


def test_a_copy_that_grows_over_its_size_is_ended_at_once_and_the_next_node_asked() -> None:
    """A peer that goes on for ever would fill the disk."""
    sources = Sources({"a": CONTENT, "b": CONTENT}, endless="a")
    done, files, asked = fetched(sources)
    assert done
    assert sources.given[0] <= len(CONTENT) + 10
    assert [one.is_finished for one in files] == [False, True]
    assert len(files[0].content) <= len(CONTENT)
    assert files[1].content == CONTENT
    assert asked == [(NodeId(1), "CORRUPT"), (NodeId(2), None)]
    assert sources.closed == ["a", "b"]


def test_a_copy_that_differs_or_breaks_off_is_thrown_away() -> None:
    other = CONTENT[:-1] + b"?"
    done, files, asked = fetched(Sources({"a": other, "b": CONTENT[:50]}, broken="b"))
    assert not done
    assert not any(one.is_finished for one in files)
    assert asked == [(NodeId(1), "CORRUPT"), (NodeId(2), "UNREACHABLE")]
