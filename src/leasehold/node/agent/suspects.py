"""Segment files of this node that are not believed.

| a file     | because                                    | what follows |
| suspected  | a scan or a copy failed over it            | the scrub reads it whole (`node/disk/scrub.py`) |
| damaged    | the scrub found that it differs            | it is no copy, see `core/replicas/reconcile.py` |
| none of it | it is whole after all, or gone             | it counts like any other file |
"""

from collections.abc import Mapping

from leasehold.core.catalog.catalog import BucketKey
from leasehold.core.replicas.reconcile import Listing, OnDisk
from leasehold.ids import SegmentId
from leasehold.limits.scrub import SUSPECTS_MAX

_NONE: frozenset[SegmentId] = frozenset()


class Suspects:
    """Of one process. `suspect` is for any thread, all else for the reconciler."""

    def __init__(self) -> None:
        self.damaged: Mapping[BucketKey, frozenset[SegmentId]] = {}
        """Replaced by a single assignment."""
        self._suspected: dict[OnDisk, None] = {}

    def suspect(self, one: OnDisk) -> None:
        """Has a file read whole soon. One too many is left to the next pass of the scrub."""
        if len(self._suspected) < SUSPECTS_MAX and not self.is_damaged(one):
            self._suspected[one] = None

    @property
    def first(self) -> OnDisk | None:
        """The file that has been suspected for the longest time."""
        return next(iter(list(self._suspected)), None)

    def is_suspected(self, one: OnDisk) -> bool:
        return one in self._suspected

    def checked(self, one: OnDisk) -> None:
        """The file is not suspected any more, whatever came of it."""
        self._suspected.pop(one, None)

    def is_damaged(self, one: OnDisk) -> bool:
        return one.segment in self.damaged.get((one.table, one.bucket), _NONE)

    def found(self, one: OnDisk, *, damaged: bool) -> None:
        """A file was read whole."""
        if damaged != self.is_damaged(one):
            key = one.table, one.bucket
            self._replace(key, self.damaged.get(key, _NONE) ^ {one.segment})

    def forget_gone(self, on_disk: Listing) -> None:
        """Forgets the damage of files that are gone: what comes under their names is another file."""
        for key, damaged in list(self.damaged.items()):
            here = damaged & on_disk.get(key, _NONE)
            if here != damaged:
                self._replace(key, here)

    def _replace(self, key: BucketKey, damaged: frozenset[SegmentId]) -> None:
        others = {other: those for other, those in self.damaged.items() if other != key}
        self.damaged = {**others, key: damaged} if damaged else others
