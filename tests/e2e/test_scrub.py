"""A scrub of a whole cluster: damage heals, what can't be healed is named, and so is a node that is not reached."""

import pyarrow as pa
import pytest

from leasehold.client.cluster import Cluster
from leasehold.core.words.records import SegmentRecord
from leasehold.errors import NotWritten
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold
from tests.e2e.waiting import wait_until

pytestmark = pytest.mark.processes

ROWS = 1_000


def make(cluster: Cluster, name: str, *, replication: int) -> SegmentRecord:
    cluster.sql(f"CREATE TABLE {name} (a BIGINT) TBLPROPERTIES ('replication' = '{replication}')")
    cluster.table(name).append(pa.table({"a": pa.array(range(ROWS), pa.int64())}))
    (segment,) = cluster.plan(name).segments
    return segment


def spoil(running: RunningCluster, segment: SegmentRecord) -> str:
    """Changes one byte of the first holder's file; the name of that node."""
    with running.connect() as cluster:
        name = next(one.name for one in cluster.status().nodes if one.id == segment.holders[0])
    folder = running.local.node(name).directory / "segments"
    (path,) = folder.rglob(f"{segment.id}.parquet")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return name


def test_a_scrub_heals_what_it_can_and_names_the_rest(fresh: RunningCluster) -> None:
    where = ("--dir", str(fresh.directory))
    with fresh.connect() as cluster:
        cluster.sql("CREATE DATABASE d")
        healing, alone = make(cluster, "d.two", replication=2), make(cluster, "d.one", replication=1)
        spoilt = spoil(fresh, healing)
        found = leasehold("scrub", "d.two", *where, "-o", "json")
        assert found.code == 0, found.err
        of_node = {one["name"]: one for one in found.json()["nodes"]}
        (told,) = of_node[spoilt]["tables"]
        assert (told["table"], told["damaged"], told["healed"], told["unhealed"]) == ("d.two", 1, 1, 0)
        assert sum(one["files"] for node in of_node.values() for one in node["tables"]) == 2
        (held,) = cluster.plan("d.two").segments
        assert set(held.holders) == set(healing.holders)

        last = spoil(fresh, alone)
        found = leasehold("scrub", *where)
        assert found.code == 1
        assert f"{last}: 1 damaged segments of d.one with {ROWS} rows were not replaced: {alone.id}" in found.out
        wait_until(lambda: cluster.status().segments_lost == 1)
        assert f"its {ROWS} rows can't be read" in fresh.local.node(last).log.read_text()

        fresh.kill(last)
        wait_until(lambda: {one.name: one.state for one in cluster.status().nodes}[last] != "ACTIVE")
        found = leasehold("scrub", *where)
        assert found.code == 5
        assert f"{last}: not scrubbed to the end: it is " in found.out

        # Appends go on where a replica is left, and the others say which node they wait for.
        rows = pa.table({"a": pa.array(range(ROWS), pa.int64())})
        assert cluster.table("d.two").append(rows) == ROWS
        with pytest.raises(NotWritten, match=f"bucket 0 of d.one.*{last}") as nobody:
            cluster.table("d.one").append(rows, timeout=1)
        assert nobody.value.code == "NO_REPLICA"
        assert f"as soon as one of {last} serves again" in (nobody.value.hint or "")
