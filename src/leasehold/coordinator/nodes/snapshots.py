"""Snapshots: the watched range at one revision, page by page, for nodes that can't replay (case c in docs/recovery.md).

The revision is the newest one that this leader knows, held against compaction at once. All pages are read at it, or if
it is compacted at a later one with the same contents, each from the key after the last one (R11). Writes go on
meanwhile. The count and the digest are those of the items that were sent.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from leasehold.coordinator.upkeep.retention import Retaining, reading_the_store, same_as
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words import keys
from leasehold.core.words.digest import digest_bytes, item_digest
from leasehold.core.words.messages import AskSnapshot, Message, SnapshotBegin, SnapshotEnd, SnapshotPage
from leasehold.core.words.operations import Change, Page
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import LineageHash, NodeId, Revision
from leasehold.limits.metastorage import CHANGE_FRAMING_BYTES, RANGE_PAGE_MAX, RETENTION_HOLD_NS
from leasehold.limits.recovery import SNAPSHOT_PAGE_BYTES_MAX, SNAPSHOTS_AT_ONCE
from leasehold.metastorage.contract import Compacted, MetaStorage


class _Place:
    """One of the SNAPSHOTS_AT_ONCE places. A snapshot that has lost its place ends."""

    def __init__(self) -> None:
        self.sent_ns: int | None = None
        """Since when a message waits for its node; None if none does."""


class Snapshots:
    """The snapshots of one leader, one for each node. `live_keys` tells about how many keys a snapshot has."""

    def __init__(
        self, storage: MetaStorage, retaining: Retaining, live_keys: Callable[[], int], now_ns: Callable[[], int]
    ) -> None:
        self._storage = storage
        self._retaining = retaining
        self._live_keys = live_keys
        self._now_ns = now_ns
        self._places: dict[NodeId, _Place] = {}

    async def serve(self, request: AskSnapshot, catalog: Catalog) -> AsyncGenerator[Message, None]:
        """A snapshot of `catalog`'s revision, for a node whose request is valid. Raises `Refused` with code BUSY."""
        if request.node not in self._places and len(self._places) >= SNAPSHOTS_AT_ONCE:
            self._end_slow()
        if request.node not in self._places and len(self._places) >= SNAPSHOTS_AT_ONCE:
            text = f"{SNAPSHOTS_AT_ONCE} nodes take a snapshot at this moment"
            raise Refused(text, code=ErrorCode.BUSY, hint="the node asks again")
        revision, lineage = catalog.revision, catalog.lineage
        self._retaining.hold(request.node, revision)
        place = self._places[request.node] = _Place()  # an older one of that node ends
        try:
            async with aclosing(self._messages(request.node, revision, lineage)) as messages:
                async for message in messages:
                    self._check_has(request.node, place)
                    place.sent_ns = self._now_ns()
                    yield message
                    self._check_has(request.node, place)
                    place.sent_ns = None
        finally:
            if self._places.get(request.node) is place:
                del self._places[request.node]

    def _end_slow(self) -> None:
        """Takes their places from nodes that have not taken a page for RETENTION_HOLD_NS."""
        overdue_ns = self._now_ns() - RETENTION_HOLD_NS
        for node, place in list(self._places.items()):
            if place.sent_ns is not None and place.sent_ns <= overdue_ns:
                del self._places[node]

    def _check_has(self, node: NodeId, place: _Place) -> None:
        if self._places.get(node) is not place:
            text = f"node {node} has asked for another snapshot, or was too slow to take this one"
            raise Refused(text, code=ErrorCode.BUSY, hint="the node asks again")

    async def _messages(self, node: NodeId, revision: Revision, lineage: LineageHash) -> AsyncGenerator[Message, None]:
        yield SnapshotBegin(revision=revision, keys=self._live_keys())
        count, digest = 0, 0
        async for items in self._pages(node, revision):
            count += len(items)
            for item in items:
                assert item.value is not None, "a range shows what is there"
                digest ^= item_digest(item.key, item.value)
            yield SnapshotPage(items=items)
        yield SnapshotEnd(revision=revision, lineage=lineage, keys=count, digest=digest_bytes(digest))

    async def _pages(self, node: NodeId, revision: Revision) -> AsyncGenerator[tuple[Change, ...], None]:
        start: bytes | None = keys.WATCH_START
        at = revision
        while start is not None:
            page = await self._page(start, revision, at)
            at = page.revision
            items: list[Change] = []
            size = 0
            for item in page.items:
                items.append(Change(item.key, item.value))
                size += len(item.key) + len(item.value) + CHANGE_FRAMING_BYTES
                if size >= SNAPSHOT_PAGE_BYTES_MAX:
                    self._retaining.renew(node)
                    yield tuple(items)
                    items, size = [], 0
            if items:
                self._retaining.renew(node)
                yield tuple(items)
            start = page.next_start

    async def _page(self, start: bytes, revision: Revision, at: Revision) -> Page:
        try:
            while True:
                try:
                    with reading_the_store():
                        return await self._storage.range(start, keys.WATCH_END, revision=at, limit=RANGE_PAGE_MAX)
                except Compacted as compacted:
                    with reading_the_store():
                        at = await same_as(self._storage, revision, compacted)
        except Compacted as error:
            # Compacted by another leader, or by hand.
            text = f"revision {revision} was compacted while it was sent: the oldest kept is {error.minimum}"
            raise Refused(text, code=ErrorCode.BUSY, hint="the node asks again") from error
