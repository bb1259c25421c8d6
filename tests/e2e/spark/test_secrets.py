"""What Spark shows, logs and keeps of a job holds no password, and no login that would still be accepted."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.client.cluster import Cluster, connect
from leasehold.errors import Unauthenticated
from leasehold.ids import LoginToken
from tests.e2e.cluster import RunningCluster

pytestmark = [pytest.mark.spark, pytest.mark.processes, pytest.mark.timeout(300)]

PASSWORD = "of-the-reader-and-nobody-else"
HEX_128 = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")


def test_a_job_shows_logs_and_keeps_no_secret(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    with RunningCluster.start(tmp_path / "cluster", nodes=1, tls=True) as made:
        with made.connect() as nobody:
            nobody.sql("CREATE USER root PASSWORD 'root'")
        with connect(made.directory, user="root", password="root") as root:
            root.sql("CREATE DATABASE d")
            root.sql("CREATE TABLE d.t (a BIGINT)")
            root.sql("CREATE VIEW d.v AS SELECT a FROM d.t")
            root.sql(f"CREATE USER u PASSWORD '{PASSWORD}'")
            root.sql("GRANT SELECT, INSERT ON DATABASE d TO u")
        job = Path(__file__).with_name("secrets_job.py")
        arguments = [sys.executable, str(job), str(made.directory), "u", PASSWORD, str(events)]
        ran = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=200)
        assert ran.returncode == 0, ran.stderr[-4_000:]
        kept = {str(one): one.read_text() for one in events.rglob("*") if one.is_file()}
        assert kept
        shown = {"output": ran.stdout, "log": ran.stderr, **kept}
        assert "DEBUG" in ran.stderr
        assert "physicalPlanDescription" in "".join(kept.values())
        for where, text in shown.items():
            assert PASSWORD not in text, where
            for one in set(HEX_128.findall(text)):
                with Cluster(made.directory, token=LoginToken(one)) as client, pytest.raises(Unauthenticated):
                    client.facts("d.t")
