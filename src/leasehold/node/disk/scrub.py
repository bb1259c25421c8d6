"""The scrub: reads the segment files of this node again and again, so that damage is found before anybody needs them.

Each file is read whole once in `scrub_every`, one after the other in even intervals, and no faster than
SCRUB_BYTES_PER_SECOND. A file that a reader failed over is read first. Where a process begins is random, so that a node
that is restarted often reads all its files in time too. When the disk fails to read a file, all files are read in one
pass without pauses. A file that the scrub finds damaged is no copy any more:

| step                                                                     | decided in |
| the leader hears that this node lacks the segment                        | `node/disk/reconciler.py` |
| it strikes this node as a holder, unless no other node holds the segment | `core/replicas/replication.py` |
| the file is deleted once the durable catalog does not name this node     | `core/replicas/reconcile.py` |
| the segment is fetched from another node, verified and reported as held  | `node/disk/reconciler.py` |

The leader decides it, since a node knows only what its catalog says of the others: of two nodes that share a failing
store, each would give up its copy for that of the other one. So the last copy stays, however damaged: another tool may
get rows out of it, and a disk that failed for a moment may give it back. Each pass reads it again, and names it.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NoReturn, TypeVar

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import BucketKey
from leasehold.core.data.manifest import Manifest
from leasehold.core.replicas.reconcile import OnDisk, assigned
from leasehold.core.replicas.replication import has_other_holder
from leasehold.core.words.records import SegmentRecord
from leasehold.errors import LeaseholdError
from leasehold.ids import NodeId
from leasehold.limits.scrub import SCRUB_BYTES_PER_SECOND, SCRUB_COUNT_NS, SCRUB_LATE_MAX_NS, SCRUB_POLL_NS
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.agent import Agent
from leasehold.node.agent.published import Published
from leasehold.wire.ports import Clock, Disk, Threads

log = logging.getLogger(__name__)

T = TypeVar("T")
_PARTS: Final = 1 << 20
"""Of an interval: at one of them a process begins."""


class SegmentScrub:
    """Of one process. `kept` tells how many files count as copies. `on_whole` hears of files that were damaged and are
    whole again."""

    def __init__(
        self,
        *,
        agent: Agent,
        published: Published,
        disk: Disk,
        manifest: Manifest,
        clock: Clock,
        threads: Threads,
        kept: Callable[[], int],
        on_whole: Callable[[SegmentRecord], None],
    ) -> None:
        self._agent = agent
        self._published = published
        self._suspects = published.suspects
        self._disk = disk
        self._manifest = manifest
        self._clock = clock
        self._threads = threads
        self._kept = kept
        self._on_whole = on_whole
        self._due_ns: int | None = None
        """When the next file is due."""
        self._files = 1
        self._urgent = 0
        """So many files and buckets are not waited for."""
        self._counted_ns = -SCRUB_COUNT_NS

    async def run(self) -> NoReturn:
        """Reads files until cancelled, from the end of the recovery on."""
        while not self._agent.recovered:
            await self._pause()
        while True:
            keys = sorted(assigned(self._agent.durable, self._published.node))
            await self._pass(keys)
            until_ns = self._clock.now_ns() + (0 if keys else SCRUB_COUNT_NS)
            while self._clock.now_ns() < until_ns:
                await self._read_suspects()
                await self._pause()

    async def _pass(self, keys: list[BucketKey]) -> None:
        """Reads the segments that this node holds, each when it is due; a bucket takes the time of one more."""
        node, begin = self._published.node, self._begin
        for key in _turned(keys, begin):
            await self._until_due(len(keys))
            stored = await self._threads.run(partial(self._manifest.bucket, key))
            names = sorted(name for name, one in stored.segments.items() if node in one.holders)
            for name in _turned(names, begin):
                await self._until_due(len(keys))
                await self._check(OnDisk(*key, name))

    async def _until_due(self, buckets: int) -> None:
        """Waits until the next file or bucket is due, and reads suspected files meanwhile."""
        while True:
            await self._read_suspects()
            now_ns = self._clock.now_ns()
            if now_ns >= self._counted_ns + SCRUB_COUNT_NS:
                self._files, self._counted_ns = self._kept(), now_ns
            if self._urgent:
                self._urgent -= 1
                return
            every_ns = self._every_ns // (self._files + buckets)
            if self._due_ns is None:
                self._due_ns = now_ns + every_ns * (self._begin % _PARTS) // _PARTS
            # Sooner, if there are more files by now.
            self._due_ns = min(self._due_ns, now_ns + every_ns)
            if every_ns and now_ns >= self._due_ns:
                self._due_ns = max(self._due_ns, now_ns - SCRUB_LATE_MAX_NS) + every_ns
                return
            await self._pause()

    async def _read_suspects(self) -> None:
        while (one := self._suspects.first) is not None:
            await self._check(one)
            self._suspects.checked(one)

    @property
    def _begin(self) -> int:
        """Another random number for each process."""
        return int(self._published.session or "0", 16)

    @property
    def _every_ns(self) -> int:
        """In which time each file is read once; 0 for never."""
        settings = self._agent.durable.settings
        return 0 if settings is None else settings.scrub_every_ns

    async def _pause(self) -> None:
        await self._clock.sleep_until(self._clock.now_ns() + SCRUB_POLL_NS)

    async def _check(self, one: OnDisk) -> None:
        """Reads one file whole, if it counts as a copy."""
        key = one.table, one.bucket
        stored = await self._threads.run(partial(self._manifest.segment, key, one.segment))
        entry = stored.segment
        if entry is None or self._published.node not in entry.holders:
            return
        try:
            damaged = await self._disk.is_damaged(entry, self._rest)
        except LeaseholdError as error:  # it says nothing against the file
            log.warning("segment %s of table %d could not be read: %s", one.segment, one.table, error.text)
            return
        was_damaged = self._suspects.is_damaged(one)
        self._suspects.found(one, damaged=damaged)
        if damaged:
            if self._published.disk_failing and not was_damaged:
                self._urgent = self._files + len(assigned(self._agent.durable, self._published.node))
            _tell(entry, self._published.node, self._agent.durable)
        elif was_damaged:
            log.info("segment %s of table %d can be read again", one.segment, one.table)
            self._on_whole(entry)

    async def _rest(self, piece_bytes: int) -> None:
        rest_ns = piece_bytes * SECOND_NS // SCRUB_BYTES_PER_SECOND
        await self._clock.sleep_until(self._clock.now_ns() + rest_ns)


def _turned(those: list[T], begin: int) -> list[T]:
    """Begun at a place in the middle."""
    place = begin % len(those) if those else 0
    return [*those[place:], *those[:place]]


def _tell(entry: SegmentRecord, node: NodeId, durable: Catalog) -> None:
    table = durable.tables.get(entry.table)
    name = f"table {entry.table}" if table is None else durable.table_name(table)
    if has_other_holder(entry, node, durable):
        log.warning("segment %s of %s is damaged here: another node's copy replaces it", entry.id, name)
    else:
        log.error(
            "segment %s of %s is damaged, and no other node holds it: its %d rows can't be read; the file stays where"
            " it is",
            entry.id,
            name,
            entry.rows,
        )
