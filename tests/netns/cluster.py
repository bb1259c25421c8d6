"""Coordinators and nodes as real processes with TLS, each on a host of its own, and a client on another.

Nothing here waits by sleeping: what has to come is looked for until a deadline.
"""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
import psutil

from leasehold.client.locate import CLUSTER_FILE, CLUSTER_FILE_VERSION, KEY_FILE, ClusterFile
from leasehold.core.lease.audit import ServeRecord
from leasehold.core.words.messages import ClusterStatus, NodeStatus, Receipt, Rows
from leasehold.ids import ClusterId, StatementId
from leasehold.local.certificates import LocalCertificates
from leasehold.storage.servelog import read_serve_log
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.cluster_key import generate
from tests.netns.hosts import IPV4, Family, Hosts
from tests.netns.named import clean_environment
from tests.netns.remote import Asked, Failed, Machine, Remote, Trusting, wait_until
from tests.netns.stored import standing

COORDINATOR, PROXY, CLIENT = "coordinator", "proxy", "client"
NODES = ("node-1", "node-2", "node-3")
BEHIND_PROXY = "node-3"
SCANNED = ("node-1", "node-3")
"""Nodes with a client of their own beside them."""
PORT = 7400

now_ns = BoottimeClock().now_ns


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A statement that was answered, as its client saw it."""

    sent_ns: int
    answered_ns: int
    receipt: Receipt
    how: dict[str, str]
    """By node, how it was settled."""
    starved_ns: int
    """For so long, all together, the processes that run were ready and got no processor meanwhile."""


class Look(msgspec.Struct, frozen=True, array_like=True):
    """One attempt of a scanner to read from its node."""

    asked_ns: int
    answered_ns: int
    outcome: str
    view: int
    rows: int


class Statement:
    """One statement under way."""

    def __init__(self, cluster: "NetworkCluster", id_: StatementId, asked: Asked) -> None:
        self.id = id_
        self._cluster = cluster
        self._asked = asked
        self._starved_ns = cluster.starved_ns()

    def wait_until_sent(self) -> None:
        self._asked.event("sent")

    def wait_until_it_waits_for(self, *nodes: str) -> None:
        """Until the leader says that it waits for these nodes and no other."""
        self._asked.event("waiting", lambda event: sorted(event["nodes"]) == sorted(nodes))

    def wait_until_answered(self) -> None:
        self._asked.answer()

    def ended(self) -> Ended:
        """Once it is answered. Raises `Failed`."""
        answer = self._asked.answer()
        receipt = msgspec.convert(answer["answer"], Receipt)
        how = {self._cluster.names[one.node]: one.how.value for one in receipt.settled}
        return Ended(
            sent_ns=answer["sent_ns"],
            answered_ns=answer["answered_ns"],
            receipt=receipt,
            how=how,
            starved_ns=max(0, self._cluster.starved_ns() - self._starved_ns),
        )


class Scanner:
    """A client on a node's own host that reads from that node alone, all the time: no cut separates the two."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def looks(self) -> list[Look]:
        """All attempts so far, in order."""
        return msgspec.convert(self._remote.call("looks", first=0), list[Look])

    def wait_until(self, outcome: str, *, since_ns: int, view: int = 0) -> Look:
        """The first attempt begun after `since_ns` that ended so, on this view or a later one."""

        def find() -> Look | None:
            seen = (look for look in self.looks() if look.asked_ns >= since_ns)
            return next((look for look in seen if look.outcome == outcome and look.view >= view), None)

        return wait_until(find, said=lambda: f"{outcome} at view {view} or later; last was {self.looks()[-1:]}")


