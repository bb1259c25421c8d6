"""Scrubs that an administrator asks for: a node reads its segment files whole, now (`leasehold scrub`).

A file that differs is suspected, as if a reader had failed over it. The scrub in the background reads it once more, and
has it replaced (`node/disk/scrub.py`). The answer waits for that, SCRUB_HEAL_NS at most. Nothing of it is lost if the
client goes away.
"""

from collections.abc import Iterator

import msgspec

from leasehold.core.access.request_rights import check_scrub
from leasehold.core.catalog.catalog import BucketKey, Catalog
from leasehold.core.catalog.stored_shelf import StoredBucket
from leasehold.core.data.manifest import Manifest
from leasehold.core.data.requests import Requests, Slots, check_cluster, table_in_use
from leasehold.core.replicas.reconcile import OnDisk, assigned
from leasehold.core.replicas.replication import has_other_holder
from leasehold.core.words.messages import ScrubbedTable, ScrubEnd, ScrubTicket
from leasehold.core.words.records import SegmentRecord, TransactionState
from leasehold.errors import Corrupt, Definite, NotFound
from leasehold.ids import BucketNumber, NodeId, ObjectId, SegmentId, segment_transaction
from leasehold.limits.scrub import SCRUB_HEAL_NS, SCRUB_POLL_NS, SCRUB_TOLD_MAX, SCRUBS_MAX
from leasehold.node.agent.published import Published
from leasehold.storage.files import SegmentFiles
from leasehold.storage.segment import verified_pieces
from leasehold.wire.clock import sleep_ns


class Scrubs:
    """Serves scrub tickets."""

    def __init__(self, requests: Requests, manifest: Manifest, files: SegmentFiles, published: Published) -> None:
        self._requests = requests
        self._now_ns = requests.runtime.now_ns
        self._manifest = manifest
        self._files = files
        self._published = published
        self._slots = Slots(requests.runtime, "scrubs", SCRUBS_MAX)

    async def open(self, ticket: ScrubTicket) -> Catalog:
        """The view by which the node scrubs. Raises what stands against a ticket; only administrators may ask."""
        check_cluster(self._published, ticket.cluster_id)
        nowhere = ObjectId(0), BucketNumber(0)
        await self._requests.until_shown(ticket.revision, nowhere, login=ticket.login)
        view = self._requests.guarded(nowhere).view
        check_scrub(ticket.login, view)
        if ticket.table is not None:
            table_in_use(view, ticket.table)
        return view

    def stream(self, ticket: ScrubTicket, view: Catalog) -> Iterator[ScrubbedTable | ScrubEnd]:
        """What is found so far of one table after the other, at least once a second; a later message of a table
        replaces an earlier one."""
        with self._slots.one():
            of_table: dict[ObjectId, list[BucketKey]] = {}
            on_disk = {key for key, _ in self._files.folders()}
            for key in sorted(on_disk | assigned(view, self._published.node)):
                if ticket.table in {None, key[0]}:
                    of_table.setdefault(key[0], []).append(key)
            scrubs = [_TableScrub(self._files, self._manifest, self._published, view, table) for table in of_table]
            for one in scrubs:
                for _ in self._told_in_time(one.read(of_table[one.table])):
                    yield one.found
                yield one.found
            until_ns = self._now_ns() + SCRUB_HEAL_NS
            while sum(one.is_healing() for one in scrubs if one.damaged) and self._now_ns() < until_ns:
                yield next(one for one in scrubs if one.damaged).found
                sleep_ns(SCRUB_POLL_NS)
            for one in scrubs:
                if one.found.damaged:
                    yield one.found
            yield ScrubEnd(node=self._published.node)

    def _told_in_time(self, steps: Iterator[None]) -> Iterator[None]:
        """Those steps after which a second has passed."""
        told_ns = self._now_ns()
        for _ in steps:
            if self._now_ns() >= told_ns + SCRUB_POLL_NS:
                told_ns = self._now_ns()
                yield


class _TableScrub:
    """The files of one table."""

    def __init__(
        self, files: SegmentFiles, manifest: Manifest, published: Published, view: Catalog, table: ObjectId
    ) -> None:
        self._files = files
        self._manifest = manifest
        self._published = published
        self._view = view
        self.table = table
        record = view.tables.get(table)
        self.found = ScrubbedTable(table=table, name="" if record is None else str(view.table_name(record)))
        self.damaged: dict[OnDisk, int | None] = {}
        """The damaged files that have not been replaced yet, by their inodes."""

    @property
    def _node(self) -> NodeId:
        return self._published.node

    def read(self, keys: list[BucketKey]) -> Iterator[None]:
        """Reads the files bucket by bucket, in small steps."""
        for key in keys:
            stored, here = self._manifest.bucket(key), self._files.segments_in(*key)
            held = {name: one for name, one in stored.segments.items() if self._node in one.holders}
            self._count(
                missing=len(held.keys() - here),
                unknown=sum(self._is_unknown(name, stored) for name in here),
            )
            for name in sorted(here & held.keys()):
                yield from self._read(OnDisk(*key, name), held[name])

    def is_healing(self) -> bool:
        """Whether a damaged file may be replaced yet; counts those that were."""
        unhealed: list[SegmentRecord] = []
        for one in list(self.damaged):
            entry = self._manifest.segment((one.table, one.bucket), one.segment).segment
            if entry is None or self._is_healed(one, entry):
                del self.damaged[one]
            else:
                unhealed.append(entry)
        self.found = msgspec.structs.replace(
            self.found,
            healed=self.found.damaged - len(self.damaged),
            unhealed=len(unhealed),
            unhealed_rows=sum(one.rows for one in unhealed),
            unhealed_segments=tuple(one.id for one in unhealed[:SCRUB_TOLD_MAX]),
        )
        return any(has_other_holder(one, self._node, self._published.view) for one in unhealed)

    def _is_healed(self, one: OnDisk, entry: SegmentRecord) -> bool:
        suspects, inode = self._published.suspects, self._inode(one)
        if suspects.is_suspected(one) or self._node not in entry.holders or inode is None:
            return False
        # Another file, or the disk can read it again.
        return inode != self.damaged[one] or not suspects.is_damaged(one)

    def _read(self, one: OnDisk, entry: SegmentRecord) -> Iterator[None]:
        path = self._files.path(one.table, one.bucket, one.segment)
        inode = self._inode(one)
        try:
            for piece_bytes in verified_pieces(path, size_bytes=entry.size_bytes, sha256=entry.sha256):
                self._count(size_bytes=piece_bytes)
                yield
        except Corrupt:
            self._published.suspects.suspect(one)
            self.damaged[one] = inode
            self._count(damaged=1)
        except NotFound:
            self._count(missing=1)
        except Definite:  # it says nothing against the file
            self._count(unread=1)
        self._count(files=1)

    def _inode(self, one: OnDisk) -> int | None:
        try:
            return self._files.path(one.table, one.bucket, one.segment).stat().st_ino
        except OSError:
            return None

    def _is_unknown(self, name: SegmentId, stored: StoredBucket) -> bool:
        if name in stored.segments or name in stored.replaced or self.table in self._view.dropped:
            return False
        transaction = self._published.view.transactions.get(segment_transaction(name))
        return transaction is None or transaction.state is not TransactionState.OPEN

    def _count(self, **more: int) -> None:
        counted = {name: getattr(self.found, name) + count for name, count in more.items()}
        self.found = msgspec.structs.replace(self.found, **counted)
