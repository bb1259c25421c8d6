"""Directories of nodes: what is in them, and how tests look after them and damage them."""

from glob import glob
from pathlib import Path
from typing import Any

import pyarrow as pa

from leasehold.client.cluster import Cluster
from leasehold.storage.local_links import FOLDER
from tests.e2e.command import Ran, leasehold
from tests.e2e.waiting import wait_until_whole

ROWS = 100
DELETED = 10


def make_tables(cluster: Cluster) -> None:
    """d.t on every node, in two segments; d.one on one node each, in two buckets."""
    cluster.sql("CREATE DATABASE d")
    cluster.sql("CREATE TABLE d.t (a BIGINT, b STRING) TBLPROPERTIES ('replication' = '2')")
    cluster.sql("CREATE TABLE d.one (a BIGINT) CLUSTERED BY (a) INTO 2 BUCKETS TBLPROPERTIES ('replication' = '1')")
    numbers = pa.array(range(ROWS), pa.int64())
    for _ in range(2):
        cluster.table("d.t").append(pa.table({"a": numbers, "b": numbers.cast(pa.string())}))
        cluster.table("d.one").append(pa.table({"a": numbers}))
    wait_until_whole(cluster)
    cluster.sql("ALTER TABLE d.t RENAME COLUMN b TO text")
    cluster.sql(f"DELETE FROM d.t WHERE a < {DELETED}")


def standalone(directory: Path, *words: str) -> Ran:
    return leasehold("node", "start", "--standalone", *words, directory=directory)


def shown(directory: Path) -> dict[str, Any]:
    return standalone(directory, "-o", "json").json()


def files(directory: Path, table: int) -> list[Path]:
    return sorted(directory.glob(f"segments/{table}/*/*.parquet"))


def table_ids(directory: Path) -> tuple[int, int]:
    """The ids of d.t and d.one."""
    ids = {one["name"]: one["id"] for one in shown(directory)["tables"]}
    return ids["d.t"], ids["d.one"]


def garble(path: Path) -> None:
    blob = bytearray(path.read_bytes())
    blob[len(blob) // 2] ^= 0xFF
    path.write_bytes(blob)


def links(cluster: Path) -> list[Path]:
    """Links of the sessions that are open on any node of a cluster that runs: sessions may end meanwhile."""
    # `Path.glob` raises if a folder goes while it looks (Python 3.11).
    return [cluster / one for one in glob(f"node-*/{FOLDER}/[0-9a-f]*/*/*", root_dir=cluster)]  # noqa: PTH207


def everything_below(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
