"""Identity with real processes and real files: crash points, many at once, copies, backups, damage and full disks.

Each refusal ends the process with its exit code, says why and what to do, and leaves the directory as it was.
"""

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from leasehold.client.locate import COORDINATOR
from leasehold.core.words import keys
from leasehold.core.words.messages import Receipt
from leasehold.core.words.records import Allocated, Claiming, Joining, SettledHow
from tests.e2e.cluster import RunningCluster
from tests.e2e.nodes import Node, contents, identity, projection
from tests.e2e.small_disk import SmallDisk
from tests.e2e.waiting import wait_until_whole

pytestmark = pytest.mark.processes
VAULT = "vault.db"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """One coordinator for all tests here; each brings nodes of its own."""
    with RunningCluster.start(tmp_path_factory.mktemp("identity") / "cluster", nodes=1) as running:
        yield running


@pytest.fixture
def node(tmp_path: Path, cluster: RunningCluster) -> Iterator[Node]:
    """A new node, named after its test."""
    with Node(tmp_path / tmp_path.name, cluster) as one:
        yield one


def ids(cluster: RunningCluster) -> dict[str, int]:
    with cluster.connect() as client:
        return {one.name: one.id for one in client.status().nodes}


# ---------------------------------------------------------------- crash points (INV-ID-3)


@pytest.mark.parametrize(
    ("fault", "held", "has_an_id"),
    [
        ("crash-after:identity:1", Claiming, False),  # CLAIMING is durable, the id not asked for
        ("crash-before:identity:2", Claiming, True),  # the id was answered, ALLOCATED not written
        ("crash-after:identity:3", Joining, True),
        ("crash-before:identity:4", Joining, True),  # let in, the incarnation not durable
    ],
)
async def test_I1_a_process_killed_at_a_step_leads_back_to_the_same_id(
    cluster: RunningCluster, node: Node, fault: str, held: type, has_an_id: bool
) -> None:
    before = ids(cluster)
    assert node.start(LEASEHOLD_FAULT=fault).ended().code == -signal.SIGKILL
    crashed = await identity(node.directory)
    assert type(crashed) is held
    assert (node.name in ids(cluster)) == has_an_id
    node.start().serves()
    assert ids(cluster) == before | {node.name: max(before.values()) + 1}, "one id more, and no other"
    node.stop()
    owned = await identity(node.directory)
    assert isinstance(owned, Allocated)
    assert owned.node == ids(cluster)[node.name]
    assert crashed is not None
    assert owned.token == crashed.token


async def test_I1_killed_at_one_step_after_the_other_a_node_gets_one_id(cluster: RunningCluster, node: Node) -> None:
    before = ids(cluster)
    for fault in (
        "crash-after:identity:1",  # the first process: CLAIMING
        "crash-before:identity:1",  # the second: ALLOCATED is its first write
        "crash-after:identity:1",
        "crash-before:identity:1",  # the fourth: JOINING
        "crash-after:identity:1",
        "crash-before:identity:1",  # the sixth: its incarnation
    ):
        assert node.start(LEASEHOLD_FAULT=fault).ended().code == -signal.SIGKILL
    node.start().serves()
    assert ids(cluster) == before | {node.name: max(before.values()) + 1}


def test_a_crash_point_that_is_none_is_refused(node: Node) -> None:
    for text in ("now", "crash-after:identity", "crash-after:identity:0", "crash-after:lunch:1"):
        node.start(LEASEHOLD_FAULT=text).ended().refused(2, "BAD_SETTINGS", "LEASEHOLD_FAULT")
    assert VAULT not in contents(node.directory)


# ---------------------------------------------------------------- many at once


def test_I2_eight_processes_that_start_at_once_get_an_id_each(cluster: RunningCluster, tmp_path: Path) -> None:
    before = ids(cluster)
    nodes = [Node(tmp_path / f"crowd-{number}", cluster).start() for number in range(8)]
    try:
        for one in nodes:
            one.serves()
        after = ids(cluster)
        given = [after[one.name] for one in nodes]
        first = max(before.values()) + 1
        assert sorted(given) == list(range(first, first + 8))
        assert {name: after[name] for name in before} == before
    finally:
        for one in nodes:
            one.__exit__()


# ---------------------------------------------------------------- copies and backups


def test_I4_a_copy_started_beside_its_original_is_refused(cluster: RunningCluster, node: Node) -> None:
    node.start().serves()
    twin = Node(node.directory.with_name("twin"), cluster, name=node.name)
    shutil.copytree(node.directory, twin.directory)
    with twin:
        twin.start().ended().refused(3, "ALIVE_ELSEWHERE", node.name)
        assert node.status().state == "ACTIVE"
    with Node(node.directory, cluster) as second:
        second.start().ended().refused(3, "LOCKED")
    assert node.status().state == "ACTIVE"


