"""Coordinators and four nodes as real processes that can be broken: one more than any table has replicas, so that a
node can be drained.

One coordinator is in network namespaces where root may make them, so that ways can be cut and slowed. Else, and with
three coordinators and the store that they share, all is on this machine's loopback, without faults of the network.
"""

import contextlib
import os
import shutil
import signal
import subprocess
from functools import cache
from pathlib import Path
from typing import Protocol, Self

import msgspec

from leasehold.client.locate import CLUSTER_FILE, COORDINATOR, read_cluster_file
from leasehold.local.etcd import PROGRAM_VARIABLE
from leasehold.local.files import write_whole
from leasehold.local.members import LocalMembers
from leasehold.local.process import Process
from leasehold.local.processes import LocalCluster
from tests.netns.cluster import BEHIND_PROXY, CLIENT, PROXY, NetworkCluster
from tests.netns.hosts import Hosts, Unavailable, check_available
from tests.netns.remote import Machine, wait_until

ENSURE_ETCD = Path(__file__).parents[2] / "tools" / "ensure-etcd"
NODES = ("node-1", "node-2", "node-3", "node-4")
"""The machines of nodes. On one that is exchanged, the node goes by another name."""
ENDS_SECONDS = 20.0
"""So long a process may take to end when it is told to stop."""


