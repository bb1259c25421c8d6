"""What a node's disk should hold, against what it holds (docs/recovery.md): planned purely, done one step at a time.

Plans are made on a **durable** catalog only, so that no effect on disk is ahead of the vault (INV-REC-1). Every step
may be repeated. A node may hold hundreds of thousands of segments, so each bucket has a plan of its own, which stands
until its files change, or what the catalog says of it (`outdated`).

| a file on disk                                                | step   |
| of a dropped table                                            | trash, then tell the leader |
| in the manifest, this node not named as a holder              | verify, then tell the leader |
| in the manifest, neither assigned to this node nor held by it | trash  |
| in the manifest, held by this node, not to be believed yet    | tell the leader, then verify |
| damaged, in the manifest, held by this node                   | tell the leader that it is missing |
| damaged, in the manifest, this node not named as a holder     | trash, then fetch |
| replaced by a rewrite, not yet released                       | keep: scans under way read it |
| not in the manifest, its write transaction ABORTED            | trash  |
| not in the manifest, COMMITTED: a losing attempt              | trash  |
| not in the manifest, OPEN                                     | keep   |
| the catalog knows nothing of it any more                      | trash: it was released, or its write ended long ago |
| the catalog has never known of it, here since the start       | trash: its write ended long ago |
| the catalog has never known of it, written since              | keep: its OPEN is on the way |
and for each segment of the manifest in an assigned bucket that is not on disk: fetch, verify, tell the leader. Where
the manifest names this node as a holder of it, the leader is told first that it is not (I7). A node that is retired
from a bucket fetches nothing of it, and keeps what it holds until the leader has struck it off
(`core/replicas/retired.py`).
"""

from collections.abc import Collection, Container, Mapping
from itertools import islice

import msgspec
from rpds import HashTrieMap

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import BucketKey
from leasehold.core.catalog.stored_shelf import StoredBucket
from leasehold.core.replicas.replication import has_other_holder, lies_on
from leasehold.core.words.records import BucketRecord, SegmentRecord, TransactionState
from leasehold.ids import BucketNumber, NodeId, ObjectId, SegmentId, segment_transaction
from leasehold.limits.replication import RECONCILE_IN_TURN_MAX, RECONCILE_ROUNDS_WHOLE

Listing = Mapping[BucketKey, frozenset[SegmentId]]
"""The finished segment files of a node; buckets without any may be in it."""
Verified = Mapping[BucketKey, Collection[SegmentId]] | None
"""The files whose bytes were read, where no file is believed by its name."""

_NONE: frozenset[SegmentId] = frozenset()
_NO_DAMAGE: Listing = {}


class OnDisk(msgspec.Struct, frozen=True, order=True):
    """A finished segment file."""

    table: ObjectId
    bucket: BucketNumber
    segment: SegmentId


class BucketPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do in one bucket now, each list in the order of segment ids."""

    trash: tuple[OnDisk, ...] = ()
    report: tuple[SegmentRecord, ...] = ()
    """On disk already, to be verified and reported as held."""
    fetch: tuple[SegmentRecord, ...] = ()
    lost: tuple[SegmentRecord, ...] = ()
    """Of which the manifest says that this node holds them, while they are not on disk."""
    doubted: tuple[SegmentRecord, ...] = ()
    """On disk, and this node is named as a holder, but not to be believed: to be verified, and reported then."""
    damaged: tuple[SegmentRecord, ...] = ()
    """On disk with other bytes than the manifest says, and this node is named as a holder."""
    kept: tuple[SegmentRecord, ...] = ()
    """On disk, and this node is named as a holder."""

    @property
    def idle(self) -> bool:
        return not (self.trash or self.report or self.fetch or self.lost or self.doubted or self.damaged)


class Emptied(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted for good."""

    files: int
    size_bytes: int


