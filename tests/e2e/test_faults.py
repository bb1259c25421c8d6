"""Real processes that crash, pause and come back, with real data on real disks."""

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from leasehold.client.cluster import Cluster
from leasehold.client.locate import COORDINATOR
from leasehold.core.data.reader import reading_order
from leasehold.core.words.messages import Receipt
from leasehold.core.words.records import Outcome
from leasehold.errors import Definite, NotFound
from leasehold.ids import StatementId
from leasehold.limits.clients import SCAN_STREAMS
from leasehold.limits.segments import BATCH_ROWS
from leasehold.wire.entropy import SystemEntropy
from tests.e2e.cluster import RunningCluster
from tests.e2e.waiting import files_below, wait_until, wait_until_whole

pytestmark = pytest.mark.processes

ROWS = 6 * BATCH_ROWS
BEYOND_READ_AHEAD = SCAN_STREAMS + 1
"""Segments: the last is asked for only after the first was taken whole, and a network may hold all the others."""


def numbers(first: int, count: int) -> pa.Table:
    return pa.table({"a": pa.array(range(first, first + count), pa.int64()), "b": [f"row {n}" for n in range(count)]})


def make_table(cluster: Cluster, name: str = "d.t", *, rows: int = ROWS, buckets: int = 2, appends: int = 1) -> None:
    cluster.sql("CREATE DATABASE IF NOT EXISTS d")
    cluster.sql(f"CREATE TABLE {name} (a BIGINT, b STRING) CLUSTERED BY (a) INTO {buckets} BUCKETS")
    for first in range(0, rows * appends, rows or 1):
        assert cluster.table(name).append(numbers(first, rows)) == rows
    if sum(node.state == "ACTIVE" for node in cluster.status().nodes) > 1:
        wait_until_whole(cluster)


def all_a(cluster: Cluster, name: str = "d.t") -> list[int]:
    return sorted(cluster.table(name).scan(columns=["a"]).read_all()["a"].to_pylist())


def receipt(cluster: Cluster, text: str) -> Receipt:
    answer = cluster.sql(text)
    assert isinstance(answer, Receipt)
    return answer


