"""What a reader of a real cluster is handed out after a statement of the same client has returned."""

import pyarrow as pa
import pytest

from leasehold.errors import Refused
from tests.e2e.cluster import RunningCluster

pytestmark = pytest.mark.processes

ROWS = 400_000
APPENDS = 4


def test_a_drop_that_has_returned_ends_the_readers_of_its_client(fresh: RunningCluster) -> None:
    """Batches of it lie in the buffers of the client and of gRPC at that moment."""
    with fresh.connect() as cluster:
        cluster.sql("CREATE DATABASE d")
        cluster.sql("CREATE TABLE d.t (k BIGINT)")
        table = cluster.table("d.t")
        for _ in range(APPENDS):
            table.append(pa.table({"k": pa.array(range(ROWS), pa.int64())}))
        reader = table.scan()
        assert reader.read_next_batch().num_rows < ROWS
        cluster.sql("DROP TABLE d.t")
        with pytest.raises(Refused) as caught:
            reader.read_next_batch()
        assert caught.value.code == "TABLE_DROPPED"
