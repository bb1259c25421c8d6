"""Each row of a write is there once or not at all, and a day has its old rows or the new ones, whatever fails."""

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from leasehold.client.cluster import Cluster
from leasehold.client.locate import read_cluster_file
from leasehold.core.words.messages import Rows
from leasehold.core.words.records import TransactionState
from leasehold.local.etcd import PROGRAM_VARIABLE
from leasehold.spark import writes
from leasehold.wire.clock import sleep_ns
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold
from tests.e2e.several_coordinators import present_leader
from tests.e2e.spark.held_writes import ACKNOWLEDGED, FIRST, Places, code, end, held_write, written
from tests.e2e.spark.holding import once
from tests.e2e.spark.replaced_days import DAYS, FIFTEENTH, FRAME, NEW_FROM, OLD_ROWS, Mode, ReplacedDay, Told, rows
from tests.e2e.spark.spark_processes import SparkProcesses, start_master
from tests.e2e.spark.write_job import Driver, Write
from tests.e2e.waiting import wait_until
from tests.etcd_cluster import etcd_program
from tests.few import few

pytestmark = [pytest.mark.spark, pytest.mark.processes]

SEEDS = range(20)
MODES: tuple[Mode, ...] = ("merge", "append", "overwrite")
HOLDS = ("rows", "staged", "committing")
"""Places at which a write waits for a fault."""


