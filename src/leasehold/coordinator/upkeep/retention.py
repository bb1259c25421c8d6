"""Compacts the history of the meta storage (`core/recovery/retention.py` decides how much is kept)."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

from leasehold.coordinator.writer import Writer
from leasehold.core.recovery.retention import Retention
from leasehold.core.words.operations import RevisionChanges
from leasehold.errors import Definite, Indefinite
from leasehold.ids import NodeId, Revision
from leasehold.limits.metastorage import COMPACTION_INTERVAL_NS
from leasehold.metastorage.contract import Compacted, FutureRevision, Leadership, MetaStorage
from leasehold.metastorage.transaction import bytes_of_changes
from leasehold.wire.ports import Clock

log = logging.getLogger(__name__)


class Retaining:
    """The retention of one leader."""

    def __init__(self, storage: MetaStorage, leadership: Leadership, writer: Writer, clock: Clock) -> None:
        self._storage = storage
        self._leadership = leadership
        self._writer = writer
        self._clock = clock
        self._retention = Retention(clock.now_ns())
        self._compacted = Revision(1)
        self._counts = False
        """Whether the bytes of the history that this leader found are known."""
        self._sample()

    def hold(self, node: NodeId, revision: Revision) -> None:
        self._retention.hold(node, revision, self._clock.now_ns())

    def renew(self, node: NodeId) -> None:
        self._retention.renew(node, self._clock.now_ns())

    def followed(self, node: NodeId, watch_from: Revision, latest: Revision) -> None:
        """A session of a node watches from a revision on; `latest` is LM."""
        self._retention.followed(node, watch_from, latest, self._clock.now_ns())

    def delivered(self, node: NodeId, revision: Revision) -> None:
        self._retention.delivered(node, revision, self._clock.now_ns())

    def committed(self, batch: RevisionChanges) -> None:
        self._retention.wrote(bytes_of_changes(batch.changes))

    async def run(self) -> None:
        """Compacts each COMPACTION_INTERVAL_NS, until cancelled. A store that is gone ends the leader."""
        while True:
            await self._clock.sleep_until(self._clock.now_ns() + COMPACTION_INTERVAL_NS)
            self._sample()
            try:
                if not self._counts:
                    await self._count()
                await self._compact()
            except Definite as error:
                log.warning("the history can't be compacted now: %s", error)
            except Indefinite as error:
                # In a shared store an answer may be lost, and the term ends by its deadline.
                if self._leadership.deadline_ns() is None:
                    raise
                log.warning("it is not known whether the history was compacted: %s", error)

    def _sample(self) -> None:
        catalog = self._writer.catalog
        assert catalog.settings is not None
        self._retention.sample(catalog.revision, catalog.settings, self._clock.now_ns())

    async def _count(self) -> None:
        """Looks at the history that an earlier leader left."""
        minimum = (await self._storage.status()).minimum
        self._retention.found(minimum, await self._storage.history_bytes())
        self._counts = True

    async def _compact(self) -> None:
        catalog = self._writer.catalog
        assert catalog.settings is not None
        before = self._retention.allowed(catalog.revision, catalog.settings, self._clock.now_ns())
        if before <= self._compacted:
            return
        minimum = (await self._storage.status()).minimum  # an earlier leader may have compacted further
        if before > minimum:
            # Snapshots that begin meanwhile hold revisions that are newer than `before`.
            await self._storage.compact(before, self._leadership.fence())
            log.info("compacted the history before revision %d", before)
        self._compacted = max(before, minimum)


@contextmanager
def reading_the_store() -> Generator[None]:
    """Around a read for a node: turns definite errors of the store into `Indefinite`, except `Compacted` and
    `FutureRevision`. They are definite about the store, but would end the node."""
    try:
        yield
    except (Compacted, FutureRevision):
        raise
    except Definite as error:
        raise Indefinite(f"the meta storage can't be read: {error.text}", hint="the node asks again") from error
