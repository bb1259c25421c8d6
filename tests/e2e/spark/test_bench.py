"""The parts of the bench that need Spark run from end to end at their smallest size."""

import subprocess
import sys
from pathlib import Path

import pytest
from bench.results import kept

ROOT = Path(__file__).parents[3]
PARTS = ("spark", "reads", "writes", "commits", "peers", "fences")


@pytest.mark.long  # three more sessions of Spark; its other parts run in `make test`
@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.processes
def test_the_parts_with_spark_run_at_their_smallest_size(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "bench", *PARTS, "--smallest", "--results", str(tmp_path)]
    subprocess.run(words, cwd=ROOT, check=True, timeout=560)  # a session of its own, in a process of its own
    assert all(table.figures for part in PARTS for table in kept(part, tmp_path).tables)
