"""Nodes and coordinators below their supervisors, as `leasehold up` starts them, with TLS: each killed alone, or
both at once."""

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from leasehold.client.cluster import Cluster
from leasehold.client.locate import KEY_FILE, read_cluster_file
from leasehold.core.words.messages import Receipt
from leasehold.limits.units import SECOND_NS
from leasehold.local import process
from leasehold.local.certificates import LocalCertificates
from leasehold.local.files import read_address
from leasehold.local.ports import LOOPBACK, lasting_ports
from leasehold.local.process import Process
from tests.e2e import template
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import command, leasehold
from tests.e2e.waiting import wait_until, wait_until_whole

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """Its processes are not forked by the template, which starts them without supervisors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "spawn", template.spawn)
        with RunningCluster.start(tmp_path_factory.mktemp("supervised") / "cluster", tls=True) as running:
            with running.connect() as connected:
                connected.sql("CREATE DATABASE d")
                connected.sql("CREATE TABLE d.t (a BIGINT)")
                connected.table("d.t").append(pa.table({"a": pa.array([1], pa.int64())}))
                wait_until_whole(connected)
            yield running


@pytest.fixture
def connected(cluster: RunningCluster) -> Iterator[Cluster]:
    with cluster.connect() as connected:
        yield connected


def dropped(connected: Cluster, name: str) -> dict[str, str]:
    """How each node was settled by a destructive statement."""
    answer = connected.sql(f"DROP TABLE d.{name}")
    assert isinstance(answer, Receipt)
    names = {one.id: one.name for one in connected.status().nodes}
    return {names[one.node]: one.how.value for one in answer.settled}


def ends(connected: Cluster) -> dict[str, str]:
    status = connected.status()
    names = {one.id: one.name for one in status.nodes}
    return {names[one.node]: one.how for one in status.session_ends}


def child_of(one: Process) -> psutil.Process:
    supervisor = one.running()
    assert supervisor is not None
    (child,) = supervisor.children()
    return child


def test_nodes_that_took_and_gave_rows_have_not_loaded_pandas(cluster: RunningCluster, connected: Cluster) -> None:
    """The first rows would wait for it."""
    assert connected.table("d.t").scan().read_all()["a"].to_pylist() == [1]
    for name in ("node-1", "node-2", "node-3"):
        mapped = Path(f"/proc/{child_of(cluster.local.node(name)).pid}/maps").read_text(encoding="utf-8")
        assert "/pyarrow/" in mapped
        assert "/pandas/" not in mapped


def test_the_statement_after_a_kill_does_not_wait_for_the_lease(cluster: RunningCluster, connected: Cluster) -> None:
    connected.sql("CREATE TABLE d.killed (a INT)")
    assert leasehold("chaos", "kill", "node-2", directory=cluster.directory).code == 0
    settled = dropped(connected, "killed")
    assert settled == {"node-1": "applied", "node-3": "applied"}, "nothing is known of node-2 any more"
    assert ends(connected)["node-2"] == "ENDED"
    assert connected.table("d.t").append(pa.table({"a": pa.array([2], pa.int64())})) == 1
    assert sorted(connected.table("d.t").scan().read_all()["a"].to_pylist()) == [1, 2]
    cluster.restart("node-2")


def test_a_paused_process_is_killed_and_reported_too(cluster: RunningCluster, connected: Cluster) -> None:
    cluster.pause("node-2")
    assert leasehold("chaos", "kill", "node-2", directory=cluster.directory).code == 0
    assert cluster.local.node("node-2").running() is None
    assert ends(connected)["node-2"] == "ENDED"
    cluster.restart("node-2")


def test_without_its_supervisor_a_machine_is_waited_for(cluster: RunningCluster, connected: Cluster) -> None:
    connected.sql("CREATE TABLE d.lost (a INT)")
    killed = leasehold("chaos", "kill", "--machine", "node-2", directory=cluster.directory)
    assert killed.code == 0
    assert dropped(connected, "lost") == {"node-1": "applied", "node-2": "fenced", "node-3": "applied"}
    cluster.restart("node-2")


def test_a_process_whose_supervisor_is_gone_gives_its_lease_back_and_ends(
    cluster: RunningCluster, connected: Cluster
) -> None:
    one = cluster.local.node("node-3")
    supervisor, child = one.running(), child_of(one)
    assert supervisor is not None
    supervisor.kill()
    assert one.wait_until_gone()
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    assert ends(connected)["node-3"] == "SURRENDERED"
    cluster.restart("node-3")


def test_a_killed_node_is_started_again_and_serves(cluster: RunningCluster, connected: Cluster) -> None:
    one = Process(cluster.directory / "node-4")
    (coordinator,) = read_cluster_file(cluster.directory).coordinators.values()
    certificates = LocalCertificates(cluster.directory)
    certificates.issue([one.name], [])
    own = [
        "--listen",
        f"{LOOPBACK}:0",
        "--cluster-key",
        str(cluster.directory / KEY_FILE),
        *certificates.words(one.name),
    ]
    one.start(["node", "start", "--dir", str(one.directory), "--coordinator", coordinator, *own])

    def state() -> tuple[str, int]:
        found = [node for node in connected.status().nodes if node.name == "node-4"]
        return (found[0].state, found[0].incarnation) if found else ("", 0)

    wait_until(lambda: state() == ("ACTIVE", 1))
    killed = child_of(one)
    one.kill_below_supervisor()
    wait_until(lambda: state() == ("ACTIVE", 2))
    assert child_of(one) != killed
    one.stop()
    assert ends(connected)["node-4"] == "SURRENDERED"


def test_a_statement_that_waits_for_a_process_goes_on_once_that_is_killed(
    cluster: RunningCluster, connected: Cluster
) -> None:
    """With leases so long that nothing else can let it go on. The last test of this cluster, for the same reason."""
    connected.sql("ALTER CLUSTER SET lease_duration = '10m'")
    connected.sql("CREATE TABLE d.waits (a INT)")
    wait_until(lambda: all(node.lease_remaining_ns > 60 * SECOND_NS for node in connected.status().nodes[:3]))
    cluster.pause("node-2")
    with ThreadPoolExecutor(1) as threads, cluster.connect() as other:
        dropping = threads.submit(dropped, other, "waits")
        wait_until(lambda: "node-2" in str(connected.sql("SHOW PROCEDURES")))
        cluster.local.node("node-2").kill_below_supervisor()
        settled = dropping.result()
    assert settled == {"node-1": "applied", "node-2": "ended", "node-3": "applied"}


def test_a_killed_coordinator_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "spawn", template.spawn)
    one = Process(tmp_path / "coordinator")
    one.start(["coordinator", "--dir", str(one.directory), "--listen", f"{LOOPBACK}:{lasting_ports(1)[0]}"])
    try:
        wait_until(lambda: read_address(one.directory) is not None)
        killed, written = child_of(one), (one.directory / "address").stat().st_mtime_ns
        one.kill_below_supervisor()
        wait_until(lambda: (one.directory / "address").stat().st_mtime_ns != written)
        assert child_of(one) != killed
    finally:
        one.stop()
    assert one.running() is None


def test_an_exit_code_and_an_error_come_through_the_supervisor(tmp_path: Path) -> None:
    ran = subprocess.run(
        command("node", "start", directory=tmp_path / "new"),
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")},
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("error [NO_COORDINATOR]")
