"""Compaction with real processes: by nodes themselves, and for a client while nodes are killed and stopped."""

import datetime
from collections.abc import Iterator

import pyarrow as pa
import pytest

from leasehold.client.cluster import Cluster, connect
from leasehold.limits.upkeep import AUTO_SEGMENTS_MAX, SMALL_SEGMENTS_MIN
from tests.e2e.cluster import RunningCluster
from tests.e2e.waiting import wait_until
from tests.few import few

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A cluster with TLS and the administrator root."""
    folder = tmp_path_factory.mktemp("compaction")
    with RunningCluster.start(folder / "cluster", nodes=3, tls=True) as cluster:
        with cluster.connect() as nobody:
            nobody.sql("CREATE USER root PASSWORD 'root'")
        with connect(cluster.directory, user="root", password="root") as root:
            root.sql("CREATE DATABASE db")
        yield cluster


@pytest.fixture
def root(running: RunningCluster) -> Iterator[Cluster]:
    with connect(running.directory, user="root", password="root") as root:
        root.sql("CREATE TABLE db.t (k BIGINT)")
        yield root
        root.sql("DROP TABLE db.t")


def append(cluster: Cluster, count: int) -> None:
    for number in range(count):
        cluster.table("db.t").append(pa.table({"k": [number]}))


def rows(cluster: Cluster) -> list[int]:
    return sorted(cluster.table("db.t").scan().read_all()["k"].to_pylist())


def segments(cluster: Cluster) -> int:
    return len(cluster.plan("db.t").segments)


def test_nodes_join_small_segments_by_themselves_without_a_right(root: Cluster) -> None:
    root.sql("ALTER TABLE db.t SET TBLPROPERTIES ('compact' = 'auto')")
    append(root, AUTO_SEGMENTS_MAX + 1)
    root.sql("DELETE FROM db.t WHERE k = 7")
    wait_until(lambda: segments(root) < AUTO_SEGMENTS_MAX)
    assert rows(root) == [one for one in range(AUTO_SEGMENTS_MAX + 1) if one != 7]


@pytest.mark.parametrize("round_", few(2, range(20)))
def test_a_node_that_is_killed_or_stopped_meanwhile_holds_nothing_up(
    running: RunningCluster, root: Cluster, round_: int
) -> None:
    append(root, SMALL_SEGMENTS_MIN)
    node = running.names()[round_ % 3]
    if round_ % 2:
        running.pause(node)
    else:
        running.kill(node)
    try:
        assert root.compact("db.t").segments_replaced == SMALL_SEGMENTS_MIN
    finally:
        if round_ % 2:
            running.resume(node)
        else:
            running.restart(node)
    assert segments(root) == 1
    assert rows(root) == list(range(SMALL_SEGMENTS_MIN))


def test_a_compaction_is_no_conflict_for_a_write_that_replaces_rows(root: Cluster) -> None:
    append(root, SMALL_SEGMENTS_MIN)

    def new_rows() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"k": [3]})
        assert root.compact("db.t").segments_replaced == SMALL_SEGMENTS_MIN

    schema = pa.schema({"k": pa.int64()})
    done = root.table("db.t").overwrite(pa.RecordBatchReader.from_batches(schema, new_rows()), where="k < 10")
    assert (done.rows, done.rows_kept) == (1, SMALL_SEGMENTS_MIN - 10)
    assert rows(root) == [3, *range(10, SMALL_SEGMENTS_MIN)]


def test_rows_with_a_time_are_sorted_by_it(root: Cluster) -> None:
    root.sql("CREATE TABLE db.timed (k BIGINT, day DATE) TBLPROPERTIES ('time_column' = 'day')")
    try:
        for number in range(SMALL_SEGMENTS_MIN):
            days = [datetime.date(2026, 1, 1) + datetime.timedelta(days=(number * 7 + one) % 31) for one in range(20)]
            root.table("db.timed").append(pa.table({"k": range(20), "day": [*days[:-1], None]}))
        before = root.table("db.timed").scan().read_all().to_pylist()
        assert root.compact("db.timed").segments_replaced == SMALL_SEGMENTS_MIN
        after = root.table("db.timed").scan().read_all()
        days = after["day"].to_pylist()
        assert days == [*sorted(filter(None, days)), *[None] * SMALL_SEGMENTS_MIN]
        assert sorted(map(str, after.to_pylist())) == sorted(map(str, before))
    finally:
        root.sql("DROP TABLE db.timed")
