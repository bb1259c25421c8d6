"""What a leader keeps of the meta storage's history; the rest it compacts (decided in `core/recovery/retention.py`)."""

import logging

from leasehold.coordinator.writer import Writer
from leasehold.core.recovery.retention import Retention
from leasehold.core.words import keys
from leasehold.errors import Definite, Indefinite
from leasehold.ids import NodeId, Revision
from leasehold.limits.metastorage import COMPACTION_INTERVAL_NS
from leasehold.metastorage.contract import Compacted, Leadership, MetaStorage
from leasehold.wire.ports import Clock

log = logging.getLogger(__name__)


class Retaining:
    """Of one leader. A compaction is no transaction, and compares no term: what a leader that is over asks for late is
    older than every revision that its successor knows, so it forgets nothing that anybody holds there."""

    def __init__(self, storage: MetaStorage, leadership: Leadership, writer: Writer, clock: Clock) -> None:
        self._storage = storage
        self._leadership = leadership
        self._writer = writer
        self._clock = clock
        self._retention = Retention(clock.now_ns())
        self._compacted = Revision(1)
        self._sample()

    # ------------------------------------------------------------ holds

    def hold(self, node: NodeId, revision: Revision) -> None:
        """A node takes a snapshot at `revision`."""
        self._retention.hold(node, revision, self._clock.now_ns())

    def renew(self, node: NodeId) -> None:
        """It has been sent a page."""
        self._retention.renew(node, self._clock.now_ns())

    def followed(self, node: NodeId, watch_from: Revision, latest: Revision) -> None:
        """A session of it watches from there on; `latest` is LM."""
        self._retention.followed(node, watch_from, latest, self._clock.now_ns())

    def delivered(self, node: NodeId, revision: Revision) -> None:
        """That session has taken a revision from the store."""
        self._retention.delivered(node, revision, self._clock.now_ns())

    # ------------------------------------------------------------ compaction

    async def run(self) -> None:
        """Compacts now and then, until cancelled. A store that declines is asked again; one that is gone ends it."""
        while True:
            await self._clock.sleep_until(self._clock.now_ns() + COMPACTION_INTERVAL_NS)
            self._sample()
            try:
                await self._compact()
            except Definite as error:
                log.warning("the history can't be compacted now: %s", error)
            except Indefinite as error:
                # Where machines share the store, an answer may be lost; the term has an end of its own.
                if self._leadership.deadline_ns() is None:
                    raise
                log.warning("it is not known whether the history was compacted: %s", error)

    def _sample(self) -> None:
        catalog = self._writer.catalog
        assert catalog.settings is not None
        self._retention.sample(catalog.revision, catalog.settings, self._clock.now_ns())

    async def _compact(self) -> None:
        catalog = self._writer.catalog
        assert catalog.settings is not None
        before = self._retention.allowed(catalog.revision, catalog.settings, self._clock.now_ns())
        if before <= self._compacted:
            return
        minimum = (await self._storage.status()).minimum  # of an earlier leader, or of an answer that was lost
        if before > minimum:
            # What was asked for meanwhile holds revisions that are newer than `before`.
            await self._storage.compact(before)
            log.info("compacted the history before revision %d", before)
        self._compacted = max(before, minimum)


async def same_as(storage: MetaStorage, revision: Revision, compacted: Compacted) -> Revision:
    """The oldest revision that can be read still and has all that `revision` had, in the watched range.

    Beats and elections take revisions too. So where others compact, as a period of etcd's own does, MM comes to lie
    beyond LM while nothing is written, and would go on doing so. Raises `Compacted` where something has changed.
    """
    while True:
        try:
            found = await storage.get(keys.LINEAGE, compacted.minimum)
        except Compacted as error:
            compacted = error
            continue
        if found is None or found.modified > revision:
            raise compacted
        return compacted.minimum
