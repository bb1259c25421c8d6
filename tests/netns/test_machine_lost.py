"""A machine burns, and an empty one comes: with nothing typed, every bucket is whole again on those that are left."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.netns.cluster import NetworkCluster
from tests.netns.remote import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.long]

LOST, ANEW = "node-2", "node-2-anew"


@pytest.fixture
def burning(namespaces_available: None, tmp_path: Path) -> Iterator[NetworkCluster]:
    with NetworkCluster(tmp_path / "cluster") as cluster:
        yield cluster


def buckets(cluster: NetworkCluster, table: str) -> list[tuple[set[str], set[str]]]:
    """The replicas of each bucket, and those that are in sync."""
    rows = cluster.query(f"SHOW BUCKETS OF {table}")
    return [(set(str(row[1]).split(", ")), set(str(row[2]).split(", "))) for row in rows]


def test_a_machine_lost_for_good_is_replaced_by_those_that_are_left_and_by_an_empty_one(
    burning: NetworkCluster,
) -> None:
    burning.run("ALTER CLUSTER SET replace_after = '5s'")
    burning.run("CREATE DATABASE d")
    table = "d.t"
    burning.run(f"CREATE TABLE {table} (a BIGINT) CLUSTERED BY (a) INTO 6 BUCKETS TBLPROPERTIES ('replication' = '3')")
    burning.append(table, {"a": list(range(100))})
    wait_until(lambda: all(replicas == in_sync for replicas, in_sync in buckets(burning, table)))
    burning.kill(LOST)
    shutil.rmtree(burning.directory / LOST)
    burning.append(table, {"a": list(range(100, 200))})
    burning.called[LOST] = ANEW
    burning.start(LOST)

    def is_whole() -> bool:
        found = buckets(burning, table)
        return all(LOST not in replicas and len(replicas) == 3 and replicas == in_sync for replicas, in_sync in found)

    wait_until(is_whole, said=lambda: buckets(burning, table), seconds=60)
    assert sorted(burning.rows(table)["a"]) == list(range(200))
    assert {one.name: one.state for one in burning.status().nodes}[LOST] == "DOWN"
    assert burning.status().segments_short == 0
    assert burning.verify()["stale_serves"] == 0
