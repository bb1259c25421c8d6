"""`leasehold recover --from`, and in a store that was set back, with real processes: what is left goes on."""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from leasehold.client.cluster import Cluster
from leasehold.client.locate import COORDINATOR, read_cluster_file
from leasehold.errors import LeaseholdError
from leasehold.limits.membership import GENERATION_GAP
from leasehold.local.etcd import PROGRAM_VARIABLE
from leasehold.local.members import LocalMembers
from leasehold.metastorage.location import parse_location
from tests.documents import ROOT
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import Ran, leasehold
from tests.e2e.node_directories import everything_below
from tests.e2e.nodes import Node
from tests.e2e.several_coordinators import present_leader
from tests.e2e.waiting import wait_until, wait_until_whole
from tests.etcd_cluster import etcd_program

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
ROWS = 300


def begin(running: RunningCluster) -> None:
    with running.connect() as cluster:
        cluster.sql("CREATE DATABASE d")
        cluster.sql("CREATE TABLE d.t (a BIGINT) TBLPROPERTIES ('replication' = '2')")
        append(cluster)
        wait_until_whole(cluster)


def append(cluster: Cluster) -> None:
    assert cluster.table("d.t").append(pa.table({"a": pa.array(range(ROWS), pa.int64())})) == ROWS


def rows(running: RunningCluster) -> int:
    with running.connect() as cluster:
        return cluster.table("d.t").scan().read_all().num_rows


def databases(running: RunningCluster) -> list[Any]:
    with running.connect() as cluster:
        return [row[0] for row in cluster.sql("SHOW DATABASES").rows]


def kill_once_saved(running: RunningCluster, name: str) -> None:
    """Kills a node once its vault has all that the cluster knows: it follows some milliseconds later."""
    with running.connect() as cluster:
        revision = cluster.status().revision
    vault = running.local.node(name).directory / "vault.db"
    with closing(sqlite3.connect(f"{vault.as_uri()}?mode=ro", uri=True)) as database:
        wait_until(lambda: database.execute("SELECT revision FROM applied").fetchone()[0] >= revision)
    running.kill(name)


def recover(*words: str) -> Ran:
    return leasehold("recover", *words, "--longest-lease", "3s", "-o", "json")


def from_each(*places: Path) -> list[str]:
    return [word for place in places for word in ("--from", str(place))]


def test_R6_a_cluster_goes_on_from_the_vaults_of_its_nodes_alone(tmp_path: Path) -> None:
    with RunningCluster.start(tmp_path / "cluster", nodes=2) as running:
        begin(running)
        first, second = (running.directory / name for name in ("node-1", "node-2"))
        coordinator = running.local.coordinator.directory
        running.kill("node-1")  # from here on it misses what happens
        with running.connect() as cluster:
            cluster.sql("CREATE DATABASE later")
            append(cluster)
            ids = {one.name: one.id for one in cluster.status().nodes}
        recover(*from_each(second), "--dir", str(tmp_path / "new")).refused(3, "LOCKED", str(second))
        kill_once_saved(running, "node-2")
        running.kill(COORDINATOR)
        shutil.rmtree(coordinator)

        before = everything_below(second)
        told = recover(*from_each(running.directory), "--dir", str(coordinator)).json()
        assert everything_below(second) == before
        older, newest = told["sources"]
        assert (Path(older["path"]), Path(newest["path"])) == (first, second)
        assert [one["kind"] for one in told["sources"]] == ["NODE", "NODE"]
        assert (older["taken"], newest["taken"]) == (False, True)
        assert told["revision"] == newest["revision"] > older["revision"]
        running.local.up()
        running.wait_until_active()
        assert "later" in databases(running)
        assert rows(running) == 2 * ROWS
        with running.connect() as cluster:
            assert {one.name: one.id for one in cluster.status().nodes} == ids
            assert all(one.incarnation > GENERATION_GAP for one in cluster.status().nodes)
            append(cluster)
            cluster.sql("CREATE TABLE d.next (a INT)")
            wait_until_whole(cluster)

        # Once more, and from the older of the two: what the newer one knows besides is given up.
        kill_once_saved(running, "node-1")
        with running.connect() as cluster:
            cluster.sql("CREATE DATABASE lost")
            append(cluster)
        for name in ("node-2", COORDINATOR):
            running.kill(name)
        shutil.rmtree(coordinator)
        again = recover(*from_each(first), "--dir", str(coordinator)).json()
        assert again["generation"] > told["generation"]
        running.local.start(COORDINATOR)
        with Node(first, running) as within, Node(second, running) as beyond:
            within.start().serves()
            assert "lost" not in databases(running)
            assert rows(running) == 3 * ROWS
            beyond.start().ended().refused(3, "BEYOND_RECOVERY", f"leasehold node adopt --dir {second}")
            assert leasehold("node", "adopt", directory=second).code == 0
            beyond.start().serves()
            with running.connect() as cluster:
                append(cluster)
            assert rows(running) == 4 * ROWS


