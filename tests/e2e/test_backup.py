"""`leasehold backup` and `leasehold restore` with real processes: all but the directories of nodes is destroyed."""

import shutil
import stat
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from leasehold.client.cluster import Cluster
from leasehold.client.coordinators import Coordinators
from leasehold.client.locate import COORDINATOR, read_cluster_file
from leasehold.core.data.coordinator_client import CoordinatorRole
from leasehold.core.words.messages import Rows
from leasehold.limits.membership import GENERATION_GAP
from leasehold.local.etcd import PROGRAM_VARIABLE
from leasehold.local.members import LocalMembers
from tests.documents import ROOT
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold
from tests.e2e.waiting import wait_until_whole
from tests.etcd_cluster import etcd_program

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
ROWS = 300
DECLARED = "CREATE TABLE d.made_{} (a INT)"


def begin(running: RunningCluster) -> None:
    with running.connect() as cluster:
        cluster.sql("CREATE DATABASE d")
        cluster.sql("CREATE TABLE d.t (a BIGINT) TBLPROPERTIES ('replication' = '2')")
        append(cluster)
        wait_until_whole(cluster)


def append(cluster: Cluster) -> None:
    assert cluster.table("d.t").append(pa.table({"a": pa.array(range(ROWS), pa.int64())})) == ROWS


def made(cluster: Coordinators) -> set[int]:
    """The numbers of the tables that `Statements` have made."""
    shown = cluster.sql("SHOW TABLES IN d")
    assert isinstance(shown, Rows)
    return {int(row[1].removeprefix("made_")) for row in shown.rows if row[1].startswith("made_")}


class Statements:
    """Makes one table after the other."""

    def __init__(self, running: RunningCluster) -> None:
        self.count = 0
        self._running = running
        self._more = threading.Condition()
        self._ends = False

    @contextmanager
    def under_way(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._ends = True
            thread.join()

    def wait_for(self, count: int) -> None:
        with self._more:
            assert self._more.wait_for(lambda: self.count >= count, timeout=120)

    def _run(self) -> None:
        with self._running.connect() as cluster:
            while not self._ends:
                cluster.sql(DECLARED.format(self.count))
                with self._more:
                    self.count += 1
                    self._more.notify_all()


def adopted(running: RunningCluster) -> None:
    """Each node goes on as itself from what the backup knows."""
    for node in running.local.nodes():
        done = leasehold("node", "adopt", "-o", "json", directory=node.directory).json()
        assert done["incarnation"] > GENERATION_GAP


def test_a_cluster_goes_on_from_a_file_that_was_written_while_statements_ran(tmp_path: Path) -> None:
    file = tmp_path / "backup"
    with RunningCluster.start(tmp_path / "cluster", nodes=2) as running:
        begin(running)
        statements = Statements(running)
        with statements.under_way():
            statements.wait_for(2)
            before = statements.count
            told = leasehold("backup", str(file), "-o", "json", directory=running.directory).json()
            after = statements.count + 1  # that one may have been committed, and not answered yet
            statements.wait_for(after + 1)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert told["bytes"] == file.stat().st_size
        leasehold("backup", str(file), directory=running.directory).refused(3, "ALREADY_EXISTS", "--force")
        lost = running.local.coordinator.directory
        leasehold("restore", str(file), "--dir", str(lost)).refused(3, "in use by process")
        for name in (COORDINATOR, *running.names()):
            running.kill(name)
        leasehold("backup", str(tmp_path / "b"), "--timeout", "1s", directory=running.directory).refused(
            5, "UNREACHABLE"
        )
        leasehold("restore", str(file), "--dir", str(lost)).refused(3, "META_STORAGE_EXISTS")
        shutil.rmtree(lost)

        done = leasehold("restore", str(file), "--dir", str(lost), "--longest-lease", "3s", "-o", "json").json()
        assert (done["revision"], done["cluster_id"], done["keys"]) == (
            told["revision"],
            told["cluster_id"],
            told["keys"],
        )
        assert done["generation"] > told["generation"] == 1
        running.local.start(COORDINATOR)
        adopted(running)
        running.local.up()
        running.wait_until_active()
        with running.connect() as cluster:
            assert set(range(before)) <= made(cluster) <= set(range(after + 1))
            assert cluster.table("d.t").scan().read_all().num_rows == ROWS
            append(cluster)
            assert cluster.table("d.t").scan().read_all().num_rows == 2 * ROWS
            cluster.sql("CREATE TABLE d.next (a INT)")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["backup"]


def test_the_newest_state_goes_on_without_a_new_generation(tmp_path: Path) -> None:
    file = tmp_path / "backup"
    with RunningCluster.start(tmp_path / "cluster", nodes=2) as running:
        begin(running)
        running.stop()
        running.local.start(COORDINATOR)  # without a node nothing changes any more
        assert leasehold("backup", str(file), directory=running.directory).code == 0
        running.kill(COORDINATOR)
        shutil.rmtree(running.local.coordinator.directory)
        ran = leasehold("restore", str(file), "--newest", directory=running.local.coordinator.directory)
        assert ran.code == 0, ran.err
        assert "goes on as generation 1" in ran.out
        assert "leasehold recover --dir" in ran.err
        running.local.up()
        running.wait_until_active()
        with running.connect() as cluster:
            assert cluster.table("d.t").scan().read_all().num_rows == ROWS
            append(cluster)


def settled_roles(addresses: Collection[str]) -> dict[str, CoordinatorRole]:
    """As soon as all answer in time and one leads: on a busy machine they may not at first."""
    roles: dict[str, CoordinatorRole] = {}
    with Coordinators(",".join(addresses)) as cluster:
        while CoordinatorRole.LEADER not in roles.values() or CoordinatorRole.SILENT in roles.values():
            roles = cluster.roles()
    return roles


def test_several_coordinators_go_on_from_a_file_that_a_follower_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROGRAM_VARIABLE, etcd_program())
    with RunningCluster.start(tmp_path / "cluster", nodes=2, coordinators=3) as running:
        begin(running)
        addresses = read_cluster_file(running.directory).coordinators
        statements = Statements(running)
        taken: dict[CoordinatorRole, tuple[Path, int]] = {}
        with statements.under_way():
            statements.wait_for(1)
            roles = settled_roles(addresses.values())
            for name, address in addresses.items():
                taken[roles[address]] = tmp_path / name, statements.count
                assert leasehold("backup", str(tmp_path / name), directory=Path(address)).code == 0
            statements.wait_for(statements.count + 2)
        assert set(taken) == {CoordinatorRole.LEADER, CoordinatorRole.FOLLOWER}
        file, before = taken[CoordinatorRole.FOLLOWER]
        members = [one.name for one in LocalMembers(running.directory).processes()]
        for name in (*addresses, *members, *running.names()):
            running.kill(name)
        for name in addresses:
            for path in running.local.node(name).directory.glob("meta.db*"):
                path.unlink()
        running.begin_store_anew()
        restore = ("restore", str(file), *LocalMembers(running.directory).words(), "--longest-lease", "3s")
        ran = leasehold(*restore)
        assert ran.code == 0, ran.err
        assert "empty directory" in ran.err
        leasehold(*restore).refused(3, "META_STORAGE_EXISTS")
        for name in addresses:
            running.local.start(name)
        adopted(running)
        running.local.up()
        running.wait_until_active()
        with running.connect() as cluster:
            assert made(cluster) >= set(range(before))
            assert cluster.table("d.t").scan().read_all().num_rows == ROWS
            append(cluster)
            assert cluster.table("d.t").scan().read_all().num_rows == 2 * ROWS
            cluster.sql("CREATE TABLE d.next (a INT)")


