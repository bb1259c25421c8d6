"""What every attack runs on: a cluster with users, an honest client beside the attack, and what must hold meanwhile.

While `Ground.attacked()` is open, an honest client in a process of its own, which comes to the same door as the
attackers, logs in, asks, appends and scans again and again, and a thread samples the memory of the coordinator and of
the nodes. Each attack has a table of its own for that client: a scan costs more with each append, and shows no more. At
the end of an attack:

| must hold | how it is seen |
| --- | --- |
| no process ended | by its pid |
| no node was fenced, unless all starved | a node logs each first grant after a lapse |
| no process grew by GROWN_BYTES_MAX | resident memory, sampled |
| no process grew by GROWN_BY_ALL_BYTES_MAX since before the first attack | the same |
| no log grew by LOGGED_BYTES_MAX | the size of each process's log |
| each request of the honest client was served within SERVED_NS_MAX | its own clock |

SERVED_NS_MAX is for processes that have a processor whenever they are ready to run. On a busy machine they wait for
one. So SERVED_NS_MAX is divided by the share of that time in which the main threads of the honest client, the
coordinator and the nodes ran during this attack. The bound is BUSY_FACTOR times the slowest request before or after the
attack, if that is more.
"""

import contextlib
import copy
import itertools
import socket
import ssl
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import grpc
import msgspec
import psutil
import pyarrow as pa

from leasehold.certificates.files import CA, IDENTITY
from leasehold.certificates.names import CertificateRole
from leasehold.client.cluster import Cluster, connect
from leasehold.client.trust import TLS_FOLDER, WITHOUT_TLS
from leasehold.limits.requests import CONNECTIONS_MAX
from leasehold.local.files import read_address
from leasehold.wire.clock import sleep_ns
from leasehold.wire.tls import Tls, read_tls
from tests.attacks.figures import BUSY_FACTOR, GROWN_BYTES_MAX, SERVED_NS_MAX, AttackFigures, attack_under_way
from tests.e2e.cluster import RunningCluster

GROWN_BY_ALL_BYTES_MAX: Final = GROWN_BYTES_MAX + 64 * 1024 * 1024
"""Since before the first attack. The further bytes are for what allocators keep."""
MORE_CONNECTIONS: Final = CONNECTIONS_MAX + 200
"""Than a port takes."""
LOGGED_BYTES_MAX: Final = 64 * 1024
SHARE_MIN: Final = 0.1
STARVED_SHARE: Final = 0.2
"""With less of a processor a node may lose its lease without any attack. It is the share of the whole attack: of 3 s in
it, a node may run for a third of one."""
PATIENCE_S: Final = 60
SAMPLE_NS: Final = 50_000_000
ROUNDS_BEFORE: Final = 3
ROUNDS_DURING: Final = 2
"""At least so many rounds of the honest client begin and end beside each attack."""
LONG_SCALE: Final = 10
BEGINS: Final = "serving from revision"
ROOT: Final = ("root", "the password of root")
KEPT: Final = "kept"
"""Asks the honest client for a round over the connections that it has."""
HONEST: Final = ("honest", "an honest password")
WRITER: Final = ("writer", "may insert, and nothing else")
READER: Final = ("reader", "may select, and nothing else")
NOBODY: Final = ("nobody", "has no right at all")
TABLE: Final = "shop.orders"
COLUMNS: Final = "(a BIGINT, b STRING) CLUSTERED BY (a) INTO 2 BUCKETS"
ROWS: Final = 1_000


class Round(msgspec.Struct, frozen=True):
    """How long each request of the honest client took, by its name, and what went wrong, if anything. `unrenewed_ns` is
    the longest time that a node's lease was seen without a renewal since the round before."""

    took_ns: dict[str, int]
    failed: str = ""
    unrenewed_ns: int = 0

    @property
    def slowest_ns(self) -> int:
        return max(self.took_ns.values(), default=0)


