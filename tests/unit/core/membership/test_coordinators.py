"""Which coordinators the catalog shows, and for how long."""

import pytest

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.membership.coordinators import CoordinatorReports, check_report, enrol, told_addresses
from leasehold.core.words.messages import ClusterFacts, ReportCoordinator
from leasehold.core.words.records import CoordinatorRecord
from leasehold.errors import BadMessage, Refused
from leasehold.ids import ClusterId, Generation, Revision, Term
from leasehold.limits.membership import COORDINATOR_KEPT_NS, COORDINATOR_SILENT_NS, COORDINATORS_MAX


def record(address: str, version: str = "1") -> CoordinatorRecord:
    return CoordinatorRecord(address=address, name="c", version=version)


def report(**fields: str) -> ReportCoordinator:
    told = {"address": "a:1", "name": "c", "version": "1", "member": "etcd:2379", **fields}
    return ReportCoordinator(cluster_id=ClusterId("c" * 32), applied=Revision(7), **told)


def shown(*addresses: str) -> Catalog:
    catalog = Catalog()
    for address in addresses:
        catalog = catalog.changed(enrol(record(address), catalog))
    return catalog


def test_one_that_is_shown_as_it_is_changes_nothing():
    catalog = shown("a:1", "b:1")
    assert set(catalog.coordinators) == {"a:1", "b:1"}
    assert enrol(record("a:1"), catalog) == ()
    newer = catalog.changed(enrol(record("a:1", version="2"), catalog))
    assert newer.coordinators["a:1"].version == "2"
    assert len(newer.coordinators) == 2


def test_so_many_are_shown_and_those_may_still_change():
    catalog = shown(*(f"c{number}:1" for number in range(COORDINATORS_MAX)))
    with pytest.raises(Refused, match="32 coordinators already"):
        enrol(record("other:1"), catalog)
    assert enrol(record("c0:1", version="2"), catalog)


def test_what_can_be_no_address_is_not_learned():
    told = ("a:1", "unix:/run/other", "dns:///a:1", "a:1\n", "a", "[::1]:7000")
    facts = ClusterFacts(
        cluster_id=ClusterId("c" * 32), generation=Generation(1), term=Term(1), leader=True, coordinators=told
    )
    assert told_addresses(facts) == ("a:1", "[::1]:7000")


def test_one_that_has_been_silent_for_long_is_forgotten_and_the_leader_is_not():
    catalog = shown("a:1", "b:1", "leader:1")
    reports = CoordinatorReports(now_ns=5)
    reports.take(report(), now_ns=10)
    assert reports.forget(catalog, 5 + COORDINATOR_KEPT_NS - 1, but="leader:1") == ()
    after = catalog.changed(reports.forget(catalog, 5 + COORDINATOR_KEPT_NS, but="leader:1"))
    assert set(after.coordinators) == {"a:1", "leader:1"}, "b has been silent since this leader began"
    after = after.changed(reports.forget(after, 10 + COORDINATOR_KEPT_NS, but="leader:1"))
    assert set(after.coordinators) == {"leader:1"}


def test_one_that_does_not_report_is_silent():
    reports = CoordinatorReports(now_ns=0)
    assert reports.last("a:1", 1) is None
    reports.take(report(), now_ns=10)
    last = reports.last("a:1", 10 + COORDINATOR_SILENT_NS - 1)
    assert last is not None
    assert (last.applied, last.member) == (7, "etcd:2379")
    assert reports.last("a:1", 10 + COORDINATOR_SILENT_NS) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"address": "a"},
        {"address": "a:1/../x"},
        {"name": "no name"},
        {"name": "x" * 64},
        {"version": "\x1b[2J"},
        {"version": "1" * 65},
        {"member": "etcd"},
    ],
)
def test_what_no_coordinator_says_of_itself_is_refused(fields: dict[str, str]):
    check_report(report())
    check_report(report(name="", member=""))
    with pytest.raises(BadMessage):
        check_report(report(**fields))
