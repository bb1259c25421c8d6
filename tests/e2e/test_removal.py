"""Nodes that are removed, adopted, or started from an empty directory, as real processes and by the command line."""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from leasehold.client.cluster import Cluster
from leasehold.errors import Refused
from leasehold.local.files import read_address
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import Ran, leasehold
from tests.e2e.nodes import Node
from tests.e2e.waiting import wait_until, wait_until_whole

pytestmark = pytest.mark.processes

ROWS = 300


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """Three nodes; tests that remove one start another first."""
    with RunningCluster.start(tmp_path_factory.mktemp("removal") / "cluster", nodes=3) as running:
        with running.connect() as cluster:
            cluster.sql("CREATE DATABASE d")
        yield running


@pytest.fixture
def cluster(running: RunningCluster) -> Iterator[Cluster]:
    with running.connect() as cluster:
        yield cluster


@pytest.fixture
def fourth(running: RunningCluster, tmp_path: Path) -> Iterator[Node]:
    """A node of its own that serves; removed afterwards, if it is there still."""
    with Node(tmp_path / "fourth", running) as node:
        node.start()
        wait_until(lambda: state(running, "fourth") == "ACTIVE")
        yield node
    with running.connect() as cluster:
        cluster.remove_node("fourth", force=True)


def make_table(cluster: Cluster, name: str, *, replication: int, buckets: int = 4) -> None:
    options = f"CLUSTERED BY (a) INTO {buckets} BUCKETS TBLPROPERTIES ('replication' = '{replication}')"
    cluster.sql(f"CREATE TABLE d.{name} (a BIGINT) {options}")
    assert cluster.table(f"d.{name}").append(pa.table({"a": pa.array(range(ROWS), pa.int64())})) == ROWS
    wait_until_whole(cluster)


def state(running: RunningCluster, name: str) -> str | None:
    with running.connect() as cluster:
        return next((one.state for one in cluster.status().nodes if one.name == name), None)


def number(cluster: Cluster, name: str) -> int:
    return next(one.id for one in cluster.status().nodes if one.name == name)


def holders(cluster: Cluster, table: str) -> set[int]:
    return {node for one in cluster.plan(f"d.{table}").segments for node in one.holders}


def count(cluster: Cluster, table: str) -> int:
    return cluster.table(f"d.{table}").scan().read_all().num_rows


def remove(running: RunningCluster, *words: str) -> Ran:
    return leasehold("node", "remove", *words, directory=running.directory)


# ---------------------------------------------------------------- removal


def test_a_node_that_runs_is_removed_its_rows_are_copied_and_its_name_is_free(
    running: RunningCluster, cluster: Cluster, fourth: Node, tmp_path: Path
) -> None:
    make_table(cluster, "moved", replication=4)
    gone = number(cluster, "fourth")
    assert holders(cluster, "moved") == {1, 2, 3, gone}
    refused = remove(running, "fourth")
    assert (refused.code, "TOO_FEW_NODES" in refused.err, "d.moved" in refused.err) == (3, True, True)
    assert state(running, "fourth") == "ACTIVE"

    removed = remove(running, "fourth", "--force", "-o", "json")
    assert removed.code == 0, removed.err
    assert "waiting for fourth" in removed.err
    told = removed.json()
    assert (told["node"], told["id"], told["buckets"], told["lost_segments"], told["already"]) == (
        "fourth",
        gone,
        4,
        0,
        False,
    )
    ended = fourth.ended()
    assert (ended.code, "error [REMOVED]" in ended.err, "leasehold node reset" in ended.err) == (3, True, True)
    again = remove(running, "fourth")
    assert (again.code, "was already removed" in again.out) == (0, True)
    wait_until(lambda: holders(cluster, "moved") == {1, 2, 3})
    assert fourth.start().ended().code == 3, "its directory can't join any more"

    with Node(tmp_path / "empty", running, name="fourth") as another:
        another.start()
        wait_until(lambda: state(running, "fourth") == "ACTIVE")
        assert number(cluster, "fourth") > gone
        wait_until(lambda: holders(cluster, "moved") == {1, 2, 3, number(cluster, "fourth")})
        assert count(cluster, "moved") == ROWS
        cluster.sql("DROP TABLE d.moved")


