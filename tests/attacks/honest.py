"""`python -m tests.attacks.honest DIRECTORY`: an honest client. For each line that it reads, it does one round, and
prints a line of JSON. A line says, divided by tabs, the name of a table, the files for TLS, and perhaps `kept`: then it
connects only if it has not kept a connection."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from pathlib import Path

import msgspec
import pyarrow as pa
from pyarrow import flight

from leasehold.client.cluster import Cluster, connect
from leasehold.client.trust import WITHOUT_TLS
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import FlightCaller
from leasehold.errors import LeaseholdError
from leasehold.ids import LoginToken
from leasehold.limits.lease import LEASE_DURATION_NS
from leasehold.local.files import read_address
from leasehold.local.processes import LocalCluster
from leasehold.wire.clock import sleep_ns
from leasehold.wire.flight import CALLER_HEADER, HEALTH, writer_to
from leasehold.wire.tls import Tls, read_tls
from tests.attacks.ground import HONEST, KEPT, Round

PAUSE_NS = 100_000_000
LOOK_NS = 50_000_000


def one_round(
    cluster: AbstractContextManager[Cluster], table: str, number: int, watch: Callable[[LoginToken | None], None]
) -> Round:
    """Ask, append, scan, each timed, and connect and log in before; an error ends the round."""
    took_ns: dict[str, int] = {}

    @contextmanager
    def timed(name: str) -> Generator[None]:
        began_ns = time.monotonic_ns()
        try:
            yield
        finally:
            took_ns[name] = time.monotonic_ns() - began_ns

    failed = ""
    try:
        with cluster as opened:
            watch(opened.token)
            with timed("log in and ask"):
                opened.sql("SHOW DATABASES")
            with timed("append"):
                opened.table(table).append(pa.table({"a": [number], "b": ["honest"]}))
            with timed("scan"):
                opened.table(table).scan(columns=["a"]).read_all()
    except LeaseholdError as error:
        failed = f"{type(error).__name__} [{error.code}] {error}"
    return Round(took_ns, failed)


class _Leases(threading.Thread):
    """Asks each node all the time how much of its lease is left."""

    def __init__(self, directory: Path) -> None:
        super().__init__(daemon=True)
        self._login: LoginToken | None = None
        self._tls: Tls | None = None
        self._nodes = [one.directory for one in LocalCluster(directory).nodes()]
        self._unrenewed_ns = 0

    def watch(self, tls: Tls | None, login: LoginToken | None) -> None:
        """From now on, as the user with this login."""
        self._tls, self._login = tls, login
        if not self.is_alive():
            self.start()

    def unrenewed_ns(self) -> int:
        """The longest time without a renewal that was seen since the last question."""
        found, self._unrenewed_ns = self._unrenewed_ns, 0
        return found

    def run(self) -> None:
        while True:
            sleep_ns(LOOK_NS)
            said = [(CALLER_HEADER.encode(), encode(FlightCaller(login=self._login)))]
            options = flight.FlightCallOptions(timeout=1, headers=said)
            for address in filter(None, map(read_address, self._nodes)):
                with contextlib.suppress(flight.FlightError, pa.ArrowException, OSError):
                    for answer in writer_to(address, self._tls).do_action(flight.Action(HEALTH, b""), options):
                        left_ns = msgspec.json.decode(answer.body.to_pybytes(), type=_Health).lease_remaining_ns
                        if left_ns > 0:
                            self._unrenewed_ns = max(self._unrenewed_ns, LEASE_DURATION_NS - left_ns)


@cache
def _read_tls(files: str) -> Tls | None:
    return None if files == WITHOUT_TLS else read_tls(Path(files))


class _Health(msgspec.Struct, frozen=True):
    lease_remaining_ns: int


def main(directory: str, asked: Iterable[str], say: Callable[[str], object]) -> None:
    """Until nobody reads its output."""
    user, password = HONEST
    leases = _Leases(Path(directory))
    connected = partial(connect, directory, user=user, password=password)
    kept: Cluster | None = None
    for number, line in enumerate(asked):
        sleep_ns(PAUSE_NS)
        table, files, how = line.rstrip("\n").split("\t")
        cluster = nullcontext(kept := kept or connected(tls=files)) if how == KEPT else connected(tls=files)
        found = one_round(cluster, table, 1_000_000 + number, partial(leases.watch, _read_tls(files)))
        found = msgspec.structs.replace(found, unrenewed_ns=leases.unrenewed_ns())
        say(msgspec.json.encode(found).decode() + "\n")


if __name__ == "__main__":

    def say(line: str) -> None:
        sys.stdout.write(line)
        sys.stdout.flush()

    try:
        main(sys.argv[1], sys.stdin, say)
    except BrokenPipeError:
        sys.exit(0)