def test_people_see_each_place_and_what_was_taken(tmp_path: Path) -> None:
    with RunningCluster.start(tmp_path / "cluster", nodes=1) as running:
        assert leasehold("backup", str(tmp_path / "old"), directory=running.directory).code == 0
        with running.connect() as cluster:
            cluster.sql("CREATE DATABASE d")
        running.stop()
    node, coordinator, new = (tmp_path / name for name in ("node", "lost", "new"))
    shutil.copytree(running.directory / "node-1", node)
    shutil.copytree(running.local.coordinator.directory, coordinator)
    for path in coordinator.glob("meta.db*"):
        path.write_bytes(path.read_bytes()[:5_000])
    words = (*from_each(coordinator, node, tmp_path / "old"), "--dir", str(new), "--longest-lease", "3s")
    ran = leasehold("recover", *words)
    assert ran.code == 0, ran.err
    assert any("not whole: " in line and str(coordinator) in line for line in ran.out.splitlines())
    assert any("whole, taken" in line and f"{node} " in line for line in ran.out.splitlines())
    assert "continues as generation" in ran.out
    assert "start the coordinator" in ran.err
    leasehold("recover", *words).refused(3, "META_STORAGE_EXISTS")


def test_what_can_not_be_recovered_from_is_said_and_nothing_is_written(tmp_path: Path) -> None:
    new, good, cut = tmp_path / "new", tmp_path / "good", tmp_path / "cut"
    good.write_bytes(bytes.fromhex((ROOT / "tests" / "golden" / "backup-1.hex").read_text()))
    cut.write_bytes(good.read_bytes()[:-1])
    told = recover(*from_each(cut), "--dir", str(new))
    told.refused(3, "NOTHING_WHOLE")
    assert '"kind": "BACKUP"' in told.out
    assert "its end is missing" in told.out
    leasehold("recover", *from_each(cut), "--dir", str(new)).refused(3, "NOTHING_WHOLE")
    recover(*from_each(tmp_path / "nowhere"), "--dir", str(new)).refused(3, "NO_META_STORAGE")
    recover(*from_each(good)).refused(2, "BAD_SETTINGS", "--dir", "--meta")
    recover().refused(2, "BAD_SETTINGS")
    recover(*from_each(good), "--meta", "etcd://127.0.0.1:1/x", "--timeout", "1s").refused(5, "UNREACHABLE")
    recover("--meta", "etcd://127.0.0.1:1/x", "--timeout", "1s").refused(5, "UNREACHABLE")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut", "good"]


# ------------------------------------------------------------ several coordinators


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningCluster]:
    monkeypatch.setenv(PROGRAM_VARIABLE, etcd_program())
    with RunningCluster.start(tmp_path / "cluster", nodes=2, coordinators=3) as running:
        begin(running)
        yield running


