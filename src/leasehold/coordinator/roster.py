"""The coordinators of a cluster, at its leader: takes the reports of the others (`core/membership/coordinators.py`)."""

import logging
from functools import partial

from leasehold.coordinator.nodes.proofs import Membership
from leasehold.coordinator.writer import Writer
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.membership.coordinators import CoordinatorReports, check_report, enrol
from leasehold.core.questions.coordinators import KnownCoordinator, coordinators
from leasehold.core.words.messages import CoordinatorReported, ReportCoordinator, Rows
from leasehold.core.words.operations import Change
from leasehold.core.words.records import CoordinatorRecord
from leasehold.errors import Definite
from leasehold.ids import Revision, Term
from leasehold.metastorage.contract import MetaStorage
from leasehold.wire.ports import CALLER, Clock

log = logging.getLogger(__name__)


class CoordinatorRoster:
    """`me` is the leader itself."""

    def __init__(
        self,
        storage: MetaStorage,
        writer: Writer,
        clock: Clock,
        membership: Membership,
        me: CoordinatorRecord,
        term: Term,
    ) -> None:
        self._storage = storage
        self._writer = writer
        self._clock = clock
        self._membership = membership
        self._me = me
        self._term = term
        self._reports = CoordinatorReports(clock.now_ns())

    async def enter(self) -> None:
        """Makes the catalog show this leader. Raises the end of this leadership."""
        try:
            await self._writer.submit(partial(enrol, self._me))
        except Definite as error:
            log.warning("the catalog does not show this coordinator: %s", error)

    async def take(self, report: ReportCoordinator) -> CoordinatorReported:
        """Answers once the catalog shows who reports. Raises `Refused` (NOT_A_MEMBER, TOO_MANY_COORDINATORS)."""
        self._membership.check(report)
        check_report(report)
        record = CoordinatorRecord(address=report.address, name=report.name, version=report.version)
        if self._writer.catalog.coordinators.get(report.address) != record:
            await self._writer.submit(partial(enrol, record))
        # One that the catalog does not show is not noted: nothing would forget it.
        caller = CALLER.get()
        self._reports.take(report, self._clock.now_ns(), None if caller is None else caller.ends_s)
        return CoordinatorReported()

    async def forget(self) -> None:
        """Takes out of the catalog who has been silent for long. Raises what `Writer.submit` does."""
        now_ns = self._clock.now_ns()

        def gone(catalog: Catalog) -> tuple[Change, ...]:
            return self._reports.forget(catalog, now_ns, but=self._me.address)

        if gone(self._writer.catalog):
            await self._writer.submit(gone)

    def rows(self, catalog: Catalog, now_ns: int) -> Rows:
        """The answer to SHOW COORDINATORS."""
        return coordinators([self._known(one, catalog.revision, now_ns) for one in self._all(catalog)], catalog)

    def certificate_ends_s(self, catalog: Catalog, now_ns: int) -> dict[str, int]:
        """When the certificates of coordinators end, in seconds since 1970 UTC, by their names."""
        known = (self._known(one, catalog.revision, now_ns) for one in self._all(catalog))
        return {one.record.name or one.record.address: one.certificate_ends_s or 0 for one in known}

    def _all(self, catalog: Catalog) -> list[CoordinatorRecord]:
        others = {one.address: one for one in catalog.coordinators.values()}
        return sorted((others | {self._me.address: self._me}).values(), key=lambda one: (one.name, one.address))

    def _known(self, record: CoordinatorRecord, newest: Revision, now_ns: int) -> KnownCoordinator:
        if record.address == self._me.address:
            ends_s = self._membership.certificate_ends_s()
            return KnownCoordinator(record, "LEADER", self._term, newest, self._storage.member, ends_s)
        heard = self._reports.last(record.address, now_ns)
        if heard is None:
            return KnownCoordinator(record, "SILENT", None, None, "")
        return KnownCoordinator(record, "FOLLOWER", self._term, heard.applied, heard.member, heard.certificate_ends_s)
