"""Replicas that move, as real processes: fewer copies of a table, nodes that stay away, a node that is drained."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from leasehold.client.cluster import Cluster
from leasehold.core.words.messages import Rows
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import Ran, leasehold
from tests.e2e.nodes import Node
from tests.e2e.waiting import files_below, wait_until, wait_until_whole

pytestmark = pytest.mark.processes

ROWS = 200
AWAY, GOING, LOST = "node-2", "node-3", "node-4"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster.start(tmp_path_factory.mktemp("drain") / "cluster", nodes=4) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(running: RunningCluster) -> Iterator[Cluster]:
    """With a table on all nodes."""
    with running.connect() as cluster:
        cluster.sql("CREATE DATABASE d")
        cluster.sql("CREATE TABLE d.t (a BIGINT) CLUSTERED BY (a) INTO 4 BUCKETS TBLPROPERTIES ('replication' = '4')")
        append(cluster, 0)
        wait_until_whole(cluster)
        yield cluster


def append(cluster: Cluster, start: int) -> None:
    cluster.table("d.t").append(pa.table({"a": range(start, start + ROWS)}))


def rows(cluster: Cluster) -> list[int]:
    return sorted(cluster.table("d.t").scan().read_all()["a"].to_pylist())


def files(running: RunningCluster) -> dict[str, int]:
    """How many segment files lie on each node."""
    return {name: len(files_below(running.directory / name / "segments", ".parquet")) for name in running.names()}


def node(running: RunningCluster, *words: str) -> Ran:
    return leasehold("node", *words, directory=running.directory)


def test_fewer_copies_are_asked_for_and_their_files_go(running: RunningCluster, cluster: Cluster) -> None:
    segments = len(cluster.plan("d.t").segments)
    wait_until(lambda: sum(files(running).values()) == 4 * segments)  # those of a hedged append go a little later
    refused = node(running, "drain", GOING)
    refused.refused(3, "error [TOO_FEW_NODES]", "d.t", "lower the 'replication'")
    cluster.sql("ALTER TABLE d.t SET TBLPROPERTIES ('replication' = '2')")
    wait_until(lambda: sum(files(running).values()) == 2 * segments)
    assert rows(cluster) == list(range(ROWS))
    assert {len(one.holders) for one in cluster.plan("d.t").segments} == {2}
    for name in running.names():
        running.pause(name)
        try:
            assert rows(cluster) == list(range(ROWS)), f"without {name}"
        finally:
            running.resume(name)
        running.wait_until_active()


def holders(cluster: Cluster) -> set[int]:
    return {number for one in cluster.plan("d.t").segments for number in one.holders}


def test_a_node_that_stays_away_is_replaced_and_gives_up_its_files_when_it_is_back(
    running: RunningCluster, cluster: Cluster
) -> None:
    cluster.sql("ALTER CLUSTER SET replace_after = '5s'")
    running.kill(AWAY)
    wait_until(lambda: 2 not in holders(cluster))
    assert {len(one.holders) for one in cluster.plan("d.t").segments} == {2}
    assert rows(cluster) == list(range(ROWS))
    running.restart(AWAY)
    wait_until(lambda: not files(running)[AWAY])
    assert rows(cluster) == list(range(ROWS))
    cluster.sql("ALTER CLUSTER SET replace_after = 'never'")


def test_a_node_is_drained_under_load_and_then_stopped_and_removed(running: RunningCluster, cluster: Cluster) -> None:
    ended = threading.Event()
    written, failed = ROWS, list[BaseException]()

    def load() -> None:
        nonlocal written
        try:
            with running.connect() as own:
                while not ended.is_set():
                    append(own, written)
                    written += ROWS
                    assert rows(own) == list(range(written))
        except BaseException as error:  # noqa: BLE001 it is looked at below
            failed.append(error)

    loading = threading.Thread(target=load)
    loading.start()
    try:
        begun = node(running, "drain", GOING, "-o", "json")
        assert begun.code == 0, begun.err
        waited = node(running, "drain", GOING, "--wait")
        assert (waited.code, f"{GOING} is drained" in waited.out) == (0, True), waited.err
    finally:
        ended.set()
        loading.join()
    assert failed == []
    wait_until(lambda: not files(running)[GOING])
    assert f"{GOING}: drained" in leasehold("status", "--dir", str(running.directory)).out
    assert holders(cluster) <= {1, 2, 4}
    running.kill(GOING)
    assert rows(cluster) == list(range(written))
    removed = node(running, "remove", GOING, "-o", "json")
    assert (removed.json()["buckets"], removed.json()["lost_segments"]) == (0, 0)
    assert rows(cluster) == list(range(written))


def test_a_destroyed_node_is_replaced_with_nothing_typed(running: RunningCluster, cluster: Cluster) -> None:
    cluster.sql("ALTER CLUSTER SET replace_after = '5s'")
    before = rows(cluster)
    running.kill(LOST)
    shutil.rmtree(running.directory / LOST)
    wait_until(lambda: {one.holders for one in cluster.plan("d.t").segments} <= {(1, 2), (2, 1)})
    status = leasehold("status", "--dir", str(running.directory), "-o", "json").json()
    assert (status["segments_short"], status["segments_lost"]) == (0, 0)
    assert rows(cluster) == before
    assert node(running, "remove", LOST, "-o", "json").json()["buckets"] == 0


def test_a_node_says_in_which_rack_it_is(running: RunningCluster, cluster: Cluster, tmp_path: Path) -> None:
    with Node(tmp_path / "fifth", running) as fifth:
        fifth.start(LEASEHOLD_RACK="cellar").serves()
        shown = cluster.sql("SHOW NODES")
        assert isinstance(shown, Rows)
        places = [shown.columns.index(name) for name in ("name", "rack")]
        assert {tuple(row[place] for place in places) for row in shown.rows} >= {("fifth", "cellar"), (AWAY, None)}
        fifth.stop()
    assert node(running, "remove", "fifth").code == 0


def test_what_is_no_node_and_the_last_ones_are_not_drained(running: RunningCluster) -> None:
    node(running, "drain", "nobody").refused(3, "error [NOT_FOUND]")
    node(running, "drain", "no body").refused(2, "is not the name or number of a node")
    node(running, "drain", "1").refused(3, "error [TOO_FEW_NODES]", "d.t")
    assert "may have buckets" in node(running, "undrain", "1").out
