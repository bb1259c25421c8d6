"""Every command, its JSON, and its exit codes, against one real cluster."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from leasehold.client.cluster import connect
from leasehold.core.questions.history import COLUMNS as HISTORY
from leasehold.core.words.messages import ClusterFacts, Execute, Message, Receipt, Rows, WhoAreYou
from leasehold.core.words.records import Outcome
from leasehold.errors import BadDirectory, Unreachable
from leasehold.ids import ClusterId, Generation, Revision, Term
from leasehold.local.files import write_whole
from leasehold.local.process import Process
from leasehold.local.processes import LocalCluster
from leasehold.wire.ports import Duplex
from leasehold.wire.rpc import serve
from tests.e2e.command import Running, command, leasehold

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("cli") / "cluster"
    up = leasehold("up", "--nodes", "2", "--detach", "-o", "json", directory=directory)
    assert up.code == 0, up.err
    yield directory
    LocalCluster(directory).down()


@pytest.fixture
def unborn(tmp_path: Path) -> Iterator[LocalCluster]:
    """A cluster that the test makes; nothing of it outlives the test."""
    local = LocalCluster(tmp_path / "cluster")
    yield local
    with contextlib.suppress(BadDirectory):
        local.down()


def test_status_says_what_it_promises(directory: Path) -> None:
    status = leasehold("status", "-o", "json", directory=directory).json()
    assert set(status) == {
        *("cluster_id", "term", "revision", "bound_ms", "coordinators", "nodes"),
        *("anybody_may_join", "clock_ahead_s", "segments_short", "segments_lost", "store_warnings", "repairs"),
    }
    assert status["bound_ms"] == 4000
    assert [(one["name"], one["role"]) for one in status["coordinators"]] == [("coordinator", "LEADER")]
    assert [node["state"] for node in status["nodes"]] == ["ACTIVE", "ACTIVE"]
    keys = {"id", "name", "address", "incarnation", "state", "applied_revision", "lease_remaining_ms"}
    keys |= {"stage", "recovery", "seen", "segments_short", "segments_alone", "segments_lacked", "silent_ms"}
    keys |= {"disk_full", "disk_failing", "session_end", "session_ended_ms"}
    assert all(set(node) == keys for node in status["nodes"])
    assert all(0 < node["lease_remaining_ms"] <= 3000 for node in status["nodes"])
    assert "node-1" in leasehold("status", directory=directory).out


def test_statements_and_their_receipts(directory: Path) -> None:
    made = leasehold("sql", "CREATE DATABASE shop", "-o", "json", directory=directory).json()
    assert set(made) >= {"statement", "statement_id", "revision", "outcome", "elapsed_ms", "bound_ms", "settled"}
    assert made["outcome"] == "COMMITTED"
    assert {one["node"] for one in made["settled"]} == {"node-1", "node-2"}
    assert all(set(one) == {"node", "how", "ms"} for one in made["settled"])
    again = leasehold("sql", "CREATE DATABASE shop", "--id", made["statement_id"], "-o", "json", directory=directory)
    assert again.json()["revision"] == made["revision"], "asked again by its id, not run again"
    table = "CREATE TABLE shop.sales (day DATE NOT NULL, amount DECIMAL(10,2)) CLUSTERED BY (day) INTO 2 BUCKETS"
    assert leasehold("sql", table, directory=directory).code == 0
    shown = leasehold("sql", "DESCRIBE shop.sales", "-o", "json", directory=directory).json()
    assert shown["columns"][:2] == ["column", "type"]
    assert [row[:2] for row in shown["rows"]] == [["day", "DATE"], ["amount", "DECIMAL(10,2)"]]
    assert leasehold("sql", "SHOW TABLES IN shop", "-o", "json", directory=directory).json()["rows"]
    assert len(leasehold("sql", "SHOW NODES", "-o", "json", directory=directory).json()["rows"]) == 2
    assert leasehold("sql", "DROP TABLE shop.sales", directory=directory).code == 0
    assert leasehold("sql", "DROP DATABASE shop", directory=directory).code == 0


def test_settings_change_while_it_runs(directory: Path) -> None:
    def shown() -> dict[str, str]:
        answer = leasehold("sql", "SHOW CLUSTER", "-o", "json", directory=directory).json()
        assert answer["columns"] == ["setting", "value", "range", "meaning"]
        # The largest lease follows by itself, a few seconds later.
        return {name: value for name, value, *_ in answer["rows"] if name != "largest_lease"}

    before = shown()
    try:
        text = "ALTER CLUSTER SET lease_duration = '2s', lease_margin = '300ms'"
        made = leasehold("sql", text, "-o", "json", directory=directory).json()
        assert made["outcome"] == "COMMITTED"
        assert made["elapsed_ms"] <= made["bound_ms"]
        assert shown() == before | {"lease_duration": "2s", "lease_margin": "300ms"}
    finally:
        text = f"ALTER CLUSTER SET lease_duration = '{before['lease_duration']}', lease_margin = '500ms'"
        assert leasehold("sql", text, directory=directory).code == 0
    assert shown() == before


def test_verify(directory: Path) -> None:
    found = leasehold("verify", "-o", "json", directory=directory).json()
    assert set(found) == {"batches", "statements", "stale_serves"}
    assert found["stale_serves"] == 0
    if not found["batches"]:
        assert "nothing to check" in leasehold("verify", directory=directory).out


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("CREATE TABLE nope.t (a INT)", ["NOT_FOUND", "nope"]),
        ("CREATE TABLE a.b (x NUMBER)", ["BAD_TYPE"]),
        ("CREATE TABLE a.b (x INT, X STRING)", ["DUPLICATE_COLUMN"]),
        ("ALTER TABLE a.b ADD COLUMN", ["BAD_STATEMENT"]),
        ("ALTER TABLE a.b ADD COLUMN x INT garbage", ["BAD_STATEMENT"]),
        ("DROP TABLE nope.t", ["NOT_FOUND"]),
        ("ALTER CLUSTER SET lease_duration = '1s'", ["BAD_SETTING", "1s600ms to 10m"]),
        ("ALTER CLUSTER SET lease_duration = 5", ["BAD_SETTING", "unit"]),
        ("ALTER CLUSTER SET lease_length = '5s'", ["NO_SUCH_SETTING", "lease_duration"]),
        ("", ["BAD_STATEMENT"]),
    ],
)
def test_bad_statements_are_refused_and_change_nothing(directory: Path, statement: str, words: list[str]) -> None:
    nodes = HISTORY.index("nodes")
    with connect(directory) as cluster:

        def rows(text: str) -> tuple[tuple[object, ...], ...]:
            answer = cluster.sql(text)
            assert isinstance(answer, Rows)
            return answer.rows

        def contents() -> list[object]:
            databases = rows("SHOW DATABASES")
            tables = [rows(f"SHOW TABLES IN {name}") for name, *_ in databases]
            # Which nodes have carried out a statement may change: one before may still delete files.
            history = [(*row[:nodes], *row[nodes + 1 :]) for row in rows("SHOW HISTORY")]
            return [databases, tables, rows("SHOW CLUSTER"), history]

        before = contents()
        leasehold("sql", statement, directory=directory).refused(3, *words)
        assert contents() == before


def test_a_second_cluster_in_one_directory_is_refused(directory: Path) -> None:
    leasehold("up", "--nodes", "2", "--detach", directory=directory).refused(3, "RUNNING")


def test_chaos_says_what_is_wrong(directory: Path) -> None:
    leasehold("chaos", "kill", "node-9", directory=directory).refused(3, "NOT_FOUND", "node-1")
    leasehold("chaos", "start", "node-1", directory=directory).refused(3, "RUNNING")


def test_a_paused_node_is_seen_to_be_silent_and_is_not_paused_twice(directory: Path) -> None:
    leasehold("chaos", "resume", "node-2", directory=directory).refused(3, "NOT_PAUSED", "node-2 is not paused")
    with connect(directory) as cluster:
        cluster.sql("CREATE DATABASE noted")
        assert leasehold("chaos", "pause", "node-2", directory=directory).code == 0
        try:
            longest_ns = 0
            while (status := cluster.status()).nodes[1].state == "ACTIVE":
                longest_ns = max([longest_ns, *(one.silent_ns for one in status.silences)])
            assert longest_ns > 1_000_000_000
            table = "CREATE TABLE noted.t (a INT) TBLPROPERTIES ('replication' = '2')"
            made = cluster.sql(table)
            assert isinstance(made, Receipt)
            assert made.notes == ("1 of 2 replicas are on nodes that serve; the others are on node-2",)
            leasehold("chaos", "pause", "node-2", directory=directory).refused(3, "PAUSED", "chaos resume node-2")
            again = leasehold("sql", table, "--id", made.statement_id, directory=directory)
            assert "note: 1 of 2 replicas" in again.out
        finally:
            assert leasehold("chaos", "resume", "node-2", directory=directory).code == 0
    LocalCluster(directory).wait_until_active("node-2")


def test_logs(directory: Path) -> None:
    shown = leasehold("logs", "1", "--lines", "3", "-o", "json", directory=directory).json()
    assert set(shown) == {"node", "lines"}
    assert shown["node"] == "node-1"
    assert len(shown["lines"]) == 3
    assert leasehold("logs", "node-1", "--lines", "1000", directory=directory).out.count("joined as node 1") == 1


def test_the_directory_comes_from_the_environment(directory: Path, tmp_path: Path) -> None:
    assert leasehold("status", "-o", "json", LEASEHOLD_DIR=str(directory)).json()["nodes"]
    leasehold("status", LEASEHOLD_DIR=str(tmp_path / "nothing")).refused(2, "nothing", "leasehold up")
    other = leasehold("status", directory=tmp_path / "flag", LEASEHOLD_DIR=str(directory))
    other.refused(2, "flag")


@pytest.mark.parametrize("shape", ["table", "json"])
def test_nobody_reads_the_output(directory: Path, shape: str) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        ran = subprocess.run(
            command("status", "-o", shape, directory=directory), stdout=write, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(write)
    assert (ran.returncode, ran.stderr) == (141, b"")


def test_an_interrupted_statement_says_how_to_learn_its_outcome(directory: Path) -> None:
    local = LocalCluster(directory)
    statement = "CREATE DATABASE interrupted"
    with connect(directory) as cluster:
        cluster.sql("ALTER CLUSTER SET lease_duration = '30s'")  # longer than a command takes to start
    local.wait_until_active("node-2")
    local.node("node-2").signal(signal.SIGSTOP)
    try:
        with Running("sql", statement, directory=directory) as running:
            running.wait_until_it_says("waiting for node-2")
            ran = running.interrupted(signal.SIGINT)
        ran.refused(4, "UNKNOWN", "--id")
        found = re.search(r"--id ([0-9a-f]{32})", ran.err)
        assert found
        again = leasehold("sql", statement, "--id", found[1], "-o", "json", directory=directory).json()
        assert (again["statement_id"], again["outcome"]) == (found[1], "COMMITTED")
    finally:
        local.node("node-2").signal(signal.SIGCONT)
        with connect(directory) as cluster:
            cluster.sql("ALTER CLUSTER SET lease_duration = '3s'")
    local.wait_until_active("node-2")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_up_and_all_it_started(unborn: LocalCluster, number: signal.Signals) -> None:
    directory = unborn.directory
    with Running("up", "--nodes", "1", directory=directory) as running:
        running.wait_until_it_says("Ctrl-C stops it")
        with connect(directory) as cluster:
            assert [node.state for node in cluster.status().nodes] == ["ACTIVE"]
        ran = running.interrupted(number)
    assert ran.code == 0, ran.err
    assert [process.name for process in [unborn.coordinator, *unborn.nodes()] if process.running()] == []


def test_a_signal_ends_up_while_it_starts(unborn: LocalCluster) -> None:
    with Running("up", "--nodes", "1", directory=unborn.directory) as running:
        running.wait_until_it_says("starting")
        while unborn.coordinator.running() is None:
            assert running.runs()
        ran = running.interrupted(signal.SIGTERM)
    assert ran.code == 0, ran.err
    assert not any(process.running() for process in [unborn.coordinator, Process(unborn.directory / "node-1")])


class Forgetful:
    """A coordinator that commits a statement and then has no answer about anything else."""

    async def call(self, request: Message) -> Message:
        if isinstance(request, WhoAreYou):
            return ClusterFacts(cluster_id=ClusterId("c" * 32), generation=Generation(1), term=Term(1), leader=True)
        if isinstance(request, Execute):
            return Receipt(
                statement_id=request.statement,
                text=request.text,
                revision=Revision(7),
                outcome=Outcome.COMMITTED,
                elapsed_ns=1,
                bound_ns=2,
                settled=(),
                pending=(),
                cleaning=(),
            )
        raise Unreachable("no answer", hint="none")

    async def stream(self, request: Message) -> AsyncIterator[Message]:
        yield await self.call(request)

    async def session(self, duplex: Duplex) -> None:
        raise NotImplementedError


async def test_a_committed_statement_is_told_even_if_nothing_else_can_be_asked(tmp_path: Path) -> None:
    faults: asyncio.Queue[BaseException] = asyncio.Queue()
    server = await serve("127.0.0.1:0", Forgetful(), on_fault=faults.put_nowait)
    try:
        known = {"format": 1, "cluster_id": "c" * 32, "coordinator": server.address, "nodes": ["node-1"]}
        write_whole(tmp_path / "cluster.json", json.dumps(known).encode())
        ran = await asyncio.to_thread(leasehold, "sql", "CREATE DATABASE d", "-o", "json", directory=tmp_path)
        assert ran.json()["outcome"] == "COMMITTED"
        assert faults.empty()
    finally:
        await server.close()


def test_usage(directory: Path, tmp_path: Path) -> None:
    assert leasehold("sql", directory=directory).code == 2
    assert leasehold("nonsense").code == 2
    leasehold("up", "--nodes", "0", "--detach", directory=tmp_path / "new").refused(2, "nodes")
    leasehold("status", directory=tmp_path / "nothing").refused(2, "leasehold up")


def test_a_cluster_that_is_down_is_unreachable(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    assert leasehold("up", "--nodes", "1", "--detach", directory=directory).code == 0
    assert leasehold("down", "-o", "json", directory=directory).json() == {"stopped": ["node-1", "coordinator"]}
    leasehold("sql", "--timeout", "2s", "SHOW NODES", directory=directory).refused(5, "UNREACHABLE")
    leasehold("chaos", "kill", "node-1", directory=directory).refused(3, "NOT_RUNNING")
    assert leasehold("up", "--nodes", "1", "--detach", directory=directory).code == 0
    for verb, process in (("pause", "node-1"), ("kill", "coordinator")):
        assert leasehold("chaos", verb, process, directory=directory).code == 0
    down = leasehold("down", "-o", "json", directory=directory).json()
    assert down == {"stopped": ["node-1"]}, "paused, and without a coordinator to give its lease back to"