def test_a_node_that_alone_holds_rows_is_not_removed_unless_they_are_given_up(
    running: RunningCluster, cluster: Cluster, fourth: Node
) -> None:
    make_table(cluster, "single", replication=1, buckets=8)
    gone = number(cluster, "fourth")
    lost = [one for one in cluster.plan("d.single").segments if one.holders == (gone,)]
    assert lost
    refused = remove(running, str(gone))
    assert refused.code == 3
    assert f"error [ONLY_HOLDER]: fourth is the only holder of {len(lost)} segment" in refused.err
    assert "d.single" in refused.err
    assert count(cluster, "single") == ROWS, "it serves as before"

    fourth.signal(signal.SIGTERM)
    fourth.ended()
    removed = remove(running, "fourth", "--force", "-o", "json")
    assert removed.json()["lost_segments"] == len(lost)
    wait_until(lambda: gone not in holders(cluster, "single"))
    with pytest.raises(Refused) as caught:
        count(cluster, "single")
    assert caught.value.code == "SEGMENTS_LOST"
    assert any(one.id in caught.value.text for one in lost)
    rows = sum(one.rows for one in lost)
    assert f"lost: {len(lost)} segment" in leasehold("status", "--dir", str(running.directory)).out
    asked = leasehold("forget-lost", "d.single", "--dir", str(running.directory))
    assert (asked.code, f"{rows} rows are on no node" in asked.err) == (2, True), "it says how many, and asks"
    with pytest.raises(Refused):
        count(cluster, "single")
    forgotten = leasehold("forget-lost", "d.single", "--yes", "-o", "json", "--dir", str(running.directory)).json()
    assert (forgotten["segments"], forgotten["rows"]) == (len(lost), rows)
    assert count(cluster, "single") == ROWS - rows
    assert "lost" not in leasehold("status", "--dir", str(running.directory)).out
    again = leasehold("forget-lost", "d.single", "--yes", "--dir", str(running.directory))
    assert (again.code, "nothing of d.single is lost" in again.out) == (0, True)
    cluster.table("d.single").append(pa.table({"a": [1]}))
    assert count(cluster, "single") == ROWS - rows + 1
    cluster.sql("DROP TABLE d.single")


def test_what_is_no_node_is_told_so(running: RunningCluster) -> None:
    refused = remove(running, "nobody")
    assert (refused.code, "NOT_FOUND" in refused.err, "leasehold status" in refused.err) == (3, True, True)


# ---------------------------------------------------------------- a wiped directory


def test_a_wiped_directory_under_the_old_name_is_told_what_frees_it(
    running: RunningCluster, cluster: Cluster, fourth: Node
) -> None:
    gone = number(cluster, "fourth")
    fourth.signal(signal.SIGKILL)
    fourth.ended()
    shutil.rmtree(fourth.directory)
    ended = fourth.start().ended()
    assert (ended.code, "error [NAME_TAKEN]" in ended.err) == (3, True)
    assert "`leasehold node remove fourth`" in ended.err
    assert remove(running, "fourth").code == 0
    fourth.start()
    wait_until(lambda: state(running, "fourth") == "ACTIVE")
    assert number(cluster, "fourth") > gone


# ---------------------------------------------------------------- adoption


def adopt(running: RunningCluster, directory: Path, *words: str) -> Ran:
    address = read_address(running.local.coordinator.directory)
    assert address is not None
    told = ("--coordinator", address, "--cluster-key", str(running.directory / "cluster.key"))
    return leasehold("node", "adopt", *told, *words, directory=directory)


