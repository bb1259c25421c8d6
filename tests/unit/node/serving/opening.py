"""Local opens of two nodes that stand on this machine."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.client import local_opens
from leasehold.client.local_opens import LocalOpen, open_locally
from leasehold.client.threads import THREADS
from leasehold.core.lease.holder import Lease
from leasehold.core.words.messages import ScanPlan
from leasehold.errors import LeaseholdError
from leasehold.ids import LoginToken, Revision, Sequence, Term
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.wire.clock import sleep_ns
from tests.unit.node.cluster import Cluster, cluster, rows
from tests.unit.node.serving.test_scans import append

MS = MILLISECOND_NS


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    """Two segments of 100 rows, each on two nodes of this machine."""
    local_opens._elsewhere.clear()
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        append(made, rows(0, 100))
        append(made, rows(100, 100))
        yield made


def reader(login: LoginToken | None = None) -> dict[str, Any]:
    return {"tls": None, "login": login, "revision": Revision(0)}


def opened(made: Cluster, plan: ScanPlan | None = None, login: LoginToken | None = None) -> LocalOpen:
    plan = plan or made.plan()
    return open_locally(plan, [[one] for one in plan.segments], **reader(login))


def paths(open_: LocalOpen) -> list[Path]:
    return [file for group in open_.folders for folder in group for file in sorted(folder.glob("*"))]


def left_over(made: Cluster) -> list[Path]:
    """Of links, at all nodes; what was taken away counts only where it can be opened by its path."""
    local = [one.root / "local" for one in made.nodes]
    return [one for folder in local for one in folder.glob("*") if one.name not in {"gone", "proof"}]


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(LeaseholdError) as caught:
        call()
    return caught.value.code


def ended(open_: LocalOpen) -> str:
    """Why, once its thread has noticed; fails after some seconds."""
    until_ns = THREADS.now_ns() + 20 * SECOND_NS
    while open_.ended is None:
        assert THREADS.now_ns() < until_ns, "it lasts on"
        sleep_ns(5 * MS)
    return open_.ended.code


def lend(made: Cluster, left_ns: int) -> None:
    for node in made.nodes:
        deadline_ns = THREADS.now_ns() + left_ns
        node.published.hold(Lease(term=Term(1), sequence=Sequence(9), deadline_ns=deadline_ns))
