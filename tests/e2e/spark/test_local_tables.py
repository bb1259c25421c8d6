"""Tables whose files Spark reads itself: what frames read, how long they can, and what a query says after that."""

import gc
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from leasehold.client import local_opens
from leasehold.client.cluster import Cluster
from leasehold.client.local_calls import LocalNode
from leasehold.errors import BadSettings, LeaseholdError, NotFound, Refused
from leasehold.ids import Revision
from leasehold.limits.local import JOINED_FILES_MIN
from leasehold.spark import executors, held_frames, last_plan, local_tables, table
from leasehold.spark.executors import all_see
from leasehold.spark.joined_files import JOINED
from leasehold.storage.local_links import FOLDER, PROOF
from tests.e2e.cluster import RunningCluster
from tests.e2e.node_directories import links
from tests.e2e.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.processes]

ROWS = 1_000
NAME = "e2e.near"


@pytest.fixture(autouse=True)
def near(cluster: Cluster) -> Iterator[None]:
    """A table with two segments on both nodes, in which k is never negative."""
    local_opens._elsewhere.clear()
    cluster.sql(f"CREATE TABLE {NAME} (k BIGINT, v STRING, at TIMESTAMP) TBLPROPERTIES ('time_column' = 'at')")
    for start in (0, ROWS):
        cluster.table(NAME).append(rows(start))
    yield
    cluster.sql(f"DROP TABLE IF EXISTS {NAME}")


def rows(start: int) -> pa.Table:
    times = pa.array([1_900_000_000_000_000] * ROWS, pa.timestamp("us", "UTC"))
    return pa.table({"k": range(start, start + ROWS), "v": [f"v{n}" for n in range(ROWS)], "at": times})


def held(spark: SparkSession) -> Any:
    return held_frames._HELD[spark.sparkContext.applicationId]


@contextmanager
def ended(code: str, about: str = NAME) -> Iterator[None]:
    """A query fails, and the last line has all that a person needs."""
    with pytest.raises(LeaseholdError) as caught:
        yield
    *_, last = str(caught.value).splitlines()
    assert caught.value.code == code
    assert about in last
    assert f"[{code}]" in last
    assert f'leasehold.spark.table(spark, "{about}")' in last


