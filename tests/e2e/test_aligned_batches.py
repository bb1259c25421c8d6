"""Arrow computes on what a scan hands out without a warning: its buffers are aligned."""

import subprocess
import sys
from pathlib import Path

import pytest

GROUPS = """
import sys
from pathlib import Path
import pyarrow as pa
from leasehold.client.append import stage
from leasehold.client.scan import read_plan
from tests.unit.node.cluster import cluster

with cluster(Path(sys.argv[1]), batch_rows=20_000) as made:
    made.create(("k", "BIGINT"), ("v", "STRING"), ("d", "DOUBLE"))
    for count in (1, 10, 1_000, 60_000):
        transaction = made.open()
        numbers = range(count)
        values = {"k": numbers, "v": [f"v{n % 7}" for n in numbers], "d": [n / 2 for n in numbers]}
        rows = pa.record_batch(values)
        made.commit(transaction, stage(made.facts(), transaction, [rows], made.catalog.revision))
    found = read_plan(made.plan()).read_all()
    grouped = found.group_by("v").aggregate([("k", "sum"), ("d", "max"), ("k", "count")])
    assert sum(grouped.column("k_count").to_pylist()) == 61_011
    joined = found.join(grouped, "v")
    assert joined.num_rows == 61_011
"""


@pytest.mark.processes
def test_group_by_on_a_scan_warns_of_nothing(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", GROUPS, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert ran.stderr == ""
    assert ran.returncode == 0
