"""Compares a disk with the durable catalog bucket by bucket, off the event loop (plans in
`core/replicas/reconcile.py`).

A node may hold hundreds of thousands of segments, and its lease is renewed on the same event loop. So a round is cut
into steps of RECONCILE_SLICE_BUCKETS buckets, each on a thread; all of them go by one listing and one durable catalog,
which never change. The segments of each step are read from the vault (`core/data/manifest.py`), which may have gone on:
the buckets that have changed meanwhile are compared once more, by a new listing and the durable catalog of then. What
came of a bucket stands until a round compares it again.
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
from leasehold.core.replicas.reconcile import (
    BucketPlan,
    ComparedBucket,
    Listing,
    Verified,
    assigned,
    basis_of,
    compare,
    in_turn,
    outdated,
    waits,
)
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
    """What a round goes by, of all buckets together."""

    maps: tuple[object, ...]
    """Of the catalog; each stays the same object until something in it changes."""
    on_disk: Listing

    def holds(self, other: "_Seen") -> bool:
        """Whether nothing has changed."""
        return all(map(is_, self.maps, other.maps)) and self.on_disk == other.on_disk


class Comparing:
    """Of one process; one round at a time."""

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
        """What lay here when the process started, once it has caught up."""
        self.open: dict[BucketKey, BucketPlan] = {}
        """The plans that say to do something."""
        self._durable = durable
        """The newest catalog that the vault holds, as far as is known; from any thread."""
        self._published = published
        self._disk = disk
        self._manifest = manifest
        self._clock = clock
        self._threads = threads
        self._slice_buckets = slice_buckets
        self._states: dict[BucketKey, ComparedBucket] = {}
        """What came of each bucket, the one first that was not looked at for longest."""
        self._own: tuple[object, frozenset[BucketKey]] = (None, frozenset())
        """The buckets that this node is to hold, and the map of buckets that says so."""
        self._settled: _Seen | None = None
        """What the last round went by, if it found nothing to do: no bucket is looked at until it changes."""

    async def round(self, on_disk: Listing, *, verified: Verified, whole: bool) -> list[SegmentRecord]:
        """Brings up to date what came of each bucket that has changed; `on_disk` was listed before. With `whole` of
        every bucket, and answers the torn files, which are in the trash then and count as kept until the next round."""
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
        """Whether a plan still stands: the catalog says of the bucket what it said when the plan was made."""
        state = self._states.get(key)
        now = basis_of(self._durable(), self._published.node, key, verified=verified)
        return state is not None and state.basis.holds(now)

    def put_last(self, key: BucketKey) -> None:
        """Puts a plan behind the others."""
        self.open[key] = self.open.pop(key)

    @property
    def kept(self) -> int:
        """The segments that are here and that the manifest counts on here."""
        return sum(len(state.plan.kept) + len(state.plan.doubted) for state in self._states.values())

    @property
    def lost(self) -> int:
        """The segments that are not here and that the manifest counts on here."""
        return sum(len(plan.lost) for plan in self.open.values())

    @property
    def doubted(self) -> int:
        """Of those kept, the ones that are not to be believed yet."""
        return sum(len(plan.doubted) for plan in self.open.values())

    @property
    def to_fetch(self) -> int:
        """The segments that are to come."""
        return sum(len(plan.fetch) for plan in self.open.values())

    @property
    def in_doubt(self) -> bool:
        """Whether a file is here that was not verified, or not reported so that the catalog shows it."""
        return any(plan.doubted or plan.report for plan in self.open.values())

    # ------------------------------------------------------------ on a thread

    def _due(self, durable: Catalog, on_disk: Listing, verified: Verified, *, whole: bool) -> list[BucketKey]:
        node = self._published.node
        if self._own[0] is not durable.buckets:
            self._own = (durable.buckets, assigned(durable, node))
        own = self._own[1]
        if whole:
            return sorted({*own, *on_disk, *self._states})
        seen = _Seen((durable.buckets, durable.segments, durable.replaced, durable.dropped), on_disk)
        if verified is None and self._settled is not None and self._settled.holds(seen):
            return in_turn(self._states, ())
        due = outdated(durable, node, on_disk, own, self._states, verified=verified)
        self._settled = seen if verified is None and not due else None
        return [*due, *in_turn(self._states, frozenset(due))]

    def _compared(
        self, durable: Catalog, on_disk: Listing, keys: Sequence[BucketKey], verified: Verified, *, whole: bool
    ) -> _Found:
        """What came of these buckets, without those of which the vault holds something else by now; with each, if
        `whole`, what is kept here and held by others too."""
        node, found = self._published.node, _Found()
        for key in keys:
            files, before = on_disk.get(key, _NONE), self._states.get(key)
            stored = None
            if whole or not waits(durable, node, key, files, before, verified=verified):
                stored = self._stored(key, durable)
                if stored is None:
                    continue
            since_start = self.since_start.get(key, _NONE)
            state = compare(durable, node, key, stored, files, before, since_start=since_start, verified=verified)
            held = [one for one in state.plan.kept if has_other_holder(one, node, durable)] if whole else []
            found[key] = state, held
        return found

    def _stored(self, key: BucketKey, durable: Catalog) -> StoredBucket | None:
        """The bucket as `durable` has it; None if it has changed, or if the vault holds what is not known yet."""
        newest = self._durable()
        stored = self._manifest.bucket(key)
        same = (
            stored.applied == newest.revision,
            newest.segments.mark(key) is durable.segments.mark(key),
            newest.replaced.mark(key) is durable.replaced.mark(key),
        )
        return stored if all(same) else None

    # ------------------------------------------------------------ on the event loop

    def _take(self, key: BucketKey, state: ComparedBucket) -> None:
        self._states.pop(key, None)
        if not state.is_empty:
            self._states[key] = state
        if state.plan.idle:
            self.open.pop(key, None)
        else:
            self.open[key] = state.plan

    async def _trash_torn(self, held: Sequence[SegmentRecord]) -> list[SegmentRecord]:
        """Torn files go to the trash (I5). One that nobody else holds is left: each read of it finds out."""
        torn: list[SegmentRecord] = []
        for start in range(0, len(held), SIZES_AT_ONCE):
            torn.extend(await self._disk.check_sizes(held[start : start + SIZES_AT_ONCE]))
        for one in torn:
            log.warning("segment %s of table %d does not have the size in the manifest", one.id, one.table)
        return torn
