"""Clusters on this machine: starts, signals and watches over real processes, all below one directory.

<directory>/cluster.key         the secret of their gossip
<directory>/cluster.json        what `leasehold.connect(directory)` reads
<directory>/coordinator/        its meta storage, addresses, pid and log
<directory>/node-1/ ..          a node's vault, segments, serve log, addresses, pid and log
"""

import contextlib
import fcntl
import os
import signal
import socket
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

import msgspec
import psutil

from leasehold.client.coordinators import Coordinators
from leasehold.client.locate import CLUSTER_FILE, KEY_FILE, ClusterFile, read_cluster_file
from leasehold.core.words.messages import ClusterStatus
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, BadSettings, LeaseholdError, NotFound, Refused, typed
from leasehold.ids import ClusterId
from leasehold.limits.messages import FORMAT_VERSION
from leasehold.limits.processes import LOCAL_NODES, LOCAL_NODES_MAX, START_WAIT_NS, START_WATCH_NS
from leasehold.local.files import (
    COORDINATOR,
    check_not_writable_by_others,
    make_directory,
    names_in,
    read_address,
    write_whole,
)
from leasehold.local.gossip import KEY_SCRATCH, gossip_words, make_key
from leasehold.local.patience import ProcessPatience
from leasehold.local.process import Process
from leasehold.local.wait import wait_until_active, wait_until_registered
from leasehold.wire.clock import BoottimeClock, sleep_ns


