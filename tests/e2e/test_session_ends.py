"""Real processes that are paused, killed and stopped, and what `status` says once their sessions have ended."""

from pathlib import Path

import pytest

from leasehold.core.words.messages import Rows
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold
from tests.e2e.waiting import wait_until

pytestmark = pytest.mark.processes


def ends(cluster: RunningCluster) -> dict[str, str]:
    with cluster.connect() as client:
        status = client.status()
    names = {one.id: one.name for one in status.nodes}
    return {names[one.node]: one.how for one in status.session_ends}


def test_a_paused_node_is_told_from_a_dead_one_after_its_session_has_ended(tmp_path: Path) -> None:
    with RunningCluster.start(tmp_path / "cluster") as cluster:
        assert ends(cluster) == {}
        cluster.kill("node-2")
        cluster.pause("node-1")
        wait_until(lambda: len(ends(cluster)) == 2)
        assert ends(cluster) == {"node-1": "NO_ANSWER", "node-2": "GONE"}
        wait_until(lambda: "DOWN" in leasehold("status", directory=cluster.directory).out)
        told = leasehold("status", directory=cluster.directory).out
        assert "node-1: it stopped answering" in told
        assert "node-2: its connection was closed" in told
        assert "node-3: " not in told
        with cluster.connect() as client:
            shown = client.sql("SHOW NODES")
            assert isinstance(shown, Rows)
            place = shown.columns.index("session")
            assert [row[place] for row in shown.rows] == ["NO_ANSWER", "GONE", "OPEN"]
        cluster.resume("node-1")
        cluster.restart("node-2")
        wait_until(lambda: ends(cluster) == {})
