"""`python -m tests.attacks.honest DIRECTORY`: an honest client. For each line that it reads it does one round,
and prints a line of JSON."""

import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

import msgspec
import pyarrow as pa

from leasehold.client.cluster import connect
from leasehold.errors import LeaseholdError
from leasehold.wire.clock import sleep_ns
from tests.attacks.ground import HONEST, TABLE, Round

PAUSE_NS = 100_000_000


def one_round(directory: str, number: int) -> Round:
    """Log in, ask, append, scan, each timed; an error ends the round."""
    took_ns: dict[str, int] = {}

    @contextmanager
    def timed(name: str) -> Generator[None]:
        began_ns = time.monotonic_ns()
        try:
            yield
        finally:
            took_ns[name] = time.monotonic_ns() - began_ns

    user, password = HONEST
    failed = ""
    try:
        with connect(directory, user=user, password=password) as cluster:
            with timed("log in and ask"):
                cluster.sql("SHOW DATABASES")
            with timed("append"):
                cluster.table(TABLE).append(pa.table({"a": [number], "b": ["honest"]}))
            with timed("scan"):
                cluster.table(TABLE).scan(columns=["a"]).read_all()
    except LeaseholdError as error:
        failed = f"{type(error).__name__} [{error.code}] {error}"
    return Round(took_ns, failed)


def main(directory: str, asked: Iterable[str], say: Callable[[str], object]) -> None:
    """Until nobody reads its output."""
    for number, _ in enumerate(asked):
        sleep_ns(PAUSE_NS)
        say(msgspec.json.encode(one_round(directory, 1_000_000 + number)).decode() + "\n")


if __name__ == "__main__":

    def say(line: str) -> None:
        sys.stdout.write(line)
        sys.stdout.flush()

    try:
        main(sys.argv[1], sys.stdin, say)
    except BrokenPipeError:
        sys.exit(0)