def test_I4_an_older_copy_goes_on_as_the_node_once_it_is_adopted(
    running: RunningCluster, cluster: Cluster, fourth: Node, tmp_path: Path
) -> None:
    make_table(cluster, "kept", replication=4)
    node = number(cluster, "fourth")
    fourth.signal(signal.SIGTERM)
    fourth.ended()
    backup = shutil.copytree(fourth.directory, tmp_path / "backup")
    assert adopt(running, backup, "-o", "json").json()["changed"] is False, "nothing is newer yet"

    fourth.start()
    wait_until(lambda: state(running, "fourth") == "ACTIVE")
    alive = adopt(running, backup)
    assert (alive.code, "error [ALIVE_ELSEWHERE]" in alive.err) == (3, True)
    address = read_address(fourth.directory)
    assert address is not None
    assert address in alive.err
    locked = adopt(running, fourth.directory)
    assert (locked.code, "error [LOCKED]" in locked.err) == (3, True)

    fourth.signal(signal.SIGKILL)
    fourth.ended()
    with Node(backup, running, name="fourth") as restored:
        ended = restored.start().ended()
        assert (ended.code, "error [STALE_COPY]" in ended.err) == (3, True)
        assert f"leasehold node adopt --dir {backup}" in ended.err
        adopted = adopt(running, backup)
        assert adopted.code == 0, adopted.err
        assert f"continues as fourth (id {node})" in adopted.out
        assert "do not start another copy before" in adopted.err
        assert adopt(running, backup, "-o", "json").json()["changed"] is False, "done twice it is done once"
        restored.start()
        wait_until(lambda: state(running, "fourth") == "ACTIVE")
        assert number(cluster, "fourth") == node
        wait_until(lambda: node in holders(cluster, "kept"))
        stale = fourth.start().ended()
        assert (stale.code, "error [STALE_COPY]" in stale.err) == (3, True), "there is one newest directory again"
        restored.signal(signal.SIGTERM)
        restored.ended()
    cluster.sql("DROP TABLE d.kept")


def test_what_can_not_be_adopted_is_told_why_and_left_as_it_is(running: RunningCluster, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    refused = adopt(running, empty)
    assert (refused.code, "error [NO_NODE]" in refused.err) == (3, True)
    assert list(empty.iterdir()) == []
    bucket = empty / "segments" / "1" / "0"
    bucket.mkdir(parents=True)
    (bucket / f"{'1' * 32}-{'2' * 32}.parquet").touch()
    refused = adopt(running, empty)
    assert (refused.code, "error [NO_IDENTITY]" in refused.err) == (3, True)
    assert [path.name for path in empty.iterdir()] == ["segments"], "no new vault was made there"


def test_commas_between_coordinators_are_told_of(tmp_path: Path) -> None:
    for verb in ("start", "adopt"):
        told = leasehold("node", verb, directory=tmp_path, LEASEHOLD_COORDINATORS="127.0.0.1:1,127.0.0.1:2")
        told.refused(2, "BAD_CONFIG", "comma", "separate addresses by blanks")


def test_up_leaves_out_a_node_that_was_removed(tmp_path: Path) -> None:
    with RunningCluster.start(tmp_path / "cluster", nodes=2) as small:
        assert leasehold("node", "remove", "node-2", directory=small.directory).code == 0
        assert small.local.node("node-2").wait_until_gone()
        small.stop()
        up = leasehold("up", "--detach", directory=small.directory)
        assert up.code == 0, up.err
        for words in ("node-2 was removed", f"leasehold node reset --dir {small.directory / 'node-2'}"):
            assert words in up.err
        assert small.names() == ["node-1"]
        assert state(small, "node-1") == "ACTIVE"
        assert leasehold("node", "reset", "--yes", directory=small.directory / "node-2").code == 0
        assert leasehold("up", "--nodes", "2", "--detach", directory=small.directory).code == 0
        assert (small.names(), state(small, "node-2")) == (["node-1", "node-2"], "ACTIVE")


def test_a_removed_node_is_not_adopted(running: RunningCluster, fourth: Node) -> None:
    fourth.signal(signal.SIGTERM)
    fourth.ended()
    assert remove(running, "fourth").code == 0
    refused = adopt(running, fourth.directory)
    refused.refused(3, "error [REMOVED]", f"leasehold node reset --dir {fourth.directory}")
