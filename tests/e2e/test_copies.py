"""A node comes back and another one is destroyed: the commands tell from when on that loses no rows."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from leasehold.client.append import Appended
from leasehold.client.cluster import Cluster
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold
from tests.e2e.waiting import wait_until, wait_until_whole

pytestmark = pytest.mark.processes

ROWS = 400


def append(cluster: Cluster, start: int) -> Appended:
    return cluster.table("d.t").append(pa.table({"a": range(start, start + ROWS)}))


def rows(cluster: Cluster) -> list[int]:
    return sorted(cluster.table("d.t").scan().read_all()["a"].to_pylist())


def test_once_a_node_is_whole_another_can_be_destroyed(tmp_path: Path) -> None:
    with RunningCluster.start(tmp_path / "cluster", nodes=2) as running, running.connect() as cluster:
        where = ("--dir", str(running.directory))
        first, away = running.names()
        cluster.sql("CREATE DATABASE d")
        cluster.sql("CREATE TABLE d.t (a BIGINT) CLUSTERED BY (a) INTO 4 BUCKETS TBLPROPERTIES ('replication' = '2')")
        both = append(cluster, 0)
        assert (both, both.segments) == (ROWS, 4)
        wait_until_whole(cluster)
        assert "fewer nodes" not in leasehold("status", *where).out

        running.kill(away)
        alone = append(cluster, ROWS)
        assert (alone, alone.segments, alone.segments_short) == (ROWS, 4, 4)
        status = leasehold("status", *where, "-o", "json").json()
        assert (status["segments_short"], status["segments_lost"]) == (4, 0), "from the commit on"
        assert {one["name"]: one["segments_alone"] for one in status["nodes"]} == {first: 4, away: 0}
        assert f"{first} alone holds 4" in leasehold("status", *where).out
        late = leasehold("node", "wait", first, "--whole", "--timeout", "1s", *where)
        assert (late.code, "error [NOT_WHOLE]" in late.err, "4 segments of its buckets" in late.err) == (5, True, True)
        told = leasehold("node", "wait", first, *where)
        assert (told.code, "--whole" in told.err) == (0, True), "it serves, and something is missing"

        running.restart(away)
        whole = leasehold("node", "wait", away, "--whole", *where, "-o", "json")
        assert (whole.code, whole.json()["segments_short"]) == (0, 0)
        running.kill(first)
        shutil.rmtree(running.local.node(first).directory / "segments")
        wait_until(lambda: rows(cluster) == list(range(2 * ROWS)))
