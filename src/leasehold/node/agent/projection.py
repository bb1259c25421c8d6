"""A node's projection of the meta storage: what it shows, and behind that what its vault holds.

A revision becomes the published view first, and durable soon after, several at once. A snapshot goes the other way: the
vault leaps first, in one transaction, and then the view. Both pass through one queue, so a leap comes after every
revision that was shown before it (INV-REC-1), whatever becomes of the stream that brought them.

Who hears of a revision, in this order: the view, which wakes the threads that wait for it; the lease, which reports it;
once it is durable the reconciler, which looks by itself, and the recovery. Of a leap they hear in one step, in which
nothing else runs: view, reconciler, then lease and recovery; the vault has leapt before that.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words.messages import SnapshotEnd
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.errors import Refused
from leasehold.ids import Revision
from leasehold.limits.sessions import WATCH_QUEUE_REVISIONS_MAX
from leasehold.limits.vault import VAULT_BATCH_REVISIONS_MAX, VAULT_DELAY_NS
from leasehold.node.agent.published import Published
from leasehold.wire.ports import Clock, Threads, Vault


class _Leap(msgspec.Struct, eq=False):
    """A snapshot that lies in the vault whole; `done` says what the vault refused, if it did."""

    end: SnapshotEnd
    done: "asyncio.Future[Refused | None]"


class ProjectionLimits(NamedTuple):
    """Bounds of what waits for the vault."""

    queue_revisions_max: int = WATCH_QUEUE_REVISIONS_MAX
    batch_revisions_max: int = VAULT_BATCH_REVISIONS_MAX


PROJECTION_LIMITS: Final = ProjectionLimits()


class Projection:
    """Of one process; `save` runs for the life of it."""

    def __init__(
        self,
        *,
        vault: Vault,
        published: Published,
        clock: Clock,
        threads: Threads,
        on_stored: Callable[[Revision], None],
        on_leapt: Callable[[Revision], None],
        limits: ProjectionLimits = PROJECTION_LIMITS,
    ) -> None:
        self.durable = Catalog()
        """The newest catalog that the vault holds."""
        self._trimmed = self.durable
        """The one without whose segments the view goes on."""
        self._vault = vault
        self._published = published
        self._clock = clock
        self._threads = threads
        self._on_stored = on_stored
        self._on_leapt = on_leapt
        self._limits = limits
        self._unsaved: asyncio.Queue[tuple[RevisionChanges, Catalog] | _Leap] = asyncio.Queue(
            limits.queue_revisions_max
        )
        self._taken = asyncio.Event()
        self._leap: _Leap | None = None

    async def restore(self) -> Catalog:
        """Takes up what the vault holds, but for segments, which stay there; shows nothing."""
        stored = await self._vault.reopened()
        self.durable = self._trimmed = await self._threads.run(lambda: Catalog.reopened(stored))
        return self.durable

    async def take(self, batch: RevisionChanges) -> Catalog | None:
        """Publishes one revision more, as soon as there is room for what is not saved; None if it was delivered before
        (R10)."""
        await self._room()
        view = self._published.view
        if batch.revision <= view.revision:
            return None
        if self._trimmed is not self.durable:
            view, self._trimmed = view.trimmed(self.durable), self.durable
        view = view.applying(batch)
        self._published.publish(view)
        # With nothing between the two: what is shown is saved, wherever this is cancelled.
        self._unsaved.put_nowait((batch, view))
        return view

    async def _room(self) -> None:
        while self._unsaved.full():
            self._taken.clear()
            await self._taken.wait()

    async def stage(self, items: tuple[Change, ...], *, first: bool) -> None:
        """Takes a page of a snapshot."""
        await self._vault.stage(items, first=first)

    async def leap(self, end: SnapshotEnd) -> None:
        """Leaps to what was staged, after all that was shown; nothing may be shown meanwhile. Raises `Refused` with
        code BAD_SNAPSHOT. It goes on if its caller is cancelled: see `settled`."""
        leap = _Leap(end, asyncio.get_running_loop().create_future())
        await self._room()
        self._unsaved.put_nowait(leap)
        self._leap = leap
        await self.settled()
        refused = leap.done.result()
        if refused is not None:
            raise refused

    async def settled(self) -> None:
        """Returns once no leap is under way: only then is the view what the next stream starts from."""
        if self._leap is not None:
            await asyncio.wait([self._leap.done])
            self._leap = None

    async def save(self) -> None:
        """Makes revisions durable behind the view, as many at once as wait."""
        while True:
            one = await self._unsaved.get()
            self._taken.set()
            if isinstance(one, _Leap):
                await self._carry_out(one)
                continue
            batches, leap = [one], None
            await self._clock.sleep_until(self._clock.now_ns() + VAULT_DELAY_NS)
            while not self._unsaved.empty() and len(batches) < self._limits.batch_revisions_max and leap is None:
                one = self._unsaved.get_nowait()
                if isinstance(one, _Leap):
                    leap = one
                else:
                    batches.append(one)
            self._taken.set()
            durable = batches[-1][1]
            await self._vault.apply([batch for batch, _ in batches], durable.lineage)
            self.durable = durable
            self._on_stored(durable.revision)
            if leap is not None:
                await self._carry_out(leap)

    async def _carry_out(self, leap: _Leap) -> None:
        end, held = leap.end, self.durable
        assert self._published.view is held, "whatever was shown before a leap is durable before it"
        try:
            changes = await self._vault.leap(end.revision, end.lineage, end.digest)
        except Refused as refused:
            leap.done.set_result(refused)
            return
        if end.revision > held.revision:
            # On a thread: whoever is overtaken while it serves renews its lease meanwhile.
            view = await self._threads.run(lambda: held.leaping(end.revision, end.lineage, changes))
            self._published.publish(view)
            self.durable = self._trimmed = view
        self._on_leapt(end.revision)
        leap.done.set_result(None)