class Drawn(NamedTuple):
    """A write."""

    random: random.Random
    mode: Mode
    new: range
    files: bool

    @classmethod
    def by(cls, seed: int, modes: tuple[Mode, ...] = MODES) -> "Drawn":
        drawn = random.Random(seed)
        mode = modes[seed % len(modes)]
        begin = OLD_ROWS // 2 if mode == "merge" else NEW_FROM
        return cls(drawn, mode, range(begin, begin + drawn.choice((20, 300, 5_000))), seed // len(modes) % 2 == 0)


def asked(day: ReplacedDay, drawn: Drawn, places: Places, *, files: bool, tasks: int) -> Write:
    """What a driver of its own is to do."""
    return Write(
        name=day.name,
        mode=drawn.mode,
        begin=drawn.new.start,
        end=drawn.new.stop,
        files=files,
        tasks=tasks,
        folder=str(places.folder),
        holds=places.holds,
        only=places.only,
    )


def check_acknowledged(running: RunningCluster, day: ReplacedDay, drawn: Drawn, told: Told) -> None:
    """Whatever failed, the write was tried again until it was whole."""
    day.check(told, drawn.mode, drawn.new)
    assert told == ACKNOWLEDGED, told.text
    day.check_files(running)


# ---------------------------------------------------------------- the driver

KILLED_AT = (
    *("committing", "begun", "staging", "committing", "opened"),
    *("committing", "staged", "begun", "committed", "ended"),
)
DELAY_MS = {"begun": 8_000, "committing": 150}
"""After that place the driver is killed within this time, or within 400 ms. Its first write takes that long."""


@pytest.mark.parametrize("seed", few(1, SEEDS))
def test_a_driver_killed_while_it_writes_leaves_all_rows_or_none(
    running: RunningCluster, cluster: Cluster, tmp_path: Path, seed: int
) -> None:
    drawn = Drawn.by(seed // len(KILLED_AT) + seed)
    day, places = ReplacedDay(cluster, f"e2e.killed_driver_{seed}"), Places(tmp_path / "places")
    local, place = tmp_path / "local", KILLED_AT[seed % len(KILLED_AT)]
    delay_ms = drawn.random.randrange(DELAY_MS.get(place, 400))
    alone = drawn.random.random() < 0.5
    with Driver(tmp_path / "log", running.directory, "local[2]", **{"spark.local.dir": str(local)}) as driver:
        driver.ask(asked(day, drawn, places, files=drawn.files, tasks=2))
        wait_until(lambda: places.passed(place))
        sleep_ns(delay_ms * 1_000_000)
        if alone:
            driver.kill()
            driver.wait_until_gone()
            assert not list(local.glob("**/leasehold-*")), "Java removes the files with the rows"
        else:
            driver.kill_all()
    is_there = day.check(Told("unknown"), drawn.mode, drawn.new)
    state = end(cluster, day.name, places)
    known = {TransactionState.COMMITTED: ACKNOWLEDGED, TransactionState.ABORTED: Told("refused"), None: Told("refused")}
    assert day.check(known[state], drawn.mode, drawn.new) is is_there
    assert is_there or not places.passed("committed")
    day.check_files(running)
    shown = cluster.sql("SHOW PROCEDURES")
    assert isinstance(shown, Rows)
    assert not shown.rows
    day.before = day.found()
    cluster.table(day.name).overwrite(rows(drawn.new, DAYS[2]), FIFTEENTH)
    day.check(ACKNOWLEDGED, "overwrite", drawn.new)


# ---------------------------------------------------------------- nodes and coordinators


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_killed_while_rows_are_staged_costs_none_and_doubles_none(
    spark: SparkSession, running: RunningCluster, cluster: Cluster, tmp_path: Path, seed: int
) -> None:
    drawn = Drawn.by(seed)
    day, node = ReplacedDay(cluster, f"e2e.killed_node_{seed}"), drawn.random.choice(running.names())
    places = Places(tmp_path / "places", drawn.random.choice(("staging", "staged", "committing")))
    thread = during(places, lambda: running.kill(node), races=drawn.random.random() < 0.3)
    told = held_write(spark, running.directory, places, day.name, drawn.mode, drawn.new, files=drawn.files)
    thread.join()
    try:
        day.check(told, drawn.mode, drawn.new)
    finally:
        running.restart(node)
    check_acknowledged(running, day, drawn, told)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PROGRAM_VARIABLE, etcd_program())
        with RunningCluster.start(tmp_path_factory.mktemp("several") / "cluster", nodes=1, coordinators=3) as made:
            with made.connect() as connection:
                connection.sql("CREATE DATABASE e2e")
            yield made


@pytest.mark.parametrize("seed", few(1, SEEDS))
def test_a_leader_that_changes_at_the_commit_costs_no_row_and_doubles_none(
    spark: SparkSession, several: RunningCluster, tmp_path: Path, seed: int
) -> None:
    drawn = Drawn.by(seed)
    old, killed = present_leader(several), drawn.random.random() < 0.6
    other = next(one for one in read_cluster_file(several.directory).coordinators if one != old)

    def change() -> None:
        sleep_ns(drawn.random.randrange(60) * 1_000_000)
        if killed:
            several.kill(old)
        else:
            ran = leasehold("leader", "transfer", other, directory=several.directory)
            assert ran.code == 0 or "NO_SUCCESSOR" in ran.err, ran.err  # a third one may have been faster

    places = Places(tmp_path / "places", "committing")
    try:
        with several.connect() as cluster:
            day = ReplacedDay(cluster, f"e2e.changed_leader_{seed}")
            thread = during(places, change, races=drawn.random.random() < 0.7)
            told = held_write(spark, several.directory, places, day.name, drawn.mode, drawn.new, files=drawn.files)
            thread.join()
            check_acknowledged(several, day, drawn, told)
    finally:
        if killed:
            several.restart(old)


def during(places: Places, fault: Callable[[], object], *, races: bool) -> threading.Thread:
    """A thread that makes a fault once a write is where it waits. The write goes on then, or at once if it `races`."""
    if races:
        places.go()
    return once(lambda: places.passed(places.holds), fault, places.folder / "go")


# ---------------------------------------------------------------- statements


class Change(NamedTuple):
    """Statements about a table between the plan of a write and its commit."""

    statements: tuple[str, ...]
    refusals: frozenset[str]
    """Codes with which the write may be refused."""
    gone: frozenset[str] = frozenset()
    """Columns that the table has no more."""


CHANGES = {
    "added": Change(("ALTER TABLE {} ADD COLUMN note STRING",), frozenset({"CONFLICT"})),
    "renamed": Change(("ALTER TABLE {} RENAME COLUMN id TO number",), frozenset({"CONFLICT", "ROWS_DO_NOT_FIT"})),
    "exchanged": Change(
        (
            "ALTER TABLE {} RENAME COLUMN id TO other",
            "ALTER TABLE {} RENAME COLUMN twin TO id",
            "ALTER TABLE {} RENAME COLUMN other TO twin",
        ),
        frozenset({"CONFLICT"}),
    ),
    "dropped": Change(
        ("ALTER TABLE {} DROP COLUMN twin",),
        frozenset({"CONFLICT", "ROWS_DO_NOT_FIT", "SCHEMA_CHANGED"}),
        frozenset({"twin"}),
    ),
    "made_again": Change(
        ("DROP TABLE {}", "CREATE TABLE {} (id BIGINT, day DATE, twin BIGINT) CLUSTERED BY (id) INTO 2 BUCKETS"),
        frozenset({"CONFLICT", "TABLE_DROPPED"}),
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("seed", few(1, SEEDS))
def test_a_table_altered_while_rows_are_written_gets_them_in_the_right_columns_or_not(
    spark: SparkSession, running: RunningCluster, cluster: Cluster, tmp_path: Path, seed: int, kind: str
) -> None:
    drawn = Drawn.by(seed + sorted(CHANGES).index(kind))
    day, change = ReplacedDay(cluster, f"e2e.{kind}_{seed}"), CHANGES[kind]
    places = Places(tmp_path / "places", HOLDS[seed % len(HOLDS)])

    def alter() -> None:
        with running.connect() as other:
            for statement in change.statements:
                other.sql(statement.format(day.name))

    thread = during(places, alter, races=drawn.random.random() < 0.2)
    told = held_write(spark, running.directory, places, day.name, drawn.mode, drawn.new, files=drawn.files)
    thread.join()
    assert told.outcome == "acknowledged" or code(told) in change.refusals, told.text
    if kind == "made_again":
        assert cluster.table(day.name).scan().read_all().num_rows == 0, "no row goes into another table"
    else:
        day.check(told, drawn.mode, drawn.new, change.gone)
        day.check_files(running)


# ---------------------------------------------------------------- two writers


@pytest.mark.parametrize("seed", few(1, SEEDS))
def test_of_two_writers_that_replace_a_day_at_once_the_day_has_the_rows_of_one(
    spark: SparkSession, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    drawn, day = Drawn.by(seed), ReplacedDay(cluster, f"e2e.both_{seed}")
    if not drawn.files:
        monkeypatch.setattr(writes, "bytes_here", lambda _: None)
    ranges = [range(begin, begin + len(drawn.new)) for begin in (NEW_FROM, 2 * NEW_FROM + len(drawn.new))]
    both, told = threading.Barrier(2), dict[int, Told]()

    def replace(number: int, delay_ns: int) -> None:
        frame = spark.range(ranges[number].start, ranges[number].stop, 1, 2).selectExpr(*FRAME)
        both.wait()
        sleep_ns(delay_ns)
        told[number] = written(frame, day.name, "overwrite")

    threads = [
        threading.Thread(target=replace, args=(number, drawn.random.randrange(1_000) * 1_000_000)) for number in (0, 1)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    winners = [number for number in (0, 1) if told[number].outcome == "acknowledged"]
    assert winners, told
    assert all(one.outcome == "acknowledged" or code(one) == "CONFLICT" for one in told.values()), told
    assert day.found() in [day.after("overwrite", ranges[number]) for number in winners], told


# ---------------------------------------------------------------- executors


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkProcesses]:
    with SparkProcesses(tmp_path_factory.mktemp("processes")) as made:
        yield made


@pytest.fixture(scope="module")
def driver(
    running: RunningCluster, processes: SparkProcesses, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    """Of a standalone cluster of Spark with two executors, which speculates."""
    folders = [tmp_path_factory.mktemp(name) for name in ("worker-1", "worker-2")]
    master = start_master(processes, folders, ("127.0.0.1", "127.0.0.2"))  # none speculates with one host alone
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
    }
    with Driver(tmp_path_factory.mktemp("driver") / "log", running.directory, master, **settings) as made:
        yield made


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_an_executor_killed_while_its_tasks_write_costs_no_row_and_doubles_none(
    running: RunningCluster, cluster: Cluster, processes: SparkProcesses, driver: Driver, tmp_path: Path, seed: int
) -> None:
    drawn, day = Drawn.by(seed), ReplacedDay(cluster, f"e2e.killed_executor_{seed}")
    places = Places(tmp_path / "places", drawn.random.choice(("rows", "staging", "staged")))
    driver.ask(asked(day, drawn, places, files=False, tasks=4))
    try:
        wait_until(lambda: places.passed(places.holds))
        sleep_ns(drawn.random.randrange(100) * 1_000_000)
        drawn.random.choice(processes.executors()).kill()
    finally:
        places.go()
        told = driver.told()
    check_acknowledged(running, day, drawn, told)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_two_attempts_of_a_task_at_the_same_time_write_each_row_once(
    running: RunningCluster, cluster: Cluster, driver: Driver, tmp_path: Path, seed: int
) -> None:
    drawn, day = Drawn.by(seed, ("append", "overwrite")), ReplacedDay(cluster, f"e2e.speculated_{seed}")
    places = Places(tmp_path / "places", drawn.random.choice(("rows", "staging", "staged")), FIRST)
    driver.ask(asked(day, drawn, places, files=False, tasks=4))
    second = drawn.random.choice(("rows", "staging", "staged"))
    try:
        wait_until(lambda: places.passed(f"{second}-0-1"))
    finally:
        places.go()
        told = driver.told()
    check_acknowledged(running, day, drawn, told)