class Ground(Protocol):
    """A running cluster; a context manager that ends all of it. Names are those of `coordinators`, `members`, NODES."""

    coordinators: tuple[str, ...]
    members: tuple[str, ...]
    """Of the store that several coordinators share."""
    directory: Path
    logs: str
    """Where its logs lie, for people."""

    @property
    def hosts(self) -> Hosts | None:
        """The network, None where it can't be broken."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def client(self) -> Machine: ...
    def address(self) -> str: ...
    def start(self, name: str) -> None: ...
    def kill(self, name: str, *, waits: bool = True) -> None: ...
    def kill_below_supervisor(self, name: str, *, waits: bool = True) -> None: ...
    def terminate(self, name: str) -> None: ...
    def pause(self, name: str) -> None: ...
    def resume(self, name: str) -> None: ...
    def runs(self, name: str) -> bool: ...
    def slow(self, way: str, *, bytes_per_second: int | None = None, delay_seconds: float = 0.0) -> None: ...
    def wait_until_active(self) -> None: ...
    def called(self, machine: str) -> str:
        """The name of the node there."""
        ...

    def exchange(self, machine: str, name: str) -> None:
        """Deletes the directory of a node that does not run, if it got so far that it has one. The next start there is
        that of a new node."""
        ...


class Here:
    """This machine itself."""

    def command(self, *words: str) -> list[str]:
        return list(words)


class FourNodes(NetworkCluster):
    """Of which one is behind a slow proxy."""

    nodes = NODES


class NetworkGround:
    """Each process on a host of its own."""

    coordinators = (COORDINATOR,)
    members = ()

    def __init__(self, directory: Path) -> None:
        self._cluster = FourNodes(directory)
        self.directory = directory
        self.logs = f"logs are {directory}/*.log, serve logs {directory}/node-*/servelog"
        self.kill = self._cluster.kill
        self.kill_below_supervisor = self._cluster.kill_below_supervisor
        self.terminate = self._cluster.terminate
        self.pause = self._cluster.pause
        self.resume = self._cluster.resume
        self.runs = self._cluster.runs
        self.start = self._cluster.start

    def __enter__(self) -> Self:
        self._cluster.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.__exit__()

    @property
    def hosts(self) -> Hosts | None:
        return self._cluster.hosts

    def client(self) -> Machine:
        return self._cluster.trusting(CLIENT)

    def address(self) -> str:
        return self._cluster.address(COORDINATOR)

    def slow(self, way: str, *, bytes_per_second: int | None = None, delay_seconds: float = 0.0) -> None:
        self._cluster.pace(way, bytes_per_second=bytes_per_second, delay_seconds=delay_seconds)

    def wait_until_active(self) -> None:
        self._cluster.wait_until_active()

    def called(self, machine: str) -> str:
        return self._cluster.called.get(machine, machine)

    def exchange(self, machine: str, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.directory / machine)
        self._cluster.called[machine] = name


class LocalGround:
    """All processes on the loopback interface, as `leasehold up` starts them."""

    def __init__(self, directory: Path, coordinators: int = 1, meta: str | None = None) -> None:
        self._local = LocalCluster(directory)
        self._count = coordinators
        self._meta = meta
        self._called: dict[str, str] = {}
        self.coordinators: tuple[str, ...] = ()
        self.members: tuple[str, ...] = ()
        self.directory = directory
        self.logs = f"logs are {directory}/*/log, serve logs {directory}/node-*/servelog"
        self.wait_until_active = self._local.wait_until_active

    def __enter__(self) -> Self:
        try:
            known = self._local.up(len(NODES), self._count, self._meta)
            self.coordinators = tuple(known.coordinators)
            self.members = tuple(one.name for one in LocalMembers(self.directory).processes())
            self._local.wait_until_active()
        except BaseException:
            self._local.down()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._local.down()

    @property
    def hosts(self) -> Hosts | None:
        return None

    def client(self) -> Machine:
        return Here()

    def address(self) -> str:
        return ",".join(read_cluster_file(self.directory).coordinators.values())

    def called(self, machine: str) -> str:
        return self._called.get(machine, machine)

    def exchange(self, machine: str, name: str) -> None:
        shutil.rmtree(self._process(machine).directory)
        known = read_cluster_file(self.directory)
        nodes = (*(one for one in known.nodes if one != self.called(machine)), name)
        write_whole(self.directory / CLUSTER_FILE, msgspec.json.encode(msgspec.structs.replace(known, nodes=nodes)))
        self._called[machine] = name

    def _process(self, name: str) -> Process:
        return self._local.node(self.called(name))

    def start(self, name: str) -> None:
        self._local.start(self.called(name))

    def kill(self, name: str, *, waits: bool = True) -> None:
        if self.runs(name):
            self._process(name).signal(signal.SIGKILL)
        if waits:
            self._process(name).wait_until_gone()

    def kill_below_supervisor(self, name: str, *, waits: bool = True) -> None:
        self._process(name).kill_below_supervisor()
        if waits:
            self._process(name).wait_until_gone()

    def terminate(self, name: str) -> None:
        self._process(name).signal(signal.SIGTERM)

    def pause(self, name: str) -> None:
        self._process(name).signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._process(name).signal(signal.SIGCONT)

    def runs(self, name: str) -> bool:
        return self._process(name).running() is not None

    def slow(self, way: str, *, bytes_per_second: int | None = None, delay_seconds: float = 0.0) -> None:
        raise AssertionError("there is no proxy here")


def ground(directory: Path, *, meta: str | None = None) -> Ground:
    """The best one that this machine and this user can have; not started yet. With several coordinators if `meta` names
    a store for them, which is ZooKeeper where there is no etcd."""
    if meta is not None:
        return LocalGround(directory, coordinators=3, meta=meta if has_etcd() else "zookeeper")
    return LocalGround(directory) if why_no_network() else NetworkGround(directory)


@cache
def has_etcd() -> bool:
    """Whether there is one; it is got if that is possible."""
    found = subprocess.run(["sh", ENSURE_ETCD], capture_output=True, text=True, check=False)
    if found.returncode == 0:
        os.environ[PROGRAM_VARIABLE] = found.stdout.strip()
    return found.returncode == 0


def why_no_network() -> str:
    """Why the network can't be broken here; empty where it can."""
    try:
        check_available()
    except Unavailable as reason:
        return str(reason)
    return ""


def way_to_the_coordinator(node: str) -> str:
    """The host that a node's packets to the coordinator go through last."""
    return PROXY if node == BEHIND_PROXY else COORDINATOR


def wait_until_ended(ground_: Ground, name: str) -> None:
    """After a SIGTERM. Fails if it does not end in time."""
    wait_until(lambda: not ground_.runs(name), said=lambda: f"{name} to end after SIGTERM", seconds=ENDS_SECONDS)
