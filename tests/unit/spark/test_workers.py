"""What a Python worker of Spark loads, and what it keeps from one task to the next."""

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.client.coordinators import Coordinators
from leasehold.core.data.known import Known
from leasehold.core.words.codec import encode
from leasehold.errors import Unreachable
from leasehold.limits.clients import WORKER_CLIENTS_MAX
from leasehold.spark import entry as of_worker
from leasehold.spark.entry import ClusterEntry
from leasehold.spark.reader import Asked, InputPartition, LeaseholdReader
from leasehold.spark.types import spark_schema
from tests.unit.node.cluster import cluster, rows
from tests.unit.node.serving.test_scans import append

WORKER = """
import gc, pickle, sys
one, other, partition = pickle.load(sys.stdin.buffer)
assert not gc.get_freeze_count()
print(sum(batch.num_rows for batch in one.read(partition)))
frozen = gc.get_freeze_count()
assert frozen
more = [[] for _ in range(1000)]
print(sum(batch.num_rows for batch in other.read(partition)))
assert gc.get_freeze_count() <= frozen, "what later tasks make can be garbage"
print(*sys.modules)
"""
NEEDLESS = {
    *("cryptography", "duckdb", "pandas", "psutil", "pyarrow.parquet", "rich", "sqlglot", "sqlite3", "typer", "uvloop"),
    *("leasehold.cli", "leasehold.client.append", "leasehold.client.cluster", "leasehold.local", "leasehold.sql"),
    *("leasehold.client.local_opens", "leasehold.core.data.read_groups", "leasehold.spark.local_tables"),
    *("leasehold.spark.filters", "leasehold.spark.options", "leasehold.spark.sessions", "leasehold.spark.source"),
    *("leasehold.spark.held_frames", "leasehold.spark.settings", "leasehold.spark.tables"),
    *("leasehold.spark.queries", "leasehold.spark.statements"),
}


def entry(number: int = 1) -> ClusterEntry:
    """Of a cluster where nobody listens."""
    return ClusterEntry(address=f"127.0.0.1:{number}", tls="", token=None)


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_worker, "_KEPT", {})


@pytest.fixture
def known() -> Iterator[Known]:
    with Coordinators("127.0.0.1:1", tls="") as client:
        yield client.known


def used(number: int, known: Known) -> Coordinators:
    with entry(number).kept(Coordinators, known) as client:
        return client


def is_closed(client: Coordinators) -> bool:
    with pytest.raises(Unreachable) as caught:
        client.status()
    return "was closed" in caught.value.text


def test_a_reading_worker_loads_no_more_than_it_needs_and_freezes_it_once(tmp_path: Path) -> None:
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        append(made, rows(0, 10))
        plan = made.plan()
        schema = spark_schema(plan.facts.fields)
        one, other = (
            LeaseholdReader(entry=entry(number), asked=Asked(table="db.t"), schema=schema) for number in (1, 2)
        )
        travels = pickle.dumps((one, other, InputPartition(encode(plan))))
        done = subprocess.run([sys.executable, "-c", WORKER], input=travels, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    *found, loaded = done.stdout.decode().splitlines()
    assert found == ["10", "10"]
    assert "leasehold.spark.reader" in loaded.split()
    assert not NEEDLESS & set(loaded.split())


def test_tasks_of_one_entry_use_one_client(known: Known) -> None:
    client = used(1, known)
    assert used(1, known) is client
    assert used(2, known) is not client
    assert not is_closed(client)


def test_a_client_of_a_task_that_failed_is_kept_no_longer(known: Known) -> None:
    client = used(1, known)
    with pytest.raises(Unreachable), entry().kept(Coordinators, known) as again:
        assert again is client
        raise Unreachable("a coordinator is gone", hint="")
    assert is_closed(client)
    assert used(1, known) is not client


def test_two_tasks_at_once_have_two_clients(known: Known) -> None:
    with entry().kept(Coordinators, known) as one, entry().kept(Coordinators, known) as other:
        assert one is not other


def test_what_another_cluster_at_this_address_has_told_is_not_used(known: Known) -> None:
    with Coordinators("127.0.0.1:1", tls="") as other:
        client = used(1, known)
        assert used(1, other.known) is not client
    assert is_closed(client)


def test_a_worker_keeps_the_clients_that_it_used_last(known: Known) -> None:
    clients = [used(number, known) for number in range(1, WORKER_CLIENTS_MAX + 1)]
    assert used(1, known) is clients[0]
    used(WORKER_CLIENTS_MAX + 1, known)
    assert is_closed(clients[1])
    assert not is_closed(clients[0])
