"""`leasehold recover` with real processes: the meta storage is lost, and an older copy of it takes its place."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leasehold.client.cluster import Cluster
from leasehold.client.locate import COORDINATOR
from leasehold.client.scan import read_plan
from leasehold.errors import Refused
from leasehold.limits.membership import GENERATION_GAP
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold
from tests.e2e.nodes import Node
from tests.e2e.waiting import wait_until, wait_until_whole

pytestmark = pytest.mark.processes

SAVED, LOST = 300, 200


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningCluster]:
    with RunningCluster.start(tmp_path / "cluster", nodes=2) as running:
        yield running


def append(cluster: Cluster, count: int) -> None:
    assert cluster.table("d.t").append(pa.table({"a": pa.array(range(count), pa.int64())})) == count


def rows(cluster: Cluster, table: str = "d.t") -> int:
    return cluster.table(table).scan().read_all().num_rows


def segments(node: Node) -> set[str]:
    return {path.stem for path in node.directory.glob("segments/*/*/*.parquet")}


def files(node: Node, segment: str) -> list[Path]:
    """Where the node itself has it yet, in the trash too."""
    return [path for folder in ("segments", "trash") for path in (node.directory / folder).rglob(f"*{segment}.parquet")]


def test_R6_a_cluster_goes_on_from_a_backup_and_each_node_says_what_to_do(
    running: RunningCluster, tmp_path: Path
) -> None:
    coordinator = running.local.coordinator
    with running.connect() as cluster:
        cluster.sql("CREATE DATABASE d")
        cluster.sql("CREATE TABLE d.t (a BIGINT) TBLPROPERTIES ('replication' = '2')")
        append(cluster, SAVED)
        wait_until_whole(cluster)
    running.stop()
    shutil.copytree(coordinator.directory, tmp_path / "backup")

    running.local.start(COORDINATOR)
    with Node(running.directory / "node-1", running) as first, Node(running.directory / "node-2", running) as second:
        first.start().serves()
        saved = segments(first)
        with running.connect() as cluster:
            append(cluster, LOST)
            cluster.sql("CREATE DATABASE lost")
            cluster.sql("ALTER TABLE d.t ADD COLUMN b BIGINT")
            plan = cluster.plan("d.t")
            before = {one.name: one.id for one in cluster.status().nodes}
        in_use = leasehold("recover", "--dir", str(coordinator.directory))
        in_use.refused(3, "in use by process")
        first.kill()
        lost = segments(first) - saved
        assert saved
        assert lost
        running.kill("coordinator")
        shutil.rmtree(coordinator.directory)
        shutil.copytree(tmp_path / "backup", coordinator.directory)

        ran = leasehold("recover", "--dir", str(coordinator.directory), "--longest-lease", "3s", "--output", "json")
        assert ran.code == 0, ran.err
        told = json.loads(ran.out)
        assert told["nodes"] == ["node-1", "node-2"]
        assert told["longest_lease_ms"] == 3000
        running.local.start(COORDINATOR)

        second.start().serves()
        first.start().ended().refused(3, "BEYOND_RECOVERY", f"leasehold node adopt --dir {first.directory}")
        adopted = leasehold("node", "adopt", "--dir", str(first.directory), "--output", "json")
        assert adopted.code == 0, adopted.err
        assert json.loads(adopted.out)["incarnation"] > GENERATION_GAP
        kept = Path(json.loads(adopted.out)["kept"])
        assert kept == first.directory / "before-adopt-1"
        first.start().serves()
        with running.connect() as cluster:
            assert {one.name: one.id for one in cluster.status().nodes} == before
            assert rows(cluster) == SAVED
            assert [row[0] for row in cluster.sql("SHOW DATABASES").rows] == ["d"]
            append(cluster, LOST)
            cluster.sql("CREATE TABLE d.next (a BIGINT)")
            cluster.sql("ALTER TABLE d.t ADD COLUMN z BIGINT")
            assert plan.facts.schema_version == cluster.facts("d.t").schema_version
            for by_lost_facts in (
                lambda: cluster.open_transaction(plan.facts, cluster.new_transaction()),
                lambda: read_plan(plan, refresh=cluster.looking_again(plan.facts)).read_all(),
            ):
                with pytest.raises(Refused) as caught:
                    by_lost_facts()
                assert caught.value.code == "GENERATION_CHANGED"
        second.stop()  # so it is the adopted one that is read
        with running.connect() as cluster:
            assert rows(cluster) == SAVED + LOST
        wait_until(lambda: not any(files(first, one) for one in lost))
        assert exported(kept, lost, tmp_path) == list(range(LOST))


def exported(directory: Path, named: set[str], folder: Path) -> list[int]:
    """What standalone mode gets out of these segments there, once all of them were checked."""
    checked = leasehold("node", "start", "--standalone", "--check", "--output", "json", directory=directory)
    assert checked.json()["wrong"] == 0
    found: list[int] = []
    for segment in sorted(named):
        file = folder / f"{segment}.parquet"
        words = ("--standalone", "--export", segment, "--to", str(file), "--output", "json")
        assert leasehold("node", "start", *words, directory=directory).json()["table"] == "d.t"
        found += pq.read_table(file).column("a").to_pylist()
    return sorted(found)


def test_what_can_not_be_recovered_is_left_as_it_is(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    leasehold("recover", "--dir", str(empty)).refused(3, "NO_META_STORAGE")
    (tmp_path / "cluster" / "coordinator").mkdir(parents=True)
    (tmp_path / "cluster" / "coordinator" / "meta.db").touch()
    below = leasehold("recover", "--dir", str(tmp_path / "cluster"))
    below.refused(3, "NO_META_STORAGE", str(tmp_path / "cluster" / "coordinator"))
    shutil.rmtree(tmp_path / "cluster")
    leasehold("recover", "--dir", str(tmp_path / "nowhere")).refused(3, "NO_META_STORAGE")
    assert list(tmp_path.iterdir()) == [empty]
    assert not list(empty.iterdir())
    (empty / "meta.db").write_bytes(b"no database" * 1000)
    assert leasehold("recover", "--dir", str(empty)).code == 3
    assert (empty / "meta.db").read_bytes() == b"no database" * 1000
    other = leasehold("recover", "--dir", str(empty), "--timeout", "1s", LEASEHOLD_META="etcd://127.0.0.1:1/x")
    other.refused(2, "BAD_SETTINGS", "LEASEHOLD_META")
    for words in (("--longest-lease", "soon"), ("--longest-lease", "2h")):
        assert leasehold("recover", "--dir", str(empty), *words).code == 2
