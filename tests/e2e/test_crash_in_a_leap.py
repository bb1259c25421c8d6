"""A node that is killed just before or just after its vault leaps to a snapshot, with real processes and real files."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import RunningCluster
from tests.e2e.nodes import Node, projection

pytestmark = pytest.mark.processes
STATEMENTS = 40


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    """A new one for each test, with few keys; the test brings a node of its own."""
    with RunningCluster.start(tmp_path / "cluster", nodes=1) as running:
        yield running


@pytest.mark.parametrize(("fault", "leapt"), [("crash-before:leap:1", False), ("crash-after:leap:1", True)])
async def test_R1_a_vault_that_is_cut_at_its_leap_holds_all_of_it_or_nothing(
    cluster: RunningCluster, tmp_path: Path, fault: str, leapt: bool
) -> None:
    with Node(tmp_path / tmp_path.name, cluster) as node, cluster.connect() as client:
        client.sql("CREATE DATABASE kept")
        node.start().serves()
        node.stop()
        before = await projection(node.directory)
        for number in range(STATEMENTS):  # more revisions than keys
            client.sql(f"CREATE DATABASE gone_{number}")
            client.sql(f"DROP DATABASE gone_{number}")
        client.sql("DROP DATABASE kept")
        assert node.start(LEASEHOLD_FAULT=fault).ended().code == -signal.SIGKILL, node.said()
        after = await projection(node.directory)
        assert (after.applied > before.applied) == leapt
        assert leapt or after == before
        node.start().serves()
        recovery = node.status().recovery
        assert recovery is not None
        assert (recovery.case == "c") == (not leapt)
        node.stop()
        assert not [item for item in (await projection(node.directory)).items if item.key.startswith(b"c/database/")]
