"""What Spark shows, logs and keeps of a job holds no password, no token, and no login that would still be accepted."""

import base64
import contextlib
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from leasehold.client.cluster import Cluster, connect
from leasehold.client.credentials import CREDENTIALS_VARIABLE, find_credentials
from leasehold.client.locate import COORDINATOR
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.records import LoginRecord
from leasehold.errors import Unauthenticated
from leasehold.ids import LoginToken
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold
from tests.e2e.node_directories import links

pytestmark = [pytest.mark.spark, pytest.mark.processes, pytest.mark.timeout(500)]

PASSWORD = "of-the-reader-and-nobody-else"
FRAMES = 4
"""What the job reads; it also writes."""
HEX_128 = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
PICKLED = re.compile(r"j[A-Za-z0-9+/]+={0,2}")


def delegated_logins(directory: Path) -> tuple[int, int]:
    """How many delegated logins the meta storage of a coordinator that has ended tells of, and how many are left."""
    query = "SELECT key, value FROM kv WHERE key >= ? AND key < ? ORDER BY revision"
    with contextlib.closing(sqlite3.connect(directory / "meta.db")) as connection:
        rows = connection.execute(query, (keys.LOGINS, keys.LOGINS + b"~")).fetchall()
    limited = {key for key, value in rows if value is not None and decode_record(LoginRecord, value).limits is not None}
    newest = dict(rows)
    return len(limited), sum(newest[key] is not None for key in limited)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """With a user u who may read and write d.t."""
    with RunningCluster.start(tmp_path_factory.mktemp("secrets") / "cluster", nodes=1, tls=True) as running:
        with running.connect() as nobody:
            nobody.sql("CREATE USER root PASSWORD 'root'")
        with connect(running.directory, user="root", password="root") as root:
            root.sql("CREATE DATABASE d")
            root.sql("CREATE TABLE d.t (a BIGINT)")
            root.table("d.t").append(pa.table({"a": [0]}))
            root.sql("CREATE VIEW d.v AS SELECT a FROM d.t")
            root.sql(f"CREATE USER u PASSWORD '{PASSWORD}'")
            root.sql("GRANT SELECT, INSERT ON DATABASE d TO u")
        yield running
    opened, left = delegated_logins(running.directory / COORDINATOR)
    assert opened > FRAMES
    assert left == 0, "they end with the application"


def told_by_job(made: RunningCluster, events: Path, *login: str, **variables: str) -> dict[str, str]:
    """What the job shows, logs and keeps, by its place."""
    events.mkdir()
    job = Path(__file__).with_name("secrets_job.py")
    arguments = [sys.executable, str(job), str(made.directory), str(events), *login]
    environment = os.environ | variables
    ran = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=400, env=environment)
    assert ran.returncode == 0, ran.stderr[-4_000:]
    assert "/local/" in ran.stdout, "a frame has read files"
    assert not links(made.directory), "the job has taken its links away"
    kept = {str(one): one.read_text() for one in events.rglob("*") if one.is_file()}
    assert kept
    assert "DEBUG" in ran.stderr
    assert "process ['" in ran.stdout
    assert "physicalPlanDescription" in "".join(kept.values())
    return {"output": ran.stdout, "log": ran.stderr, **kept}


def accepts_no_login_of(made: RunningCluster, text: str) -> None:
    for one in set(HEX_128.findall(text)):
        with Cluster(made.directory, token=LoginToken(one)) as client, pytest.raises(Unauthenticated):
            client.facts("d.t")


def test_a_job_shows_logs_and_keeps_no_secret(made: RunningCluster, tmp_path: Path) -> None:
    for where, text in told_by_job(made, tmp_path / "events", "u", PASSWORD).items():
        assert PASSWORD not in text, where
        accepts_no_login_of(made, text)


@pytest.mark.long  # a second job; test_users.py shows that no token travels
def test_with_a_file_of_credentials_there_is_no_secret_in_what_python_sends_to_java(
    made: RunningCluster, tmp_path: Path
) -> None:
    """py4j logs it at DEBUG, pickled objects in Base64."""
    file = tmp_path / "u.json"
    made_token = ["token", "create", "job", "--for", "u", "--to", str(file), "--user", "u"]
    assert leasehold(*made_token, directory=made.directory, LEASEHOLD_PASSWORD=PASSWORD).code == 0
    credentials = find_credentials(file)
    assert credentials is not None
    told = told_by_job(made, tmp_path / "events", **{CREDENTIALS_VARIABLE: str(file)})
    sent = "".join(decoded(told["log"]))
    assert "LeaseholdSource" in sent, "the pickled source is in there"
    for where, text in (*told.items(), ("pickled", sent)):
        assert credentials.token not in text, where
        assert PASSWORD not in text, where
        accepts_no_login_of(made, text)


def decoded(log: str) -> Iterator[str]:
    """What is in Base64 in the commands of py4j: a `j` stands before it, on a line of its own."""
    for line in log.splitlines():
        if PICKLED.fullmatch(line):
            yield base64.b64decode(line[1:]).decode(errors="replace")
