"""A statement's timeout, CANCEL and what is told of it, against real processes of which one is paused."""

import json
import threading
from pathlib import Path

import pytest

from leasehold.client.cluster import Cluster
from leasehold.core.words.messages import Receipt, Rows, WaitingFor
from leasehold.core.words.records import Outcome
from leasehold.errors import Refused
from leasehold.ids import StatementId
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold

pytestmark = pytest.mark.processes

DROPPING = StatementId("d" * 32)


def receipt(cluster: Cluster, text: str, *, timeout: float | None = None) -> Receipt:
    answer = cluster.sql(text, timeout=timeout)
    assert isinstance(answer, Receipt)
    return answer


def rows(cluster: Cluster, text: str) -> list[dict[str, str | int | bool | None]]:
    answer = cluster.sql(text)
    assert isinstance(answer, Rows)
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def with_a_table(cluster: Cluster) -> None:
    receipt(cluster, "CREATE DATABASE d")
    receipt(cluster, "CREATE TABLE d.t (a INT, b INT)")


def test_a_timeout_tells_who_is_pending_or_rolls_back(fresh: RunningCluster) -> None:
    with fresh.connect() as cluster:
        with_a_table(cluster)
        fresh.pause("node-2")
        added = receipt(cluster, "ALTER TABLE d.t ADD COLUMN c INT", timeout=0.3)
        assert added.outcome is Outcome.COMMITTED_PENDING
        assert added.pending == (2,)
        assert cluster.sql("ALTER TABLE d.t ADD COLUMN c INT", statement_id=added.statement_id) == added
        with pytest.raises(Refused) as refused:
            receipt(cluster, "ALTER TABLE d.t DROP COLUMN b", timeout=0.1)
        assert refused.value.code == "TIMED_OUT", "it waits for the change before it"
        assert receipt(cluster, "ALTER TABLE d.t DROP COLUMN b").outcome is Outcome.COMMITTED
        fresh.resume("node-2")
        fresh.wait_until_active()
        fresh.pause("node-2")
        dropped = receipt(cluster, "DROP TABLE d.t", timeout=0.3)
        assert (dropped.outcome, dropped.pending) == (Outcome.ROLLED_BACK, (2,))
        assert [row["column"] for row in rows(cluster, "DESCRIBE d.t")] == ["a", "c"]
        told = rows(cluster, "SHOW HISTORY FOR TABLE d.t")
        assert [row["outcome"] for row in told] == ["ROLLED_BACK", "COMMITTED", "COMMITTED_PENDING", "COMMITTED"]
        assert told[0]["nodes"] == "not heard of: node-2"


def test_a_statement_is_cancelled_while_it_waits_for_a_node(fresh: RunningCluster) -> None:
    with fresh.connect() as cluster, fresh.connect() as other:
        with_a_table(cluster)
        fresh.pause("node-2")
        waits, cancelled = threading.Event(), threading.Event()
        answers: list[Receipt | Rows] = []

        def drop() -> None:
            def waiting(message: WaitingFor) -> None:
                # The rollback waits for every node to hear of it, so after that any of them may be named.
                assert cancelled.is_set() or "node-2" in message.nodes, message.nodes
                if message.nodes == ("node-2",):  # the others have heard of the DROP
                    waits.set()

            answers.append(cluster.sql("DROP TABLE d.t", statement_id=DROPPING, on_wait=waiting))

        thread = threading.Thread(target=drop)
        thread.start()
        assert waits.wait(10)
        (running,) = rows(other, "SHOW PROCEDURES")
        assert running["statement"] == DROPPING
        assert str(running["state"]).startswith("waiting for node-2, at most ")
        explained = rows(other, "EXPLAIN COMMENT ON DATABASE d IS 'x'")
        assert [row["step"] for row in explained][:2] == ["queue", "change"]
        cancelled.set()
        (ended,) = rows(other, f"CANCEL PROCEDURE {running['procedure']}")
        assert ended["outcome"] == "ROLLED_BACK"
        thread.join(10)
        (answer,) = answers
        assert isinstance(answer, Receipt)
        assert answer.outcome is Outcome.ROLLED_BACK
        assert rows(other, "SHOW PROCEDURES") == []


def sql(directory: Path, *words: str) -> tuple[int, str, str]:
    done = leasehold("sql", *words, directory=directory)
    return done.code, done.out, done.err


def test_the_command_line_tells_it_by_its_exit_code(fresh: RunningCluster) -> None:
    with fresh.connect() as cluster:
        with_a_table(cluster)
        fresh.pause("node-2")
        added = receipt(cluster, "ALTER TABLE d.t ADD COLUMN c INT", timeout=0.3)
        fresh.resume("node-2")
        fresh.wait_until_active()
        receipt(cluster, "COMMENT ON TABLE d.t IS 'no node serves what was before ADD COLUMN'")
        fresh.pause("node-2")
        dropped = receipt(cluster, "DROP TABLE d.t", timeout=0.3)
    code, out, err = sql(fresh.directory, "ALTER TABLE d.t ADD COLUMN c INT", "--id", added.statement_id, "-o", "json")
    assert code == 6
    told = json.loads(out)
    assert (told["outcome"], told["pending"]) == ("COMMITTED_PENDING", ["node-2"])
    assert "node-2" in err
    assert "leasehold status" in err
    code, out, err = sql(fresh.directory, "DROP TABLE d.t", "--id", dropped.statement_id)
    assert code == 3
    assert out.startswith("ROLLED_BACK in ")
    assert "node-2" in err
    assert sql(fresh.directory, "SHOW TABLES", "--timeout", "soon")[0] == 2
    assert sql(fresh.directory, "SHOW TABLES", "--timeout", "0s")[0] == 2