class _Processors:
    """How much of the time in which the main threads of these processes were ready to run they did run, from now on."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._pids = tuple(pids)
        self._before = self._times()

    def share(self) -> float:
        """Others on this machine, and the attackers, had the rest. At least SHARE_MIN."""
        ran_ns = waited_ns = 0
        for pid, (ran, waited) in self._times().items():
            ran_before, waited_before = self._before[pid]
            ran_ns, waited_ns = ran_ns + ran - ran_before, waited_ns + waited - waited_before
        return max(SHARE_MIN, ran_ns / max(1, ran_ns + waited_ns))

    def _times(self) -> dict[int, tuple[int, int]]:
        """How long each of them that has not ended has run, and has waited for a processor, in ns."""
        found: dict[int, tuple[int, int]] = {}
        for pid in self._pids:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
                found[pid] = int(ran), int(waited)
        return found


class Ground:
    """A cluster under attack; a context manager."""

    def __init__(self, cluster: RunningCluster, honest: "_Honest") -> None:
        self.cluster = cluster
        self.files: Path | None = None
        """What the attackers and the honest client have for TLS."""
        self._honest = honest
        self._attacks = itertools.count(1)
        self._attacked = [1]
        """The number of this attack, shared by copies."""
        self._bytes_at_first: dict[int, int] = {}
        """Of each process, by its pid, before the first attack that it has seen."""
        self.directory = cluster.directory

    @classmethod
    @contextlib.contextmanager
    def start(cls, directory: Path, *, tls: bool = False) -> Generator[Self]:
        """Starts the cluster with its users: an administrator, one who reads and writes, one for each
        alone, one without rights."""
        with RunningCluster.start(directory, tls=tls) as cluster, _Honest(directory) as honest:
            with cluster.connect() as first:
                first.sql(f"CREATE USER {ROOT[0]} PASSWORD '{ROOT[1]}'")
            ground = cls(cluster, honest)
            with ground.connect(ROOT) as root:
                root.sql("CREATE DATABASE shop")
                root.sql(f"CREATE TABLE {TABLE} {COLUMNS}")
                for user, password in (HONEST, WRITER, READER, NOBODY):
                    root.sql(f"CREATE USER {user} PASSWORD '{password}'")
                root.sql(f"GRANT SELECT ON DATABASE shop TO {HONEST[0]}")
                root.sql(f"GRANT INSERT ON DATABASE shop TO {HONEST[0]}")
                root.sql(f"GRANT SELECT ON DATABASE shop TO {READER[0]}")
                root.sql(f"GRANT INSERT ON TABLE {TABLE} TO {WRITER[0]}")
                root.table(TABLE).append(pa.table({"a": range(ROWS), "b": [f"order {n}" for n in range(ROWS)]}))
            yield ground

    def connect(self, who: tuple[str, str]) -> Cluster:
        """A client of the cluster, as one of the users."""
        user, password = who
        return connect(self.directory, user=user, password=password)

    def attacked_by(self, files: Path) -> Self:
        """The same ground, for attackers who have these files: a bundle, or a file of authorities."""
        seen = copy.copy(self)
        seen.files = files
        return seen

    @property
    def tls(self) -> Tls | None:
        return None if self.files is None else read_tls(self.files)

    def door(self, address: str) -> str:
        """Where attackers reach the server at `address`."""
        return address if self.tls is None else self.tls.door(address)

    def channel(self, address: str, *options: tuple[str, Any]) -> grpc.Channel:
        """A connection of its own, which may send messages of any size."""
        given = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1), *options]
        if self.tls is None:
            return grpc.insecure_channel(address, options=given)
        role = CertificateRole.COORDINATOR if address == self.coordinator else CertificateRole.NODE
        given.append(("grpc.ssl_target_name_override", self.tls.server_name(role)))
        return grpc.secure_channel(self.door(address), self.tls.channel(), options=given)

    def connection(self, address: str, host: str | None = None, *, patience_s: int = PATIENCE_S) -> socket.socket:
        """A connection that speaks no HTTP/2 by itself; over TLS after its handshake."""
        return self.in_tls(self.tcp(address, host, patience_s=patience_s))

    def tcp(self, address: str, host: str | None = None, *, patience_s: int = PATIENCE_S) -> socket.socket:
        """A connection that has begun nothing; where there is TLS, it comes from `host`, or from another machine than
        the honest client. `patience_s` bounds the wait."""
        source = None if self.files is None else (host or self.strange_host(), 0)
        host, port = self.door(address).rsplit(":", 1)
        made = socket.create_connection((host, int(port)), timeout=patience_s, source_address=source)
        made.settimeout(PATIENCE_S)
        return made

    def strange_host(self, number: int = 2) -> str:
        """Where attackers come from over TLS. Each attack has addresses of its own."""
        return f"127.{number >> 8}.{self._attacked[0]}.{number & 255}"

    def in_tls(self, connection: socket.socket) -> socket.socket:
        if self.files is None:
            return connection
        try:
            return self.client_context().wrap_socket(connection)
        except OSError as error:
            # Python does not close what it has begun with where the connection was reset before.
            for step, _ in traceback.walk_tb(error.__traceback__):
                if isinstance(begun := step.f_locals.get("self"), ssl.SSLSocket):
                    begun.close()
            raise

    def client_context(self) -> ssl.SSLContext:
        """Of attackers that have files."""
        assert self.files is not None
        context = ssl.create_default_context(cafile=self.directory / TLS_FOLDER / CA)
        context.check_hostname = False
        context.set_alpn_protocols(["h2"])
        if self.files.is_dir():
            context.load_cert_chain(self.files / IDENTITY)
        return context

    @property
    def coordinator(self) -> str:
        """The coordinator's `host:port`."""
        return _address(self.cluster.local.coordinator.directory)

    def nodes(self) -> list[str]:
        """Each node's `host:port`."""
        return [_address(one.directory) for one in self.cluster.local.nodes()]

    @contextlib.contextmanager
    def attacked(
        self,
        *,
        kept: bool = False,
        grown_by_all_max: int = GROWN_BY_ALL_BYTES_MAX,
        starved_share: float = STARVED_SHARE,
        more_ns: int = 0,
    ) -> Generator[None]:
        """The attack runs inside; what must hold is checked at the end of it. `kept` lets the honest client keep its
        connections from before the attack. Since the first attack no process may have grown by `grown_by_all_max`
        bytes. A node may be fenced where the processes ran for less than `starved_share` of the time in which they were
        ready to. A request may take `more_ns` longer."""
        lapses, logged_bytes = self._lapses(), self._logged_bytes()
        one_round = partial(self._honest.round, self._new_table(), self.files, kept=kept)
        before = [one_round() for _ in range(ROUNDS_BEFORE)]
        processes = self._processes()
        for one in processes.values():
            self._bytes_at_first.setdefault(one.pid, one.memory_info().rss)
        processors = _Processors([self._honest.pid, *(one.pid for one in processes.values())])
        with _Memory(processes, self._worker) as memory, _Beside(one_round) as beside:
            yield
        self._attacked[0] += 1
        share, lapses_now = processors.share(), self._lapses()
        during, grown = beside.rounds, memory.grown_bytes()
        assert len(during) >= ROUNDS_DURING, "the honest client has ended"
        slowest_ns, calm_ns = (max(one.slowest_ns for one in rounds) for rounds in (during, before))
        if slowest_ns > max(SERVED_NS_MAX + more_ns, BUSY_FACTOR * calm_ns):
            calm_ns = max(calm_ns, *(one_round().slowest_ns for _ in range(ROUNDS_BEFORE)))
        figures = AttackFigures(
            attack=attack_under_way(),
            grown_bytes=grown,
            by_all_bytes={
                name: memory.most_bytes[name] - self._bytes_at_first[one.pid] for name, one in processes.items()
            },
            fenced=lapses_now - lapses,
            unrenewed_ns=max(one.unrenewed_ns for one in during),
            rounds=len(during),
            calm_ns=calm_ns,
            slowest_ns=slowest_ns,
            share=share,
            more_ns=more_ns,
        )
        figures.record()
        assert figures.fenced == 0 or share < starved_share, "a node was fenced"
        assert max(grown.values()) < GROWN_BYTES_MAX, f"memory grew by {grown} bytes"
        by_all = figures.by_all_bytes
        assert max(by_all.values()) < grown_by_all_max, f"memory grew by {by_all} bytes since the first attack"
        logged = {name: size - logged_bytes[name] for name, size in self._logged_bytes().items()}
        assert max(logged.values()) < LOGGED_BYTES_MAX, f"logs grew by {logged} bytes"
        failed = [one.failed for one in during if one.failed]
        assert not failed, f"{len(failed)} of {len(during)} rounds failed, the first one so: {failed[0]}"
        bound_ns = figures.slowest_ns_max
        assert slowest_ns <= bound_ns, f"the honest client waited for {slowest_ns} ns, more than {bound_ns} ns"

    def _new_table(self) -> str:
        """For the honest client."""
        name = f"shop.beside_{next(self._attacks)}"
        with self.connect(ROOT) as root:
            root.sql(f"CREATE TABLE {name} {COLUMNS}")
        return name

    def _worker(self, name: str) -> psutil.Process | None:
        there = (self.cluster.local.coordinator, *self.cluster.local.nodes())
        return next(one.worker() for one in there if one.name == name)

    def _processes(self) -> dict[str, psutil.Process]:
        found: dict[str, psutil.Process] = {}
        for one in (self.cluster.local.coordinator, *self.cluster.local.nodes()):
            process = self._worker(one.name)
            assert process is not None, f"{one.name} has ended"
            found[one.name] = process
        return found

    def _logged_bytes(self) -> dict[str, int]:
        return {
            one.name: one.log.stat().st_size for one in (self.cluster.local.coordinator, *self.cluster.local.nodes())
        }

    def _lapses(self) -> int:
        return sum(one.log.read_text(errors="replace").count(BEGINS) for one in self.cluster.local.nodes())


