"""Certificates that count no more in a cluster of real processes: revoked ones, and those of a removed node."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from leasehold.client.cluster import Cluster, connect
from leasehold.client.locate import COORDINATOR, read_cluster_file
from leasehold.errors import LeaseholdError
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold
from tests.e2e.load import Load
from tests.e2e.waiting import wait_until, wait_until_whole

pytestmark = pytest.mark.processes

ROWS = 1_000


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster.start(tmp_path_factory.mktemp("revoked") / "cluster", nodes=2, tls=True) as one:
        with one.connect() as cluster:
            cluster.sql("CREATE DATABASE d")
            cluster.sql("CREATE TABLE d.t (a BIGINT) TBLPROPERTIES ('replication' = '2')")
            cluster.table("d.t").append(pa.table({"a": range(ROWS)}))
        yield one


def address(running: RunningCluster) -> str:
    return ",".join(read_cluster_file(running.directory).coordinators.values())


def authority(running: RunningCluster) -> Path:
    return running.directory / "tls" / "authority"


def rows(cluster: Cluster) -> int:
    return cluster.table("d.t").scan().read_all().num_rows


def serial(bundle: Path) -> str:
    return leasehold("ca", "show", str(bundle), "-o", "json").json()["certificates"][0]["serial"]


def revocation(running: RunningCluster, bundle: Path) -> str:
    """The statement, as the command of the authority says it."""
    number = serial(bundle)
    told = leasehold("ca", "revoke", str(authority(running)), number.upper(), "-o", "json").json()
    assert told["serial"] == number
    return told["statement"]


def test_a_client_whose_certificate_is_revoked_is_refused_everywhere(running: RunningCluster, tmp_path: Path) -> None:
    eve = tmp_path / "eve"
    assert leasehold("ca", "issue", str(authority(running)), "--client", "eve", "--to", str(eve)).code == 0
    with connect(address(running), tls=eve) as hers, running.connect() as owner:
        table = hers.table("d.t")
        plan = table.scan()
        assert rows(hers) == ROWS
        owner.sql(revocation(running, eve))
        for ask in (lambda: hers.sql("SHOW NODES"), lambda: rows(hers), hers.status, plan.read_all):
            with pytest.raises(LeaseholdError) as caught:
                ask()
            assert caught.value.code == "CERTIFICATE_REVOKED"
        with pytest.raises(LeaseholdError):
            table.append(pa.table({"a": [1]}))
        assert rows(owner) == ROWS
        assert [row[0] for row in owner.sql("SHOW REVOKED CERTIFICATES").rows] == [serial(eve)]
        owner.sql(revocation(running, eve).replace("REVOKE", "UNREVOKE"))
        assert rows(hers) == ROWS


def test_the_book_of_an_authority_knows_what_it_has_issued(running: RunningCluster) -> None:
    told = leasehold("ca", "revoke", str(authority(running)), serial(running.directory / "tls" / "node-1"))
    assert "node node-1" in told.out
    assert "ALTER CLUSTER REVOKE CERTIFICATE" in told.out
    assert "no cluster knows of it yet" in told.err
    for wrong in ("1f", "no serial", ""):
        leasehold("ca", "revoke", str(authority(running)), wrong).refused(3, "NOT_FOUND", "ca show")


def test_a_node_whose_certificate_is_revoked_ends_and_the_other_serves(running: RunningCluster) -> None:
    with running.connect() as owner:
        statement = revocation(running, running.directory / "tls" / "node-2")
        owner.sql(statement)
        try:
            process = running.local.node("node-2")
            process.wait_until_gone()
            assert "CERTIFICATE_REVOKED" in process.last_words()
            assert rows(owner) == ROWS, "the other one has them all"
        finally:
            owner.sql(statement.replace("REVOKE", "UNREVOKE"))
    running.restart("node-2")


def test_only_a_coordinator_or_a_client_with_a_certificate_founds_a_cluster(running: RunningCluster) -> None:
    for shown, code in (
        ("node-1", "NOT_THIS_NODE"),
        ("coordinator", "INITIALISED"),
        ("client", "INITIALISED"),
    ):
        leasehold("init", address(running), LEASEHOLD_TLS=str(running.directory / "tls" / shown)).refused(3, code)


def test_a_recovered_cluster_goes_on_with_its_certificates(tmp_path: Path) -> None:
    with RunningCluster.start(tmp_path / "cluster", nodes=1, tls=True) as small:
        with small.connect() as owner:
            owner.sql("CREATE DATABASE kept")
        small.stop()
        where = str(small.local.coordinator.directory)
        assert leasehold("recover", "--dir", where, "--longest-lease", "3s").code == 0
        small.local.up(1, 1, None, tls=True)
        small.wait_until_active()
        with small.connect() as owner:
            assert owner.sql("SHOW DATABASES").rows
        bundle = str(small.directory / "tls" / "node-1")
        leasehold("init", address(small), LEASEHOLD_TLS=bundle).refused(3, "NOT_THIS_NODE")


def test_a_removed_node_comes_back_as_another_with_a_new_certificate_alone(tmp_path: Path) -> None:
    with RunningCluster.start(tmp_path / "cluster", nodes=2, tls=True) as small:
        bundle = small.directory / "tls" / "node-2"
        old = serial(bundle)
        assert leasehold("node", "remove", "node-2", "--force", directory=small.directory).code == 0
        wait_until(lambda: small.local.node("node-2").running() is None)
        empty = ["--dir", str(tmp_path / "other"), "--coordinator", address(small), "--restart", "never"]
        again = leasehold("node", "start", "--name", "node-2", "--tls", str(bundle), *empty)
        again.refused(3, "CERTIFICATE_REVOKED", "ca issue")
        assert leasehold("node", "reset", "--dir", str(small.directory / "node-2"), "--yes").code == 0
        small.local.up(2)
        small.wait_until_active()
        assert serial(bundle) != old
        with small.connect() as cluster:
            assert [(node.id, node.name) for node in cluster.status().nodes] == [(1, "node-1"), (3, "node-2")]


def test_nodes_that_are_removed_and_revoked_under_load_cost_no_call(tmp_path: Path) -> None:
    with RunningCluster.start(tmp_path / "cluster", nodes=4, tls=True) as small, small.connect() as cluster:
        cluster.sql("CREATE DATABASE d")
        copies = "TBLPROPERTIES ('replication' = '3')"
        cluster.sql(f"CREATE TABLE d.t (a BIGINT) CLUSTERED BY (a) INTO 8 BUCKETS {copies}")
        with small.connect() as other, Load(other, "ALTER TABLE d.t SET TBLPROPERTIES ('round' = '{}')".format) as load:
            assert load.goes_on()
            assert leasehold("node", "remove", "node-4", directory=small.directory).code == 0
            wait_until(lambda: small.local.node("node-4").running() is None)
            assert load.goes_on()
            wait_until_whole(cluster)
            cluster.sql(revocation(small, small.directory / "tls" / "node-3"))
            small.local.node("node-3").wait_until_gone()
            assert load.goes_on()
        assert cluster.table("d.t").scan().read_all().num_rows == load.rows


def test_a_cluster_with_tls_is_recovered_with_what_was_revoked(tmp_path: Path) -> None:
    with RunningCluster.start(tmp_path / "cluster", nodes=1, tls=True) as small:
        with small.connect() as cluster:
            cluster.sql("CREATE DATABASE kept")
            cluster.sql("ALTER CLUSTER REVOKE CERTIFICATE '1f'")
        small.stop()
        recovered = leasehold("recover", "--dir", str(small.local.coordinator.directory))
        assert recovered.code == 0, recovered.err
        small.local.start(COORDINATOR)
        with small.connect() as cluster:
            assert [row[0] for row in cluster.sql("SHOW DATABASES").rows] == ["kept"]
            assert cluster.sql("SHOW REVOKED CERTIFICATES").rows == (("1f",),)
