"""A node whose disk is full says so to people, and so does its coordinator, until there is space again."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from leasehold.core.words.messages import Rows
from leasehold.errors import LeaseholdError
from leasehold.limits.upkeep import SMALL_SEGMENTS_MIN
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold
from tests.e2e.nodes import Node
from tests.e2e.small_disk import SmallDisk
from tests.e2e.waiting import wait_until

pytestmark = pytest.mark.processes


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with RunningCluster.start(tmp_path / "cluster", nodes=1) as running:
        yield running


@pytest.fixture
def filled(cluster: RunningCluster, tmp_path: Path) -> Iterator[tuple[Node, SmallDisk]]:
    """A second node, on a small disk."""
    with SmallDisk(tmp_path / "disk") as disk, Node(disk.directory / "filled", cluster, logs=tmp_path) as node:
        if not disk.is_mounted:
            pytest.skip("a disk of its own needs root")
        node.start().serves()
        yield node, disk


def full(cluster: RunningCluster) -> set[str]:
    with cluster.connect() as client:
        status = client.status()
    return {one.name for one in status.nodes if one.id in status.disks_full}


def numbered(numbers: range) -> pa.Table:
    column = pa.array(numbers, pa.int32())
    return pa.table({"a": column, "b": column})


def test_whatever_writes_rows_names_the_full_disk_and_changes_nothing(
    cluster: RunningCluster, filled: tuple[Node, SmallDisk]
) -> None:
    node, disk = filled
    with cluster.connect() as client:
        client.sql("CREATE DATABASE e")
        client.sql(
            "CREATE TABLE e.t (a INT, b INT) CLUSTERED BY (a) INTO 8 BUCKETS TBLPROPERTIES ('replication' = '1')"
        )
        table = client.table("e.t")
        for number in range(SMALL_SEGMENTS_MIN):
            table.append(numbered(range(100 * number, 100 * number + 100)))
        held = client.plan("e.t").segments
        assert any(node.status().id in one.holders for one in held)
        before = sorted(table.scan().read_all().column("a").to_pylist())
        disk.fill(leave=0)
        rows = numbered(range(200))
        hurried = client.within(3.0)
        writes: list[Callable[[], object]] = [
            lambda: hurried.table("e.t").append(rows),
            lambda: hurried.table("e.t").overwrite(rows, where="a < 200"),
            lambda: hurried.table("e.t").merge(rows, ["a"]),
            lambda: hurried.compact("e.t"),
        ]
        for write in writes:
            with pytest.raises(LeaseholdError, match="no space is left") as caught:
                write()
            assert f"free some space on the disk of {node.name}" in caught.value.hint
        assert sorted(table.scan().read_all().column("a").to_pylist()) == before
        disk.free()
        wait_until(lambda: full(cluster) == set())
        assert client.compact("e.t").segments_replaced == len(held)
        assert sorted(table.scan().read_all().column("a").to_pylist()) == before


def test_a_full_disk_is_shown_until_there_is_space_again(
    cluster: RunningCluster, filled: tuple[Node, SmallDisk]
) -> None:
    node, disk = filled
    with cluster.connect() as client:
        client.sql("CREATE DATABASE d")
        client.sql("CREATE TABLE d.t (a INT) CLUSTERED BY (a) INTO 4 BUCKETS TBLPROPERTIES ('replication' = '2')")
        rows = pa.table({"a": pa.array(range(1000), pa.int32())})
        client.table("d.t").append(rows)
        assert full(cluster) == set()
        assert "DISK_FULL" not in leasehold("status", directory=cluster.directory).out
        disk.fill(leave=0)
        client.table("d.t").append(rows)  # the other replica takes it
        wait_until(lambda: full(cluster) == {node.name})
        assert node.status().state == "ACTIVE"
        assert f"{node.name}: DISK_FULL" in leasehold("status", directory=cluster.directory).out
        shown = client.sql("SHOW NODES")
        assert isinstance(shown, Rows)
        name, room = shown.columns.index("name"), shown.columns.index("disk")
        assert {row[name]: row[room] for row in shown.rows} == {"node-1": None, node.name: "FULL"}
    wait_until(lambda: "DISK_FULL: no space is left under" in node.said())
    told = cluster.local.coordinator.log
    assert "is full: it takes no rows" in told.read_text()
    disk.free()
    wait_until(lambda: full(cluster) == set())
    assert "takes writes again" in node.said()
    assert "takes writes again" in told.read_text()
    assert not (node.directory / "space-trial").exists()
    node.stop()
