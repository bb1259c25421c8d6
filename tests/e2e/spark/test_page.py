"""The examples of docs/spark.md, in the order in which a reader meets them, in the session of these tests."""

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import leasehold.spark
from leasehold.client.cluster import Cluster
from tests.e2e.cluster import RunningCluster
from tests.e2e.pages import blocks

pytestmark = pytest.mark.spark


def test_the_examples_of_the_page(
    spark: SparkSession, running: RunningCluster, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.sql("CREATE DATABASE nyc")
    cluster.sql("CREATE TABLE nyc.weather (origin STRING, day DATE, temp DOUBLE)")
    days = [dt.date(2013, month, 15) for month in (5, 6, 6, 7)]
    rows = pa.table({"origin": ["JFK", "JFK", "LGA", "JFK"], "day": days, "temp": [1.0, 2.0, 3.0, 4.0]})
    cluster.table("nyc.weather").append(rows)
    (tmp_path / "leasehold-data").symlink_to(running.directory)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(leasehold.spark, "session", lambda *_, **__: spark)
    names: dict[str, Any] = {}
    for language, text in blocks("docs/spark.md"):
        assert language in {"python", "text"}
        if language == "python":
            exec(text, names)
    assert names["frame"].count() == 5
    assert leasehold.spark.table(spark, "nyc.weather").count() == 8, "all rows once more, but those of a day"
    assert leasehold.spark.table(spark, "nyc.weather", as_of=names["revision"]).count() == 5
    assert leasehold.spark.table(spark, "nyc.weather", as_of=names["noted"]).count() == 5