def verified(running: RunningCluster) -> dict[str, int]:
    command = [sys.executable, "-m", "leasehold.cli.main", "verify", "--dir", str(running.directory), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ids(cluster: Cluster) -> dict[str, int]:
    return {node.name: node.id for node in cluster.status().nodes}


def test_a_killed_node_in_mid_scan_costs_no_row(fresh: RunningCluster) -> None:
    with fresh.connect() as cluster:
        make_table(cluster)
        reader = cluster.table("d.t").scan()
        first = reader.read_next_batch()
        serving = {place.node: place.name for place in cluster.facts("d.t").places}
        fresh.kill(serving[reading_order(cluster.plan("d.t").segments[0])[0]])
        whole = pa.Table.from_batches([first, *reader])
        assert sorted(whole["a"].to_pylist()) == list(range(ROWS))
        assert verified(fresh)["stale_serves"] == 0


def test_a_dead_node_delays_ddl_by_no_more_than_the_bound(fresh: RunningCluster) -> None:
    with fresh.connect() as cluster:
        make_table(cluster, rows=10)
        fresh.kill("node-2")
        changed = receipt(cluster, "ALTER TABLE d.t ADD COLUMN c DOUBLE")
        assert changed.outcome is Outcome.COMMITTED
        assert changed.elapsed_ns <= changed.bound_ns
        assert sorted(one.how for one in changed.settled) == ["applied", "applied", "fenced"]
        assert all_a(cluster) == list(range(10))
        fresh.restart("node-2")
        assert cluster.table("d.t").scan().read_all().schema.names == ["a", "b", "c"]


def test_L6_L13_a_paused_node_releases_nothing_stale_when_it_goes_on(fresh: RunningCluster) -> None:
    """Paused in the middle of a scan for longer than its lease, while the column it reads is dropped and made anew."""
    with fresh.connect() as cluster:
        make_table(cluster, buckets=1, appends=BEYOND_READ_AHEAD)
        reader = cluster.table("d.t").scan(columns=["a", "b"])
        reader.read_next_batch()
        replicas = [place.name for place in cluster.facts("d.t").places]
        for name in replicas:
            fresh.pause(name)
        dropped = receipt(cluster, "ALTER TABLE d.t DROP COLUMN b")
        assert dropped.elapsed_ns <= dropped.bound_ns
        receipt(cluster, "ALTER TABLE d.t ADD COLUMN b DOUBLE")
        for name in replicas:
            fresh.resume(name)
        with pytest.raises(Definite, match="b") as refused:
            for _batch in reader:
                pass
        assert refused.value.code == "COLUMN_DROPPED"
        fresh.wait_until_active()
        again = cluster.table("d.t").scan().read_all()
        assert again["b"].null_count == BEYOND_READ_AHEAD * ROWS, "the values of the dropped column must not come back"
        assert verified(fresh)["stale_serves"] == 0


def test_a_dropped_table_ends_a_running_scan(fresh: RunningCluster) -> None:
    with fresh.connect() as cluster, fresh.connect() as other:
        make_table(cluster, buckets=1, appends=BEYOND_READ_AHEAD)
        reader = cluster.table("d.t").scan()
        reader.read_next_batch()
        receipt(other, "DROP TABLE d.t")
        with pytest.raises(Definite) as refused:
            for _batch in reader:
                pass
        assert refused.value.code == "TABLE_DROPPED"
        make_table(cluster, rows=5)
        assert all_a(cluster) == list(range(5)), "a table made again under the name is another table"
        folders = [process.directory / "segments" for process in fresh.local.nodes()]
        wait_until(lambda: sum(len(files_below(folder, ".parquet")) for folder in folders) <= 4)
        assert verified(fresh)["stale_serves"] == 0


def test_a_coordinator_killed_in_a_statement_resumes_it(fresh: RunningCluster) -> None:
    with fresh.connect() as cluster, fresh.connect() as asking:
        make_table(cluster, rows=10)
        statement = StatementId(SystemEntropy().hex_128())
        answers: list[Receipt] = []

        def ask() -> None:
            answer = asking.sql("DROP TABLE d.t", statement_id=statement)
            assert isinstance(answer, Receipt)
            answers.append(answer)

        fresh.pause("node-3")
        thread = threading.Thread(target=ask)
        thread.start()
        # Hidden means: the pre-state is committed, and the barrier waits for the paused node.
        wait_until(lambda: hidden(cluster))
        fresh.kill(COORDINATOR)
        fresh.local.start(COORDINATOR)
        thread.join(timeout=60)
        assert [one.outcome for one in answers] == [Outcome.COMMITTED]
        fresh.resume("node-3")
        again = cluster.sql("DROP TABLE d.t", statement_id=statement)
        assert isinstance(again, Receipt)
        assert again.outcome is Outcome.COMMITTED
        assert cluster.status().term == 2


def hidden(cluster: Cluster) -> bool:
    try:
        cluster.facts("d.t")
    except NotFound:
        return True
    return False


def test_all_killed_at_once_lose_nothing_acknowledged(fresh: RunningCluster) -> None:
    with fresh.connect() as cluster:
        make_table(cluster, rows=0)
        written = 0
        for _ in range(5):
            written += cluster.table("d.t").append(numbers(written, 1000))
        before = ids(cluster)
        for name in [COORDINATOR, *fresh.names()]:
            fresh.kill(name)
    fresh.local.up(3)
    fresh.wait_until_active()
    with fresh.connect() as cluster:
        assert all_a(cluster) == list(range(written))
        assert ids(cluster) == before
        assert verified(fresh)["stale_serves"] == 0


def test_a_node_restarted_under_another_port_is_the_same_node(fresh: RunningCluster) -> None:
    with fresh.connect() as cluster:
        make_table(cluster)
        before = {node.name: node for node in cluster.status().nodes}
        files = sorted(path.name for path in (fresh.directory / "node-1").glob("segments/*/*/*.parquet"))
        assert files
        fresh.kill("node-1")
        fresh.restart("node-1")
        after = {node.name: node for node in cluster.status().nodes}["node-1"]
        assert after.id == before["node-1"].id
        assert after.address != before["node-1"].address
        assert after.incarnation == before["node-1"].incarnation + 1
        assert sorted(path.name for path in (fresh.directory / "node-1").glob("segments/*/*/*.parquet")) == files
        assert all_a(cluster) == list(range(ROWS))


def test_a_node_that_was_away_fetches_what_it_missed(fresh: RunningCluster) -> None:
    with fresh.connect() as cluster:
        make_table(cluster, rows=0)
        fresh.kill("node-2")
        assert cluster.table("d.t").append(numbers(0, ROWS)) == ROWS
        fresh.restart("node-2")
        wait_until(lambda: all(len(one.holders) == 2 for one in cluster.plan("d.t").segments))
        for segment in cluster.plan("d.t").segments:
            copies = list(fresh.directory.glob(f"node-*/segments/*/*/{segment.id}.parquet"))
            assert len(copies) == 2
            assert copies[0].read_bytes() == copies[1].read_bytes(), "replicas are byte-identical"
        fresh.kill("node-1")
        assert all_a(cluster) == list(range(ROWS))


def test_a_copied_node_directory_is_refused(fresh: RunningCluster) -> None:
    with fresh.connect() as cluster:
        make_table(cluster, rows=10)
        source, copy = fresh.directory / "node-1", fresh.directory / "node-copy"
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("pid", "address", "log"))
        command = [sys.executable, "-m", "leasehold.cli.main", "node", "start", "--dir", str(copy), "--name", "node-1"]
        command += ["--coordinator", cluster.address, "--cluster-key", str(fresh.directory / "cluster.key")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 3, done.stderr
        assert "ALIVE_ELSEWHERE" in done.stderr
        assert "hint:" in done.stderr
        assert {node.name: node.state for node in cluster.status().nodes}["node-1"] == "ACTIVE"
        assert all_a(cluster) == list(range(10))


def test_one_damaged_replica_does_not_harm_a_reader_and_is_replaced(fresh: RunningCluster) -> None:
    with fresh.connect() as cluster:
        make_table(cluster, buckets=1)
        plan = cluster.plan("d.t")
        damaged: list[tuple[Path, bytes]] = []
        for segment in plan.segments:
            first = next(place for place in plan.facts.places if place.node == reading_order(segment)[0])
            path = next(Path(fresh.directory / first.name).glob(f"segments/*/*/{segment.id}.parquet"))
            damaged.append((path, path.read_bytes()))
            blob = bytearray(path.read_bytes())
            blob[len(blob) // 2] ^= 0xFF
            path.write_bytes(blob)

        def is_mended() -> bool:
            # A replica that was slow a moment ago is asked last, so the damaged one may not be read at once.
            assert all_a(cluster) == list(range(ROWS))
            return all(path.exists() and path.read_bytes() == sound for path, sound in damaged)

        wait_until(is_mended)