class _Honest:
    """The honest client, in a process of its own: the attack holds this one's interpreter."""

    def __init__(self, directory: Path) -> None:
        command = [sys.executable, "-m", "tests.attacks.honest", str(directory)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def round(self, table: str, files: Path | None, *, kept: bool) -> Round:
        """One more round, to its end, with these files for TLS."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = [table, str(files or WITHOUT_TLS), KEPT if kept else ""]
        self._process.stdin.write("\t".join(asked) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the honest client has ended"
        return msgspec.json.decode(line, type=Round)


class _Meanwhile(threading.Thread):
    """A thread that runs while its context lasts: until `_stopped` is set."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join()


class _Beside(_Meanwhile):
    """Rounds of the honest client one after the other, at least ROUNDS_DURING."""

    def __init__(self, one_round: Callable[[], Round]) -> None:
        super().__init__()
        self.rounds: list[Round] = []
        self._one_round = one_round

    def run(self) -> None:
        while not self._stopped.is_set() or len(self.rounds) < ROUNDS_DURING:
            self.rounds.append(self._one_round())


class _Memory(_Meanwhile):
    """The resident memory of processes: at the beginning, and the most that was seen. `anew` finds the one that has
    taken the place of another."""

    def __init__(self, processes: dict[str, psutil.Process], anew: Callable[[str], psutil.Process | None]) -> None:
        super().__init__()
        self._processes = dict(processes)
        self._anew = anew
        self._first = {name: one.memory_info().rss for name, one in processes.items()}
        self.most_bytes = dict(self._first)

    def run(self) -> None:
        while not self._stopped.is_set():
            for name, one in self._processes.items():
                try:
                    self.most_bytes[name] = max(self.most_bytes[name], one.memory_info().rss)
                except psutil.NoSuchProcess:
                    self._processes[name] = self._anew(name) or one
            sleep_ns(SAMPLE_NS)

    def grown_bytes(self) -> dict[str, int]:
        return {name: self.most_bytes[name] - first for name, first in self._first.items()}


def _address(directory: Path) -> str:
    address = read_address(directory)
    assert address is not None
    return address
