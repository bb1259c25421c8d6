"""The pipeline part: examples/sensors, again and again, while its driver and the nodes below it are killed.

Each seed has files and tables of its own. Once nothing is killed any more, the tables must have the rows that the files
say, however often the pipeline was begun.
"""

import contextlib
import threading
from collections import Counter
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from signal import SIGKILL

import msgspec
from examples.sensors import readings

from leasehold.cli.output import note
from tests.e2e.cluster import RunningCluster
from tests.e2e.spark.sensors_job import STEPS, run
from tests.e2e.spark.sensors_rows import expected, stored
from tests.soak.faults import now_ns

NODES = 3
KILLS_MAX = 4
STEP_MS = 4_000
NODE_SECONDS = 30.0
"""Within so long after the begin of a run a node is killed: to start Spark takes about a third of it."""


class Pipelines(msgspec.Struct, kw_only=True):
    """What has been done so far."""

    seeds: int = 0
    runs: int = 0
    failed_runs: int = 0
    """Of those that were begun while a node was killed: the next one goes on."""
    rows: int = 0
    faults: Counter[str] = msgspec.field(default_factory=Counter)
    violations: list[str] = []


def repeat(done: Pipelines, seed: int, until_ns: int, scratch: Path) -> None:
    """Seed after seed until `until_ns`, or until the rows of one are wrong: then the cluster's directory is left."""
    with RunningCluster.start(scratch / "cluster", NODES, tls=True) as running:
        while done.seeds == 0 or now_ns() < until_ns:
            done.seeds += 1
            try:
                _one(running, done, seed, scratch / f"pipeline-{seed}")
            except AssertionError as error:
                done.violations.append(f"seed {seed}: {error}; {scratch}")
                return
            note(
                f"pipeline: {done.seeds} seeds, {done.runs} runs, {sum(done.faults.values())} faults, {done.rows} rows"
            )
            seed += 1


def _one(running: RunningCluster, done: Pipelines, seed: int, folder: Path) -> None:
    drawn, database, today = Random(seed), f"sensors_{seed}", datetime.now(UTC).date()
    landing, directory = folder / "landing", running.directory
    readings.land(landing, seed, today)
    kills = drawn.randint(1, KILLS_MAX)
    later = drawn.randrange(kills + 1)
    for number in range(kills):
        if number == later:
            readings.land_later(landing, seed, today)
        done.runs += 1
        if drawn.random() < 0.3:
            done.faults["nodes killed"] += 1
            with _without(running, drawn.choice(running.names()), drawn.uniform(0, NODE_SECONDS)):
                done.failed_runs += bool(run(directory, folder, database).returncode)
        else:
            ended = run(directory, folder, database, drawn.choice(STEPS), drawn.randrange(STEP_MS))
            assert ended.returncode in {0, -SIGKILL}, ended.stderr[-4_000:]
            done.faults["drivers killed"] += bool(ended.returncode)
    readings.land_later(landing, seed, today)
    done.runs += 1
    ended = run(directory, folder, database)
    assert ended.returncode == 0, ended.stderr[-4_000:]
    wanted = expected(landing)
    with running.connect() as cluster:
        found = stored(cluster, database)
        for name, one, other in zip(wanted._fields, found, wanted, strict=True):
            assert one == other, f"{name} of {database} are not what the files say"
        cluster.sql(f"DROP DATABASE {database} CASCADE")
    done.rows += wanted.readings.total() + wanted.quarantine.total()


@contextlib.contextmanager
def _without(running: RunningCluster, name: str, after_seconds: float) -> Generator[None]:
    """Kills a node in a moment, and starts it again at the end."""
    over, killed = threading.Event(), threading.Event()

    def kill() -> None:
        if not over.wait(after_seconds):
            running.kill(name)
            killed.set()

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        if killed.is_set():
            running.restart(name)
