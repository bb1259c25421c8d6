"""Fan-out of committed revisions to watchers, shared by all backends.

A watcher is always in one of two states, and moves between them without gap or repeat:

| state | takes from | leaves when |
| --- | --- | --- |
| replaying | the history, from `position` on | the history is read up to its newest revision |
| live | its queue, filled by `Fanout.publish` | the queue overflowed and is drained: back to replaying |

It subscribes **before** it reads the history, so what commits meanwhile waits in the queue. What comes twice lies below
`position` and is dropped. A queue that overflowed keeps what it holds and remembers the first revision that it dropped.
The history is read again from there, so only a compaction beyond that point loses it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import TypeAlias

import msgspec

from leasehold.core.words.operations import RevisionChanges
from leasehold.errors import LeaseholdError
from leasehold.ids import Revision
from leasehold.limits.sessions import WATCH_QUEUE_REVISIONS_MAX


class HistoryPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the history: all of the range that changed up to `covered`; `complete` if no newer revision exists."""

    batches: tuple[RevisionChanges, ...]
    covered: Revision
    complete: bool


History: TypeAlias = Callable[[bytes, bytes, Revision], Awaitable[HistoryPart]]
"""Reads [start, end) from a revision on; raises `Compacted` when that is below MM."""


class Subscription:
    """One watcher's bounded queue of live revisions."""

    def __init__(self, start: bytes, end: bytes, queue_max: int) -> None:
        self._start = start
        self._end = end
        self._queue_max = queue_max
        self._ready = asyncio.Event()
        self._error: Callable[[], LeaseholdError] | None = None
        self.queue: deque[RevisionChanges] = deque()
        self.dropped_from: Revision | None = None
        """The first revision that found the queue full, and so was not kept; nothing after it was."""

    def offer(self, batch: RevisionChanges) -> None:
        """Keeps the part of the revision that lies in the range, if there is one and room for it."""
        if self.dropped_from is not None:
            return
        changes = batch.changes
        if not (self._start <= changes[0].key and changes[-1].key < self._end):
            within = tuple(change for change in changes if self._start <= change.key < self._end)
            if not within:
                return
            batch = RevisionChanges(batch.revision, within)
        if len(self.queue) < self._queue_max:
            self.queue.append(batch)
        else:
            self.dropped_from = batch.revision
        self._ready.set()

    def end(self, error: Callable[[], LeaseholdError]) -> None:
        """Ends it; its watcher gets the error."""
        self._error = error
        self._ready.set()

    async def wait(self) -> None:
        """Returns once there is something to take. Raises the error that it was ended with."""
        while True:
            if self._error is not None:
                raise self._error()
            if self.queue or self.dropped_from is not None:
                return
            self._ready.clear()
            await self._ready.wait()


class Fanout:
    """All watchers of one store. Used on one event loop."""

    def __init__(self, queue_max: int = WATCH_QUEUE_REVISIONS_MAX) -> None:
        assert queue_max > 0
        self._queue_max = queue_max
        self._subscriptions: dict[Subscription, None] = {}
        self._error: Callable[[], LeaseholdError] | None = None

    def publish(self, batches: Iterable[RevisionChanges]) -> None:
        """Hands durable revisions to every watcher, in revision order, each key-ordered and not empty."""
        for batch in batches:
            for subscription in self._subscriptions:
                subscription.offer(batch)

    def close(self, error: Callable[[], LeaseholdError]) -> None:
        """Ends all watches, those to come as well, with what `error` makes; idempotent."""
        if self._error is not None:
            return
        self._error = error
        for subscription in self._subscriptions:
            subscription.end(error)

    async def follow(
        self, start: bytes, end: bytes, from_revision: Revision, history: History
    ) -> AsyncGenerator[RevisionChanges, None]:
        """The watch of [start, end) from `from_revision` on, as `MetaStorage.watch` promises it."""
        if self._error is not None:
            raise self._error()
        subscription = Subscription(start, end, self._queue_max)
        self._subscriptions[subscription] = None
        position = from_revision
        try:
            while True:
                complete = False
                while not complete:
                    replay = await history(start, end, position)
                    for batch in replay.batches:
                        yield batch
                    # A watch may begin beyond the newest revision, so the history never takes it back.
                    position = max(position, Revision(replay.covered + 1))
                    complete = replay.complete
                while subscription.queue or subscription.dropped_from is None:
                    await subscription.wait()
                    while subscription.queue:
                        batch = subscription.queue.popleft()
                        if batch.revision >= position:
                            position = Revision(batch.revision + 1)
                            yield batch
                position = max(position, subscription.dropped_from)
                # From here on the queue keeps again, and only then is the history read.
                subscription.dropped_from = None
        finally:
            del self._subscriptions[subscription]
