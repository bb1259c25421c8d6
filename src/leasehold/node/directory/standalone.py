"""Standalone mode: inspects, checks and repairs a node's directory while nothing is served (docs/recovery.md).

It holds the directory's lock and asks no other process: it knows what the vault has applied, as case a of a recovery. A
repair moves only files that it has read and found damaged, and that another node holds by the vault's catalog; the next
start fetches them from there. A person deletes the moved files once the node serves again.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal, Self, TypeAlias

import msgspec

from leasehold.core.catalog.catalog import BucketKey, Catalog
from leasehold.core.replicas.reconcile import OnDisk
from leasehold.core.words.operations import StoredProjection
from leasehold.core.words.records import Allocated, Claiming, IdentityRecord, Joining, SegmentRecord, TransactionState
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt, Definite, NotFound, Refused
from leasehold.ids import ClusterId, Incarnation, NodeId, ObjectId, Revision, SegmentId, segment_transaction
from leasehold.limits.node_disk import REPAIRS_MAX, SEGMENTS_LISTED_MAX
from leasehold.node.directory.reset import check_no_reset, check_node_directory, check_vault_or_new
from leasehold.storage.files import SegmentFiles
from leasehold.storage.mounts import check_one_mount
from leasehold.storage.segment import verify_segment
from leasehold.vault.store import SqliteVault

What: TypeAlias = Literal["damaged", "unreadable", "missing"]
NO_ID: Final = NodeId(0)
REPAIRED: Final = "repaired-"


class Some(msgspec.Struct, frozen=True, kw_only=True):
    """A number of segments, and the first SEGMENTS_LISTED_MAX of them."""

    count: int
    first: tuple[SegmentId, ...]


class TableHere(msgspec.Struct, frozen=True, kw_only=True):
    """A table, and its segments in this directory."""

    id: ObjectId
    name: str
    """Qualified; empty if the projection no longer knows it."""
    buckets: int
    """Assigned to this node."""
    segments: int
    """Here, and known to the projection."""
    size_bytes: int
    missing: int
    superfluous: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A node's directory, compared with its projection. `node` is 0 if it has no id yet."""

    node: NodeId
    name: str
    cluster_id: ClusterId | None
    incarnation: Incarnation
    joining: bool
    """Its last start was interrupted while it joined."""
    applied: Revision
    coordinators: tuple[str, ...]
    tables: tuple[TableHere, ...]
    missing: Some
    """The projection says that they are here."""
    awaited: Some
    """Of buckets assigned to this node, but not fetched yet."""
    superfluous: Some
    """Here, but not assigned: the node deletes them when it runs."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a segment."""

    table: str
    segment: SegmentId
    what: What
    text: str


class CheckedFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The segment files that were checked, how many are `wrong`, and the first SEGMENTS_LISTED_MAX findings."""

    segments: int
    size_bytes: int
    wrong: int
    findings: tuple[Finding, ...]


class Mended(msgspec.Struct, frozen=True, kw_only=True):
    """A segment that is damaged or can't be read, and whether it was moved; if not, `why` not."""

    finding: Finding
    moved: bool
    why: str


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """The segments that a repair looked at, and the folder with those that it moved; None if it moved none."""

    segments: tuple[Mended, ...]
    folder: Path | None


class CheckProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a check is."""

    segments: int
    segments_total: int
    size_bytes: int
    bytes_total: int


class Standalone:
    """One node's directory, locked from `open` to `close`. One thread at a time uses it."""

    def __init__(
        self,
        directory: Path,
        vault: SqliteVault,
        identity: IdentityRecord | None,
        stored: StoredProjection,
        coordinators: tuple[str, ...],
    ) -> None:
        self.directory = directory
        self.catalog = Catalog.restored(stored.applied, stored.lineage, stored.items)
        self.files = SegmentFiles(directory)
        self._vault = vault
        self._identity = identity
        self.node: Final = identity.node if isinstance(identity, Allocated | Joining) else NO_ID
        """This node's id, 0 if it has none yet."""
        self._coordinators = coordinators
        self._on_disk = frozenset(OnDisk(*one) for one in self.files.listing())

    @classmethod
    async def open(cls, directory: Path) -> Self:
        """Locks the directory and reads its vault, every item verified. Raises `NotFound` for a directory without a
        node, `BadDirectory` with code LOCKED while a process runs there, `Corrupt` for a damaged vault."""
        check_node_directory(directory)
        check_no_reset(directory)
        check_vault_or_new(directory)
        vault = await SqliteVault.open(directory)
        try:
            stored = await vault.projection()
            return cls(directory, vault, await vault.identity(), stored, await vault.coordinators())
        except BaseException:
            await vault.close()
            raise

    async def close(self) -> None:
        """Releases the directory; idempotent."""
        await self._vault.close()

    def summary(self) -> Summary:
        """The contents of the directory, compared with the projection."""
        missing: dict[SegmentId, ObjectId] = {}
        awaited: list[SegmentId] = []
        for key, record in self._manifest():
            if self._is_here(record):
                continue
            if self.node in record.holders:
                missing[record.id] = key[0]
            elif self._is_assigned(key):
                awaited.append(record.id)
        superfluous = {one.segment: one.table for one in sorted(self._on_disk) if self._is_superfluous(one)}
        identity, incarnation = self._identity, Incarnation(0)
        if isinstance(identity, Allocated | Joining):
            incarnation = identity.incarnation if isinstance(identity, Allocated) else identity.previous
        own = self.catalog.nodes.get(self.node)
        return Summary(
            node=self.node,
            name="" if own is None else own.name,
            cluster_id=None if isinstance(identity, Claiming | None) else identity.cluster_id,
            incarnation=incarnation,
            joining=isinstance(identity, Joining),
            applied=self.catalog.revision,
            coordinators=self._coordinators,
            tables=self._tables(self._known_here(), missing, superfluous),
            missing=_some(missing),
            awaited=_some(awaited),
            superfluous=_some(superfluous),
        )

    def table_name(self, table: ObjectId) -> str:
        """The qualified name of a table, empty if the projection no longer knows it."""
        record = self.catalog.tables.get(table)
        return "" if record is None else str(self.catalog.table_name(record))

    def segment(self, segment: SegmentId) -> SegmentRecord:
        """A segment that the projection knows, even if it is not here. Raises `NotFound`."""
        for record in self._known():
            if record.id == segment:
                return record
        raise NotFound(
            f"no segment {segment[:80]} at revision {self.catalog.revision}",
            code=ErrorCode.NO_SEGMENT,
            hint="its id is its file's name without .parquet",
        )

    def _tables(
        self,
        known: list[SegmentRecord],
        missing: dict[SegmentId, ObjectId],
        superfluous: dict[SegmentId, ObjectId],
    ) -> tuple[TableHere, ...]:
        buckets = Counter(key[0] for key, bucket in self.catalog.buckets.items() if self.node in bucket.replicas)
        segments, size_bytes = Counter[ObjectId](), Counter[ObjectId]()
        for record in known:
            segments[record.table] += 1
            size_bytes[record.table] += record.size_bytes
        lacking, more = Counter(missing.values()), Counter(superfluous.values())
        return tuple(
            TableHere(
                id=table,
                name=self.table_name(table),
                buckets=buckets[table],
                segments=segments[table],
                size_bytes=size_bytes[table],
                missing=lacking[table],
                superfluous=more[table],
            )
            for table in sorted({*buckets, *segments, *lacking, *more})
        )

    def _manifest(self) -> Iterator[tuple[BucketKey, SegmentRecord]]:
        for key, segments in sorted(self.catalog.segments.items(), key=lambda one: one[0]):
            for segment in sorted(segments):
                yield key, segments[segment]

    def _known(self) -> Iterator[SegmentRecord]:
        """All segments of the projection: those of the manifest, then those that rewrites have replaced."""
        yield from (record for _, record in self._manifest())
        for _, replaced in sorted(self.catalog.replaced.items(), key=lambda one: one[0]):
            for segment in sorted(replaced):
                yield replaced[segment].segment

    def _known_here(self) -> list[SegmentRecord]:
        return [record for record in self._known() if self._is_here(record)]

    def _is_here(self, record: SegmentRecord) -> bool:
        return OnDisk(record.table, record.bucket, record.id) in self._on_disk

    def _is_assigned(self, key: BucketKey) -> bool:
        bucket = self.catalog.buckets.get(key)
        return bucket is not None and self.node in bucket.replicas

    def _is_superfluous(self, one: OnDisk) -> bool:
        key = (one.table, one.bucket)
        if one.segment in self.catalog.replaced.get(key, {}):
            return False
        record = self.catalog.segments.get(key, {}).get(one.segment)
        if record is not None:
            return self.node not in record.holders and not self._is_assigned(key)
        transaction = self.catalog.transactions.get(segment_transaction(one.segment))
        return transaction is None or transaction.state is not TransactionState.OPEN

    def check(self, on_progress: Callable[[CheckProgress], None]) -> CheckedFiles:
        """Reads every segment file that the projection knows, and finds damaged, unreadable and missing ones."""
        found = list(self._findings(on_progress))
        records = self._known_here()
        return CheckedFiles(
            segments=len(records),
            size_bytes=sum(record.size_bytes for record in records),
            wrong=len(found),
            findings=tuple(finding for _, finding in found[:SEGMENTS_LISTED_MAX]),
        )

    def repair(self, on_progress: Callable[[CheckProgress], None]) -> Repaired:
        """Moves up to SEGMENTS_LISTED_MAX damaged segments to a new folder, if another node holds them. A file that
        can't be read is left: its bytes may be good."""
        done: list[Mended] = []
        check_one_mount(self.directory)
        folder = self._new_folder()
        for record, finding in list(self._findings(on_progress)):
            if finding.what == "missing":
                continue
            if len(done) == SEGMENTS_LISTED_MAX:
                break
            why = "it can't be read, but may be undamaged" if finding.what == "unreadable" else self._why_not(record)
            if not why:
                self.files.put_aside(record.table, record.bucket, record.id, folder)
            done.append(Mended(finding=finding, moved=not why, why=why))
        self._on_disk = frozenset(OnDisk(*one) for one in self.files.listing())
        return Repaired(segments=tuple(done), folder=folder if any(one.moved for one in done) else None)

    def _new_folder(self) -> Path:
        """The name of this repair's folder; it is not made yet."""
        for number in range(1, REPAIRS_MAX + 1):
            folder = self.directory / f"{REPAIRED}{number}"
            if not os.path.lexists(folder):
                return folder
        raise Refused(
            f"{self.directory} was repaired {REPAIRS_MAX} times",
            code=ErrorCode.TOO_MANY_REPAIRS,
            hint=f"delete the {REPAIRED}* folders once the node serves again",
        )

    def _findings(self, on_progress: Callable[[CheckProgress], None]) -> Iterator[tuple[SegmentRecord, Finding]]:
        for _, record in self._manifest():
            if self.node in record.holders and not self._is_here(record):
                text = f"the catalog at revision {self.catalog.revision} lists it here"
                yield record, self._finding(record, "missing", text)
        records = self._known_here()
        bytes_total, read_bytes = sum(record.size_bytes for record in records), 0
        for number, record in enumerate(records):
            told = CheckProgress(
                segments=number, segments_total=len(records), size_bytes=read_bytes, bytes_total=bytes_total
            )
            on_progress(told)
            path = self.files.path(record.table, record.bucket, record.id)
            try:
                verify_segment(path, size_bytes=record.size_bytes, sha256=record.sha256)
            except Corrupt as error:
                # Bytes that can't be read were not compared: a retry, or another cable, may help.
                was_read = not isinstance(error.__cause__, OSError)
                yield record, self._finding(record, "damaged" if was_read else "unreadable", error.text)
            except Definite as error:
                yield record, self._finding(record, "unreadable", error.text)
            read_bytes += record.size_bytes

    def _finding(self, record: SegmentRecord, what: What, text: str) -> Finding:
        return Finding(table=self.table_name(record.table), segment=record.id, what=what, text=text)

    def _why_not(self, record: SegmentRecord) -> str:
        """Why a damaged file has to stay; empty if another node holds its rows."""
        if record.id not in self.catalog.segments.get((record.table, record.bucket), {}):
            return "a rewrite has replaced it; the node deletes it by itself"
        nodes = self.catalog.nodes
        others = [one for one in record.holders if one != self.node and one in nodes and not nodes[one].removed]
        return "" if others else f"at revision {self.catalog.revision} no other node holds it"


def _some(segments: "dict[SegmentId, ObjectId] | list[SegmentId]") -> Some:
    return Some(count=len(segments), first=tuple(sorted(segments)[:SEGMENTS_LISTED_MAX]))