class NetworkCluster:
    """One coordinator and three nodes, one of them behind a slow proxy; a context manager."""

    coordinators: tuple[str, ...] = (COORDINATOR,)
    nodes: tuple[str, ...] = NODES
    scanned: tuple[str, ...] = SCANNED
    beside: tuple[str, ...] = (PROXY,)
    """Hosts of other processes."""

    def __init__(self, directory: Path, family: Family = IPV4) -> None:
        self.directory = directory
        self.hosts = Hosts(*self.coordinators, *self.nodes, *self.beside, CLIENT, family=family)
        self._certificates = LocalCertificates(directory)
        self.names: dict[int, str] = {}
        """Of the nodes, by id: these never change."""
        self.called: dict[str, str] = {}
        """The names of nodes on machines that came in the place of others, by host."""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._remotes: dict[str, Remote] = {}

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True)
        generate(self.directory / KEY_FILE)
        self._certificates.settle(tls=True, is_new=True)
        self._certificates.issue([], [])
        self.hosts.__enter__()
        try:
            self._start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for remote in self._remotes.values():
            remote.close()
        for name in reversed(self._processes):
            self.kill(name)
        self.hosts.__exit__()

    def _start_all(self) -> None:
        self._start_beside()
        for name in [CLIENT, *self.scanned]:
            self._remotes[name] = Remote(self.trusting(name), "tests.netns.driver")
        for name in [*self.coordinators, *self.nodes]:
            self.start(name)
        cluster_id = ClusterId(wait_until(self._initialised, seconds=60))
        known = ClusterFile(
            format=CLUSTER_FILE_VERSION,
            cluster_id=cluster_id,
            coordinators={name: self.address(name) for name in self.coordinators},
            nodes=self.nodes,
            tls=True,
        )
        (self.directory / CLUSTER_FILE).write_bytes(msgspec.json.encode(known))
        self.wait_until_active()
        self.names = {node.id: node.name for node in self.status().nodes}

    def _start_beside(self) -> None:
        """Starts what the others need."""
        self.proxy = Remote(self.hosts[PROXY], "tests.netns.proxy", self.address(PROXY), self.address(COORDINATOR))
        self._remotes[PROXY] = self.proxy

    def _initialised(self) -> str | None:
        try:
            return self._ask("initialise").answer()
        except Failed:
            return None

    # ------------------------------------------------------------ processes

    def address(self, name: str) -> str:
        """`host:port`; a process keeps it over restarts."""
        return self.hosts[name].at(PORT)

    def trusting(self, name: str) -> Machine:
        """A host with the bundle of the cluster's owner."""
        return Trusting(self.hosts[name], self._certificates.client)

    def start(self, name: str) -> None:
        """Starts a process that does not run; returns at once."""
        words = ["--dir", str(self.directory / name), "--listen", self.address(name)]
        words += ["--cluster-key", str(self.directory / KEY_FILE), *self._words(name)]
        words += ["--restart", "never"]
        kind = ["coordinator"] if name in self.coordinators else ["node", "start"]
        called = self.called.get(name, name)
        self._certificates.issue(*([], [called]) if name in self.coordinators else ([called], []))
        words += self._certificates.words(called)
        self._spawn(name, sys.executable, "-m", "leasehold.cli.main", *kind, *words)

    def _words(self, name: str) -> list[str]:
        """More of the command of a process."""
        if name == COORDINATOR:
            return ["--advertise", self.address(PROXY)]  # so it proves that address, too, to the node behind it
        return [
            "--name",
            self.called.get(name, name),
            "--coordinator",
            self.address(PROXY if name == BEHIND_PROXY else COORDINATOR),
        ]

    def _spawn(self, name: str, *command: str) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                self.hosts[name].command(*command),
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # with its supervisor
            )
        self._processes[name] = process

    def kill(self, name: str, *, waits: bool = True) -> None:
        """SIGKILL of the process and its supervisor, as if its host had failed; `waits` until both are gone."""
        self._signal(name, signal.SIGKILL)
        if waits:
            self._processes[name].wait()

    def kill_below_supervisor(self, name: str, *, waits: bool = True) -> None:
        """SIGKILL of the process alone; `waits` until its supervisor has ended, too."""
        os.kill(self._worker(name), signal.SIGKILL)
        if waits:
            self._processes[name].wait()

    def _signal(self, name: str, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._processes[name].pid, number)

    def _worker(self, name: str) -> int:
        """The process below the supervisor, where one stands between."""
        pid = self._processes[name].pid
        return next((one.pid for one in psutil.Process(pid).children()), pid)

    def terminate(self, name: str) -> None:
        """SIGTERM: it is told to stop in order; returns at once."""
        self._processes[name].terminate()

    def pause(self, name: str) -> None:
        """Stops a process in its tracks; it does not run any more when this returns."""
        self._signal(name, signal.SIGSTOP)
        state = Path(f"/proc/{self._worker(name)}/stat")
        wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T")

    def resume(self, name: str) -> None:
        self._signal(name, signal.SIGCONT)

    def runs(self, name: str) -> bool:
        return self._processes[name].poll() is None

    def starved_ns(self) -> int:
        """For how long the processes have waited for a processor so far, by the main thread of each, which has its
        event loop. One that was started again counts anew."""
        total_ns = 0
        for name, process in self._processes.items():
            if process.poll() is None:
                _, waited_ns, _ = Path(f"/proc/{self._worker(name)}/schedstat").read_text().split()
                total_ns += int(waited_ns)
        return total_ns

    def waits_to_be_read(self, name: str, sender: str) -> int:
        """Bytes from a host that have arrived at a process which has not read them yet."""
        far = "".join(f"{int(part):02X}" for part in reversed(self.hosts[sender].address.split(".")))
        net = Path(f"/proc/{self._processes[name].pid}/net")
        lines = [line.split() for table in ("tcp", "tcp6") for line in (net / table).read_text().splitlines()[1:]]
        return sum(int(line[4].partition(":")[2], 16) for line in lines if line[2].partition(":")[0].endswith(far))

    def pace(self, way: str, *, bytes_per_second: int | None = None, delay_seconds: float = 0.0) -> dict[str, int]:
        """How the proxy hands on `down`, from the coordinator, or `up`, to it; answers the bytes it has handed on."""
        return self.proxy.call("pace", way=way, bytes_per_second=bytes_per_second, delay_seconds=delay_seconds)

    def heal(self) -> None:
        """Everything runs and reaches everything again."""
        self.hosts.heal()
        self._heal_beside()
        for name, process in self._processes.items():
            if process.poll() is None:
                self.resume(name)
            else:
                self.start(name)

    def _heal_beside(self) -> None:
        self.pace("up")
        self.pace("down")

    # ------------------------------------------------------------ the cluster, from the client's host

    def _ask(self, do: str, target: str = "", **words: Any) -> Asked:
        known = target or ",".join(map(self.address, self.coordinators))
        return self._remotes[CLIENT].ask(do, target=known, **words)

    def begin(self, text: str, id_: str | None = None) -> Statement:
        """Sends a statement and returns at once."""
        statement = StatementId(id_ or secrets.token_hex(16))
        return Statement(self, statement, self._ask("sql", text=text, statement=statement))

    def run(self, text: str, id_: str | None = None) -> Ended:
        """Runs a statement to its end."""
        return self.begin(text, id_).ended()

    def query(self, text: str, asked: str = "") -> tuple[tuple[str | int | bool | None, ...], ...]:
        """The rows of a SHOW or DESCRIBE, from the coordinator `asked` if it can answer."""
        target = self.address(asked) if asked else ""
        answer = self._ask("sql", target, text=text, statement=secrets.token_hex(16)).answer()["answer"]
        return msgspec.convert(answer, Rows).rows

    def status(self) -> ClusterStatus:
        return msgspec.convert(self._ask("status").answer(), ClusterStatus)

    def node(self, name: str) -> NodeStatus:
        return next(node for node in self.status().nodes if node.name == name)

    def append(self, table: str, rows: dict[str, list[Any]]) -> None:
        count = len(next(iter(rows.values())))
        assert self._ask("append", table=table, rows=rows).answer() == count

    def rows(self, table: str) -> dict[str, list[Any]]:
        """All rows, by column, from whichever nodes serve them."""
        return self._ask("rows", table=table).answer()

    def verify(self) -> dict[str, Any]:
        """`leasehold verify` over the serve logs of all nodes."""
        return self._ask("verify", directory=str(self.directory)).answer()

    def wait_until_active(self) -> dict[str, NodeStatus]:
        """Until every node holds a lease on all that the cluster has, as the node itself knows: to the leader, what is
        gone looks alive until its lease has run out. Answers the nodes by name."""

        def find() -> dict[str, NodeStatus] | None:
            try:
                revision = self.status().revision
                nodes = {name: self.health(name) for name in self.nodes}
            except Failed:
                return None
            ready = all(one.state == "ACTIVE" and (one.applied_revision or 0) >= revision for one in nodes.values())
            return nodes if ready else None

        return wait_until(find, said=self.status, seconds=60)

    def wait_until_whole(self) -> None:
        """Until all processes are in their places."""
        self.wait_until_active()

    def health(self, node: str) -> NodeStatus:
        """How a node sees itself. Raises `Failed` if it does not answer."""
        return msgspec.convert(self._remotes[CLIENT].call("health", address=self.address(node)), NodeStatus)

    @contextmanager
    def scanning(self, node: str, table: str) -> Iterator[Scanner]:
        """Reads `table` from `node` on the node's own host, from before this returns until the end."""
        remote = self._remotes[node]
        remote.call("scan", address=self.address(node), plan=self._ask("plan", table=table).answer())
        try:
            scanner = Scanner(remote)
            scanner.wait_until("SERVED", since_ns=0)
            yield scanner
        finally:
            remote.call("stop")

    # ------------------------------------------------------------ what lies on disk

    def served(self) -> Iterator[ServeRecord]:
        """What all nodes have released so far, as they logged it."""
        for name in self.nodes:
            yield from read_serve_log(self.directory / name / "servelog")

    def standing(self, statement: StatementId) -> str:
        """How far a statement had come when the coordinator was killed, by its meta storage: NOTHING, the step of its
        procedure, or its outcome. Looks at a copy: the next coordinator finds it as it was left."""
        assert not self.runs(COORDINATOR)
        return standing(self.directory / COORDINATOR, statement)
