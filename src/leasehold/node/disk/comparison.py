"""Compares a disk with the durable catalog bucket by bucket, off the event loop (plans in
`core/replicas/reconcile.py`).

A node may hold hundreds of thousands of segments, and its lease is renewed on the same event loop. So a round is cut
into steps of RECONCILE_SLICE_BUCKETS buckets, each on a thread, with one listing and one durable catalog for all of
them. A step reads its segments from the vault (`core/data/manifest.py`), which may be newer by then: buckets that have
changed are compared once more, with a new listing and catalog. The result for a bucket stands until a round compares it
again.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from operator import is_
from typing import NamedTuple

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import BucketKey
from leasehold.core.catalog.stored_shelf import StoredBucket
from leasehold.core.data.manifest import Manifest
from leasehold.core.replicas import reconcile
from leasehold.core.replicas.reconcile import BucketPlan, ComparedBucket, Listing, Verified
from leasehold.core.replicas.replication import has_other_holder
from leasehold.core.words.records import SegmentRecord
from leasehold.ids import SegmentId
from leasehold.limits.recovery import COMPARISON_POLL_NS
from leasehold.limits.replication import RECONCILE_SLICE_BUCKETS, SIZES_AT_ONCE
from leasehold.node.agent.published import Published
from leasehold.wire.ports import Clock, Disk, Threads

log = logging.getLogger(__name__)

_NONE: frozenset[SegmentId] = frozenset()
_Found = dict[BucketKey, tuple[ComparedBucket, list[SegmentRecord]]]


class _Seen(NamedTuple):
    """What the result of a round depends on."""

    maps: tuple[object, ...]
    """Maps of the catalog: each is the same object until something in it changes."""
    on_disk: Listing
    damaged: Listing

    def holds(self, other: "_Seen") -> bool:
        return all(map(is_, self.maps, other.maps)) and self.on_disk == other.on_disk and self.damaged is other.damaged


class Comparing:
    """The comparisons of one process, one round at a time."""

    def __init__(
        self,
        *,
        durable: Callable[[], Catalog],
        published: Published,
        disk: Disk,
        manifest: Manifest,
        clock: Clock,
        threads: Threads,
        slice_buckets: int = RECONCILE_SLICE_BUCKETS,
    ) -> None:
        self.since_start: Listing = {}
        """What was on the disk when the process started, once it has caught up."""
        self.open: dict[BucketKey, BucketPlan] = {}
        """The plans with something to do."""
        self._durable = durable
        self._published = published
        self._disk = disk
        self._manifest = manifest
        self._clock = clock
        self._threads = threads
        self._slice_buckets = slice_buckets
        self._states: dict[BucketKey, ComparedBucket] = {}
        """The result for each bucket, the oldest first."""
        self._own: tuple[object, frozenset[BucketKey]] = (None, frozenset())
        """The buckets assigned to this node, and the map of buckets that they were read from."""
        self._settled: _Seen | None = None
        """Set if the last round found nothing to do: no bucket is looked at until it changes."""

    async def round(self, on_disk: Listing, *, verified: Verified, whole: bool) -> list[SegmentRecord]:
        """Compares each bucket that has changed with `on_disk`, a listing from before the call. With `whole`, compares
        all buckets, moves torn files to the trash and returns them; they count as kept until the next round."""
        torn: list[SegmentRecord] = []
        durable = self._durable()
        keys = await self._threads.run(partial(self._due, durable, on_disk, verified, whole=whole))
        while keys:
            changed: list[BucketKey] = []
            for start in range(0, len(keys), self._slice_buckets):
                some = keys[start : start + self._slice_buckets]
                found = await self._threads.run(partial(self._compared, durable, on_disk, some, verified, whole=whole))
                changed.extend(key for key in some if key not in found)
                for key, (state, _) in found.items():
                    self._take(key, state)
                torn.extend(await self._trash_torn([one for _, held in found.values() for one in held]))
            if changed:
                await self._clock.sleep_until(self._clock.now_ns() + COMPARISON_POLL_NS)
                on_disk = await self._disk.listing()
                durable = self._durable()
            keys = changed
        return torn

    def is_current(self, key: BucketKey, *, verified: Verified) -> bool:
        """Whether the catalog has not changed the bucket since its plan was made."""
        state = self._states.get(key)
        now = reconcile.basis_of(self._durable(), self._published.node, key, verified=verified, damaged=self._damaged)
        return state is not None and state.basis.holds(now)

    def put_last(self, key: BucketKey) -> None:
        self.open[key] = self.open.pop(key)

    @property
    def kept(self) -> int:
        """How many segments are here that the manifest counts on here."""
        return sum(len(state.plan.kept) + len(state.plan.doubted) for state in self._states.values())

    @property
    def lost(self) -> int:
        """How many segments are missing that the manifest counts on here."""
        return sum(len(plan.lost) + len(plan.damaged) for plan in self.open.values())

    @property
    def doubted(self) -> int:
        """How many of the kept segments are not trusted yet."""
        return sum(len(plan.doubted) for plan in self.open.values())

    @property
    def to_fetch(self) -> int:
        return sum(len(plan.fetch) for plan in self.open.values())

    @property
    def in_doubt(self) -> bool:
        """Whether a file is here that was not verified, or that the catalog does not show as held here."""
        return any(plan.doubted or plan.report for plan in self.open.values())

    @property
    def _damaged(self) -> Listing:
        return self._published.suspects.damaged

    def _due(self, durable: Catalog, on_disk: Listing, verified: Verified, *, whole: bool) -> list[BucketKey]:
        node = self._published.node
        if self._own[0] is not durable.buckets:
            self._own = (durable.buckets, reconcile.assigned(durable, node))
        own = self._own[1]
        if whole:
            return sorted({*own, *on_disk, *self._states})
        seen = _Seen((durable.buckets, durable.segments, durable.replaced, durable.dropped), on_disk, self._damaged)
        if verified is None and self._settled is not None and self._settled.holds(seen):
            return reconcile.in_turn(self._states, ())
        due = reconcile.outdated(durable, node, on_disk, own, self._states, verified=verified, damaged=seen.damaged)
        self._settled = seen if verified is None and not due else None
        return [*due, *reconcile.in_turn(self._states, frozenset(due))]

    def _compared(
        self, durable: Catalog, on_disk: Listing, keys: Sequence[BucketKey], verified: Verified, *, whole: bool
    ) -> _Found:
        """On a thread: the results of these buckets, except those that the vault has changed by now. With `whole`, each
        comes with the segments that are kept here and held by others too."""
        node, found, damaged = self._published.node, _Found(), self._damaged
        for key in keys:
            files, before = on_disk.get(key, _NONE), self._states.get(key)
            stored = None
            if whole or not reconcile.waits(durable, node, key, files, before, verified=verified, damaged=damaged):
                stored = self._stored(key, durable)
                if stored is None:
                    continue
            since_start = self.since_start.get(key, _NONE)
            state = reconcile.compare(
                durable,
                node,
                key,
                stored,
                files,
                before,
                since_start=since_start,
                verified=verified,
                damaged=damaged,
            )
            held = [one for one in state.plan.kept if has_other_holder(one, node, durable)] if whole else []
            found[key] = state, held
        return found

    def _stored(self, key: BucketKey, durable: Catalog) -> StoredBucket | None:
        """The bucket as `durable` has it; None if it has changed, or if the vault is newer than the known catalog."""
        newest = self._durable()
        stored = self._manifest.bucket(key)
        same = (
            stored.applied == newest.revision,
            newest.segments.mark(key) is durable.segments.mark(key),
            newest.replaced.mark(key) is durable.replaced.mark(key),
        )
        return stored if all(same) else None

    def _take(self, key: BucketKey, state: ComparedBucket) -> None:
        self._states.pop(key, None)
        if not state.is_empty:
            self._states[key] = state
        if state.plan.idle:
            self.open.pop(key, None)
        else:
            self.open[key] = state.plan

    async def _trash_torn(self, held: Sequence[SegmentRecord]) -> list[SegmentRecord]:
        """Moves torn files to the trash (I5), and returns them. `held` are segments that other nodes hold too."""
        torn: list[SegmentRecord] = []
        for start in range(0, len(held), SIZES_AT_ONCE):
            torn.extend(await self._disk.check_sizes(held[start : start + SIZES_AT_ONCE]))
        for one in torn:
            log.warning("segment %s of table %d does not have the size in the manifest", one.id, one.table)
        return torn
