"""Backups: the whole meta storage at one revision, for a client that writes it to a file (`core.recovery.backup`).

A coordinator answers them whether it leads or follows, as it reads snapshots for nodes. Nothing is held against
compaction, which only a leader could do: a backup that is overtaken ends as COMPACTED, and the client begins anew.
"""

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing

from leasehold.coordinator.nodes.snapshots import SendingPlaces, range_at
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.live_keys import LiveKeys
from leasehold.core.membership.generations import unknown_leader
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.digest import digest_bytes, item_digest
from leasehold.core.words.messages import BackupPage, Message, SnapshotBegin, SnapshotEnd
from leasehold.core.words.records import CheckpointRow
from leasehold.ids import Revision
from leasehold.limits.metastorage import CHANGE_FRAMING_BYTES
from leasehold.limits.recovery import BACKUPS_AT_ONCE, SNAPSHOT_PAGE_BYTES_MAX
from leasehold.metastorage.contract import MetaStorage


class Backups:
    """The backups that are taken from one coordinator."""

    def __init__(self, storage: MetaStorage, now_ns: Callable[[], int]) -> None:
        self._storage = storage
        self._places = SendingPlaces(BACKUPS_AT_ONCE, "backups are taken from this coordinator", now_ns)

    def serve(self, catalog: Catalog) -> AsyncGenerator[Message, None]:
        """A backup of `catalog`'s revision. Raises `Refused` with code BUSY, and `Compacted`."""
        return self._places.send(object(), self._messages(catalog))

    async def _messages(self, catalog: Catalog) -> AsyncGenerator[Message, None]:
        revision = catalog.revision
        yield SnapshotBegin(revision=revision, keys=LiveKeys(catalog).count)
        deleted = await self._deleted_at(revision)
        count, digest = 0, 0
        async with aclosing(range_at(self._storage, revision)) as parts:
            async for part in parts:
                count += len(part)
                for item in part:
                    digest ^= item_digest(item.key, item.value)
                rows = [CheckpointRow(one.key, one.value, one.created, one.modified, one.version) for one in part]
                before = [key for key in deleted if key < rows[-1].key]
                deleted = deleted[len(before) :]
                for page in pages_of((*rows, *_as_deleted(before, revision))):
                    yield page
        assert catalog.cluster is not None
        leader = await self._storage.leader() or unknown_leader(catalog.cluster)
        last = CheckpointRow(keys.LEADER, encode(leader), revision, revision, 1)
        for page in pages_of((*_as_deleted(deleted, revision), last)):
            yield page
        yield SnapshotEnd(revision=revision, lineage=catalog.lineage, keys=count, digest=digest_bytes(digest))

    async def _deleted_at(self, revision: Revision) -> list[bytes]:
        """The keys that the revision itself deletes, in order."""
        async with aclosing(self._storage.watch(keys.WATCH_START, keys.WATCH_END, revision)) as batches:
            batch = await anext(batches)
        assert batch.revision == revision, "each revision of a catalog changes the watched range"
        return [change.key for change in batch.changes if change.value is None]


def _as_deleted(deleted: Iterable[bytes], revision: Revision) -> Iterable[CheckpointRow]:
    return (CheckpointRow(key, None, Revision(0), revision, 0) for key in deleted)


def pages_of(rows: Iterable[CheckpointRow]) -> Iterable[BackupPage]:
    """The rows in the order of their keys, in messages: a revision may delete more keys than one message holds."""
    page: list[CheckpointRow] = []
    size = 0
    for row in sorted(rows, key=lambda row: row.key):
        row_bytes = len(row.key) + len(row.value or b"") + CHANGE_FRAMING_BYTES
        if page and size + row_bytes > 2 * SNAPSHOT_PAGE_BYTES_MAX:
            yield BackupPage(rows=tuple(page))
            page, size = [], 0
        page.append(row)
        size += row_bytes
    yield BackupPage(rows=tuple(page))
