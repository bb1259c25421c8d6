"""`python -m tests.attacks.honest DIRECTORY`: an honest client. For each line that it reads, it does one round, and
prints a line of JSON. A line says, divided by tabs, the name of a table, the files for TLS, and perhaps `kept`: then it
connects only if it has not kept a connection."""

import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import msgspec
import pyarrow as pa

from leasehold.client.cluster import Cluster, connect
from leasehold.errors import LeaseholdError
from leasehold.wire.clock import sleep_ns
from tests.attacks.ground import HONEST, KEPT, Round

PAUSE_NS = 100_000_000


def one_round(cluster: AbstractContextManager[Cluster], table: str, number: int) -> Round:
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
            with timed("log in and ask"):
                opened.sql("SHOW DATABASES")
            with timed("append"):
                opened.table(table).append(pa.table({"a": [number], "b": ["honest"]}))
            with timed("scan"):
                opened.table(table).scan(columns=["a"]).read_all()
    except LeaseholdError as error:
        failed = f"{type(error).__name__} [{error.code}] {error}"
    return Round(took_ns, failed)


def main(directory: str, asked: Iterable[str], say: Callable[[str], object]) -> None:
    """Until nobody reads its output."""
    user, password = HONEST
    connected = partial(connect, directory, user=user, password=password)
    kept: Cluster | None = None
    for number, line in enumerate(asked):
        sleep_ns(PAUSE_NS)
        table, files, how = line.rstrip("\n").split("\t")
        cluster = nullcontext(kept := kept or connected(tls=files)) if how == KEPT else connected(tls=files)
        say(msgspec.json.encode(one_round(cluster, table, 1_000_000 + number)).decode() + "\n")


if __name__ == "__main__":

    def say(line: str) -> None:
        sys.stdout.write(line)
        sys.stdout.flush()

    try:
        main(sys.argv[1], sys.stdin, say)
    except BrokenPipeError:
        sys.exit(0)
