"""Tokens, files of credentials and certificates that log in, on a cluster of real processes with TLS."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from leasehold.certificates.files import CA
from leasehold.client.cluster import Cluster, connect
from leasehold.core.words.messages import Rows
from leasehold.errors import Forbidden, Unauthenticated, WrongUserToken
from leasehold.limits.clients import SCAN_STREAMS
from leasehold.wire.addresses import next_port
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold
from tests.e2e.test_tls import Tap, address

pytestmark = pytest.mark.processes

ROOT = {"LEASEHOLD_USER": "root", "LEASEHOLD_PASSWORD": "of root"}
APPENDS = SCAN_STREAMS + 1


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster.start(tmp_path_factory.mktemp("tokens") / "cluster", nodes=2, tls=True) as one:
        with one.connect() as owner:
            owner.sql("CREATE DATABASE d")
            owner.sql("CREATE TABLE d.t (a BIGINT)")
            for _ in range(APPENDS):
                owner.table("d.t").append(pa.table({"a": range(300_000)}))
            owner.sql("CREATE USER root PASSWORD 'of root'")
        with as_root(one) as root:
            root.sql("CREATE USER ann PASSWORD 'of ann'")
            root.sql("GRANT SELECT ON TABLE d.t TO ann")
        yield one


def as_root(running: RunningCluster) -> Cluster:
    return connect(address(running), tls=running.directory / "tls" / CA, user="root", password="of root")


def made(running: RunningCluster, tmp_path: Path, name: str, *more: str) -> Path:
    file = tmp_path / f"{name}.json"
    create = ("token", "create", name, "--for", "ann", "--to", str(file), *more)
    assert leasehold(*create, directory=running.directory, **ROOT).code == 0
    return file


def test_a_file_of_credentials_is_all_that_a_program_needs(running: RunningCluster, tmp_path: Path) -> None:
    file = made(running, tmp_path, "nightly", "--expires", "30d")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    whole = json.loads(file.read_text())
    assert whole["ca"] == str(running.directory / "tls" / "client" / CA)
    with connect(credentials=file) as cluster:
        assert cluster.table("d.t").scan().read_all().num_rows == APPENDS * 300_000
        shown = cluster.sql("SHOW TOKENS")
        assert isinstance(shown, Rows)
        assert [row[:2] for row in shown.rows] == [("nightly", "ann")]
        assert whole["token"] not in str(shown)
        with pytest.raises(Forbidden, match="neither another password nor another token"):
            cluster.create_token("another", "ann")
    say = leasehold("--credentials", str(file), "sql", "SHOW TABLES IN d")
    assert (say.code, "| t" in say.out or " t " in say.out) == (0, True)
    assert leasehold("sql", "SELECT count(*) AS n FROM d.t", LEASEHOLD_CREDENTIALS=str(file)).code == 0
    again = leasehold("token", "create", "nightly", "--for", "ann", "--to", str(tmp_path / "x"), **at(running))
    again.refused(3, "ALREADY_EXISTS", "nightly")
    assert not (tmp_path / "x").exists(), "no file without its token"
    file.chmod(0o644)
    leasehold("sql", "SHOW TABLES", LEASEHOLD_CREDENTIALS=str(file)).refused(2, "BAD_CREDENTIALS", "0644")


def at(running: RunningCluster) -> dict[str, str]:
    return {**ROOT, "LEASEHOLD_DIR": str(running.directory)}


def test_a_dropped_token_ends_a_running_scan(running: RunningCluster, tmp_path: Path) -> None:
    file = made(running, tmp_path, "short")
    with as_root(running) as root, connect(credentials=file) as cluster:
        reader = cluster.table("d.t").scan()
        reader.read_next_batch()
        root.sql("DROP TOKEN short")
        with pytest.raises(Unauthenticated, match="this login has ended"):
            for _batch in reader:
                pass
        with pytest.raises(WrongUserToken):
            cluster.sql("SHOW TABLES")


def test_a_token_is_in_no_file_of_the_cluster_and_crosses_no_network_in_the_clear(
    running: RunningCluster, tmp_path: Path
) -> None:
    file = made(running, tmp_path, "secret")
    whole = json.loads(file.read_text())
    token = whole["token"].encode()
    with Tap(next_port(address(running))) as tap:
        file.write_text(json.dumps({**whole, "address": tap.address, "ca": str(running.directory / "tls" / CA)}))
        with connect(credentials=file) as cluster:
            cluster.sql("SHOW TABLES")
    with as_root(running) as root:
        for text in ("SHOW HISTORY", "SHOW TOKENS", "SHOW USERS"):
            assert token.decode() not in str(root.sql(text))
        root.sql("DROP TOKEN secret")
    assert len(tap.seen) > 1_000
    assert token not in tap.seen
    files = [one for one in running.directory.rglob("*") if one.is_file()]
    assert len(files) > 10
    assert [one for one in files if token in one.read_bytes()] == []


def test_a_certificate_logs_its_user_in_where_that_is_on(running: RunningCluster, tmp_path: Path) -> None:
    bundle, authority = tmp_path / "ann", str(running.directory / "tls" / "authority")
    assert leasehold("ca", "issue", authority, "--client", "ann", "--to", str(bundle)).code == 0
    with as_root(running) as root, connect(address(running), tls=bundle) as ann:
        with pytest.raises(Unauthenticated, match="no user ann logs in by a certificate"):
            ann.sql("SHOW TABLES")
        root.sql("ALTER USER ann SET CERTIFICATE ON")
        assert ann.table("d.t").scan(columns=[]).read_all().num_rows == APPENDS * 300_000
        root.sql("ALTER USER ann SET CERTIFICATE OFF")
        with pytest.raises(Unauthenticated):
            ann.sql("SHOW TABLES")
