"""Every command, its JSON, and its exit codes, against one real cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.local.processes import LocalCluster
from tests.e2e.command import leasehold

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("cli") / "cluster"
    up = leasehold("up", "--nodes", "2", "--detach", "-o", "json", directory=directory)
    assert up.code == 0, up.err
    yield directory
    LocalCluster(directory).down()


def test_status_says_what_it_promises(directory: Path) -> None:
    status = leasehold("status", "-o", "json", directory=directory).json()
    assert set(status) == {"cluster_id", "term", "revision", "bound_ms", "nodes"}
    assert status["bound_ms"] == 4000
    assert [node["state"] for node in status["nodes"]] == ["ACTIVE", "ACTIVE"]
    keys = {"id", "name", "address", "incarnation", "state", "applied_revision", "lease_remaining_ms"}
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


def test_verify(directory: Path) -> None:
    found = leasehold("verify", "-o", "json", directory=directory).json()
    assert set(found) == {"batches", "statements", "stale_serves"}
    assert found["stale_serves"] == 0


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("CREATE TABLE nope.t (a INT)", ["NOT_FOUND", "nope"]),
        ("CREATE TABLE a.b (x NUMBER)", ["BAD_TYPE"]),
        ("CREATE TABLE a.b (x INT, X STRING)", ["DUPLICATE_COLUMN"]),
        ("ALTER TABLE a.b ADD COLUMN", ["BAD_STATEMENT"]),
        ("ALTER TABLE a.b ADD COLUMN x INT garbage", ["BAD_STATEMENT"]),
        ("DROP TABLE nope.t", ["NOT_FOUND"]),
        ("SELECT 1", ["BAD_STATEMENT"]),
        ("", ["BAD_STATEMENT"]),
    ],
)
def test_bad_statements_are_refused_and_change_nothing(directory: Path, statement: str, words: list[str]) -> None:
    before = leasehold("status", "-o", "json", directory=directory).json()["revision"]
    leasehold("sql", statement, directory=directory).refused(3, *words)
    assert leasehold("status", "-o", "json", directory=directory).json()["revision"] <= before + 1


def test_a_second_cluster_in_one_directory_is_refused(directory: Path) -> None:
    leasehold("up", "--nodes", "2", "--detach", directory=directory).refused(3, "RUNNING")


def test_chaos_says_what_is_wrong(directory: Path) -> None:
    leasehold("chaos", "kill", "node-9", directory=directory).refused(3, "NOT_FOUND", "node-1")
    leasehold("chaos", "start", "node-1", directory=directory).refused(3, "RUNNING")
    assert leasehold("logs", "node-1", directory=directory).code == 0


def test_usage(directory: Path, tmp_path: Path) -> None:
    assert leasehold("sql", directory=directory).code == 2
    assert leasehold("nonsense").code == 2
    leasehold("up", "--nodes", "0", "--detach", directory=tmp_path / "new").refused(2, "nodes")
    leasehold("status", directory=tmp_path / "nothing").refused(2, "leasehold up")


def test_a_cluster_that_is_down_is_unreachable(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    assert leasehold("up", "--nodes", "1", "--detach", directory=directory).code == 0
    assert leasehold("down", "-o", "json", directory=directory).json() == {"stopped": ["node-1", "coordinator"]}
    leasehold("sql", "SHOW NODES", directory=directory).refused(5, "UNREACHABLE")
    leasehold("chaos", "kill", "node-1", directory=directory).refused(3, "NOT_RUNNING")
    assert leasehold("up", "--nodes", "1", "--detach", directory=directory).code == 0
    assert leasehold("down", directory=directory).code == 0