@contextmanager
def forced_alone(running: RunningCluster, name: str) -> Iterator[list[str]]:
    """Does what an administrator of etcd does with one surviving member: `--force-new-cluster`. How to reach it."""
    settings = LocalMembers(running.directory).settings()
    location = parse_location(settings["meta"])
    address = location.endpoints[int(name.removeprefix("meta-")) - 1]
    command = [etcd_program(), "--name", name, "--data-dir", str(running.directory / name / "data")]
    command += ["--listen-client-urls", f"http://{address}", "--advertise-client-urls", f"http://{address}"]
    command += ["--listen-peer-urls", "http://127.0.0.1:0", "--force-new-cluster", "--log-level", "warn"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ETCD_")}
    with (running.directory / "forced.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        user = ("--meta-user", settings["meta_user"], "--meta-password-file", settings["meta_password_file"])
        yield ["--meta", f"etcd://{address}/{location.name}", *user]
    finally:
        process.kill()
        process.wait()


def test_R6_one_surviving_member_of_the_store_is_enough(several: RunningCluster) -> None:
    """A coordinator and a node know more than the member that is left, and one of each does not."""
    leading = present_leader(several)
    within = next(name for name in read_cluster_file(several.directory).coordinators if name != leading)
    kill_once_saved(several, "node-1")
    several.kill(within)
    several.pause("meta-3")
    with several.connect() as cluster:
        cluster.sql("CREATE DATABASE lost", timeout=60)
    kill_once_saved(several, "node-2")
    beyond = present_leader(several)  # it has applied what it has answered, whatever the third one has
    third = next(name for name in read_cluster_file(several.directory).coordinators if name not in {within, beyond})
    for name in (beyond, third, "meta-1", "meta-2", "meta-3"):
        several.kill(name)
    for name in ("meta-1", "meta-2"):
        shutil.rmtree(several.directory / name / "data")

    with forced_alone(several, "meta-3") as store:
        told = recover(*store).json()
        assert told["nodes"] == ["node-1", "node-2"]
        several.local.start(within)
        address = read_cluster_file(several.directory).coordinators[within]
        first, second = (several.directory / name for name in ("node-1", "node-2"))
        with Node(first, several) as one, Node(second, several) as other:
            one.start(coordinator=address).serves()
            assert rows(several) == ROWS
            assert "lost" not in databases(several)
            other.start(coordinator=address).ended().refused(3, "BEYOND_RECOVERY")
            with suppress(LeaseholdError):
                several.local.start(beyond)
            wait_until(lambda: "STORE_SET_BACK" in several.local.node(beyond).log.read_text())
            with several.connect() as cluster:
                append(cluster)
            assert rows(several) == 2 * ROWS


def options_of(running: RunningCluster, member: str) -> dict[str, str]:
    """Of a member of etcd that runs."""
    process = running.local.node(member).running()
    assert process is not None
    return dict(word.removeprefix("--").split("=", 1) for word in process.cmdline()[1:])


def save_snapshot(running: RunningCluster, to: Path) -> None:
    settings = LocalMembers(running.directory).settings()
    endpoint = parse_location(settings["meta"]).endpoints[0]
    user = f"{settings['meta_user']}:{Path(settings['meta_password_file']).read_text()}"
    administer(etcd_program("etcdctl"), "--endpoints", endpoint, "--user", user, "snapshot", "save", str(to))


def restore_snapshot(options: dict[str, str], snapshot: Path) -> None:
    """Of one member, which does not run."""
    shutil.rmtree(options["data-dir"])
    names = ("name", "data-dir", "initial-cluster", "initial-cluster-token", "initial-advertise-peer-urls")
    words = [word for name in names for word in (f"--{name}", options[name])]
    tool = Path(etcd_program("etcdctl"))
    since_3_5 = tool.with_name("etcdutl")
    administer(str(since_3_5 if since_3_5.exists() else tool), "snapshot", "restore", str(snapshot), *words)


def administer(*command: str) -> None:
    done = subprocess.run(command, env=os.environ | {"ETCDCTL_API": "3"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.long  # to nodes and coordinators it is as one surviving member
def test_R6_a_snapshot_of_the_store_is_restored(several: RunningCluster, tmp_path: Path) -> None:
    """As docs/coordinators.md tells a person. A coordinator and a node know more than the snapshot, and one of each
    does not."""
    addresses = read_cluster_file(several.directory).coordinators
    leading = present_leader(several)
    within = next(name for name in addresses if name != leading)
    snapshot = tmp_path / "snapshot"
    kill_once_saved(several, "node-1")
    several.kill(within)
    save_snapshot(several, snapshot)
    with several.connect() as cluster:
        cluster.sql("CREATE DATABASE lost")
        append(cluster)
    kill_once_saved(several, "node-2")
    beyond = present_leader(several)  # it has applied what it has answered
    third = next(name for name in addresses if name not in {within, beyond})
    members = [one.name for one in LocalMembers(several.directory).processes()]
    options = [options_of(several, one) for one in members]
    for name in (beyond, third, *members):
        several.kill(name)

    for one in options:
        restore_snapshot(one, snapshot)
    for name in members:
        several.local.start(name)
    with suppress(LeaseholdError):
        several.local.start(beyond)
    log = several.local.node(beyond).log
    wait_until(lambda: "STORE_SET_BACK" in log.read_text())
    told = recover(*LocalMembers(several.directory).words()).json()
    assert told["nodes"] == ["node-1", "node-2"]
    several.local.start(within)
    first, second = (several.directory / name for name in ("node-1", "node-2"))
    with Node(first, several) as one, Node(second, several) as other:
        one.start(coordinator=addresses[within]).serves()
        other.start(coordinator=addresses[within]).ended().refused(3, "BEYOND_RECOVERY", "leasehold node adopt")
        assert rows(several) == ROWS
        assert "lost" not in databases(several)
        assert leasehold("node", "adopt", directory=second).code == 0
        other.start(coordinator=addresses[within]).serves()
        with suppress(LeaseholdError):
            several.local.start(beyond)
        wait_until(lambda: log.read_text().count("STORE_SET_BACK") > 1)
        shutil.rmtree(several.local.node(beyond).directory)
        several.local.start(beyond)
        with several.connect() as cluster:
            append(cluster)
            wait_until_whole(cluster)
        several.kill(within)
        assert present_leader(several) == beyond
        assert rows(several) == 2 * ROWS


def test_the_replicas_of_coordinators_go_on_in_a_new_store(several: RunningCluster) -> None:
    names = list(read_cluster_file(several.directory).coordinators)
    members = [one.name for one in LocalMembers(several.directory).processes()]
    kill_once_saved(several, "node-1")
    for name in (*names, "node-2", *members):
        several.kill(name)
    several.begin_store_anew()
    store = LocalMembers(several.directory).words()
    recover(*store).refused(3, "NO_META_STORAGE")
    told = recover(*from_each(several.directory), *store).json()
    kinds = sorted(one["kind"] for one in told["sources"])
    assert kinds == ["COORDINATOR"] * len(names) + ["NODE"] * 2
    assert told["revision"] == max(one["revision"] for one in told["sources"])
    for name in names:
        for path in several.local.node(name).directory.glob("meta.db*"):
            path.unlink()
    several.local.up()
    several.wait_until_active()
    assert rows(several) == ROWS
    with several.connect() as cluster:
        append(cluster)
    assert rows(several) == 2 * ROWS
