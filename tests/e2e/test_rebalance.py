"""A new node gets its share of the buckets that are there, as real processes."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from leasehold.client.cluster import Cluster
from leasehold.core.words.messages import Rows
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import Ran, leasehold
from tests.e2e.nodes import Node
from tests.e2e.waiting import files_below, wait_until

pytestmark = pytest.mark.processes

ROWS = 600


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster.start(tmp_path_factory.mktemp("rebalance") / "cluster", nodes=2) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(running: RunningCluster) -> Iterator[Cluster]:
    with running.connect() as cluster:
        cluster.sql("CREATE DATABASE d")
        cluster.sql("CREATE TABLE d.t (a BIGINT) CLUSTERED BY (a) INTO 12 BUCKETS TBLPROPERTIES ('replication' = '2')")
        cluster.table("d.t").append(pa.table({"a": range(ROWS)}))
        yield cluster


def rebalance(running: RunningCluster, *words: str) -> Ran:
    return leasehold("rebalance", *words, directory=running.directory)


def replicas(cluster: Cluster) -> Counter[str]:
    """How many buckets each node has, where all are in sync."""
    shown = cluster.sql("SHOW BUCKETS OF d.t")
    assert isinstance(shown, Rows)
    found = [dict(zip(shown.columns, row, strict=True)) for row in shown.rows]
    if any(str(one["replicas"]).count(",") != 1 or one["replicas"] != one["in_sync"] for one in found):
        return Counter()
    return Counter(name for one in found for name in str(one["replicas"]).split(", "))


def test_a_new_node_gets_its_share_by_the_command(running: RunningCluster, cluster: Cluster, tmp_path: Path) -> None:
    rebalance(running, "--stop", "--wait").refused(2, "--stop goes with no other option")
    assert "no bucket has to move" in rebalance(running).out
    with Node(tmp_path / "third", running) as third:
        third.start().serves()
        shown = rebalance(running, "--dry-run", "-o", "json").json()
        assert (shown["rebalancing"], len(shown["moves"])) == (False, 8)
        assert {one["to"] for one in shown["moves"]} == {"third"}
        assert replicas(cluster)["third"] == 0
        ran = rebalance(running, "--wait")
        assert (ran.code, "8 moves" in ran.out, "no bucket moves any more" in ran.out) == (0, True, True), ran.err
        assert replicas(cluster) == {"node-1": 8, "node-2": 8, "third": 8}
        assert rebalance(running, "--dry-run", "-o", "json").json()["moves"] == []
        directory = tmp_path / "third" / "segments"
        assert len(files_below(directory, ".parquet")) >= 8
        assert sorted(cluster.table("d.t").scan().read_all()["a"].to_pylist()) == list(range(ROWS))
        _and_another_one_by_itself(running, cluster, tmp_path)


def _and_another_one_by_itself(running: RunningCluster, cluster: Cluster, tmp_path: Path) -> None:
    with Node(tmp_path / "fourth", running) as fourth:
        fourth.start().serves()
        cluster.sql("ALTER CLUSTER SET rebalance = 'auto'")
        wait_until(lambda: replicas(cluster) == {"node-1": 6, "node-2": 6, "third": 6, "fourth": 6})
        assert sorted(cluster.table("d.t").scan().read_all()["a"].to_pylist()) == list(range(ROWS))
        cluster.sql("ALTER CLUSTER SET rebalance = 'manual'")
        stopped = rebalance(running, "--stop", "-o", "json").json()
        assert (stopped["rebalancing"], stopped["left"]) == (False, [])
