"""Scans and appends follow the schema, with real processes: files of every age, pinned scans, DELETE and rewriting."""

import datetime
import json
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from leasehold.client.cluster import Cluster
from leasehold.client.scan import read_plan
from leasehold.core.words.messages import Rows
from leasehold.errors import Refused
from leasehold.limits.units import SECOND_NS
from leasehold.wire.clock import BoottimeClock
from tests.e2e.cluster import RunningCluster
from tests.e2e.waiting import files_below, wait_until, wait_until_whole

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster.start(tmp_path_factory.mktemp("follow") / "cluster", nodes=2) as cluster:
        with cluster.connect() as connection:
            connection.sql("CREATE DATABASE d")
        yield cluster


@pytest.fixture
def cluster(running: RunningCluster) -> Iterator[Cluster]:
    with running.connect() as connection:
        yield connection


def rows(cluster: Cluster, name: str, *columns: str) -> list[dict[str, object]]:
    found = cluster.table(name).scan(list(columns) or None).read_all()
    return found.sort_by(found.schema.names[0]).to_pylist()


def keys(cluster: Cluster, name: str) -> list[object]:
    return [row["k"] for row in rows(cluster, name, "k")]


def test_every_change_of_a_schema_reads_right_from_old_files_and_new_ones(cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE d.changes (k BIGINT, n INT, f FLOAT, p DECIMAL(5,2), v STRING)")
    table = cluster.table("d.changes")
    first = {"k": [1], "n": pa.array([2**31 - 1], pa.int32()), "f": pa.array([0.5], pa.float32())}
    table.append(pa.table({**first, "p": [Decimal("999.99")], "v": ["old"]}))
    for statement in (
        "ALTER TABLE d.changes ADD COLUMN e STRING NOT NULL DEFAULT 'first'",
        "ALTER TABLE d.changes ALTER COLUMN e SET DEFAULT 'later'",
        "ALTER TABLE d.changes RENAME COLUMN v TO w",
        "ALTER TABLE d.changes ALTER COLUMN n TYPE BIGINT",
        "ALTER TABLE d.changes ALTER COLUMN f TYPE DOUBLE",
        "ALTER TABLE d.changes ALTER COLUMN p TYPE DECIMAL(9,2)",
        "ALTER TABLE d.changes ALTER COLUMN w FIRST",
    ):
        cluster.sql(statement)
    second = {"k": [2], "n": [2**40], "f": [1e300], "p": [Decimal("1234567.89")], "w": ["new"]}
    cluster.table("d.changes").append(pa.table(second))
    found = cluster.table("d.changes").scan().read_all().sort_by("k")
    assert found.schema.names == ["w", "k", "n", "f", "p", "e"]
    assert found.to_pylist() == [
        {"w": "old", "k": 1, "n": 2**31 - 1, "f": 0.5, "p": Decimal("999.99"), "e": "first"},
        {"w": "new", "k": 2, "n": 2**40, "f": 1e300, "p": Decimal("1234567.89"), "e": "later"},
    ]
    cluster.sql("ALTER TABLE d.changes DROP COLUMN w")
    cluster.sql("ALTER TABLE d.changes ADD COLUMN w INT")
    assert [row["w"] for row in rows(cluster, "d.changes")] == [None, None]


def test_a_scan_pinned_before_keeps_its_columns_and_a_dropped_one_ends_it(cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE d.pinned (k BIGINT, n INT)")
    cluster.table("d.pinned").append(pa.table({"k": [1, 2], "n": pa.array([10, 20], pa.int32())}))
    plan = cluster.plan("d.pinned")
    cluster.sql("ALTER TABLE d.pinned ADD COLUMN later STRING DEFAULT 'x'")
    cluster.sql("ALTER TABLE d.pinned RENAME COLUMN n TO m")
    cluster.sql("ALTER TABLE d.pinned ALTER COLUMN m TYPE BIGINT")
    cluster.table("d.pinned").append(pa.table({"k": [3], "m": [2**40]}))
    found = read_plan(plan, refresh=cluster.looking_again(plan.facts)).read_all()
    assert found.schema.types == [pa.int64(), pa.int32()]
    assert found.sort_by("k").to_pydict() == {"k": [1, 2], "n": [10, 20]}
    cluster.sql("ALTER TABLE d.pinned DROP COLUMN m")
    with pytest.raises(Refused, match="was dropped") as caught:
        read_plan(plan).read_all()
    assert caught.value.code == "COLUMN_DROPPED"
    cluster.sql("DROP TABLE d.pinned")
    with pytest.raises(Refused) as caught:
        read_plan(plan).read_all()
    assert caught.value.code == "TABLE_DROPPED"


def test_an_append_under_way_is_written_where_it_belongs(cluster: Cluster) -> None:
    """Its columns are renamed across, and another one comes, between its look at the table and its first row."""
    cluster.sql("CREATE TABLE d.crossed (a INT, b INT)")
    schema = pa.schema([("a", pa.int32()), ("b", pa.int32())])

    def batches() -> Iterator[pa.RecordBatch]:
        for statement in ("a TO c", "b TO a", "c TO b"):
            cluster_2.sql(f"ALTER TABLE d.crossed RENAME COLUMN {statement}")
        cluster_2.sql("ALTER TABLE d.crossed ADD COLUMN d STRING NOT NULL DEFAULT 'd'")
        yield pa.record_batch({"a": pa.array([1], pa.int32()), "b": pa.array([2], pa.int32())})

    with Cluster(cluster.address) as cluster_2:
        cluster.table("d.crossed").append(pa.RecordBatchReader.from_batches(schema, batches()))
    assert rows(cluster, "d.crossed") == [{"b": 1, "a": 2, "d": "d"}]


# ---------------------------------------------------------------- DELETE


def test_a_delete_takes_what_is_there_and_a_rewrite_takes_it_out_of_the_files(
    running: RunningCluster, cluster: Cluster
) -> None:
    cluster.sql("CREATE TABLE d.gone (k BIGINT, at TIMESTAMP) CLUSTERED BY (k) INTO 3 BUCKETS")
    day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    times = pa.array([day + datetime.timedelta(hours=number) for number in range(1000)], pa.timestamp("us", "UTC"))
    cluster.table("d.gone").append(pa.table({"k": range(1000), "at": times}))
    plan = cluster.plan("d.gone", ["k"])
    cluster.sql("DELETE FROM d.gone WHERE at < TIMESTAMP '2026-01-31 00:00:00' AND k >= 100")
    left = [*range(100), *range(720, 1000)]
    assert keys(cluster, "d.gone") == left
    with pytest.raises(Refused) as caught:
        read_plan(plan).read_all()
    assert caught.value.code == "ROWS_TAKEN_AWAY", "other segments of it may have been read before"
    plan = cluster.plan("d.gone", ["k"])
    cluster.table("d.gone").append(pa.table({"k": [500]}))
    assert keys(cluster, "d.gone") == sorted([*left, 500]), "later rows are not concerned"
    with pytest.raises(Refused) as caught:
        cluster.sql("ALTER TABLE d.gone DROP COLUMN at")
    assert caught.value.code == "COLUMN_IN_USE"

    told: list[int] = []
    done = cluster.compact("d.gone", lambda so_far: told.append(so_far.rows_removed))
    assert (done.rows_removed, done.rows_kept) == (620, 380)
    assert told == [620]
    assert keys(cluster, "d.gone") == sorted([*left, 500])
    assert sum(one.rows for one in cluster.plan("d.gone").segments) == 381
    assert sorted(read_plan(plan).read_all()["k"].to_pylist()) == left, "the old files stay for it"
    assert cluster.compact("d.gone") == type(done)(), "nothing is left to do"

    command = [sys.executable, "-m", "leasehold.cli.main", "compact", "d.gone", "--dir", str(running.directory)]
    shown = subprocess.run([*command, "--output", "json"], check=True, capture_output=True, text=True)
    assert json.loads(shown.stdout)["rows_removed"] == 0


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("DELETE FROM d.bad WHERE nothing = 1", "NOT_FOUND"),
        ("DELETE FROM d.bad WHERE k = 'x'", "BAD_VALUE"),
        ("DELETE FROM d.bad WHERE k = NULL", "BAD_VALUE"),
        ("DELETE FROM d.missing WHERE k = 1", "NOT_FOUND"),
        ("DELETE FROM d.bad", "BAD_STATEMENT"),
    ],
)
def test_a_delete_that_means_nothing_changes_nothing(cluster: Cluster, statement: str, code: str) -> None:
    cluster.sql("CREATE TABLE IF NOT EXISTS d.bad (k BIGINT)")
    with pytest.raises(Refused) as caught:
        cluster.sql(statement)
    assert caught.value.code == code
    assert caught.value.hint
    assert cluster.plan("d.bad", rewrite=True).deletes == 0, "no DELETE has begun"