def test_what_can_not_be_restored_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    new, text = tmp_path / "new", tmp_path / "text"
    text.write_text("no backup")
    (tmp_path / "folder").mkdir()
    for name in ("text", "folder", "missing"):
        leasehold("restore", str(tmp_path / name), "--dir", str(new)).refused(3, "NOT_A_BACKUP")
    text.write_text("leasehold backup 2\n")
    leasehold("restore", str(text), "--dir", str(new)).refused(3, "NEWER_VERSION")
    text.write_text("leasehold backup 1\n")
    leasehold("restore", str(text), "--dir", str(new)).refused(3, "CORRUPT")
    leasehold("restore", str(text)).refused(2, "BAD_SETTINGS")
    leasehold("restore", str(text), "--meta", "etcd://127.0.0.1/x").refused(2, "BAD_CONFIG")
    golden = ROOT / "tests" / "golden" / "backup-1.hex"
    (tmp_path / "good").write_bytes(bytes.fromhex(golden.read_text()))
    leasehold("restore", str(tmp_path / "good"), "--meta", "etcd://127.0.0.1:1/x", "--timeout", "1s").refused(
        5, "UNREACHABLE"
    )
    newest = ("--newest", "--longest-lease", "3s")
    leasehold("restore", str(text), "--dir", str(new), *newest).refused(2, "BAD_SETTINGS")
    leasehold("backup", str(tmp_path / "b"), directory=tmp_path / "nowhere").refused(2, "BAD_SETTINGS")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "good", "text"]


def test_a_user_needs_alter_on_the_cluster(tmp_path: Path) -> None:
    file = str(tmp_path / "backup")
    with RunningCluster.start(tmp_path / "cluster", nodes=1) as running:
        with running.connect() as cluster:
            cluster.sql("CREATE USER root PASSWORD 'of root'")
        root = {"LEASEHOLD_USER": "root", "LEASEHOLD_PASSWORD": "of root"}
        ana = {"LEASEHOLD_USER": "ana", "LEASEHOLD_PASSWORD": "of ana"}
        assert leasehold("sql", "CREATE USER ana PASSWORD 'of ana'", directory=running.directory, **root).code == 0
        leasehold("backup", file, directory=running.directory).refused(3, "UNAUTHENTICATED")
        leasehold("backup", file, directory=running.directory, **ana).refused(3, "FORBIDDEN", "ALTER")
        assert not Path(file).exists()
        assert leasehold("backup", file, directory=running.directory, **root).code == 0
    assert b"of root" not in Path(file).read_bytes()
