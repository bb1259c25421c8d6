"""A cluster of Spark beside one of Leasehold, with users: a master and two workers, and a server of Spark Connect."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

from leasehold.client.cluster import connect
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold
from tests.e2e.spark import bare_job, session_job
from tests.e2e.spark.session_job import SETTINGS
from tests.e2e.spark.spark_processes import SparkProcesses, start_master

pytestmark = [pytest.mark.spark, pytest.mark.processes, pytest.mark.timeout(900)]

PASSWORD = "of-the-one-who-writes"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """The user u may do everything with the tables and views of d."""
    with RunningCluster.start(tmp_path_factory.mktemp("standalone") / "cluster", nodes=2, tls=True) as made:
        with made.connect() as nobody:
            nobody.sql("CREATE USER root PASSWORD 'root'")
        with connect(made.directory, user="root", password="root") as root:
            root.sql("CREATE DATABASE d")
            root.sql(f"CREATE USER u PASSWORD '{PASSWORD}'")
            root.sql("GRANT SELECT, INSERT, DROP ON DATABASE d TO u")
            for name in ("classic", "connected"):
                root.sql(f"CREATE TABLE d.{name} (a BIGINT) CLUSTERED BY (a) INTO 2 BUCKETS")
                root.sql(f"CREATE VIEW d.{name}_view AS SELECT a, '{{a}}' AS word FROM d.{name} WHERE a >= 100")
        yield made


@pytest.fixture(scope="module")
def credentials(running: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("credentials") / "u.json"
    made = ["token", "create", "job", "--for", "u", "--to", str(file), "--user", "u"]
    assert leasehold(*made, directory=running.directory, LEASEHOLD_PASSWORD=PASSWORD).code == 0
    return file


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkProcesses]:
    with SparkProcesses(tmp_path_factory.mktemp("spark")) as made:
        yield made


@pytest.fixture(scope="module")
def master(processes: SparkProcesses, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a master with two workers that have a core each."""
    folders = [tmp_path_factory.mktemp(name) for name in ("worker-1", "worker-2")]
    return start_master(processes, folders)


def run_job(
    master: str, running: RunningCluster, credentials: Path, name: str, job: str = session_job.__name__, **more: str
) -> None:
    words = [sys.executable, "-m", job, master, str(running.directory), str(credentials), name]
    environment = {key: value for key, value in os.environ.items() if key not in {"SPARK_REMOTE", "SPARK_HOME"}} | more
    ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=800, env=environment)
    said = [line for line in ran.stderr.splitlines() if not line.lstrip().startswith("at ")]  # without the JVM's stack
    assert ran.returncode == 0, "\n".join([*said[:40], "..", *said[-40:]])
    if not master.startswith("sc://"):
        assert sum("in the clear" in line for line in said) == 1, "it is said once"


def test_a_driver_of_a_standalone_cluster(master: str, running: RunningCluster, credentials: Path) -> None:
    run_job(master, running, credentials, "d.classic")


def test_workers_without_the_package_say_what_they_lack(
    master: str, running: RunningCluster, credentials: Path, tmp_path: Path
) -> None:
    """The processes beside the driver have it. The workers have all that it needs."""
    python, packages = tmp_path / "python", Path(pyspark.__file__).parents[1]
    bare: str = sys._base_executable  # pyright: ignore[reportAttributeAccessIssue]
    python.write_text(
        "#!/bin/sh\n"
        "for last; do :; done\n"
        f'[ "$last" = pyspark.worker ] && PYTHONPATH={packages} exec {bare} "$@"\n'
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    with connect(running.directory, user="root", password="root") as root:
        root.sql("CREATE TABLE d.bare (a BIGINT)")
        root.table("d.bare").append(pa.table({"a": [1, 2]}))
        run_job(master, running, credentials, "d.bare", bare_job.__name__, PYSPARK_PYTHON=str(python))
        assert root.table("d.bare").scan().read_all().num_rows == 2


def test_a_client_of_spark_connect(
    master: str, processes: SparkProcesses, running: RunningCluster, credentials: Path
) -> None:
    settings = {**SETTINGS, "spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": "0"}
    words = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    kind = "org.apache.spark.sql.connect.service.SparkConnectServer"
    processes.start("connect", "org.apache.spark.deploy.SparkSubmit", "--master", master, *words, "--class", kind, "x")
    port = processes.said("connect", r"Spark Connect server started at: \S*:([0-9]+)")
    run_job(f"sc://127.0.0.1:{port}", running, credentials, "d.connected")
