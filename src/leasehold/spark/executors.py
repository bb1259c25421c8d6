"""Whether the executors of a cluster of Spark can open the files that a node has linked for the driver.

A job opens one link of each node in every executor. The path of a link holds 128 random bits, so it opens on the
file system of the node alone. A busy executor takes no task, so the job counts those that have answered. An executor
that comes later has shown nothing. So files are read on a cluster only for callers who ask for it
(docs/decisions/0063-executors-prove-that-they-see-the-files.md).
"""

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

TASKS_PER_CORE: Final = 2
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_SEEN: Final[set[tuple[str, frozenset[str], Path]]] = set()
"""The application, its members, and the folder of a node's links that all its executors see."""


def all_see(spark: SparkSession, folders: Iterable[Path]) -> bool:
    """Whether each executor that there is now can open a file in `folders`, one for each node."""
    context = spark.sparkContext
    known = context.applicationId, _members(spark)
    files = {one.parents[1]: next(one.iterdir()) for one in folders}
    unknown = {root: file for root, file in files.items() if (*known, root) not in _SEEN}
    if unknown:
        tasks = TASKS_PER_CORE * context.defaultParallelism
        tried = context.parallelize(range(tasks), tasks).map(partial(_try, tuple(unknown.values())))
        answers: list[tuple[tuple[str, int], bool]] = tried.collect()
        members = _members(spark)  # the job has waited for the first executor
        if not all(can for _, can in answers) or len({who for who, _ in answers}) < len(members) - 1:
            return False
        _SEEN.update((context.applicationId, members, root) for root in unknown)
    return True


def _members(spark: SparkSession) -> frozenset[str]:
    """The driver and the executors, each by its host and a port of its own."""
    context: Any = spark.sparkContext
    return frozenset(context._jsc.sc().getExecutorMemoryStatus().keys().mkString(",").split(","))


def _try(files: Iterable[Path], _: int) -> tuple[tuple[str, int], bool]:
    """Runs in a task: which executor it is, and whether all these can be opened."""
    try:
        for one in files:
            one.open("rb").close()
    except OSError:
        return _who(), False
    return _who(), True


def _who() -> tuple[str, int]:
    """The machine, and the process that has started this worker: each executor has one."""
    return BOOT_ID.read_text(), os.getppid()