def test_a_frame_says_what_it_reads(spark: SparkSession, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    before = cluster.plan(NAME).facts.revision
    frame = table(spark, NAME, where="k < 10")
    assert [row["k"] for row in frame.orderBy("k").collect()] == list(range(10))
    plan = last_plan(frame)
    assert plan is not None
    assert (plan.table, plan.segments, plan.pruned, plan.local, plan.remote, plan.groups) == (NAME, 2, 1, 1, 0, 1)
    assert before <= plan.revision <= cluster.plan(NAME).facts.revision, "a revision may come from elsewhere"
    frame.explain(extended=True)
    shown = capsys.readouterr().out
    assert f"leasehold local {NAME}, 1 of 2 segments" in shown
    assert "FileScan parquet" in shown
    over_flight = table(spark, NAME, local=False)
    assert last_plan(over_flight) is None
    assert over_flight.count() == 2 * ROWS


def test_a_frame_without_rows_reads_nothing(spark: SparkSession) -> None:
    frame = table(spark, NAME, ["v", "k"], where="k < 0", local=True)
    assert (frame.count(), frame.columns) == (0, ["v", "k"])


def test_a_frame_keeps_its_revision(spark: SparkSession, cluster: Cluster) -> None:
    frame = table(spark, NAME)
    cluster.table(NAME).append(rows(2 * ROWS))
    cluster.sql(f"ALTER TABLE {NAME} ADD COLUMN w INT DEFAULT 7")
    cluster.sql(f"ALTER TABLE {NAME} RENAME COLUMN v TO text")
    assert (frame.count(), frame.columns) == (2 * ROWS, ["k", "v", "at"])
    later = table(spark, NAME)
    assert later.columns == ["k", "text", "at", "w"]
    assert later.where("w = 7").count() == 3 * ROWS
    plan = last_plan(frame)
    assert plan is not None
    past = table(spark, NAME, as_of=plan.revision, local=True)
    assert (past.count(), past.columns) == (2 * ROWS, ["k", "v", "at"])


def test_the_files_of_a_frame_can_be_opened_while_one_made_of_it_is_there(
    spark: SparkSession, running: RunningCluster
) -> None:
    java: Any = spark
    others = set(held(spark)._by_folder) if spark.sparkContext.applicationId in held_frames._HELD else set()
    derived = table(spark, NAME).where("k >= 10").groupBy().count()
    mine = set(held(spark)._by_folder) - others
    gc.collect()
    java._jvm.System.gc()
    held(spark).look()
    assert derived.collect()[0][0] == 2 * ROWS - 10
    assert mine == {one.parts[-3] for one in links(running.directory)} - others
    del derived

    def is_closed() -> bool:
        gc.collect()
        java._jvm.System.gc()
        held(spark).look()
        return not mine & set(held(spark)._by_folder)

    wait_until(is_closed, seconds=60)
    assert not mine & {one.parts[-3] for one in links(running.directory)}


def test_frames_that_nobody_needs_keep_no_room_from_others(spark: SparkSession) -> None:
    for _ in range(200):
        table(spark, NAME, local=True)
    assert table(spark, NAME, local=True).count() == 2 * ROWS


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        (f"DROP TABLE {NAME}", "TABLE_DROPPED"),
        (f"ALTER TABLE {NAME} DROP COLUMN v", "COLUMN_DROPPED"),
        (f"DELETE FROM {NAME} WHERE k = 7", "ROWS_TAKEN_AWAY"),
        (f"ALTER TABLE {NAME} SET TBLPROPERTIES ('ttl' = '3650d')", "ROWS_TAKEN_AWAY"),
        ("ALTER CLUSTER SET local_reads = 'off'", "NOT_LOCAL"),
    ],
)
def test_a_query_says_which_statement_has_ended_its_frame(
    spark: SparkSession, cluster: Cluster, running: RunningCluster, statement: str, code: str
) -> None:
    others = set(links(running.directory))
    frame = table(spark, NAME, local=True)
    first = frame.where("k < 100")
    assert first.count() == 100
    cluster.sql(statement)
    try:
        assert set(links(running.directory)) <= others, "all links are gone once the statement has returned"
        asked: tuple[Callable[[], object], ...] = (frame.collect, frame.toArrow, first.count)
        for ask in asked:
            with ended(code):
                ask()
        if code == "TABLE_DROPPED":
            with pytest.raises(NotFound):
                table(spark, NAME)
        else:
            again = table(spark, NAME)
            assert again.count() == {"DELETE": 2 * ROWS - 1, "ALTER": 2 * ROWS}[statement.split(maxsplit=1)[0]]
            assert (last_plan(again) is None) is (code == "NOT_LOCAL")
    finally:
        cluster.sql("ALTER CLUSTER SET local_reads = 'on'")


def test_small_files_are_joined_and_end_with_the_frame(
    spark: SparkSession, cluster: Cluster, running: RunningCluster
) -> None:
    """Those of each node; the rows are those that come over Flight, and a DELETE takes the joined files away too."""
    for start in range(JOINED_FILES_MIN):
        cluster.table(NAME).append(rows(2 * ROWS + 5 * start).slice(0, 5))
    others = set(links(running.directory))
    frame = table(spark, NAME, local=True)
    names = [Path(one).name for one in frame.inputFiles()]
    assert JOINED in names
    assert len(names) < JOINED_FILES_MIN
    assert sorted(frame.collect()) == sorted(table(spark, NAME, local=False).collect())
    plan = last_plan(frame)
    assert plan is not None
    assert plan.local == plan.segments == 2 + JOINED_FILES_MIN
    cluster.sql(f"DELETE FROM {NAME} WHERE k = 7")
    assert set(links(running.directory)) <= others
    with ended("ROWS_TAKEN_AWAY"):
        frame.collect()


def test_other_errors_of_spark_stay_as_they_are(spark: SparkSession) -> None:
    frame = table(spark, NAME)
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        frame.selectExpr("CAST(v AS INT)").collect()
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
        frame.select("nothing")


def test_a_file_that_is_gone_is_no_end_of_the_frame(
    spark: SparkSession, running: RunningCluster, cluster: Cluster
) -> None:
    """Somebody has taken away a link: the frame has not ended, so Spark's own error is told."""
    others = set(links(running.directory))
    frame = table(spark, NAME, local=True)
    for one in set(links(running.directory)) - others:
        one.unlink()
    with pytest.raises(Exception, match="FILE_NOT_EXIST"):
        frame.collect()
    assert table(spark, NAME, local=True).count() == 2 * ROWS


