"""Clusters on this machine: starts, signals and watches processes, all below one directory.

<directory>/cluster.key         the key of the cluster
<directory>/tls/                the certificates of its processes, unless it does without TLS
<directory>/cluster.json        what `leasehold.connect(directory)` reads
<directory>/coordinator/        its meta storage, addresses, pid and log
<directory>/node-1/ ..          a node's vault, segments, serve log, addresses, pid and log

With several coordinators:
<directory>/coordinator-1/ ..   a replica of the meta storage, addresses, pid and log
<directory>/members.json        the members of the store that keeps the meta storage
<directory>/members.password    the password that they demand
<directory>/meta-1/ ..          a member's data, pid and log
"""

import contextlib
import fcntl
import os
import signal
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import psutil

from leasehold.client.coordinators import Coordinators
from leasehold.client.locate import (
    CLUSTER_FILE,
    CLUSTER_FILE_VERSION,
    COORDINATOR,
    ClusterFile,
    read_cluster_file,
)
from leasehold.core.words.messages import ClusterStatus
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, LeaseholdError, NotFound, Refused, typed
from leasehold.ids import ClusterId
from leasehold.limits.processes import LOCAL_COORDINATORS, LOCAL_NODES, LOCAL_NODES_MAX, START_WAIT_NS, START_WATCH_NS
from leasehold.local.certificates import LocalCertificates
from leasehold.local.directory import make_cluster_directory
from leasehold.local.files import (
    read_address,
    write_whole,
)
from leasehold.local.gossip import gossip_words, make_key
from leasehold.local.members import LocalMembers
from leasehold.local.patience import ProcessPatience
from leasehold.local.ports import LOOPBACK, lasting_ports
from leasehold.local.process import Process
from leasehold.local.rejoin import MemberStart
from leasehold.local.wait import wait_until_active, wait_until_registered, wait_until_up
from leasehold.vault.format import FILE_NAME
from leasehold.wire.clock import BoottimeClock, sleep_ns

T = TypeVar("T")

LEFT_DEAD: Final = ("--restart", "never")
"""A process that is killed stays so until `leasehold chaos start`."""


