"""A driver of its own that runs the pipeline of examples/sensors, and kills itself and Java where it is told to.

Arguments: the cluster, the folder, the database, and perhaps a step and after how many milliseconds of it.
"""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import psutil
from examples.sensors.pipeline import Pipeline

from leasehold.client.cluster import connect
from leasehold.spark import session
from tests.e2e.spark.stream_job import SETTINGS

STEPS = ("ingest", "quarantine", "correct", "late", "roll_up")


def main(cluster: str, folder: str, database: str, step: str = "", after_ms: str = "0") -> None:
    def note(begins: str) -> None:
        if begins == step:
            timer = threading.Timer(int(after_ms) / 1000, kill)
            timer.daemon = True
            timer.start() if int(after_ms) else kill()

    spark = session("sensors", cluster=cluster, master="local[2]", **SETTINGS)
    with connect(cluster) as connection:
        Pipeline(spark, connection, Path(folder), database).run(note)


def kill() -> None:
    """SIGKILL, at once, for Java, the Python processes of Spark, and this one."""
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            one.kill()
    os.kill(os.getpid(), signal.SIGKILL)


def run(cluster: Path, folder: Path, database: str, *killed: object) -> subprocess.CompletedProcess[str]:
    """Runs this program, whose clock is that of New York."""
    words = [str(one) for one in (cluster, folder, database, *killed)]
    return subprocess.run(
        [sys.executable, "-m", "tests.e2e.spark.sensors_job", *words],
        env=os.environ | {"TZ": "America/New_York"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