HALVES = 600_000


def halves(cluster: Cluster) -> None:
    """Makes d.halves anew: more batches in each of two segments than a client and its connection read ahead."""
    cluster.sql("DROP TABLE IF EXISTS d.halves")
    cluster.sql("CREATE TABLE d.halves (k BIGINT, pad STRING) CLUSTERED BY (k) INTO 2 BUCKETS")
    pad = pa.array(["x" * 200] * HALVES)
    cluster.table("d.halves").append(pa.table({"k": pa.array(range(HALVES), pa.int64()), "pad": pad}))


def test_a_scan_that_crosses_a_delete_does_not_show_half_of_it(cluster: Cluster) -> None:
    """Its first batches are from before the DELETE, and may have had rows of it: it ends where the next such row is."""
    halves(cluster)
    reader = cluster.table("d.halves").scan()
    seen = reader.read_next_batch().num_rows
    with Cluster(cluster.address) as other:
        other.sql(f"DELETE FROM d.halves WHERE k >= {HALVES - 100}")
    with pytest.raises(Refused) as caught:
        while True:
            seen += reader.read_next_batch().num_rows
    assert caught.value.code == "ROWS_TAKEN_AWAY"
    assert seen < HALVES
    assert cluster.table("d.halves").scan(["k"]).read_all().num_rows == HALVES - 100