class LocalCluster:
    """All processes of the cluster in one directory.

    `pause` is how it waits: what that raises ends the waiting. `tell` gets what it waits for. It gives up at `until_ns`
    of the boot-time clock, by default START_WAIT_NS after each call.
    """

    def __init__(
        self,
        directory: Path,
        pause: Callable[[int], None] = sleep_ns,
        tell: Callable[[str], None] = lambda _: None,
        until_ns: int | None = None,
    ) -> None:
        self.directory = directory.absolute()
        self._pause = pause
        self._tell = tell
        self._until_ns = until_ns

    @property
    def coordinator(self) -> Process:
        """The coordinator's process."""
        return Process(self.directory / COORDINATOR)

    def nodes(self) -> list[Process]:
        """The nodes' processes, in the order of their names."""
        return [Process(self.directory / name) for name in read_cluster_file(self.directory).nodes]

    def node(self, name: str) -> Process:
        """A node by its name or number. Raises `NotFound`."""
        wanted = f"node-{name}" if name.isdigit() else name
        for process in [*self.nodes(), self.coordinator]:
            if process.name == wanted:
                return process
        known = ", ".join(process.name for process in self.nodes())
        raise NotFound(f"no node {name!r} in {self.directory}", hint=f"there are {known}, and the coordinator")

    # ------------------------------------------------------------ up and down

    def up(self, nodes: int | None = None) -> ClusterFile:
        """Starts what does not run, making the cluster first if the directory is empty: `nodes` of them, by default
        those that it has, LOCAL_NODES of a new one. A node that was removed from the cluster is left out.

        Killed at any step, it can be called again: it goes on from what is there.

        Raises `Refused` (RUNNING) if all of it runs already, `BadDirectory` for a directory that holds other things.
        """
        if nodes is not None and not 1 <= nodes <= LOCAL_NODES_MAX:
            raise BadSettings(f"{nodes} nodes on one machine", hint=f"choose 1 to {LOCAL_NODES_MAX}")
        self._check_directory()
        with self._alone():
            file = self._known()
            count = nodes if nodes is not None else 0 if file is not None else LOCAL_NODES
            names = tuple(f"node-{number}" for number in range(1, count + 1))
            if file is not None:
                names = tuple(sorted({*names, *file.nodes}, key=lambda name: (len(name), name)))
                processes = [self.coordinator, *(Process(self.directory / name) for name in names)]
                if all(process.running() and read_address(process.directory) for process in processes):
                    raise Refused(
                        f"a cluster already runs in {self.directory}",
                        code=ErrorCode.RUNNING,
                        hint="choose another --dir for a second cluster, or stop this one with `leasehold down`",
                    )
            make_key(self.directory)
            patience = self._patience()
            address = self._start_coordinator(None if file is None else file.coordinator, patience)
            cluster_id = self._initialise(address, patience, known=file is not None)
            file = ClusterFile(format=FORMAT_VERSION, cluster_id=cluster_id, coordinator=address, nodes=names)
            write_whole(self.directory / CLUSTER_FILE, msgspec.json.encode(file))
            removed = self._start_nodes(names, address, patience)
            if removed:
                file = msgspec.structs.replace(file, nodes=tuple(name for name in names if name not in removed))
                write_whole(self.directory / CLUSTER_FILE, msgspec.json.encode(file))
            for name in removed:
                reset = f"`leasehold node reset --dir {typed(self.directory / name)}`"
                self._tell(f"{name} was removed from the cluster and is not started; {reset} makes it a new node")
            return file

    def _start_nodes(self, names: tuple[str, ...], address: str, patience: ProcessPatience) -> list[str]:
        """Starts what does not run: known nodes together, new ones in turn, so that node-2 gets id 2.

        Answers which have ended because they were removed from the cluster.
        """
        removed: list[str] = []
        with Coordinators(address) as cluster:
            registered = {node.name for node in cluster.status().nodes}
            started: list[Process] = []
            for name in names:
                process = Process(self.directory / name)
                if process.running() is None:
                    self._spawn_node(process, address)
                if name in registered:
                    started.append(process)
                    continue
                try:
                    _wait_until_up(process, patience)
                    wait_until_registered(cluster, name, partial(patience.wait, processes=[process]))
                except Refused:
                    if not process.last_words().startswith("error [REMOVED]"):
                        raise
                    removed.append(name)
            for process in started:
                _wait_until_up(process, patience)
        return removed

    def down(self) -> list[str]:
        """Stops everything; answers the names of what had been running. Nodes first: they give their leases back.

        Raises `BadDirectory` where there is no cluster, and nothing of one that is still being made.
        """
        if (self.directory / CLUSTER_FILE).exists() or self.coordinator.running() is None:
            nodes = self.nodes()
        else:
            nodes = [Process(path) for path in sorted(self.directory.glob("node-*"))]
        stopped = [process for process in [*nodes, self.coordinator] if process.running()]
        for process in stopped:
            if process.name != COORDINATOR:
                with contextlib.suppress(psutil.NoSuchProcess, Refused):
                    process.signal(signal.SIGCONT)
                    process.signal(signal.SIGTERM)
        for process in stopped:
            process.stop()
        return [process.name for process in stopped]

    # ------------------------------------------------------------ single processes

    def start_coordinator(self, address: str | None) -> str:
        """Starts the coordinator unless it runs; under its old address if it had one, since nodes know that one."""
        return self._start_coordinator(address, self._patience())

    def _start_coordinator(self, address: str | None, patience: ProcessPatience) -> str:
        process = self.coordinator
        if process.running() is None:
            listen = address or f"127.0.0.1:{_free_port()}"
            where = ["--dir", str(process.directory), "--listen", listen]
            process.start(["coordinator", *where, *gossip_words(process.directory)])
        return _wait_until_up(process, patience)

    def restart_coordinator(self) -> str:
        """Starts a coordinator that does not run, under its old address. Raises `Refused` if it runs."""
        if self.coordinator.running() is not None:
            raise Refused("the coordinator already runs", code=ErrorCode.RUNNING, hint="no action is needed")
        return self.start_coordinator(read_cluster_file(self.directory).coordinator)

    def start_node(self, process: Process) -> str:
        """Starts a node, under whatever port is free: its id is in its directory. Raises `Refused` if it runs.

        Returns once it has joined under its new address, or has listened for START_WATCH_NS without ending: after a
        kill it joins only when its old lease has run out, while no coordinator answers not at all. Raises `Refused`
        (DID_NOT_START) with what it said last if it ends: what a coordinator refuses ends a process at once.
        """
        if process.running() is not None:
            raise Refused(f"{process.name} already runs", code=ErrorCode.RUNNING, hint="no action is needed")
        coordinator = read_cluster_file(self.directory).coordinator
        self._spawn_node(process, coordinator)
        patience = self._patience()
        address = _wait_until_up(process, patience)
        clock = BoottimeClock()
        deadline_ns = clock.now_ns() + START_WATCH_NS
        with Coordinators(coordinator) as cluster:
            while clock.now_ns() < deadline_ns:
                patience.wait(f"{process.name} to join", [process])
                with contextlib.suppress(LeaseholdError):
                    if any(one.name == process.name and one.address == address for one in cluster.status().nodes):
                        break
        process.check_runs()
        return address

    def wait_until_active(self, *names: str) -> ClusterStatus:
        """Waits until these nodes, by default all, serve as the processes that run now.

        Raises `Unreachable`, or `Refused` (DID_NOT_START) as soon as one of them has ended.
        """
        processes = [self.node(name) for name in names] or self.nodes()
        patience = self._patience()
        addresses = {process.name: _wait_until_up(process, patience) for process in processes}
        with Coordinators(self.directory) as cluster:
            return wait_until_active(cluster, addresses, partial(patience.wait, processes=processes))

    def _patience(self) -> ProcessPatience:
        now_ns = BoottimeClock().now_ns
        left_ns = START_WAIT_NS if self._until_ns is None else self._until_ns - now_ns()
        return ProcessPatience(left_ns, self._pause, self._tell, now_ns)

    def _spawn_node(self, process: Process, coordinator: str) -> None:
        where = ["--dir", str(process.directory), "--listen", "127.0.0.1:0", "--coordinator", coordinator]
        process.start(["node", "start", "--name", process.name, *where, *gossip_words(process.directory)])

    # ------------------------------------------------------------ parts

    def _check_directory(self) -> None:
        if self.directory.exists() and not self.directory.is_dir():
            raise BadDirectory(f"{self.directory} is a file", hint="choose another --dir")
        if not (self.directory / CLUSTER_FILE).exists() and self.directory.is_dir():
            strange = [name for name in names_in(self.directory) if not _ours(name)]
            if strange:
                raise BadDirectory(
                    f"{self.directory} holds other files, such as {strange[0]!r}",
                    hint="choose an empty or new directory with --dir",
                )
        make_directory(self.directory)
        check_not_writable_by_others(self.directory)

    def _known(self) -> ClusterFile | None:
        return read_cluster_file(self.directory) if (self.directory / CLUSTER_FILE).exists() else None

    def _initialise(self, address: str, patience: ProcessPatience, *, known: bool) -> ClusterId:
        with Coordinators(address) as cluster:
            while True:
                try:
                    return cluster.whoami().cluster_id if known else cluster.initialise().cluster_id
                except LeaseholdError as error:
                    if error.code == ErrorCode.INITIALISED:
                        known = True  # an earlier `up` was cut off after this step
                        continue
                    why = error.text
                patience.wait(f"the coordinator to lead ({why})", [self.coordinator])

    @contextlib.contextmanager
    def _alone(self) -> Generator[None]:
        """Keeps two `up` of one directory apart."""
        descriptor = os.open(self.directory / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                text = f"another `leasehold up` is at work in {self.directory}"
                raise Refused(text, code=ErrorCode.RUNNING, hint="wait for it, or use another --dir") from error
            yield
        finally:
            os.close(descriptor)


def _ours(name: str) -> bool:
    own = {COORDINATOR, CLUSTER_FILE, CLUSTER_FILE + ".new", KEY_FILE, KEY_SCRATCH, "up.lock"}
    return name in own or name.startswith("node-")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_up(process: Process, patience: ProcessPatience) -> str:
    """The address of a process, once it listens."""
    while True:
        address = read_address(process.directory)
        if address is not None:
            return address
        patience.wait(f"{process.name} to listen", [process])
