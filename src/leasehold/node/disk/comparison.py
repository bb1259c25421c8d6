"""Compares a disk with the durable catalog bucket by bucket, off the event loop (plans in
`core/replicas/reconcile.py`).

A node may hold hundreds of thousands of segments, and its lease is renewed on the same event loop. So a round is cut
into steps of RECONCILE_SLICE_BUCKETS buckets, each on a thread; all of them go by one listing and one durable catalog,
which never change. What came of a bucket stands until a round compares it again.
"""

import logging
from collections.abc import Iterable, Sequence
from operator import is_
from typing import NamedTuple

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import BucketKey
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
)
from leasehold.core.replicas.replication import has_other_holder
from leasehold.core.words.records import SegmentRecord
from leasehold.ids import SegmentId
from leasehold.limits.replication import RECONCILE_SLICE_BUCKETS, SIZES_AT_ONCE
from leasehold.node.agent.published import Published
from leasehold.wire.ports import Disk, Threads

log = logging.getLogger(__name__)

_NONE: frozenset[SegmentId] = frozenset()


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
        self, *, published: Published, disk: Disk, threads: Threads, slice_buckets: int = RECONCILE_SLICE_BUCKETS
    ) -> None:
        self.since_start: Listing = {}
        """What lay here when the process started, once it has caught up."""
        self.open: dict[BucketKey, BucketPlan] = {}
        """The plans that say to do something."""
        self._published = published
        self._disk = disk
        self._threads = threads
        self._slice_buckets = slice_buckets
        self._states: dict[BucketKey, ComparedBucket] = {}
        """What came of each bucket, the one first that was not looked at for longest."""
        self._own: tuple[object, frozenset[BucketKey]] = (None, frozenset())
        """The buckets that this node is to hold, and the map of buckets that says so."""
        self._settled: _Seen | None = None
        """What the last round went by, if it found nothing to do: no bucket is looked at until it changes."""

    async def round(
        self, durable: Catalog, on_disk: Listing, *, verified: Verified, whole: bool
    ) -> list[SegmentRecord]:
        """Brings up to date what came of each bucket that has changed. With `whole` of every bucket, and answers the
        torn files, which are in the trash then and count as kept until the next round."""
        torn: list[SegmentRecord] = []
        keys = await self._threads.run(lambda: self._due(durable, on_disk, verified, whole=whole))
        for start in range(0, len(keys), self._slice_buckets):
            some = keys[start : start + self._slice_buckets]
            found = await self._threads.run(
                lambda some=some: self._compared(durable, on_disk, some, verified, whole=whole)
            )
            for key, state, _ in found:
                self._take(key, state)
            torn.extend(await self._trash_torn([one for _, _, held in found for one in held]))
        return torn

    def is_current(self, durable: Catalog, key: BucketKey, *, verified: Verified) -> bool:
        """Whether a plan still stands: the catalog says of the bucket what it said when the plan was made."""
        state = self._states.get(key)
        now = basis_of(durable, self._published.node, key, verified=verified)
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
        self, durable: Catalog, on_disk: Listing, keys: Iterable[BucketKey], verified: Verified, *, whole: bool
    ) -> list[tuple[BucketKey, ComparedBucket, list[SegmentRecord]]]:
        """With each, if `whole`, what is kept here and held by others too."""
        node = self._published.node
        found: list[tuple[BucketKey, ComparedBucket, list[SegmentRecord]]] = []
        for key in keys:
            state = compare(
                durable,
                node,
                key,
                on_disk.get(key, _NONE),
                self._states.get(key),
                since_start=self.since_start.get(key, _NONE),
                verified=verified,
                anew=whole,
            )
            held = [one for one in state.plan.kept if has_other_holder(one, node, durable)] if whole else []
            found.append((key, state, held))
        return found

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
            log.warning("segment %s of table %d had not the size that the manifest says", one.id, one.table)
        return torn
