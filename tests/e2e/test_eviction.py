"""A node that was away for so long that its history is forgotten: what is right on its disk stays, the rest goes."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from leasehold.client.cluster import Cluster
from leasehold.client.locate import COORDINATOR
from leasehold.core.words.messages import NodeRecovery, NodeStatus
from leasehold.core.words.records import SegmentRecord
from leasehold.errors import LeaseholdError
from leasehold.ids import Revision
from leasehold.limits.metastorage import COMPACTION_INTERVAL_NS, RETENTION_HOLD_NS
from leasehold.limits.units import SECOND_NS
from leasehold.local.files import read_address
from leasehold.metastorage.sqlite import FILE_NAME, SqliteMetaStorage
from leasehold.wire.flight import HEALTH
from tests.e2e.cluster import RunningCluster
from tests.e2e.waiting import files_below, wait_until, wait_until_whole

pytestmark = pytest.mark.processes

ROWS = 1_000
AWAY, GIVER = "node-2", "node-1"
RETAINED = 100
CHANGES = 2 * RETAINED
"""Statements, of a revision or more each."""
FORGOTTEN_S = (RETENTION_HOLD_NS + 3 * COMPACTION_INTERVAL_NS) // SECOND_NS
"""A leader forgets nothing before nodes that held something under an older one have come back."""


def make_table(cluster: Cluster, name: str) -> None:
    cluster.sql(f"CREATE TABLE {name} (a BIGINT) CLUSTERED BY (a) INTO 2 BUCKETS TBLPROPERTIES ('replication' = '2')")
    append(cluster, name)


def append(cluster: Cluster, name: str) -> None:
    assert cluster.table(name).append(pa.table({"a": pa.array(range(ROWS), pa.int64())})) == ROWS


def segments(cluster: Cluster, name: str) -> dict[str, SegmentRecord]:
    return {one.id: one for one in cluster.plan(name).segments}


def inodes(directory: Path) -> dict[str, int]:
    """Of the segment files of a node."""
    found: dict[str, int] = {}
    for path in files_below(directory / "segments", ".parquet"):
        with contextlib.suppress(FileNotFoundError):  # evicted meanwhile
            found[path.stem] = path.stat().st_ino
    return found


def health(running: RunningCluster, name: str) -> NodeStatus:
    """What a node tells of itself."""
    address = read_address(running.local.node(name).directory)
    with flight.FlightClient(f"grpc://{address}") as client:
        (answer,) = client.do_action(flight.Action(HEALTH, b""))
        return msgspec.json.decode(answer.body.to_pybytes(), type=NodeStatus)


def recovery(cluster: Cluster, name: str) -> NodeRecovery | None:
    return next(one.recovery for one in cluster.status().nodes if one.name == name)


def forgotten(running: RunningCluster) -> int:
    """Before which revision nothing can be replayed, as the coordinator's log says."""
    words = [line.split() for line in running.local.coordinator.log.read_text().splitlines() if "forgotten" in line]
    return int(words[-1][words[-1].index("revision") + 1]) if words else 0


def forget_by_itself(running: RunningCluster, cluster: Cluster, left_at: int) -> None:
    """As the leader does where more is written than is kept."""
    cluster.sql(f"ALTER CLUSTER SET retention_revisions = {RETAINED}")
    for number in range(CHANGES):
        cluster.sql(f"COMMENT ON TABLE d.kept IS 'number {number}'")
    assert cluster.status().revision > left_at + RETAINED
    wait_until(lambda: forgotten(running) > left_at + 1, seconds=FORGOTTEN_S)


def forget_at_once(running: RunningCluster, cluster: Cluster, left_at: int) -> None:
    """As somebody does who compacts the store himself."""
    newest = cluster.status().revision
    assert newest > left_at + 1
    running.kill("coordinator")
    asyncio.run(compact(running.local.coordinator.directory / FILE_NAME, newest))
    running.local.start(COORDINATOR)
    wait_until(lambda: leads(cluster))


def leads(cluster: Cluster) -> bool:
    """Whether the coordinator has read its catalog, and answers."""
    try:
        return bool(cluster.status().term)
    except LeaseholdError:
        return False


async def compact(path: Path, before: Revision) -> None:
    storage = await SqliteMetaStorage.open(path)
    await storage.compact(before)
    await storage.close()


@pytest.mark.parametrize(
    "forget",
    [forget_at_once, pytest.param(forget_by_itself, marks=pytest.mark.long)],  # a new leader waits for a minute
)
def test_case_c_keeps_what_is_right_fetches_what_changed_and_evicts_the_rest(
    tmp_path: Path, forget: Callable[[RunningCluster, Cluster, int], None]
) -> None:
    with RunningCluster.start(tmp_path / "cluster", nodes=2) as running, running.connect() as cluster:
        cluster.sql("CREATE DATABASE d")
        for name in ("d.kept", "d.more", "d.gone"):
            make_table(cluster, name)
        wait_until_whole(cluster)
        kept = segments(cluster, "d.kept") | segments(cluster, "d.more")
        gone = segments(cluster, "d.gone")
        directory = running.local.node(AWAY).directory
        # A hedged append leaves a copy that no commit took; it is evicted at once.
        wait_until(lambda: inodes(directory).keys() == kept.keys() | gone.keys())
        before = inodes(directory)

        running.kill(AWAY)
        left_at = cluster.status().revision
        given = health(running, GIVER)
        append(cluster, "d.more")
        cluster.sql("DROP TABLE d.gone")
        forget(running, cluster, left_at)
        new = {name: one for name, one in segments(cluster, "d.more").items() if name not in kept}
        assert new

        running.restart(AWAY)
        wait_until(lambda: inodes(directory).keys() == kept.keys() | new.keys())
        found = inodes(directory)
        assert {name: found[name] for name in kept} == {name: before[name] for name in kept}, "not one was copied"
        wait_until(lambda: all(set(one.holders) == {1, 2} for one in segments(cluster, "d.more").values()))
        after = health(running, GIVER)
        assert after.segments_given - given.segments_given == len(new)
        assert after.bytes_given - given.bytes_given == sum(one.size_bytes for one in new.values())
        wait_until(lambda: files_below(directory / "trash", ".parquet") == [])

        wait_until(lambda: (told := recovery(cluster, AWAY)) is not None and told.segments_evicted == len(gone))
        told = recovery(cluster, AWAY)
        assert told is not None
        assert told.case == "c"
        assert (told.segments_kept, told.segments_fetched, told.segments_missing) == (len(kept), len(new), 0)
        assert cluster.table("d.more").scan().read_all().num_rows == 2 * ROWS
