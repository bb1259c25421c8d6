"""Certificates, their authority and the cluster key are replaced while statements, scans and appends run.

No call fails, and no node stops serving.
"""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.local.process import Process
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold
from tests.e2e.load import Load
from tests.e2e.waiting import wait_until

COPIES = "ALTER TABLE d.t SET TBLPROPERTIES ('replication' = '{}')"
"""Has the nodes copy rows to each other."""
READ = "new connections use a certificate"
PROVES = "proving by the cluster key"
SERVES = "serving from revision"


def logged(running: RunningCluster, what: str) -> dict[str, int]:
    return {one.parent.name: one.read_text().count(what) for one in running.directory.glob("*/log")}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningCluster]:
    with RunningCluster.start(tmp_path / "cluster", nodes=2, tls=True) as one:
        with one.connect() as cluster:
            cluster.sql("CREATE DATABASE d")
            cluster.sql("CREATE TABLE d.t (a BIGINT)")
        yield one
        assert [logged(one, SERVES)[node] for node in one.names()] == [1, 1]


def taken(running: RunningCluster, what: str, times: int) -> None:
    """Has each process look at its files, and waits until each has said so often that it has taken something new."""
    for process in running.directory.glob("*/pid"):
        Process(process.parent).signal(signal.SIGHUP)
    wait_until(lambda: set(logged(running, what).values()) == {times})


def test_certificates_and_their_authority_are_replaced_under_load(running: RunningCluster, tmp_path: Path) -> None:
    tls, after = running.directory / "tls", tmp_path / "after"
    bundles = [one.parent for one in tls.glob("*/identity.pem")]
    assert len(bundles) == 4  # of two nodes, a coordinator and a client

    with running.connect() as cluster, Load(cluster, lambda number: COPIES.format(1 + number % 2)) as load:
        steps = (
            ("renew", tls / "authority", "BUNDLE"),
            ("trust", "BUNDLE", after / "ca.pem"),
            ("renew", after, "BUNDLE"),
            ("trust", "BUNDLE", after / "ca.pem", "--only"),
        )
        assert leasehold("ca", "init", str(after), "--successor-of", str(tls / "authority")).code == 0
        for number, step in enumerate(steps, 1):
            for bundle in bundles:
                ran = leasehold("ca", *(str(bundle if one == "BUNDLE" else one) for one in step))
                assert ran.code == 0, ran.err
            taken(running, READ, number)
            assert cluster.tls is not None
            assert cluster.tls.look()
            assert load.goes_on()


def test_the_cluster_key_is_replaced_under_load(running: RunningCluster, tmp_path: Path) -> None:
    file, following = running.directory / "cluster.key", tmp_path / "next.key"
    assert leasehold("cluster-key", str(following)).code == 0
    old, new = file.read_text().strip(), following.read_text().strip()
    with running.connect() as cluster, Load(cluster, lambda number: COPIES.format(1 + number % 2)) as load:
        for number, keys in enumerate(([old, new], [new, old], [new]), 1):
            scratch = running.directory / "new.key"
            scratch.touch(0o600)
            scratch.write_text("\n".join(keys))
            scratch.rename(file)
            taken(running, PROVES, number)
            assert load.goes_on()
            with running.connect() as other:  # it challenges the coordinator
                assert other.sql("SHOW DATABASES")
    rows = running.connect().sql("SHOW NODES")
    seen = rows.columns.index("seen")
    assert [row[seen] for row in rows.rows] == ["ALIVE", "ALIVE"]


def test_people_see_until_when_certificates_hold(running: RunningCluster) -> None:
    tls = running.directory / "tls"
    with running.connect() as cluster:
        for question in ("SHOW NODES", "SHOW COORDINATORS"):
            rows = cluster.sql(question)
            place = rows.columns.index("certificate")
            assert all(row[place] for row in rows.rows), rows
        assert not cluster.status().store_warnings
        for name in ("node-1", "coordinator"):
            assert leasehold("ca", "renew", str(tls / "authority"), str(tls / name), "--days", "3").code == 0
            Process(running.directory / name).signal(signal.SIGHUP)
        wait_until(lambda: len(cluster.status().store_warnings) == 2)
    shown = leasehold("status", directory=running.directory).out
    for name in ("node-1", "coordinator"):
        assert re.search(f"WARNING: the certificate of {name} ends in [23] days, at 20", shown), shown
