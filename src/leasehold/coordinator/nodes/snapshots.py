"""Snapshots: the watched range at one revision, page by page, for nodes that can't replay (case c in docs/recovery.md).

The revision is the newest one that this leader knows, held against compaction at once. All pages are read at it, or if
it is compacted at a later one with the same contents, each from the key after the last one (R11). Writes go on
meanwhile. The count and the digest are those of the items that were sent.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import aclosing

from leasehold.coordinator.stored_catalog import same_as
from leasehold.coordinator.upkeep.retention import Retaining, reading_the_store
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words import keys
from leasehold.core.words.digest import digest_bytes, item_digest
from leasehold.core.words.messages import AskSnapshot, Message, SnapshotBegin, SnapshotEnd, SnapshotPage
from leasehold.core.words.operations import Change, KeyValue, Page
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import LineageHash, NodeId, Revision
from leasehold.limits.metastorage import CHANGE_FRAMING_BYTES, RANGE_PAGE_MAX, RETENTION_HOLD_NS
from leasehold.limits.recovery import SNAPSHOT_PAGE_BYTES_MAX, SNAPSHOTS_AT_ONCE
from leasehold.metastorage.contract import Compacted, MetaStorage


class _Place:
    """One of the places. A stream that has lost its place ends."""

    def __init__(self) -> None:
        self.sent_ns: int | None = None
        """Since when a message waits for its taker; None if none does."""
        self.reads_nothing = asyncio.Event()
        """Set while no read of the stream is under way or to come."""


class SendingPlaces:
    """Places for streams that read the whole meta storage, one for each taker; `what` says what takers do.

    A stream begins to read once the older stream of the same taker does not read any more. So a taker that asks again
    and again has one read in the queue of the meta storage, and not thousands.
    """

    def __init__(self, at_once: int, what: str, now_ns: Callable[[], int]) -> None:
        self._at_once = at_once
        self._what = what
        self._now_ns = now_ns
        self._places: dict[Hashable, _Place] = {}

    async def send(self, taker: Hashable, messages: AsyncGenerator[Message, None]) -> AsyncGenerator[Message, None]:
        """The messages, for a taker that gets a place; an older stream for the same one ends. Raises `Refused` with
        code BUSY."""
        async with aclosing(messages):
            if taker not in self._places and len(self._places) >= self._at_once:
                self._end_slow()
            if taker not in self._places and len(self._places) >= self._at_once:
                raise Refused(f"{self._at_once} {self._what} at this moment", code=ErrorCode.BUSY, hint="ask again")
            older = self._places.get(taker)
            place = self._places[taker] = _Place()
            try:
                if older is not None:
                    await older.reads_nothing.wait()
                    self._check_has(taker, place)
                async for message in messages:
                    self._check_has(taker, place)
                    place.sent_ns = self._now_ns()
                    place.reads_nothing.set()
                    yield message
                    self._check_has(taker, place)
                    place.sent_ns = None
                    place.reads_nothing.clear()
            finally:
                place.reads_nothing.set()
                if self._places.get(taker) is place:
                    del self._places[taker]

    def _end_slow(self) -> None:
        """Takes their places from those that have not taken a page for RETENTION_HOLD_NS."""
        overdue_ns = self._now_ns() - RETENTION_HOLD_NS
        for taker, place in list(self._places.items()):
            if place.sent_ns is not None and place.sent_ns <= overdue_ns:
                del self._places[taker]

    def _check_has(self, taker: Hashable, place: _Place) -> None:
        if self._places.get(taker) is not place:
            text = "this stream was taken too slowly, or has been asked for again"
            raise Refused(text, code=ErrorCode.BUSY, hint="ask again")


class Snapshots:
    """The snapshots of one leader, one for each node. `live_keys` tells about how many keys a snapshot has."""

    def __init__(
        self, storage: MetaStorage, retaining: Retaining, live_keys: Callable[[], int], now_ns: Callable[[], int]
    ) -> None:
        self._storage = storage
        self._retaining = retaining
        self._live_keys = live_keys
        self._places = SendingPlaces(SNAPSHOTS_AT_ONCE, "nodes take a snapshot", now_ns)

    def serve(self, request: AskSnapshot, catalog: Catalog) -> AsyncGenerator[Message, None]:
        """A snapshot of `catalog`'s revision, for a node whose request is valid. Raises `Refused` with code BUSY."""
        messages = self._messages(request.node, catalog.revision, catalog.lineage)
        return self._places.send(request.node, messages)

    async def _messages(self, node: NodeId, revision: Revision, lineage: LineageHash) -> AsyncGenerator[Message, None]:
        self._retaining.hold(node, revision)
        yield SnapshotBegin(revision=revision, keys=self._live_keys())
        count, digest = 0, 0
        try:
            async with aclosing(range_at(self._storage, revision)) as parts:
                async for part in parts:
                    self._retaining.renew(node)
                    count += len(part)
                    for item in part:
                        digest ^= item_digest(item.key, item.value)
                    yield SnapshotPage(items=tuple(Change(item.key, item.value) for item in part))
        except Compacted as error:
            # Compacted by another leader, or by hand.
            text = f"revision {revision} was compacted while it was sent: the oldest kept is {error.minimum}"
            raise Refused(text, code=ErrorCode.BUSY, hint="the node asks again") from error
        yield SnapshotEnd(revision=revision, lineage=lineage, keys=count, digest=digest_bytes(digest))


async def range_at(storage: MetaStorage, revision: Revision) -> AsyncGenerator[list[KeyValue], None]:
    """The watched range at a revision, in parts that fit into a message. Raises `Compacted`."""
    start: bytes | None = keys.WATCH_START
    at = revision
    while start is not None:
        page = await _part_at(storage, start, revision, at)
        at = page.revision
        items: list[KeyValue] = []
        size = 0
        for item in page.items:
            items.append(item)
            size += len(item.key) + len(item.value) + CHANGE_FRAMING_BYTES
            if size >= SNAPSHOT_PAGE_BYTES_MAX:
                yield items
                items, size = [], 0
        if items:
            yield items
        start = page.next_start


async def _part_at(storage: MetaStorage, start: bytes, revision: Revision, at: Revision) -> Page:
    while True:
        try:
            with reading_the_store():
                return await storage.range(start, keys.WATCH_END, revision=at, limit=RANGE_PAGE_MAX)
        except Compacted as compacted:
            with reading_the_store():
                at = await same_as(storage, revision, compacted)
