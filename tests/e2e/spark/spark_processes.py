"""Processes of Spark beside each other on this machine, as a standalone cluster has them."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import psutil
import pyspark

from leasehold.client.threads import THREADS
from leasehold.wire.clock import sleep_ns
from tests.e2e.spark.session_job import SMALL

SPARK_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
STARTS_NS = 200_000_000_000


class SparkProcesses:
    """Processes of Spark on this machine, each with a log; a context manager that ends them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *command: str) -> None:
        variables = {
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": SMALL,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        with self._log(name).open("wb") as log:
            self._started[name] = subprocess.Popen(
                [SPARK_CLASS, *command], stdout=log, stderr=log, env=os.environ | variables, start_new_session=True
            )

    def said(self, name: str, pattern: str, count: int = 1) -> str:
        """What the process has logged once it matches so often."""
        until_ns = THREADS.now_ns() + STARTS_NS
        while len(found := re.findall(pattern, self._log(name).read_text())) < count:
            assert self._started[name].poll() is None, self._log(name).read_text()
            assert THREADS.now_ns() < until_ns, self._log(name).read_text()
            sleep_ns(20_000_000)
        return str(found[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in reversed(self._started.values()):
            one.terminate()
        for one in self._started.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.wait(60)
            one.kill()
            one.wait()

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def executors(self) -> list[psutil.Process]:
        """The processes of Java that run tasks."""
        found: list[psutil.Process] = []
        for one in self._started.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                below = psutil.Process(one.pid).children(recursive=True)
                found.extend(each for each in below if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline()))
        return found


def start_master(processes: SparkProcesses, folders: Sequence[Path], hosts: Sequence[str] = ("127.0.0.1",) * 2) -> str:
    """The address of a master with workers that have a core and one of the `folders` each, at the `hosts`."""
    ports = ("--webui-port", "0")
    words = ("--host", "127.0.0.1", *ports, "--port", "0")
    processes.start("master", "org.apache.spark.deploy.master.Master", *words)
    address = processes.said("master", r"Starting Spark master at (spark://\S+)")
    for number, (folder, host) in enumerate(zip(folders, hosts, strict=True), 1):
        words = ("--host", host, *ports, "--cores", "1", "--memory", "1g", "--work-dir", str(folder), address)
        processes.start(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *words)
    processes.said("master", "Registering worker", count=len(folders))
    return address