class Basis(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What the catalog says of a bucket, as objects that stay the same until it changes."""

    bucket: BucketRecord | None
    segments: object
    replaced: object
    nodes: "HashTrieMap[NodeId, object] | None"
    """Where files are not believed by their names: the nodes that may hold them too, and how many files were read."""
    verified: int
    damaged: frozenset[SegmentId]
    cleaned: bool
    """Its table was dropped, and this node still has to delete its files."""

    def holds(self, other: "Basis") -> bool:
        """Whether nothing has changed."""
        return (
            self.bucket is other.bucket
            and self.segments is other.segments
            and self.replaced is other.replaced
            and self.nodes is other.nodes
            and self.verified == other.verified
            and self.damaged == other.damaged
            and self.cleaned == other.cleaned
        )


class ComparedBucket(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What came of comparing one bucket, and what it was compared by."""

    basis: Basis
    files: frozenset[SegmentId]
    strays: tuple[SegmentId, ...]
    """Files that are neither in the manifest nor replaced not long ago."""
    unknown: frozenset[SegmentId]
    """Of these: the catalog has never known of them, and they were not here when the process started."""
    manifest: BucketPlan
    """Without the strays."""
    plan: BucketPlan

    @property
    def is_settled(self) -> bool:
        """Whether no stray waits for what becomes of its write."""
        return len(self.plan.trash) - len(self.manifest.trash) == len(self.strays)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing of it to remember."""
        return self.basis.bucket is None and not self.files


def to_clean(durable: Catalog, node: NodeId) -> tuple[ObjectId, ...]:
    """Dropped tables whose files this node must delete and report."""
    return tuple(sorted(table for table, dropped in durable.dropped.items() if node in dropped.pending))


def assigned(durable: Catalog, node: NodeId) -> frozenset[BucketKey]:
    """The buckets that lie on a node; it fetches nothing of those that it is retired from."""
    return frozenset(key for key, bucket in durable.buckets.items() if lies_on(bucket, node))


def outdated(
    durable: Catalog,
    node: NodeId,
    on_disk: Listing,
    own: Collection[BucketKey],
    compared: Mapping[BucketKey, ComparedBucket],
    *,
    verified: Verified,
    damaged: Listing = _NO_DAMAGE,
) -> list[BucketKey]:
    """The buckets that have to be compared: new ones in order, then those that have changed.

    `on_disk` was listed **before** `durable` was read; `own` are the buckets assigned in it.
    """
    due = sorted({*own, *(key for key, files in on_disk.items() if files)}.difference(compared))
    for key, before in compared.items():
        same = _same(before.files, on_disk.get(key, _NONE)) and before.basis.holds(
            basis_of(durable, node, key, verified=verified, damaged=damaged)
        )
        if not (same and before.is_settled):
            due.append(key)
    return due


def in_turn(compared: Mapping[BucketKey, ComparedBucket], due: Collection[BucketKey]) -> list[BucketKey]:
    """Buckets to compare besides those that are due, so that each has its turn within RECONCILE_ROUNDS_WHOLE rounds, at
    most RECONCILE_IN_TURN_MAX at a time. `compared` is in the order of comparing, which is that of the turns."""
    others = compared if not due else (key for key in compared if key not in due)
    return list(islice(others, min(RECONCILE_IN_TURN_MAX, -(-len(compared) // RECONCILE_ROUNDS_WHOLE))))


def basis_of(
    durable: Catalog, node: NodeId, key: BucketKey, *, verified: Verified, damaged: Listing = _NO_DAMAGE
) -> Basis:
    """What a comparison of the bucket goes by; reads no segments."""
    bucket, dropped = durable.buckets.get(key), durable.dropped.get(key[0])
    return Basis(
        bucket=bucket if bucket is not None and lies_on(bucket, node) else None,
        segments=durable.segments.mark(key),
        replaced=durable.replaced.mark(key),
        nodes=None if verified is None else durable.nodes,
        verified=0 if verified is None else len(verified.get(key, _NONE)),
        damaged=damaged.get(key, _NONE),
        cleaned=dropped is not None and node in dropped.pending,
    )


def waits(
    durable: Catalog,
    node: NodeId,
    key: BucketKey,
    files: frozenset[SegmentId],
    before: ComparedBucket | None,
    *,
    verified: Verified = None,
    damaged: Listing = _NO_DAMAGE,
) -> bool:
    """Whether only strays keep a bucket from being settled: it can be compared again without reading its segments."""
    if before is None or before.is_settled or not _same(before.files, files):
        return False
    return before.basis.holds(basis_of(durable, node, key, verified=verified, damaged=damaged))


def compare(
    durable: Catalog,
    node: NodeId,
    key: BucketKey,
    stored: StoredBucket | None,
    files: frozenset[SegmentId],
    before: ComparedBucket | None,
    *,
    since_start: Container[SegmentId] = _NONE,
    verified: Verified = None,
    damaged: Listing = _NO_DAMAGE,
) -> ComparedBucket:
    """Compares the `files` of a bucket, listed **before** `durable` was read, with what the catalog says; `stored` is
    the bucket as the vault holds it at the revision of `durable`.

    Without `stored` only the strays of the comparison `before` are looked at again: it `waits`. `since_start` are the
    files that lay there when the process started, once it has caught up. Where no file is believed by its name, the
    segments that nobody else holds stay held: each read verifies them. `damaged` are files that differ from the
    manifest.
    """
    basis = basis_of(durable, node, key, verified=verified, damaged=damaged)
    if stored is None:
        assert before is not None, "it waits"
        strays, manifest = before.strays, before.manifest
    else:
        read = None if verified is None else verified.get(key, _NONE)
        strays, manifest = _against_manifest(durable, node, key, stored, files, basis=basis, read=read)
    unknown = frozenset(
        one
        for one in strays
        if segment_transaction(one) not in durable.transactions
        and (before is None or one not in before.files or one in before.unknown)
        and one not in since_start
    )
    gone = tuple(OnDisk(*key, one) for one in strays if _superfluous(durable, one, unknown))
    plan = msgspec.structs.replace(manifest, trash=tuple(sorted((*manifest.trash, *gone)))) if gone else manifest
    return ComparedBucket(basis=basis, files=files, strays=strays, unknown=unknown, manifest=manifest, plan=plan)


def _against_manifest(
    durable: Catalog,
    node: NodeId,
    key: BucketKey,
    stored: StoredBucket,
    files: frozenset[SegmentId],
    *,
    basis: Basis,
    read: Collection[SegmentId] | None,
) -> tuple[tuple[SegmentId, ...], BucketPlan]:
    if basis.cleaned:
        return (), BucketPlan()
    strays: list[SegmentId] = []
    trash: list[OnDisk] = []
    report: list[SegmentRecord] = []
    doubted: list[SegmentRecord] = []
    damaged: list[SegmentRecord] = []
    kept: list[SegmentRecord] = []
    entries, replaced = stored.segments, stored.replaced
    is_replica = basis.bucket is not None and node in basis.bucket.replicas
    for one in sorted(files):
        entry = entries.get(one)
        if entry is None:
            if one not in replaced:
                strays.append(one)
        elif node not in entry.holders:
            if is_replica and one not in basis.damaged:
                report.append(entry)
            else:
                trash.append(OnDisk(*key, one))
        elif one in basis.damaged:
            damaged.append(entry)
        elif read is not None and one not in read and has_other_holder(entry, node, durable):
            doubted.append(entry)
        else:
            kept.append(entry)
    missing = sorted((entry for one, entry in entries.items() if one not in files), key=lambda entry: entry.id)
    return tuple(strays), BucketPlan(
        trash=tuple(trash),
        report=tuple(report),
        fetch=tuple(missing) if is_replica else (),
        lost=tuple(one for one in missing if node in one.holders),
        doubted=tuple(doubted),
        damaged=tuple(damaged),
        kept=tuple(kept),
    )


def _same(files: frozenset[SegmentId], others: frozenset[SegmentId]) -> bool:
    return files is others or files == others


def _superfluous(durable: Catalog, one: SegmentId, unknown: Container[SegmentId]) -> bool:
    transaction = durable.transactions.get(segment_transaction(one))
    if transaction is None:
        return one not in unknown
    return transaction.state is not TransactionState.OPEN