async def test_I4_a_backup_that_is_older_than_its_node_is_refused(cluster: RunningCluster, node: Node) -> None:
    node.start().serves()
    node.stop()
    backup = node.directory.with_name("backup")
    shutil.copytree(node.directory, backup)
    node.start().serves()
    node.stop()
    newest = node.directory.with_name("newest")
    node.directory.rename(newest)
    backup.rename(node.directory)
    before = await projection(node.directory), await identity(node.directory), contents(node.directory)
    node.start().ended().refused(3, "STALE_COPY", "reached incarnation 2")
    held, owned, after = await projection(node.directory), await identity(node.directory), contents(node.directory)
    assert held == before[0]
    assert (owned.node, owned.token) == (before[1].node, before[1].token)
    assert {**after, VAULT: ""} == {**before[2], VAULT: ""}
    shutil.rmtree(node.directory)
    newest.rename(node.directory)
    node.start().serves()


def test_I4_a_copy_from_when_a_start_was_not_finished_is_refused(cluster: RunningCluster, node: Node) -> None:
    """It knows the nonce of that attempt to join, and may use it until the attempt has led into the topology."""
    node.start().serves()
    node.stop()
    assert node.start(LEASEHOLD_FAULT="crash-after:identity:1").ended().code == -signal.SIGKILL
    copy = Node(node.directory.with_name("copy"), cluster, name=node.name)
    shutil.copytree(node.directory, copy.directory)
    node.start().serves()
    incarnation = node.status().incarnation
    node.stop()
    with copy:
        copy.start().ended().refused(3, "STALE_COPY", f"reached incarnation {incarnation}")
    node.start().serves()


async def test_R16_an_older_process_that_wakes_up_learns_that_it_is_superseded(
    cluster: RunningCluster, node: Node
) -> None:
    node.start().serves()
    incarnation = node.status().incarnation
    node.signal(signal.SIGSTOP)
    with Node(node.directory.with_name("newer"), cluster, name=node.name) as newer:
        shutil.copytree(node.directory, newer.directory)
        newer.start().serves()
        assert newer.status().incarnation == incarnation + 1
        node.signal(signal.SIGCONT)
        node.ended().refused(3, "SUPERSEDED")
        assert newer.status().state == "ACTIVE"
        assert newer.status().incarnation == incarnation + 1


def test_I11_a_directory_of_another_cluster_is_refused(cluster: RunningCluster, node: Node, tmp_path: Path) -> None:
    node.start().serves()
    node.stop()
    with RunningCluster.start(tmp_path / "other", nodes=1) as other:
        address = (other.directory / "coordinator" / "address").read_text().strip()
        before = contents(node.directory)
        node.start(coordinator=address).ended().refused(3, "OTHER_CLUSTER")
        assert contents(node.directory) == before
        with other.connect() as client:
            assert len(client.status().nodes) == 1
    node.start().serves()


def test_R6_a_coordinator_restored_from_an_older_backup_is_noticed(tmp_path: Path) -> None:
    with RunningCluster.start(tmp_path / "cluster", nodes=1) as cluster:
        cluster.stop()
        meta = cluster.directory / "coordinator"
        shutil.copytree(meta, tmp_path / "backup")
        cluster.local.up(1)
        cluster.wait_until_active()
        with cluster.connect() as client:
            for number in range(3):
                client.sql(f"CREATE DATABASE d{number}")
        cluster.stop()
        shutil.rmtree(meta)
        (tmp_path / "backup").rename(meta)
        cluster.local.start(COORDINATOR)
        with Node(cluster.directory / "node-1", cluster) as node:
            before = contents(node.directory)
            node.start().ended().refused(3, "AHEAD_OF_CLUSTER")
            assert {**contents(node.directory), VAULT: ""} == {**before, VAULT: ""}


# ---------------------------------------------------------------- damage


