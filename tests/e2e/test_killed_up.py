"""`leasehold up` killed at any of its steps: called again, it ends well."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.client.locate import read_cluster_file
from leasehold.local import processes
from leasehold.local.etcd import PROGRAM_VARIABLE
from leasehold.local.ports import lasting_ports
from leasehold.local.processes import LocalCluster
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold
from tests.etcd_cluster import etcd_program

STEPS = {
    "os.mkdir ": False,
    "open /up.lock": False,
    "open /cluster.key.new": False,
    "os.rename /cluster.key.new": False,
    "os.mkdir /coordinator": False,
    "os.posix_spawn /bin/sh 1": False,
    "open /coordinator/pid.new": True,
    "os.rename /coordinator/pid.new": False,
    "open /coordinator/address": True,
    "open /cluster.json.new": True,
    "os.rename /cluster.json.new": False,
    "os.mkdir /node-1": False,
    "os.posix_spawn /bin/sh 2": False,
    "open /node-1/pid.new": True,
    "os.rename /node-1/pid.new": False,
    "open /node-1/address": True,
}
"""Each step of a first `up` in order, and whether it leaves something that the next one has to find out about."""
LAST = "open /node-1/address"


def killed_up(directory: Path, step: str, coordinators: int = 1) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tests.e2e.killed_up", str(directory), step, str(coordinators)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.processes
@pytest.mark.parametrize(
    "step", [pytest.param(name, marks=() if matters else pytest.mark.long) for name, matters in STEPS.items()]
)
def test_up_goes_on_where_a_killed_one_ended(tmp_path: Path, step: str) -> None:
    with RunningCluster(LocalCluster(tmp_path / "cluster")) as running:
        killed = killed_up(running.directory, step)
        assert killed.returncode == -signal.SIGKILL, killed
        if step == LAST:
            # All processes run, and the last one goes on by itself: nothing is left to do once it listens.
            running.wait_until_active()
        again = leasehold("up", "--nodes", "1", "--detach", "-o", "json", directory=running.directory, timeout=120)
        if step == LAST:
            again.refused(3, "error [RUNNING]")
        else:
            assert again.code == 0, again.err
        status = leasehold("status", "-o", "json", directory=running.directory).json()
        assert [(node["id"], node["name"], node["state"]) for node in status["nodes"]] == [(1, "node-1", "ACTIVE")]


@pytest.mark.long
@pytest.mark.processes
def test_an_up_of_several_coordinators_that_was_killed_is_taken_down_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROGRAM_VARIABLE, str(etcd_program()))
    with RunningCluster(LocalCluster(tmp_path / "cluster")) as running:
        assert killed_up(running.directory, "open /cluster.json.new", coordinators=3).returncode == -signal.SIGKILL
        members, coordinators = ([f"{kind}-{number}" for number in (1, 2, 3)] for kind in ("meta", "coordinator"))
        assert sorted(running.local.down()) == sorted(members + coordinators)
        leasehold("down", directory=running.directory).refused(3, "error [NO_CLUSTER]")
        again = leasehold("up", "--nodes", "1", "--detach", "-o", "json", directory=running.directory, timeout=120)
        assert [one["name"] for one in again.json()["coordinators"]] == coordinators


@pytest.mark.processes
def test_the_steps_of_up_are_known(tmp_path: Path) -> None:
    with RunningCluster(LocalCluster(tmp_path / "cluster")) as running:
        taken = killed_up(running.directory, "").stdout.splitlines()
    assert taken == list(STEPS)


@pytest.mark.processes
def test_up_draws_another_port_if_somebody_takes_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = int(other.getsockname()[1])
        drawn = [taken, taken]
        monkeypatch.setattr(processes, "lasting_ports", lambda count: [drawn.pop()] if drawn else lasting_ports(count))
        with RunningCluster.start(tmp_path / "cluster", nodes=1) as running:
            assert not drawn
            assert not read_cluster_file(running.directory).coordinators["coordinator"].endswith(f":{taken}")


@pytest.mark.processes
def test_up_gives_up_at_its_deadline_and_says_what_it_waited_for(tmp_path: Path) -> None:
    with RunningCluster(LocalCluster(tmp_path / "cluster")) as running:
        words = ("--nodes", "1", "--detach", "--timeout", "1ms")
        late = leasehold("up", *words, directory=running.directory)
        late.refused(5, "waiting for coordinator to listen", "--timeout waits longer")


@pytest.mark.processes
def test_up_says_at_once_which_member_of_the_store_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho this Java is too old\nexit 1\n")
    java.chmod(0o700)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with RunningCluster(LocalCluster(tmp_path / "cluster")) as running:
        words = ("--nodes", "1", "--coordinators", "3", "--meta", "zookeeper", "--detach")
        ended = leasehold("up", *words, directory=running.directory, timeout=120)
        ended.refused(3, "DID_NOT_START", "meta-1 ended at once: this Java is too old")
