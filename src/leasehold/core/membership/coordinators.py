"""Which coordinators there are. Each one that follows reports itself to the leader, which keeps their addresses in the
catalog, so that nodes, clients and the others know them all.

A coordinator that the catalog does not show as it reports itself is a change of the catalog, and so is one that has
been silent for COORDINATOR_KEPT_NS. How far each has come is known to the leader alone.
"""

from collections.abc import Callable
from typing import NamedTuple

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.messages import ClusterFacts, ReportCoordinator
from leasehold.core.words.operations import Change
from leasehold.core.words.records import CoordinatorRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadMessage, Refused
from leasehold.ids import NODE_ADDRESS, NODE_NAME, Revision, Term
from leasehold.limits.membership import (
    COORDINATOR_KEPT_NS,
    COORDINATOR_SILENT_NS,
    COORDINATORS_MAX,
    VERSION_CHARACTERS_MAX,
)


class HeardReport(NamedTuple):
    """The last report of a coordinator."""

    at_ns: int
    applied: Revision
    member: str
    certificate_ends_s: int | None


class CoordinatorReports:
    """What one leader has heard of the others, by their addresses."""

    def __init__(self, now_ns: int) -> None:
        self._since_ns = now_ns
        self._heard: dict[str, HeardReport] = {}

    def take(self, report: ReportCoordinator, now_ns: int, certificate_ends_s: int | None = None) -> None:
        self._heard[report.address] = HeardReport(now_ns, report.applied, report.member, certificate_ends_s)

    def last(self, address: str, now_ns: int) -> HeardReport | None:
        """The last report of a coordinator that is not silent."""
        heard = self._heard.get(address)
        return None if heard is None or now_ns - heard.at_ns >= COORDINATOR_SILENT_NS else heard

    def forget(self, catalog: Catalog, now_ns: int, *, but: str) -> tuple[Change, ...]:
        """The changes that take the coordinators out of the catalog that have been silent for long, `but` one."""
        gone = [
            address
            for address in catalog.coordinators
            if address != but and now_ns - self._heard_ns(address) >= COORDINATOR_KEPT_NS
        ]
        for address in gone:
            self._heard.pop(address, None)
        return tuple(Change(keys.coordinator(address), None) for address in sorted(gone))

    def _heard_ns(self, address: str) -> int:
        heard = self._heard.get(address)
        return self._since_ns if heard is None else heard.at_ns


def check_report(report: ReportCoordinator) -> None:
    """Raises `BadMessage` for what no coordinator says of itself."""
    texts: tuple[tuple[str, Callable[[str], object]], ...] = (
        (report.address, NODE_ADDRESS.fullmatch),
        (report.name, lambda name: not name or NODE_NAME.fullmatch(name)),
        (report.version, lambda version: len(version) <= VERSION_CHARACTERS_MAX and version.isprintable()),
        (report.member, lambda member: not member or NODE_ADDRESS.fullmatch(member)),
    )
    for text, is_good in texts:
        if not is_good(text):
            raise BadMessage(f"{text[:80]!r} in the report of a coordinator")


def cluster_facts(catalog: Catalog, term: Term, *, leader: bool) -> ClusterFacts:
    """The answer to WhoAreYou. `term` is that of the leader, or the newest one that a follower has seen; 0 if none."""
    assert catalog.cluster is not None, "before a cluster is created, a coordinator answers NOT_INITIALISED"
    return ClusterFacts(
        cluster_id=catalog.cluster.cluster_id,
        generation=catalog.cluster.generation,
        term=term,
        leader=leader,
        coordinators=tuple(sorted(catalog.coordinators)),
    )


def told_addresses(facts: ClusterFacts) -> tuple[str, ...]:
    """The coordinators that a process tells of, which need not be one: only what can be an address."""
    return tuple(one for one in facts.coordinators if NODE_ADDRESS.fullmatch(one))


def enrol(record: CoordinatorRecord, catalog: Catalog) -> tuple[Change, ...]:
    """The changes after which the catalog shows a coordinator. Raises `Refused` (TOO_MANY_COORDINATORS)."""
    known = catalog.coordinators.get(record.address)
    if known == record:
        return ()
    if known is None and len(catalog.coordinators) >= COORDINATORS_MAX:
        raise Refused(
            f"this cluster knows {COORDINATORS_MAX} coordinators already",
            code=ErrorCode.TOO_MANY_COORDINATORS,
            hint="one that has stopped is forgotten after ten minutes",
        )
    return (put(keys.coordinator(record.address), record),)
