"""The physical topology at work: by it nodes find coordinators and people see who is gone; it decides nothing."""

import contextlib
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leasehold.client.cluster import Cluster
from leasehold.client.locate import CLUSTER_FILE, KEY_FILE
from leasehold.core.words.messages import ClusterStatus, NodeStatus
from leasehold.errors import LeaseholdError
from leasehold.limits.clients import RETRY_PAUSE_NS
from leasehold.limits.units import SECOND_NS
from leasehold.local.files import GOSSIP_FILE
from leasehold.local.gossip import KEY_SCRATCH, make_key
from leasehold.vault.store import SqliteVault
from leasehold.wire import cluster_key
from leasehold.wire.clock import BoottimeClock, sleep_ns
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import Ran, leasehold
from tests.e2e.nodes import END_LIMIT_S
from tests.e2e.template import template

pytestmark = pytest.mark.processes

GIVE_UP_NS = 60 * SECOND_NS
NOWHERE = "127.0.0.1:1"


class Started:
    """One process by its command line; its directory is below `ground`, its log beside it."""

    def __init__(self, ground: Path, name: str, *words: str, **environment: str) -> None:
        self.directory = ground / name
        self.name = name
        self._log = ground / f"{name}.log"
        is_node = name.startswith("node")
        kind = ["node", "start", "--name", name] if is_node else ["coordinator"]
        with self._log.open("a") as log:
            words = (*kind, "--dir", str(self.directory), "--listen", "127.0.0.1:0", *words)
            self.process = template().start(words, log, log, os.environ | environment)

    def said(self) -> str:
        return self._log.read_text()

    def runs(self) -> bool:
        return self.process.poll() is None

    def gossip(self) -> str:
        """Where it hears the others, once it does."""
        return self._told(self.directory / GOSSIP_FILE)

    def address(self) -> str:
        """Where it serves, once it does."""
        return self._told(self.directory / "address")

    def _told(self, file: Path) -> str:
        until(file.exists, self)
        return file.read_text()

    def kill(self) -> None:
        """What it wrote of where it was goes with it, so that the next process there is waited for."""
        self.process.kill()
        self.process.wait()
        for name in ("address", GOSSIP_FILE):
            (self.directory / name).unlink()

    def ended(self) -> Ran:
        return Ran(self.process.wait(END_LIMIT_S), "", self.said())


