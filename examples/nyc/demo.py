"""The whole story in two minutes: a cluster, real data through Spark, and schema changes while nodes fail.

Progress goes to stderr; the last line on stdout is one JSON object, and the exit code is 0 only if all of it held.
"""

import argparse
import contextlib
import hashlib
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pipeline import FLIGHTS, STATEMENTS, WEATHER, delays, load, read, source_files
from pyarrow import csv

import leasehold
import leasehold.spark
from leasehold.cli.output import note, say
from leasehold.local.processes import LocalCluster

MARKER = "leasehold-demo"
"""The file by which the demo knows a directory as its own: it deletes what an earlier run left, and nothing else."""

TABLES = {"nyc.weather": ("weather", WEATHER), "nyc.flights": ("flights", FLIGHTS)}


class Demo:
    """One run in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.cluster_directory = directory / "cluster"
        self.report: dict[str, Any] = {"tables": {}, "ddl": [], "stale_serves": None, "leader_killed": None}
        self.failures: list[str] = []
        self.began = time.monotonic()

    # ------------------------------------------------------------ small parts

    def step(self, what: str) -> None:
        note(f"[{time.monotonic() - self.began:5.1f} s] {what}")

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            self.failures.append(what)
            note(f"FAILED: {what}")

    def cli(self, *arguments: str, directory: Path | None = None) -> Any:
        """Runs `leasehold ..  -o json`; what it says on stderr (a countdown, a hint) is shown as it comes."""
        command = [sys.executable, "-m", "leasehold.cli.main", *arguments]
        command += ["--dir", str(directory or self.cluster_directory), "-o", "json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"`leasehold {' '.join(arguments)}` ended with exit code {done.returncode}")
        return json.loads(done.stdout)

    def ddl(self, statement: str, fault: str) -> None:
        """Runs a statement while something is wrong, and holds it against its bound."""
        self.step(f"{statement}   ({fault})")
        receipt = self.cli("sql", statement)
        settled = ", ".join(f"{one['node']} {one['how']} {one['ms']:.0f} ms" for one in receipt["settled"])
        note(f"          {receipt['outcome']} in {receipt['elapsed_ms']:.0f} ms: {settled}")
        self.check(receipt["outcome"] == "COMMITTED", f"{statement}: {receipt['outcome']}")
        self.check(receipt["elapsed_ms"] <= receipt["bound_ms"], f"{statement}: over its bound")
        row = {key: receipt[key] for key in ("statement", "elapsed_ms", "bound_ms")}
        self.report["ddl"].append({"statement": row.pop("statement"), "fault": fault, **row})

    # ------------------------------------------------------------ the story

    def run(self) -> None:
        self.step("starting a coordinator and three nodes")
        self.cli("up", "--nodes", "3", "--detach")
        with leasehold.connect(self.cluster_directory) as cluster:
            for statement in STATEMENTS:
                cluster.sql(statement)
            self.step("starting Spark")
            spark = leasehold.spark.session("nyc", cluster=str(self.cluster_directory))
            files = source_files(self.directory)
            for table, (name, columns) in TABLES.items():
                loaded = load(read(spark, files[name], columns), table, str(self.cluster_directory))
                self.step(f"loaded {loaded} rows into {table}")
                self.report["tables"][table] = {"loaded": loaded, "read_back": None}
            expected = self.ask(spark, show=True)
            self.fail_and_alter(spark, expected)
            self.compare_with_the_source(cluster, files)
        verified = self.cli("verify")
        self.step(f"{verified['batches']} batches checked against {verified['statements']} statements")
        self.report["stale_serves"] = verified["stale_serves"]
        self.check(verified["batches"] > 0, "no batch was logged, so none was checked")
        self.check(verified["stale_serves"] == 0, "a stale batch was served")
        spark.stop()

    def kill_the_leader(self, directory: Path) -> None:
        """The last act, on a cluster of its own: the leader of three is killed, and a statement ends all the same."""
        self.step("starting three coordinators, the store that they share, and a node")
        self.cli("up", "--coordinators", "3", "--nodes", "1", "--detach", directory=directory)
        try:
            self.cli("sql", "CREATE DATABASE d", directory=directory)
            killed = self.leader(directory)
            self.cli("chaos", "kill", killed, directory=directory)
            self.step(f"CREATE TABLE d.t (a INT)   ({killed} led, and is killed)")
            began = time.monotonic()
            receipt = self.cli("sql", "CREATE TABLE d.t (a INT)", directory=directory)
            waited_ms = round((time.monotonic() - began) * 1000)
            leads = self.leader(directory)
            note(f"          {receipt['outcome']} after {waited_ms} ms; {leads} leads now")
            self.check(receipt["outcome"] == "COMMITTED", f"a statement without a leader: {receipt['outcome']}")
            self.check(leads != killed, f"{killed} was killed and leads")
            self.report["leader_killed"] = {"killed": killed, "leads": leads, "waited_ms": waited_ms}
        finally:
            self.cli("down", directory=directory)

    def leader(self, directory: Path) -> str:
        shown = self.cli("sql", "SHOW COORDINATORS", directory=directory)
        coordinators = [dict(zip(shown["columns"], row, strict=True)) for row in shown["rows"]]
        return next(one["name"] for one in coordinators if one["role"] == "LEADER")

    def ask(self, spark: Any, *, show: bool) -> list[Any]:
        """The query over both tables; its result is printed and plotted the first time, from the files of the nodes.
        Later it is asked over Flight: if a node ends, a scan goes on at another one."""
        local = "auto" if show else False
        flights, weather = (
            leasehold.spark.table(spark, f"nyc.{name}", columns=["origin", "time_hour", *columns], local=local)
            for name, columns in (("flights", ["dep_delay"]), ("weather", ["wind_speed", "visib"]))
        )
        answer = delays(flights, weather)
        rows = answer.collect()
        if show:
            self.step("departure delay by wind and visibility")
            say(f"{'visibility':>14} {'wind mph':>9} {'flights':>8} {'mean delay, min':>16}")
            for row in rows:
                say(f"{row.visibility:>14} {row.wind_mph:>9} {row.flights:>8} {row.mean_delay_min:>16}")
            plot(rows, self.directory / "delay_by_weather.png")
            self.step(f"plot saved to {self.directory / 'delay_by_weather.png'}")
        return rows

    def fail_and_alter(self, spark: Any, expected: list[Any]) -> None:
        """Two faults, two schema changes, with the query running all the while."""
        with self.querying(spark, expected):
            self.cli("chaos", "kill", "node-2")
            self.ddl("ALTER TABLE nyc.flights ADD COLUMN gate STRING", "node-2 killed")
            self.cli("chaos", "start", "node-2")
            LocalCluster(self.cluster_directory).wait_until_active("node-2")
            self.step("node-2 is ACTIVE again")
            self.cli("chaos", "pause", "node-3")
            self.ddl("DROP TABLE nyc.scratch", "node-3 paused")
            self.cli("chaos", "resume", "node-3")
            LocalCluster(self.cluster_directory).wait_until_active("node-3")
            self.step("node-3 is ACTIVE again")

    @contextlib.contextmanager
    def querying(self, spark: Any, expected: list[Any]) -> Generator[None]:
        """Asks the question again and again in the background; every answer must be the first one."""
        stop = threading.Event()
        asked = 0

        def work() -> None:
            nonlocal asked
            while not stop.is_set():
                self.check(self.ask(spark, show=False) == expected, "a query gave another answer")
                asked += 1

        thread = threading.Thread(target=self.guarded(work))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            self.step(f"the query ran {asked} times meanwhile")
            self.check(asked > 0, "no query ran meanwhile")

    def guarded(self, work: Any) -> Any:
        def run() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - whatever broke the query fails the demo, with its reason
                self.check(False, f"a query failed: {str(error)[:500]}")

        return run

    def compare_with_the_source(self, cluster: leasehold.Cluster, files: dict[str, Path]) -> None:
        """Reads every row back, past Spark, and compares counts and checksums with the files it came from."""
        for table, (name, columns) in TABLES.items():
            stored = cluster.table(table).scan(columns=list(columns)).read_all()
            source = read_csv(files[name], stored.schema)
            self.report["tables"][table]["read_back"] = stored.num_rows
            self.check(stored.num_rows == source.num_rows, f"{table}: {stored.num_rows} of {source.num_rows} rows")
            ours, theirs = checksum(stored), checksum(source)
            self.check(ours == theirs, f"{table}: checksum {ours[:12]}, source {theirs[:12]}")
            self.step(f"{table}: {stored.num_rows} rows read back, checksum {ours[:12]} as the source")


def read_csv(path: Path, schema: pa.Schema) -> pa.Table:
    """A source file, read without Spark, in the stored schema."""
    options = csv.ConvertOptions(
        column_types={field.name: field.type for field in schema},
        null_values=["NA"],
        strings_can_be_null=True,
        include_columns=schema.names,
        timestamp_parsers=["%Y-%m-%dT%H:%M:%SZ", csv.ISO8601],
    )
    return csv.read_csv(path, convert_options=options)


def checksum(table: pa.Table) -> str:
    """SHA-256 over all rows in sorted order: the same rows give the same sum, whatever order they lie in."""
    order = [(name, "ascending") for name in table.schema.names]
    ordered = table.sort_by(order).combine_chunks()
    digest = hashlib.sha256()
    for name in ordered.schema.names:
        column = ordered[name].cast(pa.string()) if not pa.types.is_floating(ordered[name].type) else ordered[name]
        for value in column.to_pylist():
            digest.update(repr(value).encode())
    return digest.hexdigest()


def plot(rows: list[Any], path: Path) -> None:
    """Mean delay over wind, a line per visibility."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    for visibility in sorted({row.visibility for row in rows}):
        line = [row for row in rows if row.visibility == visibility and row.flights >= 30]
        axes.plot([row.wind_mph for row in line], [row.mean_delay_min for row in line], "o-", label=visibility)
    axes.set_xlabel("wind, miles per hour")
    axes.set_ylabel("mean departure delay, minutes")
    axes.set_title("Flights out of New York, 2013")
    axes.legend(title="visibility")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def prepare(directory: Path) -> None:
    """An empty directory with the demo's marker. Ends the program with exit code 2 if it holds anything not ours."""
    marker = directory / MARKER
    if directory.exists() and not marker.is_file() and not (directory.is_dir() and not any(directory.iterdir())):
        note(f"error [BAD_DIRECTORY]: {directory} was not left by an earlier demo, so it is not deleted")
        note("hint: choose a new or empty directory with --dir")
        raise SystemExit(2)
    for name in ("cluster", "several"):
        if (directory / name / "cluster.json").exists():
            LocalCluster(directory / name).down()
    if marker.is_file():
        for entry in directory.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry != marker:  # until all else is gone: a run that is cut off here must know it again
                entry.unlink()
    directory.mkdir(parents=True, exist_ok=True)
    marker.write_text("Made by examples/nyc/demo.py, which empties this directory when it runs again.\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path("demo-output"), help="where the run leaves its files")
    directory = parser.parse_args().dir.absolute()
    prepare(directory)
    demo = Demo(directory)
    try:
        demo.run()
    finally:
        if (demo.cluster_directory / "cluster.json").exists():
            demo.cli("down")
    demo.kill_the_leader(directory / "several")
    for failure in demo.failures:
        note(f"FAILED: {failure}")
    say(json.dumps(demo.report))
    return 1 if demo.failures else 0


if __name__ == "__main__":
    sys.exit(main())
