"""Lets Spark's Python workers be forked from processes that have imported their code: a test run starts more than a
hundred, and importing is nearly all of what one costs.

Each interpreter with this folder on its path runs this file when it starts. The file does something in `pyspark.daemon`
alone, whose argument is the module of its workers. Spark has a setting for another daemon, but uses it only for tasks.
In README.md and the bench, workers begin as users' do.
"""

import faulthandler
import gc
import importlib
import os
import signal
import sys
import threading

IMPORTED = ("leasehold.spark.source", "pandas", "pyarrow.flight")

if sys.orig_argv[-2:-1] == ["pyspark.daemon"]:
    stacks = open(os.environ["WORKER_STACKS"], "a")  # noqa: PTH123, SIM115 for as long as the process
    faulthandler.register(signal.SIGUSR1, stacks)
    for name in (sys.orig_argv[-1], *IMPORTED):
        importlib.import_module(name)
    # Those of numpy and of Arrow's allocator are native: both libraries mend themselves after a fork.
    assert threading.active_count() == 1, "a thread would be missing in what is forked"
    gc.freeze()
