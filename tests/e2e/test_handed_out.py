"""What a reader of a real cluster is handed out after a statement of the same client has returned.

Batches of it lie in the buffers of the client, of DuckDB and of gRPC at that moment.
"""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from leasehold.client.cluster import Cluster, connect
from leasehold.errors import Refused
from tests.e2e.cluster import RunningCluster

pytestmark = pytest.mark.processes

ROWS = 400_000
APPENDS = 4
READERS: dict[str, Callable[[Cluster], Iterator[pa.RecordBatch]]] = {
    "scan": lambda cluster: iter(cluster.table("d.t").scan()),
    "query": lambda cluster: iter(cluster.query("SELECT k FROM d.t")),
    "query through a view": lambda cluster: iter(cluster.query("SELECT k FROM d.v")),
}


def with_rows(cluster: Cluster) -> None:
    cluster.sql("CREATE DATABASE d")
    cluster.sql("CREATE TABLE d.t (k BIGINT)")
    cluster.sql("CREATE VIEW d.v AS SELECT k FROM d.t")
    for number in range(APPENDS):
        rows = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())
        cluster.table("d.t").append(pa.table({"k": rows}))


def reading(cluster: Cluster) -> list[Iterator[pa.RecordBatch]]:
    """Readers of each kind that have handed out a batch, and have more."""
    readers = [read(cluster) for read in READERS.values()]
    for reader in readers:
        assert 0 < next(reader).num_rows < ROWS
    return readers


def ends(readers: list[Iterator[pa.RecordBatch]], code: str) -> None:
    for reader in readers:
        with pytest.raises(Refused) as caught:
            next(reader)
        assert caught.value.code == code


def test_what_has_returned_ends_the_readers_of_its_client(fresh: RunningCluster) -> None:
    with fresh.connect() as cluster:
        with_rows(cluster)
        readers, begun = reading(cluster), cluster.query("SELECT k FROM d.t")
        cluster.sql("DELETE FROM d.t WHERE k >= 0")
        ends(readers, "ROWS_TAKEN_AWAY")
        assert begun.read_all().num_rows == 0, "it had handed out nothing, so it is run again"
        cluster.table("d.t").append(pa.table({"k": pa.array(range(ROWS), pa.int64())}))
        readers = reading(cluster)
        cluster.sql("CREATE DATABASE other")
        assert [sum(batch.num_rows for batch in reader) > 0 for reader in readers] == [True] * 3, "nothing was taken"
        readers = reading(cluster)
        cluster.sql("DROP VIEW d.v")
        ends(readers[2:], "VIEW_DROPPED")
        cluster.sql("DROP TABLE d.t")
        ends(readers[:2], "TABLE_DROPPED")


def test_a_revoke_that_has_returned_ends_the_readers_of_its_client(fresh: RunningCluster) -> None:
    with fresh.connect() as first:
        first.sql("CREATE USER root PASSWORD 'of the house'")
    with connect(fresh.directory, user="root", password="of the house") as root:
        with_rows(root)
        root.sql("CREATE USER ana PASSWORD 'also long'")
        root.sql("GRANT ALL ON CLUSTER TO ana")
        with connect(fresh.directory, user="ana", password="also long") as ana:
            readers = reading(ana)
            ana.sql("REVOKE SELECT ON CLUSTER FROM ana")
            ends(readers, "FORBIDDEN")
            others = reading(root)
            root.sql("GRANT SELECT ON TABLE d.t TO ana")
            assert all(next(reader).num_rows for reader in others), "a right of somebody else takes nothing away"
            assert ana.table("d.t").scan().read_next_batch().num_rows