class LocalCluster:
    """All processes of the cluster in one directory. `tell` gets lines for people about waiting; an error that `pause`
    raises ends it. A call gives up at `until_ns` of the boot-time clock, by default START_WAIT_NS after it began."""

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
        self._members = LocalMembers(self.directory)
        self._certificates = LocalCertificates(self.directory)

    @property
    def coordinator(self) -> Process:
        """The first coordinator, in many clusters the only one."""
        return self.coordinators()[0]

    def coordinators(self) -> list[Process]:
        """The coordinators' processes, in the order of their names; `up` may not have started all of them yet."""
        return [Process(self.directory / name) for name in self._known_coordinators(self._known())]

    def nodes(self) -> list[Process]:
        """The nodes' processes, in the order of their names."""
        return [Process(self.directory / name) for name in read_cluster_file(self.directory).nodes]

    def node(self, name: str) -> Process:
        """A node by its name or number. Raises `NotFound`."""
        wanted = f"node-{name}" if name.isdigit() else name
        processes = [*self.nodes(), *self.coordinators(), *self._members.processes()]
        for process in processes:
            if process.name == wanted:
                return process
        known = ", ".join(process.name for process in processes)
        raise NotFound(f"no process {name!r} in {self.directory}", hint=f"there are {known}")

    def up(
        self,
        nodes: int | None = None,
        coordinators: int | None = None,
        meta: str | None = None,
        *,
        tls: bool | None = None,
    ) -> ClusterFile:
        """Starts every process that does not run, and makes the cluster first if the directory is empty. `nodes` and
        `coordinators` are by default the numbers that the cluster has, LOCAL_NODES and 1 for a new one. Several share
        the store `meta`, one of `ENGINES`; by default one that can run here. A node that was removed is left out. With
        `tls` a new cluster uses TLS; a cluster can't change that.

        Can be called again after it was killed at any step. Raises `Refused` (RUNNING) if all of it runs already,
        `BadDirectory` for a directory that holds other files.
        """
        if nodes is not None and not 1 <= nodes <= LOCAL_NODES_MAX:
            raise BadSettings(f"{nodes} nodes on one machine", hint=f"choose 1 to {LOCAL_NODES_MAX}")
        if coordinators is not None and coordinators not in LOCAL_COORDINATORS:
            raise BadSettings(
                f"{coordinators} coordinators on one machine",
                hint=f"choose one of {', '.join(map(str, LOCAL_COORDINATORS))}",
            )
        engine = self._members.choose(coordinators, meta)
        make_cluster_directory(self.directory)
        with self._alone():
            file = self._known()
            made = self._begun() if file is None else len(file.coordinators)
            if made is not None and coordinators not in {None, made}:
                raise Refused(
                    f"the cluster in {self.directory} has {made} coordinators",
                    code=ErrorCode.OTHER_COORDINATORS,
                    hint="leave out --coordinators, or choose another --dir for a new cluster",
                )
            count = nodes if nodes is not None else 0 if file is not None else LOCAL_NODES
            names = tuple(f"node-{number}" for number in range(1, count + 1))
            if file is not None:
                names = tuple(sorted({*names, *file.nodes}, key=lambda name: (len(name), name)))
                processes = [*self.coordinators(), *(Process(self.directory / name) for name in names)]
                up = all(process.running() and read_address(process.directory) for process in processes)
                if up and self._members.are_whole():
                    raise Refused(
                        f"a cluster already runs in {self.directory}",
                        code=ErrorCode.RUNNING,
                        hint="choose another --dir for a second cluster, or stop this one with `leasehold down`",
                    )
            self._certificates.settle(tls, is_new=file is None and made is None)
            make_key(self.directory)
            patience = self._patience()
            if engine is not None and coordinators is not None:
                self._members.draw(engine, coordinators)
            self._start_members(self._members.processes(), patience, is_new=file is None)
            self._members.protect(lambda what: patience.wait(what, self._members.processes()))
            needed = self._members.processes()
            known = self._known_coordinators(file)
            if self._certificates.exist:
                new = [name for name in names if not (self.directory / name / FILE_NAME).exists()]
                self._certificates.issue(names, known, new=new)
            addresses = self._start_coordinators(known, patience, needed)
            cluster_id = self._initialise(addresses, patience, known=file is not None)
            file = ClusterFile(
                format=CLUSTER_FILE_VERSION,
                cluster_id=cluster_id,
                coordinators=addresses,
                nodes=names,
                tls=self._certificates.exist,
            )
            write_whole(self.directory / CLUSTER_FILE, msgspec.json.encode(file))
            removed = self._start_nodes(names, addresses, patience)
            if removed:
                file = msgspec.structs.replace(file, nodes=tuple(name for name in names if name not in removed))
                write_whole(self.directory / CLUSTER_FILE, msgspec.json.encode(file))
            for name in removed:
                reset = f"`leasehold node reset --dir {typed(self.directory / name)}`"
                self._tell(f"{name} was removed from the cluster and is not started; {reset} makes it a new node")
            return file

    def _client(self, addresses: Iterable[str]) -> Coordinators:
        return Coordinators(",".join(addresses), tls=self._certificates.client)

    def _start_members(self, wanted: Sequence[Process], patience: ProcessPatience, *, is_new: bool) -> None:
        """Starts those that do not run. Of a cluster that is not new they work together then, if most of them run."""
        if not is_new:
            MemberStart(self._members, patience).start(wanted)
            return
        for member in wanted:
            if member.running() is None:
                self._members.start(member, is_new=True)

    def _start_nodes(
        self, names: tuple[str, ...], coordinators: Mapping[str, str], patience: ProcessPatience
    ) -> list[str]:
        """Starts known nodes together, and new ones in turn, so that node-2 gets id 2. Returns those that have ended
        because they were removed from the cluster."""
        removed: list[str] = []
        with self._client(coordinators.values()) as cluster:
            registered = {node.name for node in self._led(cluster.status, coordinators, patience).nodes}
            started: list[Process] = []
            for name in names:
                process = Process(self.directory / name)
                if process.running() is None:
                    self._spawn_node(process, coordinators)
                if name in registered:
                    started.append(process)
                    continue
                try:
                    wait_until_up(process, patience)
                    wait_until_registered(cluster, name, partial(patience.wait, processes=[process]))
                except Refused:
                    if not process.last_words().startswith("error [REMOVED]"):
                        raise
                    removed.append(name)
            for process in started:
                wait_until_up(process, patience)
        return removed

    def down(self) -> list[str]:
        """Stops everything, nodes first, so that they can give their leases back. Returns the names of all that ran.
        Raises `BadDirectory` if there is no cluster, not even an unfinished one."""
        if (self.directory / CLUSTER_FILE).exists():
            coordinators, nodes = self.coordinators(), self.nodes()
        else:  # `up` did not get far
            coordinators = self.coordinators()
            if not any(process.running() for process in [*coordinators, *self._members.processes()]):
                self.nodes()  # says that there is no cluster
            nodes = [Process(path) for path in sorted(self.directory.glob("node-*"))]
        groups = [nodes, coordinators, self._members.processes()]
        stopped: list[str] = []
        for group in groups:
            running = [process for process in group if process.running()]
            for process in running:
                with contextlib.suppress(psutil.NoSuchProcess, Refused):
                    process.signal(signal.SIGCONT)
                    process.signal(signal.SIGTERM)
            for process in running:
                process.stop()
            stopped += [process.name for process in running]
        for member in self._members.processes():  # a directory that was deleted does not tell that its process runs
            self._members.stop(member)
        return stopped

    def start_coordinator(self, address: str | None) -> str:
        """Starts the only coordinator unless it runs, at its old address if it has one, since nodes know that."""
        return self._start_coordinators({COORDINATOR: address}, self._patience())[COORDINATOR]

    def _start_coordinators(
        self, known: Mapping[str, str | None], patience: ProcessPatience, needed: Sequence[Process] = ()
    ) -> dict[str, str]:
        """Starts those that do not run, each at its old address if it has one. Returns the addresses by name. Raises
        `Refused` (DID_NOT_START) as soon as one of these, or of the processes that they need, has ended."""
        processes = [Process(self.directory / name) for name in known]
        for process in processes:
            if process.running() is None:
                self._spawn_coordinator(process, known[process.name])
        return {one.name: self._listening(one, known[one.name], patience, needed) for one in processes}

    def _spawn_coordinator(self, process: Process, known: str | None) -> None:
        listen = known or f"{LOOPBACK}:{lasting_ports(1)[0]}"
        where = ["--dir", str(process.directory), "--listen", listen, *LEFT_DEAD]
        own = [*self._members.words(), *self._certificates.words(process.name), *gossip_words(process.directory)]
        process.start(["coordinator", *where, *own])

    def _listening(
        self, process: Process, known: str | None, patience: ProcessPatience, needed: Sequence[Process]
    ) -> str:
        """The address of a coordinator once it listens; at another port if somebody took the one that was drawn."""
        while True:
            try:
                return wait_until_up(process, patience, needed)
            except Refused:
                if known or not process.last_words().startswith(f"error [{ErrorCode.PORT_IN_USE}]"):
                    raise
                self._spawn_coordinator(process, None)

    def start(self, name: str) -> Process:
        """Starts a process of the cluster by its name or number. Raises `Refused` if it runs, as `start_node`, and for
        a member of the store as `MemberStart.start`."""
        process = self.node(name)
        file = read_cluster_file(self.directory)
        if process.name in file.nodes:
            self.start_node(process)
            return process
        if process.running() is not None:
            raise Refused(f"{process.name} already runs", code=ErrorCode.RUNNING, hint="no action is needed")
        if process.name in file.coordinators:
            self._start_coordinators({process.name: file.coordinators[process.name]}, self._patience())
        else:
            with self._alone():
                self._start_members([process], self._patience(), is_new=False)
        return process

    def start_node(self, process: Process) -> str:
        """Starts a node on a free port. Returns once it has joined, or has run for START_WATCH_NS: after a kill it
        joins only when its old lease has ended. Raises `Refused`: RUNNING, or DID_NOT_START with its last words."""
        if process.running() is not None:
            raise Refused(f"{process.name} already runs", code=ErrorCode.RUNNING, hint="no action is needed")
        coordinators = read_cluster_file(self.directory).coordinators
        self._spawn_node(process, coordinators)
        patience = self._patience()
        address = wait_until_up(process, patience)
        clock = BoottimeClock()
        deadline_ns = clock.now_ns() + START_WATCH_NS
        with self._client(coordinators.values()) as cluster:
            while clock.now_ns() < deadline_ns:
                patience.wait(f"{process.name} to join", [process])
                with contextlib.suppress(LeaseholdError):
                    if any(one.name == process.name and one.address == address for one in cluster.status().nodes):
                        break
        process.check_runs()
        return address

    def wait_until_active(self, *names: str) -> ClusterStatus:
        """Waits until the present processes of these nodes, by default all, serve. Raises `Unreachable`, or `Refused`
        (DID_NOT_START) as soon as one of them has ended."""
        processes = [self.node(name) for name in names] or self.nodes()
        patience = self._patience()
        addresses = {process.name: wait_until_up(process, patience) for process in processes}
        with Coordinators(self.directory) as cluster:
            return wait_until_active(cluster, addresses, partial(patience.wait, processes=processes))

    def _patience(self) -> ProcessPatience:
        now_ns = BoottimeClock().now_ns
        left_ns = START_WAIT_NS if self._until_ns is None else self._until_ns - now_ns()
        return ProcessPatience(left_ns, self._pause, self._tell, now_ns)

    def _spawn_node(self, process: Process, coordinators: Mapping[str, str]) -> None:
        where = ["--dir", str(process.directory), "--listen", f"{LOOPBACK}:0", *LEFT_DEAD]
        known = [word for address in coordinators.values() for word in ("--coordinator", address)]
        own = [*self._certificates.words(process.name), *gossip_words(process.directory)]
        process.start(["node", "start", "--name", process.name, *where, *known, *own])

    def _known(self) -> ClusterFile | None:
        return read_cluster_file(self.directory) if (self.directory / CLUSTER_FILE).exists() else None

    def _begun(self) -> int | None:
        """The number of coordinators with which an `up` began that was killed."""
        return self._members.coordinators() or (1 if (self.directory / COORDINATOR).exists() else None)

    def _known_coordinators(self, file: ClusterFile | None) -> Mapping[str, str | None]:
        """The coordinators by name, with the addresses that the file tells."""
        return _coordinator_names(self._members.coordinators() or 1) if file is None else file.coordinators

    def _initialise(self, addresses: Mapping[str, str], patience: ProcessPatience, *, known: bool) -> ClusterId:
        with self._client(addresses.values()) as cluster:
            while True:
                ask = cluster.whoami if known else cluster.within(1).initialise
                try:
                    return self._led(ask, addresses, patience).cluster_id
                except Refused as error:
                    if error.code != ErrorCode.INITIALISED:
                        raise
                    known = True  # an earlier `up` was cut off after this step

    def _led(self, ask: Callable[[], T], names: Iterable[str], patience: ProcessPatience) -> T:
        """What a coordinator answers, asked again while none leads: the leader may change at any time."""
        while True:
            try:
                return ask()
            except LeaseholdError as error:
                if error.code == ErrorCode.INITIALISED:
                    raise
                why = error.text
            for member in self._members.processes():
                member.check_runs()
            patience.wait(f"a coordinator to lead ({why})", [Process(self.directory / name) for name in names])

    @contextlib.contextmanager
    def _alone(self) -> Generator[None]:
        """Holds the lock against another `up` of the same directory."""
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


def _coordinator_names(count: int) -> dict[str, None]:
    names = [COORDINATOR] if count == 1 else [f"{COORDINATOR}-{number}" for number in range(1, count + 1)]
    return dict.fromkeys(names)