class Ground:
    """Processes of one test, with the key of their cluster; all are ended with it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.key = directory / "key"
        self._started: list[Started] = []
        assert leasehold("cluster-key", str(self.key)).code == 0

    def start(self, name: str, *words: str, key: Path | None = None) -> Started:
        started = Started(self.directory, name, "--cluster-key", str(key or self.key), *words)
        self._started.append(started)
        return started

    def coordinator(self, name: str, *words: str) -> Started:
        """A coordinator of a cluster of its own."""
        started = self.start(name, *words)
        with Cluster(started.address()) as cluster:
            until(lambda: initialised(cluster), started)
        return started

    def end(self) -> None:
        for one in self._started:
            if one.runs():
                one.process.kill()
            one.process.wait()


def initialised(cluster: Cluster) -> bool:
    try:
        cluster.initialise()
    except LeaseholdError as error:
        return error.code == "INITIALISED"
    return True


def until(holds: Callable[[], bool], *running: Started, pause: Callable[[int], None] = sleep_ns) -> None:
    """Looks again and again, while these run."""
    clock = BoottimeClock()
    deadline_ns = clock.now_ns() + GIVE_UP_NS
    while not holds():
        for one in running:
            assert one.runs(), one.said()
        assert clock.now_ns() < deadline_ns, [one.said() for one in running]
        pause(RETRY_PAUSE_NS)


def node_at(coordinator: str, name: str) -> NodeStatus | None:
    """As this coordinator sees a node; None while it answers nothing, or knows none of that name."""
    status: ClusterStatus | None = None
    with Cluster(coordinator) as cluster, contextlib.suppress(LeaseholdError):
        status = cluster.status()
    return None if status is None else next((one for one in status.nodes if one.name == name), None)


def is_node(coordinator: str, name: str, **fields: str) -> bool:
    node = node_at(coordinator, name)
    return node is not None and all(getattr(node, key) == value for key, value in fields.items())


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    try:
        yield made
    finally:
        made.end()


# ---------------------------------------------------------------- finding coordinators


async def test_a_node_with_a_seed_alone_waits_joins_and_is_seen(ground: Ground) -> None:
    node = ground.start("node-1")
    until(lambda: "no coordinator is known: waiting" in node.said(), node)
    coordinator = ground.coordinator("c1", "--seed", node.gossip())
    other = ground.start("node-2", "--seed", coordinator.gossip())
    for one in (node, other):
        until(lambda one=one: is_node(coordinator.address(), one.name, state="ACTIVE", seen="ALIVE"), one, coordinator)
    other.process.send_signal(signal.SIGTERM)
    assert other.process.wait() == 0
    until(lambda: is_node(coordinator.address(), "node-2", seen="LEFT", state="DOWN"), coordinator)
    vault = await SqliteVault.open(other.directory)
    assert await vault.coordinators() == (coordinator.address(),)
    await vault.close()
    again = ground.start("node-2", "--seed", node.gossip())
    until(lambda: is_node(coordinator.address(), "node-2", state="ACTIVE", seen="ALIVE"), again)


def test_a_coordinator_that_comes_back_elsewhere_is_found_by_running_nodes(ground: Ground) -> None:
    coordinator = ground.coordinator("c1")
    before = coordinator.address()
    given = ("--coordinator", before, "--seed", coordinator.gossip())
    nodes = [ground.start(f"node-{number}", *given) for number in (1, 2)]
    for one in nodes:
        until(lambda one=one: is_node(before, one.name, state="ACTIVE"), one)
    incarnations = [node_at(before, one.name).incarnation for one in nodes]  # type: ignore[union-attr]
    coordinator.kill()
    coordinator = ground.start("c1", "--seed", nodes[0].gossip())
    now = coordinator.address()
    assert now != before
    for one in nodes:
        until(lambda one=one: is_node(now, one.name, state="ACTIVE", seen="ALIVE"), one, coordinator)
    assert [node_at(now, one.name).incarnation for one in nodes] == incarnations  # type: ignore[union-attr]
    nodes[0].process.kill()
    nodes[0].process.wait()
    without_key = Started(ground.directory, "node-1", "--coordinator", NOWHERE)
    without_key.ended().refused(3, "NOT_A_MEMBER", "node-1", "--cluster-key FILE")
    alone = Started(ground.directory, "node-1", "--cluster-key", str(ground.key), "--coordinator", NOWHERE)
    try:
        until(lambda: is_node(now, "node-1", state="ACTIVE", incarnation=incarnations[0] + 1), alone, coordinator)
    finally:
        alone.process.kill()
        alone.process.wait()


def test_I11_a_found_coordinator_of_another_cluster_is_passed_over(ground: Ground) -> None:
    ours = ground.coordinator("c1")
    node = ground.start("node-1", "--seed", ours.gossip())
    until(lambda: is_node(ours.address(), "node-1", state="ACTIVE"), node)
    seed = node.gossip()
    ours.kill()
    other = ground.coordinator("c2", "--seed", seed)
    until(lambda: f"ignoring the coordinator at {other.address()}" in node.said(), node)
    ours = ground.start("c1", "--seed", seed)
    until(lambda: is_node(ours.address(), "node-1", state="ACTIVE", seen="ALIVE"), node, ours)
    assert node.said().count("ignoring the coordinator") == 1
    with Cluster(other.address()) as cluster:
        assert cluster.status().nodes == ()
    node.kill()
    named = Started(ground.directory, "node-1", "--coordinator", other.address())
    named.ended().refused(3, "OTHER_CLUSTER")


# ---------------------------------------------------------------- what is seen, and what it changes


def test_a_killed_node_is_seen_dead_while_its_lease_counts_as_ever(tmp_path: Path) -> None:
    with RunningCluster.start(tmp_path / "cluster") as running, running.connect() as cluster:
        told = [tmp_path / "cluster" / name for name in (KEY_FILE, CLUSTER_FILE)]
        told += [path for name in ("pid", "address", "gossip") for path in tmp_path.glob(f"cluster/*/{name}")]
        assert len(told) > 6
        assert {path.name: oct(path.stat().st_mode & 0o777) for path in told} == {path.name: "0o600" for path in told}

        def node(name: str) -> NodeStatus:
            return next(one for one in cluster.status().nodes if one.name == name)

        until(lambda: {one.seen for one in cluster.status().nodes} == {"ALIVE"})
        cluster.sql("ALTER CLUSTER SET lease_duration = '30s'")
        until(lambda: node("node-3").lease_remaining_ns > 20 * SECOND_NS)
        running.kill("node-3")
        until(lambda: node("node-3").seen == "DEAD")
        dead = node("node-3")
        assert (dead.state, dead.stage) == ("ACTIVE", "MEMBER"), "dead to those who gossip, while its lease is counted"
        told = cluster.sql("EXPLAIN CREATE DATABASE d")
        assert any("node-3" in str(cell) for row in told.rows for cell in row), "and it would be waited for"
        shown = cluster.sql("SHOW NODES")
        seen = shown.columns.index("seen")
        assert [row[seen] for row in shown.rows] == ["ALIVE", "ALIVE", "DEAD"]
        table = leasehold("status", directory=running.directory).out
        assert "DEAD" in table


def test_a_node_with_another_key_is_refused_and_the_cluster_works_all_the_same(ground: Ground) -> None:
    coordinator = ground.coordinator("c1")
    key = ground.directory / "other"
    cluster_key.generate(key)
    given = ("--coordinator", coordinator.address(), "--seed", coordinator.gossip())
    stranger, friend = ground.start("node-1", *given, key=key), ground.start("node-2", *given)
    until(lambda: is_node(coordinator.address(), "node-2", state="ACTIVE", seen="ALIVE"), friend)
    assert stranger.process.wait(30) == 3
    assert "COORDINATOR_UNPROVEN" in stranger.said()
    assert "--cluster-key" in stranger.said()
    with Cluster(coordinator.address()) as cluster:
        cluster.sql("CREATE DATABASE d")
        assert {one.name: one.seen for one in cluster.status().nodes} == {"node-2": "ALIVE"}
    blind = ground.start("node-3", "--seed", coordinator.gossip(), key=key)
    until(lambda: "no coordinator is known: waiting" in blind.said(), blind)
    blind.process.send_signal(signal.SIGTERM)
    assert blind.process.wait() == 0, "who waits can be told to stop"


def test_garbage_in_floods_at_the_gossip_ports_changes_nothing(ground: Ground) -> None:
    coordinator = ground.coordinator("c1")
    node = ground.start("node-1", "--seed", coordinator.gossip())
    until(lambda: is_node(coordinator.address(), "node-1", state="ACTIVE", seen="ALIVE"), node)
    incarnation = node_at(coordinator.address(), "node-1").incarnation  # type: ignore[union-attr]
    over = threading.Event()
    targets = [(host, int(port)) for host, _, port in (one.gossip().rpartition(":") for one in (coordinator, node))]

    def flood() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
            while not over.is_set():
                blob = secrets.token_bytes(secrets.randbelow(3_000))
                for target in targets:
                    sending.sendto(blob, target)

    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        with Cluster(coordinator.address()) as cluster:
            cluster.sql("CREATE DATABASE d")
            cluster.sql("CREATE TABLE d.t (a INT) TBLPROPERTIES ('replication' = '1')")
            for number in range(20):
                receipt = cluster.sql(f"ALTER TABLE d.t ADD COLUMN c{number} INT")
                assert {one.how.name for one in receipt.settled} == {"APPLIED"}, "its lease never ran out"
    finally:
        over.set()
        flooding.join()
    until(lambda: is_node(coordinator.address(), "node-1", state="ACTIVE", seen="ALIVE"), node, coordinator)
    assert node_at(coordinator.address(), "node-1").incarnation == incarnation  # type: ignore[union-attr]
    assert "Traceback" not in node.said() + coordinator.said()


# ---------------------------------------------------------------- keys


def test_a_key_that_others_can_read_is_refused_before_anything_is_made(ground: Ground) -> None:
    ground.key.chmod(0o644)
    told = ("--cluster-key", str(ground.key), "--dir", str(ground.directory / "new"))
    for words in (("node", "start", *told), ("coordinator", *told)):
        leasehold(*words).refused(2, "0644", f"chmod go-rwx {ground.key}")
    assert not (ground.directory / "new").exists()


def test_gossip_without_a_key_is_refused_with_the_command_that_makes_one(tmp_path: Path) -> None:
    for words in (("--seed", NOWHERE), ("--gossip", "127.0.0.1:0")):
        refused = leasehold("node", "start", *words, directory=tmp_path / "new")
        refused.refused(2, "BAD_CONFIG", "leasehold cluster-key FILE")
    assert not (tmp_path / "new").exists()


def test_a_key_is_made_once_and_never_replaced(tmp_path: Path) -> None:
    file = tmp_path / "key"
    assert leasehold("cluster-key", str(file), "-o", "json").json() == {"cluster_key": str(file)}
    made = file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    leasehold("cluster-key", str(file)).refused(3, "ALREADY_EXISTS")
    assert file.read_bytes() == made


def test_a_directory_from_before_there_were_keys_gets_one(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    with RunningCluster.start(directory, nodes=1):
        pass
    key = (directory / KEY_FILE).read_bytes()
    (directory / KEY_FILE).unlink()
    with RunningCluster.start(directory, nodes=1) as running, running.connect() as cluster:
        assert (directory / KEY_FILE).read_bytes() != key
        until(lambda: [one.seen for one in cluster.status().nodes] == ["ALIVE"])


def test_a_key_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / KEY_SCRATCH).write_text("cut off")
    make_key(tmp_path)
    key = cluster_key.read(tmp_path / KEY_FILE)
    make_key(tmp_path)
    assert cluster_key.read(tmp_path / KEY_FILE) == key
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]
