"""`spark-pipelines` runs what docs/spark.md says of declarative pipelines."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.client.cluster import Cluster
from tests.documents import ROOT
from tests.e2e.cluster import RunningCluster

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def block(language: str) -> str:
    """The one block of the page in a language, which no other part of it has."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "docs/spark.md").read_text(), re.MULTILINE | re.DOTALL)
    return text


def temperatures(cluster: Cluster, name: str) -> list[float]:
    return sorted(cluster.table(name).scan(["temp"]).read_all()["temp"].to_pylist())


def test_flows_write_to_tables_and_follow_them(running: RunningCluster, cluster: Cluster, tmp_path: Path) -> None:
    cluster.sql("CREATE DATABASE flows")
    for name in ("weather", "warm"):
        cluster.sql(f"CREATE TABLE flows.{name} (origin STRING, day DATE, temp DOUBLE)")
    (tmp_path / "leasehold-data").symlink_to(running.directory)
    for path, language in (("spark-pipeline.yml", "yaml"), ("flows/weather.py", "py")):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        text = block(language).replace("/srv/weather", str(tmp_path)).replace("nyc.", "flows.")
        (tmp_path / path).write_text(text)
    (tmp_path / "incoming").mkdir()
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for number in range(3):
        if number < 2:
            rows = [f'{{"origin": "JFK", "day": "2013-06-1{number}", "temp": {temp + number}}}\n' for temp in (15, 25)]
            (tmp_path / f"incoming/{number}.json").write_text("".join(rows))
        done = subprocess.run(
            ["sh", "-c", block("sh")], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
        assert temperatures(cluster, "flows.weather") == ([15, 16, 25, 26] if number else [15, 25])
    # A flow that follows the table may look before the other one writes, so the last run is for it.
    assert temperatures(cluster, "flows.warm") == [25, 26]
