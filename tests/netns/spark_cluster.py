"""A cluster, and Spark beside it: a standalone master and two workers, each on a host of its own. The driver is on the
client's host. Spark's network is authenticated and encrypted, as docs/operations.md says for a network of others."""

import os
import re
from pathlib import Path
from typing import Final

import pyspark

from tests.netns.cluster import CLIENT
from tests.netns.gossiping import GossipingCluster
from tests.netns.remote import wait_until

MASTER: Final = "spark-master"
WORKERS: Final = ("spark-worker-1", "spark-worker-2")
MASTER_PORT: Final = 7077
HOST_VARIABLE: Final = "SPARK_LOCAL_IP"
"""Executors and their Python workers have it from the worker that started them, so tasks know where they run."""
SPARK_CLASS: Final = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
SMALL: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
SECRET: Final = "zz-the-secret-of-spark"
PRIVATE: Final = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": SECRET,
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
}
"""Settings of all that is Spark's: nobody else takes part, and nobody else reads what passes."""


class SparkCluster(GossipingCluster):
    """A context manager; `start_spark` comes after it."""

    nodes = ("node-1", "node-2")
    beside = (MASTER, *WORKERS)

    @property
    def _file(self) -> Path:
        return self.directory / "spark-defaults.conf"

    def start_spark(self) -> None:
        """Starts the master and its workers, and waits until the workers have registered."""
        self._file.write_text("".join(f"{key} {value}\n" for key, value in PRIVATE.items()))
        self._start_daemon(MASTER, "master.Master", "--port", str(MASTER_PORT), "--webui-port", "8080")
        for name in WORKERS:
            words = ("--cores", "1", "--memory", "1g", "--work-dir", str(self.work_dir(name)))
            self._start_daemon(name, "worker.Worker", *words, "--webui-port", "8081", self.master())
        log = self.directory / f"{MASTER}.log"
        registered = re.compile(r"Registering worker (\S+):")  # a slow worker asks again

        def all_registered() -> bool:
            return set(registered.findall(log.read_text())) == {self.hosts[name].address for name in WORKERS}

        wait_until(all_registered, said=log.read_text, seconds=120)

    def _start_daemon(self, name: str, kind: str, *words: str) -> None:
        host = self.hosts[name].address
        variables = {
            HOST_VARIABLE: host,
            "PYTHONPATH": f"{self._without_pandas()}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": SMALL,
        }
        environment = [f"{key}={value}" for key, value in variables.items()]
        command = [SPARK_CLASS, f"org.apache.spark.deploy.{kind}", "--properties-file", str(self._file)]
        self._spawn(name, "env", *environment, *command, "--host", host, *words)

    def _without_pandas(self) -> Path:
        """A folder in front of the packages of executors: they need Leasehold, which comes without pandas."""
        folder = self.directory / "without-pandas"
        folder.mkdir(exist_ok=True)
        (folder / "pandas.py").write_text('raise ImportError("this machine has no pandas")\n')
        return folder

    def master(self) -> str:
        return f"spark://{self.hosts[MASTER].address}:{MASTER_PORT}"

    def work_dir(self, worker: str) -> Path:
        """Where a worker keeps the output of its executors."""
        return self.directory / worker

    def settings(self) -> dict[str, str]:
        """Of the driver, which gives them to its executors."""
        driver = self.hosts[CLIENT].address
        return {
            **PRIVATE,
            "spark.driver.host": driver,
            "spark.driver.bindAddress": driver,
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": SMALL,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": SMALL,
            "spark.executor.cores": "1",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
            "spark.cores.max": str(len(WORKERS)),
            "spark.sql.shuffle.partitions": "2",
        }