def test_the_frame_of_a_killed_node_ends_and_the_next_reads_elsewhere(
    spark: SparkSession, running: RunningCluster
) -> None:
    others = set(links(running.directory))
    frame = table(spark, NAME, local=True)
    mine = set(links(running.directory)) - others
    used = next(one.parts[-5] for one in mine)
    running.kill(used)
    try:
        wait_until(lambda: not mine & set(links(running.directory)), seconds=60)
        with pytest.raises(LeaseholdError, match=NAME):
            frame.collect()
        assert table(spark, NAME).count() == 2 * ROWS, "the other node has all rows"
    finally:
        running.restart(used)


def test_what_is_elsewhere_comes_over_flight_in_the_same_frame(
    spark: SparkSession, running: RunningCluster, cluster: Cluster
) -> None:
    cluster.sql("CREATE TABLE e2e.half (k BIGINT) CLUSTERED BY (k) INTO 4 BUCKETS TBLPROPERTIES ('replication' = '1')")
    cluster.table("e2e.half").append(pa.table({"k": range(ROWS)}))
    holders = {holder for one in cluster.plan("e2e.half").segments for holder in one.holders}
    assert len(holders) == 2
    assert table(spark, "e2e.half", local=True).count() == ROWS
    proof = running.directory / "node-1" / FOLDER / PROOF
    content = proof.read_bytes()
    proof.unlink()
    try:
        with pytest.raises(Refused, match="node-1") as refused:
            table(spark, "e2e.half", local=True)
        assert refused.value.code == "NOT_LOCAL"
        frame = table(spark, "e2e.half")
        plan = last_plan(frame)
        assert plan is not None
        assert plan.local > 0
        assert plan.remote > 0
        assert sorted(row["k"] for row in frame.collect()) == list(range(ROWS))
        assert frame.where("k >= 10").count() == ROWS - 10
        cluster.sql("DELETE FROM e2e.half WHERE k < 0")
        with pytest.raises(Exception, match="ROWS_TAKEN_AWAY"):
            frame.collect()
    finally:
        proof.write_bytes(content)
        cluster.sql("DROP TABLE e2e.half")


def test_a_disk_that_makes_no_links_is_told_once(
    spark: SparkSession, running: RunningCluster, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    def reads() -> DataFrame:
        local_opens._elsewhere.clear()
        return table(spark, NAME)

    facts = cluster.plan(NAME).facts
    for place in facts.places:
        LocalNode.at(place, facts.cluster_id, cluster.tls, None).proof(Revision(0))
    with TemporaryDirectory(dir="/dev/shm") as elsewhere, caplog.at_level(logging.WARNING, "leasehold.spark"):
        moved = []
        for name in ("node-1", "node-2"):
            folder = running.directory / name / FOLDER
            there = Path(elsewhere) / name
            shutil.move(folder, there)
            folder.symlink_to(there)
            moved.append((folder, there))
        try:
            assert reads().count() == reads().count() == 2 * ROWS
        finally:
            for folder, there in moved:
                folder.unlink()
                shutil.move(there, folder)
    assert [one for one in caplog.messages if "cross-device" in one] == caplog.messages
    assert len(caplog.messages) == 1


def test_a_frame_that_was_not_made_leaves_no_links(
    spark: SparkSession, running: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("no frame")

    others = set(links(running.directory))
    monkeypatch.setattr(local_tables, "local_frame", fails)
    with pytest.raises(RuntimeError, match="no frame"):
        table(spark, NAME)
    assert set(links(running.directory)) <= others


def test_what_local_may_be(spark: SparkSession) -> None:
    wrong: Any = "yes"
    with pytest.raises(BadSettings, match="'yes'"):
        table(spark, NAME, local=wrong)


def test_files_that_an_executor_does_not_see_are_noticed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "request" / "0" / "segment.parquet"
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere")
    assert not all_see(spark, [link.parent])
    (tmp_path / "elsewhere").write_bytes(b"PAR1")
    monkeypatch.setattr(executors, "_members", lambda _: frozenset({"driver:1", "127.0.0.1:1", "127.0.0.2:1"}))
    assert not all_see(spark, [link.parent]), "one of two has answered"
    monkeypatch.setattr(executors, "_members", lambda _: frozenset({"driver:1", "127.0.0.1:1"}))
    assert all_see(spark, [link.parent])
    link.unlink()
    link.symlink_to(tmp_path / "nowhere")
    assert all_see(spark, [link.parent]), "of the same executors it is known"
    monkeypatch.setattr(executors, "_members", lambda _: frozenset({"driver:1", "127.0.0.3:1"}))
    assert not all_see(spark, [link.parent])
