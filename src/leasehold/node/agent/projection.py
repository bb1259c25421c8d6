"""A node's projection of the meta storage: the view that it shows, and the copy in its vault.

A revision becomes the published view first, and durable soon after, several at once. A snapshot goes the other way: the
vault leaps first, in one transaction, then the view. Both pass through one queue, so a leap comes after every revision
that was shown before it (INV-REC-1), even if the stream breaks.

A revision reaches the view, then the lease, and once it is durable the reconciler and the recovery. A leap reaches all
of them in one step of the event loop, after the vault has leapt.
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
    """A snapshot that is staged completely; `done` says what the vault refused, if it did."""

    end: SnapshotEnd
    done: "asyncio.Future[Refused | None]"


class ProjectionLimits(NamedTuple):
    """Limits of what waits for the vault."""

    queue_revisions_max: int = WATCH_QUEUE_REVISIONS_MAX
    batch_revisions_max: int = VAULT_BATCH_REVISIONS_MAX


PROJECTION_LIMITS: Final = ProjectionLimits()


class Projection:
    """The projection of one process; `save` runs as long as the process."""

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
        """The durable catalog whose segments the view has dropped, since the vault holds them."""
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
        """Reads the catalog from the vault, except for segments, which stay there. Publishes nothing."""
        stored = await self._vault.reopened()
        self.durable = self._trimmed = await self._threads.run(lambda: Catalog.reopened(stored))
        return self.durable

    async def take(self, batch: RevisionChanges) -> Catalog | None:
        """Publishes one more revision, as soon as the queue has room; None if it was delivered before (R10)."""
        await self._room()
        view = self._published.view
        if batch.revision <= view.revision:
            return None
        if self._trimmed is not self.durable:
            view, self._trimmed = view.trimmed(self.durable), self.durable
        view = view.applying(batch)
        self._published.publish(view)
        # No await in between: a revision that is shown is saved too, even if this is cancelled.
        self._unsaved.put_nowait((batch, view))
        return view

    async def _room(self) -> None:
        while self._unsaved.full():
            self._taken.clear()
            await self._taken.wait()

    async def stage(self, items: tuple[Change, ...], *, first: bool) -> None:
        await self._vault.stage(items, first=first)

    async def leap(self, end: SnapshotEnd) -> None:
        """Leaps to what was staged, after every revision that was shown; none may be shown meanwhile. Raises `Refused`
        with code BAD_SNAPSHOT. The leap goes on if its caller is cancelled: see `settled`."""
        leap = _Leap(end, asyncio.get_running_loop().create_future())
        await self._room()
        self._unsaved.put_nowait(leap)
        self._leap = leap
        await self.settled()
        refused = leap.done.result()
        if refused is not None:
            raise refused

    async def settled(self) -> None:
        """Returns once no leap is under way: only then may the next stream start from the view."""
        if self._leap is not None:
            await asyncio.wait([self._leap.done])
            self._leap = None

    async def save(self) -> None:
        """Makes published revisions durable, up to `batch_revisions_max` at once."""
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
            # On a thread: a node that serves meanwhile has to renew its lease.
            view = await self._threads.run(lambda: held.leaping(end.revision, end.lineage, changes))
            self._published.publish(view)
            self.durable = self._trimmed = view
        self._on_leapt(end.revision)
        leap.done.set_result(None)