def test_a_scan_that_has_shown_nothing_yet_is_planned_again(cluster: Cluster) -> None:
    halves(cluster)
    reader = cluster.table("d.halves").scan()
    with Cluster(cluster.address) as other:
        other.sql(f"DELETE FROM d.halves WHERE k < {HALVES // 2}")
    assert sum(batch.num_rows for batch in reader) == HALVES // 2


def test_a_node_that_was_down_hides_what_was_deleted_meanwhile(running: RunningCluster, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE d.away (k BIGINT)")
    cluster.table("d.away").append(pa.table({"k": range(10)}))
    wait_until_whole(cluster)
    running.kill("node-2")
    cluster.sql("DELETE FROM d.away WHERE k < 5")
    assert keys(cluster, "d.away") == [5, 6, 7, 8, 9]
    running.restart("node-2")
    running.kill("node-1")
    try:
        assert keys(cluster, "d.away") == [5, 6, 7, 8, 9], "the other replica alone"
    finally:
        running.restart("node-1")


# ---------------------------------------------------------------- TTL


def test_a_shorter_ttl_shows_no_row_past_it(cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE d.aging (k BIGINT, at TIMESTAMP) TBLPROPERTIES ('ttl' = '30d', 'time_column' = 'at')")
    now = datetime.datetime.now(datetime.UTC)
    ages = [1, 2, 40, 20 * 24, 100 * 24]
    times = pa.array([now - datetime.timedelta(hours=hours) for hours in ages], pa.timestamp("us", "UTC"))
    cluster.table("d.aging").append(pa.table({"k": ages, "at": times}))
    plan = cluster.plan("d.aging", ["k"])
    cluster.sql("ALTER TABLE d.aging SET TBLPROPERTIES ('ttl' = '24h')")
    assert keys(cluster, "d.aging") == [1, 2]
    with pytest.raises(Refused) as caught:
        read_plan(plan).read_all()
    assert caught.value.code == "ROWS_TAKEN_AWAY"
    cluster.sql("ALTER TABLE d.aging UNSET TBLPROPERTIES ('ttl')")
    assert keys(cluster, "d.aging") == [1, 2], "what has expired does not come back"
    assert cluster.compact("d.aging").rows_removed == 3
    assert keys(cluster, "d.aging") == [1, 2]


def test_the_folder_of_a_table_shrinks_to_nothing_when_it_is_dropped_after_a_rewrite(
    running: RunningCluster, cluster: Cluster
) -> None:
    cluster.sql("CREATE TABLE d.short (k BIGINT)")
    cluster.table("d.short").append(pa.table({"k": range(10)}))
    table = cluster.facts("d.short").table
    cluster.sql("DELETE FROM d.short WHERE k < 5")
    cluster.compact("d.short")
    folders = [node.directory / "segments" / str(table) for node in running.local.nodes()]
    # Old and new, on two nodes each. A hedged append leaves a copy that no commit took; it is evicted at once.
    wait_until(lambda: sum(_files(folder) for folder in folders) == 4)
    cluster.sql("DROP TABLE d.short")
    deadline_ns = BoottimeClock().now_ns() + 20 * SECOND_NS
    while _is_cleaning(cluster):
        assert BoottimeClock().now_ns() < deadline_ns
    assert not any(_files(folder) for folder in folders)


def _is_cleaning(cluster: Cluster) -> bool:
    """Asks until the count of nodes that still delete files has come to zero."""
    shown = cluster.sql("SHOW PROCEDURES")
    assert isinstance(shown, Rows)
    return bool(shown.rows)


def _files(folder: Path) -> int:
    return len(files_below(folder))