def truncated(vault: Path) -> None:
    os.truncate(vault, vault.stat().st_size // 2)


def emptied(vault: Path) -> None:
    os.truncate(vault, 0)


def flip(vault: Path, at: int) -> None:
    content = bytearray(vault.read_bytes())
    content[at] ^= 1
    vault.write_bytes(content)


def flipped_header(vault: Path) -> None:
    flip(vault, 5)


def flipped_identity(vault: Path) -> None:
    with sqlite3.connect(vault) as database:
        (content,) = database.execute("SELECT content FROM identity").fetchone()
    database.close()
    flip(vault, vault.read_bytes().index(content) + len(content) // 2)


def flipped_projection(vault: Path) -> None:
    flip(vault, vault.read_bytes().index(keys.COUNTERS) + len(keys.COUNTERS) - 2)


def flipped_page(vault: Path) -> None:
    flip(vault, 4096)


def lost_but_for_its_log(vault: Path) -> None:
    vault.with_name(VAULT + "-wal").write_bytes(vault.read_bytes())
    vault.unlink()


def of_a_newer_version(vault: Path) -> None:
    with sqlite3.connect(vault) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()


def unreadable(vault: Path) -> None:
    """What nobody can open as a file, the superuser neither, whom no mode stops."""
    vault.unlink()
    vault.mkdir()


DAMAGES = {
    truncated: "CORRUPT",
    emptied: "CORRUPT",
    flipped_header: "CORRUPT",
    flipped_identity: "CORRUPT",
    flipped_projection: "CORRUPT",
    flipped_page: "CORRUPT",
    lost_but_for_its_log: "CORRUPT",
    of_a_newer_version: "NEWER_VERSION",
    unreadable: "NO_ACCESS",
}


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory, cluster: RunningCluster) -> Path:
    """The directory of a node that has served and was stopped; to be copied."""
    with Node(tmp_path_factory.mktemp("used") / "used", cluster) as node:
        node.start().serves()
        node.stop()
    return node.directory


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_I5_a_damaged_vault_is_refused_and_left_as_it_is(
    cluster: RunningCluster, used: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    there = tmp_path / "used"
    shutil.copytree(used, there)
    damage(there / VAULT)
    before, known = contents(there), ids(cluster)
    with Node(there, cluster) as node:
        node.start().ended().refused(3, DAMAGES[damage], str(there))
    assert contents(there) == before
    assert ids(cluster) == known, "no new id was taken in its place"


async def test_I5_a_directory_without_its_vault_is_not_that_node(
    cluster: RunningCluster, used: Path, tmp_path: Path
) -> None:
    there = tmp_path / "used"
    shutil.copytree(used, there)
    (there / VAULT).unlink()
    known = ids(cluster)
    with Node(there, cluster) as node:
        node.start().ended().refused(3, "NAME_TAKEN", "used")
    assert ids(cluster) == known
    assert isinstance(await identity(there), Claiming)


async def test_a_node_whose_directory_is_deleted_while_it_runs_ends(cluster: RunningCluster, tmp_path: Path) -> None:
    with Node(tmp_path / "gone", cluster, logs=tmp_path) as node:
        node.start().serves()
        shutil.rmtree(node.directory)
        node.ended().refused(3, str(node.directory))


# ---------------------------------------------------------------- a full disk


async def test_a_disk_that_is_full_at_the_first_start(cluster: RunningCluster, tmp_path: Path) -> None:
    with SmallDisk(tmp_path / "disk") as disk, Node(disk.directory / "full-first", cluster, logs=tmp_path) as node:
        if not disk.is_mounted:
            pytest.skip("a disk of its own needs root")
        disk.fill(leave=4096)
        node.start()
        while "no space is left for the vault" not in node.said():
            assert node.runs(), node.said()
        assert node.name not in ids(cluster)
        disk.free()
        node.serves()
        node.stop()


async def test_a_node_whose_disk_fills_up_serves_on_and_catches_up_once_there_is_space(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    with SmallDisk(tmp_path / "disk") as disk, Node(disk.directory / "full-later", cluster, logs=tmp_path) as node:
        if not disk.is_mounted:
            pytest.skip("a disk of its own needs root")
        node.start().serves()
        before = ids(cluster)
        disk.fill(leave=256 * 1024)
        with cluster.connect() as client:
            number = 0
            while "no space is left for the vault" not in node.said():
                assert number < 400, node.said()
                client.sql(f"CREATE DATABASE full_disk_{number} COMMENT '{'x' * 1000}'")
                number += 1
            receipt = client.sql("CREATE DATABASE while_full")
        assert isinstance(receipt, Receipt)
        assert node.status().id in [one.node for one in receipt.settled if one.how is SettledHow.APPLIED]
        assert node.runs()
        assert node.status().state == "ACTIVE"
        disk.free()
        while "space is available for the vault" not in node.said():
            assert node.runs(), node.said()
        node.kill()
        node.start().serves()
        assert ids(cluster) == before
        node.stop()
        held = await projection(node.directory)
        assert held.applied >= receipt.revision


# ---------------------------------------------------------------- another address


def test_I19_a_node_under_another_address_is_the_same_node_to_everybody(fresh: RunningCluster) -> None:
    """Clients that knew the old address, and nodes that fetch from it, find it again by themselves."""
    with fresh.connect() as client:
        client.sql("CREATE DATABASE d")
        client.sql("CREATE TABLE d.t (a INT) CLUSTERED BY (a) INTO 4 BUCKETS TBLPROPERTIES ('replication' = '3')")
        table = client.table("d.t")
        table.append(pa.table({"a": pa.array(range(100), pa.int32())}))
        wait_until_whole(client)
        before = {one.name: (one.id, one.address) for one in client.status().nodes}
        moved, *stayed = fresh.names()
        fresh.kill(moved)
        fresh.restart(moved)
        for name in stayed:
            fresh.pause(name)
        assert sorted(table.scan().read_all()["a"].to_pylist()) == list(range(100)), "it alone can have answered"
        for name in stayed:
            fresh.resume(name)
        fresh.wait_until_active()
        after = {one.name: (one.id, one.address) for one in client.status().nodes}
        assert {name: id_ for name, (id_, _) in after.items()} == {name: id_ for name, (id_, _) in before.items()}
        assert after[moved] != before[moved], "it listens at another port"
        table.append(pa.table({"a": pa.array(range(100, 200), pa.int32())}))
        assert sorted(table.scan().read_all()["a"].to_pylist()) == list(range(200))
