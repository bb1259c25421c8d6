"""Spark over several hosts, on a cluster with TLS and users: each task reaches the nodes, and nothing that would let
anybody in lies around or passes by in the clear."""

import json
import sys
from pathlib import Path

import pytest

from leasehold.certificates.files import CA
from leasehold.client.trust import TLS_FOLDER
from tests.netns.cluster import CLIENT, COORDINATOR
from tests.netns.run import run
from tests.netns.sniffer import Sniffer
from tests.netns.spark_cluster import MASTER, MASTER_PORT, SECRET, WORKERS, SparkCluster

pytestmark = [pytest.mark.spark, pytest.mark.processes, pytest.mark.long, pytest.mark.timeout(600)]  # six JVMs

PASSWORD, WORD = "zz-of-the-job", "zz-a-word-in-a-row-"
LEASEHOLD = (sys.executable, "-m", "leasehold.cli.main")


def set_up(cluster: SparkCluster, credentials: Path) -> str:
    """A table, a user with a password, and a file of credentials; answers the token in it."""
    cluster.run("CREATE DATABASE d")
    columns = "(id BIGINT, host STRING, word STRING) CLUSTERED BY (id) INTO 4 BUCKETS"
    cluster.run(f"CREATE TABLE d.t {columns} TBLPROPERTIES ('replication' = '2')")
    cluster.run(f"CREATE USER u PASSWORD '{PASSWORD}'")
    words = ("token", "create", "job", "--for", "u", "--to", str(credentials), "--dir", cluster.address(COORDINATOR))
    authorities = str(cluster.directory / TLS_FOLDER / CA)
    variables = {"LEASEHOLD_USER": "u", "LEASEHOLD_PASSWORD": PASSWORD, "LEASEHOLD_TLS": authorities}
    run(cluster.hosts[CLIENT], *LEASEHOLD, *words, variables=variables)
    return json.loads(credentials.read_text())["token"]


def test_tasks_on_two_hosts_append_and_scan_and_no_secret_is_left_or_seen(
    namespaces_available: None, tmp_path: Path
) -> None:
    credentials, events = tmp_path / "u.json", tmp_path / "events"
    events.mkdir()
    with SparkCluster(tmp_path / "cluster") as cluster:
        token = set_up(cluster, credentials)
        with Sniffer(cluster.hosts.router) as sniffer:
            cluster.start_spark()
            kept = {
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": events.as_uri(),
                "spark.eventLog.compress": "false",
                "spark.leasehold.credentials": str(credentials),
            }
            given = {"master": cluster.master(), "table": "d.t", "word": WORD, "user": "u", "password": PASSWORD}
            settings = json.dumps({**given, "settings": cluster.settings() | kept})
            shown = run(cluster.hosts[CLIENT], sys.executable, "-m", "tests.netns.spark_job", settings)
        hosts = {cluster.hosts[name].address for name in WORKERS}
        seen = json.loads(shown.splitlines()[-1])
        assert set(seen["wrote"]) == hosts
        assert set(seen["read"]) == hosts

        left = {str(one): one.read_bytes() for name in WORKERS for one in files(cluster.work_dir(name))}
        assert {Path(one).name for one in left} >= {"stdout", "stderr"}
        left |= {str(one): one.read_bytes() for one in (*files(events), *cluster.directory.glob("spark-*.log"))}
        assert any(b"physicalPlanDescription" in text for text in left.values())
        for where, text in (*left.items(), ("stdout", shown.encode())):
            for secret in (PASSWORD, token):
                assert secret.encode() not in text, where

    recorded = sniffer.recorded()
    assert any(way[3] == MASTER_PORT and stream for way, stream in recorded.streams), MASTER
    for secret in (PASSWORD, token, WORD, SECRET):
        assert not recorded.has(secret.encode()), secret


def files(folder: Path) -> list[Path]:
    return [one for one in folder.rglob("*") if one.is_file()]
