"""The check of segments, which a leader reads without decoding them (`core/catalog/shelf.py`).

It decodes all of them once, slowly, on a thread, and keeps nothing. A damaged record ends the leader, as it would end a
start that decodes everything. Before that, a request for a damaged bucket is refused.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import BucketKey, Shelf
from leasehold.limits.upkeep import UNREAD_CHECKED_AT_ONCE, UNREAD_REST_NS
from leasehold.wire.ports import Clock, Threads


async def scrub(catalog: Catalog, clock: Clock, threads: Threads) -> None:
    """Decodes all segments of the catalog that a leader begins with. Raises `Corrupt`."""
    for shelf in (catalog.segments, catalog.replaced):
        for part in _parts(shelf):
            await clock.sleep_until(clock.now_ns() + UNREAD_REST_NS)
            await threads.run(partial(decode, shelf, part))


def _parts(shelf: Shelf[Any]) -> Iterator[list[BucketKey]]:
    part: list[BucketKey] = []
    segments = 0
    for key in sorted(shelf):
        part.append(key)
        segments += shelf.count(key)
        if segments >= UNREAD_CHECKED_AT_ONCE:
            yield part
            part, segments = [], 0
    if part:
        yield part


def decode(shelf: Shelf[Any], part: Iterable[BucketKey]) -> None:
    """Decodes the segments of these buckets, and keeps nothing of it. Raises `Corrupt`."""
    for key in part:
        deque(shelf.passing(key), maxlen=0)
